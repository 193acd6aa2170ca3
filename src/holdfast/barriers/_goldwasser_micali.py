"""Goldwasser and Micali's cryptosystem, and an algorithm that privately encrypts the bit of all rows.

A bit is hidden in whether a number is a square modulo N = pq. DPRandEnc (SIS Algorithm 4) returns an
encryption of the bit that all rows encrypt. Two solvers stand ready for the adversary of ``distinguish``:
one cheats by factoring a toy key, the other is the private algorithm.

For study, not for secrecy: keys and ciphertexts come from a simulation's generator, and nothing takes
constant time.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.records import Record
from holdfast.replicable import Tape
from holdfast.stability import DP, Replicability

__all__ = [
    "Coins",
    "FactoringSolver",
    "PrivateKey",
    "PrivateSolver",
    "PublicKey",
    "Rerandomised",
    "bit_argument",
    "coins_argument",
    "dp_rand_enc",
    "dp_rand_enc_rows",
    "exact_privacy",
    "generate_key",
    "index_below",
    "is_prime",
    "jacobi",
    "key_argument",
    "padding_for",
    "part",
    "prime",
    "prime_factors",
    "unit",
]


_BY = "SIS Definition 4.7"


@dataclass(frozen=True, repr=False)
class PublicKey(Record):
    """What everyone may know: ``modulus`` N = pq and ``non_residue`` x, a square modulo neither p nor q.

    Guarantee: encryptions of 0 are the squares in Z_N*, encryptions of 1 are x times a square. Both are
    told from everything else by their Jacobi symbol +1, in public, and ``rerandomise`` is uniform on the
    class it is in.
    Assumes: an honest pair (not checkable from outside; ``PrivateKey.public`` gives one). For study, not
    for secrecy.
    Reference: SIS Definitions 4.2 and 4.7; with the verification of Definition 4.7 as printed, a unit
    alone, Lemma 4.8 is false: Z_N* has two more classes, which no encryption reaches.

    >>> key = PublicKey(modulus=77, non_residue=6)
    >>> key.verify(25), key.verify(2), key.verify(7)
    (True, False, False)
    """

    modulus: int
    non_residue: int

    def __post_init__(self) -> None:
        modulus = checks.whole(self.modulus, "modulus", at_least=15, huge=True, of="PublicKey", by=_BY)
        if modulus % 2 == 0:
            raise InvalidArgument("modulus", "odd", modulus, of="PublicKey", reference=_BY)
        x = checks.whole(
            self.non_residue, "non_residue", at_most=modulus - 1, huge=True, of="PublicKey", by=_BY
        )
        if jacobi(x, modulus) != 1:
            raise InvalidArgument("non_residue", "of Jacobi symbol 1", x, of="PublicKey", reference=_BY)
        object.__setattr__(self, "modulus", modulus)
        object.__setattr__(self, "non_residue", x)

    def verify(self, ciphertext: int) -> bool:
        """Whether this is an encryption of some bit; any value may be given, so that any row can be checked.

        Args:
            ciphertext: An encryption of one bit.
        """
        return (
            isinstance(ciphertext, int)
            and not isinstance(ciphertext, bool)
            and 0 < ciphertext < self.modulus
            and jacobi(ciphertext, self.modulus) == 1
        )

    def encrypt(self, bit: int, coins: Coins) -> int:
        """A uniform encryption of ``bit``: u² x^bit mod N. One tape gives one u; take a branch for each.

        Args:
            coins: A generator or a tape, from which the randomness comes.
        """
        bit = bit_argument(bit, of="PublicKey.encrypt")
        u = unit(self.modulus, coins_argument(coins, of="PublicKey.encrypt"))
        return u * u * (self.non_residue if bit else 1) % self.modulus

    def rerandomise(self, ciphertext: int, coins: Coins) -> int:
        """A uniform encryption of the same bit, whatever it is: u² c mod N.

        Args:
            ciphertext: An encryption of one bit.
            coins: A generator or a tape, from which the randomness comes.
        """
        of = "PublicKey.rerandomise"
        if not self.verify(ciphertext):
            raise InvalidArgument(
                "ciphertext", "an encryption under this key", ciphertext, of=of, reference=_BY
            )
        u = unit(self.modulus, coins_argument(coins, of=of))
        return u * u * int(ciphertext) % self.modulus


@dataclass(frozen=True, repr=False)
class PrivateKey(Record):
    """The primes behind a public key; ``repr`` and ``to_dict`` leave them out.

    Guarantee: ``decrypt`` gives the bit of everything that the public key verifies, and None for everything
    else.
    Assumes: distinct odd primes and a number that is a square modulo neither (checked). For study, not for
    secrecy.
    Reference: SIS Definition 4.7.

    Args:
        p: One prime.
        q: The other prime.
        non_residue: A number that is a square modulo neither.

    >>> key = PrivateKey(7, 11, 6)
    >>> key.decrypt(25), key.decrypt(6), key.decrypt(2)
    (0, 1, None)
    >>> key
    PrivateKey(public=PublicKey(modulus=77, non_residue=6))
    """

    p: int = field(repr=False)
    q: int = field(repr=False)
    non_residue: int = field(repr=False)
    public: PublicKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        of = "PrivateKey"
        p, q = (
            checks.whole(getattr(self, name), name, at_least=3, huge=True, of=of, by=_BY)
            for name in ("p", "q")
        )
        for name, value in (("p", p), ("q", q)):
            if not is_prime(value):
                raise InvalidArgument(name, "an odd prime", value, of=of, reference=_BY)
        if p == q:
            raise InvalidArgument("q", "another prime than p", q, of=of, reference=_BY)
        x = checks.whole(self.non_residue, "non_residue", at_most=p * q - 1, huge=True, of=of, by=_BY)
        if not jacobi(x, p) == jacobi(x, q) == -1:
            raise InvalidArgument("non_residue", "a square modulo neither prime", x, of=of, reference=_BY)
        for name, value in (("p", p), ("q", q), ("non_residue", x)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "public", PublicKey(p * q, x))

    @property
    def class_size(self) -> int:
        """How many encryptions each bit has: a quarter of the units."""
        return (self.p - 1) * (self.q - 1) // 4

    def decrypt(self, ciphertext: int) -> int | None:
        """The bit, or None where no encryption gives this number.

        Args:
            ciphertext: An encryption of one bit.
        """
        if not self.public.verify(ciphertext):
            return None
        return 0 if jacobi(int(ciphertext), self.p) == 1 else 1


def generate_key(bits: int, coins: Coins) -> PrivateKey:
    """Two distinct random primes of ``bits`` bits each, and a random number that is a square modulo neither.

    Guarantee: primes uniform among those of this length, tested by GMP (Baillie–PSW and Miller–Rabin).
    Assumes: coins that nobody else knows; those of a simulation are not. For study, not for secrecy.
    Reference: SIS Definition 4.7.

    Args:
        coins: A generator or a tape, from which the randomness comes.

    >>> import numpy as np
    >>> key = generate_key(64, np.random.default_rng(7))
    >>> key.decrypt(key.public.encrypt(1, np.random.default_rng(8)))
    1
    """
    of = "generate_key"
    bits = checks.whole(bits, "bits", at_least=3, at_most=8192, of=of, by=_BY)
    coins = coins_argument(coins, of=of)
    p = prime(bits, part(coins, "p"))
    q, attempt = p, 0
    while q == p:
        q, attempt = prime(bits, part(coins, f"q {attempt}")), attempt + 1
    x, attempt = 1, 0
    while not jacobi(x, p) == jacobi(x, q) == -1:
        x, attempt = unit(p * q, part(coins, f"x {attempt}")), attempt + 1
    return PrivateKey(p, q, x)


def bit_argument(bit: Any, *, of: str) -> int:
    """Return ``bit`` if it is 0 or 1."""
    return checks.whole(bit, "bit", at_least=0, at_most=1, of=of, by=_BY)


def key_argument(key: Any, *, of: str) -> PublicKey:
    """The public key, given either key of a pair."""
    if isinstance(key, PrivateKey):
        return key.public
    if not isinstance(key, PublicKey):
        raise InvalidArgument("key", "a PublicKey or a PrivateKey", key, of=of, reference=_BY)
    return key


_BY_RERANDOMISED = "SIS Lemma 4.4"


@dataclass(frozen=True, repr=False)
class Rerandomised(Record):
    """A ciphertext and what it promises: ``guarantee`` for the rows, ``failure`` for the bit.

    ``guarantee`` holds for all rows whatever; ``failure`` bounds the chance that ``value`` encrypts the
    wrong bit when all rows encrypt one. How many rows passed verification is not here: that depends on the
    data.

    Args:
        padding: How many encryptions of each bit were added.
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
    least = max(1, math.ceil(1.0 / math.expm1(epsilon)) - 1)
    # Rounding can make the start slightly too small, but never by a factor of two.
    return search.whole_edge(
        lambda padding: exact_privacy(padding).epsilon <= epsilon, 2 * least + 1, least - 1, guess=least
    )


