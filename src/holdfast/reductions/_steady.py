"""How replicable the law of a private algorithm becomes when it is averaged over a given number of rows."""

from __future__ import annotations

from holdfast import rounding
from holdfast.reductions._algorithm import Algorithm
from holdfast.reductions._mismatch import subsampled_distance
from holdfast.reductions._sampling import Sampling
from holdfast.stability import DP, coin_disagreement, mean_distance

__all__ = ["least_rho", "steadiest"]

# Even a law that does not depend on the data is asked for some ρ.
_LEAST = 1e-9
# So many subsets for each disjoint part that there could be, and at most so many in all.
_SUBSETS_A_PART = 64
_MOST_SUBSETS = 4096


def least_rho(algorithm: Algorithm, parts: int, *, of: str) -> float:
    """The ρ that averaging over so many disjoint parts reaches, never below 1e-9."""
    return _of_parts(algorithm, parts, of).rho


def steadiest(algorithm: Algorithm, parts: int, *, of: str) -> Sampling:
    """Disjoint parts, or random subsets of as many rows where these are clearly more replicable.

    Parts average Var/parts. Subsets overlap, so their average is that of a more private algorithm: with many
    outcomes and a small ε it varies far less.
    """
    dp, n = algorithm.guarantee, algorithm.rows_needed
    assert isinstance(dp, DP)
    disjoint = _of_parts(algorithm, parts, of)
    outcomes, runs = len(algorithm.finite(of=of)), _runs(algorithm)
    draws = min(_MOST_SUBSETS, _SUBSETS_A_PART * parts)
    rho = _rho(algorithm, subsampled_distance(dp, n, n * parts, draws, outcomes, runs), outcomes)
    # Subsets are evaluated many times over: they must be worth it.
    return Sampling(draws, n * parts, rho, False) if rho < 0.75 * disjoint.rho else disjoint


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
