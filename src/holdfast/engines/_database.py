"""Databases: one statement at a time, within a limit, and no more than SQL between them and the rows."""

from __future__ import annotations

import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from holdfast.engines import _sums
from holdfast.engines._deadline import Deadline
from holdfast.engines._dialect import Dialect
from holdfast.engines._schema import PLAIN, Schema
from holdfast.engines._sums import Question, Shape
from holdfast.errors import QueryRejected

__all__ = ["Database", "DuckDB"]

_Result = TypeVar("_Result")

_MOST_PREPARED = 1_000


class Database(ABC):
    """Where statements run; those from several threads wait for each other, each already uses every core.

    Another kind needs :meth:`_execute`, :meth:`define` and :meth:`arrow`, and where a statement can be
    stopped, :meth:`_interrupt` and the error that a stopped statement raises.
    """

    elsewhere = False  # whether statements run in another process than this one

    def __init__(self, backend: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._backend = backend
        self._lock = threading.RLock()
        self._prepared: dict[Hashable, tuple[str, str]] = {}
        self._deadline: Deadline | None = None

    @abstractmethod
    def define(self, name: str, query: str) -> None:
        """Let what a query returns be read under a name."""

    @abstractmethod
    def arrow(self, query: str, schema: Schema) -> Any:
        """What a query returns, columns of this schema, as an arrow table."""

    @abstractmethod
    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Run one statement."""

    @property
    @abstractmethod
    def _stopped(self) -> tuple[type[BaseException], ...]:
        """What a statement raises that was stopped."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Stop the statement that runs."""

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return what it says; refused if it takes longer than it may."""
        return self._in_time(lambda: list(self._execute(statement)))

    def _in_time(self, work: Callable[[], _Result]) -> _Result:
        try:
            with self._lock, self._deadline.held() if self._deadline else nullcontext():
                return work()
        except self._stopped:
            raise QueryRejected(
                "The question takes longer than the "
                f"{self._deadline.seconds if self._deadline else 0:g} seconds that one may take; ask for "
                "less at a time."
            ) from None

    def limit(self, seconds: float | None) -> None:
        """How long a statement may take from here on; None: as long as it needs."""
        self._deadline = (
            None if seconds is None else Deadline(seconds, self._interrupt, elsewhere=self.elsewhere)
        )

    def compile(self, expression: Any) -> str:
        """An ibis expression as SQL."""
        return str(self._backend.compile(expression))

    def aggregate(self, shape: Shape, question: Question, values: str) -> tuple[Any, ...]:
        """Run a question's sums as one statement around ``values``, its own expressions.

        The statement around them is compiled once for each of the few shapes there are, which halves what a
        question costs besides its rows.
        """
        around = self.prepared(shape, lambda: _sums.aggregate(shape, self.dialect))
        before, after = (_sums.fill(part, question) for part in around)
        (row,) = self.run(f"{before}({values}){after}")
        return row

    def prepared(self, key: Hashable, make: Callable[[], Any]) -> tuple[str, str]:
        """What stands before and after the values in the statement that ``make`` makes, compiled once."""
        around = self._prepared.get(key)
        if around is None:
            before, after = re.split(rf"[\"`]{_sums.VALUES}[\"`]", self.compile(make()))
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            around = self._prepared[key] = before, after
        return around


# What our own databases have compiled: they all speak the same SQL, so a new one need not compile it again.
_PREPARED: dict[Hashable, tuple[str, str]] = {}

# Those that make a statement compute less for each row; the others weigh ways to read.
_OPTIMIZERS_FOR_FEW = ("expression_rewriter", "common_subexpressions", "unused_columns", "column_lifetime")

# The database behind ``DuckDB.shared``, by process: a forked process lacks the threads of its parent's.
_SHARED: dict[int, Any] = {}


def _connection_to_shared() -> Any:
    """A new connection to the shared database of this process, which is made anew when it no longer works."""
    import duckdb

    if (database := _SHARED.get(os.getpid())) is not None:
        try:
            connection = database.cursor()
            connection.execute("SELECT 1").fetchall()
            return connection
        except duckdb.Error:
            pass
    settings = {"enable_external_access": False, "python_enable_replacements": False}
    database = _SHARED[os.getpid()] = duckdb.connect(config=settings)
    return database.cursor()


class DuckDB(Database):
    """A DuckDB database of our own, in memory, or what one connection to a shared one sees."""

    def __init__(self, connection: Any | None = None) -> None:
        import ibis

        backend = ibis.duckdb.connect() if connection is None else ibis.duckdb.from_connection(connection)
        super().__init__(backend, PLAIN)
        self._prepared = _PREPARED

    @classmethod
    def shared(cls) -> DuckDB:
        """A new connection to one DuckDB for the whole process, which can reach no file and no network.

        A new database takes thirty times as long. Lent tables and defined queries belong to one connection,
        and no other can read them. Use it for rows that are read once and then stored elsewhere: an internal
        error of DuckDB ends every connection to the same database.
        """
        return cls(_connection_to_shared())

    def _execute(self, statement: str) -> Sequence[tuple[Any, ...]]:
        # Fetched without ibis, whose conversion to pandas takes longer than a small question.
        return self._backend.con.execute(statement).fetchall()  # type: ignore[no-any-return]

    @property
    def _stopped(self) -> tuple[type[BaseException], ...]:
        import duckdb

        return (duckdb.InterruptException,)

    def _interrupt(self) -> None:
        self._backend.con.interrupt()

    def define(self, name: str, query: str) -> None:
        self.run(f"CREATE OR REPLACE TEMP VIEW {self.dialect.quoted(name)} AS {query}")

    def expect_few_rows(self) -> None:
        """Wake no other thread and plan no more than is needed: for few rows both take longer than reading
        them."""
        known = (name for (name,) in self.run("SELECT name FROM duckdb_optimizers()"))
        spared = ",".join(name for name in known if name not in _OPTIMIZERS_FOR_FEW)
        self.run("SET threads = 1")
        self.run(f"SET disabled_optimizers = '{spared}'")

    def close_the_doors(self) -> None:
        """No statement from here on can reach a file or the network, whatever it says."""
        self.run("SET enable_external_access = false")

    def lend(self, name: str, table: Any) -> None:
        """Let an arrow table be read under a name, where it is."""
        with self._lock:
            self._backend.con.register(name, table)

    def take_back(self, name: str) -> None:
        with self._lock:
            self._backend.con.unregister(name)

    def arrow(self, query: str, schema: Schema | None = None) -> Any:
        return self._in_time(lambda: self._backend.con.sql(query).to_arrow_table())
