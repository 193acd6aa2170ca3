"""A replicable solver breaks the encryption: the adversary and its advantage (SIS 4.1.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks, intervals, rounding
from holdfast.barriers._goldwasser_micali import PrivateKey, PublicKey, key_argument
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable import Tape, tape_argument

__all__ = ["Advantage", "Solver", "advantage_bound", "distinguish", "measure_advantage"]

_BY = "SIS Lemma 4.5"

# Takes rows and the shared randomness, gives a ciphertext of the bit that the rows encrypt.
Solver = Callable[[list[int], Tape], int]


def distinguish(
    ciphertext: int,
    key: PublicKey | PrivateKey,
    solver: Solver,
    *,
    rows: int,
    tape: Tape,
    rng: np.random.Generator,
) -> int:
    """Guess the bit of a ciphertext from the public key, with the help of a replicable solver.

    The solver answers twice on one tape: for ``rows`` rerandomisations of a fresh encryption of 0, and for
    ``rows`` rerandomisations of ``ciphertext``. Equal answers: guess 0. Different answers: guess 1.
    Guarantee: if the solver is ρ-replicable and wrong with probability at most β, the advantage is at least
    1 − 2β − ρ (``advantage_bound``). Nothing here looks at the private key.
    Assumes: ``solver(rows, tape)`` draws all it draws from the tape (not checkable), and the tape is fresh.
    Reference: SIS Algorithm 5 and Lemma 4.5.

    Args:
        key: The key that made the ciphertext.
        rng: The generator of everything that is not shared.

    >>> import numpy as np
    >>> from holdfast.barriers import FactoringSolver, PrivateKey
    >>> key = PrivateKey(7, 11, 6)
    >>> cheat = FactoringSolver(key.public)
    >>> rng = np.random.default_rng(1)
    >>> [distinguish(c, key.public, cheat, rows=3, tape=Tape("t"), rng=rng) for c in (25, 6)]
    [0, 1]
    """
    of = "distinguish"
    key, rows = key_argument(key, of=of), checks.whole(rows, "rows", of=of, by=_BY)
    _check_randomness(tape, rng, of=of)
    if not key.verify(ciphertext):
        raise InvalidArgument("ciphertext", "an encryption under this key", ciphertext, of=of, reference=_BY)
    zero = key.encrypt(0, rng)
    reference = solver(_copies(zero, key, rows, rng), tape)
    return int(reference != solver(_copies(int(ciphertext), key, rows, rng), tape))


def _check_randomness(tape: Any, rng: Any, *, of: str) -> None:
    tape_argument(tape, of=of)
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgument("rng", "a numpy Generator", rng, of=of)


def _copies(ciphertext: int, key: PublicKey, rows: int, rng: np.random.Generator) -> list[int]:
    return [key.rerandomise(ciphertext, rng) for _ in range(rows)]


def advantage_bound(rho: float, beta: float) -> float:
    """The least advantage of the adversary against a ρ-replicable solver that errs with probability β.

    Guarantee: P[guess 1 | bit 1] − P[guess 1 | bit 0] ≥ 1 − 2β − ρ (0 where that is negative: it then says
    nothing).
    Assumes: ρ and β hold on average over keys, for rows that are rerandomisations of one ciphertext.
    Reference: SIS Lemma 4.5. It is tight: see ``FactoringSolver``.

    Args:
        rho: How often the solver's answers differ on two samples.
        beta: How often the solver is wrong.

    >>> round(advantage_bound(rho=0.25, beta=0.125), 12)
    0.5
    """
    of = "advantage_bound"
    rho = checks.real(rho, "rho", "[0, 1]", of=of, by=_BY)
    beta = checks.real(beta, "beta", "[0, 1]", of=of, by=_BY)
    return max(0.0, rounding.down(1.0 - 2.0 * beta - rho))


@dataclass(frozen=True, repr=False)
class Advantage(Record):
    """A measured advantage: P[guess 1 | bit 1] − P[guess 1 | bit 0], between ``low`` and ``high``.

    Args:
        value: How much more often the adversary says 1 for 1 than for 0.
        confidence: With this probability the advantage lies between ``low`` and ``high``.
        trials: How often each bit was encrypted.
    """

    value: float
    low: float
    high: float
    confidence: float
    trials: int


def measure_advantage(
    key: PrivateKey,
    solver: Solver,
    *,
    rows: int,
    trials: int,
    tape: Tape,
    rng: np.random.Generator,
    confidence: float = 0.999,
) -> Advantage:
    """Play the game ``trials`` times with each bit, each time with fresh rows and a fresh branch of the tape.

    Guarantee: the true advantage for this key is in [low, high] with probability ``confidence``, by two
    intervals of Clopper and Pearson.
    Assumes: that the solver draws from its branch of the tape and its rows only.
    Reference: SIS Definition 4.1 (security) and Lemma 4.5.

    Args:
        key: The private key, which makes the challenges.
        solver: The solver that the adversary uses.
        rows: How many rows the solver gets.
        tape: The shared coins; both laboratories use the same.
        rng: The generator of everything that is not shared.

    >>> import numpy as np
    >>> from holdfast.barriers import FactoringSolver, PrivateKey
    >>> key = PrivateKey(7, 11, 6)
    >>> cheat = FactoringSolver(key.public)
    >>> measure_advantage(key, cheat, rows=1, trials=50, tape=Tape("t"), rng=np.random.default_rng(1)).value
    1.0
    """
    of = "measure_advantage"
    public = key_argument(key, of=of)
    trials = checks.whole(trials, "trials", of=of)
    confidence = checks.real(confidence, "confidence", "(0, 1)", of=of)
    _check_randomness(tape, rng, of=of)
    ones = [0, 0]
    for bit in (0, 1):
        for trial in range(trials):
            ones[bit] += distinguish(
                public.encrypt(bit, rng),
                public,
                solver,
                rows=rows,
                tape=tape.branch(f"bit {bit}").branch(trial),
                rng=rng,
            )
    nats = -math.log((1.0 - confidence) / 2.0)
    of_zero, of_one = (intervals.clopper_pearson(count, trials, nats) for count in ones)
    return Advantage(
        value=(ones[1] - ones[0]) / trials,
        low=rounding.down(of_one.low - of_zero.high),
        high=rounding.up(of_one.high - of_zero.low),
        confidence=confidence,
        trials=trials,
    )
