"""Lines in a PostgreSQL database: for several processes or machines that share one account."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import MissingExtra
from holdfast.ledger._event import BookError, Line, closed_book
from holdfast.ledger._places import BOOK

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
_SECRETS = "CREATE TABLE holdfast_secrets (book TEXT PRIMARY KEY, value TEXT NOT NULL)"
_KEPT = (
    "CREATE TABLE IF NOT EXISTS holdfast_kept (book TEXT, name TEXT, content BYTEA NOT NULL, "
    "PRIMARY KEY (book, name))"
)
_COLUMNS = "sequence, kind, subject, request, body, digest"
_ROW = "(%s, %s::bigint, %s, %s, %s, %s, %s)"
_LAST = "(SELECT digest FROM holdfast_events WHERE book = %s ORDER BY sequence DESC LIMIT 1)"
# Held while the table is made, so that two processes that start together do not make it twice.
_SCHEMA_LOCK = 0x686F6C64


class PostgresLines:
    """The lines of one book, named by ``?holdfast_book=name`` in the URL ("default" without)."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("postgres", what="An account book in PostgreSQL") from None
        self._database: Any = psycopg
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        self._book = options.pop(BOOK, "default")
        # The URL may hold a password: messages name the database and the book only.
        self.name = f"{self._book!r} in PostgreSQL ({parts.hostname or 'local'}{parts.path})"
        self._lock = RLock()
        self._left = False
        try:
            self._connection = psycopg.connect(
                urlunsplit(parts._replace(query=urlencode(options))), autocommit=True
            )
            with self._connection.transaction():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                if not self._ready():
                    self._connection.execute(_SCHEMA)
            # An answer leaves only after its line is on disk, whatever the server's default is.
            self._connection.execute("SET synchronous_commit = 'on'")
        except psycopg.Error as error:
            raise BookError(
                f"The account book {self.name} cannot be opened: {type(error).__name__}."
            ) from None

    def append(self, previous: str, lines: Sequence[Line]) -> bool:
        """Write the lines if the last one has the digest ``previous`` ("": if there is none); False if it has
        not.

        Two that look at the same time would write the same line, which the second is refused.
        """
        rows = ", ".join([_ROW] * len(lines))
        written = [value for line in lines for value in (self._book, *line)]
        with self._lock:
            try:
                done = self._connection.execute(
                    f"INSERT INTO holdfast_events SELECT * FROM (VALUES {rows}) AS said "
                    f"WHERE coalesce({_LAST}, '') = %s",
                    (*written, self._book, previous),
                )
            except self._database.errors.UniqueViolation:
                return False
            except self._database.Error as error:
                raise self._failed("written", error) from None
        return int(done.rowcount) == len(lines)

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
        """What the book keeps to itself: made once, in a table beside the lines."""
        with self._lock:
            try:
                with self._connection.transaction():
                    self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                    if self._connection.execute("SELECT to_regclass('holdfast_secrets')").fetchone() == (
                        None,
                    ):
                        self._connection.execute(_SECRETS)
                    self._connection.execute(
                        "INSERT INTO holdfast_secrets VALUES (%s, %s) ON CONFLICT DO NOTHING",
                        (self._book, secrets.token_hex(32)),
                    )
                    found = self._connection.execute(
                        "SELECT value FROM holdfast_secrets WHERE book = %s", (self._book,)
                    ).fetchone()
            except self._database.Error as error:
                raise self._failed("written", error) from None
        return str(found[0])

    def keep(self, name: str, content: bytes) -> None:
        """Keep bytes in a table beside the lines."""
        with self._lock:
            try:
                with self._connection.transaction():
                    self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
                    self._connection.execute(_KEPT)
                    self._connection.execute(
                        "INSERT INTO holdfast_kept VALUES (%s, %s, %s) "
                        "ON CONFLICT (book, name) DO UPDATE SET content = excluded.content",
                        (self._book, name, content),
                    )
            except self._database.Error as error:
                raise self._failed("written", error) from None

    def kept(self, name: str) -> bytes | None:
        """The bytes that are kept under a name."""
        with self._lock:
            try:
                if self._connection.execute("SELECT to_regclass('holdfast_kept')").fetchone() == (None,):
                    return None
                found = self._connection.execute(
                    "SELECT content FROM holdfast_kept WHERE book = %s AND name = %s", (self._book, name)
                ).fetchone()
            except self._database.Error as error:
                raise self._failed("read", error) from None
        return None if found is None else bytes(found[0])

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._left = True
            self._connection.close()

    def _ready(self) -> bool:
        found = self._connection.execute(
            "SELECT 1 FROM pg_trigger WHERE tgname = 'no_change' AND tgrelid = to_regclass('holdfast_events')"
        )
        return found.fetchone() is not None

    def _first(self, condition: str, *values: object) -> Line | None:
        found = self._select(condition, *values)
        return found[0] if found else None

    def _select(self, condition: str, *values: object) -> list[Line]:
        with self._lock:
            try:
                rows = self._connection.execute(
                    f"SELECT {_COLUMNS} FROM holdfast_events WHERE book = %s {condition}",
                    (self._book, *values),
                )
                return [Line(*row) for row in rows]
            except self._database.Error as error:
                raise self._failed("read", error) from None

    def _failed(self, done: str, error: Exception) -> BookError:
        if self._left:
            return closed_book(self.name)
        return BookError(f"The account book {self.name} cannot be {done}: {type(error).__name__}.")
