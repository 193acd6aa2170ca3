"""Digests of rows. Equal values give equal digests in any kind of table. There is a keyed digest for each
row, and a digest of the whole table with its order."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["content_of", "digests_of", "hashes_of", "numbering_of", "plain_columns"]


Digests = NDArray[np.uint64]

_AT_ONCE = 1 << 16
_DENSE = 4
_WHOLE_FLOATS = 2**53
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LONGEST_WITH_MEANING = 40
_TRUTH = {"true": 1, "false": 0}
_MISSING_TEXTS = frozenset(("", "nan", "none", "null", "nat", "<na>"))
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIRST = frozenset("+-.0123456789")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# A value is written as two words of eight bytes: what it is, and which kind that is. A text is sixteen bytes
# of its own keyed digest.
_REAL, _WHOLE, _LARGE, _MISSING, _MOMENT = range(5)


def digests_of(rows: Rows, key: bytes, columns: Sequence[str]) -> Digests:
    """One digest of eight bytes for each row of the named columns, in the order the rows come in.

    Values are compared by their meaning. These are equal: 3, 3.0 and the text "3"; true and 1; null, NaN and
    an empty text; a day, its midnight, and the text of either. Without the key a digest reveals nothing.
    Reads every row.
    """
    names = sorted(columns)
    own = hashlib.blake2b("\n".join(names).encode(), key=key, digest_size=32).digest()
    table = rows.plain(names)
    parts = [_batch(batch, own) for batch in table.to_batches(max_chunksize=_AT_ONCE)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def hashes_of(rows: Rows, key: bytes, columns: Sequence[str]) -> Digests:
    """Hashes that compare values as :func:`digests_of` does. Numpy computes them for many rows at once. The
    keyed hash is not cryptographic: use it only for data that is digested again and not shown."""
    names = sorted(columns)
    own = hashlib.blake2b("\n".join(names).encode(), key=key, digest_size=32).digest()
    parts = [_mixed(_written(batch, own), own) for batch in rows.plain(names).to_batches(_AT_ONCE)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _mixed(words: Digests, key: bytes) -> Digests:
    """One number for each row of words: two rounds of multiplying and shifting for each word, with odd
    numbers that follow from the key."""
    state = np.zeros(len(words), dtype=np.uint64)
    for place in range(words.shape[1]):
        drawn = hashlib.blake2b(place.to_bytes(8, "little"), key=key, digest_size=32).digest()
        add, first, second, third = np.frombuffer(drawn, dtype="<u8") | np.uint64(1)
        mixed = (words[:, place] ^ add) * first
        mixed = (mixed ^ (mixed >> np.uint64(32))) * second
        state = (state ^ mixed ^ (mixed >> np.uint64(29))) * third
        state ^= state >> np.uint64(31)
    return state


def numbering_of(rows: Rows) -> tuple[str, ...]:
    """The columns that may only number the rows. Their values are different whole numbers, at least a quarter
    of all numbers between the least and the greatest. Reads every row."""
    whole = [name for name, column in rows.schema.items() if column.whole]
    if not whole or not rows.count:
        return ()
    quoted = [rows._database.dialect.quoted(name) for name in whole]
    aggregates = ", ".join(f"min({name}), max({name}), count(DISTINCT {name})" for name in quoted)
    (facts,) = rows._database.run(f"SELECT {aggregates} FROM {rows._source} AS numbered")
    return tuple(
        name
        for name, least, greatest, different in zip(whole, facts[0::3], facts[1::3], facts[2::3], strict=True)
        if different == rows.count and greatest - least < _DENSE * rows.count
    )


def _written(batch: Any, key: bytes) -> Digests:
    """Two words for every value, a row of words for every row."""
    words = np.empty((batch.num_rows, 2 * batch.num_columns), dtype="<u8")
    for place, column in enumerate(batch.columns):
        words[:, 2 * place], words[:, 2 * place + 1] = _words(column, key)
    return words


def _batch(batch: Any, key: bytes) -> Digests:
    words = _written(batch, key)
    width = words.shape[1] * 8
    lines = memoryview(words.tobytes())
    blake = hashlib.blake2b
    joined = b"".join(
        blake(lines[start : start + width], digest_size=8, key=key).digest()
        for start in range(0, len(lines), width)
    )
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64)


def _words(column: Any, key: bytes) -> tuple[Digests, Digests]:
    """Every value of a column as two words."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    missing = np.asarray(pc.is_null(column, nan_is_null=True).cast(pa.uint8())).astype(bool)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        values, kinds = _of_whole(np.asarray(pc.fill_null(column.cast(_whole_type(kind)), 0)))
    elif pa.types.is_floating(kind):
        values, kinds = _of_real(np.asarray(pc.fill_null(column.cast(pa.float64()), 0.0)))
    elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        values, kinds = _of_moments(column, kind)
    else:
        values, kinds = _of_text(column.cast(pa.large_string()), key)
    values[missing], kinds[missing] = 0, _MISSING
    return values, kinds


def _whole_type(kind: Any) -> Any:
    import pyarrow as pa

    return pa.uint64() if pa.types.is_uint64(kind) else pa.int64()


def _of_real(numbers: Any) -> tuple[Digests, Digests]:
    plain = np.ascontiguousarray(numbers, dtype="<f8") + 0.0  # This turns -0.0 into 0.0.
    return plain.view("<u8").copy(), np.full(len(plain), _REAL, dtype="<u8")


def _of_whole(numbers: Any) -> tuple[Digests, Digests]:
    """Whole numbers as floats if a float can represent them, otherwise as they are."""
    values, kinds = _of_real(numbers)
    beyond = np.flatnonzero((numbers > _WHOLE_FLOATS) | (numbers < -_WHOLE_FLOATS))
    for place in beyond.tolist():
        values[place], kinds[place] = _number(int(numbers[place]))
    return values, kinds


