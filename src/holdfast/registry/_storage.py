"""Where a service keeps its data: tables beside the books, allowed sources, and digests of rows.

With books in files, each kind of table is a SQLite file in the service's folder. With books in PostgreSQL,
all of it is in tables of that database, so every machine that shares the books has the same data.

Guarantee of :class:`Contents`, so that no rows get a second account: a table whose rows are those of a
registered one, in any order, format, file or database, is refused, with a column that numbers them or
without. So is a large table at the same place, or a large file of the same length and ends. Independent
tables are mistaken for the same with probability at most 1e-9. A refusal says that two whole tables are the
same. Only a person who holds such a table can cause it, so it reveals nothing new about protected rows.
Tables that share only some rows are accepted: the owner must know that the rows are in no other table.
Digests are made with a secret of the service, and are in no export.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

import numpy as np
from scipy import special

from holdfast.engines import Rows as SourceRows
from holdfast.engines import is_database, open_rows, shown
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.ledger import Book, Marks, PostgresDatabase, SigningKey, Unreachable, open_database

_BRACKETED = re.compile(r"\[(\w+)\]")
# This lock is held while tables are made, so two services that start together do not make them twice.
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
            self._connection = open_database(self, path)
        except sqlite3.Error as error:
            raise _unusable(error) from None

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run one statement."""
        with self._lock:
            try:
                cursor = self._connection.execute(statement, tuple(values))
                return Rows(cursor.fetchall(), cursor.rowcount)
            except sqlite3.Error as error:
                raise _unusable(error) from None

    def make(self, schema: str) -> None:
        """Make the tables that do not exist yet."""
        with self._lock:
            try:
                self._connection.executescript(schema)
            except sqlite3.Error as error:
                raise _unusable(error) from None

    def changes(self) -> int:
        """A number that differs after another process has changed the file."""
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
            self._database = PostgresDatabase.at(address)
        except HoldfastError:
            raise
        except Exception as error:
            raise _unusable(error) from None
        self.make("")

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Rows:
        """Run one statement. After a lost connection, a query is repeated and a change is not."""
        text = _BRACKETED.sub(r"holdfast_\1", statement).replace("?", "%s")
        reads = statement.startswith("SELECT")

        def run(connection: Any) -> Rows:
            with connection.transaction():
                cursor = connection.execute(text, tuple(values))
                result = Rows(cursor.fetchall() if cursor.description else [], cursor.rowcount)
                if not reads:
                    connection.execute("UPDATE holdfast_changes SET number = number + 1")
            return result

        result: Rows = self._run(run, retry=reads)
        return result

    def make(self, schema: str) -> None:
        """Make the tables that do not exist yet."""
        text = _BRACKETED.sub(r"holdfast_\1", schema).replace("INTEGER", "BIGINT").replace(") STRICT;", ");")
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

        self._run(run, retry=True)

    def changes(self) -> int:
        """A number that grows with every change, whichever machine makes it."""
        return int(self._run(_changes, retry=True))

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

    def _run(self, work: Callable[[Any], Any], *, retry: bool) -> Any:
        try:
            return self._database.run(work) if retry else self._database.run_once(work)
        except Unreachable as error:
            raise _unusable(error) from None
        except Exception as error:
            if type(error).__module__.startswith("psycopg"):
                raise _unusable(error) from None
            raise


