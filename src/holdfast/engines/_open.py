"""Opening a table: from memory and from files with DuckDB, from any other database where it is, by ibis."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from holdfast.engines._address import is_database
from holdfast.engines._database import DuckDB
from holdfast.engines._files import open_path, rows_of_source
from holdfast.engines._in_place import backend_of, open_table
from holdfast.engines._native import IBIS, source_of
from holdfast.engines._rows import Rows
from holdfast.engines._schema import reject_columns
from holdfast.engines._url import open_url
from holdfast.errors import QueryRejected

__all__ = ["open_rows"]

_WANTED = (
    "a pandas, polars or pyarrow table, a dict of arrays, an ibis table, database://address#table, or the "
    "path of a CSV or Parquet file"
)


def open_rows(data: Any) -> Rows:
    """Open a pandas, polars or pyarrow table, a dict of arrays, a CSV or Parquet path (or glob, or address),
    an ibis table, or a table of a database by its address, ``"postgres://ann@db.example/town#trips"``.

    >>> open_rows({"age": [31, 52, 47], "sex": ["F", "M", "F"]})
    Rows(3 rows, Schema(age: number, sex: text))

    An empty table, a table without columns and anything that is not a table raise
    :class:`~holdfast.errors.QueryRejected`. NaN counts as null from here on. The index of a pandas frame is
    not a column, but ``native()`` keeps it. A CSV file is read once; a Parquet file is read anew for every
    question until the rows are split or stored. Tables of a database stay there, whatever their size: every
    question is one statement to it. What it computes otherwise than DuckDB does, to the last bit, is found
    out here, on constants, and refused when a question needs it.
    """
    if isinstance(data, (str, Path)):
        text = os.path.expanduser(data)
        return open_url(text) if is_database(text) else open_path(text, _WANTED)
    source = source_of(data)
    if source is None:
        raise QueryRejected(
            f"Cannot open {type(data).__module__}.{type(data).__name__} as a table; give {_WANTED}."
        )
    reject_columns(source.names(data))
    if source.native is IBIS and (backend := backend_of(data)) is not None:
        return open_table(data, backend)
    table = source.arrow(data)
    if table.num_rows == 0:
        raise QueryRejected("The table has no rows; give at least one.")
    database = DuckDB()
    database.lend("source", table)
    database.close_the_doors()
    held = data if source.native.cut else None
    return rows_of_source(database, source.native, table.num_rows, held=held, nullable=source.nullable(data))
