"""Shares, means of bounded values by the same bound, and quantiles by order statistics.

Binomial tails are in logs: exact where a float can hold the probability, a closed upper bound beyond.
The binary relative entropy kl(u, p) and its inverse in p have full relative accuracy near 0 and near 1. So
shares are carried as a pair of distances, (p, w) with p the distance from 0 and w = 1 − p the distance from
1: 1 − w would lose all digits of a small p, and the other way round.

x is a q-quantile of a distribution if P(X < x) ≤ q ≤ P(X ≤ x). If the distribution function is flat at height
q, all values of an interval are q-quantiles. If it jumps past q at a value, this value is a quantile for all
q of a range. The intervals for quantiles hold **every** q-quantile, at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.intervals._interval import Interval, bounds, inside, numbers, placed, radius_at
from holdfast.tails import Tail

_LN2 = math.log(2.0)
# Beyond these nats betainc may lose digits, or return 0, to underflow inside (from about 590 nats on).
_EXACT_UP_TO = 460.0
# Below this a share counts as 0: far below anything a sample can show, and quotients do not overflow.
_NOTHING = 1e-290
_EPS = 2.0**-52
# Ends are widened by this share of themselves, in addition to the rounding to the safe side.
_OUTWARD = 64 * _EPS


def kl(
    mean: float, n: int, nats: float, *, lo: float = 0.0, hi: float = 1.0, most: float | None = None
) -> Interval:
    """The binary relative-entropy (Chernoff) interval for the mean of ``n`` values in [lo, hi].

    With ``most``, the least interval that contains those of every mean from ``mean`` to ``most``: both ends
    grow with the mean.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance: it keeps
    the p with n·kl(p̂, p) ≤ nats + ln 2, where p̂ and p are the sample mean and the mean as fractions of [lo,
    hi].
    Assumes: independent values, not necessarily of one distribution (not checkable), that stay in [lo, hi]
    (checked of ``mean`` only); p is the average of their expectations.
    Reference: Hoeffding 1963, theorem 1, inequality (2.1); a union bound joins the sides.

    Args:
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> kl(0.25, 400, 3.0)
    Interval(low=0.194449, high=0.311671)
    """
    lo, hi = bounds(lo, hi, of="kl")
    mean = inside(mean, "mean", lo, hi, of="kl")
    most = mean if most is None else inside(most, "most", mean, hi, of="kl")
    n = checks.whole(n, "n", of="kl")
    nats = checks.real(nats, "nats", "[0, inf)", of="kl")
    span = hi - lo
    level = rounding.up((nats + _LN2) / n)
    to_hi, to_lo = reach((hi - mean) / span, (mean - lo) / span, level)
    return placed(lo, hi, (to_lo, to_hi), reach((most - lo) / span, (hi - most) / span, level))


def of_filtered_mean(
    mean: float | None, count: int, nats: float, *, lo: float = 0.0, hi: float = 1.0
) -> Interval:
    """The :func:`kl` interval for the mean of f over the rows where a condition holds, ``count`` of them.

    With no such row ``mean`` is not used (it may be None) and the interval is [lo, hi]. Every interval of
    this package for independent rows can be used in this way, with the number of rows that pass the filter.

    Guarantee: holds E[f | condition] with probability ≥ 1 − exp(−nats) for a query fixed in advance, given
    the count, and therefore also without it. *Proof.* Fix the set of rows that meet the condition. Given this
    set, its rows are independent and have the law of one row given the condition. So the interval for
    ``count`` rows fails with probability ≤ exp(−nats). The average over all sets is not larger. ∎ The count
    is data too: if it is released, or a width that shows it, it is paid for (``docs/theory/code-guard.md``).
    Assumes: independent rows of one distribution (not checkable), f in [lo, hi] (checked of ``mean`` only).
    Reference: ``docs/theory/code-guard.md`` (what it costs); the proof above (that it holds).

    Args:
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> of_filtered_mean(0.25, 400, 3.0)
    Interval(low=0.194449, high=0.311671)
    >>> of_filtered_mean(None, 0, 3.0)
    Interval(low=0, high=1)
    """
    if checks.whole(count, "count", at_least=0, of="of_filtered_mean") == 0:
        checks.real(nats, "nats", "[0, inf)", of="of_filtered_mean")
        return Interval(*bounds(lo, hi, of="of_filtered_mean"))
    if mean is None:
        raise InvalidArgument("mean", "a number where rows pass the filter", None, of="of_filtered_mean")
    return kl(mean, count, nats, lo=lo, hi=hi)


def clopper_pearson(successes: int, n: int, nats: float, *, most: int | None = None) -> Interval:
    """The exact binomial interval for a share, from ``successes`` among ``n`` rows; [0, 1] for no rows.

    With ``most``, the least interval that contains those of every count from ``successes`` to ``most``: both
    ends grow with the count.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. Its ends
    are the p at which so few, and so many, successes have probability exp(−nats)/2: to 1e-9 nats, on the safe
    side, up to 459 nats; to 0.002 nats beyond, where the tail is bounded in logs. It lies within :func:`kl`
    at the same nats.
    Assumes: independent rows of one distribution (not checkable).
    Reference: Clopper and Pearson 1934.

    Args:
        nats: ln of one over the probability that the interval may miss.

    >>> clopper_pearson(100, 400, 3.0)
    Interval(low=0.208265, high=0.295484)
    """
    n = checks.whole(n, "n", at_least=0, at_most=2**53, of="clopper_pearson")
    successes = checks.whole(successes, "successes", at_least=0, at_most=n, of="clopper_pearson")
    if most is None:
        most = successes
    else:
        most = checks.whole(most, "most", at_least=successes, at_most=n, of="clopper_pearson")
    nats = checks.real(nats, "nats", "[0, inf)", of="clopper_pearson")
    return binomial_interval(successes, most, n, nats)


def binomial_interval(fewest: int, most: int, n: int, nats: float) -> Interval:
    """:func:`clopper_pearson` of every count from ``fewest`` to ``most``, for numbers that Holdfast computed
    itself: they are not checked. Each question uses this twice.

    Args:
        fewest: The least number of successes.
        most: The largest number of successes.
        n: How many rows there are.
        nats: ln of one over the probability that the interval may miss.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    one_less_low, low = upper_share(n - fewest, n, nats + _LN2)
    high, one_less_high = upper_share(most, n, nats + _LN2)
    # The smaller of the two distances has all its digits.
    low = low if low <= one_less_low else 1.0 - one_less_low
    high = high if high <= one_less_high else 1.0 - one_less_high
    return Interval(low * (1.0 - _OUTWARD), min(1.0, high * (1.0 + _OUTWARD)))


