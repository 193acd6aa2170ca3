"""The kinds of table a person may bring, and how each is turned into arrow, cut by a mask, and given back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import QueryRejected

__all__ = ["FILE", "IBIS", "Native", "Source", "source_of"]


@dataclass(frozen=True)
class Native:
    """How rows are given back: ``back`` makes a table of arrow, ``cut`` keeps the rows of a mask of the table
    that was brought (None where that table is not kept)."""

    back: Callable[[Any], Any]
    cut: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Source:
    """How a table in memory is read: its columns' names, its values as arrow, what it says about nulls."""

    native: Native
    names: Callable[[Any], list[Any]]
    arrow: Callable[[Any], Any]
    nullable: Callable[[Any], dict[str, bool | None]]


def source_of(data: Any) -> Source | None:
    """The kind of table ``data`` is, found without importing a library that is not already in use."""
    if isinstance(data, Mapping):
        return _DICT
    return _SOURCES.get((type(data).__module__.partition(".")[0], type(data).__name__))


def _column_arrow(name: str, values: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise QueryRejected(
            f"The column {name!r} cannot be read ({reason}); "
            "make all its values numbers, all texts, all booleans or all dates."
        ) from None


def _numpy_nullable(dtype: Any) -> bool | None:
    """Numpy's integers and booleans cannot be missing; its floats and objects can, and do not say."""
    return False if getattr(dtype, "kind", "") in "iub" and isinstance(dtype, np.dtype) else None


def _dict_arrow(data: Mapping[Any, Any]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, values in data.items():
        array: Any = values if hasattr(values, "dtype") or isinstance(values, list) else list(values)
        if getattr(array, "ndim", 1) != 1:
            raise QueryRejected(
                f"The column {name!r} has {array.ndim} dimensions; give one array of one dimension a column."
            )
        arrays[name] = _column_arrow(name, array)
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise QueryRejected(f"The columns have different lengths: {lengths}.")
    return pa.table(arrays)


def _dict_nullable(data: Mapping[Any, Any]) -> dict[str, bool | None]:
    return {name: _numpy_nullable(getattr(values, "dtype", None)) for name, values in data.items()}


def _dict_back(table: Any) -> dict[str, Any]:
    return {name: table[name].to_pandas().to_numpy() for name in table.column_names}


def _pandas_arrow(frame: Any) -> Any:
    import pyarrow as pa

    return pa.table({name: _column_arrow(str(name), frame[name]) for name in frame.columns})


def _pandas_nullable(frame: Any) -> dict[str, bool | None]:
    """A masked type (``Int64``, ``Float64``, ``boolean``) is chosen because values are missing."""
    masked = {"BooleanDtype", "Float32Dtype", "Float64Dtype"} | {
        f"{u}Int{b}Dtype" for u in ("", "U") for b in (8, 16, 32, 64)
    }
    return {
        name: True if type(dtype).__name__ in masked else _numpy_nullable(dtype)
        for name, dtype in frame.dtypes.items()
    }


def _polars_back(table: Any) -> Any:
    import polars as pl

    return pl.from_arrow(table)


def _ibis_back(table: Any) -> Any:
    import ibis

    return ibis.memtable(table)


def _arrow_nullable(table: Any) -> dict[str, bool | None]:
    return {field.name: None if field.nullable else False for field in table.schema}


def _unsaid(table: Any) -> dict[str, bool | None]:
    return {}


def _to_pandas(table: Any) -> Any:
    return table.to_pandas()


def _cut_arrow(table: Any, mask: Any) -> Any:
    import pyarrow as pa

    return table.filter(pa.array(mask))


def _cut_dict(data: Mapping[str, Any], mask: Any) -> dict[str, Any]:
    return {name: np.asarray(values)[mask] for name, values in data.items()}


def _columns(table: Any) -> list[Any]:
    return list(table.columns)


FILE = Native(_to_pandas)
IBIS = Native(_ibis_back)
_DICT = Source(Native(_dict_back, _cut_dict), list, _dict_arrow, _dict_nullable)
_SOURCES = {
    ("pandas", "DataFrame"): Source(
        Native(_to_pandas, lambda frame, mask: frame[mask]), _columns, _pandas_arrow, _pandas_nullable
    ),
    ("polars", "DataFrame"): Source(
        Native(_polars_back, lambda frame, mask: frame.filter(mask)),
        _columns,
        lambda frame: frame.to_arrow(),
        _unsaid,
    ),
    ("pyarrow", "Table"): Source(
        Native(lambda table: table, _cut_arrow),
        lambda table: list(table.column_names),
        lambda table: table,
        _arrow_nullable,
    ),
    ("ibis", "Table"): Source(IBIS, _columns, lambda table: table.to_pyarrow(), _unsaid),
}
