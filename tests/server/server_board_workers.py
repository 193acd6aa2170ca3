"""A service with a blind board, in a process that ends between any two writes, for tests that kill it."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast.ledger import Book
from holdfast.registry import Person
from holdfast.server import Service

# Started from a process that has everything imported, so that a test can afford many of them.
people = multiprocessing.get_context("forkserver")
people.set_forkserver_preload(["holdfast.registry._service", "holdfast.engines", "ibis", "duckdb", "pandas"])

ROWS, SUBMISSIONS = 600, 3
LABELS = pd.DataFrame({"id": np.arange(ROWS), "y": np.random.default_rng(1).integers(0, 2, ROWS)})


class _Counted:
    """A database that ends the process before its n-th change."""

    def __init__(self, database: Any, allow: Any) -> None:
        self._database, self._allow = database, allow

    def execute(self, statement: str, *arguments: Any) -> Any:
        if not statement.startswith("SELECT"):
            self._allow()
        return self._database.execute(statement, *arguments)


def house(home: Path) -> None:
    """A blind board with some submissions."""
    service = Service(home)
    LABELS.to_csv(service.sources / "y.csv", index=False)
    service.boards.register("dark", "y.csv", {"target": "y", "start": 0.5}, blind=True)
    y = LABELS["y"]
    for place in range(SUBMISSIONS):
        wrong = np.random.default_rng(place).random(ROWS) >= 0.6 + place / 10
        sent = pd.DataFrame({"id": LABELS["id"], "prediction": np.where(wrong, 1 - y, y)})
        person = Person(
            identity=str(place), name=f"p{place}", role="analyst", team="", dataset="*", expires=0
        )
        service.boards.submit("dark", person, sent)
    service.close()


def unblind_until(home: Path, writes: int) -> None:
    """End the blind phase, and die once so many things are on disk."""
    service, left = Service(home), writes
    service.boards.get("dark")

    def allow() -> None:
        nonlocal left
        if left == 0:
            os._exit(9)
        left -= 1

    append = Book.append_all

    def counted(book: Book, *arguments: Any, **options: Any) -> Any:
        allow()
        return append(book, *arguments, **options)

    Book.append_all = counted  # type: ignore[method-assign]
    service.boards._database = _Counted(service.boards._database, allow)  # type: ignore[assignment]
    service.boards.unblind("dark")
    os._exit(0)
