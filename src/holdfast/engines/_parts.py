"""Dividing rows: into a training part and a protected part, and into units.

Rows are split by a mask over them, in order, and the parts are stored. Or they are split where they are, by
their place in files or by a key that the owner names. A keyed hash of the place or the key decides the part
of a row. Questions cannot use these values. So nothing is copied, and the same seed gives the same parts.

If single rows are not independent, units are: clusters that a column names, clusters that follow each other,
or blocks with gaps. Rows in units are ordinary rows with one more column for the unit of each row. Questions
cannot read that column. They are summed unit by unit
(:meth:`holdfast.engines.Rows.unit_sums`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.engines._database import DuckDB
from holdfast.engines._native import Native
from holdfast.engines._schema import Schema, first_that_fails, unstorable_column
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = [
    "FILE_PLACE",
    "UNIT",
    "UnitSizes",
    "in_blocks",
    "in_clusters",
    "in_numbered_units",
    "rows_at",
    "sizes_of",
    "some_by_place",
    "split_by_key",
    "split_by_place",
    "split_rows",
    "store",
    "unit_codes",
]


# DuckDB gives a thread this many rows at a time. One thread reads all of a smaller table.
_ROW_GROUP = 122_880

Mask = np.ndarray[Any, np.dtype[np.bool_]]

# In files with fewer rows, the row numbers alone would make parts of uneven size.
_ROWS_OF_A_FILE = 10_000
FILE_PLACE = ("@row", "@file")
"""The columns that say where a row of a Parquet file stands."""

UNIT = "@unit"
"""The column that says which unit a row belongs to, where it is not a column of the table."""


def split_rows(rows: Rows, train: Mask, protected: Mask) -> tuple[Rows, Rows]:
    """The two parts, each in a database of its own, so that one part shows nothing of the other."""
    import pyarrow as pa

    if not isinstance(rows._database, DuckDB):
        return split_rows(rows.stored(), train, protected)
    copy = rows._native.copy
    copied = None
    if rows._held is not None and copy is not None:
        copied = copy(rows._held, np.flatnonzero(train), rows.public_categories)
    if rows._in_memory is not None:
        training, others = (rows._in_memory.filter(pa.array(mask)) for mask in (train, protected))
        return store(training, rows.schema, rows._native, copied), store(others, rows.schema, rows._native)
    database, mark = rows._database, _unused(rows)
    database.lend("part", pa.table({mark: train.astype(np.int8) + 2 * protected.astype(np.int8)}))
    chosen = f'SELECT "rows".* FROM {rows._source} AS "rows" POSITIONAL JOIN "part" WHERE "part"."{mark}" = '
    training_rows = store(database.arrow(f"{chosen} 1"), rows.schema, rows._native, copied)
    protected_rows = store(database.arrow(f"{chosen} 2"), rows.schema, rows._native)
    database.take_back("part")
    return training_rows, protected_rows


def rows_at(rows: Rows, chosen: Mask) -> Rows:
    """The chosen rows of stored rows, in order, in a database of their own."""
    import pyarrow as pa

    database, mark = rows._database, _unused(rows)
    assert isinstance(database, DuckDB)
    database.lend("part", pa.table({mark: chosen}))
    joined = f'SELECT "rows".* FROM {rows._source} AS "rows" POSITIONAL JOIN "part" WHERE "part"."{mark}"'
    table = database.arrow(joined)
    database.take_back("part")
    return store(table, rows.schema, rows._native)


def store(table: Any, schema: Schema, native: Native, held: Any | None = None) -> Rows:
    """Copy clean rows once into a database's own storage, where questions are fastest."""
    from holdfast.engines._rows import Rows

    try:
        database = _filled(table)
    except Exception:
        database = None
    if database is None:
        column = first_that_fails(table.column_names, lambda name: _filled(table.select([name])))
        raise unstorable_column(column or table.column_names[0])
    if table.num_rows <= _ROW_GROUP:
        database.expect_few_rows()
    database.forbid_external_access()
    return Rows(database, "rows", Schema(schema), table.num_rows, native, held)


