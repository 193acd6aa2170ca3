"""One book of events that can only grow, wherever its lines are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import InvalidArgument
from holdfast.ledger._lines import (
    Balance,
    BookError,
    Entry,
    Event,
    Line,
    SqliteLines,
    Stale,
    canonical,
    digest_of,
)
from holdfast.ledger._places import is_postgres, name_of, place_of_epoch
from holdfast.ledger._postgres import PostgresLines
from holdfast.ledger._signing import (
    Marker,
    Marks,
    Receipt,
    SigningKey,
    require_reached,
    restored_line,
    signed,
)

# So many lines are read at a time.
_PAGE = 5_000
# A start looks for the questions of the last minute: so many lines at a time from the end, and so many in
# all.
_BACK, _MOST_BACK = 500, 20_000


class Lines(Protocol):
    """Where lines are kept: they can be read and appended to, and nothing else."""

    name: str

    def append(self, previous: str, lines: Sequence[Line]) -> bool: ...
    def page(self, first: int, limit: int) -> list[Line]: ...
    def about(self, subject: str, kind: str) -> Line | None: ...
    def requested(self, request: str) -> Line | None: ...
    def checkpoint(self, before: int) -> Line | None: ...
    def secret(self) -> str: ...
    def keep(self, name: str, content: bytes) -> None: ...
    def kept(self, name: str) -> bytes | None: ...
    def close(self) -> None: ...


class Book:
    """An append-only book: a SQLite file, a PostgreSQL database (``postgresql://…``), or memory (None).

    Guarantee: an append is one transaction that is on disk when it returns. The database refuses UPDATE and
    DELETE. Every line carries the digest of all lines before it, and a line with a wrong digest is never
    returned. With a ``key``, :meth:`receipt` signs how the book ends. With ``marks`` too, a book is refused
    if it lacks the line of its mark. ``turns`` is a lock file: processes of one machine that ask from this
    book take turns with it.
    Assumes: the disk keeps what it acknowledged. Someone who can rewrite the whole database can rewrite an
    unsigned book; receipts that others hold show it (:func:`holdfast.ledger.verify`).

    Args:
        place: The path of the SQLite file, the address of the database, or None for memory.
        key: The key that signs.
        marks: Where the marks of books are kept.
        turns: The file by which processes take turns; None for one process.

    >>> book = Book()
    >>> book.append("open", {"rows": 100}, after=0).sequence
    1
    """

    def __init__(
        self,
        place: str | Path | None = None,
        *,
        key: SigningKey | None = None,
        marks: Marks | None = None,
        turns: Path | None = None,
    ) -> None:
        self._lines: Lines = (
            PostgresLines(place)
            if isinstance(place, str) and is_postgres(place)
            else SqliteLines(None if place is None else Path(place))
        )
        self._place, self._marks = place, marks
        self.turns = turns  # the file by which processes of one machine take turns; None for one process
        self._marker: Marker | None = None
        if marks is not None and key is not None and place is not None:
            try:
                require_reached(self._lines, name_of(place), marks.read(name_of(place)))
            except BaseException:
                self._lines.close()
                raise
            self._marker = Marker(marks, name_of(place), key)
        self.name = self._lines.name
        self.key = key
        self._identity: str | None = None
        # The last line that was written here, so that the next one need not look for it.
        self._end = 0, ""

    def append(
        self, kind: str, body: dict[str, Any], *, after: int, subject: str = "", request: str = ""
    ) -> Event:
        """Write one event, if the book still ends at sequence ``after``; otherwise raise :class:`Stale`.

        Args:
            kind: What happened, in a word: "open", "reserve", "release", ...
            body: The details, as JSON values.
            after: The number of the last line, as the caller knows it.
            subject: The key of the question that it is about.
            request: The request that led to it.
        """
        (event,) = self.append_all([Entry(kind, body, subject, request)], after=after)
        return event

    def append_all(self, entries: Sequence[Entry], *, after: int) -> list[Event]:
        """Write several ``entries`` in one transaction, all or none, if the book still ends at sequence
        ``after``; otherwise raise :class:`Stale`."""
        start = digest = self._digest_at(after)
        lines, events = [], []
        for sequence, entry in enumerate(entries, start=after + 1):
            for name, text in (("kind", entry.kind), ("subject", entry.subject), ("request", entry.request)):
                if "\n" in text:
                    raise InvalidArgument(name, "one line of text", text, of="Book.append")
            content = (sequence, entry.kind, entry.subject, entry.request, canonical(entry.body))
            digest = digest_of(digest, *content)
            lines.append(Line(*content, digest))
            events.append(Event(sequence, entry.kind, entry.body, digest, entry.subject, entry.request))
        if not self._lines.append(start, lines):
            self._end = 0, ""
            if after and self._digest_at(after) != start:
                raise BookError(f"The account book {self.name} was changed at line {after}.")
            raise Stale(f"The book does not end at {after}.")
        self._end = after + len(lines), digest
        if self._marker is not None and lines:
            self._marker.note(self.identity, lines[-1])
        return events

    def _digest_at(self, sequence: int) -> str:
        """The digest of line ``sequence``. The next line is chained to it."""
        last, digest = self._end
        if last == sequence:
            return digest
        lines = self._lines.page(sequence, 1)
        if not lines or lines[0].sequence != sequence:
            raise Stale(f"The book does not end at {sequence}.")
        return lines[0].digest

    def events(self, after: int = 0) -> Iterator[Event]:
        """All events after line ``after``. Each is checked against the chain."""
        return (line.event() for line in self.lines(after))

    def lines(self, after: int = 0) -> Iterator[Line]:
        """The lines after line ``after`` as they are stored. Each is checked against the chain. They are read
        a page at a time, so a long book needs little memory."""
        end, digest = self._end
        previous, expected = digest if end == after else "", after
        if after and not previous:
            first = self._lines.page(after, 1)
            if not first or first[0].sequence != after:
                raise BookError(f"The account book {self.name} has lost line {after}.")
            previous = first[0].digest
        while page := self._lines.page(expected + 1, _PAGE):
            for line in page:
                expected += 1
                if line.sequence != expected or not line.follows(previous):
                    raise BookError(f"The account book {self.name} was changed at line {expected}.")
                previous = line.digest
                yield line
            if len(page) < _PAGE:
                return

    def at(self, sequence: int) -> Event:
        """The event with the number ``sequence``."""
        lines = self._lines.page(sequence, 1)
        if not lines or lines[0].sequence != sequence:
            raise BookError(f"The account book {self.name} has lost line {sequence}.")
        return self._checked(lines[0]).event()

    def about(self, subject: str, kind: str) -> Event | None:
        """The last event of a ``kind`` about a ``subject``, found without reading the rest of the book."""
        line = self._lines.about(subject, kind)
        return None if line is None else self._checked(line).event()

    def requested(self, request: str) -> Event | None:
        """The first event that a ``request`` led to."""
        line = self._lines.requested(request)
        return None if line is None else self._checked(line).event()

    @property
    def opening(self) -> Event | None:
        """The first event; None for a book that was not opened yet."""
        lines = self._lines.page(1, 1)
        return self._checked(lines[0]).event() if lines else None

    @property
    def identity(self) -> str:
        """The identity of this book: the digest of its first line."""
        if self._identity is None:
            first = self._lines.page(1, 1)
            if not first or first[0].sequence != 1 or not first[0].follows(""):
                raise BookError(f"The account book {self.name} has no first line.")
            self._identity = first[0].digest
        return self._identity

    def receipt(self, event: Event) -> Receipt | None:
        """A signed statement that the book has this ``event`` and all before it; None without a key."""
        if self.key is None:
            return None
        return Receipt.sign(self.key, self.identity, event.sequence, event.digest)

    def checkpoint(self, balance: Balance, *, after: int) -> Event:
        """Record the ``balance`` of the lines up to ``after``, signed if there is a key. The next start
        continues from here."""
        state = balance.to_dict()
        signature = None
        if self.key is not None:
            signature = self.key.sign(self._checkpoint_statement(after, self.at(after).digest, state))
        return self.append("checkpoint", {"balance": state, "signature": signature}, after=after)

    def start(self) -> tuple[Balance, int]:
        """The balance at the last checkpoint that this book can trust, and the line of that checkpoint.

        With a key, that is the last checkpoint signed with it. Without a key, it is the last checkpoint. The
        caller applies the events after it.
        """
        before = 2**62
        while (line := self._lines.checkpoint(before)) is not None:
            body = self._checked(line).event().body
            if self.key is None or self._signed_checkpoint(line, body):
                balance = Balance(body["balance"])
                for reserve in self._last_minute(line.sequence):
                    balance.note(reserve)
                return balance, line.sequence
            before = line.sequence
        return Balance(), 0

    @property
    def in_memory(self) -> bool:
        """Whether the book is only in memory: it is lost when it is closed."""
        return self._place is None

    @property
    def secret(self) -> bytes:
        """Random bytes of this book. They are kept beside its lines and are never in an export."""
        return bytes.fromhex(self._lines.secret())

    def keep(self, name: str, content: bytes) -> None:
        """Keep ``content`` beside the lines. It replaces what was kept there under this ``name``. It is never
        in an export. The chain does not cover it: to notice a change, write its digest in a line."""
        self._lines.keep(name, content)

    def kept(self, name: str) -> bytes | None:
        """The bytes that are kept under a ``name``; None if there are none."""
        return self._lines.kept(name)

    def of_epoch(self, number: int) -> Book:
        """The book of epoch ``number`` of the same table, kept beside this one and signed with the same
        key."""
        turns = self.turns
        if turns is not None:
            turns = turns.with_name(f"{turns.name.partition('.epoch-')[0]}.epoch-{number}")
        return Book(place_of_epoch(self._place, number), key=self.key, marks=self._marks, turns=turns)

    def accept_restored(self, marks: Marks) -> bool:
        """Accept a book that lacks the line of its mark, because it was restored from an old backup.

        The book gets a line that says how many lines it had, and a new mark. Returns False if the book has
        the line of its mark. Open the book without its marks for this, and with its key.

        What the lost lines spent stays unknown, so close the account afterwards.
        """
        if self.key is None or self._place is None:
            raise InvalidArgument("key", "the key that the book is signed with", None, of="accept_restored")
        name = name_of(self._place)
        mark, digests = marks.read(name), [line.digest for line in self.lines()]
        if mark is None or digests[mark.sequence - 1 : mark.sequence] == [mark.digest]:
            return False
        if not digests:
            raise BookError(f"The account book {self.name} is empty. Restore a backup of it first.")
        body = restored_line(mark, len(digests))
        event = self.append("act", body, after=len(digests), subject=f"restored {mark.digest}")
        marks.replace(name, Receipt.sign(self.key, self.identity, event.sequence, event.digest))
        return True

    def _last_minute(self, end: int) -> list[Event]:
        """The reservations of the last minute up to line ``end``, in order, with other lines that say when
        and by whom. At most ``_MOST_BACK`` lines are read, so a start is quick even if people ask fast."""
        since, first = time.time() - Balance.window, max(0, end - _MOST_BACK)
        events: list[Event] = []
        while end > first:
            start = max(first, end - _BACK)
            lines = islice(self.lines(start), end - start)
            asking = [line.event() for line in lines if line.kind in ("reserve", "act")]
            dated = [event for event in asking if "at" in event.body]
            recent = [event for event in dated if event.body["at"] > since]
            events = recent + events
            end = start if len(recent) == len(dated) else first
        return events

    def close(self) -> None:
        """Close the book. A closed book cannot be written to."""
        if self._marker is not None:
            self._marker.close()
        self._lines.close()

    def _checked(self, line: Line) -> Line:
        """One line that was read on its own, checked against the line before it."""
        before = self._lines.page(line.sequence - 1, 1)[0].digest if line.sequence > 1 else ""
        if not line.follows(before):
            raise BookError(f"The account book {self.name} was changed at line {line.sequence}.")
        return line

    def _signed_checkpoint(self, line: Line, body: dict[str, Any]) -> bool:
        assert self.key is not None
        if not isinstance(body["signature"], str):
            return False
        before = self._lines.page(line.sequence - 1, 1)[0]
        statement = self._checkpoint_statement(before.sequence, before.digest, body["balance"])
        return signed(self.key.public, statement, body["signature"])

    def _checkpoint_statement(self, sequence: int, digest: str, balance: dict[str, Any]) -> str:
        return f"holdfast checkpoint 1\n{self.identity}\n{sequence}\n{digest}\n{canonical(balance)}"
