"""Lines in a PostgreSQL database: for several processes or machines that share one account.

All books of a process in one database share its connections. A database that restarts closes them. Work that
is safe to repeat is then repeated on a new connection, until it succeeds or ``PATIENCE`` is over.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import MissingExtra
from holdfast.ledger._lines import BookError, Line, closed_book
from holdfast.ledger._places import BOOK

_Result = TypeVar("_Result")

# How many seconds we wait for a database that restarts, and the pause between two tries.
PATIENCE = 10.0
_PAUSE = 0.1
_MOST_CONNECTIONS = 8
# Errors that are not about the statement: the server stops, starts, or takes no more connections. An error
# without a code means that the connection is lost.
_PASSING = ("57P01", "57P02", "57P03", "53300")

_shared: dict[tuple[int, str], PostgresDatabase] = {}
_lock = Lock()

_SCHEMA = """
CREATE TABLE IF NOT EXISTS holdfast_events (
    book TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    request TEXT NOT NULL,
    body TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (book, sequence)
);
CREATE INDEX IF NOT EXISTS holdfast_by_subject ON holdfast_events (book, subject, kind) WHERE subject <> '';
CREATE INDEX IF NOT EXISTS holdfast_by_request ON holdfast_events (book, request) WHERE request <> '';
CREATE INDEX IF NOT EXISTS holdfast_checkpoints ON holdfast_events (book, sequence) WHERE kind = 'checkpoint';
CREATE OR REPLACE FUNCTION holdfast_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the account book is append-only'; END $$;
CREATE OR REPLACE TRIGGER no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON holdfast_events
    FOR EACH STATEMENT EXECUTE FUNCTION holdfast_append_only();
