"""How far two samples lie apart, and how far one lies from the truth: the bounds behind the sizes."""

from __future__ import annotations

import math

from holdfast import rounding

__all__ = ["band_end", "chernoff", "divergence", "mean_gap", "share_gap"]


def mean_gap(n: int) -> float:
    """E|v1 − v2| for the means of two samples of ``n`` values in [0, 1].

    Guarantee: an upper bound; the fair coin has exactly C(2n, n)/4ⁿ ≤ 1/√(π(n + ¼)), which nothing exceeds.
    Assumes: independent rows of one law, both samples of at least ``n`` rows.
    Reference: theory 4, randomised rounding.

    >>> round(mean_gap(100), 6)
    0.056349
    """
    return rounding.up(1.0 / math.sqrt(math.pi * (n + 0.25)))


def share_gap(n: int, variance: float) -> float:
    """E|v1 − v2| for the shares of two samples of ``n`` rows, for a share p with p(1 − p) ≤ ``variance``.

    Guarantee: an upper bound, √((4p(1−p) + 2/n)/(πn)), never above :func:`mean_gap`. The difference is a
    random walk of Bin(n, 2p(1−p)) steps, and k steps lead √(2(k+1)/π) away or less; then Jensen.
    Assumes: as :func:`mean_gap`.
    Reference: Holdfast, replicability.

    >>> round(share_gap(100, 0.09), 6)
    0.034779
    """
    walk = math.sqrt((4.0 * variance + 2.0 / n) / (math.pi * n))
    return min(mean_gap(n), rounding.up(walk))


def divergence(share: float, truth: float) -> float:
    """kl(share ‖ truth) of two coins, in nats."""
    if not 0.0 < truth < 1.0:
        return math.inf if share != truth else 0.0
    first = share * math.log(share / truth) if share > 0.0 else 0.0
    second = (1.0 - share) * math.log((1.0 - share) / (1.0 - truth)) if share < 1.0 else 0.0
    return max(0.0, first + second)


def chernoff(n: int, share: float, truth: float) -> float:
    """P(the share of ``n`` rows is at or beyond ``share``, on its side of ``truth``), from above.

    Guarantee: at most exp(−n kl(share ‖ truth)).
    Assumes: independent rows.
    Reference: Chernoff 1952, Hoeffding 1963.

    >>> round(chernoff(100, 0.6, 0.5), 6)
    0.133514
    """
    return rounding.probability(math.exp(-n * divergence(share, truth)))


def band_end(n: int, inside: float, limit: float, beta: float) -> float:
    """The share between ``inside`` and ``limit``, nearest to ``limit``, that n rows reach from ``limit`` with
    probability at most ``beta``; ``inside`` itself if there is none."""
    needed = -math.log(beta) / n * (1.0 + 1e-9)
    outer = limit
    for _ in range(50):
        middle = 0.5 * (inside + outer)
        if divergence(middle, limit) >= needed:
            inside = middle
        else:
            outer = middle
    return inside
