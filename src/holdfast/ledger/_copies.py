"""Copies of all books of a service, taken while it writes to them, and put back where there are none."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger._book import Book
from holdfast.ledger._event import BookError, Line
from holdfast.ledger._heads import SUFFIX, BookHead, connect, read_heads
from holdfast.ledger._places import is_postgres
from holdfast.ledger._sqlite import SqliteLines
from holdfast.ledger._verify import export, verify

_SECRET = "CREATE TABLE IF NOT EXISTS secret (value TEXT NOT NULL) STRICT"
_PAGE = 1_000
_TABLES = {"holdfast_events", "holdfast_secrets", "holdfast_kept"}


def copy_database(source: Path, target: Path) -> None:
    """Copy a SQLite file as it is at one moment, while others write to it."""
    with closing(sqlite3.connect(source, timeout=30)) as live, closing(sqlite3.connect(target)) as copy:
        live.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # One file, without a log beside it.


def copy_books(books: str | Path, folder: Path, *, names: Collection[str] | None = None) -> list[BookHead]:
    """Copy every book of a folder, or of a PostgreSQL database, to files in another folder.

    Guarantee: each copy is the book as it was at one moment after the call, so it has every answer that was
    given before; books in PostgreSQL are all copied as of the same moment. The chain of each is checked.

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
        found = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast\\_%'")
        return sorted({name for (name,) in found} - _TABLES)


def require_whole(path: Path) -> None:
    """Refuse a book whose chain or sums are wrong."""
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "export.jsonl"
        book = Book(path)
        try:
            export(book, exported)
        finally:
            book.close()
        problems = verify(exported).problems
    if problems:
        raise BookError(
            f"The account book {path.name.removesuffix(SUFFIX)} is not whole: line {problems[0].line}, "
            f"{problems[0].words}."
        )


def load_books(folder: Path, url: str) -> None:
    """Put books from files into a PostgreSQL database that has none of them: all, or none.

    Args:
        folder: the files.
        url: a PostgreSQL URL.
    """
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    Book(url).close()  # Makes the tables.
    with connect(url) as connection, connection.transaction():
        connection.execute("LOCK TABLE holdfast_events IN EXCLUSIVE MODE")
        taken = set(_names(connection))
        for path in paths:
            name = path.name.removesuffix(SUFFIX)
            if name in taken:
                raise HoldfastError(
                    f"The database has a book {name!r} already. Restore into an empty database; a book is "
                    "never replaced."
                )
            _load_into_postgres(connection, name, path)


def _names(connection: Any) -> list[str]:
    if connection.execute("SELECT to_regclass('holdfast_events')").fetchone() == (None,):
        return []
    found = connection.execute("SELECT book FROM holdfast_events WHERE sequence = 1 ORDER BY book").fetchall()
    return [name for (name,) in found]


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
        for kept, content in _rows(connection, "holdfast_kept", "name, content", name):
            lines.keep(kept, bytes(content))
    finally:
        lines.close()
    with closing(sqlite3.connect(path)) as database:
        for (secret,) in _rows(connection, "holdfast_secrets", "value", name):
            database.execute(_SECRET)
            database.execute("INSERT INTO secret VALUES (?)", (secret,))
        database.commit()
        database.execute("PRAGMA journal_mode = DELETE")


def _rows(connection: Any, table: str, columns: str, book: str) -> list[Any]:
    """Rows of a book in a table that may not be there."""
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
        return []
    rows: list[Any] = connection.execute(f"SELECT {columns} FROM {table} WHERE book = %s", (book,)).fetchall()
    return rows


def _load_into_postgres(connection: Any, name: str, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, connection.cursor() as cursor:
        listed = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {table for (table,) in listed.fetchall()}
        found = database.execute(
            "SELECT sequence, kind, subject, request, body, digest FROM events ORDER BY sequence"
        )
        insert = "INSERT INTO holdfast_events VALUES (%s, %s, %s, %s, %s, %s, %s)"
        while page := found.fetchmany(_PAGE):
            cursor.executemany(insert, [(name, *row) for row in page])
        if "secret" in tables:
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS holdfast_secrets (book TEXT PRIMARY KEY, value TEXT NOT NULL)"
            )
            for (secret,) in database.execute("SELECT value FROM secret"):
                cursor.execute("INSERT INTO holdfast_secrets VALUES (%s, %s)", (name, secret))
        if "kept" in tables:
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS holdfast_kept (book TEXT, name TEXT, content BYTEA NOT NULL, "
                "PRIMARY KEY (book, name))"
            )
            for kept, content in database.execute("SELECT name, content FROM kept"):
                cursor.execute("INSERT INTO holdfast_kept VALUES (%s, %s, %s)", (name, kept, content))


def _require_chain(path: Path) -> None:
    book = Book(path)
    try:
        for _ in book.lines():
            pass
    finally:
        book.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
