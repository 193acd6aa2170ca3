"""One DuckDB database in memory, reached through ibis."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Database"]


class Database:
    """A database of its own; questions from several threads wait for each other, each already uses every
    core."""

    def __init__(self) -> None:
        import ibis

        self._backend = ibis.duckdb.connect()
        self._lock = threading.Lock()

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement and return what it says."""
        with self._lock:
            return list(self._backend.con.execute(statement).fetchall())

    def fetch(self, aggregate: Any) -> tuple[Any, ...]:
        """Run an ibis aggregate as one statement and return its only row.

        The rows are fetched without ibis, whose conversion to pandas takes longer than a small question.
        """
        statement = self._backend.compile(aggregate)
        (row,) = self.run(statement)
        return row

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
