"""The chain bound pair by pair: a row changes from one value to another, and that pair's ratios count."""

from __future__ import annotations

import numpy as np

from holdfast import rounding
from holdfast.dependence._coupling import coupling_bdp, cross_ratio, cross_ratios, level_sequence
from holdfast.dependence._factors import Array

_MOST = 10_000_000
_SLACK = 1.0 + 1e-13


def pair_roots(table: Array) -> Array:
    """√κ(a,b) for all rows a, b of a table without a zero row, rounded down."""
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
    least cross ratio on that side: max over rows and pairs of ε + left(a,b) + right(a,b). A state that no
    step enters is possible in the first row only, where nothing is on the left. Never above
    ``coupling_bdp``, which takes the least cross ratio for every pair.
    """
    coupled = coupling_bdp(epsilon, cross_ratio(transition), n)
    if n == 1 or len(transition) == 1:
        return coupled
    entered = np.flatnonzero((transition > 0.0).any(axis=0))
    from_first = pair_roots(transition)
    to_right = _pairs_of(from_first[np.ix_(entered, entered)])
    # Any state may come before an entered one: it may be the first row's.
    to_left = _pairs_of(pair_roots(transition[:, entered].T))
    if min(to_right.min(initial=1.0), to_left.min(initial=1.0)) == 0.0:
        return coupled
    right_levels, left_levels = (
        level_sequence(epsilon, float(roots.min(initial=1.0)), n) for roots in (to_right, to_left)
    )
    beyond = right_levels[min(n - 2, len(right_levels) - 1)]
    most = float(carried_by_pairs(epsilon + beyond, _pairs_of(from_first)).max())
    if len(to_right):
        on_right, on_left = (
            _carried(epsilon, levels, roots)
            for levels, roots in ((right_levels, to_right), (left_levels, to_left))
        )
        # Both sides grow with their rows and stop growing at their last level: more rows before add nothing.
        before = np.arange(1, min(n, len(on_left)))
        sums = on_left[before] + on_right[np.minimum(n - 1 - before, len(on_right) - 1)]
        most = max(most, float(sums.max()))
    return min(coupled, rounding.up(epsilon + most))


def _pairs_of(table: Array) -> Array:
    """The entries of a symmetric table for all pairs of different values."""
    pairs: Array = table[np.triu_indices(len(table), 1)]
    return pairs


def _carried(epsilon: float, levels: Array, roots: Array) -> Array:
    """What each pair's own step carries of a side with 0, 1, 2, … rows; the last stands for all longer."""
    if len(levels) * len(roots) > _MOST:
        levels = levels[-1:]
    return np.vstack([np.zeros(len(roots)), carried_by_pairs(epsilon + levels[:, None], roots)])
