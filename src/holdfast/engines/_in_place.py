"""Databases of other people: rows are read where they are, and nothing is created there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.engines._capabilities import probe
from holdfast.engines._database import Database, Statement, as_query
from holdfast.engines._dialect import Dialect, Portable, is_zoned
from holdfast.engines._native import IBIS
from holdfast.engines._other_dialects import Postgres, Spark
from holdfast.engines._rows import Rows
from holdfast.engines._schema import Column, Schema, kind_of_storage
from holdfast.errors import DatabaseAway, QueryRejected

__all__ = ["Borrowed", "TableWatch", "backend_of", "open_table"]


# A table is counted again if the last count is older than this many seconds, because counting takes about as
# long as a question.
_COUNT_AGAIN = 60.0
# What each connection lacks. It is checked once, because the server of a connection does not change.
_LACKING: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()


def backend_of(table: Any) -> Any | None:
    """The connection that an ibis table belongs to; None for one that is in memory."""
    backends, _ = table._find_backends()
    return backends[0] if backends else None


def open_table(table: Any, backend: Any, *, hidden: Collection[str] = ()) -> Rows:
    """The rows of an ibis table, read where they are by one statement a question; ``hidden`` columns cannot
    be asked about."""
    database = _KINDS.get(backend.name, Borrowed)(backend)
    dialect = database.dialect
    if not isinstance(database, BorrowedDuckDB):
        if backend not in _LACKING:
            _LACKING[backend] = probe(database)
        dialect.lacking |= _LACKING[backend]
    columns, clean, with_nan = {}, [], []
    for name, dtype in database.types(table).items():
        if name not in hidden:
            sql, storage = dialect.clean(name, dtype)
            clean.append(f"{sql} AS {dialect.quoted(name)}")
            with_nan.append(dialect.quoted(name) if dtype.is_floating() else clean[-1])
            nullable = None if dtype.nullable else False
            columns[name] = Column(
                kind_of_storage(storage), storage, nullable, zoned=bool(storage) and is_zoned(dtype)
            )
    name = f"rows {secrets.token_hex(8)}"
    raw, source = f"{name} with NaN", f"({database.compile(table)}) AS cleaned"
    database.define(name, f"SELECT {', '.join(clean)} FROM {source}")
    database.define(raw, f"SELECT {', '.join(with_nan)} FROM {source}")

    def count() -> int:
        ((rows,),) = database.run(f"SELECT count(*) FROM {database.source(name)} AS counted")
        return int(rows)

    rows = count()
    if rows == 0:
        raise QueryRejected("The table has no rows; give at least one.")
    watch, where = TableWatch(count, rows, database.reach), f"{_named(table)} of {dialect.engine}"
    schema = Schema(columns, dialect)
    return Rows(database, name, schema, rows, IBIS, table, watch=watch, with_nan=raw, where=where, stays=True)


def _named(table: Any) -> str:
    """An ibis table in words."""
    node = table.op()
    schema = getattr(getattr(node, "namespace", None), "database", None)
    name = getattr(node, "name", None)
    if not isinstance(name, str):
        return "a query"
    return f"the table {schema}.{name}" if schema else f"the table {name}"


class Borrowed(Database):
    """Any SQL database that ibis supports. Definitions are kept here, not in the database, and are put into
    every statement as queries in parentheses."""

    elsewhere = True

    kind: type[Dialect] = Portable

    def __init__(self, backend: Any) -> None:
        super().__init__(self.kind())
        self._backend = backend
        if type(self) is Borrowed:
            self.dialect.engine = backend.name
        self._defined: dict[str, str] = {}

    def reach(self) -> bool:
        """Whether the connection is still the same as the last time. Reads no rows. Raises
        :class:`~holdfast.errors.DatabaseAway` if the database does not answer."""
        return True

    def tree(self, expression: Any) -> Any:
        """The tree with the query of each defined name in its place."""
        from sqlglot import exp

        tree = self._backend.compiler.to_sqlglot(expression)
        for table in list(tree.find_all(exp.Table)):
            if table.name in self._defined:
                as_query(table, self._defined[table.name])
        return tree

    @property
    def _writes(self) -> Any:
        return self._backend.dialect

    def types(self, table: Any) -> dict[str, Any]:
        """The ibis type of each column of a table."""
        return dict(table.schema().items())

    def define(self, name: str, query: str) -> None:
        self._defined[name] = query

    def source(self, name: str) -> str:
        return f"({self._defined[name]})"

    def ask(self, statement: Statement, numbers: Mapping[str, float]) -> list[tuple[Any, ...]]:
        return self.run(statement.with_numbers(numbers))

    def arrow(self, query: str, schema: Schema) -> Any:
        import pyarrow as pa

        columns = list(zip(*self.run(query), strict=True)) or [()] * len(schema)
        types = schema.to_ibis().to_pyarrow()
        arrays = {
            name: pa.array(values, types.field(name).type)
            if schema[name].kind != "other"
            else pa.array([None if value is None else str(value) for value in values], pa.string())
            for name, values in zip(schema, columns, strict=True)
        }
        return pa.table(arrays)

    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        cursor = self._backend.raw_sql(statement)
        try:
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            getattr(cursor, "close", lambda: None)()

    @property
    def _stopped(self) -> tuple[type[BaseException], ...]:
        return ()

    def _interrupt(self) -> None:
        """Do nothing: not every database has a known way to stop a statement, so :meth:`limit` promises
        none."""

    def limit(self, seconds: float | None) -> None:
        if seconds is not None and type(self)._interrupt is Borrowed._interrupt:
            raise QueryRejected(
                f"A statement on {self.dialect.engine} cannot be stopped from here; leave seconds= out and "
                "set a limit in the database."
            )
        super().limit(seconds)


class BorrowedDuckDB(Borrowed):
    """A DuckDB connection of the user's own."""

    kind = Dialect
    elsewhere = False

    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        with _without_statistics(self._backend.con):
            return self._backend.con.execute(statement).fetchall()  # type: ignore[no-any-return]

    @property
    def _stopped(self) -> tuple[type[BaseException], ...]:
        import duckdb

        return (duckdb.InterruptException,)

    def _interrupt(self) -> None:
        self._backend.con.interrupt()


