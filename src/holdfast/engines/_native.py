"""The kinds of table a person may bring: how each is read as arrow, and how training rows are returned.

Training rows are returned as copies that contain nothing of the other rows. Libraries keep more of a table
than its values: a filtered pandas column lists the categories of all rows, and an arrow dictionary their
texts. A polars column shares its buffers, and a numpy text type is as wide as the longest text. The training
part is shown to people, so it is built only from the values of its own rows.

Besides values, a copy keeps the names and types of the columns. Categories are part of a type only if the
caller says that they are public. Otherwise a copy has the categories that its own rows use.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.engines._schema import unreadable_column
from holdfast.errors import QueryRejected

__all__ = [
    "FILE",
    "IBIS",
    "Native",
    "Source",
    "arrow_rows",
    "collected",
    "dict_rows",
    "pandas_rows",
    "polars_rows",
    "source_of",
]


# Values of these types never change and refer to nothing else, so a copy may share them.
_NEVER_CHANGE = frozenset({str, bytes, int, float, bool, type(None)})


def pandas_rows(frame: Any, places: Any, public: Collection[str] = ()) -> Any:
    """The rows of a pandas frame at these places, with their index."""
    import pandas as pd

    names = list(frame.columns)
    columns = {name: _pandas_values(frame[name].array, places, name in public) for name in names}
    chosen = pd.DataFrame(columns)
    chosen.index = _pandas_index(frame.index, places)
    chosen.columns = pd.Index(names, name=frame.columns.name)
    return chosen


def _pandas_index(index: Any, places: Any) -> Any:
    import pandas as pd

    if isinstance(index, pd.MultiIndex):
        levels = [
            _pandas_values(index.get_level_values(level).array, places) for level in range(index.nlevels)
        ]
        return pd.MultiIndex.from_arrays(levels, names=list(index.names))
    return pd.Index(_pandas_values(index.array, places), name=index.name)


def _pandas_values(array: Any, places: Any, public: bool = False) -> Any:
    """Some values of a pandas array, in the type they have there."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(array, pd.Categorical):
        return _pandas_categorical(array, places, public)
    if isinstance(array, (pd.arrays.ArrowExtensionArray, pd.arrays.ArrowStringArray)):
        return pd.array(_arrow_values(pa.array(array), places), dtype=array.dtype)
    if type(array) is pd.arrays.NumpyExtensionArray and array.dtype.kind == "O":
        # As a series with its type. From an array of objects that are all texts, pandas would infer text.
        return pd.Series(_objects(_all_copied(np.asarray(array)[places].tolist())), dtype=object)
    return array.take(places).copy()


def _pandas_categorical(array: Any, places: Any, public: bool) -> Any:
    """A categorical column. Unless its categories are public it has those of the chosen rows, sorted."""
    import pandas as pd

    codes = array.codes[places]
    if public:
        return pd.Categorical.from_codes(codes, dtype=array.dtype)
    used = np.unique(codes[codes >= 0])
    categories = pd.Index(_pandas_values(array.categories.array, used))
    try:
        order = np.asarray(categories.argsort())
    except TypeError:  # categories of several kinds have no order
        order = np.arange(len(used))
    renamed = np.full(len(array.categories) + 1, -1)
    renamed[used[order]] = np.arange(len(used))  # the last one is for the code -1 of a missing value
    return pd.Categorical.from_codes(renamed[codes], categories=categories[order])


def _all_copied(values: list[Any]) -> list[Any]:
    """The values of an object column, copied. Most columns hold texts only, which need no copy."""
    if set(map(type, values)) <= _NEVER_CHANGE:
        return values
    return [_copied(value) for value in values]


