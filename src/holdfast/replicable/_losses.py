"""Reading a table of losses: one row an observation, one column a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import InvalidArgument

__all__ = ["loss_table"]


def loss_table(losses: Any, argument: str, *, of: str, by: str) -> npt.NDArray[Any]:
    """The losses as an array of rows by models, each checked to lie in [0, 1]; errors stay True and False."""
    expected = "a table of losses in [0, 1], one row an observation and one column a model"
    table = np.asarray(losses)
    if table.dtype.kind not in "biuf":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument(argument, expected, losses, of=of, reference=by) from None
    if table.ndim != 2 or 0 in table.shape or not (table.min() >= 0 and table.max() <= 1):
        raise InvalidArgument(argument, expected, losses, of=of, reference=by)
    return table