def make_private(path: Path) -> None:
    """Create a file that only its owner can read. If the file exists, remove the rights of others."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError:
        pass  # Opening the file reports what is wrong.


def adopt(store: Store, path: Path, table: str, columns: Sequence[str]) -> None:
    """Copy what a file has into the table, if the table is empty: after a restore, or from an earlier version
    that kept it in files. A crash in between leaves nothing, so that the next start copies all.

    A table that ever had rows is left alone. So tokens that an operator deleted do not come back.
    """
    if not store.remote or not path.is_file():
        return
    store.make(_ADOPTED_SCHEMA)
    if store.execute("SELECT 1 FROM [adopted] WHERE name = ?", (table,)).fetchone() is not None:
        return
    if store.execute(f"SELECT 1 FROM [{table}] LIMIT 1").fetchone() is None:
        _copy(store, path, table, columns)
    if store.execute(f"SELECT 1 FROM [{table}] LIMIT 1").fetchone() is not None:
        store.execute("INSERT INTO [adopted] (name) VALUES (?) ON CONFLICT DO NOTHING", (table,))


_ADOPTED_SCHEMA = """
CREATE TABLE IF NOT EXISTS [adopted] (
    name TEXT PRIMARY KEY
) STRICT;
"""
# PostgreSQL takes at most 65,535 values with a statement.
_MOST_VALUES = 60_000


def _copy(store: Store, path: Path, table: str, columns: Sequence[str]) -> None:
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    rows = list(rows_of(path, f"SELECT {names} FROM {table} ORDER BY rowid"))
    most = _MOST_VALUES // len(columns)
    for start in range(0, len(rows), most):
        some = rows[start : start + most]  # In one statement, which is one transaction.
        values = ", ".join([f"({places})"] * len(some))
        statement = f"INSERT INTO [{table}] ({names}) VALUES {values} ON CONFLICT DO NOTHING"
        store.execute(statement, [value for row in some for value in row])


def rows_of(path: Path, statement: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a query of a SQLite file; none if the file has no such table."""
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
    reason = "the database does not answer" if isinstance(error, Unreachable) else type(error).__name__
    return StoreError(
        f"What the service keeps about tokens and tables cannot be read or written ({reason}). Check the "
        "disk and the database, then try again. List the tokens or datasets to see whether the last "
        "change was made."
    )


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_EPOCH = re.compile(r"(.*)@([1-9][0-9]{0,8})", flags=re.S)
_ALLOWED = "a file in the folder of sources, or a table of a database that --allow-source allows"
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "clickhouse": 8123}


class Unknown(HoldfastError):
    """The thing does not exist, or this token does not reach it. The error does not say which."""


class Conflict(HoldfastError):
    """The current state does not allow the act. The message says what to do first."""


class Broken(HoldfastError):
    """Something that was registered can no longer be opened. The reason shows no path of the server."""


def require_name(name: str) -> None:
    """Refuse a name that could not be part of an address and of a file."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "name", "lower-case letters, digits, - and _, at most 63", name, of="a dataset or board"
        )


def named(address: str) -> tuple[str, int | None]:
    """The name of a dataset, and the number of its epoch if the address has one.

    >>> named("people@2"), named("people")
    (('people', 2), ('people', None))
    """
    parts = _EPOCH.fullmatch(address)
    return (address, None) if parts is None else (parts[1], int(parts[2]))


@dataclass(frozen=True)
class Places:
    """The folder of sources, the books, and the key they are signed with.

    ``books`` is a PostgreSQL URL, or None for files in the service's folder. ``allow`` are the beginnings of
    addresses of databases whose tables may be registered. Where ``shared``, other processes of this machine
    serve the same folder.
    """

    home: Path
    sources: Path
    key: SigningKey
    books: str | None
    allow: tuple[str, ...] = ()
    shared: bool = False

    @property
    def all_books(self) -> str | Path:
        """Where the books are: a PostgreSQL URL, or the folder of files."""
        return self.home / "books" if self.books is None else self.books

    def allowed(self, source: str) -> str:
        """A source as it is recorded: the address of an allowed database, or the path of a file inside the
        folder of sources, relative to it. Machines may have that folder in different places."""
        if "://" in source:
            try:
                if is_database(source) and any(_within(source, prefix) for prefix in self.allow):
                    return source
                named_safely = shown(source)
            except ValueError:
                named_safely = "an address that cannot be read"
            raise InvalidArgument("source", _ALLOWED, named_safely, of="a dataset or board")
        place = self._inside(source)
        if place is None:
            raise InvalidArgument("source", _ALLOWED, source, of="a dataset or board")
        return place.relative_to(self.sources.resolve()).as_posix()

    def place(self, source: str) -> str:
        """What to open for a recorded source."""
        if "://" in source:
            return source
        place = self._inside(source)
        if place is None:
            raise Broken(f"The file {shown(source)!r} is not in the folder of sources any more. Restore it.")
        return str(place)

    @contextmanager
    def without_paths(self) -> Iterator[None]:
        """Remove the server's own paths from errors that are raised inside."""
        try:
            yield
        except HoldfastError as error:
            folders = {self.sources, self.sources.resolve(), self.home, self.home.resolve(), Path.cwd()}
            text = str(error)
            for folder in sorted(
                (str(folder_path) for folder_path in folders if len(folder_path.parts) > 1),
                key=len,
                reverse=True,
            ):
                text = text.replace(f"{folder}/", "").replace(folder, "the server's folder")
            if text != str(error):
                error.args = (text,)
            raise

    def _inside(self, source: str) -> Path | None:
        """The file that a source names, if it is in the folder after links are followed."""
        try:
            folder = self.sources.resolve()
            path = (folder / source).resolve()
            return path if path.is_relative_to(folder) and path.is_file() else None
        except (OSError, ValueError):  # A name that is too long, or that no file can have.
            return None

    def book(self, name: str, *, marked: bool = True) -> Book:
        """The account book of this name, compared with its mark."""
        marks = Marks(self.home / "marks") if marked else None
        turns = self.home / "turns" / name if self.shared else None
        if self.books is not None:
            joint = "&" if "?" in self.books else "?"
            return Book(
                f"{self.books}{joint}holdfast_book={quote(name)}", key=self.key, marks=marks, turns=turns
            )
        folder = self.home / "books"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{name}.holdfast"
        make_private(path)
        return Book(path, key=self.key, marks=marks, turns=turns)

    def store(self, kind: str) -> Store:
        """The store for one kind of thing. It is in the database of the books if they are in a database."""
        return SqliteStore(self.home / f"{kind}.sqlite") if self.books is None else PostgresStore(self.books)


