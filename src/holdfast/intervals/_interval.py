"""The interval that every function of this package returns, intervals made of tails and of other intervals,
and the checks of their arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.tails import Tail


@dataclass(frozen=True, repr=False)
class Interval(Record):
    """The closed interval [low, high]. An end is infinite if the data say nothing on that side.

    Args:
        low: The lower end, in the units of the statistic.
        high: The upper end, in the units of the statistic; at least ``low``.

    >>> Interval(0.25, 0.5).hull(Interval(0.4, 0.75))
    Interval(low=0.25, high=0.75)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = getattr(self, name)
            if type(end) is not float:
                if not isinstance(end, Real) or isinstance(end, bool):
                    raise InvalidArgument(name, "a number", end, of="Interval")
                object.__setattr__(self, name, float(end))
        if not self.low <= self.high:
            raise InvalidArgument(
                "high", f"a number that is at least low = {self.low!r}", self.high, of="Interval"
            )

    @property
    def width(self) -> float:
        """high − low, rounded up."""
        return rounding.up(self.high - self.low)

    @property
    def half_width(self) -> float:
        """Half of the width, rounded up."""
        return rounding.up(self.high / 2.0 - self.low / 2.0)

    @property
    def middle(self) -> float:
        """The midpoint. For a half-line its end, for the whole line 0."""
        if math.isinf(self.low) or math.isinf(self.high):
            finite = [end for end in (self.low, self.high) if math.isfinite(end)]
            return finite[0] if finite else 0.0
        return self.low / 2.0 + self.high / 2.0

    def contains(self, x: float) -> bool:
        """Whether ``x`` lies in the interval, ends included."""
        return self.low <= x <= self.high

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that holds both.

        Args:
            other: Another interval for the same quantity.
        """
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def clip(self, lo: float, hi: float) -> Interval:
        """The part in [lo, hi], for a quantity known to lie there; the nearest end if there is none.

        Args:
            lo: The least value possible.
            hi: The largest value possible.
        """
        return Interval(min(max(self.low, lo), hi), min(max(self.high, lo), hi))


def placed(lo: float, hi: float, low: tuple[float, float], high: tuple[float, float]) -> Interval:
    """Carry an interval of [0, 1] over to [lo, hi], rounded outward.

    Each end is given by its distances from 0 and from 1. The smaller of the two is used, so no digits are
    lost by cancellation near either end of [lo, hi].
    """
    span = hi - lo
    up, down = rounding.up, rounding.down
    bottom = lo + down(span * low[0]) if low[0] <= low[1] else hi - up(span * low[1])
    top = lo + up(span * high[0]) if high[0] <= high[1] else hi - down(span * high[1])
    return Interval(max(lo, down(bottom)), min(hi, up(top)))


def around(value: float, radius: float) -> Interval:
    """value ± radius, rounded outward."""
    radius = rounding.up(radius)
    return Interval(rounding.down(value - radius), rounding.up(value + radius))


def bounds(lo: object, hi: object, *, of: str) -> tuple[float, float]:
    """Return bounds that are finite, in order, and not so far apart that hi − lo overflows."""
    lo = checks.real(lo, "lo", "(-inf, inf)", of=of)
    hi = checks.real(hi, "hi", "(-inf, inf)", of=of)
    if not (lo < hi and math.isfinite(hi - lo)):
        raise InvalidArgument("hi", f"a number above lo = {lo!r}, with hi - lo finite", hi, of=of)
    return lo, hi


def inside(value: object, argument: str, lo: float, hi: float, *, of: str) -> float:
    """Return a number that lies in checked bounds."""
    return checks.real(value, argument, f"[{lo!r}, {hi!r}]", of=of)


def numbers(values: object, argument: str, *, of: str) -> NDArray[Any]:
    """Return a one-dimensional array of numbers (or truth values), of the type it came in."""
    try:
        rows = np.asarray(values)
    except ValueError:
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (rows.size > 0 and rows.dtype.kind not in "biuf"):
        got = f"{type(values).__name__} of {rows.dtype} and shape {rows.shape}"
        raise InvalidArgument(argument, "a one-dimensional sequence of numbers", got, of=of)
    return rows


def radius_at(tail: Tail, nats: float, *, of: str) -> float:
    """Return the radius of an object that must be a tail."""
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a holdfast.tails.Tail", tail, of=of)
    return tail.radius_at(nats)


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
