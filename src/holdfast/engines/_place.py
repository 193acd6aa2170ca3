"""Splitting rows where they are: by their place in files, or by a key that the owner names.

Which part a row goes to is a keyed hash of something that is not asked about, so nothing has to be copied and
the same seed gives the same parts again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.engines._units import UNIT
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["FILE_PLACE", "some_by_place", "split_by_key", "split_by_place"]

# With fewer rows a file, their numbers alone would make parts of uneven size.
_ROWS_OF_A_FILE = 10_000

FILE_PLACE = ("@row", "@file")
"""The columns that say where a row of a Parquet file stands."""


def split_by_place(rows: Rows, source: str, share: float, seed: int) -> tuple[Rows, Rows, str]:
    """A training part of about ``share`` of the rows of ``source``, a view with the columns ``FILE_PLACE``,
    and the rest; and a text that differs if hashes do, as they may from one version of DuckDB to another.

    Rows are protected if the hash of their number in the file lies in a window that the seed places: a range
    of one hash is all that DuckDB can look at while it reads a file, and anything more takes as long as the
    question. Rows with one number in several files go together, unless there are many small ones.
    """
    database, place = rows._database, _hashed_place(rows, source)
    size, least = round((1 - share) * 2**64), _start(share, seed)
    end = min(least + size, 2**64)
    inside = f"{place} BETWEEN {least} AND {end - 1}"
    outside = f"NOT ({inside})" if least else f"{place} >= {size}"
    first = "SELECT sum(hash(i) // 1024) + sum(hash(i, 0) // 1024) FROM range(1000) AS t(i)"
    ((check,),) = database.run(first)

    def some(part: float) -> str:
        return f"({place} < {int(least * part)} OR {place} BETWEEN {end} AND {_upto(end, part)})"

    parts = _parts(rows, source, (outside, inside), list(rows.columns), some)
    return *parts, f"{int(check):x} {least:x}"


def some_by_place(rows: Rows, source: str, part: float) -> str:
    """The condition that about this part of the rows of ``source`` meets, whatever their values are."""
    return f"{_hashed_place(rows, source)} <= {_upto(0, part)}"


def _upto(least: int, part: float) -> int:
    """The last hash of this part of those from ``least`` on."""
    return least + int((2**64 - least) * part) - 1


def _hashed_place(rows: Rows, source: str) -> str:
    """The SQL of a hash of where a row stands: of its number in the file, and of the file too where there are
    many small ones."""
    database = rows._database
    row, file = map(database.dialect.quoted, FILE_PLACE)
    ((files,),) = database.run(f"SELECT count(DISTINCT {file}) FROM {database.dialect.quoted(source)}")
    return f"hash({row})" if rows.count >= _ROWS_OF_A_FILE * files else f"hash({row}, {file})"


def _start(share: float, seed: int) -> int:
    """Where the window of protected hashes begins; at the very start for the seed that most will have, which
    lets the training part be read by one comparison too."""
    drawn = int.from_bytes(hashlib.sha256(str(int(seed)).encode()).digest()[:8], "big")
    return int(drawn * share) if seed else 0


def split_by_key(
    rows: Rows, key: str, share: float, seed: int, *, in_units: bool = False
) -> tuple[Rows, Rows]:
    """A training part of the rows with about ``share`` of the keys, and the rest, both without the key. With
    ``in_units`` the rows of one key are a unit."""
    column = rows.schema.get(key)
    if column is None:
        raise QueryRejected(f"There is no column {key!r} to split by; there are {', '.join(rows.columns)}.")
    if not (column.whole or column.kind == "text"):
        raise QueryRejected(
            f"The column {key!r} is neither text nor whole numbers, and its digits differ between databases; "
            "split by another one."
        )
    kept = [name for name in rows.columns if name != key]
    if not kept:
        raise QueryRejected(f"Besides {key!r}, which the rows are split by, there is no column to ask about.")
    dialect = rows._database.dialect
    mark = dialect.marked(dialect.quoted(key), f"{int(seed)} ")

    def some(part: float) -> str:
        return f"{mark} < '{int(part * share * 2**32):08x}'"

    training = some(1.0)
    unit = key if in_units else None
    return _parts(rows, rows._name, (training, f"NOT ({training})"), kept, some, unit)


def _parts(
    rows: Rows,
    source: str,
    marks: tuple[str, str],
    columns: list[str],
    some: Callable[[float], str],
    unit: str | None = None,
) -> tuple[Rows, Rows]:
    """The rows for which the first condition holds, and those for which the second does; ``some`` is the
    condition that a part of the first ones meets. ``unit`` is the column that says which unit a row belongs
    to, where rows are in units."""
    database = rows._database
    quoted = database.dialect.quoted
    ((chosen,),) = database.run(
        f"SELECT sum(CASE WHEN {marks[0]} THEN 1 ELSE 0 END) FROM {quoted(source)} AS counted"
    )
    counts = int(chosen), rows.count - int(chosen)
    if 0 in counts:
        raise QueryRejected("The split leaves one part without rows; give another share, seed or key.")
    listed = ", ".join(map(quoted, columns))
    schema = rows.schema.only(columns)
    parts = []
    for count, mark in zip(counts, marks, strict=True):
        name = f"part {secrets.token_hex(8)}"
        own = listed if unit is None else f"{listed}, {quoted(unit)} AS {quoted(UNIT)}"
        database.define(name, f"SELECT {own} FROM {quoted(source)} AS whole WHERE {mark}")
        part = rows.part(name, schema, count)
        part.unit = None if unit is None else UNIT
        parts.append(part)
    parts[0].chosen = lambda part: f"SELECT {listed} FROM {quoted(source)} AS whole WHERE {some(part)}"
    return parts[0], parts[1]
