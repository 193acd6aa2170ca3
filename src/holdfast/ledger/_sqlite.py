"""Lines in one SQLite file: a write-ahead log that is on disk before an append returns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import RLock

from holdfast.ledger._event import BookError, Line, Stale

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    request TEXT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS by_subject ON events (subject, kind) WHERE subject <> '';
CREATE INDEX IF NOT EXISTS by_request ON events (request) WHERE request <> '';
CREATE INDEX IF NOT EXISTS checkpoints ON events (sequence) WHERE kind = 'checkpoint';
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the account book is append-only'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the account book is append-only'); END;
"""
_COLUMNS = "sequence, kind, subject, request, body, digest"


class SqliteLines:
    """The lines of one book in a SQLite file, or in memory when no path is given."""

    def __init__(self, path: Path | None) -> None:
        self.name = "in memory" if path is None else str(path)
        self._lock = RLock()
        try:
            self._connection = sqlite3.connect(
                ":memory:" if path is None else str(path),
                isolation_level=None,
                check_same_thread=False,
                timeout=30,
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise BookError(f"The account book {self.name} cannot be opened: {error}.") from None

    def append(self, after: int, make: Callable[[str], Line]) -> Line:
        """Write ``make(digest of the last line)`` if the book ends at ``after``, else raise Stale."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise BookError(f"The account book {self.name} cannot be written: {error}.") from None
            try:
                last = self._first("ORDER BY sequence DESC LIMIT 1")
                if (last.sequence if last else 0) != after:
                    raise Stale(f"The book ends at {last.sequence if last else 0}, not at {after}.")
                line = make(last.digest if last else "")
                self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", line)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
        return line

    def page(self, first: int, limit: int) -> list[Line]:
        """At most ``limit`` lines from sequence ``first`` on, in order."""
        return self._select("WHERE sequence >= ? ORDER BY sequence LIMIT ?", first, limit)

    def about(self, subject: str, kind: str) -> Line | None:
        """The last line of a kind about a subject."""
        return self._first(
            "WHERE subject = ? AND subject <> '' AND kind = ? ORDER BY sequence DESC LIMIT 1", subject, kind
        )

    def requested(self, request: str) -> Line | None:
        """The first line that a request led to."""
        return self._first("WHERE request = ? AND request <> '' ORDER BY sequence LIMIT 1", request)

    def checkpoint(self, before: int) -> Line | None:
        """The last checkpoint ahead of sequence ``before``."""
        return self._first(
            "WHERE kind = 'checkpoint' AND sequence < ? ORDER BY sequence DESC LIMIT 1", before
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _first(self, condition: str, *values: object) -> Line | None:
        found = self._select(condition, *values)
        return found[0] if found else None

    def _select(self, condition: str, *values: object) -> list[Line]:
        with self._lock:
            try:
                rows = self._connection.execute(f"SELECT {_COLUMNS} FROM events {condition}", values)
                return [Line(*row) for row in rows]
            except sqlite3.Error as error:
                raise BookError(f"The account book {self.name} cannot be read: {error}.") from None