def _within(source: str, prefix: str) -> bool:
    """Whether an address begins with an allowed prefix: it has the same kind of database. It also has the
    same machine, port, person, database and options, if the prefix states them. An option could name another
    machine.

    >>> _within("postgres://ann@db.example/town#trips", "postgresql://db.example")
    True
    >>> _within("postgres://db.example@elsewhere/town#trips", "postgresql://db.example")
    False
    """
    address, allowed = urlsplit(source), urlsplit(prefix)
    if _scheme(address) != _scheme(allowed):
        return False
    if not (allowed.netloc or allowed.path or allowed.query):
        return True
    machine = (address.hostname or "") == (allowed.hostname or "") and _port(address) == _port(allowed)
    person = allowed.username in (None, "", address.username)
    options = parse_qs(allowed.query, keep_blank_values=True)
    same_options = all(
        options.get(name) == value for name, value in parse_qs(address.query, keep_blank_values=True).items()
    )
    path, allowed_path = unquote(address.path), allowed.path.rstrip("/")
    path_is_inside = ".." not in path.split("/") and (
        not allowed_path or path == allowed_path or path.startswith(f"{allowed_path}/")
    )
    return machine and person and same_options and path_is_inside


def _scheme(address: SplitResult) -> str:
    return "postgresql" if address.scheme == "postgres" else address.scheme


def _port(address: SplitResult) -> int | None:
    return address.port or _PORTS.get(_scheme(address))


CONTENTS_SCHEMA = """
CREATE TABLE IF NOT EXISTS [contents] (
    digest TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS [contents_secret] (
    id INTEGER PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
"""
_MISTAKEN = 1e-9
_SAMPLED_BYTES = 1 << 18
_log = logging.getLogger("holdfast.server")


