"""Opening a table: from memory, from files, or from another database, into DuckDB by way of ibis."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.engines._database import DuckDB
from holdfast.engines._in_place import backend_of, open_table
from holdfast.engines._native import FILE, IBIS, Native, source_of
from holdfast.engines._rows import Rows
from holdfast.engines._schema import PLAIN, Column, Schema, reject_columns
from holdfast.engines._url import is_database, open_url
from holdfast.engines._watch import FileWatch, Watch
from holdfast.errors import QueryRejected

__all__ = ["open_rows"]

_WHOLE = {"TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64"}
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst")
# Types are settled on every line, so that no question can meet a value that does not fit its column; an empty
# field is a null and an empty text in quotes is a text.
_CSV_OPTIONS = "sample_size = -1, allow_quoted_nulls = false"
# DuckDB's types that can be computed with; columns of every other type can only be tested for null.
_COLUMNS = {
    "BOOLEAN": Column("boolean", "boolean"),
    "VARCHAR": Column("text", "string"),
    "FLOAT": Column("number", "float32"),
    "DOUBLE": Column("number", "float64"),
    **{
        f"{u}{name}": Column("number", f"{u.lower()}{kind}")
        for u in ("", "U")
        for name, kind in _WHOLE.items()
    },
    "DATE": Column("date", "date"),
    "TIMESTAMP": Column("date", "timestamp(6)"),
    "TIMESTAMP_S": Column("date", "timestamp(0)"),
    "TIMESTAMP_MS": Column("date", "timestamp(3)"),
    "TIMESTAMP_NS": Column("date", "timestamp(9)"),
}
_WANTED = (
    "a pandas, polars or pyarrow table, a dict of arrays, an ibis table, or the path of a CSV or Parquet file"
)


def open_rows(data: Any) -> Rows:
    """Open a pandas, polars or pyarrow table, a dict of arrays, a CSV or Parquet path (or glob), or an ibis
    table.

    >>> open_rows({"age": [31, 52, 47], "sex": ["F", "M", "F"]})
    Rows(3 rows, Schema(age: number, sex: text))

    An empty table, a table without columns and anything that is not a table raise
    :class:`~holdfast.errors.QueryRejected`. NaN counts as null from here on. The index of a pandas frame is
    not a column, but ``native()`` keeps it. A CSV file is read once; a Parquet file is read anew for every
    question until the rows are split or stored.
    """
    if isinstance(data, (str, Path)):
        text = os.path.expanduser(data)
        return open_url(text) if is_database(text) else _open_path(text)
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
    return _rows(database, source.native, held, table.num_rows, source.nullable(data))


def _rows(
    database: DuckDB,
    native: Native,
    held: Any | None,
    count: int,
    nullable: Mapping[str, bool | None],
    watch: Watch | None = None,
) -> Rows:
    """The rows of the table ``source``, as they are asked about."""
    columns = {name: dtype for name, dtype, *_ in database.run('DESCRIBE "source"')}
    clean = ", ".join(_clean(name, dtype) for name, dtype in columns.items())
    database.define("rows", f'SELECT {clean} FROM "source"')
    schema = {
        name: replace(_COLUMNS.get(dtype, Column("other")), nullable=nullable.get(name))
        for name, dtype, *_ in database.run('DESCRIBE "rows"')
    }
    return Rows(database, "rows", Schema(schema), count, native, held, watch=watch)


def _clean(name: str, dtype: str) -> str:
    """A column as it is asked about: NaN is null, names and categories are text, wide numbers are floats."""
    column = PLAIN.quoted(name)
    if dtype in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
    if dtype.startswith(("ENUM", "UUID", "JSON")):
        return f"CAST({column} AS VARCHAR) AS {column}"
    if dtype.startswith(("DECIMAL", "HUGEINT", "UHUGEINT")):
        return f"CAST({column} AS DOUBLE) AS {column}"
    return column


def _open_path(path: str) -> Rows:
    import duckdb

    lower = path.lower()
    if not lower.endswith(_PARQUET + _CSV):
        raise QueryRejected(
            f"Cannot tell what {path!r} is; give {_WANTED} (ending in {', '.join(_PARQUET + _CSV[:3])})."
        )
    if "://" not in path and not (Path(path).exists() or glob.glob(path, recursive=True)):
        raise QueryRejected(f"There is no file {path!r}; check the path (from {str(Path.cwd())!r}).")
    database = DuckDB()
    written = "'" + path.replace("'", "''") + "'"
    try:
        if lower.endswith(_PARQUET):
            # DuckDB takes the least and greatest value in a Parquet footer for proof that there is no NaN;
            # writers leave NaN out of them, and isnan(x) would come out false for every row.
            database.run("SET disabled_optimizers = 'statistics_propagation'")
            database.run(f'CREATE VIEW "source" AS SELECT * FROM read_parquet({written})')
        else:
            database.run(f'CREATE TABLE "source" AS SELECT * FROM read_csv({written}, {_CSV_OPTIONS})')
        ((count,),) = database.run('SELECT count(*) FROM "source"')
    except duckdb.Error as error:
        raise QueryRejected(f"Cannot read {path!r}: {str(error).splitlines()[0]}") from None
    reject_columns([name for name, *_ in database.run('DESCRIBE "source"')])
    if count == 0:
        raise QueryRejected(f"The table {path!r} has no rows; give at least one.")
    in_place = lower.endswith(_PARQUET) and "://" not in path
    return _rows(database, FILE, None, count, {}, FileWatch(path) if in_place else None)
