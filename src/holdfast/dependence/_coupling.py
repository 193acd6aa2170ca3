"""Bayesian differential privacy of a Markov chain from its cross ratio (theory 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding

_THEOREM = "theory 5, the chain bound"
_MOST_LEVELS = 100_000


def cross_ratios(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """κ(a,b) = min P(a,y)P(b,z) / (P(b,y)P(a,z)) over y, z with P(b,y)P(a,z) > 0, for all rows a, b.

    The minimum splits into one over y in the support of b and one over z in the support of a.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.array([np.where(table > 0.0, row / table, np.inf).min(axis=1) for row in table])
    ratios: NDArray[np.float64] = np.minimum(1.0, least * least.T)
    return ratios


def cross_ratio(transition: NDArray[np.float64]) -> float:
    """κ, the least cross ratio of two rows, rounded down."""
    return rounding.down(float(cross_ratios(transition).min()))


def coupling_bdp(epsilon: Any, cross_ratio: Any, n: Any = None) -> float:
    """The Bayesian DP that an ``epsilon``-DP mechanism has on a Markov chain with that cross ratio κ.

    Guarantee: 4 arsinh(sinh(ε/4)/√κ), for every ε and any start, inhomogeneous chains with the least κ; with
    ``n`` rows the recursion L_0 = 0, L_m = 2 ln((√κ + e^{(ε+L_{m−1})/2})/(1 + √κ e^{(ε+L_{m−1})/2})) and ε +
    max_i (L_{i−1} + L_{n−i}), never above nε. Rounded up.
    Assumes: a Markov chain with that cross ratio (not checkable from the data).
    Reference: theory 5, the sharp bound for chains.

    >>> round(coupling_bdp(0.1, cross_ratio=0.4), 9)
    0.158089194
    >>> round(coupling_bdp(0.1, cross_ratio=0.4, n=2), 9)
    0.122510371
    """
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of="coupling_bdp", by=_THEOREM)
    if n is None:
        kappa = checks.real(cross_ratio, "cross_ratio", "(0, 1]", of="coupling_bdp", by=_THEOREM)
        return rounding.up(_stationary(epsilon, math.sqrt(kappa)))
    kappa = checks.real(cross_ratio, "cross_ratio", "[0, 1]", of="coupling_bdp", by=_THEOREM)
    n = checks.whole(n, "n", of="coupling_bdp")
    if kappa == 0.0:
        return rounding.up(n * epsilon)
    return _finite(epsilon, math.sqrt(kappa), n)


def _stationary(epsilon: float, root: float) -> float:
    """4 arsinh(sinh(ε/4)/√κ), where beyond a quarter of ε = 30 the sine is e^{ε/4}/2 to the last digit."""
    quarter = epsilon / 4.0
    if quarter > 30.0:
        return epsilon - 4.0 * math.log(root)
    return 4.0 * math.asinh(math.sinh(quarter) / root)


def _finite(epsilon: float, root: float, n: int) -> float:
    everywhere = rounding.up(_stationary(epsilon, root))
    reach = level_sequence(epsilon, root, n)
    last = len(reach) - 1
    left = np.arange(min(n, 2 * len(reach)))
    right = min(n, 4 * len(reach)) - 1 - left  # from so far on, all are the last
    sums = reach[np.minimum(left, last)] + reach[np.minimum(right, last)]
    return min(rounding.up(epsilon + float(sums.max())), everywhere, rounding.up(n * epsilon))


def level_sequence(epsilon: float, root: float, n: int) -> NDArray[np.float64]:
    """L_0, L_1, …, each rounded up, at most to L_{n−1}; where the recursion settles or takes too long, its
    limit is the last and stands for all that follow."""
    levels = [0.0]
    for _ in range(min(n - 1, _MOST_LEVELS)):
        levels.append(carried(epsilon + levels[-1], root))
        if levels[-1] <= levels[-2] * (1.0 + 1e-13):
            break
    if len(levels) < n:
        levels.append(rounding.up((rounding.up(_stationary(epsilon, root)) - epsilon) / 2.0))
    return np.array(levels)


def carried(beyond: float, root: float) -> float:
    """2 ln((√κ + e^{t/2})/(1 + √κ e^{t/2})), rounded up: what a step with cross ratio κ carries of the t that
    one row and all beyond it can do; ``root`` is √κ."""
    half = beyond / 2.0
    if root == 0.0:
        return beyond
    return rounding.up(2.0 * math.log1p((1.0 - root) * -math.expm1(-half) / (math.exp(-half) + root)))


def coupling_dp(epsilon: float, kappa: float, n: int) -> float:
    """The largest DP parameter for which ``coupling_bdp`` with ``n`` rows stays within ``epsilon``."""
    return largest_below(epsilon, lambda dp: coupling_bdp(dp, kappa, n))


def largest_below(bound: float, function: Callable[[float], float]) -> float:
    """The largest x ≤ ``bound`` with function(x) ≤ bound, for an increasing continuous function with
    function(x) ≥ x; to 1e-12, safe side. Few calls: each may be a pass over a large tree."""
    from scipy.optimize import brentq

    high, value = bound, function(bound)
    if value <= bound:
        return high
    low = high
    while value > bound:
        high, low = low, min(low * bound / value, low / 2.0) if low < bound else low * bound / value
        value = function(low)
    root = float(brentq(lambda x: function(x) - bound, low, high, xtol=1e-300, rtol=1e-13))
    for candidate in (root, root * (1.0 - 1e-12)):
        if low <= candidate and function(candidate) <= bound:
            return candidate
    return low
