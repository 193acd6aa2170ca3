"""Where the books of a service are kept, and how many lines each has. Metrics, witnesses and backups read
this without opening an account."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from holdfast.errors import MissingExtra
from holdfast.ledger._lines import BookError
from holdfast.records import Record

BOOK = "holdfast_book"
"""The parameter of a PostgreSQL address that names the book."""

SUFFIX = ".holdfast"
_TIMEOUT = 5  # Seconds that connecting to a database may take.
_SETTLED = ("release", "fail", "return")


def is_postgres(place: str | Path | None) -> bool:
    """Whether a place is the address of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def name_of(place: str | Path) -> str:
    """What a book is called: its file without the ending, or its name in PostgreSQL.

    >>> name_of("books/people.epoch-2.holdfast"), name_of("postgresql:///town?holdfast_book=people")
    ('people.epoch-2', 'people')
    """
    if is_postgres(place):
        return dict(parse_qsl(urlsplit(str(place)).query)).get(BOOK, "default")
    return Path(place).stem


def place_of_epoch(place: str | Path | None, number: int) -> str | Path | None:
    """The place of the book of epoch ``number``: ``people.csv.holdfast`` becomes
    ``people.csv.epoch-2.holdfast``. The name of a book in PostgreSQL changes in the same way. A book in
    memory stays in memory.

    >>> str(place_of_epoch("people.csv.epoch-2.holdfast", 3))
    'people.csv.epoch-3.holdfast'
    """
    if place is None:
        return None
    if isinstance(place, str) and is_postgres(place):
        parts = urlsplit(place)
        options = dict(parse_qsl(parts.query))
        options[BOOK] = _named(options.get(BOOK, "default"), number)
        return urlunsplit(parts._replace(query=urlencode(options)))
    path = Path(place)
    return path.with_name(_named(path.stem, number) + path.suffix)


def _named(name: str, number: int) -> str:
    return re.sub(r"\.epoch-\d+$", "", name) + f".epoch-{number}"


@dataclass(frozen=True, repr=False)
class BookHead(Record):
    """How the book with a ``name`` ends: ``book`` is its identity (the digest of its first line),
    ``sequence`` the number of its last line, and ``digest`` that line's digest."""

    name: str
    book: str
    sequence: int
    digest: str


@dataclass(frozen=True, repr=False)
class LineCounts(Record):
    """How many lines of each kind the book with a ``name`` has, up to line ``sequence``. ``kinds`` has the
    counts. They show what was done, and nothing about the answers."""

    name: str
    sequence: int
    kinds: dict[str, int]

    @property
    def answered(self) -> int:
        """Questions that were read and recorded."""
        return self.kinds.get("release", 0)

    @property
    def open(self) -> int:
        """Reservations that are not settled: questions that are being read, or that a crash left behind."""
        return max(0, self.kinds.get("reserve", 0) - sum(self.kinds.get(kind, 0) for kind in _SETTLED))


def read_heads(books: str | Path) -> list[BookHead]:
    """How every book ends. ``books`` is their folder, or their PostgreSQL database (``postgresql://…``).
    Books without lines are left out.

    Guarantee: nothing is written, and no reader or writer of a book waits for this.
    """
    with _open_books(books) as places:
        heads = []
        for name, place in places:
            first, last = place.line("ASC"), place.line("DESC")
            if first is not None and last is not None:
                heads.append(BookHead(name, first[1], last[0], last[1]))
        return heads


class LineCounter:
    """Counts the lines of every book. Each line is read once, even if the counts are read often. ``books``
    is the folder of the books, or their PostgreSQL database."""

    def __init__(self, books: str | Path) -> None:
        self._books = books
        self._counted: dict[str, tuple[int, Counter[str]]] = {}

    def read(self) -> list[LineCounts]:
        """The counts of all books as they are now, in order of their names."""
        with _open_books(self._books) as places:
            for name, place in places:
                after, kinds = self._counted.get(name, (0, Counter()))
                for kind, number, last in place.kinds(after):
                    kinds[kind] += number
                    after = max(after, last)
                self._counted[name] = after, kinds
        return [
            LineCounts(name, sequence, dict(kinds))
            for name, (sequence, kinds) in sorted(self._counted.items())
        ]


def book_at(books: str | Path, name: str) -> str | Path:
    """The place of one book among those of a folder or database, as :class:`Book` takes it."""
    if is_postgres(books):
        parts = urlsplit(str(books))
        options = dict(parse_qsl(parts.query)) | {BOOK: name}
        return urlunsplit(parts._replace(query=urlencode(options)))
    return Path(books) / f"{name}{SUFFIX}"


class _SqlitePlace:
    """One book in a file, opened for reading only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def line(self, order: str) -> Any:
        query = f"SELECT sequence, digest FROM events ORDER BY sequence {order} LIMIT 1"
        return self._connection.execute(query).fetchone()

    def kinds(self, after: int) -> Any:
        query = "SELECT kind, count(*), max(sequence) FROM events WHERE sequence > ? GROUP BY kind"
        return self._connection.execute(query, (after,)).fetchall()


class _PostgresPlace:
    """One book in a database."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection, self._name = connection, name

    def line(self, order: str) -> Any:
        query = (
            f"SELECT sequence, digest FROM holdfast_events WHERE book = %s ORDER BY sequence {order} LIMIT 1"
        )
        return self._connection.execute(query, (self._name,)).fetchone()

    def kinds(self, after: int) -> Any:
        query = (
            "SELECT kind, count(*), max(sequence) FROM holdfast_events WHERE book = %s AND sequence > %s "
            "GROUP BY kind"
        )
        return self._connection.execute(query, (self._name, after)).fetchall()


@contextmanager
def _open_books(books: str | Path) -> Iterator[Iterator[tuple[str, _SqlitePlace | _PostgresPlace]]]:
    if is_postgres(books):
        with connect(str(books)) as connection:
            yield _in_database(connection)
    else:
        try:
            yield _in_folder(Path(books))
        except sqlite3.Error as error:
            raise BookError(f"An account book in {books} cannot be read: {error}.") from None


def _in_folder(folder: Path) -> Iterator[tuple[str, _SqlitePlace]]:
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        address = f"file:{quote(str(path.resolve()))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_TIMEOUT)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
                yield path.name.removesuffix(SUFFIX), _SqlitePlace(connection)


def _in_database(connection: Any) -> Iterator[tuple[str, _PostgresPlace]]:
    if connection.execute("SELECT to_regclass('holdfast_events')").fetchone() == (None,):
        return
    # Every book begins with line 1. The primary key finds these lines without reading the others.
    query = "SELECT book FROM holdfast_events WHERE sequence = 1 ORDER BY book"
    for (name,) in connection.execute(query).fetchall():
        yield name, _PostgresPlace(connection, name)


@contextmanager
def connect(url: str) -> Iterator[Any]:
    """A connection to the database of books, for a while. Errors name neither its address nor a password."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("postgres", what="Account books in PostgreSQL") from None
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    options.pop(BOOK, None)
    options.setdefault("connect_timeout", str(_TIMEOUT))
    try:
        with psycopg.connect(
            urlunsplit(parts._replace(query=urlencode(options))), autocommit=True
        ) as connection:
            yield connection
    except psycopg.Error as error:
        raise BookError(f"The database of account books cannot be used: {type(error).__name__}.") from None
