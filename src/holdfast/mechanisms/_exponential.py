"""The exponential mechanism, sampled exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.mechanisms._coins import Coins, choose_coins
from holdfast.mechanisms._noise import WIDTHS, checked_values
from holdfast.mechanisms._real import UniformReal

__all__ = ["exponential"]

# Far above the error of exp in double precision; closer comparisons are settled exactly.
_DOUBT = 2.0**-40
_MOST_AT_ONCE = 2**20


def exponential(
    scores: Any, epsilon: Any, sensitivity: Any, *, simulation: bool = False, seed: Any = None
) -> int:
    """The index of a score that is almost the largest, chosen with weight exp(ε u/(2Δ)).

    Guarantee: index i has probability exactly exp(ε u_i/(2Δ))/Σ_j exp(ε u_j/(2Δ)) for the scores as given,
    so the choice is (ε, 0)-DP; ``stability.exponential_excess`` says how far below the best it may be.
    Assumes: each score, as a floating-point number, moves by at most ``sensitivity`` between neighbouring
    data, and their number does not depend on the data (not checkable). The time it takes is not protected.
    Reference: McSherry and Talwar 2007; SIS Lemma 2.7.

    >>> exponential([0.0, 1000.0, 0.0], epsilon=1.0, sensitivity=1.0)
    1
    """
    of, by = "exponential", "SIS Lemma 2.7"
    epsilon = checks.real(epsilon, "epsilon", "[1e-9, 1e9]", of=of, by=by)
    sensitivity = checks.real(sensitivity, "sensitivity", WIDTHS, of=of, by=by)
    coins = choose_coins(simulation, seed, of=of)
    values = checked_values(scores, "scores", of=of)
    if values.ndim != 1 or values.size == 0:
        raise InvalidArgument("scores", "a non-empty sequence of numbers", f"shape {values.shape}", of=of)
    best = float(values.max())
    rate = Fraction(epsilon) / (2 * Fraction(sensitivity))
    with np.errstate(over="ignore", under="ignore"):
        chances = np.exp((values - best) * float(rate))
    return _first_accepted(chances, lambda i: (Fraction(best) - Fraction(float(values[i]))) * rate, coins)


def _first_accepted(
    chances: npt.NDArray[np.float64], exponent: Callable[[int], Fraction], coins: Coins
) -> int:
    """The first of uniform proposals to be accepted, with probability exp(−exponent(i)) ≈ chances[i]."""
    at_once = min(len(chances) + 8, _MOST_AT_ONCE)
    while True:
        proposed = coins.indices(at_once, len(chances))
        prefixes = coins.words(len(proposed))
        gaps = prefixes * 2.0**-64 - chances[proposed]
        for i in np.flatnonzero(gaps <= _DOUBT):
            index = int(proposed[i])
            if gaps[i] < -_DOUBT or UniformReal(int(prefixes[i]), 64, coins).below_exp(exponent(index)):
                return index