def _slack(n: int, nats: float) -> float:
    """Nats that cover the rounding error of a log tail: measured at most a third of this up to n = 10¹⁵."""
    return 1e-9 + 1e-15 * math.sqrt(n * nats)


def _remainder(k: int) -> float:
    """A lower bound on ln(k! / √(2πk) (k/e)^k), k ≥ 1: the terms of Stirling's series enclose it."""
    return 1.0 / (12.0 * k) - 1.0 / (360.0 * k * k * k)


def _log_mass(k: int, n: int, p: float, w: float) -> float:
    """An upper bound on ln P(Bin(n, p) = k), 0 < k < n, p ≥ k/n, within 0.001 of it."""
    rest = n - k
    u, v = k / n, rest / n
    d = p - u if p <= w else v - w
    shape = 1.0 / (12.0 * n) - _remainder(k) - _remainder(rest) - 0.5 * math.log(math.tau * k * v)
    return shape - n * divergence(u, v, max(d, 0.0), w)


def _log_tail_far(k: int, n: int, p: float, w: float, log_mass: float) -> float:
    """An upper bound on ln P(Bin(n, p) ≤ k), 0 < k < np: each term is at most r times the one above it, and
    the first is at most exp(``log_mass``)."""
    return log_mass - math.log1p(-k * w / ((n - k + 1) * p))


def _log_tail_exact(k: int, n: int, p: float, w: float) -> float:
    from scipy import special

    value = float(special.betaincc(k + 1, n - k, p) if p <= w else special.betainc(n - k, k + 1, w))
    return math.log(value) if value > 0.0 else -math.inf