"""
SECRETS_TABLE = "CREATE TABLE IF NOT EXISTS holdfast_secrets (book TEXT PRIMARY KEY, value TEXT NOT NULL)"
KEPT_TABLE = (
    "CREATE TABLE IF NOT EXISTS holdfast_kept (book TEXT, name TEXT, content BYTEA NOT NULL, "
    "PRIMARY KEY (book, name))"
)
_COLUMNS = "sequence, kind, subject, request, body, digest"
_ROW = "(%s, %s::bigint, %s, %s, %s, %s, %s)"
_LAST = "(SELECT digest FROM holdfast_events WHERE book = %s ORDER BY sequence DESC LIMIT 1)"
# Held while the table is made, so that two processes that start together do not make it twice.
_SCHEMA_LOCK = 0x686F6C64


class Unreachable(Exception):
    """The database did not answer within the time that we wait for it."""


class PostgresDatabase:
    """One database. All its users in this process share a few connections. Each user calls :meth:`close`;
    the last call closes the connections."""

    def __init__(self, address: str) -> None:
        psycopg, pool = _psycopg()
        self._errors: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.InterfaceError)
        self._key = os.getpid(), address
        self._shares = 0
        self._pool = pool.ConnectionPool(
            address,
            kwargs={"autocommit": True},
            min_size=0,
            max_size=_MOST_CONNECTIONS,
            configure=_durable,
            open=False,
            num_workers=1,
            # A pool that gave up tries again at the next request, so it works again soon after the database.
            reconnect_timeout=1.0,
        )

    @classmethod
    def at(cls, address: str) -> PostgresDatabase:
        """The database of this address. This process connects once when it first uses the address, so a wrong
        address is refused at once."""
        with _lock:
            database = _shared.get((os.getpid(), address))
            if database is None:
                _psycopg()[0].connect(address).close()
                database = _shared[os.getpid(), address] = cls(address)
                database._pool.open()
            database._shares += 1
        return database

    def run(self, work: Callable[[Any], _Result], *, patience: float = PATIENCE) -> _Result:
        """What ``work`` returns for a connection. If the connection is lost, ``work`` is called again on
        another one, so doing it twice must be the same as doing it once."""
        end = time.monotonic() + patience
        while True:
            try:
                with self._pool.connection(timeout=max(0.01, end - time.monotonic())) as connection:
                    return work(connection)
            except self._errors as error:
                if not _passes(error):
                    raise
                if time.monotonic() + _PAUSE >= end:
                    raise Unreachable from None
            time.sleep(_PAUSE)

    def run_once(self, work: Callable[[Any], _Result]) -> _Result:
        """What ``work`` returns, for work that must not be done twice. It starts only on a connection that
        has just answered. If that is lost in the middle, it is unknown whether the work was done."""
        begun = False

        def begin_once(connection: Any) -> _Result:
            nonlocal begun
            if begun:
                raise Unreachable
            connection.execute("SELECT 1")
            begun = True
            return work(connection)

        return self.run(begin_once)

    def close(self) -> None:
        """Stop using the connections. The last user closes them."""
        with _lock:
            self._shares -= 1
            if self._shares:
                return
            _shared.pop(self._key, None)
        self._pool.close()


def _psycopg() -> tuple[Any, Any]:
    try:
        import psycopg
        import psycopg_pool
    except ImportError:
        raise MissingExtra("postgres", what="An account book in PostgreSQL") from None
    return psycopg, psycopg_pool


def _durable(connection: Any) -> None:
    # An answer leaves only after its line is on disk, whatever the server's default is.
    connection.execute("SET synchronous_commit = 'on'")


def _passes(error: Exception) -> bool:
    """Whether the error is temporary: the same work may succeed in a moment."""
    code = getattr(error, "sqlstate", None)
    return code is None or code.startswith("08") or code in _PASSING


class PostgresLines:
    """The lines of one book, named by ``?holdfast_book=name`` in the URL ("default" without).

    We wait for a database that restarts. When a connection is lost after lines were sent, their digest is
    looked up in the book before they are sent again.
    """

    def __init__(self, url: str) -> None:
        address, self._book = split_address(url)
        parts = urlsplit(address)
        # The URL may hold a password: messages name the database and the book only.
        self.name = f"{self._book!r} in PostgreSQL ({parts.hostname or 'local'}{parts.path})"
        self._closed = False
        try:
            self._database = PostgresDatabase.at(address)
        except MissingExtra:
            raise
        except Exception as error:
            raise self._cannot_open(error) from None
        try:
            self._database.run(_make_tables)
        except Exception as error:
            self._database.close()
            raise self._cannot_open(error) from None

    def append(self, previous: str, lines: Sequence[Line]) -> bool:
        """Write the lines if the last one has the digest ``previous`` ("": if there is none); False if it has
        not.

        Two processes that look at the same time would write a line with the same number. The database refuses
        the second one.
        """
        rows = ", ".join([_ROW] * len(lines))
        values = [value for line in lines for value in (self._book, *line)]
        tries = 0

        def write(connection: Any) -> bool:
            nonlocal tries
            tries += 1
            if tries > 1 and self._has(connection, lines[-1]):
                return True
            try:
                done = connection.execute(
                    f"INSERT INTO holdfast_events SELECT * FROM (VALUES {rows}) AS lines "
                    f"WHERE coalesce({_LAST}, '') = %s",
                    (*values, self._book, previous),
                )
                written = int(done.rowcount) == len(lines)
            except Exception as error:
                if type(error).__name__ != "UniqueViolation":
                    raise
                written = False
            # A first try that seemed lost may have been written while the second try looked.
            return written or (tries > 1 and self._has(connection, lines[-1]))

        return self._run("written", write)

    def _has(self, connection: Any, line: Line) -> bool:
        """Whether a line is in the book: its digest stands for it and for all lines before it."""
        row = connection.execute(
            "SELECT digest FROM holdfast_events WHERE book = %s AND sequence = %s",
            (self._book, line.sequence),
        ).fetchone()
        return row is not None and row[0] == line.digest

    def page(self, first: int, limit: int) -> list[Line]:
        """At most ``limit`` lines from sequence ``first`` on, in order."""
        return self._select("AND sequence >= %s ORDER BY sequence LIMIT %s", first, limit)

    def about(self, subject: str, kind: str) -> Line | None:
        """The last line of a kind about a subject."""
        return self._first(
            "AND subject = %s AND subject <> '' AND kind = %s ORDER BY sequence DESC LIMIT 1", subject, kind
        )

    def requested(self, request: str) -> Line | None:
        """The first line that a request led to."""
        return self._first("AND request = %s AND request <> '' ORDER BY sequence LIMIT 1", request)

    def checkpoint(self, before: int) -> Line | None:
        """The last checkpoint ahead of sequence ``before``."""
        return self._first("AND kind = 'checkpoint' AND sequence < %s ORDER BY sequence DESC LIMIT 1", before)

    def secret(self) -> str:
        """The secret of the book: made once, in a table beside the lines."""

        def made_once(connection: Any) -> str:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                if connection.execute("SELECT to_regclass('holdfast_secrets')").fetchone() == (None,):
                    connection.execute(SECRETS_TABLE)
                connection.execute(
                    "INSERT INTO holdfast_secrets VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (self._book, secrets.token_hex(32)),
                )
                (value,) = connection.execute(
                    "SELECT value FROM holdfast_secrets WHERE book = %s", (self._book,)
                ).fetchone()
            return str(value)

        return self._run("written", made_once)

    def keep(self, name: str, content: bytes) -> None:
        """Keep bytes in a table beside the lines."""

        def replace(connection: Any) -> None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                connection.execute(KEPT_TABLE)
                connection.execute(
                    "INSERT INTO holdfast_kept VALUES (%s, %s, %s) "
                    "ON CONFLICT (book, name) DO UPDATE SET content = excluded.content",
                    (self._book, name, content),
                )

        self._run("written", replace)

    def kept(self, name: str) -> bytes | None:
        """The bytes that are kept under a name."""

        def look(connection: Any) -> bytes | None:
            if connection.execute("SELECT to_regclass('holdfast_kept')").fetchone() == (None,):
                return None
            row = connection.execute(
                "SELECT content FROM holdfast_kept WHERE book = %s AND name = %s", (self._book, name)
            ).fetchone()
            return None if row is None else bytes(row[0])

        return self._run("read", look)

    def close(self) -> None:
        """Give the connections back."""
        if not self._closed:
            self._closed = True
            self._database.close()

    def _first(self, condition: str, *values: object) -> Line | None:
        lines = self._select(condition, *values)
        return lines[0] if lines else None

    def _select(self, condition: str, *values: object) -> list[Line]:
        def select(connection: Any) -> list[Line]:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM holdfast_events WHERE book = %s {condition}", (self._book, *values)
            )
            return [Line(*row) for row in rows]

        return self._run("read", select)

    def _cannot_open(self, error: Exception) -> BookError:
        return BookError(f"The account book {self.name} cannot be opened: {type(error).__name__}.")

    def _run(self, action: str, work: Callable[[Any], _Result]) -> _Result:
        if self._closed:
            raise closed_book(self.name)
        try:
            return self._database.run(work)
        except Unreachable:
            reason = "the database does not answer"
        except Exception as error:
            reason = type(error).__name__
        if self._closed:
            raise closed_book(self.name)
        raise BookError(f"The account book {self.name} cannot be {action}: {reason}.")


def split_address(url: str) -> tuple[str, str]:
    """The address of the database, and the name of the book in it."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    book = options.pop(BOOK, "default")
    return urlunsplit(parts._replace(query=urlencode(options))), book


def _make_tables(connection: Any) -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        ready = connection.execute(
            "SELECT 1 FROM pg_trigger WHERE tgname = 'no_change' AND tgrelid = to_regclass('holdfast_events')"
        )
        if ready.fetchone() is None:
            connection.execute(_SCHEMA)
