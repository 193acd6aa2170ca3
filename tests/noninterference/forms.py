"""The plain form of a value: everything that its holder can read off it, down to the bytes of its buffers.

``flat("train", frame)`` is a dictionary from places (``train.s.categories``) to plain values. Two values with
the same plain form cannot be told apart by looking at them.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_MANY = 30
_DEEPEST = 12


def flat(name: str, value: Any, callers: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The plain form of a value, by place. ``callers`` are objects that the caller brought: where one of them
    turns up again in a frame of a traceback, it is named and not looked into."""
    texts = _texts(callers) if isinstance(value, BaseException) else []
    return dict(_parts(name, value, list(zip(callers, texts, strict=False)), _DEEPEST))


def _texts(callers: tuple[Any, ...]) -> list[str]:
    return [_text(brought) for brought in callers]


def _parts(name: str, value: Any, callers: list[tuple[Any, str]], depth: int) -> Iterator[tuple[str, Any]]:
    """The places of a value and what is there."""
    if isinstance(value, _Local):
        yield name, _local(value.value, callers)
        return
    if depth == 0:
        yield name, _text(value)
        return
    form = next((form for kind, form in _FORMS if isinstance(value, kind)), _anything)
    for part, content in form(value):
        place = f"{name}.{part}" if part else name
        if isinstance(content, _Leaf):
            yield place, content.value
        else:
            yield from _parts(place, content, callers, depth - 1)


