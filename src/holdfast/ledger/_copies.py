"""Copies of books: backups of all books of a service, and the copy of a book in a newer format.

Backups are taken while the service writes to its books. They are restored only where there are no books.

Lines are chained by their digests, and nothing in a book is ever changed. So a step from one format to the
next writes a new book with one line for each line of the old book. The first line of the new book names the
old book and how it ended. The old book stays beside it: receipts for its lines verify against the old book.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger._book import Book
from holdfast.ledger._lines import SECRET_TABLE, BookError, Entry, Event, Line, SqliteLines
from holdfast.ledger._places import SUFFIX, BookHead, connect, is_postgres, read_heads
from holdfast.ledger._postgres import KEPT_TABLE, SECRETS_TABLE
from holdfast.ledger._verify import EpochLink, export, verify
from holdfast.records import Record

_PAGE = 1_000
_TABLES = {"holdfast_events", "holdfast_secrets", "holdfast_kept"}

FORMATS: Mapping[int, str] = {
    1: "before the first release; lines were not signed; no version reads it any more",
    2: "signed ends and checkpoints, one line for each reservation, release, failure and act",
}
"""Every format there was, and what it is. docs/formats.md says more."""
CURRENT = 2
READABLE = frozenset({CURRENT})
"""Formats that this version reads as they are."""


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite file as it is at one moment, while others write to it."""
    try:
        with closing(sqlite3.connect(source, timeout=30)) as live, closing(sqlite3.connect(target)) as copy:
            live.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # One file, without a log beside it.
    except sqlite3.Error as error:
        raise BookError(f"{source} cannot be copied to {target.parent}: {error}.") from None


def copy_books(books: str | Path, folder: Path, *, names: Collection[str] | None = None) -> list[BookHead]:
    """Copy every book of a folder, or of a PostgreSQL database, to files in another folder.

    Guarantee: each copy is the book as it was at one moment after the call. So it has every answer that was
    given before the call. Books in PostgreSQL are all copied as of the same moment. The chain of each book
    is checked.

    Args:
        books: the folder of books, or a PostgreSQL URL.
        folder: an empty folder.
        names: the books to copy (default: all).
    """
    if is_postgres(books):
        with connect(str(books)) as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for name in _names(connection):
                if names is not None and name not in names:
                    continue
                _copy_from_postgres(connection, name, folder / f"{name}{SUFFIX}")
    else:
        for path in sorted(Path(books).glob(f"*{SUFFIX}")):
            if names is not None and path.name.removesuffix(SUFFIX) not in names:
                continue
            copy_database(path, folder / path.name)
    heads = read_heads(folder)
    for head in heads:
        _require_chain(folder / f"{head.name}{SUFFIX}")
    return heads


def other_tables(url: str) -> list[str]:
    """Tables of Holdfast in a PostgreSQL database that :func:`copy_books` does not copy."""
    with connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast\\_%'")
        return sorted({name for (name,) in tables} - _TABLES)


def require_whole(path: Path) -> tuple[int, float]:
    """The number of lines and the sum of the book in a file. Refuses a book whose chain or sums are wrong."""
    book = Book(path)
    try:
        return _require_whole(book, path.name.removesuffix(SUFFIX))
    finally:
        book.close()


def load_books(folder: Path, url: str) -> None:
    """Load books from files into a PostgreSQL database that has none of them. It loads all of them or none.

    Args:
        folder: the files.
        url: a PostgreSQL URL.
    """
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    Book(url).close()  # Makes the tables.
    with connect(url) as connection, connection.transaction():
        connection.execute("LOCK TABLE holdfast_events IN EXCLUSIVE MODE")
        existing_books = set(_names(connection))
        for path in paths:
            name = path.name.removesuffix(SUFFIX)
            if name in existing_books:
                raise HoldfastError(
                    f"The database has a book {name!r} already. Restore into an empty database; a book is "
                    "never replaced."
                )
            _load_into_postgres(connection, name, path)


def _names(connection: Any) -> list[str]:
    if connection.execute("SELECT to_regclass('holdfast_events')").fetchone() == (None,):
        return []
    books = connection.execute("SELECT book FROM holdfast_events WHERE sequence = 1 ORDER BY book").fetchall()
    return [name for (name,) in books]


