"""Arguments that every replicable statistic takes, read the same way by all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._elementary import Floats

__all__ = ["bounds_argument", "chance", "enough_rows", "values_argument"]


def chance(value: Any, argument: str, *, of: str, by: str) -> float:
    """A probability that is neither 0 nor 1, such as ``rho`` or ``beta``."""
    return checks.real(value, argument, "(0, 1)", of=of, by=by)


def bounds_argument(bounds: Any, *, of: str, by: str) -> tuple[float, float]:
    """Two finite numbers, the lower first."""
    pair = checks.reals(bounds, "bounds", "(-inf, inf)", of=of, by=by)
    if len(pair) != 2 or not pair[0] < pair[1] or not math.isfinite(pair[1] - pair[0]):
        raise InvalidArgument("bounds", "two numbers, the lower first", bounds, of=of, reference=by)
    return pair[0], pair[1]


def values_argument(x: Any, low: float, high: float, *, of: str, by: str) -> Floats:
    """A vector of numbers from ``low`` to ``high``; NaN and infinity are refused."""
    expected = f"a sequence of numbers between {low:g} and {high:g}"
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("x", expected, x, of=of, reference=by) from None
    if values.ndim != 1 or not ((values >= low) & (values <= high)).all():
        raise InvalidArgument("x", expected, x, of=of, reference=by)
    return values


def enough_rows(rows: int, needed: int, *, best_effort: bool, what: str) -> bool:
    """Whether the rows suffice; too few are refused unless the best effort was asked for, and none always."""
    if rows == 0 or (rows < needed and not best_effort):
        raise NotEnoughRows(needed, rows, what=what)
    return rows >= needed
