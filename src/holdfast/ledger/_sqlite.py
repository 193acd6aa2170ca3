"""Lines in one SQLite file: a write-ahead log that is on disk before an append returns."""

from __future__ import annotations

import os
import secrets
import sqlite3
import weakref
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import RLock

from holdfast.ledger._lines import BookError, Line, closed_book

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
_KEPT = "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT"
_HAS_KEPT = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kept'"
_COLUMNS = "sequence, kind, subject, request, body, digest"
_ROW = "(?, ?, ?, ?, ?, ?)"
_LAST = "(SELECT digest FROM events ORDER BY sequence DESC LIMIT 1)"


def open_database(owner: object, path: Path | str) -> sqlite3.Connection:
    """Open a SQLite file with a write-ahead log. It is closed when its ``owner`` is no longer in use, because
    people drop a guard without closing it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    # Not at exit, where a thread may still be writing.
    weakref.finalize(owner, connection.close).atexit = False
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


class SqliteLines:
    """The lines of one book in a SQLite file, or in memory when no path is given."""

    def __init__(self, path: Path | None) -> None:
        self.name = "in memory" if path is None else str(path)
        self._lock = RLock()
        self._kept, self._closed = path is not None, False
        if path is not None:
            _make_private(path)
        try:
            self._connection = open_database(self, ":memory:" if path is None else str(path))
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise BookError(f"The account book {self.name} cannot be opened: {error}.") from None

    def append(self, previous: str, lines: Sequence[Line]) -> bool:
        """Write the lines if the last one has the digest ``previous`` ("": if there is none); False if it has
        not.

        One statement is one transaction: it takes the lock for writing before it looks, and it is on disk
        when it returns.
        """
        rows = ", ".join([_ROW] * len(lines))
        with self._lock:
            try:
                done = self._connection.execute(
                    f"INSERT INTO events SELECT * FROM (VALUES {rows}) WHERE {_LAST} IS ?",
                    [*chain.from_iterable(lines), previous or None],
                )
            except sqlite3.Error as error:
                raise self._failed("written", error) from None
        return done.rowcount == len(lines)

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

    def secret(self) -> str:
        """The secret of the book: made once, beside the lines."""
        with self._lock:
            try:
                self._connection.execute("CREATE TABLE IF NOT EXISTS secret (value TEXT NOT NULL) STRICT")
                while (row := self._connection.execute("SELECT value FROM secret").fetchone()) is None:
                    self._connection.execute(
                        "INSERT INTO secret SELECT ? WHERE NOT EXISTS (SELECT * FROM secret)",
                        [secrets.token_hex(32)],
                    )
            except sqlite3.Error as error:
                raise self._failed("written", error) from None
        return str(row[0])

    def keep(self, name: str, content: bytes) -> None:
        """Keep bytes in a table beside the lines."""
        with self._lock:
            try:
                self._connection.execute(_KEPT)
                self._connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, content))
            except sqlite3.Error as error:
                raise self._failed("written", error) from None

    def kept(self, name: str) -> bytes | None:
        """The bytes that are kept under a name."""
        with self._lock:
            try:
                if not self._connection.execute(_HAS_KEPT).fetchone():
                    return None
                row = self._connection.execute("SELECT content FROM kept WHERE name = ?", (name,)).fetchone()
            except sqlite3.Error as error:
                raise self._failed("read", error) from None
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def _first(self, condition: str, *values: object) -> Line | None:
        lines = self._select(condition, *values)
        return lines[0] if lines else None

    def _select(self, condition: str, *values: object) -> list[Line]:
        with self._lock:
            try:
                rows = self._connection.execute(f"SELECT {_COLUMNS} FROM events {condition}", values)
                return [Line(*row) for row in rows]
            except sqlite3.Error as error:
                raise self._failed("read", error) from None

    def _failed(self, done: str, error: sqlite3.Error) -> BookError:
        if self._closed:
            return closed_book(self.name, kept=self._kept)
        return BookError(f"The account book {self.name} cannot be {done}: {error}.")


def _make_private(path: Path) -> None:
    """Create the file of a new book so that only its owner can read it: it holds the book's secret."""
    with suppress(OSError):  # Opening the book reports what is wrong with the place.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
