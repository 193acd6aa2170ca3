"""The kinds of table a person may bring: how each is read as arrow, and how training rows are given back."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.engines._copies import arrow_rows, dict_rows, pandas_rows, polars_rows
from holdfast.engines._schema import unreadable_column
from holdfast.errors import QueryRejected

__all__ = ["FILE", "IBIS", "Native", "Source", "collected", "source_of"]


@dataclass(frozen=True)
class Native:
    """How rows are given back.

    ``back`` makes a table of arrow. ``copy`` copies the rows at some places of the table that was brought,
    with nothing of the other rows but the categories of columns that are named as public (None where the
    table that was brought is not kept).
    """

    back: Callable[[Any], Any]
    copy: Callable[[Any, Any, Collection[str]], Any] | None = None


@dataclass(frozen=True)
class Source:
    """How a table in memory is read: the names of its columns, its values as arrow, what it says about nulls,
    and the categories that it declares, in order, with whether the order means something."""

    native: Native
    names: Callable[[Any], list[Any]]
    arrow: Callable[[Any], Any]
    nullable: Callable[[Any], dict[str, bool | None]]
    categories: Callable[[Any], dict[str, Categories]]


@dataclass(frozen=True)
class Categories:
    """The categories that one column declares."""

    values: tuple[Any, ...]
    ordered: bool


def collected(data: Any) -> Any:
    """A polars LazyFrame as the frame that it stands for; any other table as it is."""
    kind = type(data)
    lazy = (kind.__module__.partition(".")[0], kind.__name__) == ("polars", "LazyFrame")
    return data.collect() if lazy else data


def source_of(data: Any) -> Source | None:
    """The kind of table ``data`` is, found without importing a library that is not already in use."""
    if isinstance(data, Mapping):
        return _DICT
    return _SOURCES.get((type(data).__module__.partition(".")[0], type(data).__name__))


def _column_arrow(name: str, values: Any) -> Any:
    import pyarrow as pa

    try:
        array = pa.array(values, from_pandas=True)
        # The fields of a struct would be the keys of all dicts, and keys are values: dicts become text.
        inferred = str(getattr(values, "dtype", "object")) == "object" and _has_struct(array.type)
        return pa.array([_as_json(value) for value in values], pa.string()) if inferred else array
    except Exception as error:  # an OverflowError or a UnicodeError too; its text quotes the value
        refusal = unreadable_column(name, type(error))
    raise refusal


def _has_struct(kind: Any) -> bool:
    """Whether values of an arrow type have named fields, at any depth."""
    import pyarrow as pa

    inside = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_struct(kind) or any(map(_has_struct, inside))


def _as_json(value: Any) -> str | None:
    return None if value is None or value is np.nan else json.dumps(value, default=str)


def _numpy_nullable(dtype: Any) -> bool | None:
    """Numpy's integers and booleans cannot be missing; its floats and objects can, and do not say."""
    return False if getattr(dtype, "kind", "") in "iub" and isinstance(dtype, np.dtype) else None


def _dict_arrow(data: Mapping[Any, Any]) -> Any:
    import pyarrow as pa

    arrays = {}
    for name, values in data.items():
        array: Any = values
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

    return ibis.memtable(arrow_rows(table, np.arange(table.num_rows)))


def _arrow_nullable(table: Any) -> dict[str, bool | None]:
    return {field.name: None if field.nullable else False for field in table.schema}


def _unsaid(table: Any) -> dict[str, bool | None]:
    return {}


def _to_pandas(table: Any) -> Any:
    return table.to_pandas()


def _no_categories(table: Any) -> dict[str, Categories]:
    return {}


def _pandas_categories(frame: Any) -> dict[str, Categories]:
    return {
        name: Categories(tuple(dtype.categories), bool(dtype.ordered))
        for name, dtype in frame.dtypes.items()
        if type(dtype).__name__ == "CategoricalDtype"
    }


def _polars_categories(frame: Any) -> dict[str, Categories]:
    """An Enum declares its categories; those of a Categorical are whatever the process has seen."""
    return {
        name: Categories(tuple(dtype.categories), ordered=True)
        for name, dtype in frame.schema.items()
        if type(dtype).__name__ == "Enum"
    }


def _arrow_categories(table: Any) -> dict[str, Categories]:
    import pyarrow as pa

    declared = {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type) and column.num_chunks:
            whole = column.unify_dictionaries().chunk(0).dictionary
            declared[name] = Categories(tuple(whole.to_pylist()), bool(column.type.ordered))
    return declared


def _columns(table: Any) -> list[Any]:
    return list(table.columns)


FILE = Native(_to_pandas)
IBIS = Native(_ibis_back)
_DICT = Source(Native(_dict_back, dict_rows), list, _dict_arrow, _dict_nullable, _no_categories)
_SOURCES = {
    ("pandas", "DataFrame"): Source(
        Native(_to_pandas, pandas_rows), _columns, _pandas_arrow, _pandas_nullable, _pandas_categories
    ),
    ("polars", "DataFrame"): Source(
        Native(_polars_back, polars_rows),
        _columns,
        lambda frame: frame.to_arrow(),
        _unsaid,
        _polars_categories,
    ),
    ("pyarrow", "Table"): Source(
        Native(lambda table: table, arrow_rows),
        lambda table: list(table.column_names),
        lambda table: table,
        _arrow_nullable,
        _arrow_categories,
    ),
    ("ibis", "Table"): Source(IBIS, _columns, lambda table: table.to_pyarrow(), _unsaid, _no_categories),
}