class Contents:
    """The digests of every table that a service has registered, and whose they are.

    Args:
        store: where they are.
        kept: a file of them, from a restored backup. The store adopts it if it has no digests yet.
    """

    def __init__(self, store: Store, kept: Path) -> None:
        self._store = store
        store.make(CONTENTS_SCHEMA)
        # Digests first: without the secret they were made with, they are copied again.
        if store.execute("SELECT 1 FROM [contents_secret]").fetchone() is None:
            adopt(store, kept, "contents", ("digest", "kind", "name"))
            adopt(store, kept, "contents_secret", ("id", "value"))
        store.execute(
            "INSERT INTO [contents_secret] (id, value) VALUES (1, ?) ON CONFLICT DO NOTHING",
            (secrets.token_hex(32),),
        )
        (value,) = store.execute("SELECT value FROM [contents_secret]").fetchone()
        self._key = bytes.fromhex(value)

    def claim(self, rows: SourceRows, place: str, kind: str, name: str) -> str | None:
        """Record that these rows belong to a dataset or board. Refuse them if they belong to another one.
        Returns the digest if it is new. A registration that fails releases it with :meth:`release`."""
        digest = self._digest(rows, place)
        inserted = self._store.execute(
            "INSERT INTO [contents] (digest, kind, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (digest, kind, name),
        )
        if inserted.rowcount == 1:
            return digest
        owner = self._store.execute("SELECT kind, name FROM [contents] WHERE digest = ?", (digest,))
        if owner.fetchone() not in ((kind, name), None):
            other_kind, other_name = owner.fetchone()
            raise InvalidArgument(
                "source",
                f"rows that are not registered yet; these are the rows of the {other_kind} {other_name!r}, "
                "and a second account on them would break the promise of the first. Nothing was changed",
                Path(urlsplit(place).path).name,
                of=f"the {kind} {name!r}",
            )
        return None

    def release(self, digest: str | None) -> None:
        """Remove the claim on rows whose registration failed."""
        if digest is not None:
            self._store.execute("DELETE FROM [contents] WHERE digest = ?", (digest,))

    def catch_up(self, place: str, kind: str, name: str) -> None:
        """Claim rows that an earlier version registered without a claim. If another dataset or board already
        has them, both continue, and the log says so: their accounts were opened before there was a check."""
        row = self._store.execute("SELECT 1 FROM [contents] WHERE kind = ? AND name = ?", (kind, name))
        if row.fetchone() is not None:
            return
        try:
            self.claim(open_rows(place), place, kind, name)
        except InvalidArgument as error:
            _log.error("the %s %s continues, though its rows are registered twice: %s", kind, name, error)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _digest(self, rows: SourceRows, place: str) -> str:
        try:
            content = self._rows(rows) if rows.is_small or not rows.stays else _place_digest(place)
        except HoldfastError:
            raise
        except Exception:  # Its text may quote a value.
            raise QueryRejected(
                "The rows could not be read to compare them with what is registered. Nothing was changed. "
                "Open the table with holdfast.Guard to see which column cannot be read."
            ) from None
        return hmac.new(self._key, content, "sha256").hexdigest()

    def _rows(self, rows: SourceRows) -> bytes:
        """The digest of all rows. Their order is ignored if the rows identify the table without it."""
        # A copy may have an extra column that only numbers its rows. Such columns are used only if the others
        # do not identify the table.
        numbering = rows.numbering()
        columns = [name for name in rows.columns if name not in numbering]
        hashes = rows.row_hashes(self._key, columns) if columns else np.zeros(1, dtype=np.uint64)
        distinctive = _identify_table(hashes)
        if not distinctive and numbering:
            columns = list(rows.columns)
            hashes = rows.row_hashes(self._key, columns)
            distinctive = _identify_table(hashes)
        ordered = np.sort(hashes) if distinctive or not rows.has_order else hashes
        names = "\n".join(sorted(columns))
        return hashlib.sha256(f"rows\n{names}\n".encode() + ordered.astype("<u8").tobytes()).digest()


def _identify_table(hashes: Any) -> bool:
    """Whether the rows identify their table: an independent table from the same distribution has the same
    rows, in any order, with probability at most 1e-9. The probability is computed for the distribution with
    the observed shares, which makes these counts most likely."""
    _, counts = np.unique(hashes, return_counts=True)
    rows = len(hashes)
    log_probability = (
        special.gammaln(rows + 1)
        - special.gammaln(counts + 1).sum()
        + float((counts * np.log(counts / rows)).sum())
    )
    return bool(log_probability <= math.log(_MISTAKEN))


def _place_digest(place: str) -> bytes:
    """The identity of a table that is too large to read for a digest: its place in its database, or the
    length and the ends of its file."""
    if "://" in place:
        parts = urlsplit(place)
        address = (
            f"{_scheme(parts)}://{parts.hostname}:{parts.port}{parts.path}?{parts.query}#{parts.fragment}"
        )
        return hashlib.sha256(f"table\n{address}".encode()).digest()
    path = Path(place)
    size = path.stat().st_size
    digest = hashlib.sha256(f"file\n{size}\n".encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLED_BYTES))
        file.seek(max(0, size - _SAMPLED_BYTES))
        digest.update(file.read(_SAMPLED_BYTES))
    return digest.digest()
