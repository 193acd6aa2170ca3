"""Opening a table. DuckDB reads tables in memory and files. A table of another database stays there, and ibis
reads it.

A CSV file is read once, a Parquet file again for every question. One text names a table in a database: the
address of the database and, after ``#``, the table. For example
``postgres://ann:secret@db.example/town#trips``, or ``#public.trips`` for a table of another schema. The
address goes to ibis unchanged. A password in it is never shown, neither by us nor in errors of libraries.
"""

from __future__ import annotations

import glob
import os
import weakref
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.engines._database import DuckDB
from holdfast.engines._in_place import backend_of, open_table
from holdfast.engines._native import FILE, IBIS, Categories, Native, collected, source_of
from holdfast.engines._parts import FILE_PLACE
from holdfast.engines._rows import Rows
from holdfast.engines._schema import (
    PLAIN,
    Column,
    Schema,
    by_kind_only,
    first_that_fails,
    reject_columns,
    unstorable_column,
)
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.typing import TableLike

__all__ = [
    "is_database",
    "open_path",
    "open_rows",
    "open_url",
    "rows_of_source",
    "shown",
    "without_secrets",
]


# Schemes of files, which DuckDB reads itself.
_FILES = ("file", "http", "https", "s3", "s3a", "s3n", "gs", "gcs", "r2", "hf", "az", "azure", "abfss")

_WHOLE = {"TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64"}
_FLOATS = ("FLOAT", "DOUBLE")
_ZONED = "TIMESTAMP WITH TIME ZONE"
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst")
_MOST_COLUMNS = 10_000
_LONGEST_HEADER = 16 * 2**20
_SHARE_OF_MEMORY = "50%"
# Types are inferred from all lines, so that no question can meet a value that does not fit its column. An
# empty field is a null, and an empty text in quotes is a text.
_CSV_OPTIONS = "sample_size = -1, allow_quoted_nulls = false"
# DuckDB's types that can be used in computations. Columns of other types can only be tested for null.
_COLUMNS = {
    "BOOLEAN": Column("boolean", "boolean"),
    "VARCHAR": Column("text", "string"),
    "FLOAT": Column("number", "float32"),
    "DOUBLE": Column("number", "float64"),
    **{
        f"{sign}{name}": Column("number", f"{sign.lower()}{kind}")
        for sign in ("", "U")
        for name, kind in _WHOLE.items()
    },
    "DATE": Column("date", "date"),
    "TIMESTAMP": Column("date", "timestamp(6)"),
    "TIMESTAMP_S": Column("date", "timestamp(0)"),
    "TIMESTAMP_MS": Column("date", "timestamp(3)"),
    "TIMESTAMP_NS": Column("date", "timestamp(9)"),
}

_ACCEPTED = (
    "a pandas, polars or pyarrow table, a dict of arrays, an ibis table, database://address#table, or the "
    "path of a CSV or Parquet file"
)


def is_database(text: str) -> bool:
    """Whether a text is the address of a database rather than of a file."""
    scheme, mark, _ = text.partition("://")
    return bool(mark) and scheme.isalnum() and scheme.lower() not in _FILES


def shown(path: str) -> str:
    """An address without user name, password and options. For a path on this machine only its last part,
    because the shown text may be read on another machine."""
    if "://" not in path:
        return Path(path).name
    parts = urlsplit(path)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" + (f"#{parts.fragment}" if parts.fragment else "")


def without_secrets(error: Exception, url: str) -> str:
    """The first line of an error, without the hidden parts of the address."""
    text = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    if "://" not in url:
        return text
    parts = urlsplit(url)
    for secret in (url, parts.netloc.rpartition("@")[0], parts.query, parts.password):
        for written in {secret or "", unquote(secret or "")} - {""}:
            text = text.replace(written, "…")
    return text


def rows_of_source(
    database: DuckDB,
    native: Native,
    count: int,
    *,
    held: Any | None = None,
    nullable: Mapping[str, bool | None] | None = None,
    orders: Mapping[str, tuple[str, ...]] | None = None,
    place: str | None = None,
    **where: Any,
) -> Rows:
    """The rows of the table ``source``, as questions see them. ``place`` is the SQL of a query that returns
    them with two more columns for the place of each row. ``nullable`` and ``orders`` are what the table
    declares about its columns."""
    missing, ordered = nullable or {}, orders or {}
    columns = {name: dtype for name, dtype, *_ in database.run('DESCRIBE "source"')}
    clean = ", ".join(_clean(name, dtype) for name, dtype in columns.items())
    database.define("rows", f'SELECT {clean} FROM "source"')
    with_nan = ", ".join(
        PLAIN.quoted(name) if dtype in _FLOATS else _clean(name, dtype) for name, dtype in columns.items()
    )
    database.define("rows with NaN", f'SELECT {with_nan} FROM "source"')
    if place is not None:
        places = ", ".join(map(PLAIN.quoted, FILE_PLACE))
        database.define("placed", f"SELECT {clean}, {places} FROM ({place})")
    schema = {
        name: replace(
            _COLUMNS.get(dtype, Column("other")),
            nullable=missing.get(name),
            order=ordered.get(name) if dtype == "VARCHAR" else None,
            zoned=columns[name] == _ZONED,
        )
        for name, dtype, *_ in database.run('DESCRIBE "rows"')
    }
    placed = None if place is None else "placed"
    how = {"placed": placed, "with_nan": "rows with NaN", **where}
    return Rows(database, "rows", Schema(schema), count, native, held, **how)


