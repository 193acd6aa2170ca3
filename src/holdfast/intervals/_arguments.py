"""What callers hand over beside plain numbers: bounds, rows, tails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.tails import Tail


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
    """Return the radius of what must be a tail."""
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a holdfast.tails.Tail", tail, of=of)
    return tail.radius_at(nats)
