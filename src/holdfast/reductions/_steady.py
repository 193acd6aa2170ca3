"""How replicable the law of a private algorithm becomes when it is averaged over a given number of parts."""

from __future__ import annotations

from holdfast import rounding
from holdfast.reductions._algorithm import Algorithm
from holdfast.stability import DP
from holdfast.stability._mismatch import disagreement, mean_distance

__all__ = ["least_rho"]

# Even a law that does not depend on the data is asked for some ρ.
_LEAST = 1e-9


def least_rho(algorithm: Algorithm, parts: int, *, of: str) -> float:
    """The ρ that ``dp_to_replicable`` reaches with so many disjoint parts, never below 1e-9."""
    dp = algorithm.guarantee
    assert isinstance(dp, DP)
    outcomes = len(algorithm.finite(of=of))
    runs = 0 if algorithm.probabilities is not None else algorithm.law_runs
    distance = mean_distance(dp, algorithm.rows_needed, parts, outcomes, runs)
    return max(_LEAST, disagreement(rounding.probability(distance + 2.0 * algorithm.law_error), outcomes))
