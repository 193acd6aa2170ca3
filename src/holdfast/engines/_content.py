"""One digest of all values of a table and of their order, the same for the same rows in any kind of table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["content_of", "plain_columns"]

_WHOLE_FLOATS = 2**53
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def content_of(rows: Rows) -> bytes:
    """Read every row once. Rows have to come in an order of their own.

    A small table whose columns are read as they are stays in memory: it is copied next."""
    if rows.is_small and all(column.kind != "other" and not column.zoned for column in rows.schema.values()):
        table = rows.keep_in_memory()
    else:
        table = rows._database.arrow(
            f"SELECT {plain_columns(rows, rows.columns)} FROM {rows._source} AS wanted", rows.schema
        )
    whole = hashlib.sha256()
    for column in table.columns:
        whole.update(_digest(column))
    return whole.digest()


def plain_columns(rows: Rows, names: Collection[str]) -> str:
    """The named columns as they are asked about; those that cannot be asked about as text, or as a moment
    where the text would depend on where this runs."""
    quoted, types = rows._database.dialect.quoted, {}
    if any(rows.schema[name].kind == "other" for name in names):
        types = {name: dtype for name, dtype, *_ in rows._database.run(f"DESCRIBE {rows._source}")}
    wanted = []
    for name in names:
        if rows.schema[name].zoned:
            wanted.append(f"epoch_us({quoted(name)}) AS {quoted(name)}")
        elif rows.schema[name].kind != "other":
            wanted.append(quoted(name))
        elif types[name] == "TIMESTAMP WITH TIME ZONE":
            wanted.append(f"epoch_us({quoted(name)}) AS {quoted(name)}")
        else:
            wanted.append(f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}")
    return ", ".join(wanted)


def _digest(column: Any) -> bytes:
    """One column: its values, nulls as zeros, and which are null. However it is cut into chunks, each of the
    sums takes in the same bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, nulls, values, further = column.type, hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    wide = pa.types.is_integer(kind) and _beyond_floats(column)
    for chunk in column.chunks:
        missing = pc.is_null(chunk, nan_is_null=True)
        nulls.update(np.asarray(missing.cast(pa.uint8())).data)
        if text:
            lengths, content = _text(chunk)
            values.update(lengths)
            further.update(content)
            continue
        plain = chunk.cast(_plain(kind))
        numbers = np.asarray(pc.if_else(missing, pa.scalar(0, plain.type), plain))
        if pa.types.is_temporal(kind):
            seconds, rest = _moments(numbers.astype(np.int64), kind)
            values.update(seconds)
            further.update(rest)
            continue
        if wide:
            further.update(np.ascontiguousarray(numbers).data)
        values.update(np.ascontiguousarray(numbers, dtype=np.float64).data)
    return nulls.digest() + values.digest() + further.digest()


def _moments(numbers: Any, kind: Any) -> tuple[Any, Any]:
    """Days or fractions of a second since 1970 as seconds and nanoseconds, whatever the unit."""
    import pyarrow as pa

    if pa.types.is_date32(kind):
        return numbers * 86_400, np.zeros_like(numbers)
    per = _PER_SECOND[kind.unit]
    seconds = numbers // per
    return seconds, (numbers - seconds * per) * (10**9 // per)


def _plain(kind: Any) -> Any:
    """The type in which numpy sees the values of an arrow type."""
    import pyarrow as pa

    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return pa.int32() if pa.types.is_date32(kind) else pa.int64()
    return pa.uint8() if pa.types.is_boolean(kind) else kind


def _beyond_floats(column: Any) -> bool:
    """Whether some whole number is not the same as a float, so that it has to be taken in as it is."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    return any(abs(end) > _WHOLE_FLOATS for end in ends.values() if end is not None)


def _text(chunk: Any) -> tuple[Any, Any]:
    """The lengths of texts in bytes, and the texts one after the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(chunk.cast(pa.large_string()), "")
    _, offsets, content = filled.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[filled.offset : filled.offset + len(filled) + 1]
    return np.diff(places), b"" if content is None else content[int(places[0]) : int(places[-1])]
