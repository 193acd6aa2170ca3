"""Opening a table: from memory and from files with DuckDB, from any other database where it is, by ibis.

One text names a table in a database: the address of the database and, after ``#``, the table.
``postgres://ann:secret@db.example/town#trips``, or ``#public.trips`` for a table of another schema. The
address goes to ibis as it is; a password in it is never shown, neither by us nor in what others say.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.engines._database import DuckDB
from holdfast.engines._files import is_database, open_path, rows_of_source, shown, without_secrets
from holdfast.engines._in_place import backend_of, open_table
from holdfast.engines._native import IBIS, Categories, collected, source_of
from holdfast.engines._rows import Rows
from holdfast.engines._schema import by_kind_only, first_that_fails, reject_columns, unstorable_column
from holdfast.errors import InvalidArgument, QueryRejected

__all__ = ["open_rows", "open_url"]


_WANTED = (
    "a pandas, polars or pyarrow table, a dict of arrays, an ibis table, database://address#table, or the "
    "path of a CSV or Parquet file"
)


@by_kind_only
def open_rows(data: Any, *, public_categories: bool | Collection[str] = False) -> Rows:
    """Open a pandas, polars or pyarrow table (a polars LazyFrame is collected), a dict of arrays, a CSV or
    Parquet path (or glob, or address), an ibis table, or a table of a database by its address, ``"postgres://ann@db.example/town#trips"``.

    >>> open_rows({"age": [31, 52, 47], "sex": ["F", "M", "F"]})
    Rows(3 rows, Schema(age: number, sex: text))

    An empty table, a table without columns and anything that is not a table raise
    :class:`~holdfast.errors.QueryRejected`. NaN counts as null from here on. The index of a pandas frame is
    not a column, but ``native()`` keeps it. A CSV file is read once; a Parquet file is read anew for every
    question until the rows are split or stored. Tables of a database stay there, whatever their size: every
    question is one statement to it. What it computes otherwise than DuckDB does, to the last bit, is found
    out here, on constants, and refused when a question needs it.

    ``public_categories`` names the columns whose declared categories may be shown and, where they are
    ordered, compared in their order; True names all that declare some. What is wrong with a table is told by
    column and kind; no error quotes a value.
    """
    if isinstance(data, (str, Path)):
        text = os.path.expanduser(data)
        return open_url(text) if is_database(text) else open_path(text, _WANTED)
    data = collected(data)
    source = source_of(data)
    if source is None:
        raise QueryRejected(
            f"Cannot open {type(data).__module__}.{type(data).__name__} as a table; give {_WANTED}."
        )
    reject_columns(source.names(data))
    if source.native is IBIS and (backend := backend_of(data)) is not None:
        return open_table(data, backend)
    if isinstance(data, Mapping):
        data = {name: values if hasattr(values, "dtype") else list(values) for name, values in data.items()}
    declared = source.categories(data)
    public = _public(public_categories, declared)
    table = source.arrow(data)
    if table.num_rows == 0:
        raise QueryRejected("The table has no rows; give at least one.")
    rows = rows_of_source(
        _lent(table),
        source.native,
        table.num_rows,
        held=data if source.native.copy else None,
        nullable=source.nullable(data),
        orders=_orders(declared, public),
        public_categories=public,
    )
    return rows


def _lent(table: Any) -> DuckDB:
    """A database that reads an arrow table where it is."""
    try:
        return _described(table)
    except Exception:
        pass
    column = first_that_fails(table.column_names, lambda name: _described(table.select([name])))
    raise unstorable_column(column or table.column_names[0])


def _described(table: Any) -> DuckDB:
    database = DuckDB.shared()
    database.lend("source", table)
    database.run('DESCRIBE "source"')
    return database


def _public(chosen: bool | Collection[str], declared: Mapping[str, Categories]) -> frozenset[str]:
    """The columns whose categories are public."""
    if isinstance(chosen, bool):
        return frozenset(declared) if chosen else frozenset()
    names = frozenset([chosen] if isinstance(chosen, str) else chosen)
    if not names <= set(declared):
        raise InvalidArgument(
            "public_categories",
            "True, False, or names of columns that declare categories "
            f"({', '.join(sorted(declared)) or 'this table has none'})",
            sorted(names - set(declared)),
            of="Guard",
        )
    return names


def _orders(declared: Mapping[str, Categories], public: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The order of each column that has one; empty where it is not public."""
    return {
        name: tuple(map(str, categories.values)) if name in public else ()
        for name, categories in declared.items()
        if categories.ordered
    }


def open_url(url: str) -> Rows:
    """Open ``scheme://…#table`` where it is."""
    address, _, name = url.partition("#")
    if not name:
        raise QueryRejected(
            f"{shown(url)} is a database; say which table of it with #, as in {shown(address)}#trips."
        )
    import ibis

    backend: Any = None
    table: Any = None
    try:
        backend = ibis.connect(address)
        table = _table(backend, unquote(name))
    except Exception as error:  # No row was read yet, so the database may say what is wrong.
        reason = without_secrets(error, url)
    if table is None:
        if backend is not None:
            backend.disconnect()
        raise QueryRejected(f"Cannot open {shown(url)}: {reason}.")
    try:
        reject_columns(list(table.columns))
        rows = open_table(table, backend)
    except Exception:
        backend.disconnect()
        raise
    # A connection of our own ends with the rows.
    weakref.finalize(rows._database, backend.disconnect)
    return rows


def _table(backend: Any, name: str) -> Any:
    schema, found, last = name.rpartition(".")
    return backend.table(last, database=schema) if found else backend.table(name)
