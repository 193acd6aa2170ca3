"""Rows of numbers as an array: what every statistic of Gaussian rows takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import InvalidArgument

__all__ = ["table_argument"]


def table_argument(x: Any, *, of: str) -> npt.NDArray[np.float64]:
    """``x`` as rows × coordinates of finite numbers; a plain list is one coordinate."""
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise InvalidArgument("x", "a table of finite numbers, one row an observation", x, of=of)
    return values
