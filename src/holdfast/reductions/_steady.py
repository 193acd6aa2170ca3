"""How replicable the law of a private algorithm becomes when it is averaged over a given number of rows."""

from __future__ import annotations

import math

from holdfast import rounding
from holdfast.reductions._algorithm import Algorithm
from holdfast.reductions._mismatch import subsampled_distance
from holdfast.reductions._sampling import Sampling
from holdfast.stability import DP, coin_disagreement, mean_distance, outcome_variance

__all__ = ["steadiest"]

# Even a law that does not depend on the data is asked for some ρ.
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
    # Subsets are evaluated many times over: they must be worth it.
    return Sampling(draws, n * parts, rho, False) if rho < 0.75 * disjoint.rho else disjoint


def _subsets(algorithm: Algorithm, dp: DP, m: int, outcomes: int, runs: int) -> int:
    """So many subsets of m rows that the average over them varies hardly more than over all subsets."""
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