def _filled(table: Any) -> DuckDB:
    database = DuckDB()
    database.lend("source", table)
    database.run('CREATE TABLE "rows" AS SELECT * FROM "source"')
    database.take_back("source")
    return database


def _unused(rows: Rows) -> str:
    """A name that no column has, in upper or lower case."""
    name = "part"
    while name in {column.lower() for column in rows.columns}:
        name += "_"
    return name


def split_by_place(rows: Rows, source: str, share: float, seed: int) -> tuple[Rows, Rows, str]:
    """Split the rows of ``source``, a view with the columns ``FILE_PLACE``, into a training part of about
    ``share`` of them and the rest. The third result is a text that changes if the hashes change, for example
    with the version of DuckDB.

    Rows are protected if the hash of their number in the file lies in a window. The seed places the window.
    While DuckDB reads a file, it can only check a range of one hash; any more takes as long as the question.
    Rows with one number in several files go together, unless there are many small files.
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
    """A condition that about this part of the rows of ``source`` meets. It does not depend on values."""
    return f"{_hashed_place(rows, source)} <= {_upto(0, part)}"


def _upto(least: int, part: float) -> int:
    """The last hash of a window that begins at ``least`` and has this part of all hashes."""
    return least + int((2**64 - least) * part) - 1


def _hashed_place(rows: Rows, source: str) -> str:
    """The SQL of a hash of the place of a row: of its number in the file, and also of the file if there are
    many small files."""
    database = rows._database
    row, file = map(database.dialect.quoted, FILE_PLACE)
    ((files,),) = database.run(f"SELECT count(DISTINCT {file}) FROM {database.source(source)} AS counted")
    return f"hash({row})" if rows.count >= _ROWS_OF_A_FILE * files else f"hash({row}, {file})"


def _start(share: float, seed: int) -> int:
    """Where the window of protected hashes begins. For the default seed it begins at the first hash, so the
    training part also needs only one comparison."""
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
    others = [name for name in rows.columns if name != key]
    if not others:
        raise QueryRejected(f"Besides {key!r}, which the rows are split by, there is no column to ask about.")
    dialect = rows._database.dialect
    mark = dialect.marked(dialect.quoted(key), f"{int(seed)} ")

    def some(part: float) -> str:
        return f"{mark} < '{int(part * share * 2**32):08x}'"

    training = some(1.0)
    unit = key if in_units else None
    return _parts(rows, rows._name, (training, f"NOT ({training})"), others, some, unit)


def _parts(
    rows: Rows,
    source: str,
    marks: tuple[str, str],
    columns: list[str],
    some: Callable[[float], str],
    unit: str | None = None,
) -> tuple[Rows, Rows]:
    """The rows that meet the first condition, and those that meet the second. ``some`` is a condition that a
    part of the first rows meets. ``unit`` is the column with the unit of each row, if rows are in units."""
    database = rows._database
    quoted = database.dialect.quoted
    ((chosen,),) = database.run(
        f"SELECT sum(CASE WHEN {marks[0]} THEN 1 ELSE 0 END) FROM {database.source(source)} AS counted"
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
        database.define(name, f"SELECT {own} FROM {database.source(source)} AS whole WHERE {mark}")
        part = rows.part(name, schema, count)
        part.unit = None if unit is None else UNIT
        parts.append(part)
    parts[0].chosen = lambda part: (
        f"SELECT {listed} FROM {database.source(source)} AS whole WHERE {some(part)}"
    )
    return parts[0], parts[1]


@dataclass(frozen=True)
class UnitSizes:
    """How many units there are of each size: public facts, as the number of rows is."""

    sizes: tuple[int, ...]
    units: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many units there are."""
        return sum(self.units)

    @property
    def largest(self) -> int:
        """How many rows the largest unit has."""
        return max(self.sizes)

    @property
    def listed(self) -> tuple[int, ...]:
        """The size of every unit, smallest first."""
        return tuple(np.repeat(self.sizes, self.units).tolist())


