"""How often shared coins disagree on the law of a private algorithm, averaged over samples or subsets."""

from __future__ import annotations

import math
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability import (
    DP,
    Replicability,
    chance_disagreement,
    coin_disagreement,
    estimation_distance,
    mean_distance,
    outcome_variance,
    private_distance,
)

__all__ = ["dp_replicability", "replicability_budget", "subsampled_distance"]

_BY = "Holdfast, expected distance"


def dp_replicability(dp: Any, n: int, *, parts: Any = 1, outcomes: Any = None) -> Replicability:
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


def replicability_budget(rho: float, n: int, *, parts: Any = 1, outcomes: Any = None) -> DP:
    """How private an algorithm on ``n`` rows must be for ``dp_replicability`` to give ``rho``.

    Guarantee: the largest ε, rounded down, of pure privacy: with x = ρ/(2 − ρ) (ρ for two outcomes),
    cosh(ε/2)^{2n} = 1 + 2x²·parts; about ε = ρ√(2·parts/n). By privacy alone: where counting outcomes gives
    ρ already, any ε will do.
    Assumes: what ``dp_replicability`` assumes.
    Reference: Holdfast.

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
    # The inverse of cosh at 1 + gained, and a margin for the rounding of the way back.
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
