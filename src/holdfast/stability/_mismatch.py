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
    and the second with probability 1 − b (``stability.collision_probability``).
    """
    return distance if outcomes is not None and outcomes <= 2 else disagreement_bound(distance)


def spread(epsilon: float, n: int) -> float:
    """cosh(ε/2)^{2n} − 1: relative variance of an outcome's probability over the sample, under pure ε-DP."""
    nats = 2.0 * n * math.log1p(2.0 * math.sinh(epsilon / 4.0) ** 2) if epsilon < 1400.0 else math.inf
    return rounding.up(math.expm1(nats)) if nats < 700.0 else math.inf


def mean_distance(dp: DP, n: int, parts: int = 1, outcomes: int | None = None, runs: int = 0) -> float:
    """Expected total variation between averages of the law over ``parts`` samples of ``n`` rows each.

    ``runs`` > 0: each law is estimated from so many runs. That adds to the variance; the bound that counts
    outcomes covers it already, since a run on a fresh sample has variance P(1 − P) in all.
    """
    if dp.delta == 0.0:
        private = math.sqrt(spread(dp.epsilon, n) / (2.0 * parts))
    else:
        private = math.sqrt(spread(2.0 * dp.epsilon, n) / (2.0 * parts)) + leak(dp, n)
    if outcomes is None:
        return rounding.probability(private)
    counted = math.sqrt((outcomes - 1) / (2.0 * parts))
    return rounding.probability(min(private + estimation(outcomes, parts, runs), counted))


def estimation(outcomes: int, draws: int, runs: int) -> float:
    """What estimating each of ``draws`` laws from ``runs`` runs adds to the expected distance."""
    return math.sqrt((outcomes - 1) / (2.0 * draws * runs)) if runs else 0.0


def leak(dp: DP, n: int) -> float:
    """What δ adds: each law is within 2nδ(1 + e^{−ε}), in L1, of one that behaves as if δ were 0."""
    return 2.0 * n * dp.delta * (1.0 + math.exp(-dp.epsilon))
