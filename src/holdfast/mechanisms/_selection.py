"""Choosing one of several items: the exponential mechanism, sampled exactly, and stable selection of a
frequent item (SIS theorem 3.2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.mechanisms._coins import Coins, UniformReal, choose_coins, rounded_noise
from holdfast.mechanisms._noise import WIDTHS, checked_values
from holdfast.stability import selection_threshold
from holdfast.typing import Seed

Item = TypeVar("Item", bound=Hashable)

# Noise lives on multiples of 2^-20: the bound then exceeds A by at most 2^-21.
_STEPS_A_COUNT = 2**20
_AT_ONCE = 2**20
# Far above the error of exp in double precision; closer comparisons are settled exactly.
_DOUBT = 2.0**-40
_MOST_AT_ONCE = 2**20


def select_mode(
    items: Iterable[Item], epsilon: float, delta: float, *, simulation: bool = False, seed: Seed = None
) -> Item | None:
    """An item that occurs almost as often as the most frequent one, or None if none occurs often enough.

    Guarantee: (ε, δ)-DP when one item is replaced. With A = ``stability.selection_threshold(ε, δ)``, up to
    2^-20: a returned item occurs at most 2A times fewer than the mode, with certainty, and None is returned
    only if the mode occurs at most 2A times.
    Assumes: hashable items, none of them None or NaN (checked). The time it takes is not protected.
    Reference: SIS Theorem 3.2, with the constant and the truncated noise of Holdfast.

    Args:
        items: The items, one for each row.
        epsilon: ε of the privacy in nats, above 0; smaller is more private, and noisier.
        delta: δ of the privacy, in (0, 1): how likely the bound by ε may fail.
        simulation: Whether this is an experiment in which nothing is protected.
        seed: A seed for the noise. It needs ``simulation=True``.

    >>> select_mode(["a"] * 500 + ["b"] * 20, epsilon=1.0, delta=1e-6)
    'a'
    """
    of, by = "select_mode", "SIS Theorem 3.2"
    epsilon = checks.real(epsilon, "epsilon", "[1e-6, 1e6]", of=of, by=by)
    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    coins = choose_coins(simulation, seed, of=of)
    counts = _counts(items)
    if not counts:
        return None
    scale, bound = noise_steps(epsilon, delta, _STEPS_A_COUNT)
    noise = truncated_noise(len(counts), scale, bound, coins)
    noisy = np.fromiter(counts.values(), dtype=np.int64, count=len(counts)) * _STEPS_A_COUNT + noise
    largest = noisy.max()
    if largest <= bound:
        return None
    tied = np.flatnonzero(noisy == largest)
    # The order of the items comes from the data, so a tie is broken by a coin and not by the order.
    chosen = tied[0] if len(tied) == 1 else tied[_fair_index(len(tied), coins)]
    return list(counts)[int(chosen)]


def noise_steps(epsilon: float, delta: float, steps: int) -> tuple[int, int]:
    """Scale and bound of the noise, in steps of 1/``steps`` of a count.

    The scale is 2/ε rounded up. The bound M makes M + ½ steps at least A: noise up to there, rounded, is at
    most M, and rounding is post-processing.
    """
    scale = math.ceil(2 * steps / Fraction(epsilon))
    # A falls with ε, so the ε that belongs to the rounded scale is rounded down.
    least = math.nextafter(2 * steps / scale, 0.0)
    threshold = Fraction(selection_threshold(min(epsilon, least), delta))
    return scale, math.ceil(threshold * steps - Fraction(1, 2))


def truncated_noise(count: int, scale: int, bound: int, coins: Coins) -> npt.NDArray[np.int64]:
    """Rounded Laplace noise of this scale, conditioned on being at most ``bound`` in size."""
    rate = -math.expm1(-(bound + 0.5) / scale)
    kept = np.empty(0, dtype=np.int64)
    while (missing := count - len(kept)) > 0:
        drawn = rounded_noise(int(min(1.1 * missing / rate, _AT_ONCE)) + 8, scale, coins, gaussian=False)
        kept = np.concatenate((kept, drawn[np.abs(drawn) <= bound]))
    return kept[:count]


def _fair_index(size: int, coins: Coins) -> int:
    while not len(chosen := coins.indices(1, size)):
        pass
    return int(chosen[0])


def _counts(items: Iterable[Item]) -> Counter[Item]:
    of = "select_mode"
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InvalidArgument("items", "a sequence of items", "something else (not shown)", of=of)
    try:
        counts = Counter(items.tolist() if isinstance(items, np.ndarray) else items)
    except TypeError:
        raise InvalidArgument("items", "hashable items", "others (not shown)", of=of) from None
    # NaN is not equal to itself, so it cannot be counted.
    if None in counts or any(item != item for item in counts):
        raise InvalidArgument("items", "free of None and NaN", "some (not shown)", of=of)
    return counts


def exponential(
    scores: ArrayLike, epsilon: float, sensitivity: float, *, simulation: bool = False, seed: Seed = None
) -> int:
    """The index of a score that is almost the largest, chosen with weight exp(ε u/(2Δ)).

    Guarantee: index i has probability exactly exp(ε u_i/(2Δ))/Σ_j exp(ε u_j/(2Δ)) for the scores as given,
    so the choice is (ε, 0)-DP; ``stability.exponential_excess`` says how far below the best it may be.
    Assumes: each score, as a floating-point number, moves by at most ``sensitivity`` between neighbouring
    data, and their number does not depend on the data (not checkable). The time it takes is not protected.
    Reference: McSherry and Talwar 2007; SIS Lemma 2.7.

    Args:
        scores: A score for each candidate.
        epsilon: ε of the privacy in nats, above 0; smaller is more private, and noisier.
        simulation: Whether this is an experiment in which nothing is protected.
        seed: A seed for the noise. It needs ``simulation=True``.

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
