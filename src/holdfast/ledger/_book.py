"""One table of events that can only grow."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.records import Record

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT;
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the account book is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the account book is append-only'); END;
"""


class BookError(HoldfastError):
    """The account book cannot be trusted or cannot be opened; nothing is answered until that is settled."""


class Stale(HoldfastError):
    """Someone else wrote to the book meanwhile: read the new events and try again."""


@dataclass(frozen=True, repr=False)
class Event(Record):
    """One line of the book; ``digest`` chains it to all lines before it."""

    sequence: int
    kind: str
    body: dict[str, Any]
    digest: str


def _digest(previous: str, sequence: int, kind: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{sequence}\n{kind}\n{body}".encode()).hexdigest()


class Book:
    """An append-only book in a SQLite file, or in memory when no path is given.

    Every append is one transaction that is on disk when it returns (write-ahead log, ``synchronous=FULL``).
    The database itself refuses UPDATE and DELETE, and every line carries the digest of all lines before it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._lock = RLock()
        try:
            self._connection = sqlite3.connect(
                ":memory:" if self.path is None else str(self.path),
                isolation_level=None,
                check_same_thread=False,
                timeout=30,
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise BookError(f"The account book {self.path} cannot be opened: {error}.") from None

    def append(self, kind: str, body: dict[str, Any], *, after: int) -> Event:
        """Write one event, if the book still ends at sequence ``after``; otherwise raise :class:`Stale`."""
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        with self._transaction() as connection:
            last, digest = self._head(connection)
            if last != after:
                raise Stale(f"The book ends at {last}, not at {after}.")
            event = Event(last + 1, kind, body, _digest(digest, last + 1, kind, text))
            connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?)", (event.sequence, kind, text, event.digest)
            )
        return event

    def events(self, after: int = 0) -> list[Event]:
        """All events beyond sequence ``after``, each checked against the chain."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT sequence, kind, body, digest FROM events WHERE sequence >= ? ORDER BY sequence",
                (after,),
            ).fetchall()
        previous = ""
        if after:
            if not rows or rows[0][0] != after:
                raise BookError(f"The account book {self.path} has lost line {after}.")
            previous = rows.pop(0)[3]
        found = []
        for expected, (sequence, kind, body, digest) in enumerate(rows, start=after + 1):
            if sequence != expected or digest != _digest(previous, sequence, kind, body):
                raise BookError(f"The account book {self.path} was changed at line {expected}.")
            found.append(Event(sequence, kind, json.loads(body), digest))
            previous = digest
        return found

    def close(self) -> None:
        """Close the file; a closed book cannot be written to."""
        with self._lock:
            self._connection.close()

    @staticmethod
    def _head(connection: sqlite3.Connection) -> tuple[int, str]:
        row = connection.execute(
            "SELECT sequence, digest FROM events ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        return (0, "") if row is None else (int(row[0]), str(row[1]))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise BookError(f"The account book {self.path} cannot be written: {error}.") from None
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")