def _copy_from_postgres(connection: Any, name: str, path: Path) -> None:
    lines = SqliteLines(path)
    try:
        previous, after = "", 0
        while page := connection.execute(
            "SELECT sequence, kind, subject, request, body, digest FROM holdfast_events "
            "WHERE book = %s AND sequence > %s ORDER BY sequence LIMIT %s",
            (name, after, _PAGE),
        ).fetchall():
            lines.append(previous, [Line(*row) for row in page])
            after, previous = page[-1][0], page[-1][5]
        for kept_name, content in _rows(connection, "holdfast_kept", "name, content", name):
            lines.keep(kept_name, bytes(content))
    finally:
        lines.close()
    with closing(sqlite3.connect(path)) as database:
        for (secret,) in _rows(connection, "holdfast_secrets", "value", name):
            database.execute(SECRET_TABLE)
            database.execute("INSERT INTO secret VALUES (?)", (secret,))
        database.commit()
        database.execute("PRAGMA journal_mode = DELETE")


def _rows(connection: Any, table: str, columns: str, book: str) -> list[Any]:
    """The rows of a book in a table; none if the table does not exist."""
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
        return []
    rows: list[Any] = connection.execute(f"SELECT {columns} FROM {table} WHERE book = %s", (book,)).fetchall()
    return rows


def _load_into_postgres(connection: Any, name: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, connection.cursor() as cursor:
        listed = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {table for (table,) in listed.fetchall()}
        lines = database.execute(
            "SELECT sequence, kind, subject, request, body, digest FROM events ORDER BY sequence"
        )
        insert = "INSERT INTO holdfast_events VALUES (%s, %s, %s, %s, %s, %s, %s)"
        while page := lines.fetchmany(_PAGE):
            cursor.executemany(insert, [(name, *row) for row in page])
        if "secret" in tables:
            cursor.execute(SECRETS_TABLE)
            for (secret,) in database.execute("SELECT value FROM secret"):
                cursor.execute("INSERT INTO holdfast_secrets VALUES (%s, %s)", (name, secret))
        if "kept" in tables:
            cursor.execute(KEPT_TABLE)
            for kept_name, content in database.execute("SELECT name, content FROM kept"):
                cursor.execute("INSERT INTO holdfast_kept VALUES (%s, %s, %s)", (name, kept_name, content))


def _require_chain(path: Path) -> None:
    book = Book(path)
    try:
        for _ in book.lines():
            pass
    finally:
        book.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")


@dataclass(frozen=True)
class FormatStep:
    """How a line of a book of format ``before`` is written in the next format."""

    before: int
    words: str
    line: Callable[[Event], Entry]

    @property
    def after(self) -> int:
        """The format that it leads to."""
        return self.before + 1


STEPS: tuple[FormatStep, ...] = ()
"""The steps of this version: none, because every released version wrote the current format."""


@dataclass(frozen=True, repr=False)
class Migration(Record):
    """What a migration did to a book, or would do.

    Attributes:
        book: Where the book is.
        before: Its format before.
        after: Its format afterwards.
        lines: How many lines it has.
        steps: What each step does, in words.
        done: Whether it was done; False for a dry run, and for a book that needed no step.
        kept: Where the old book is; None where nothing was done.
    """

    book: str
    before: int
    after: int
    lines: int
    steps: tuple[str, ...]
    done: bool
    kept: str | None = None


def format_of(book: Book) -> int:
    """The format that a book's first line states; 1 if it states none."""
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
    steps: tuple[FormatStep, ...] = STEPS,
    current: int = CURRENT,
    readable: frozenset[int] = READABLE,
) -> Migration:
    """Convert the book in a file to the current format. A book that this version can read is not changed.

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
        sums = _require_whole(book, book.name)
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


def _path(steps: tuple[FormatStep, ...], before: int, current: int) -> list[FormatStep]:
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


def _write(book: Book, target: Path, steps: list[FormatStep], before: int) -> None:
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
    """Copy what is kept beside the lines: the book's secret, and the bytes that are kept under names."""
    with closing(sqlite3.connect(new, isolation_level=None)) as database:
        database.execute("ATTACH DATABASE ? AS old", (str(old),))
        tables = database.execute("SELECT name, sql FROM old.sqlite_master WHERE name IN ('secret', 'kept')")
        for name, definition in tables.fetchall():
            database.execute(definition)
            database.execute(f"INSERT INTO main.{name} SELECT * FROM old.{name}")
        database.execute("DETACH DATABASE old")
        database.execute("PRAGMA journal_mode = DELETE")  # One file, which can be renamed.


def _require_whole(book: Book, name: str) -> tuple[int, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        export(book, path)
        verification = verify(path)
    if not verification.whole:
        problem = verification.problems[0]
        raise BookError(f"The account book {name} is not whole: line {problem.line}, {problem.words}.")
    return verification.lines, verification.spent


def _require_same(path: Path, sums: tuple[int, float]) -> None:
    migrated = require_whole(path)
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
