"""The binary relative entropy kl(u, p) and its inverse in p, to full relative accuracy near 0 and near 1.

Shares are carried as a pair of distances, (p, w) with p the distance from 0 and w = 1 − p the distance from
1: 1 − w would lose all digits of a small p, and the other way round.
"""

from __future__ import annotations

import math

# Below this a share counts as 0: far under anything a sample can tell, and quotients do not overflow.
_NOTHING = 1e-290
_EPS = 2.0**-52


def _log_gap(x: float) -> float:
    """x − ln(1 + x) for x > −1, without the cancellation for small x (series in x/(2 + x))."""
    if not -0.2 < x < 0.25:
        return x - math.log1p(x)
    r = x / (2.0 + x)
    s = r * r
    series = 1 / 3 + s * (
        1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s * (1 / 13 + s * (1 / 15 + s * (1 / 17 + s / 19))))))
    )
    return x * r - 2.0 * r * s * series


def divergence(u: float, v: float, d: float, w: float) -> float:
    """kl(u, u + d) for v = 1 − u > 0, 0 ≤ d < v and w = v − d: two non-negative terms, so nothing cancels."""
    below = u * _log_gap(d / u) if u > _NOTHING else d
    above = v * _log_gap(-d / v) if d <= 0.5 * v else v * math.log(v / w) - d
    return below + above


def reach(u: float, v: float, level: float) -> tuple[float, float]:
    """The p ≥ u with kl(u, p) = level, as (p, 1 − p), on the safe side: p rounded up and 1 − p rounded down.

    The divergence is convex in p, so Newton's method started above the solution stays above it. It starts
    from the least of three upper bounds, each sharp in its own regime: with d = p − u, kl ≥ 2d² (Pinsker) and
    kl ≥ d²/2p (small shares), and w ≥ v exp(−(level − u ln u)/v) with w = 1 − p (never off by more than a
    factor e).
    """
    if v <= _NOTHING:
        return 1.0, 0.0
    if u <= _NOTHING:
        p, w = -math.expm1(-level), math.exp(-level)
    else:
        p, w = _newton(u, v, level)
    if w <= _NOTHING:
        return 1.0, 0.0
    # An error of ε·level in the divergence moves ln w by about ε·level/v.
    return p * (1.0 + 16.0 * _EPS), w * (1.0 - (16.0 + 8.0 * level / v) * _EPS)


def _newton(u: float, v: float, level: float) -> tuple[float, float]:
    d = min(math.sqrt(0.5 * level), level + math.sqrt(level) * math.sqrt(level + 2.0 * u))
    floor = v * math.exp(-(level - u * math.log(u)) / v)
    w = v - d
    if w < floor:
        d, w = v - floor, floor
    for _ in range(64):
        if w <= _NOTHING:
            return 1.0, 0.0
        if d <= 0.0:
            return u, v
        step = (divergence(u, v, d, w) - level) * (u + d) * w / d
        d -= step
        w += step
        if abs(step) <= 1e-9 * min(d, w):
            break
    return u + d, w