def exact_privacy(padding: int) -> DP:
    """ε = ln(1 + 1/k) for k encryptions of each bit: attained, whatever the number of rows."""
    return DP(rounding.up(math.log1p(1.0 / padding)))


def dp_rand_enc(
    rows: Iterable[int], key: PublicKey | PrivateKey, *, epsilon: float, coins: Coins
) -> Rerandomised:
    """A random encryption of the bit that the rows encrypt, ε-differentially private and efficient.

    Rows that are no encryptions are dropped, k encryptions of each bit are added, one of all is drawn and
    rerandomised; k is the least number with ln(1 + 1/k) ≤ ``epsilon``, and ``guarantee`` states that exact
    value.
    Guarantee: DP(ln(1 + 1/k)) when one row is replaced by anything, and for no smaller ε; if all m rows
    encrypt one bit, the answer encrypts the other with probability k/(m + 2k).
    Assumes: coins that stay secret (not checkable; a tape is shared, and then nothing is private).
    Reference: SIS Algorithm 4 and Lemma 4.4 (k = 1/ε, which is enough and not a whole number), Jacobi
    symbol checked.

    Args:
        rows: Encryptions of one bit, all under the key.
        key: The key whose public part is used.
        coins: A generator or a tape, from which the randomness comes.

    >>> import numpy as np
    >>> from holdfast.barriers import PrivateKey
    >>> key, rng = PrivateKey(7, 11, 6), np.random.default_rng(1)
    >>> answer = dp_rand_enc([6, 13, 24] * 20, key.public, epsilon=0.5, coins=rng)
    >>> key.decrypt(answer.value), answer.guarantee, answer.padding
    (1, DP(epsilon=0.405465, delta=0), 2)
    """
    of = "dp_rand_enc"
    epsilon = checks.real(epsilon, "epsilon", "[1e-6, inf)", of=of, by=_BY_RERANDOMISED)
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

    Args:
        epsilon: The ε that is kept.

    >>> dp_rand_enc_rows(epsilon=0.5, beta=0.01)
    196
    """
    of = "dp_rand_enc_rows"
    epsilon = checks.real(epsilon, "epsilon", "[1e-6, inf)", of=of, by=_BY_RERANDOMISED)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=_BY_RERANDOMISED)
    padding = padding_for(epsilon)
    return max(1, math.ceil(padding / Fraction(beta) - 2 * padding))


class FactoringSolver:
    """A replicable solver that cheats: it factors the modulus, so the key must be short.

    It decrypts the first row and encrypts the bit again with coins from the tape alone. ``slip`` and
    ``wobble`` spoil it in the two ways that Lemma 4.5 counts: with probability 2·``slip`` the tape orders
    an encryption of the tape's own bit, whatever the rows say (wrong with probability ``slip``); otherwise,
    with probability ``wobble`` over the first row, the first row itself comes back (right, and different
    for other rows).
    Guarantee: ``guarantee`` = Replicability((1 − 2·slip)(1 − (1 − wobble)²)), ``failure`` = slip. The
    adversary's advantage is 1 − 2β − ρ up to 4/φ(N), the chance of meeting a ciphertext twice: Lemma 4.5 is
    tight.
    Assumes: rows that encrypt one bit; a modulus of at most 2^40 (checked).
    Reference: SIS Lemma 4.5; ours.

    Args:
        key: The key that it factors.

    >>> from holdfast.barriers import PrivateKey
    >>> key = PrivateKey(7, 11, 6)
    >>> solve = FactoringSolver(key.public)
    >>> solve([6, 13], Tape("t")) == solve([24, 6], Tape("t"))
    True
    """

    def __init__(self, key: PublicKey | PrivateKey, *, slip: float = 0.0, wobble: float = 0.0) -> None:
        of = "FactoringSolver"
        self.key = key_argument(key, of=of)
        self._private = PrivateKey(*prime_factors(self.key.modulus, of=of), self.key.non_residue)
        self.slip = checks.real(slip, "slip", "[0, 0.5]", of=of, by="SIS Lemma 4.5")
        self.wobble = checks.real(wobble, "wobble", "[0, 1]", of=of, by="SIS Lemma 4.5")

    @property
    def guarantee(self) -> Replicability:
        """How often two fresh samples may give different answers."""
        rho = (1.0 - 2.0 * self.slip) * self.wobble * (2.0 - self.wobble)
        return Replicability(rounding.probability(rho))

    @property
    def failure(self) -> float:
        """How often the answer encrypts the wrong bit."""
        return self.slip

    def __call__(self, rows: list[int], tape: Tape) -> int:
        bit: Any = self._private.decrypt(rows[0])
        if tape.branch("slip").uniforms(1)[0] < 2.0 * self.slip:
            bit = int(tape.branch("slip").integers(1, 2)[0])
        elif tape.branch("wobble").named_uniforms([str(rows[0])])[0] < self.wobble:
            return rows[0]
        return self.key.encrypt(bit, tape.branch("answer"))


class PrivateSolver:
    """``dp_rand_enc`` with its coins from the shared tape: efficient, right, and of no use to the adversary.

    Guarantee: on m rows with padding k the adversary's advantage is m/(m + 2k) · 4/φ(N) exactly, the chance
    that two samples show the same ciphertext in the same place: nothing for real keys.
    Assumes: nothing further. The answers are not private, because the tape is shared.
    Reference: SIS Algorithm 4 inside Algorithm 5; ours.

    Args:
        key: The key whose public part is used.
        epsilon: The ε that its answers keep.

    >>> from holdfast.barriers import PrivateKey
    >>> key = PrivateKey(7, 11, 6)
    >>> solve = PrivateSolver(key.public, epsilon=0.5)
    >>> solve([25] * 40, Tape("t")) == solve([36] * 40, Tape("t"))
    False
    """

    def __init__(self, key: PublicKey | PrivateKey, *, epsilon: float) -> None:
        of = "PrivateSolver"
        self.key = key_argument(key, of=of)
        self.epsilon = checks.real(epsilon, "epsilon", "[1e-6, inf)", of=of, by="SIS Lemma 4.4")

    def __call__(self, rows: list[int], tape: Tape) -> int:
        return dp_rand_enc(rows, self.key, epsilon=self.epsilon, coins=tape).value


Coins = np.random.Generator | Tape

# 25 rounds of Miller and Rabin, after the Baillie–PSW test that GMP runs first.
_ROUNDS = 25
_FACTORED_AT_MOST = 2**40


@cache
def _gmpy2() -> Any:
    try:
        return importlib.import_module("gmpy2")
    except ImportError:
        raise MissingExtra("barriers", what="Number theory") from None


def coins_argument(coins: Any, *, of: str) -> Coins:
    """Return ``coins`` if numbers can be drawn from it."""
    if not isinstance(coins, (np.random.Generator, Tape)):
        raise InvalidArgument("coins", "a numpy Generator or a Tape", coins, of=of)
    return coins


def part(coins: Coins, name: str) -> Coins:
    """Coins for one use: a branch of a tape, whose draws are otherwise all the same; a generator continues
    with new numbers."""
    return coins.branch(name) if isinstance(coins, Tape) else coins


def index_below(size: int, coins: Coins) -> int:
    """A number from 0 to ``size`` − 1, exactly uniform."""
    return int(coins.integers(1, size)[0]) if isinstance(coins, Tape) else int(coins.integers(size))


def _numbers(bits: int, coins: Coins) -> Iterator[int]:
    """Uniform numbers of at most this many bits, one after another."""
    size, start = -(-bits // 64), 0
    while isinstance(coins, np.random.Generator) and bits < 64:
        yield int(coins.integers(1 << bits))
    while True:
        if isinstance(coins, Tape):
            words = coins.words(size, start=start)
        else:
            words = coins.integers(2**64, size=size, dtype=np.uint64)
        yield int.from_bytes(words.astype("<u8").tobytes(), "little") >> (-bits % 64)
        start += size


def unit(modulus: int, coins: Coins) -> int:
    """A uniform element of Z_N*, by rejection: exactly uniform."""
    return next(
        number
        for number in _numbers(modulus.bit_length(), coins)
        if 0 < number < modulus and math.gcd(number, modulus) == 1
    )


def prime(bits: int, coins: Coins) -> int:
    """A uniform prime among those of exactly this many bits."""
    high = 1 << (bits - 1)
    return next(high | low for low in _numbers(bits - 1, coins) if is_prime(high | low))


def is_prime(number: int) -> bool:
    """Whether GMP says that the number is prime. This is exact below 2⁶⁴; above, no error is known."""
    return bool(_gmpy2().is_prime(number, _ROUNDS))


def jacobi(number: int, modulus: int) -> int:
    """The Jacobi symbol: 0 where the two share a factor, else ±1, computed without factoring."""
    return int(_gmpy2().jacobi(number, modulus))


def prime_factors(modulus: int, *, of: str) -> tuple[int, int]:
    """The two primes of a toy modulus, by trial division; a real one is refused."""
    if modulus > _FACTORED_AT_MOST:
        raise InvalidArgument("key", "a toy, with a modulus of at most 2^40", modulus, of=of)
    odd = np.arange(3, math.isqrt(modulus) + 1, 2, dtype=np.int64)
    divisors = odd[modulus % odd == 0]
    if len(divisors) != 1 or not is_prime(int(divisors[0])) or not is_prime(modulus // int(divisors[0])):
        raise InvalidArgument("key", "a modulus that is a product of two distinct odd primes", modulus, of=of)
    return int(divisors[0]), modulus // int(divisors[0])
