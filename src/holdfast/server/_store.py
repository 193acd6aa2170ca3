"""Where a service keeps what it knows beside the books: tokens, policies and what is registered.

With books in files, each kind is a SQLite file in the service's folder. With books in PostgreSQL all of it is
in tables of that database, so that every machine that shares the books knows the same.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from holdfast.errors import HoldfastError
from holdfast.ledger._pool import Database, Unreachable

_NAME = re.compile(r"\[(\w+)\]")
# Held while tables are made, so that two services that start together do not make them twice.
_SCHEMA_LOCK = 0x686F6C65
_CHANGES = """
CREATE TABLE IF NOT EXISTS holdfast_changes (number BIGINT NOT NULL);
INSERT INTO holdfast_changes SELECT 0 WHERE NOT EXISTS (SELECT * FROM holdfast_changes);
"""


class StoreError(HoldfastError):
    """What the service keeps beside the books could not be read or written."""


class Rows(list[tuple[Any, ...]]):
    """The rows of a result, and how many rows a statement changed."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], rowcount: int) -> None:
        super().__init__(rows)
        self.rowcount = rowcount

    def fetchone(self) -> Any:
        """The first row; None without one."""
        return self[0] if self else None

    def fetchall(self) -> list[Any]:
        """All rows."""
        return list(self)


class Store(Protocol):
    """Tables of one kind of thing. Statements name a table in brackets, ``[tokens]``, and have ``?`` for
    values; each is one transaction."""

    remote: bool
    """Whether to look something up may take as long as a network does."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows: ...
    def make(self, schema: str) -> None: ...
    def changes(self) -> int: ...
    def close(self) -> None: ...


class SqliteStore:
    """Tables in one SQLite file, readable by its owner only."""

    remote = False

    def __init__(self, path: Path | str) -> None:
        self._lock = RLock()
        make_private(Path(path))
        try:
            self._connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=30
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise _unusable(error) from None

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run one statement."""
        with self._lock:
            try:
                done = self._connection.execute(statement, tuple(values))
                return Rows(done.fetchall(), done.rowcount)
            except sqlite3.Error as error:
                raise _unusable(error) from None

    def make(self, schema: str) -> None:
        """Make the tables that are not there yet."""
        with self._lock:
            try:
                self._connection.executescript(schema)
            except sqlite3.Error as error:
                raise _unusable(error) from None

    def changes(self) -> int:
        """A number that is another one once another process has changed the file."""
        (number,) = self.execute("PRAGMA data_version").fetchone()
        return int(number)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class PostgresStore:
    """Tables in the database of the books, each with ``holdfast_`` before its name."""

    remote = True

    def __init__(self, address: str) -> None:
        try:
            self._database = Database.at(address)
        except HoldfastError:
            raise
        except Exception as error:
            raise _unusable(error) from None
        self.make("")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run one statement. A look is repeated where a connection is lost; a change is not."""
        text = _NAME.sub(r"holdfast_\1", statement).replace("?", "%s")
        reads = statement.startswith("SELECT")

        def run(connection: Any) -> Rows:
            with connection.transaction():
                done = connection.execute(text, tuple(values))
                result = Rows(done.fetchall() if done.description else [], done.rowcount)
                if not reads:
                    connection.execute("UPDATE holdfast_changes SET number = number + 1")
            return result

        result: Rows = self._run(run, again=reads)
        return result

    def make(self, schema: str) -> None:
        """Make the tables that are not there yet."""
        text = _NAME.sub(r"holdfast_\1", schema).replace("INTEGER", "BIGINT").replace(") STRICT;", ");")
        # SQLite numbers the rows of every table by itself, as rowid, and a column "number" is the same there.
        numbered = r"\1\n    rowid BIGINT GENERATED ALWAYS AS IDENTITY,"
        text = re.sub(r"(CREATE TABLE IF NOT EXISTS \w+ \()", numbered, text)
        text = text.replace("\n    number BIGINT PRIMARY KEY,", "")

        def run(connection: Any) -> None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                connection.execute(_CHANGES)
                if text.strip():
                    connection.execute(text)

        self._run(run, again=True)

    def changes(self) -> int:
        """A number that grows with every change, whichever machine makes it."""
        return int(self._run(_changes, again=True))

    def problem(self, patience: float) -> str | None:
        """Why the database cannot be used; None if it can."""
        try:
            self._database.run(_changes, patience=patience)
        except Exception:
            return "The database of the account books does not answer."
        return None

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def _run(self, work: Callable[[Any], Any], *, again: bool) -> Any:
        try:
            return self._database.run(work) if again else self._database.run_once(work)
        except Unreachable as error:
            raise _unusable(error) from None
        except Exception as error:
            if type(error).__module__.startswith("psycopg"):
                raise _unusable(error) from None
            raise


def make_private(path: Path) -> None:
    """Make a file that its owner alone may read, if there is none; take others' rights away if there is."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError:
        pass  # Whoever opens it next says what is wrong.


def adopt(store: Store, path: Path, table: str, columns: Sequence[str]) -> None:
    """Take over what an earlier version kept in a file of its own, where nothing is in the table yet."""
    if not store.remote or not path.is_file():
        return
    if store.execute(f"SELECT 1 FROM [{table}] LIMIT 1").fetchone() is not None:
        return
    names = ", ".join(columns)
    for row in _rows_of(path, f"SELECT {names} FROM {table} ORDER BY rowid"):
        places = ", ".join("?" * len(columns))
        store.execute(f"INSERT INTO [{table}] ({names}) VALUES ({places}) ON CONFLICT DO NOTHING", row)


def _rows_of(path: Path, statement: str) -> Iterator[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        yield from database.execute(statement).fetchall()
    except sqlite3.OperationalError:
        return  # A file that an older version made has no such table.
    finally:
        database.close()


def _changes(connection: Any) -> int:
    (number,) = connection.execute("SELECT number FROM holdfast_changes").fetchone()
    return int(number)


def _unusable(error: Exception) -> StoreError:
    kind = "does not answer" if isinstance(error, Unreachable) else f"({type(error).__name__})"
    return StoreError(
        f"What the service keeps about tokens and tables cannot be read or written {kind}. Look at the disk "
        "and at the database, then try again: whether the last change was made is in the list."
    )
