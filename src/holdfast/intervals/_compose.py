"""Intervals made of intervals, and of tails."""

from __future__ import annotations

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.intervals._interval import Interval, around, bounds, inside, radius_at
from holdfast.intervals._shares import kl
from holdfast.tails import Tail


def from_tail(value: float, tail: Tail, nats: float) -> Interval:
    """value ± the radius of ``tail`` at ``nats``: for any statistic, and for dependent rows.

    Guarantee: holds the expectation of the statistic with probability ≥ 1 − exp(−nats), for a query fixed in
    advance.
    Assumes: that ``tail`` is a tail of the statistic (what its own class or dependence model assumes).
    Reference: the definition of a tail, ``docs/theory/concentration.md``.

    Args:
        value: The value of the statistic on the sample.

    >>> from holdfast.tails import SubGaussian
    >>> from_tail(0.25, SubGaussian(0.025), 3.0)
    Interval(low=0.182056, high=0.317944)
    """
    value = checks.real(value, "value", "(-inf, inf)", of="from_tail")
    return around(value, radius_at(tail, nats, of="from_tail"))


def difference(first: Interval, second: Interval) -> Interval:
    """The interval for the first quantity less the second.

    Guarantee: fails with probability at most the sum of theirs. For exp(−nats) in all, give two intervals
    taken at nats + ln 2 each; how the two samples depend on each other does not matter.
    Assumes: what the two intervals assume.
    Reference: the union bound.

    Args:
        first: The interval of the first number.
        second: The interval of the second number.

    >>> difference(Interval(0.5, 0.75), Interval(0.25, 0.375))
    Interval(low=0.125, high=0.5)
    """
    first, second = _interval(first, "first", of="difference"), _interval(second, "second", of="difference")
    return Interval(rounding.down(first.low - second.high), rounding.up(first.high - second.low))


def ratio(numerator: Interval, denominator: Interval, *, lo: float = 0.0, hi: float = 1.0) -> Interval:
    """The interval for E[f·1]/E[1], the mean of f in [lo, hi] over the rows where a condition holds.

    ``numerator`` is an interval for E[f·1], ``denominator`` one for E[1], the share of the rows where it
    holds (its part below 0 is cut off). If the denominator reaches 0, the end that divides by it is
    ``lo`` or ``hi``; the other end may still be informative.

    Guarantee: fails with probability at most the sum of theirs. For exp(−nats) in all, give two intervals
    taken at nats + ln 2 each. :func:`filtered_from_tail` is narrower where it applies.
    Assumes: what the two intervals assume, and f in [lo, hi] where the condition holds (not checkable here).
    Reference: the union bound.

    >>> ratio(Interval(0.1, 0.12), Interval(0.4, 0.5))
    Interval(low=0.2, high=0.3)
    >>> ratio(Interval(0.1, 0.12), Interval(-0.1, 0.5))
    Interval(low=0.2, high=1)
    """
    lo, hi = bounds(lo, hi, of="ratio")
    numerator = _interval(numerator, "numerator", of="ratio")
    denominator = _interval(denominator, "denominator", of="ratio")
    least, most = max(0.0, denominator.low), denominator.high
    below, above = (most if numerator.low >= 0.0 else least), (least if numerator.high >= 0.0 else most)
    low = rounding.down(numerator.low / below) if below > 0.0 else lo
    high = rounding.up(numerator.high / above) if above > 0.0 else hi
    return Interval(low, high).clip(lo, hi)


def of_filtered_mean(
    mean: float | None, count: int, nats: float, *, lo: float = 0.0, hi: float = 1.0
) -> Interval:
    """The :func:`kl` interval for the mean of f over the rows where a condition holds, ``count`` of them.

    With no such row ``mean`` is not used (it may be None) and the interval is [lo, hi]. Every interval of
    this room for independent rows may be used with the filter's own count in this way.

    Guarantee: holds E[f | condition] with probability ≥ 1 − exp(−nats) for a query fixed in advance, given
    the count and so on the whole. *Proof.* Given which rows meet the condition, those rows are independent
    with the law of one row given the condition, so the interval for ``count`` rows fails with probability ≤
    exp(−nats). Average over which. ∎ The count is data all the same: whoever releases it, or a width that
    shows it, pays for it (``docs/theory/code-guard.md``).
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


def filtered_from_tail(
    mean: float, share: float, tail: Tail, nats: float, *, lo: float = 0.0, hi: float = 1.0
) -> Interval:
    """The interval for the mean of f over the rows where a condition holds, for dependent rows.

    ``share`` is the part of all rows where the condition holds, ``mean`` the mean of f over those; with share
    = 0 the mean is not used and the interval is [lo, hi]. The half-width is the radius of ``tail`` at
    ``nats``, divided by ``share``.

    Guarantee: holds μ = E[f·1]/E[1] with probability ≥ 1 − exp(−nats), for a query fixed in advance. *Proof.*
    The values (f − μ)·1 lie in [lo − μ, hi − μ], an interval of width hi − lo that holds 0, and their mean
    has expectation 0 and value share·(mean − μ): that is within the radius of 0 except with probability
    exp(−nats). ∎
    Assumes: ``tail`` holds for the mean over **all** rows of any function of one row with values in a range
    of width hi − lo, as ``mean_tail(lo, hi)`` of a dependence model does (not checkable).
    Reference: ours; the proof above.

    >>> from holdfast.tails import BoundedDifferences
    >>> filtered_from_tail(0.25, 0.5, BoundedDifferences.of_mean(0, 1, 4000), 3.0)
    Interval(low=0.207028, high=0.292972)
    """
    of = "filtered_from_tail"
    lo, hi = bounds(lo, hi, of=of)
    share = checks.real(share, "share", "[0, 1]", of=of)
    radius = radius_at(tail, nats, of=of)
    if share == 0.0:
        return Interval(lo, hi)
    return around(inside(mean, "mean", lo, hi, of=of), radius / share).clip(lo, hi)


def _interval(value: Interval, argument: str, *, of: str) -> Interval:
    if not isinstance(value, Interval):
        raise InvalidArgument(argument, "an Interval", value, of=of)
    return value
