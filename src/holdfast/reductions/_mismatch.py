"""How often shared coins disagree on the law of a private algorithm, and over how many parts or subsets of
the rows that law must be averaged for a wanted replicability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.reductions._algorithm import Algorithm
from holdfast.stability import (
    DP,
    Replicability,
    chance_disagreement,
    coin_disagreement,
    disagreement_bound,
    estimation_distance,
    mean_distance,
    outcome_variance,
    private_distance,
)

__all__ = [
    "Sampling",
    "dp_replicability",
    "printed_sampling",
    "replicability_budget",
    "sharp_sampling",
    "steadiest",
    "subsampled_distance",
]


_BY = "Holdfast, expected distance"


def dp_replicability(dp: DP, n: int, *, parts: int = 1, outcomes: int | None = None) -> Replicability:
    """Sampling from the law of a private algorithm with shared coins, averaged over ``parts`` samples.

    The law of the output is computed on each of ``parts`` disjoint samples of ``n`` rows; the outcome is
    drawn from their average by correlated sampling.

    Guarantee: ρ = 2x/(1 + x), and ρ = x for two outcomes. Pure privacy: x = √(v/2), v = (cosh(ε/2)^{2n} −
    1)/parts, about ρ = ε√(n/2) for one part. With δ > 0: x = √(v/2) + 2n√δ, or x = √(w/2) + 2nδ with w =
    (cosh(ε)^{2n} − 1)/parts. With ``outcomes`` = k also x = √((k − 1)/(2 parts)) and ρ = 1 − 1/k, whatever
    the privacy. The smallest counts. ``outcomes`` counts all that the algorithm can give: after SIS Algorithm
    1 (``replicable_to_dp`` with δ > 0) also "none".
    Assumes: independent rows from one distribution, the same for both runs (not checkable); the exact law.
    Reference: Holdfast; SIS Corollary 3.18 has O(·), a logarithm more, and needs δ ≤ ερ⁶/n².

    Args:
        dp: The privacy of the algorithm.

    >>> dp_replicability(DP(1e-5), 1000)
    Replicability(rho=0.000223582)
    >>> dp_replicability(DP(1.0), 1000, parts=1400, outcomes=8)
    Replicability(rho=0.0952381)
    """
    of = "dp_replicability"
    if not isinstance(dp, DP):
        raise InvalidArgument("dp", "DP(epsilon, delta)", dp, of=of, reference=_BY)
    n = checks.whole(n, "n", of=of, by=_BY)
    parts = checks.whole(parts, "parts", of=of, by=_BY)
    if outcomes is not None:
        outcomes = checks.whole(outcomes, "outcomes", of=of, by=_BY)
    return Replicability(coin_disagreement(mean_distance(dp, n, parts, outcomes), outcomes))


def replicability_budget(rho: float, n: int, *, parts: int = 1, outcomes: int | None = None) -> DP:
    """How private an algorithm on ``n`` rows must be for ``dp_replicability`` to give ``rho``.

    Guarantee: the largest ε, rounded down, of pure privacy: with x = ρ/(2 − ρ) (ρ for two outcomes),
    cosh(ε/2)^{2n} = 1 + 2x²·parts; about ε = ρ√(2·parts/n). By privacy alone: where counting outcomes gives
    ρ already, any ε will do.
    Assumes: what ``dp_replicability`` assumes.
    Reference: Holdfast.

    Args:
        parts: How many samples the law is averaged over.
        outcomes: How many outcomes there are; None if they are not counted.

    >>> budget = replicability_budget(0.1, 10_000)
    >>> budget, dp_replicability(budget, 10_000)
    (DP(epsilon=0.00148659, delta=0), Replicability(rho=0.1))
    """
    of = "replicability_budget"
    rho = checks.real(rho, "rho", "(0, 1)", of=of, by=_BY)
    n = checks.whole(n, "n", of=of, by=_BY)
    parts = checks.whole(parts, "parts", of=of, by=_BY)
    two = outcomes is not None and checks.whole(outcomes, "outcomes", of=of, by=_BY) <= 2
    distance = rho if two else rho / (2.0 - rho)
    gained = math.expm1(math.log1p(2.0 * parts * distance * distance) / (2.0 * n))
    # The inverse of cosh at 1 + gained. The result is made slightly smaller below, to cover rounding.
    epsilon = 2.0 * math.log1p(gained + math.sqrt(gained * (gained + 2.0)))
    return DP(epsilon * (1.0 - 1e-12))


def subsampled_distance(dp: DP, n: int, m: int, draws: int, outcomes: int, runs: int = 0) -> float:
    """The same for ``draws`` subsets of ``n`` out of ``m`` rows that shared coins choose, averaged.

    Given the subsets, the variance of the average is, in the mean over them, at most Var/draws + that of the
    average over all subsets. The latter is at most n/m Var (Hoeffding 1948), and small because the subsampled
    algorithm is more private.
    """
    whole = dp.subsample(n, m)
    most = float(outcomes - 1)
    counted = min(math.sqrt(most * (1.0 / draws + n / m) / 2.0), chance_disagreement(outcomes))
    if dp.delta == 0.0:
        single = min(outcome_variance(dp.epsilon, n), most)
        private = math.sqrt((single / draws + min(outcome_variance(whole.epsilon, m), single * n / m)) / 2.0)
    else:
        private = math.sqrt(most / (2.0 * draws)) + private_distance(whole, m)
    return rounding.probability(min(private + estimation_distance(outcomes, draws, runs), counted))


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
    variance = (
        outcomes - 1.0 if runs or dp.delta > 0.0 else min(outcome_variance(dp.epsilon, n), outcomes - 1.0)
    )
    draws = max(1, math.ceil(variance / (2.0 * (1.0 - _FOR_ROWS) * room * room)))

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
    method: Literal["sis", "paper"] = "sis" if dp.delta > 0.0 else "paper"
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
    """The least count that is enough."""
    count = search.least_whole(enough, most=1 << (_LONGEST - 1))
    if count is None:
        expected = f"a value that fewer than 2^{_LONGEST} times the rows can reach"
        raise InvalidArgument("rho", expected, rho, of=of, reference="SIS Corollary 3.18")
    return count


# The smallest ρ that is asked for, even where the law does not depend on the data.
_LEAST = 1e-9
# A finite number of subsets adds at most this share to the variance that the rows leave. Subsets are never
# more than this: many where laws are computed in batches, fewer where each is a call.
_FOR_SUBSETS = 0.25
_MOST_IN_BATCHES = 2**23
_MOST_CALLS = 2**12


def steadiest(algorithm: Algorithm, parts: int, *, of: str) -> Sampling:
    """Disjoint parts, or random subsets of as many rows where these are clearly more replicable.

    Parts average Var/parts. Subsets overlap, so their average is that of a more private algorithm: with many
    outcomes and a small ε it varies far less.
    """
    dp, n = algorithm.guarantee, algorithm.rows_needed
    assert isinstance(dp, DP)
    disjoint = _of_parts(algorithm, parts, of)
    outcomes, runs = len(algorithm.finite(of=of)), _runs(algorithm)
    draws = _subsets(algorithm, dp, n * parts, outcomes, runs)
    rho = _rho(algorithm, subsampled_distance(dp, n, n * parts, draws, outcomes, runs), outcomes)
    # Every subset costs a run, so subsets are used only if ρ becomes clearly smaller.
    return Sampling(draws, n * parts, rho, False) if rho < 0.75 * disjoint.rho else disjoint


def _subsets(algorithm: Algorithm, dp: DP, m: int, outcomes: int, runs: int) -> int:
    """How many subsets of ``m`` rows: enough that their average varies hardly more than that of all."""
    n = algorithm.rows_needed
    cap = _MOST_CALLS if algorithm.batch_probabilities is None else _MOST_IN_BATCHES
    most = outcomes - 1.0
    single = most if runs or dp.delta > 0.0 else min(outcome_variance(dp.epsilon, n), most)
    left = max(min(outcome_variance(dp.subsample(n, m).epsilon, m), single * n / m), 1e-12)
    return max(1, math.ceil(min(cap, single / (_FOR_SUBSETS * left))))


def _of_parts(algorithm: Algorithm, parts: int, of: str) -> Sampling:
    dp = algorithm.guarantee
    assert isinstance(dp, DP)
    outcomes = len(algorithm.finite(of=of))
    distance = mean_distance(dp, algorithm.rows_needed, parts, outcomes, _runs(algorithm))
    return Sampling(parts, algorithm.rows_needed * parts, _rho(algorithm, distance, outcomes), True)


def _rho(algorithm: Algorithm, distance: float, outcomes: int) -> float:
    return max(
        _LEAST, coin_disagreement(rounding.probability(distance + 2.0 * algorithm.law_error), outcomes)
    )


def _runs(algorithm: Algorithm) -> int:
    return 0 if algorithm.probabilities is not None else algorithm.law_runs
