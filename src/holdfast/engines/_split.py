"""Taking a table apart by a mask over its rows, in order, and storing the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.engines._database import DuckDB
from holdfast.engines._native import Native
from holdfast.engines._refusals import first_that_fails, unstorable_column
from holdfast.engines._schema import Schema

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["rows_at", "split_rows", "store"]

# DuckDB gives its threads so many rows at a time: a smaller table is read by one of them in any case.
_ROW_GROUP = 122_880

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def split_rows(rows: Rows, train: Mask, protected: Mask) -> tuple[Rows, Rows]:
    """The two parts, each in a database of its own, so that looking at one shows nothing of the other."""
    import pyarrow as pa

    if not isinstance(rows._database, DuckDB):
        return split_rows(rows.stored(), train, protected)
    copy = rows._native.copy
    held = None
    if rows._held is not None and copy is not None:
        held = copy(rows._held, np.flatnonzero(train), rows.public_categories)
    if rows._in_memory is not None:
        training, rest = (rows._in_memory.filter(pa.array(mask)) for mask in (train, protected))
        return store(training, rows.schema, rows._native, held), store(rest, rows.schema, rows._native)
    database, mark = rows._database, _unused(rows)
    database.lend("part", pa.table({mark: train.astype(np.int8) + 2 * protected.astype(np.int8)}))
    chosen = f'SELECT "rows".* FROM {rows._source} AS "rows" POSITIONAL JOIN "part" WHERE "part"."{mark}" = '
    seen = store(database.arrow(f"{chosen} 1"), rows.schema, rows._native, held)
    kept = store(database.arrow(f"{chosen} 2"), rows.schema, rows._native)
    database.take_back("part")
    return seen, kept


def rows_at(rows: Rows, chosen: Mask) -> Rows:
    """The chosen ones of stored rows, in order, in a database of their own."""
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
    database.close_the_doors()
    return Rows(database, "rows", Schema(schema), table.num_rows, native, held)


def _filled(table: Any) -> DuckDB:
    database = DuckDB()
    database.lend("source", table)
    database.run('CREATE TABLE "rows" AS SELECT * FROM "source"')
    database.take_back("source")
    return database


def _unused(rows: Rows) -> str:
    """A name that no column has, in any case."""
    name = "part"
    while name in {column.lower() for column in rows.columns}:
        name += "_"
    return name