def _copied(value: Any) -> Any:
    """One value of an object column. A numpy view would keep the array it was taken from."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    return copy.deepcopy(value)


def _objects(values: Sequence[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    if set(map(type, values)) <= _NEVER_CHANGE:
        array[:] = values
        return array
    for place, value in enumerate(values):  # one by one: numpy would turn lists of equal length into a matrix
        array[place] = value
    return array


def dict_rows(data: Mapping[str, Any], places: Any, public: Collection[str] = ()) -> dict[str, Any]:
    """The rows of a dict of arrays or lists at these places, as a dict of numpy arrays."""
    return {name: _numpy_values(values, places) for name, values in data.items()}


def _numpy_values(values: Any, places: Any) -> Any:
    if hasattr(values, "dtype"):
        chosen = np.asarray(values)[places]
        if chosen.dtype.kind not in "OUS":
            return chosen
        listed = chosen.tolist()
    else:
        listed = [values[place] for place in places.tolist()]
    listed = _all_copied(listed)
    if any(isinstance(value, (list, tuple, dict, np.ndarray)) for value in listed):
        return _objects(listed)
    return np.asarray(listed)


def arrow_rows(table: Any, places: Any, public: Collection[str] = ()) -> Any:
    """The rows of an arrow table at these places, without metadata."""
    import pyarrow as pa

    columns = {name: _arrow_values(table.column(name), places, name in public) for name in table.column_names}
    return pa.table(columns)


def _arrow_values(column: Any, places: Any, public: bool = False) -> Any:
    """Some values of an arrow column, in new buffers that hold these values only."""
    import pyarrow as pa

    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in getattr(column, "chunks", [column])]
        return _arrow_values(pa.chunked_array(storage, kind.storage_type), places)
    if pa.types.is_dictionary(kind):
        return _arrow_dictionary(column, places, public)
    if _is_plain(kind):
        return _compact(column.take(pa.array(places)))
    listed = column.to_pylist()
    return pa.array([listed[place] for place in places.tolist()], type=_without_dictionary_order(kind))


def _arrow_dictionary(column: Any, places: Any, public: bool) -> Any:
    """A dictionary column. Unless its dictionary is public it has the values of the chosen rows, in the order
    of their first appearance."""
    import pyarrow as pa

    kind = column.type
    if public:
        whole = pa.chunked_array(column).unify_dictionaries().combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        indices = _compact(whole.indices.take(pa.array(places)))
        return pa.DictionaryArray.from_arrays(indices, _compact(whole.dictionary), ordered=kind.ordered)
    chosen = column.take(pa.array(places)).cast(kind.value_type)
    encoded = _compact(chosen).dictionary_encode()
    indices = _compact(encoded.indices.cast(kind.index_type))
    return pa.DictionaryArray.from_arrays(indices, _compact(encoded.dictionary))


def _compact(values: Any) -> Any:
    """The same values in one chunk. Writing and reading them removes everything that no value uses, also an
    unused place for nulls."""
    import pyarrow as pa

    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    table = pa.table({"values": pa.chunked_array(chunks, values.type)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written = pa.ipc.open_stream(sink.getvalue()).read_all().column(0).combine_chunks()
    if isinstance(written, pa.ChunkedArray):
        return written.chunk(0) if written.num_chunks else pa.array([], type=values.type)
    return written


def _is_plain(kind: Any) -> bool:
    """Whether arrow writes exactly the values of such a column: no dictionaries, views or unions in it."""
    import pyarrow as pa

    if kind.num_fields:
        nested = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_struct(kind)
        nested = nested or pa.types.is_fixed_size_list(kind) or pa.types.is_map(kind)
        return nested and all(_is_plain(kind.field(place).type) for place in range(kind.num_fields))
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return not (views or pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType))


def _without_dictionary_order(kind: Any) -> Any:
    """The type of a nested column, without the mark that its dictionaries are in order."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, kind.value_type)
    if pa.types.is_list(kind):
        return pa.list_(_without_dictionary_order(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_without_dictionary_order(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _without_dictionary_order(field.type)) for field in kind])
    return kind


def polars_rows(frame: Any, places: Any, public: Collection[str] = ()) -> Any:
    """The rows of a polars frame at these places. Categorical columns and Enums that are not public come back
    as text: polars keeps one list of categories for all tables of a process."""
    import polars as pl

    chosen = frame[places]
    columns = []
    for name, dtype in frame.schema.items():
        own_type = dtype if name in public else _without_categories(dtype)
        plain = chosen[name].cast(_without_categories(dtype))
        values = _arrow_values(_chunked(plain.to_arrow()), np.arange(len(places)))
        columns.append(pl.Series(name, pl.from_arrow(values)).cast(own_type))
    return pl.DataFrame(columns)


def _without_categories(dtype: Any) -> Any:
    """A polars type with text in place of categories."""
    import polars as pl

    if dtype.base_type() in (pl.Categorical, pl.Enum):
        return pl.String()
    if isinstance(dtype, pl.List):
        return pl.List(_without_categories(dtype.inner))
    if isinstance(dtype, pl.Array):
        return pl.Array(_without_categories(dtype.inner), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _without_categories(field.dtype) for field in dtype.fields})
    return dtype


def _chunked(values: Any) -> Any:
    import pyarrow as pa

    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


@dataclass(frozen=True)
class Native:
    """How rows are returned as the kind of table that was opened.

    ``back`` makes such a table from an arrow table. ``copy`` copies the rows at some places of the opened
    table. The copy contains nothing of the other rows except public categories. ``copy`` is None if the
    opened table is not kept.
    """

    back: Callable[[Any], Any]
    copy: Callable[[Any, Any, Collection[str]], Any] | None = None


@dataclass(frozen=True)
class Source:
    """How a table in memory is read: the names of its columns, its values as arrow, and what it says about
    nulls. Also the categories that it declares, in order, and whether the order has a meaning."""

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
    """How to read ``data``; None if it is no known table. Imports no library that is not already in use."""
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
    """Whether values can be missing. Numpy's integers and booleans cannot; for floats and objects it is
    unknown."""
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
    """Whether values of each column can be missing. People choose a masked type (``Int64``, ``Float64``,
    ``boolean``) because values are missing."""
    masked = {"BooleanDtype", "Float32Dtype", "Float64Dtype"} | {
        f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)
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


def _not_stated(table: Any) -> dict[str, bool | None]:
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
    """The categories of Enum columns. A Categorical declares none: it lists what the process has seen."""
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
        _not_stated,
        _polars_categories,
    ),
    ("pyarrow", "Table"): Source(
        Native(lambda table: table, arrow_rows),
        lambda table: list(table.column_names),
        lambda table: table,
        _arrow_nullable,
        _arrow_categories,
    ),
    ("ibis", "Table"): Source(IBIS, _columns, lambda table: table.to_pyarrow(), _not_stated, _no_categories),
}
