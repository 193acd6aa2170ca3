"""The datasets of one service: where their rows are, what was agreed, and their one account each."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from holdfast.engines import open_rows
from holdfast.errors import InvalidArgument
from holdfast.guard import Answer, Asker, Guard, Preview
from holdfast.ledger import Balance, Book
from holdfast.server._places import Places, Unknown, require_name
from holdfast.server._policy import Policy
from holdfast.server._rate import require_rate
from holdfast.server._tokens import Person

_SCHEMA = """
CREATE TABLE IF NOT EXISTS datasets (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    policy TEXT NOT NULL
) STRICT;
"""


@dataclass(frozen=True)
class Dataset:
    """One dataset that is open: its policy, its guard and the book the guard writes to."""

    name: str
    policy: Policy
    guard: Guard
    book: Book

    def ask(self, person: Person, question: str, request: str = "") -> Answer:
        """Answer a question for a person, within their share and their rate; what was answered before is
        free of both."""

        def permit(balance: Balance, price: int) -> None:
            self.policy.require_share(person, balance, price)
            require_rate(self.policy.rate, person.account, balance)

        return self.guard.ask(question, asker=Asker(person.account, request, permit))

    def preview(self, question: str) -> Preview:
        """What the question would cost. Never opens the protected rows."""
        return self.guard.cost_preview(question)


class Datasets:
    """All datasets of a service, opened when they are first needed."""

    def __init__(self, home: Path, places: Places) -> None:
        self._places = places
        self._lock = RLock()
        self._open: dict[str, Dataset] = {}
        self._database = sqlite3.connect(
            home / "datasets.sqlite", isolation_level=None, check_same_thread=False, timeout=30
        )
        self._database.executescript(_SCHEMA)

    def register(self, name: str, source: str, policy: Policy) -> Dataset:
        """Take in a table: a file among the sources, or a table of a database (an ibis URL). It is opened
        once, so that whatever is wrong with it is said now."""
        require_name(name)
        place = self._places.source(source)
        with self._lock:
            if name in self.names():
                raise InvalidArgument("name", "one that is not taken", name, of="a dataset")
            opened = self._opened(name, place, policy)
            self._database.execute(
                "INSERT INTO datasets VALUES (?, ?, ?)", (name, place, json.dumps(policy.to_dict()))
            )
            self._open[name] = opened
        return opened

    def names(self) -> list[str]:
        """All names, in order."""
        with self._lock:
            return [name for (name,) in self._database.execute("SELECT name FROM datasets ORDER BY name")]

    def get(self, name: str) -> Dataset:
        """The dataset of this name."""
        with self._lock:
            if name not in self._open:
                row = self._database.execute(
                    "SELECT source, policy FROM datasets WHERE name = ?", (name,)
                ).fetchone()
                if row is None:
                    raise Unknown(f"There is no dataset {name!r} that this token reaches.")
                self._open[name] = self._opened(name, row[0], Policy(**json.loads(row[1])))
            return self._open[name]

    def close(self) -> None:
        """Close every book."""
        with self._lock:
            for dataset in self._open.values():
                dataset.guard.close()
            self._database.close()

    def _opened(self, name: str, source: str, policy: Policy) -> Dataset:
        rows: Any = open_rows(source)
        model = None if policy.rows == {"kind": "independent"} else policy.model(rows.count)
        book = self._places.book(name)
        try:
            guard = Guard(
                source,
                confidence=policy.confidence,
                error=policy.error,
                dependence=model,
                strategy=policy.strategy,
                ledger=book,
                queries=policy.queries,
                surprises=policy.surprises,
                training_share=policy.training_share,
                split_seed=policy.split_seed,
                split_by=policy.split_by,
                seconds=policy.seconds,
            )
        except BaseException:
            book.close()
            raise
        return Dataset(name, policy, guard, book)
