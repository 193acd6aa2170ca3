"""The lines of a book: the digest that chains each line to all lines before it, what the lines add up to in
whole micro-nats, and the SQLite file that keeps them.

The file has a write-ahead log, which is on disk before an append returns. ``_postgres.py`` keeps the same
lines in a database.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.records import Record

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
# Lines that say something and cost nothing: opening and closing, acts of the owner, and checkpoints.
_FREE = ("open", "close", "act", "checkpoint")
# In an open reservation: the line that says that it is read again.
_AGAIN = "again"
# In an act: the public key of the service that continues the account, and the act by which it continues.
HANDED_OVER, TAKEN_OVER = "handed_over", "taken_over"
# What prices are counted in, by millionths.
UNITS = ("nats", "answers")


class BookError(HoldfastError):
    """The account book cannot be trusted or opened. Nothing is answered until that is repaired."""


class Stale(HoldfastError):
    """Someone else wrote to the book meanwhile: read the new events and try again."""


class Closed(BookError):
    """The account was closed for good. Its answers stay, and nothing new is answered."""


def closed_book(name: str, *, kept: bool = True) -> BookError:
    """The refusal of a book that was closed by its own process, and what to do."""
    if kept:
        advice = "; its lines are kept. To continue, open a guard on the same data with the same ledger."
    else:
        advice = ", and its account is gone. To keep an account after its guard is closed, give ledger=path."
    return BookError(f"The account book {name} was closed here{advice}")


class Entry(NamedTuple):
    """A line to write: what happened, to which question, on whose request."""

    kind: str
    body: dict[str, Any]
    subject: str = ""
    request: str = ""


class Line(NamedTuple):
    """An event exactly as it is stored; ``body`` is canonical JSON."""

    sequence: int
    kind: str
    subject: str
    request: str
    body: str
    digest: str

    def follows(self, previous: str) -> bool:
        """Whether the digest is right after a line with the digest ``previous``."""
        return self.digest == digest_of(previous, *self[:-1])

    def event(self) -> Event:
        """The event this line stands for."""
        return Event(self.sequence, self.kind, json.loads(self.body), self.digest, self.subject, self.request)


@dataclass(frozen=True, repr=False)
class Event(Record):
    """Line ``sequence`` of the book: what happened (``kind``, ``body``), to which question (``subject``), on
    whose ``request``, and the ``digest`` that chains it to all lines before it."""

    sequence: int
    kind: str
    body: dict[str, Any]
    digest: str
    subject: str = ""
    request: str = ""


def canonical(body: dict[str, Any]) -> str:
    """The canonical text of a body: equal bodies give equal bytes."""
    return _CANONICAL.encode(body)


def digest_of(previous: str, sequence: int, kind: str, subject: str, request: str, body: str) -> str:
    """SHA-256 over the previous digest and all parts of a line. No part has a line break, so two different
    lines never give the same text."""
    return hashlib.sha256(
        f"{previous}\n{sequence}\n{kind}\n{subject}\n{request}\n{body}".encode()
    ).hexdigest()


class Balance:
    """The running sum of a book: what was spent, by whom, and what is reserved and not settled yet.

    ``micro_nats`` counts settled questions only. ``reserved`` counts the questions whose outcome is unknown,
    at the highest price they could have. A reservation names the person who asks in ``by``; without a name it
    counts for "". ``recent`` has, for each person, the times of the lines of the last minute in which that
    person asked. Checkpoints do not record it. ``learned`` is what the prior of the account learned, from the
    last line that records it.

    A question that was interrupted may be read *again*, once, under its own reservation. ``interrupted``
    counts such readings.

    The prices of a book are all nats or all answers, in millionths: ``unit`` says which. It is None if all
    lines that were read come from earlier versions, which do not state it.

    An account that was *handed over* is closed in its old book. It is open again once the new service has
    recorded that it continues the account. Until then ``handed_over`` is the public key of that service.

    The reservations of a *batch* follow each other without a gap. Each states the size of the batch, its
    place in it, and the state of the account before the first reservation. All questions of the batch are
    answered from that state.

    Args:
        state: What :meth:`to_dict` returned at a checkpoint; the balance continues from there. Without it,
            nothing was spent.
    """

    window = 60  # seconds

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self.confirmed: int = state.get("confirmed", 0)
        self.surprised: int = state.get("surprised", 0)
        self.micro_nats: int = state.get("micro_nats", 0)
        self.people: dict[str, int] = dict(state.get("people", {}))
        self.open: dict[int, dict[str, Any]] = {
            int(sequence): body for sequence, body in state.get("open", {}).items()
        }
        self.reserved = sum(int(body["micro_nats"]) for body in self.open.values())
        self.unit: str | None = state.get("unit")
        self.closed: bool = state.get("closed", False)
        self.learned: list[list[int]] | None = state.get("learned")
        self.interrupted: int = state.get("interrupted", 0)
        self.handed_over: str | None = state.get(HANDED_OVER)
        self.recent: dict[str, deque[int]] = {}

    def spent_by(self, person: str) -> int:
        """Micro-nats that one ``person`` spent or holds reserved."""
        reserved = sum(int(body["micro_nats"]) for body in self.open.values() if body.get("by", "") == person)
        return self.people.get(person, 0) + reserved

    def apply(self, event: Event) -> None:
        """Add one more line, an ``event``. A line that does not fit what came before is refused."""
        body = event.body
        self._require_batch(event)
        self._require_before(event)
        if self.closed and event.kind == "reserve":  # What was reserved before may still be settled.
            raise BookError(f"The account book continues at line {event.sequence} after it was closed.")
        if event.kind == "reserve":
            if not (isinstance(body.get("micro_nats"), int) and body["micro_nats"] >= 0):
                raise _unfit(event)
            self._require_unit(event, self.unit)
            self.open[event.sequence] = {"subject": event.subject, **body}
            self.reserved += body["micro_nats"]
            self.note(event)
        elif event.kind in ("release", "fail"):
            reserved = self.open.pop(body.get("reservation", -1), {"micro_nats": -1})
            paid = body.get("micro_nats")
            if not (isinstance(paid, int) and 0 <= paid <= reserved["micro_nats"]):
                raise _unfit(event)
            self._require_unit(event, reserved.get("unit"))
            self.reserved -= reserved["micro_nats"]
            person = reserved.get("by", "")
            self.micro_nats += paid
            self.people[person] = self.people.get(person, 0) + paid
            self.surprised += bool(body["surprise"])
            self.confirmed += not body["surprise"]
            self.learned = body.get("learned", self.learned)
        elif event.kind == "again":
            interrupted = self.open.get(body.get("reservation", -1))
            if interrupted is None or _AGAIN in interrupted:
                raise _unfit(event)
            taken_up = {"reader": body["reader"], "at": body["at"], _AGAIN: event.sequence}
            self.open[body["reservation"]] = {**interrupted, **taken_up}
            self.interrupted += 1
        elif event.kind == "return":
            returned = self.open.pop(body.get("reservation", -1), None)
            if returned is None:
                raise _unfit(event)
            self.reserved -= returned["micro_nats"]
        elif event.kind in _FREE:
            self.closed = self.closed or event.kind == "close"
            self._hand_over(event)
            if "at" in body:
                self.note(event)
        else:
            raise BookError(f"The account book has a line {event.sequence} of unknown kind {event.kind!r}.")

    def _require_unit(self, event: Event, before: str | None) -> None:
        """Refuse a price in another unit than those before it."""
        unit = event.body.get("unit", before)
        if unit not in (None, *UNITS) or (before is not None and unit != before):
            raise _unfit(event)
        self.unit = unit if unit is not None else self.unit

    def _hand_over(self, event: Event) -> None:
        """Close an account that was handed to another service, and open it once that service continues it."""
        if event.kind == "act" and HANDED_OVER in event.body:
            if self.closed or self.open:
                raise _unfit(event)
            self.closed, self.handed_over = True, event.body[HANDED_OVER]
        elif event.kind == "act" and TAKEN_OVER in event.body:
            if self.handed_over != event.body[TAKEN_OVER]:
                raise _unfit(event)
            self.closed, self.handed_over = False, None
        elif event.kind == "close":
            self.handed_over = None

    def batch(self, questions: int) -> dict[str, Any]:
        """The entries that the first reservation of a batch of this many ``questions`` has as the next
        line."""
        return {"questions": questions, "place": 0, **self.before}

    @property
    def before(self) -> dict[str, int]:
        """The state of the account for a question whose reservation is the next line."""
        return {
            "steps": self.confirmed + self.surprised + len(self.open),
            "micro_nats": self.micro_nats + self.reserved,
            "confirmed": self.confirmed,
            "surprised": self.surprised,
        }

    def _require_before(self, event: Event) -> None:
        """Refuse a reservation that states another account state than the lines before it give."""
        if event.kind != "reserve":
            return
        before, learned = event.body.get("before", self.before), event.body.get("learned", self.learned)
        if before != self.before or learned != self.learned:
            raise _unfit(event)

    def _require_batch(self, event: Event) -> None:
        """Refuse a batch with a gap, and a batch that states another account state than its first
        reservation."""
        batch = event.body.get("batch") if event.kind == "reserve" else None
        previous = self.open.get(event.sequence - 1, {}).get("batch")
        if previous is not None and previous["place"] + 1 < previous["questions"]:
            fits = batch == {**previous, "place": previous["place"] + 1}
        elif batch is not None:
            questions = batch["questions"]
            fits = isinstance(questions, int) and questions > 0 and batch == self.batch(questions)
        else:
            fits = True
        if not fits:
            raise _unfit(event)

    def note(self, event: Event) -> None:
        """Remember when somebody asked in an ``event``, and forget what was a minute before that."""
        times, at = self.recent.setdefault(event.body.get("by", ""), deque()), event.body.get("at", 0)
        times.append(at)
        while at - times[0] >= self.window:
            times.popleft()

    def copy(self) -> Balance:
        """An independent copy of the balance."""
        duplicate = copy(self)
        duplicate.people, duplicate.open = dict(self.people), dict(self.open)
        duplicate.recent = {person: deque(times) for person, times in self.recent.items()}
        return duplicate

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint records; ``Balance(state)`` continues from it."""
        return {
            "confirmed": self.confirmed,
            "surprised": self.surprised,
            "micro_nats": self.micro_nats,
            **({} if self.unit is None else {"unit": self.unit}),
            "people": dict(sorted(self.people.items())),
            "open": {str(sequence): body for sequence, body in sorted(self.open.items())},
            "closed": self.closed,
            **({} if self.learned is None else {"learned": self.learned}),
            **({"interrupted": self.interrupted} if self.interrupted else {}),
            **({HANDED_OVER: self.handed_over} if self.handed_over else {}),
        }


def _unfit(event: Event) -> BookError:
    return BookError(
        f"The account book has a line {event.sequence} ({event.kind}) that does not fit the lines before it."
    )


# The lines in SQLite.
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
SECRET_TABLE = "CREATE TABLE IF NOT EXISTS secret (value TEXT NOT NULL) STRICT"
_KEPT_TABLE = "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT"
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
                self._connection.execute(SECRET_TABLE)
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
                self._connection.execute(_KEPT_TABLE)
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

    def _failed(self, action: str, error: sqlite3.Error) -> BookError:
        if self._closed:
            return closed_book(self.name, kept=self._kept)
        return BookError(f"The account book {self.name} cannot be {action}: {error}.")


def _make_private(path: Path) -> None:
    """Create the file of a new book so that only its owner can read it: it holds the book's secret."""
    with suppress(OSError):  # Opening the book reports what is wrong with the place.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
