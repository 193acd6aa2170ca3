"""The connections of this process to a PostgreSQL database, shared by all books in it.

A database that restarts closes its connections. What is safe to do twice is done again on a new connection,
until the database is back or patience ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from holdfast.errors import MissingExtra

_Result = TypeVar("_Result")

# How many seconds a restart of the database is waited for, and the pause between two tries.
PATIENCE = 10.0
_PAUSE = 0.1
_MOST_CONNECTIONS = 8
# Errors that say nothing about the statement: the server ends, starts, or takes no more connections. An error
# without a code is a connection that is gone.
_PASSING = ("57P01", "57P02", "57P03", "53300")

_shared: dict[tuple[int, str], Database] = {}
_lock = Lock()


class Unreachable(Exception):
    """The database did not answer for as long as it was waited for."""


class Database:
    """One database. Everything that is kept in it shares a few connections; :meth:`close` gives up one share,
    and the last one closes them."""

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
            # A pool that gave up tries again for the next who asks, and so is back soon after the database.
            reconnect_timeout=1.0,
        )

    @classmethod
    def at(cls, address: str) -> Database:
        """The database of this address. It is tried once when this process first comes to it, so that an
        address that leads nowhere is refused at once."""
        with _lock:
            known = _shared.get((os.getpid(), address))
            if known is None:
                _psycopg()[0].connect(address).close()
                known = _shared[os.getpid(), address] = cls(address)
                known._pool.open()
            known._shares += 1
        return known

    def run(self, work: Callable[[Any], _Result], *, patience: float = PATIENCE) -> _Result:
        """What ``work`` returns for a connection. It is called again on another connection where one is lost,
        so doing it twice must be the same as doing it once."""
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
        """The same for what must not be done twice: it begins only on a connection that was just heard from,
        and where that is lost in the middle, nobody knows whether it was done."""
        begun = False

        def heard(connection: Any) -> _Result:
            nonlocal begun
            if begun:
                raise Unreachable
            connection.execute("SELECT 1")
            begun = True
            return work(connection)

        return self.run(heard)

    def close(self) -> None:
        """Give up one share of the connections."""
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
    """Whether the same may succeed in a moment."""
    code = getattr(error, "sqlstate", None)
    return code is None or code.startswith("08") or code in _PASSING
