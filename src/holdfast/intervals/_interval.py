"""The interval that every function of this package returns, and the checks of its arguments."""

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


def bounds(lo: Any, hi: Any, *, of: str) -> tuple[float, float]:
    """Return bounds that are finite, in order, and not so far apart that hi − lo overflows."""
    lo = checks.real(lo, "lo", "(-inf, inf)", of=of)
    hi = checks.real(hi, "hi", "(-inf, inf)", of=of)
    if not (lo < hi and math.isfinite(hi - lo)):
        raise InvalidArgument("hi", f"a number above lo = {lo!r}, with hi - lo finite", hi, of=of)
    return lo, hi


def inside(value: Any, argument: str, lo: float, hi: float, *, of: str) -> float:
    """Return a number that lies in checked bounds."""
    return checks.real(value, argument, f"[{lo!r}, {hi!r}]", of=of)


def numbers(values: Any, argument: str, *, of: str) -> NDArray[Any]:
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
