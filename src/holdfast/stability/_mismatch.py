"""How far apart the output laws of a private algorithm on two samples are on average, and so how often shared
coins disagree.

Shared coins at total variation d disagree with probability at most 2d/(1 + d), which is concave, so the
expected distance is enough: neither max-information nor a union bound over good samples is needed.
"""

from __future__ import annotations

import math

from holdfast import rounding
from holdfast.stability._dp import DP
from holdfast.stability._replicability import disagreement_bound


def disagreement(distance: float, outcomes: int | None) -> float:
    """How often shared coins disagree at this expected total variation: 2d/(1 + d), and d for two outcomes.

    With two outcomes and laws (a, 1 − a), (b, 1 − b), a < b, both sides choose the first with probability a
    and the second with probability 1 − b (``stability.collision_probability``). Never above 1 − 1/k for k
    outcomes: given the coins, the two choices are independent and have the same law.
    """
    if outcomes is None:
        return disagreement_bound(distance)
    return min(distance if outcomes <= 2 else disagreement_bound(distance), by_chance(outcomes))


def by_chance(outcomes: int) -> float:
    """1 − 1/k, rounded up: how often two independent choices of one law among k outcomes differ, at most."""
    return rounding.up(1.0 - 1.0 / outcomes)


def spread(epsilon: float, n: int) -> float:
    """cosh(ε/2)^{2n} − 1: relative variance of an outcome's probability over the sample, under pure ε-DP."""
    nats = 2.0 * n * math.log1p(2.0 * math.sinh(epsilon / 4.0) ** 2) if epsilon < 1400.0 else math.inf
    return rounding.up(math.expm1(nats)) if nats < 700.0 else math.inf


def mean_distance(dp: DP, n: int, parts: int = 1, outcomes: int | None = None, runs: int = 0) -> float:
    """Expected total variation between averages of the law over ``parts`` samples of ``n`` rows each.

    ``runs`` > 0: each law is estimated from so many runs. That adds to the variance; the two bounds that
    count outcomes cover it already. √((k − 1)/2 parts): a run on a fresh sample has variance P(1 − P) in all.
    1 − 1/k: Σ min(p, p') ≥ Σ pp', whose mean is Σ P² ≥ 1/k.
    """
    private = private_distance(dp, n, 1.0 / parts)
    if outcomes is None:
        return rounding.probability(private)
    counted = min(math.sqrt((outcomes - 1) / (2.0 * parts)), by_chance(outcomes))
    return rounding.probability(min(private + estimation(outcomes, parts, runs), counted))


def private_distance(dp: DP, n: int, share: float = 1.0) -> float:
    """√(share·v/2) plus what δ costs: v the relative variance of an outcome's probability over n rows.

    Pure privacy: v = cosh(ε/2)^{2n} − 1. With δ > 0 each row's likelihood ratio is clamped to an interval of
    log-length 2ε, which makes v = cosh(ε)^{2n} − 1 and costs 2nδ, or of log-length ε, which keeps the v of
    pure privacy and costs 2n√δ. The smaller counts.
    """
    clamped = math.sqrt(spread(dp.epsilon, n) * share / 2.0) + 2.0 * n * math.sqrt(dp.delta)
    return min(clamped, math.sqrt(spread(2.0 * dp.epsilon, n) * share / 2.0) + 2.0 * n * dp.delta)


def estimation(outcomes: int, draws: int, runs: int) -> float:
    """What estimating each of ``draws`` laws from ``runs`` runs adds to the expected distance."""
    return math.sqrt((outcomes - 1) / (2.0 * draws * runs)) if runs else 0.0
