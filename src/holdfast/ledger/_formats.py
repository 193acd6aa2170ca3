"""Formats of account books, and the steps that bring a book from one to the next.

Lines are chained by their digests and nothing in a book is ever changed. A step therefore writes a new book
with one line for each line of the old one, and the first line says which book it was made from and how that
ended. The old book stays beside it: receipts for its lines verify against the old book.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger._book import Book
from holdfast.ledger._epochs import EpochLink
from holdfast.ledger._event import BookError, Entry, Event
from holdfast.ledger._verify import export, verify
from holdfast.records import Record

FORMATS: Mapping[int, str] = {
    1: "before the first release; lines were not signed; no version reads it any more",
    2: "signed ends and checkpoints, one line for each reservation, release, failure and act",
}
"""Every format there was, and what it is. docs/formats.md says more."""

CURRENT = 2
READABLE = frozenset({CURRENT})
"""Formats that this version reads as they are."""


@dataclass(frozen=True)
class Step:
    """How a line of a book of format ``before`` is written in the next format."""

    before: int
    words: str
    line: Callable[[Event], Entry]

    @property
    def after(self) -> int:
        """The format that it leads to."""
        return self.before + 1


STEPS: tuple[Step, ...] = ()
"""The steps of this version: none, because every released version wrote the current format."""


@dataclass(frozen=True, repr=False)
class Migration(Record):
    """What was, or would be, done to a book: its formats, its steps in words, and where the old one is."""

    book: str
    before: int
    after: int
    lines: int
    steps: tuple[str, ...]
    done: bool
    kept: str | None = None


def format_of(book: Book) -> int:
    """The format that a book's first line says; 1 where it says none."""
    opening = book.opening
    if opening is None:
        raise BookError(f"The account book {book.name} has no lines: there is nothing to migrate.")
    number = opening.body.get("format", 1)
    if not isinstance(number, int) or isinstance(number, bool):
        raise BookError(f"The account book {book.name} names a format that is not a number.")
    return number


def migrate(
    path: str | Path,
    *,
    dry_run: bool = False,
    steps: tuple[Step, ...] = STEPS,
    current: int = CURRENT,
    readable: frozenset[int] = READABLE,
) -> Migration:
    """Bring the book in a file to the current format. A book that this version reads as it is stays.

    Guarantee: the book is verified first. A migrated book has as many lines, and the same sums, as the old
    one, and passes verification; only then does it take the old one's place. The old book is kept beside it
    as ``NAME.format-N``. A dry run does all of this with a copy, and changes nothing.
    Assumes: nobody writes to the book meanwhile. Stop the service first.

    Args:
        path: the book.
        dry_run: only say what would be done.
        steps: the steps there are; those of this version unless a test has its own.
        current: the format to reach.
        readable: formats that need no step.

    >>> migrate("people.holdfast", dry_run=True).steps  # doctest: +SKIP
    ()
    """
    place = Path(path)
    book = Book(place)
    try:
        before = format_of(book)
        sums = _require_whole(book)
        if before > current:
            raise HoldfastError(
                f"{place} has format {before}; this version knows formats up to {current}. Install a newer "
                "version. Nothing was changed."
            )
        if before in readable or before == current:
            return Migration(str(place), before, before, sums[0], (), done=False)
        chosen = _path(steps, before, current)
        if EpochLink.of(book) is not None or book.about(EpochLink.ANNOUNCED, "act") is not None:
            raise HoldfastError(
                f"{place} is one epoch of several. Their books name each other's lines, so they cannot be "
                "migrated one by one. Close the account and open a new one with this version."
            )
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".migrate-") as folder:
            new = Path(folder) / place.name
            _write(book, new, chosen, before)
            _require_same(new, sums)
            _copy_beside(place, new)
            words = tuple(step.words for step in chosen)
            if dry_run:
                return Migration(str(place), before, current, sums[0], words, done=False)
            kept = place.with_name(f"{place.name}.format-{before}")
            if kept.exists():
                raise HoldfastError(f"{kept} exists already. Move it away first. Nothing was changed.")
            book.close()
            # The old book gets its second name first: at no moment is there no book under either.
            os.link(place, kept)
            os.replace(new, place)
            _sync(place.parent)
        return Migration(str(place), before, current, sums[0], words, done=True, kept=str(kept))
    finally:
        book.close()


def _path(steps: tuple[Step, ...], before: int, current: int) -> list[Step]:
    by_format = {step.before: step for step in steps}
    chosen = []
    while before < current:
        if before not in by_format:
            raise HoldfastError(
                f"There is no step from format {before} to {before + 1} in this version. Install a version "
                "that has it (docs/formats.md). Nothing was changed."
            )
        chosen.append(by_format[before])
        before = by_format[before].after
    return chosen


def _write(book: Book, target: Path, steps: list[Step], before: int) -> None:
    """The new book, line by line."""
    head, lines = "", 0
    for line in book.lines():
        head, lines = line.digest, lines + 1
    made_from = {"format": before, "book": book.identity, "lines": lines, "digest": head}
    new = Book(target)
    try:
        for event in book.events():
            entry = Entry(event.kind, event.body, event.subject, event.request)
            for step in steps:
                entry = step.line(
                    Event(event.sequence, entry.kind, entry.body, event.digest, entry.subject, entry.request)
                )
            body: dict[str, Any] = dict(entry.body)
            if event.sequence == 1:
                body |= {"format": steps[-1].after, "migrated": made_from}
                body.setdefault("nonce", secrets.token_hex(16))
            if entry.kind == "checkpoint":
                body["signature"] = None  # It was for the old lines; a start with a key adds up from them.
            new.append(
                entry.kind, body, after=event.sequence - 1, subject=entry.subject, request=entry.request
            )
    finally:
        new.close()


def _copy_beside(old: Path, new: Path) -> None:
    """What is kept beside the lines goes with them: the book's secret, and bytes under a name."""
    with closing(sqlite3.connect(new, isolation_level=None)) as database:
        database.execute("ATTACH DATABASE ? AS old", (str(old),))
        found = database.execute("SELECT name, sql FROM old.sqlite_master WHERE name IN ('secret', 'kept')")
        for name, definition in found.fetchall():
            database.execute(definition)
            database.execute(f"INSERT INTO main.{name} SELECT * FROM old.{name}")
        database.execute("DETACH DATABASE old")
        database.execute("PRAGMA journal_mode = DELETE")  # One file, which can be renamed.


def _require_whole(book: Book) -> tuple[int, float]:
    """The number of lines and the sum of a book that is whole; a damaged one is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        export(book, path)
        checked = verify(path)
    if not checked.whole:
        first = checked.problems[0]
        raise BookError(f"The account book {book.name} is not whole: line {first.line}, {first.words}.")
    return checked.lines, checked.spent


def _require_same(path: Path, sums: tuple[int, float]) -> None:
    book = Book(path)
    try:
        migrated = _require_whole(book)
    finally:
        book.close()
    if migrated != sums:
        raise BookError(
            f"The migrated book has {migrated[0]} lines and {migrated[1]:g} spent; the old one {sums[0]} and "
            f"{sums[1]:g}. Nothing was changed."
        )


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