def binomial_log_tail(k: int, n: int, p: float, w: float, nats: float) -> float:
    """An upper bound on ln P(Bin(n, p) ≤ k), 0 ≤ k < np, w = 1 − p, for comparison with −nats.

    Exact but for rounding, which is covered, up to 460 nats; beyond that high by less than 0.002.
    """
    if nats <= _EXACT_UP_TO:
        tail = _log_tail_exact(k, n, p, w)
    elif k == 0:
        tail = n * math.log1p(-p) if p <= w else n * math.log(w)
    else:
        tail = _log_tail_far(k, n, p, w, _log_mass(k, n, p, w))
    return tail + _slack(n, nats)


def upper_share(k: int, n: int, nats: float) -> tuple[float, float]:
    """The p with P(Bin(n, p) ≤ k) = exp(−nats), nats ≥ ln 2, as (p, 1 − p) on the safe side.

    Newton's method on the log tail as a function of −ln(1 − p), from the normal approximation of the signed
    root of the divergence. Inverse incomplete beta functions are not used: they return NaN for k near n and
    small probabilities, and miss by up to 3·10⁻⁶ nats on the unsafe side.
    """
    from scipy import special

    rest = n - k
    if rest == 0:
        return 1.0, 0.0
    if k == 0:
        return reach(0.0, 1.0, nats / n)
    score = float(special.ndtri_exp(-nats))
    # The starting point need not be exact.
    p, w = _newton((k + 0.5) / n, (rest - 0.5) / n, 0.5 * score * score / n, close=1e-3)
    if w == 0.0:
        p, w = reach(k / n, rest / n, nats / n)
    exact, slack = nats <= _EXACT_UP_TO, _slack(n, nats)
    # A step from here ends within 2e-10 nats: it leaves at most a fifth of the square of what was missing.
    # For few successes the slope is known less well, and a step leaves a thousandth of what was missing.
    close = 3e-5 if min(k, rest) >= 10 else 1e-7
    for _ in range(64):
        if w <= 0.0:
            return 1.0, 0.0
        log_mass = _log_mass(k, n, p, w)
        tail = _log_tail_exact(k, n, p, w) if exact else _log_tail_far(k, n, p, w, log_mass)
        tail += slack
        slope = rest * math.exp(log_mass - tail)
        excess = tail + nats
        step = -w * math.expm1(-excess / slope)
        p += step
        w -= step
        if abs(excess) <= close:
            break
    return p, w


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
    from the least of three upper bounds, each sharp in its own regime. With d = p − u they are kl ≥ 2d²
    (Pinsker), kl ≥ d²/2p (small shares), and w ≥ v exp(−(level − u ln u)/v) with w = 1 − p. The third is
    never off by more than a factor e.
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


def _newton(u: float, v: float, level: float, *, close: float = 1e-9) -> tuple[float, float]:
    """The p ≥ u with kl(u, p) = level, as (p, 1 − p), once a step changes neither distance by more than this
    part of it."""
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
        if abs(step) <= close * min(d, w):
            break
    return u + d, w


def quantile_ranks(n: int, q: float, nats: float) -> tuple[int, int]:
    """The ranks (l, u) of the order statistics between which every ``q``-quantile lies.

    Ranks count from 1; l = 0 stands for −∞ and u = n + 1 for +∞.

    Guarantee: P(X_(l) ≤ every q-quantile ≤ X_(u)) ≥ 1 − exp(−nats) over the sample, for a query fixed in
    advance and any distribution, with atoms or without. l is the largest rank with P(Bin(n, q) < l) ≤
    exp(−nats)/2 and u the smallest with P(Bin(n, q) ≥ u) ≤ exp(−nats)/2 (up to 459 nats; beyond, the tail is
    bounded within 0.002 nats). *Proof.* Let a be the smallest q-quantile. X_(l) > a means that fewer than l
    rows are ≤ a, and each is with probability P(X ≤ a) ≥ q. The largest, b, likewise: X_(u) < b means that u
    rows or more are < b, and P(X < b) ≤ q. ∎
    Assumes: independent rows of one distribution (not checkable).
    Reference: David and Nagaraja 2003, section 7.1.

    Args:
        n: How many rows the sample has, at least 1.
        nats: ln of one over the probability that the interval may miss.

    >>> quantile_ranks(400, 0.5, 3.0)
    (180, 221)
    """
    n = checks.whole(n, "n", at_least=0, at_most=2**53, of="quantile_ranks")
    q = checks.real(q, "q", "(0, 1)", of="quantile_ranks")
    nats = checks.real(nats, "nats", "[0, inf)", of="quantile_ranks") + _LN2
    return _rare(n, q, 1.0 - q, nats) + 1, n - _rare(n, 1.0 - q, q, nats)


