"""The boards of one service: registered by their owner, blind or open, and finished once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from holdfast import checks
from holdfast.engines import open_rows
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.guard import Asker, Board, Submission
from holdfast.ledger import Balance
from holdfast.records import Record
from holdfast.server._places import Places, Unknown, require_name
from holdfast.server._rate import RATE, SECONDS, TooMany, require_rate
from holdfast.server._tokens import Person

_SCHEMA = """
CREATE TABLE IF NOT EXISTS boards (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    terms TEXT NOT NULL,
    blind INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS waiting (
    number INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    submission TEXT NOT NULL,
    person TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS received (
    number INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    person TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
"""

_MOST_LABELS = 5_000_000
_MOST_LABEL_BYTES = 2**30
_PLAIN = (".csv", ".tsv", ".txt")


@dataclass(frozen=True, repr=False)
class Received(Record):
    """A submission to a blind board: it is kept, and scored when the blind phase ends."""

    key: str
    by: str


class Boards:
    """All boards of a service, opened when they are first needed."""

    def __init__(self, home: Path, places: Places) -> None:
        self._home, self._places = home, places
        self._lock = RLock()
        # A board that is being opened, or scores a batch, keeps no other board waiting.
        self._locks: dict[str, RLock] = {}
        self._open: dict[str, Board] = {}
        self._rates: dict[str, int] = {}
        self._database = sqlite3.connect(
            home / "boards.sqlite", isolation_level=None, check_same_thread=False, timeout=30
        )
        self._database.executescript(_SCHEMA)

    def register(self, name: str, source: str, terms: dict[str, Any], *, blind: bool) -> Board:
        """Open a board on a table of labels; whatever is wrong with it is said now.

        ``terms`` are those of :class:`~holdfast.guard.Board` and the ``rate`` at which a person may submit.
        """
        require_name(name)
        place = self._places.source(source)
        with self._lock_of(name):
            if name in self.names():
                raise InvalidArgument("name", "one that is not taken", name, of="a board")
            board = self._opened(name, place, terms)
            self._run("INSERT INTO boards VALUES (?, ?, ?, ?)", name, place, json.dumps(terms), int(blind))
            self._open[name] = board
        return board

    def names(self) -> list[str]:
        """All names, in order."""
        return [name for (name,) in self._run("SELECT name FROM boards ORDER BY name")]

    def get(self, name: str) -> Board:
        """The board of this name."""
        if (board := self._open.get(name)) is not None:
            return board
        row = self._row(name)
        with self._lock_of(name):
            if name not in self._open:
                self._open[name] = self._opened(name, row[0], json.loads(row[1]))
            return self._open[name]

    def blind(self, name: str) -> bool:
        """Whether submissions are kept without being scored."""
        return bool(self._row(name)[2])

    def submit(self, name: str, person: Person, predictions: Any) -> Submission | Received:
        """Score a submission, or keep it while the board is blind."""
        board = self.get(name)
        if board.finished:
            raise QueryRejected("This board is finished; nothing more can be submitted.")
        with self._lock_of(name):
            if self.blind(name) and (received := self._put_by(name, board, person, predictions)):
                return received

        def permit(balance: Balance, price: int) -> None:
            require_rate(self._rates[name], person.account, balance)

        return board.submit(predictions, asker=Asker(person.account, permit=permit))

    def _put_by(self, name: str, board: Board, person: Person, predictions: Any) -> Received | None:
        """Let a submission wait for the end of the blind phase; None if that has come meanwhile."""

        def waits(key: str) -> bool:
            return bool(self._run("SELECT 1 FROM waiting WHERE board = ? AND submission = ?", name, key))

        def permit(key: str) -> None:
            if not waits(key):
                self._require_rate_unseen(name, person)

        key = board.take_in(predictions, by=person.account, permit=permit)
        if not waits(key):
            self._run(
                "INSERT INTO waiting (board, submission, person) "
                "SELECT name, ?, ? FROM boards WHERE name = ? AND blind",
                key,
                person.account,
                name,
            )
        return Received(key, person.account) if waits(key) else None

    def _require_rate_unseen(self, name: str, person: Person) -> None:
        """Count and limit what the account does not see: submissions that are only kept, and choices of
        finalists."""
        now = int(time.time())
        self._run("DELETE FROM received WHERE at <= ?", now - Balance.window)
        ((count, first),) = self._run(
            "SELECT count(*), min(at) FROM received WHERE board = ? AND person = ?", name, person.account
        )
        if count >= self._rates[name]:
            raise TooMany(self._rates[name], Balance.window - (now - first))
        self._run("INSERT INTO received (board, person, at) VALUES (?, ?, ?)", name, person.account, now)

    def waiting(self, name: str) -> int:
        """How many submissions wait for the end of the blind phase."""
        ((count,),) = self._run("SELECT count(*) FROM waiting WHERE board = ?", name)
        return int(count)

    def submissions(self, name: str, by: str | None = None) -> list[Submission | Received]:
        """What was submitted, in order: with what each was told, then those that wait for the end of the
        blind phase. ``by`` is the person whose submissions are wanted; None for those of all."""
        board = self.get(name)
        rows = self._run("SELECT submission, person FROM waiting WHERE board = ? ORDER BY number", name)
        scored = board.submissions(by)
        # What was scored since the rows were read is listed once.
        keys = {submission.key for submission in scored}
        waiting = [
            Received(key, person) for key, person in rows if (by is None or person == by) and key not in keys
        ]
        return [*scored, *waiting]

    def choose_finalists(self, name: str, person: Person, keys: Sequence[str]) -> tuple[str, ...]:
        """Choose which of a person's own submissions are in the final; a change counts for the rate."""

        def permit() -> None:
            with self._lock_of(name):
                self._require_rate_unseen(name, person)

        return self.get(name).choose_finalists(keys, by=person.account, permit=permit)

    def unblind(self, name: str) -> list[Received]:
        """End the blind phase: score what waits, as one batch in the order it came; returns what could not be
        scored.

        A submission waits until it is settled, and the board stays blind until nothing waits, so this can be
        called again after a crash at any point.
        """
        board = self.get(name)
        unscored: list[Received] = []
        with self._lock_of(name):
            while kept := self._run(
                "SELECT number, submission, person FROM waiting WHERE board = ? ORDER BY number", name
            ):
                told = board.score_all([key for _, key, _ in kept])
                for (number, key, person), submission in zip(kept, told, strict=True):
                    if submission is None:
                        unscored.append(Received(key, person))
                    self._run("DELETE FROM waiting WHERE number = ?", number)
            self._run(
                "UPDATE boards SET blind = 0 WHERE name = ? "
                "AND NOT EXISTS (SELECT 1 FROM waiting WHERE board = name)",
                name,
            )
        return unscored

    def final(self, name: str) -> None:
        """Score each person's finalists on the sealed part, once."""
        if self.blind(name):
            raise QueryRejected("This board is blind; end the blind phase first, then its submissions count.")
        self.get(name).final()

    def close(self) -> None:
        """Close every book."""
        with self._lock:
            for board in self._open.values():
                board.close()
            self._database.close()

    def _lock_of(self, name: str) -> RLock:
        """The lock of one board."""
        with self._lock:
            return self._locks.setdefault(name, RLock())

    def _row(self, name: str) -> tuple[str, str, int]:
        rows = self._run("SELECT source, terms, blind FROM boards WHERE name = ?", name)
        if not rows:
            raise Unknown(f"There is no board {name!r} that this token reaches.")
        source, terms, blind = rows[0]
        return source, terms, blind

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement; threads wait for each other for no longer than it takes."""
        with self._lock:
            return self._database.execute(statement, values).fetchall()

    def _opened(self, name: str, source: str, terms: dict[str, Any]) -> Board:
        terms = {"rate": RATE, "seconds": SECONDS, **terms}
        self._rates[name] = checks.whole(terms.pop("rate"), "rate", of="a board")
        _require_few_labels(source)
        book = self._places.book(f"board-{name}")
        try:
            return Board(source, **terms, ledger=book, keep=self._home / "submissions" / name)
        except BaseException:
            book.close()
            raise


def _require_few_labels(source: str) -> None:
    """Refuse labels that would not fit in memory; a board holds them there. What a plain file has is bounded
    by its size; any other source says how many rows it has before they are read."""
    if source.lower().endswith(_PLAIN) and "://" not in source:
        few = Path(source).stat().st_size <= _MOST_LABEL_BYTES
    else:
        few = open_rows(source).count <= _MOST_LABELS
    if not few:
        wanted = f"a table of labels with at most {_MOST_LABELS:,} rows, and as CSV at most 1 GB"
        raise InvalidArgument("source", wanted, "more", of="a board")
