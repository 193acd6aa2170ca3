"""The chain bound pair by pair: a row changes from one value to another, and that pair's ratios count."""

from __future__ import annotations

import math

import numpy as np

from holdfast import rounding
from holdfast.dependence._coupling import cross_ratios, level_sequence
from holdfast.dependence._factors import Array

_MOST = 10_000_000
_SLACK = 1.0 + 1e-13


def pair_roots(table: Array) -> Array:
    """√κ(a,b) for all rows a, b of a table, rounded down."""
    roots: Array = np.sqrt(cross_ratios(table)) / _SLACK
    return roots


def carried_by_pairs(beyond: Array | float, roots: Array) -> Array:
    """2 ln((√κ + e^{t/2})/(1 + √κ e^{t/2})) for each √κ in ``roots``, rounded up."""
    half = np.asarray(beyond) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        level = 2.0 * np.log1p((1.0 - roots) * -np.expm1(-half) / (np.exp(-half) + roots)) * _SLACK
    result: Array = np.where(roots > 0.0, level, 2.0 * half)
    return result


def pairs_bdp(epsilon: float, transition: Array, n: int) -> float:
    """The Bayesian DP that an ``epsilon``-DP mechanism has on a chain, by the cross ratios of pairs.

    With m rows on a side, a pair's own step there carries ε + L_{m−1}, where L is the recursion with the
    least cross ratio: max over rows and pairs of ε + left(a,b) + right(a,b).
    """
    above = np.triu_indices(len(transition), 1)
    if not len(above[0]):
        return epsilon
    right, left = pair_roots(transition)[above], pair_roots(transition.T)[above]
    least = min(float(right.min()), float(left.min()))
    if least == 0.0:
        return rounding.up(n * epsilon)
    levels = level_sequence(epsilon, least, n)
    if len(levels) * len(right) > _MOST:
        levels = levels[-1:]
    # Without rows on a side nothing is carried; the last level stands for every longer side.
    on_right, on_left = (
        np.vstack([np.zeros(len(roots)), carried_by_pairs(epsilon + levels[:, None], roots)])
        for roots in (right, left)
    )
    most = len(levels)
    before = np.arange(min(n, 2 * most + 2))
    sums = on_left[np.minimum(before, most)] + on_right[np.minimum(n - 1 - before, most)]
    bound = rounding.up(epsilon + float(sums.max()))
    return bound if math.isfinite(bound) and bound < n * epsilon else rounding.up(n * epsilon)
