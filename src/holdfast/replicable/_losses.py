"""Reading a table of losses: one row an observation, one column a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.replicable._elementary import Floats

__all__ = ["loss_table"]


def loss_table(losses: Any, argument: str, *, of: str, by: str) -> Floats:
    """The losses as an array of rows by models, each checked to lie in [0, 1]."""
    expected = "a table of losses in [0, 1], one row an observation and one column a model"
    try:
        table = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(argument, expected, losses, of=of, reference=by) from None
    if table.ndim != 2 or 0 in table.shape or not bool(np.all((table >= 0.0) & (table <= 1.0))):
        raise InvalidArgument(argument, expected, losses, of=of, reference=by)
    return table