def _clean(name: str, dtype: str) -> str:
    """A column as questions see it: NaN is null, names and categories are text, wide numbers are floats,
    and times with a zone are in UTC."""
    column = PLAIN.quoted(name)
    if dtype in _FLOATS:
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
    if dtype.startswith(("ENUM", "UUID", "JSON")):
        return f"CAST({column} AS VARCHAR) AS {column}"
    if dtype.startswith(("DECIMAL", "HUGEINT", "UHUGEINT")):
        return f"CAST({column} AS DOUBLE) AS {column}"
    if dtype == _ZONED:
        return f"timezone('UTC', {column}) AS {column}"
    return column


def open_path(path: str, accepted: str) -> Rows:
    """Open a CSV or Parquet file, a glob, or the address of one. ``accepted`` says what else could be
    given."""
    import duckdb

    lower = path.lower()
    if not lower.endswith(_PARQUET + _CSV):
        raise QueryRejected(
            f"Cannot tell what {path!r} is; give {accepted} (ending in {', '.join(_PARQUET + _CSV[:3])})."
        )
    if "://" not in path and not (Path(path).exists() or glob.glob(path, recursive=True)):
        raise QueryRejected(f"There is no file {path!r}; check the path (from {str(Path.cwd())!r}).")
    database = DuckDB()
    parquet = lower.endswith(_PARQUET)
    refusal = None
    _require_few_columns(_columns_in_footer(path) if parquet else _columns_of_csv(path))
    try:
        places = _read_parquet(database, path) if parquet else _read_csv(database, path)
        ((count,),) = database.run('SELECT count(*) FROM "source"')
    except duckdb.Error as error:
        refusal = _unreadable_file(path, error, parquet=parquet)
    if refusal is not None:
        raise refusal
    names = [name for name, *_ in database.run('DESCRIBE "source"')]
    _require_few_columns(len(names))
    reject_columns(names)
    if count == 0:
        raise QueryRejected(f"The table {path!r} has no rows; give at least one.")
    # DuckDB would read such a column in place of its own column of that name.
    hidden = {"file_row_number", "file_index", "rowid"} & {name.lower() for name in names}
    rows = rows_of_source(
        database,
        FILE,
        count,
        place=None if hidden else places,
        watch=FileWatch(path) if parquet and "://" not in path else None,
        where=f"the files of {shown(path)!r}",
    )
    rows.stays = not rows.is_small
    return rows


def _require_few_columns(columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise QueryRejected(
            f"The table has {columns:,} columns and at most {_MOST_COLUMNS:,} are read; keep those that "
            "questions are about."
        )


def _columns_in_footer(path: str) -> int:
    """How many columns a Parquet file states; 1 if this is unknown before reading."""
    if "://" in path or not Path(path).is_file():
        return 1
    from pyarrow import ArrowException, parquet

    try:
        return int(parquet.read_metadata(path).num_columns)
    except (ArrowException, OSError):
        return 1  # DuckDB reports what is wrong with the file.


def _columns_of_csv(path: str) -> int:
    """How many columns the first line of a CSV file has at most; 1 if this is unknown before reading."""
    if "://" in path or path.lower().endswith((".gz", ".zst")) or not Path(path).is_file():
        return 1
    with Path(path).open("rb") as file:
        first = file.readline(_LONGEST_HEADER)
    return 1 + max(first.count(separator) for separator in (b",", b";", b"\t", b"|"))


def _unreadable_file(path: str, error: Exception, *, parquet: bool) -> QueryRejected:
    """Why a file cannot be read, by kind. DuckDB's own words may quote a line of the file. So they are shown
    only if no row was read: the file cannot be reached, or is not a Parquet file."""
    import duckdb

    if not parquet and (other := _in_another_encoding(path)) is not None:
        return QueryRejected(
            f"Cannot read {other!r}: it is not in UTF-8. Save it in UTF-8, or read it with its encoding "
            f"and give the table: pandas.read_csv({other!r}, encoding=...)."
        )
    named = shown(path) if "://" in path else path
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryRejected(
            f"Cannot read {named!r}: it needs more than {_SHARE_OF_MEMORY} of this machine's memory. Save it "
            "as Parquet, which is read from disk for every question."
        )
    if parquet or isinstance(error, (duckdb.IOException, duckdb.HTTPException, duckdb.PermissionException)):
        return QueryRejected(f"Cannot read {named!r}: {without_secrets(error, path)}")
    return QueryRejected(
        f"Cannot read {named!r} as CSV: its lines do not have the same columns, or a quoted text does not "
        "end. The line is not shown, because it may be protected. Read the file with a CSV reader of your "
        "own to find it."
    )


def _in_another_encoding(path: str) -> str | None:
    """The first file on this machine that is not in UTF-8. Compressed files and files elsewhere are not
    checked."""
    if "://" in path or path.lower().endswith((".gz", ".zst")):
        return None
    for name in [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True)):
        try:
            with Path(name).open(encoding="utf-8", newline="") as file:
                while file.read(1 << 20):
                    pass
        except UnicodeDecodeError:
            return name
    return None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _read_csv(database: DuckDB, path: str) -> str:
    # A compressed file of megabytes can have terabytes of lines. They must not be written to disk either.
    database.run(f"SET memory_limit = '{_SHARE_OF_MEMORY}'")
    database.run("SET temp_directory = ''")
    database.run(f'CREATE TABLE "source" AS SELECT * FROM read_csv({_text(path)}, {_CSV_OPTIONS})')
    database.forbid_external_access()
    row, file = map(PLAIN.quoted, FILE_PLACE)
    return f'SELECT *, rowid AS {row}, 0 AS {file} FROM "source"'


