"""One DuckDB database in memory, reached through ibis."""

from __future__ import annotations

import re
import threading
from contextlib import nullcontext
from typing import Any

from holdfast.engines import _sums
from holdfast.engines._deadline import Deadline
from holdfast.engines._sums import Question, Shape
from holdfast.errors import QueryRejected

__all__ = ["Database", "quoted"]


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


class Database:
    """A database of its own; questions from several threads wait for each other, each already uses every
    core."""

    def __init__(self) -> None:
        import ibis

        self._backend = ibis.duckdb.connect()
        self._lock = threading.Lock()
        self._prepared: dict[Shape, tuple[str, str]] = {}
        self._deadline: Deadline | None = None

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return what it says; refused if it takes longer than it may."""
        import duckdb

        connection = self._backend.con
        try:
            with self._lock, self._deadline.held() if self._deadline else nullcontext():
                return list(connection.execute(statement).fetchall())
        except duckdb.InterruptException:
            raise QueryRejected(
                "The question takes longer than the "
                f"{self._deadline.seconds if self._deadline else 0:g} seconds that one may take; ask for "
                "less at a time."
            ) from None

    def limit(self, seconds: float | None) -> None:
        """How long a statement may take from here on; None: as long as it needs."""
        self._deadline = None if seconds is None else Deadline(seconds, self._backend.con.interrupt)

    def fetch(self, aggregate: Any) -> tuple[Any, ...]:
        """Run an ibis aggregate as one statement and return its only row.

        The rows are fetched without ibis, whose conversion to pandas takes longer than a small question.
        """
        (row,) = self.run(self.compile(aggregate))
        return row

    def compile(self, expression: Any) -> str:
        """An ibis expression as SQL."""
        return str(self._backend.compile(expression))

    def aggregate(self, shape: Shape, question: Question, values: str) -> tuple[Any, ...]:
        """Run a question's sums as one statement around ``values``, its own expressions.

        The statement around them is compiled once for each of the few shapes there are, which halves what a
        question costs besides its rows.
        """
        before, after = (_sums.fill(part, question) for part in self._around(shape))
        (row,) = self.run(f"{before}({values}){after}")
        return row

    def _around(self, shape: Shape) -> tuple[str, str]:
        if shape not in self._prepared:
            statement = self.compile(_sums.aggregate(shape))
            before, after = re.split(rf"[\"`]{_sums.VALUES}[\"`]", statement)
            self._prepared[shape] = before, after
        return self._prepared[shape]

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

    def arrow(self, query: str) -> Any:
        """What a query returns, as an arrow table."""
        with self._lock:
            return self._backend.con.sql(query).to_arrow_table()
