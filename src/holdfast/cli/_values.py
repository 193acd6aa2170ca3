"""The values that a question is about, read from a file into this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.engines import Schema
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.engines import Rows
    from holdfast.queries import Query

__all__ = ["columns_of", "items_of", "values_of"]


def values_of(rows: Rows, query: Query) -> npt.NDArray[np.float64]:
    """The values of the rows that enter the answer: clipped to the bounds for a mean, 0 or 1 for a share."""
    import ibis

    checked = query.check(Schema(rows.schema), rows.nullable_columns())
    names = sorted(checked.reads) or list(rows.columns[:1])
    table = ibis.memtable(rows.frame(names), schema=rows.schema.to_ibis(names))
    read = ibis.duckdb.connect().to_pyarrow(checked.values(table))
    values: npt.NDArray[np.float64] = read["value"].cast("float64").to_numpy()
    if checked.filters:
        values = values[read["passes"].fill_null(False).to_numpy()]
    missing = np.isnan(values)
    values = values[~missing] if checked.skips else np.where(missing, checked.missing, values)
    return np.clip(values, *checked.bounds) if checked.kind == "mean" else values


def columns_of(rows: Rows, names: list[str]) -> list[npt.NDArray[np.float64]]:
    """Number columns by name, over the rows that have a value in each of them."""
    for name in names:
        if name not in rows.schema or rows.schema[name].kind not in ("number", "boolean"):
            known = ", ".join(rows.columns[:12])
            raise QueryRejected(f"There is no column of numbers named {name!r}; the columns are {known}.")
    frame = rows.frame(sorted(set(names)))[names].dropna()
    return [frame[name].to_numpy(dtype=np.float64) for name in names]


def items_of(rows: Rows, column: str) -> list[Any]:
    """The items of one column, by its name; rows without a value are left out."""
    name = column.strip()
    if name not in rows.schema and len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1]
    if name not in rows.schema:
        known = ", ".join(rows.columns[:12])
        raise QueryRejected(f"There is no column {name!r} to count items of; the columns are {known}.")
    kind = rows.schema[name].kind
    if kind not in ("number", "boolean", "text"):
        raise QueryRejected(
            f"The column {name!r} is of kind {kind}; texts, numbers and booleans are counted."
        )
    items: list[Any] = rows.frame([name])[name].dropna().tolist()
    return items