def _read_parquet(database: DuckDB, path: str) -> str:
    # DuckDB uses the least and greatest value in a Parquet footer as proof that there is no NaN. Writers
    # leave NaN out of these values, so isnan(x) would be false for every row.
    database.run("SET disabled_optimizers = 'statistics_propagation'")
    files = [_text(name) for (name,) in database.run(f"SELECT file FROM glob({_text(path)})")]
    listed = f"[{', '.join(files)}]" if files and "://" not in path else _text(path)
    database.run(f'CREATE VIEW "source" AS SELECT * FROM read_parquet({listed})')
    if listed.startswith("["):
        # From now on only these files can be read.
        database.run(f"SET allowed_paths = {listed}")
        database.forbid_external_access()
    row, file = map(PLAIN.quoted, FILE_PLACE)
    return f"SELECT *, file_row_number AS {row}, file_index AS {file} FROM read_parquet({listed})"


class FileWatch:
    """The files that a path or glob names, with their lengths and the times of their last change."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._first_look = self._look()

    def _look(self) -> list[tuple[str, int, int]]:
        names = sorted(glob.glob(self._path, recursive=True)) or [self._path]
        facts = [(name, os.stat(name)) for name in names if os.path.exists(name)]
        return [(name, fact.st_size, fact.st_mtime_ns) for name, fact in facts]

    def change(self) -> str | None:
        return (
            None if self._look() == self._first_look else f"the files of {self._path!r} are others, or newer"
        )


@by_kind_only
def open_rows(data: TableLike, *, public_categories: bool | Collection[str] = False) -> Rows:
    """Open a table and return its rows.

    ``data`` is a pandas, polars or pyarrow table (a polars LazyFrame is collected), or a dict of arrays. It
    can also be a CSV or Parquet path (or glob, or address), an ibis table, or the address of a table of a
    database, ``"postgres://ann@db.example/town#trips"``.

    >>> open_rows({"age": [31, 52, 47], "sex": ["F", "M", "F"]})
    Rows(3 rows, Schema(age: number, sex: text))

    An empty table, a table without columns and anything that is not a table raise
    :class:`~holdfast.errors.QueryRejected`. NaN counts as null from here on. The index of a pandas frame is
    not a column, but ``native()`` keeps it. A CSV file is read once. A Parquet file is read again for every
    question until the rows are split or stored. Tables of a database always stay there: every question is one
    statement to the database. Operations whose results differ from DuckDB's in any bit are detected here, on
    constants. A question that needs such an operation is refused.

    ``public_categories`` names the columns whose declared categories may be shown. If these are ordered, they
    are also compared in their order. True names all columns that declare categories. An error names the
    column and the kind of problem; it quotes no value.
    """
    if isinstance(data, (str, Path)):
        text = os.path.expanduser(data)
        return open_url(text) if is_database(text) else open_path(text, _ACCEPTED)
    data = collected(data)
    source = source_of(data)
    if source is None:
        raise QueryRejected(
            f"Cannot open {type(data).__module__}.{type(data).__name__} as a table; give {_ACCEPTED}."
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
    except Exception as error:  # No row was read yet, so the text of the database may be shown.
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
    # Our own connection is closed with the rows.
    weakref.finalize(rows._database, backend.disconnect)
    return rows


def _table(backend: Any, name: str) -> Any:
    schema, dot, last = name.rpartition(".")
    return backend.table(last, database=schema) if dot else backend.table(name)
