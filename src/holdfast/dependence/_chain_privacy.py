"""Bayesian differential privacy of a Markov chain: from cross ratios, from pairs of values, and from the
spectral gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding, search
from holdfast.dependence._chain_quilts import MOST_STATES
from holdfast.dependence._forgetting import unreachable
from holdfast.dependence._privacy import Route, Routes, blanket_route, group_route, quilt_route, refused
from holdfast.dependence._quilts import Array

if TYPE_CHECKING:
    from holdfast.dependence._chain import MarkovChain

_THEOREM = "docs/theory/dependence.md, Differential privacy on a chain"
_MOST_LEVELS = 100_000
_MOST = 10_000_000
_SLACK = 1.0 + 1e-13
_LEMMA = "BDP Lemma 4"
_CANDIDATES = 100_000


def chain_routes(chain: MarkovChain) -> Routes:
    """Every method by name; the two printed forms count a quilt's influence four times, the others twice."""
    return {
        "group": partial(group_route, chain.n),
        "coupling": partial(_coupling, chain),
        "pairs": partial(_pairs, chain),
        "spectral": partial(_spectral, chain),
        "blanket": partial(_blanket, chain, 2.0),
        "quilt": partial(_quilt, chain, 2.0),
        "blanket-paper": partial(_blanket, chain, 4.0),
        "quilt-paper": partial(_quilt, chain, 4.0),
    }


def _coupling(chain: MarkovChain) -> Route:
    return Route(
        lambda epsilon: coupling_bdp(epsilon, chain.cross_ratio, chain.n),
        lambda epsilon: coupling_dp(epsilon, chain.cross_ratio, chain.n),
        _THEOREM,
    )


def _pairs(chain: MarkovChain) -> Route:
    def bound(epsilon: float) -> float:
        return pairs_bdp(epsilon, chain.transition, chain.n)

    return Route(bound, lambda epsilon: largest_below(epsilon, bound), _THEOREM)


def _spectral(chain: MarkovChain) -> Route:
    def least() -> float:
        return rounding.down(float(chain.stationary.min()))

    return Route(
        lambda epsilon: spectral_bdp(epsilon, chain.spectral_gap, least()),
        lambda epsilon: spectral_dp(epsilon, chain.spectral_gap, least()),
        "BDP Lemma 4",
        _spectral_refusal(chain),
    )


def _spectral_refusal(chain: MarkovChain) -> str:
    """What the chain would have to be for Lemma 4 to apply; empty if it applies."""
    if unreachable(chain.transition) is not None:
        return "an irreducible chain"
    return "" if chain.spectral_gap > 0.0 else "a chain with a spectral gap (here the operator norm is 1)"


def _undefined(chain: MarkovChain) -> str:
    if chain.initial is None and unreachable(chain.transition) is not None:
        return "an irreducible chain, or the law of its first row (initial=…)"
    if len(chain.transition) > MOST_STATES:
        return f"a chain of at most {MOST_STATES} states"
    return ""


def _blanket(chain: MarkovChain, weight: float) -> Route:
    reason = _undefined(chain)
    if reason:
        return refused(reason, "BDP Lemma 3")
    return blanket_route(chain._quilts.blanket_influence(), weight)


def _quilt(chain: MarkovChain, weight: float) -> Route:
    reason = _undefined(chain)
    if reason:
        return refused(reason, "BDP Lemma 2")
    return quilt_route(chain._quilts, weight)


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


