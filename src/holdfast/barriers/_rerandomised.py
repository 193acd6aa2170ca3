"""DPRandEnc: privately, an encryption of the bit that all rows encrypt (SIS Algorithm 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from holdfast import checks, rounding
from holdfast.barriers._goldwasser_micali import key_argument
from holdfast.barriers._number_theory import Coins, coins_argument, index_below, part
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.stability import DP

__all__ = ["Rerandomised", "dp_rand_enc", "dp_rand_enc_rows", "exact_privacy", "padding_for"]

_BY = "SIS Lemma 4.4"


@dataclass(frozen=True, repr=False)
class Rerandomised(Record):
    """A ciphertext and what it promises: ``guarantee`` for the rows, ``failure`` for the bit.

    ``guarantee`` holds for all rows whatever; ``failure`` bounds the chance that ``value`` encrypts the
    wrong bit when all rows encrypt one. How many rows passed verification is not here: that depends on the
    data.
    """

    value: int
    guarantee: DP
    failure: float
    padding: int
    rows: int


def padding_for(epsilon: float) -> int:
    """The least k with ln(1 + 1/k) ≤ ε."""
    if epsilon > math.log(2.0) + 1e-9:
        return 1
    padding = max(1, math.ceil(1.0 / math.expm1(epsilon)) - 1)
    while exact_privacy(padding).epsilon > epsilon:
        padding += 1
    return padding


def exact_privacy(padding: int) -> DP:
    """ε = ln(1 + 1/k) for k encryptions of each bit: attained, whatever the number of rows."""
    return DP(rounding.up(math.log1p(1.0 / padding)))


def dp_rand_enc(rows: Any, key: Any, *, epsilon: float, coins: Coins) -> Rerandomised:
    """A random encryption of the bit that the rows encrypt, ε-differentially private and efficient.

    Rows that are no encryptions are dropped, k encryptions of each bit are added, one of all is drawn and
    rerandomised; k is the least number with ln(1 + 1/k) ≤ ``epsilon``, and ``guarantee`` states that exact
    value.
    Guarantee: DP(ln(1 + 1/k)) when one row is replaced by anything, and for no smaller ε; if all m rows
    encrypt one bit, the answer encrypts the other with probability k/(m + 2k).
    Assumes: coins that stay secret (not checkable; a tape is shared, and then nothing is private).
    Reference: SIS Algorithm 4 and Lemma 4.4 (k = 1/ε, which is enough and not a whole number), Jacobi
    symbol checked.

    >>> import numpy as np
    >>> from holdfast.barriers import PrivateKey
    >>> key, rng = PrivateKey(7, 11, 6), np.random.default_rng(1)
    >>> answer = dp_rand_enc([6, 13, 24] * 20, key.public, epsilon=0.5, coins=rng)
    >>> key.decrypt(answer.value), answer.guarantee, answer.padding
    (1, DP(epsilon=0.405465, delta=0), 2)
    """
    of = "dp_rand_enc"
    epsilon = checks.real(epsilon, "epsilon", "[1e-6, inf)", of=of, by=_BY)
    key, coins = key_argument(key, of=of), coins_argument(coins, of=of)
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise InvalidArgument("rows", "a sequence of ciphertexts", "something else (not shown)", of=of)
    rows = list(rows)
    padding = padding_for(epsilon)
    valid = [row for row in rows if key.verify(row)]
    chosen = index_below(len(valid) + 2 * padding, part(coins, "choice"))
    if chosen < len(valid):
        ciphertext = valid[chosen]
    else:
        bit = int(chosen - len(valid) >= padding)
        ciphertext = key.encrypt(bit, part(coins, "padding"))
    return Rerandomised(
        value=key.rerandomise(ciphertext, part(coins, "rerandomise")),
        guarantee=exact_privacy(padding),
        failure=rounding.probability(padding / (len(rows) + 2 * padding)),
        padding=padding,
        rows=len(rows),
    )


def dp_rand_enc_rows(*, epsilon: float, beta: float) -> int:
    """The fewest rows with which ``dp_rand_enc`` gives the right bit except with probability ``beta``.

    Guarantee: the least m with k/(m + 2k) ≤ β.
    Assumes: nothing further.
    Reference: SIS Lemma 4.4, which asks 1/(εβ).

    >>> dp_rand_enc_rows(epsilon=0.5, beta=0.01)
    196
    """
    of = "dp_rand_enc_rows"
    epsilon = checks.real(epsilon, "epsilon", "[1e-6, inf)", of=of, by=_BY)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=_BY)
    padding = padding_for(epsilon)
    return max(1, math.ceil(padding / Fraction(beta) - 2 * padding))
