"""How many parts or subsets of the rows the law must be averaged over, for a wanted replicability."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import rounding
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.reductions._algorithm import Algorithm
from holdfast.reductions._mismatch import subsampled_distance
from holdfast.stability import DP, coin_disagreement, disagreement_bound, mean_distance, outcome_variance

__all__ = ["Sampling", "printed_sampling", "sharp_sampling"]

# Of the variance that a wanted ρ allows, this share goes to the rows, the rest to the number of subsets.
_FOR_ROWS = 0.8
_LONGEST = 60


@dataclass(frozen=True, repr=False)
class Sampling(Record):
    """``draws`` laws are averaged, on disjoint parts or random subsets of ``rows``, which gives ``rho``."""

    draws: int
    rows: int
    rho: float
    disjoint: bool


def sharp_sampling(algorithm: Algorithm, rho: float, sampling: str, *, of: str) -> Sampling:
    """The fewest parts (or, with subsets, rows) for which the expected distance gives ``rho``.

    Laws that are only known up to an expected total variation are farther apart by twice that.
    """
    dp, n, outcomes, runs = _facts(algorithm, of)
    most = rho if outcomes <= 2 else rho / (2.0 - rho)
    room = most - 2.0 * algorithm.law_error
    if not room > 0.0:
        raise _too_rough(algorithm, most / 2.0, rho, of)

    def rho_of(distance: float) -> float:
        return coin_disagreement(rounding.probability(distance + 2.0 * algorithm.law_error), outcomes)

    if sampling == "cheapest":
        parts, subsets = (sharp_sampling(algorithm, rho, way, of=of) for way in ("parts", "subsample"))
        # Subsets are evaluated many times over, and their law is not the same on every tape.
        return subsets if 2 * subsets.rows < parts.rows else parts
    if sampling == "parts":
        draws = _least(lambda count: rho_of(mean_distance(dp, n, count, outcomes, runs)) <= rho, rho, of=of)
        return Sampling(draws, n * draws, rho_of(mean_distance(dp, n, draws, outcomes, runs)), True)
    one = outcomes - 1.0 if runs or dp.delta > 0.0 else min(outcome_variance(dp.epsilon, n), outcomes - 1.0)
    draws = max(1, math.ceil(one / (2.0 * (1.0 - _FOR_ROWS) * room * room)))

    def rho_on(times: int) -> float:
        return rho_of(subsampled_distance(dp, n, n * times, draws, outcomes, runs))

    times = _least(lambda count: rho_on(count) <= rho, rho, of=of)
    return Sampling(draws, n * times, rho_on(times), False)


def printed_sampling(algorithm: Algorithm, rho: float, c: Any, big_c: Any, *, of: str) -> Sampling:
    """SIS Corollaries 3.13, 3.15 and Theorem 3.17 at half of ``rho``; the other half pays for the subsets.

    Averaging over finitely many subsets estimates the law of the subsampled algorithm within e = ½√((k −
    1)/draws) in expected total variation, however often each is run, and each side pays 2e/(1 + e).
    """
    dp, n, outcomes, _ = _facts(algorithm, of)
    share = rho / 4.0
    allowed = share / (2.0 - share) - algorithm.law_error
    if not allowed > 0.0:
        raise _too_rough(algorithm, share / (2.0 - share), rho, of)
    draws = 1 + math.ceil((outcomes - 1) / (4.0 * allowed * allowed))
    sampled = rounding.probability(0.5 * math.sqrt((outcomes - 1) / draws) + algorithm.law_error)

    def rho_on(times: int) -> float:
        return _printed_rho(dp.subsample(n, n * times, method="paper"), n * times, c, big_c)

    times = _least(lambda count: rho_on(count) <= rho / 2.0, rho, of=of)
    total = rounding.probability(rho_on(times) + 2.0 * disagreement_bound(sampled))
    return Sampling(draws, n * times, total, False)


def _facts(algorithm: Algorithm, of: str) -> tuple[DP, int, int, int]:
    """Privacy, rows, number of outcomes, and runs from which a law is estimated (0 where it is given)."""
    if not isinstance(algorithm.guarantee, DP):
        raise InvalidArgument("algorithm", "an Algorithm that declares DP", algorithm.guarantee, of=of)
    runs = 0 if algorithm.probabilities is not None else algorithm.law_runs
    return algorithm.guarantee, algorithm.rows_needed, len(algorithm.finite(of=of)), runs


def _too_rough(algorithm: Algorithm, most: float, rho: float, of: str) -> InvalidArgument:
    expected = f"below {most:.3g} for rho = {rho:g}"
    return InvalidArgument("law_error", expected, algorithm.law_error, of=of, reference="SIS Algorithm 2")


def _printed_rho(dp: DP, rows: int, c: Any, big_c: Any) -> float:
    """Lemma 3.11 (or the pure bound), 3.14 and Theorem 3.17 as printed, at the best β; 1 where none fits."""
    method = "sis" if dp.delta > 0.0 else "paper"
    best = 1.0
    for beta in np.geomspace(1e-30, 0.1, 60):
        try:
            information = dp.max_information(rows, float(beta), method=method, c=c, C=big_c)
        except InvalidArgument as refused:
            if refused.argument in ("c", "C"):
                raise
            continue
        best = min(best, information.one_way(method="paper").replicability(method="paper").rho)
    return best


def _least(enough: Callable[[int], bool], rho: float, *, of: str) -> int:
    """The least count that is enough: found by doubling and bisection."""
    power = next((power for power in range(_LONGEST) if enough(1 << power)), None)
    if power is None:
        expected = f"one that fewer than 2^{_LONGEST} times the rows can reach"
        raise InvalidArgument("rho", expected, rho, of=of, reference="SIS Corollary 3.18")
    low, high = (1 << power) // 2, 1 << power
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