def quantile(sorted_values: ArrayLike, q: float, nats: float) -> Interval:
    """The interval between two of the ``sorted_values`` that holds every ``q``-quantile, or a half-line.

    Guarantee: as :func:`quantile_ranks`. The ends are values of the sample: nothing is rounded, but for
    integers that no float can hold.
    Assumes: independent rows of one distribution (not checkable); values in increasing order (checked).
    Reference: as :func:`quantile_ranks`.

    Args:
        nats: ln of one over the probability that the interval may miss.

    >>> quantile(range(1, 401), 0.5, 3.0)
    Interval(low=180, high=221)
    """
    values = numbers(sorted_values, "sorted_values", of="quantile")
    if not np.isfinite(values).all():
        wrong = float(values[~np.isfinite(values)][0])
        raise InvalidArgument("sorted_values", "finite numbers", wrong, of="quantile")
    falls = np.flatnonzero(values[1:] < values[:-1])
    if falls.size:
        pair = f"{values[falls[0]]} before {values[falls[0] + 1]}"
        raise InvalidArgument("sorted_values", "numbers in increasing order", pair, of="quantile")
    low, high = quantile_ranks(values.size, q, nats)
    return Interval(
        _as_float(values[low - 1].item(), -1) if low >= 1 else -math.inf,
        _as_float(values[high - 1].item(), 1) if high <= values.size else math.inf,
    )


def _as_float(value: float, side: int) -> float:
    """``value`` itself, or the next float on that side if the integer has too many digits."""
    number = float(value)
    return number if side * number >= side * value else math.nextafter(number, side * math.inf)


def quantile_ranks_from_tail(n: int, q: float, tail: Tail, nats: float) -> tuple[int, int]:
    """The ranks of :func:`quantile_ranks` for dependent rows, from the ``tail`` of the mean of an indicator.

    Guarantee: P(X_(l) ≤ every q-quantile ≤ X_(u)) ≥ 1 − exp(−nats) over the sample, for a query fixed in
    advance and any distribution. The two sides use two indicators, X ≤ a and X < b for the smallest and the
    largest q-quantile, each with the radius of ``tail`` at nats + ln 2.
    Assumes: ``tail`` holds for the mean over the ``n`` rows of any indicator of one row, as ``mean_tail(0,
    1)`` of a dependence model does (not checkable). Rows of different distributions: the quantiles of their
    average.
    Reference: as :func:`quantile_ranks`, with the tail in place of the binomial law.

    Args:
        q: The level of the quantile, in (0, 1).
        nats: ln of one over the probability that the interval may miss.

    >>> from holdfast.tails import BoundedDifferences
    >>> quantile_ranks_from_tail(400, 0.5, BoundedDifferences.of_mean(0, 1, 400), 3.0)
    (171, 230)
    """
    of = "quantile_ranks_from_tail"
    n = checks.whole(n, "n", at_least=0, at_most=2**53, of=of)
    q = checks.real(q, "q", "(0, 1)", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    radius = radius_at(tail, nats + _LN2, of=of)
    if not radius < 1.0:
        return 0, n + 1
    # A miss at rank l puts the mean of the indicator at least q − (l − 1)/n from its expectation.
    slack = 1e-12 * n
    low = math.ceil(n * (q - radius) - slack)
    high = math.floor(n * (q + radius) + slack) + 1
    return max(0, low), min(n + 1, high)


def _rare(n: int, p: float, w: float, nats: float) -> int:
    """The largest k with ln P(Bin(n, p) ≤ k) ≤ −nats, nats ≥ ln 2; −1 if there is none."""
    from scipy import special

    top = math.ceil(n * p) - 1
    if top < 0 or binomial_log_tail(0, n, p, w, nats) > -nats:
        return -1
    # The normal approximation with its first correction is rarely off by more than a rank or two.
    score = float(special.ndtri_exp(-nats))
    guess = math.floor(n * p + score * math.sqrt(n * p * w) + (score * score - 1.0) * (w - p) / 6.0)
    return search.whole_edge(lambda k: binomial_log_tail(k, n, p, w, nats) <= -nats, 0, top + 1, guess=guess)
