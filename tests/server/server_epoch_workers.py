"""An owner's service in a process of its own that ends between any two writes, for tests that kill it."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.ledger import Book
from holdfast.server import Arrived, Service

# Started from a process that has everything imported, so that a test can afford many of them.
people = multiprocessing.get_context("forkserver")
people.set_forkserver_preload(["holdfast.registry", "holdfast.engines", "ibis", "duckdb", "pandas"])


def before_each_change_of_epochs(noted: Callable[[str], None]) -> Callable[..., sqlite3.Connection]:
    """A ``sqlite3.connect`` whose connections say it before they change the list of epochs."""
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement.startswith("INSERT INTO [epochs]"):
                noted(statement)
            return super().execute(statement, *values)

    return lambda *places, **options: connect(*places, **options, factory=Connection)


def open_until(home: Path, source: str, writes: int) -> None:
    """Open the next epoch of "t", and die once so many things are on disk: changes of the list of epochs, and
    lines of books."""
    left = None  # Nothing is counted while the service starts.

    def count() -> None:
        nonlocal left
        if left == 0:
            os._exit(9)
        left = None if left is None else left - 1

    append_all = Book.append_all

    def counted(*arguments: Any, **options: Any) -> Any:
        count()
        return append_all(*arguments, **options)

    Book.append_all = counted  # type: ignore[method-assign]
    sqlite3.connect = before_each_change_of_epochs(lambda statement: count())
    service = Service(home)
    service.datasets.get("t")
    left = writes
    service.datasets.next_epoch("t", Arrived(source), "the request")
    os._exit(9 if left == 0 else 0)