def require_unit_column(rows: Rows, column: str) -> None:
    """Refuse a column that cannot name units."""
    described = rows.schema.get(column)
    if described is None:
        raise QueryRejected(
            f"There is no column {column!r} to name the clusters; there are {', '.join(rows.columns)}."
        )
    if not (described.whole or described.kind in ("text", "boolean")):
        raise QueryRejected(
            f"The column {column!r} is neither text nor whole numbers, so it cannot name the clusters. Give "
            "each cluster a number or a name in a column of its own."
        )


def in_clusters(rows: Rows, column: str) -> Rows:
    """The same rows in clusters: those with one value of a column belong together."""
    require_unit_column(rows, column)
    clustered = rows.part(rows._name, rows.schema, rows.count)
    clustered.unit = column
    clustered.chosen = rows.chosen
    return clustered


def in_numbered_units(rows: Rows, numbers: NDArray[np.int64]) -> Rows:
    """The same stored rows in units that are numbered row by row."""
    import pyarrow as pa

    database = rows._database
    assert isinstance(database, DuckDB)
    name, quoted = f"units {secrets.token_hex(8)}", database.dialect.quoted
    database.lend("numbers", pa.table({UNIT: np.asarray(numbers, dtype=np.int64)}))
    database.run(
        f'CREATE TABLE {quoted(name)} AS SELECT "rows".*, "numbers".{quoted(UNIT)} '
        f'FROM {rows._source} AS "rows" POSITIONAL JOIN "numbers"'
    )
    database.take_back("numbers")
    return _with_unit(rows, name, rows.count)


def in_blocks(rows: Rows, length: int, gap: int) -> Rows:
    """The stored rows in blocks of ``length`` rows. After each block, ``gap`` rows are left out. An
    incomplete last block is left out too."""
    database, stride = rows._database, length + gap
    blocks = (rows.count + gap) // stride
    name = f"blocks {secrets.token_hex(8)}"
    database.define(
        name,
        f"SELECT *, rowid // {stride} AS {database.dialect.quoted(UNIT)} FROM {rows._source} "
        f"WHERE rowid % {stride} < {length} AND rowid < {blocks * stride}",
    )
    return _with_unit(rows, name, blocks * length)


def _with_unit(rows: Rows, name: str, count: int) -> Rows:
    part = rows.part(name, rows.schema, count)
    part.unit = UNIT
    return part


def sizes_of(rows: Rows) -> UnitSizes:
    """How many rows the units have. Refused where a row has no unit. Reads the column of units only."""
    database = rows._database
    unit, source = database.dialect.quoted(str(rows.unit)), rows._source
    ((missing,),) = database.run(f"SELECT count(*) FROM {source} AS counted WHERE {unit} IS NULL")
    if missing:
        raise QueryRejected(
            f"{int(missing):,} rows have no value of {rows.unit!r}, which names the clusters. Give each its "
            "cluster, or leave those rows out."
        )
    counted = f"SELECT count(*) AS times FROM {source} AS counted GROUP BY {unit}"
    sizes = database.run(f"SELECT times, count(*) FROM ({counted}) AS counted GROUP BY times ORDER BY times")
    return UnitSizes(tuple(int(size) for size, _ in sizes), tuple(int(units) for _, units in sizes))


def unit_codes(rows: Rows) -> NDArray[np.int64]:
    """The unit of each row, as a number, in the order of the rows. Reads every row."""
    import pandas

    rows.require_readable()
    if rows.unit in rows.schema:
        return np.asarray(pandas.factorize(rows.frame([str(rows.unit)])[rows.unit])[0], dtype=np.int64)
    quoted = rows._database.dialect.quoted(str(rows.unit))
    listed = rows._database.run(f"SELECT {quoted} FROM {rows._source} AS listed")
    codes = pandas.factorize(np.array([unit for (unit,) in listed], dtype=object))[0]
    return np.asarray(codes, dtype=np.int64)