class _Leaf:
    """A plain value that is taken as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _text(value: Any) -> str:
    """What a person sees who prints the value; addresses in memory aside."""
    try:
        return _ADDRESS.sub("0x…", repr(value))
    except Exception as error:
        return f"no repr: {type(error).__name__} {error}"


def _anything(value: Any) -> Iterator[tuple[str, Any]]:
    """An object: its type, how it is shown, what it turns into, and its pickle."""
    yield "type", _Leaf(f"{type(value).__module__}.{type(value).__qualname__}")
    yield "repr", _Leaf(_text(value))
    yield "str", _Leaf(_ADDRESS.sub("0x…", str(value)))
    for shown in ("_repr_html_", "to_dict"):
        if callable(getattr(value, shown, None)) and not isinstance(value, type):
            yield shown, getattr(value, shown)()
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield field.name, getattr(value, field.name)
    yield "pickle", _Leaf(_pickled(value))


def _pickled(value: Any) -> bytes | str:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        return f"no pickle: {type(error).__name__}"


def _plain(value: Any) -> Iterator[tuple[str, Any]]:
    yield "", _Leaf((type(value).__name__, _ADDRESS.sub("0x…", repr(value))))


def _bytes(value: bytes) -> Iterator[tuple[str, Any]]:
    yield "", _Leaf(value)


def _mapping(value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    yield "keys", _Leaf([_text(key) for key in value])
    yield "type", _Leaf(type(value).__name__)
    for key, item in value.items():
        yield str(key), item


def _sequence(value: Any) -> Iterator[tuple[str, Any]]:
    yield "length", _Leaf((type(value).__name__, len(value)))
    if len(value) > _MANY and all(isinstance(item, (str, int, float)) for item in value):
        yield "items", _Leaf([(type(item).__name__, _text(item)) for item in value])
        return
    for place, item in enumerate(value):
        yield str(place), item


def _array(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """An array, and whatever memory it is a view of."""
    yield "dtype", _Leaf((array.dtype.str, repr(array.dtype), str(array.dtype.metadata)))
    yield "shape", _Leaf((array.shape, array.strides, array.flags.writeable))
    if array.dtype == object:
        yield "values", _Leaf([(type(item).__name__, _text(item)) for item in array.ravel().tolist()])
        yield "pickle", _Leaf(_pickled(array))
    else:
        yield "bytes", _Leaf(array.tobytes())
    if isinstance(array.base, np.ndarray):
        yield "base", array.base
    elif array.base is not None:
        yield "base", _Leaf((type(array.base).__name__, _viewed(array.base)))


def _viewed(base: Any) -> bytes:
    try:
        return bytes(memoryview(base))
    except (TypeError, BufferError):
        return b"no buffer"


def _pandas_values(values: Any) -> Iterator[tuple[str, Any]]:
    """The values behind a pandas column or index: categories, masks and arrow buffers included."""
    if isinstance(values, np.ndarray):
        yield "", values
    elif isinstance(values, pd.Categorical):
        yield "categories", values.categories
        yield "ordered", _Leaf(values.ordered)
        yield "codes", values.codes
    elif hasattr(values, "__arrow_array__") and hasattr(values, "_pa_array"):
        yield "arrow", values._pa_array
    else:
        for inner in ("_data", "_mask", "_ndarray"):
            array = getattr(values, inner, None)
            if isinstance(array, np.ndarray):
                yield inner, array
        yield "text", _Leaf([_text(item) for item in values])


def _series(series: pd.Series) -> Iterator[tuple[str, Any]]:
    yield "dtype", _Leaf((str(series.dtype), repr(series.dtype)))
    yield "memory", _Leaf(int(series.memory_usage(index=False, deep=True)))
    yield "attrs", dict(series.attrs)
    for part, content in _pandas_values(series.array):
        yield part or "array", content


def _index(index: pd.Index) -> Iterator[tuple[str, Any]]:
    yield "type", _Leaf((type(index).__name__, str(index.dtype), repr(index.names)))
    yield "memory", _Leaf(int(index.memory_usage(deep=True)))
    if isinstance(index, pd.MultiIndex):
        for number, (level, codes) in enumerate(zip(index.levels, index.codes, strict=True)):
            yield f"levels {number}", level
            yield f"codes {number}", codes
        return
    yield "freq", _Leaf(repr(getattr(index, "freq", None)))
    for part, content in _pandas_values(index.array):
        yield part or "array", content
    yield "pickle", _Leaf(_pickled(index))


def _frame(frame: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """A pandas frame: each column, the index, how it prints, its pickle, and what it becomes as arrow."""
    yield "type", _Leaf((type(frame).__name__, frame.shape))
    yield "columns", frame.columns
    yield "index", frame.index
    yield "attrs", dict(frame.attrs)
    yield "flags", _Leaf(repr(frame.flags))
    yield "repr", _Leaf(_text(frame))
    yield "html", _Leaf(frame._repr_html_())
    info = io.StringIO()
    frame.info(buf=info, memory_usage="deep")
    yield "info", _Leaf(info.getvalue())
    yield "pickle", _Leaf(_pickled(frame))
    for number, name in enumerate(frame.columns):
        column = frame.iloc[:, number]
        yield f"[{name}]", column
        if isinstance(column.dtype, (pd.CategoricalDtype, pd.StringDtype)) or column.dtype == object:
            yield f"[{name}].counts", _Leaf(_text(_tried(column.value_counts)))
    blocks = [(str(block.dtype), block.shape) for block in frame._mgr.blocks]
    yield "blocks", _Leaf(blocks)
    try:
        table = pa.Table.from_pandas(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        yield "arrow", _Leaf(f"no arrow: {type(error).__name__}")
    else:
        yield "arrow metadata", _Leaf(repr(table.schema.metadata))
        yield "arrow bytes", _Leaf(_arrow_bytes(table))


def _tried(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return error


def _arrow_bytes(table: pa.Table) -> bytes | str:
    sink = io.BytesIO()
    try:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except (pa.ArrowException, TypeError) as error:
        return f"no file: {type(error).__name__}"
    return sink.getvalue()


def _table(table: pa.Table) -> Iterator[tuple[str, Any]]:
    yield "shape", _Leaf((table.num_rows, table.column_names))
    yield "schema", _Leaf(table.schema.to_string(show_field_metadata=True, show_schema_metadata=True))
    yield "metadata", _Leaf([repr(table.schema.metadata), *(repr(f.metadata) for f in table.schema)])
    yield "nbytes", _Leaf((table.nbytes, table.get_total_buffer_size()))
    yield "repr", _Leaf(_text(table))
    yield "file", _Leaf(_arrow_bytes(table))
    yield "pickle", _Leaf(_pickled(table))
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield f"[{name}]", column


def _chunks(column: pa.ChunkedArray) -> Iterator[tuple[str, Any]]:
    yield "type", _Leaf((str(column.type), column.num_chunks))
    for number, chunk in enumerate(column.chunks):
        yield f"chunk {number}", chunk


def _arrow_array(array: pa.Array) -> Iterator[tuple[str, Any]]:
    """An arrow array: its buffers, its dictionary, and its children."""
    yield "type", _Leaf((str(array.type), len(array), array.offset, array.null_count))
    yield "values", _Leaf(repr(array.to_pylist()))
    yield "nbytes", _Leaf((array.nbytes, array.get_total_buffer_size()))
    for number, buffer in enumerate(array.buffers()):
        if buffer is not None:
            yield f"buffer {number}", _Leaf((buffer.size, buffer.to_pybytes()))
            if buffer.parent is not None:
                yield f"buffer {number}.parent", _Leaf(buffer.parent.to_pybytes())
    if isinstance(array, pa.DictionaryArray):
        yield "dictionary", array.dictionary
    elif isinstance(array, pa.ExtensionArray):
        yield "storage", array.storage
    elif isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
        yield "items", array.values
    elif isinstance(array, pa.StructArray):
        for number in range(array.type.num_fields):
            yield f"field {number}", array.field(number)


def _polars(frame: pl.DataFrame) -> Iterator[tuple[str, Any]]:
    yield "schema", _Leaf(repr(dict(frame.schema)))
    yield "size", _Leaf((frame.shape, frame.estimated_size(), frame.n_chunks("all")))
    yield "flags", _Leaf(repr(frame.flags))
    yield "repr", _Leaf(_text(frame))
    yield "html", _Leaf(frame._repr_html_())
    yield "pickle", _Leaf(_pickled(frame))
    for name, write in (("ipc", frame.write_ipc), ("stream", frame.write_ipc_stream)):
        sink = io.BytesIO()
        try:
            write(sink)
        except Exception as error:
            yield name, _Leaf(f"not written: {type(error).__name__}")
        else:
            yield name, _Leaf(sink.getvalue())
    for series in frame:
        yield f"[{series.name}]", series


def _polars_series(series: pl.Series) -> Iterator[tuple[str, Any]]:
    yield "dtype", _Leaf((repr(series.dtype), series.null_count(), series.n_chunks(), repr(series.flags)))
    yield "values", _Leaf(repr(series.to_list()))
    yield "pickle", _Leaf(_pickled(series))
    for number, kind in enumerate(_kinds_within(series.dtype)):
        if isinstance(kind, (pl.Categorical, pl.Enum)):
            yield f"categories {number}", _Leaf(repr(list(kind.categories)))
    yield "codes", _Leaf(repr(series.to_physical().to_list()))
    if series.dtype != pl.Object:
        yield "arrow", series.to_arrow()


def _kinds_within(kind: Any) -> Iterator[Any]:
    """A polars type and those it is made of."""
    yield kind
    for inner in [getattr(kind, "inner", None), *(field.dtype for field in getattr(kind, "fields", ()))]:
        if inner is not None:
            yield from _kinds_within(inner)


def _error(error: BaseException) -> Iterator[tuple[str, Any]]:
    """An error: its words, what it carries, where it passed, what stood there, and the errors behind it."""
    yield "type", _Leaf(f"{type(error).__module__}.{type(error).__qualname__}")
    yield "words", _Leaf(_ADDRESS.sub("0x…", str(error)))
    yield "args", error.args
    yield "notes", list(getattr(error, "__notes__", []))
    yield "carries", {name: item for name, item in vars(error).items() if name != "__notes__"}
    yield "suppressed", _Leaf(error.__suppress_context__)
    yield "pickle", _Leaf(_pickled(error))
    place, number = error.__traceback__, 0
    while place is not None:
        frame, place = place.tb_frame, place.tb_next
        if _is_test(frame.f_code.co_filename):
            continue
        number += 1
        called = f"frame {number} {frame.f_code.co_name}"
        yield f"{called}.locals", _Leaf(sorted(frame.f_locals))
        for name, local in frame.f_locals.items():
            yield f"{called}.{name}", _Local(local)
    if error.__cause__ is not None:
        yield "cause", error.__cause__
    if error.__context__ is not None:
        yield "context", error.__context__
    if isinstance(error, BaseExceptionGroup):
        yield "exceptions", list(error.exceptions)


def _is_test(filename: str) -> bool:
    return "/tests/" in filename or "/_pytest/" in filename or "/pluggy/" in filename


class _Local:
    """A local variable of a frame: what a tool shows that prints tracebacks with their variables."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _local(local: Any, callers: list[tuple[Any, str]]) -> str:
    """A variable as text, without what the caller brought, as it is or as a copy of it."""
    if any(local is brought for brought, _ in callers):
        return "what the caller brought"
    shown = f"{type(local).__name__} {_text(local)}"
    for _, text in callers:
        shown = shown.replace(text, "what the caller brought")
    return shown


def _ibis(table: ibis.Table) -> Iterator[tuple[str, Any]]:
    """An ibis table: what is in it. Every table gets a new random name."""
    yield "schema", _Leaf(repr(table.schema()))
    yield "rows", table.to_pyarrow()


_FORMS: list[tuple[Any, Any]] = [
    (BaseException, _error),
    (np.ndarray, _array),
    (pd.DataFrame, _frame),
    (pd.Series, _series),
    (pd.Index, _index),
    (pa.Table, _table),
    (pa.ChunkedArray, _chunks),
    (pa.Array, _arrow_array),
    (ibis.Table, _ibis),
    (pl.DataFrame, _polars),
    (pl.Series, _polars_series),
    ((bytes, bytearray), _bytes),
    ((str, bool, int, type(None)), _plain),
    (Mapping, _mapping),
    ((list, tuple), _sequence),
]