class BorrowedPostgres(Borrowed):
    kind = Postgres

    def tree(self, expression: Any) -> Any:
        assert isinstance(self.dialect, Postgres)
        tree = super().tree(expression)
        self.dialect.fence(tree)
        return tree

    def reach(self) -> bool:
        """Send an empty statement, over a new connection if the old one is lost."""
        import psycopg

        with self._lock:
            try:
                self._execute("SELECT 1")
                return True
            except psycopg.Error:
                pass
            try:
                self._backend.con.close()
                self._backend.reconnect()
            except Exception:  # Connecting reads no rows, but its error text may contain a password.
                raise DatabaseAway(
                    f"The database of the table ({self.dialect.engine}) does not answer. No row was read and "
                    "nothing was charged. Ask again in a moment."
                ) from None
            return False

    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        connection = self._backend.con
        idle = connection.info.transaction_status.name == "IDLE"
        try:
            with connection.cursor() as cursor:
                # Without parameters, a percent sign stands for itself.
                return cursor.execute(statement).fetchall()  # type: ignore[no-any-return]
        finally:
            if idle and connection.info.transaction_status.name != "IDLE":
                connection.rollback()

    @property
    def _stopped(self) -> tuple[type[BaseException], ...]:
        import psycopg

        return (psycopg.errors.QueryCanceled,)

    def _interrupt(self) -> None:
        self._backend.con.cancel()


class _Cancelled(Exception):
    """A Spark job was cancelled. Spark reports this only in the text of an error."""


class BorrowedSpark(Borrowed):
    kind = Spark

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self._group = f"holdfast {secrets.token_hex(8)}"

    def types(self, table: Any) -> dict[str, Any]:
        """The types with the zone of Spark's plain timestamps, which ibis leaves out."""
        import ibis

        fields = self._backend._session.sql(self.compile(table)).schema.fields
        zoned = {field.name for field in fields if field.dataType.typeName() == "timestamp"}
        return {
            name: ibis.dtype("timestamp('UTC')").copy(nullable=dtype.nullable) if name in zoned else dtype
            for name, dtype in super().types(table).items()
        }

    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        session = self._backend._session
        try:
            with _one_job(session):
                return [tuple(row) for row in session.sql(statement).collect()]
        except Exception as error:
            if self._deadline is not None and "cancelled" in str(error):
                raise _Cancelled from None
            raise

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        if self._deadline is None:
            return super().run(statement)
        context = self._backend._session.sparkContext
        context.setJobGroup(self._group, "a question", interruptOnCancel=True)
        try:
            return super().run(statement)
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)

    @property
    def _stopped(self) -> tuple[type[BaseException], ...]:
        return (_Cancelled,)

    def _interrupt(self) -> None:
        self._backend._session.sparkContext.cancelJobGroup(self._group)


@contextmanager
def _without_statistics(connection: Any) -> Iterator[None]:
    """Stop DuckDB from using the least and greatest value in a Parquet file as proof that no value is NaN.
    Writers leave NaN out of these values."""
    name = "disabled_optimizers"
    ((before,),) = connection.execute(f"SELECT current_setting('{name}')").fetchall()
    connection.execute(f"SET {name} = '{','.join(filter(None, [before, 'statistics_propagation']))}'")
    try:
        yield
    finally:
        connection.execute(f"SET {name} = '{before}'")


@contextmanager
def _one_job(session: Any) -> Iterator[None]:
    """Turn off Spark's adaptive plans: they run every stage as a job of its own, and do not help an
    aggregate."""
    name = "spark.sql.adaptive.enabled"
    before = session.conf.get(name)
    session.conf.set(name, "false")
    try:
        yield
    finally:
        session.conf.set(name, before)


_KINDS: dict[str, type[Borrowed]] = {
    "duckdb": BorrowedDuckDB,
    "postgres": BorrowedPostgres,
    "pyspark": BorrowedSpark,
}


class TableWatch:
    """A table of a database: whether the database answers, and its number of rows.

    ``reach`` says whether the connection is still the same. It reads no rows, and raises
    :class:`~holdfast.errors.DatabaseAway` if the database does not answer. It is called before every
    question, so a question is not charged if the database does not answer.
    """

    def __init__(self, count: Callable[[], int], rows: int, reach: Callable[[], bool]) -> None:
        self._count = count
        self._rows = rows
        self._reach = reach
        self._looked = time.monotonic()

    def change(self) -> str | None:
        same_connection = self._reach()
        if same_connection and time.monotonic() - self._looked < _COUNT_AGAIN:
            return None
        rows = self._count()
        self._looked = time.monotonic()
        return None if rows == self._rows else f"the table had {self._rows:,} rows and has {rows:,}"