def _of_moments(column: Any, kind: Any) -> tuple[Digests, Digests]:
    """Seconds since 1970 and, beside the kind, nanoseconds, whatever the unit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date32(kind):
        seconds = np.asarray(pc.fill_null(column.cast(pa.int32()), 0)).astype(np.int64) * 86_400
        nanoseconds = np.zeros_like(seconds)
    else:
        per = _PER_SECOND[kind.unit]
        units = np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
        seconds = units // per
        nanoseconds = (units - seconds * per) * (10**9 // per)
    return seconds.view("<u8").copy(), (_MOMENT + (nanoseconds.astype("<u8") << np.uint64(8))).astype("<u8")


def _of_text(column: Any, key: bytes) -> tuple[Digests, Digests]:
    """Digest each different text once. A text that is a number counts as that number."""
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    if not texts:
        return np.zeros(len(column), dtype="<u8"), np.full(len(column), _MISSING, dtype="<u8")
    words = np.frombuffer(b"".join([_text(text, key) for text in texts]), dtype="<u8").reshape(-1, 2)
    places = np.asarray(encoded.indices.fill_null(0))
    return words[places, 0], words[places, 1]


def _text(text: str, key: bytes) -> bytes:
    words = _words_meant_by(text) if len(text) <= _LONGEST_WITH_MEANING else None
    if words is not None:
        return b"".join(word.to_bytes(8, "little") for word in words)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), key=key, digest_size=16).digest()


def _words_meant_by(text: str) -> tuple[int, int] | None:
    """The two words of a text that means a number, a truth value, a moment or nothing; None for others."""
    if text[:1] in _FIRST:
        if _NUMBER.fullmatch(text):
            return _number(int(text) if text.lstrip("+-").isdigit() else float(text))
        return _moment(text) if _DAY.match(text) else None
    plain = text.lower()
    if plain in _TRUTH:
        return _number(_TRUTH[plain])
    return (0, _MISSING) if plain in _MISSING_TEXTS else None


def _moment(text: str) -> tuple[int, int] | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return None
    since = moment - datetime(1970, 1, 1)
    seconds = since.days * 86_400 + since.seconds
    return seconds % 2**64, _MOMENT + (since.microseconds * 1_000 << 8)


def _number(number: int | float) -> tuple[int, int]:
    """The two words of one number: as a float if a float can represent it, otherwise as it is."""
    try:
        real = float(number)
    except OverflowError:
        real = float("inf")
    if real == number or isinstance(number, float):
        return int.from_bytes(struct.pack("<d", real + 0.0), "little"), _REAL
    return number % 2**64, _WHOLE if -(2**63) <= number < 2**63 else _LARGE


def content_of(rows: Rows) -> bytes:
    """A digest of all rows and their order. Reads every row once. The rows must have a fixed order.

    A small table whose columns are read as they are stays in memory: it is copied next."""
    if rows.is_small and all(column.kind != "other" and not column.zoned for column in rows.schema.values()):
        table = rows.keep_in_memory()
    else:
        table = rows._database.arrow(
            f"SELECT {plain_columns(rows, rows.columns)} FROM {rows._source} AS listed", rows.schema
        )
    whole = hashlib.sha256()
    for column in table.columns:
        whole.update(_digest(column))
    return whole.digest()


def plain_columns(rows: Rows, names: Collection[str]) -> str:
    """The named columns as questions see them. Columns that questions cannot use are text, or moments if the
    text would depend on the machine."""
    quoted, types = rows._database.dialect.quoted, {}
    if any(rows.schema[name].kind == "other" for name in names):
        types = {name: dtype for name, dtype, *_ in rows._database.run(f"DESCRIBE {rows._source}")}
    listed = []
    for name in names:
        if rows.schema[name].zoned:
            listed.append(f"epoch_us({quoted(name)}) AS {quoted(name)}")
        elif rows.schema[name].kind != "other":
            listed.append(quoted(name))
        elif types[name] == "TIMESTAMP WITH TIME ZONE":
            listed.append(f"epoch_us({quoted(name)}) AS {quoted(name)}")
        else:
            listed.append(f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}")
    return ", ".join(listed)


def _digest(column: Any) -> bytes:
    """The digest of one column: its values with nulls as zeros, and which are null. It does not depend on how
    the column is cut into chunks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, nulls, values, further = column.type, hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    wide = pa.types.is_integer(kind) and _beyond_floats(column)
    for chunk in column.chunks:
        missing = pc.is_null(chunk, nan_is_null=True)
        nulls.update(np.asarray(missing.cast(pa.uint8())).data)
        if text:
            lengths, content = _bytes_of_texts(chunk)
            values.update(lengths)
            further.update(content)
            continue
        plain = chunk.cast(_plain(kind))
        numbers = np.asarray(pc.if_else(missing, pa.scalar(0, plain.type), plain))
        if pa.types.is_temporal(kind):
            seconds, nanoseconds = _moments(numbers.astype(np.int64), kind)
            values.update(seconds)
            further.update(nanoseconds)
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
    """Whether a float cannot represent some whole number of the column."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    return any(abs(end) > _WHOLE_FLOATS for end in ends.values() if end is not None)


def _bytes_of_texts(chunk: Any) -> tuple[Any, Any]:
    """The lengths of texts in bytes, and the texts one after the other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(chunk.cast(pa.large_string()), "")
    _, offsets, content = filled.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[filled.offset : filled.offset + len(filled) + 1]
    return np.diff(places), b"" if content is None else content[int(places[0]) : int(places[-1])]
