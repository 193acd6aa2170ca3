"""Opening a table: from memory, from files, or from another database, into DuckDB by way of ibis."""

from __future__ import annotations

import glob
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.engines._database import Database
from holdfast.engines._native import FILE, IBIS, Native, native_kind
from holdfast.engines._rows import Rows
from holdfast.engines._schema import Schema, reject_columns, schema_of
from holdfast.errors import QueryRejected

__all__ = ["open_rows"]

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst")
# Types are settled on every line, so that no question can meet a value that does not fit its column; an empty
# field is a null and an empty text in quotes is a text.
_CSV_OPTIONS = "sample_size = -1, allow_quoted_nulls = false"
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
        return _open_path(str(data))
    kind = native_kind(data)
    if kind is None:
        raise QueryRejected(
            f"Cannot open {type(data).__module__}.{type(data).__name__} as a table; give {_WANTED}."
        )
    reject_columns(
        list(data.columns if hasattr(data, "columns") and kind.name != "pyarrow" else _names(data))
    )
    rows = _open_arrow(kind.arrow(data), kind, None if kind is IBIS else data)
    said = kind.nullable(data)
    rows.schema = Schema(
        {name: replace(column, nullable=said.get(name)) for name, column in rows.schema.items()}
    )
    return rows


def _names(data: Any) -> list[Any]:
    return list(data.column_names) if hasattr(data, "column_names") else list(data)


def _open_arrow(table: Any, kind: Native, held: Any | None) -> Rows:
    """Rows over an arrow table that stays where it is."""
    if table.num_rows == 0:
        raise QueryRejected("The table has no rows; give at least one.")
    database = Database()
    database.lend("source", table)
    return _rows(database, kind, held, count=table.num_rows)


def _rows(database: Database, kind: Native, held: Any | None, count: int) -> Rows:
    database.run(f'CREATE VIEW "rows" AS SELECT {_clean(database)} FROM "source"')
    schema = schema_of(database.arrow('SELECT * FROM "rows" LIMIT 0'))
    return Rows(database, "rows", schema, count, kind, held)


def _clean(database: Database) -> str:
    """Every column as it is asked about: NaN is null, categories are text, wide numbers are floats."""
    columns = []
    for name, dtype, *_ in database.run('DESCRIBE "source"'):
        quoted = '"' + name.replace('"', '""') + '"'
        if dtype in ("FLOAT", "DOUBLE"):
            columns.append(f"CASE WHEN isnan({quoted}) THEN NULL ELSE {quoted} END AS {quoted}")
        elif dtype.startswith("ENUM"):
            columns.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")
        elif dtype.startswith(("DECIMAL", "HUGEINT", "UHUGEINT")):
            columns.append(f"CAST({quoted} AS DOUBLE) AS {quoted}")
        else:
            columns.append(quoted)
    return ", ".join(columns)


def _open_path(path: str) -> Rows:
    import duckdb

    lower = path.lower()
    if not lower.endswith(_PARQUET + _CSV):
        raise QueryRejected(
            f"Cannot tell what {path!r} is; give {_WANTED} (ending in {', '.join(_PARQUET + _CSV[:3])})."
        )
    if "://" not in path and not glob.glob(path, recursive=True):
        raise QueryRejected(f"There is no file {path!r}; check the path (from {str(Path.cwd())!r}).")
    database = Database()
    quoted = "'" + path.replace("'", "''") + "'"
    try:
        if lower.endswith(_PARQUET):
            # DuckDB takes the least and greatest value in a Parquet footer for proof that there is no NaN;
            # writers leave NaN out of them, and isnan(x) would come out false for every row.
            database.run("SET disabled_optimizers = 'statistics_propagation'")
            database.run(f'CREATE VIEW "source" AS SELECT * FROM read_parquet({quoted})')
        else:
            database.run(f'CREATE TABLE "source" AS SELECT * FROM read_csv({quoted}, {_CSV_OPTIONS})')
        ((count,),) = database.run('SELECT count(*) FROM "source"')
    except duckdb.Error as error:
        raise QueryRejected(f"Cannot read {path!r}: {str(error).splitlines()[0]}") from None
    reject_columns([name for name, *_ in database.run('DESCRIBE "source"')])
    if count == 0:
        raise QueryRejected(f"The table {path!r} has no rows; give at least one.")
    return _rows(database, FILE, None, count=count)