def coupling_bdp(epsilon: float, cross_ratio: float, n: int | None = None) -> float:
    """The Bayesian DP that an ``epsilon``-DP mechanism has on a Markov chain with that cross ratio κ.

    Guarantee: 4 arsinh(sinh(ε/4)/√κ), for every ε and any start, inhomogeneous chains with the least κ; with
    ``n`` rows the recursion L_0 = 0, L_m = 2 ln((√κ + e^{(ε+L_{m−1})/2})/(1 + √κ e^{(ε+L_{m−1})/2})) and ε +
    max_i (L_{i−1} + L_{n−i}), never above nε. Rounded up.
    Assumes: a Markov chain with that cross ratio (not checkable from the data).
    Reference: ``docs/theory/dependence.md``, "Differential privacy on a chain".

    Args:
        cross_ratio: The cross ratio κ of the transition matrix, in (0, 1].

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
    right = min(n, 4 * len(reach)) - 1 - left  # farther away, all levels equal the last one
    sums = reach[np.minimum(left, last)] + reach[np.minimum(right, last)]
    return min(rounding.up(epsilon + float(sums.max())), everywhere, rounding.up(n * epsilon))


def level_sequence(epsilon: float, root: float, n: int) -> NDArray[np.float64]:
    """L_0, L_1, …, each rounded up, at most to L_{n−1}. If the recursion settles or takes too long, its limit
    is the last entry and stands for all later ones."""
    levels = [0.0]
    for _ in range(min(n - 1, _MOST_LEVELS)):
        levels.append(carried(epsilon + levels[-1], root))
        if levels[-1] <= levels[-2] * (1.0 + 1e-13):
            break
    if len(levels) < n:
        levels.append(rounding.up((rounding.up(_stationary(epsilon, root)) - epsilon) / 2.0))
    return np.array(levels)


def carried(beyond: float, root: float) -> float:
    """2 ln((√κ + e^{t/2})/(1 + √κ e^{t/2})), rounded up: how much of t, the effect of one row and all beyond
    it, passes through a step with cross ratio κ. ``root`` is √κ."""
    half = beyond / 2.0
    if root == 0.0:
        return beyond
    return rounding.up(2.0 * math.log1p((1.0 - root) * -math.expm1(-half) / (math.exp(-half) + root)))


def coupling_dp(epsilon: float, kappa: float, n: int) -> float:
    """The largest DP parameter for which ``coupling_bdp`` with ``n`` rows stays within ``epsilon``."""
    return largest_below(epsilon, lambda dp: coupling_bdp(dp, kappa, n))


def largest_below(bound: float, function: Callable[[float], float]) -> float:
    """The largest x ≤ ``bound`` with function(x) ≤ bound, for an increasing continuous function with
    function(x) ≥ x; to 1e-9, on the safe side. It makes few calls, because each may be a pass over a large
    tree."""
    low, at_low = bound, bound - function(bound)
    if at_low >= 0.0:
        return low
    while at_low < 0.0:
        high, at_high = low, at_low
        proportional = low * bound / (bound - at_low)
        low = min(proportional, low / 2.0) if low < bound else proportional
        at_low = bound - function(low)
    return search.safe_root(
        lambda x: bound - function(x), low, high, at_low, at_high, narrow=max(1e-9 * low, 5e-324)
    )


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
    """How much passes through each pair's own step from a side with 0, 1, 2, … rows; the last entry stands
    for all longer sides."""
    if len(levels) * len(roots) > _MOST:
        levels = levels[-1:]
    return np.vstack([np.zeros(len(roots)), carried_by_pairs(epsilon + levels[:, None], roots)])


def spectral_dp(epsilon: float, gap: float, least: float, c: float | None = None) -> float:
    """The h for which h-DP implies ``epsilon``-Bayesian DP on a Markov chain with a spectral gap.

    Guarantee: with g = ``gap``, ρ = ``least`` (the smallest stationary probability) and c in (0, 1/6), d =
    ⌈ln((e^{cε}+1)/(ρ(e^{cε}−1)))/g⌉, s the same with c = 1/6, h = min{(1−6c)ε/(2d−1), (1/3−2c)ε/(d+s)},
    rounded down; any start and any number of rows. Without ``c`` the best c is taken: for every integer d the
    smallest c that has it, and d is scanned.
    Assumes: an irreducible chain with that smallest stationary probability and 1 − g at least its operator
    norm on mean-zero functions in L²(π) (not checkable from the data). For a chain that is not reversible, 1
    − the second eigenvalue is not enough.
    Reference: BDP Lemma 4, by the 2b form of Lemma 2 (``docs/theory/dependence.md``); printed for reversible
    chains.

    >>> round(spectral_dp(0.1, gap=0.5, least=0.2, c=0.1), 10)
    0.0004938272
    >>> spectral_dp(0.1, gap=0.5, least=0.2) > 0.0004938272
    True
    """
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of="spectral_dp", by=_LEMMA)
    gap = checks.real(gap, "gap", "(0, 1]", of="spectral_dp", by=_LEMMA)
    least = checks.real(least, "least", "(0, 1]", of="spectral_dp", by=_LEMMA)
    far = _distance(epsilon / 6.0, gap, least)
    if c is None:
        return rounding.down(_best(epsilon, gap, least, far))
    c = checks.real(c, "c", f"(0, {1.0 / 6.0!r})", of="spectral_dp", by=_LEMMA)
    near = np.array([_distance(c * epsilon, gap, least)])
    return rounding.down(float(_h(epsilon, np.array([c]), near, far)[0]))


def _distance(exponent: float, gap: float, least: float) -> float:
    """⌈ln((e^x + 1)/(ρ(e^x − 1)))/g⌉ with x = ``exponent``; (e^x + 1)/(e^x − 1) = 1/tanh(x/2)."""
    return float(math.ceil(rounding.up(-(math.log(math.tanh(exponent / 2.0)) + math.log(least)) / gap)))


def _h(epsilon: float, c: NDArray[np.float64], d: NDArray[np.float64], s: float) -> NDArray[np.float64]:
    return np.minimum((1.0 - 6.0 * c) * epsilon / (2.0 * d - 1.0), (1.0 / 3.0 - 2.0 * c) * epsilon / (d + s))


def _best(epsilon: float, gap: float, least: float, far: float) -> float:
    """Scan d. The smallest c with that d solves tanh(cε/2) = e^{−gd}/ρ; c below 1/6 needs d ≥ s."""

    def values(d: NDArray[np.float64]) -> NDArray[np.float64]:
        small = np.minimum(np.exp(-gap * d) / least, 1.0 - 1e-16)
        c = 2.0 * np.arctanh(small) / epsilon * (1.0 + 1e-13)
        return np.where(c < 1.0 / 6.0, _h(epsilon, c, d, far), 0.0)

    first = max(1.0, far)
    # h is at most ε/(2d − 1). Once that is below the best value so far, no larger d can be better.
    near_best = float(
        values(np.array([first, first + math.ceil(1.0 / gap), first + math.ceil(3.0 / gap)])).max()
    )
    last = max(first, math.floor(epsilon / (2.0 * near_best) + 1.0))
    while True:
        step = max(1.0, math.ceil((last - first + 1.0) / _CANDIDATES))
        d = np.arange(first, last + step, step)
        h = values(d)
        place = int(h.argmax())
        if step == 1.0:
            return float(h[place])
        first, last = max(first, d[place] - 2.0 * step), d[place] + 2.0 * step


def spectral_bdp(epsilon: float, gap: float, least: float) -> float:
    """The Bayesian DP of an ``epsilon``-DP mechanism by Lemma 4: the smallest value whose h reaches it.

    Guarantee: rounded up; h does not decrease with its first argument, so bisection finds the smallest value.
    """
    enough = search.least_real(lambda total: spectral_dp(total, gap, least) >= epsilon, start=epsilon)
    return math.inf if enough is None else enough
