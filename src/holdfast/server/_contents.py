"""Which rows are registered already: one keyed digest for every table, so that no rows get a second account.

Guarantee: a table whose rows are those of a registered one, in any order, format, file or database, is
refused, with a column that numbers them or without; so is a large table at the same place, or a large file of
the same length and ends. Independent tables are taken for the same with probability at most 1e-9.
A refusal says that two whole tables are the same, and only who holds such a table can bring it about, so it
says nothing new about protected rows. Tables that share some rows only are let in: that rows are nobody
else's is for the owner to know. Digests are made with a secret of the service, and are in no export.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from scipy import special

from holdfast.engines import Rows, open_rows
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.server._store import Store

_SCHEMA = """
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
_END = 1 << 18
_log = logging.getLogger("holdfast.server")


class Contents:
    """The digests of every table that a service has registered, and whose they are."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.make(_SCHEMA)
        store.execute(
            "INSERT INTO [contents_secret] (id, value) VALUES (1, ?) ON CONFLICT DO NOTHING",
            (secrets.token_hex(32),),
        )
        (value,) = store.execute("SELECT value FROM [contents_secret]").fetchone()
        self._key = bytes.fromhex(value)

    def claim(self, rows: Rows, place: str, kind: str, name: str) -> str | None:
        """Write down that these rows are those of a dataset or board, or refuse them if they are another
        one's. Returns the digest if it is new; a registration that fails gives it back by :meth:`release`."""
        digest = self._digest(rows, place)
        done = self._store.execute(
            "INSERT INTO [contents] (digest, kind, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (digest, kind, name),
        )
        if done.rowcount == 1:
            return digest
        owner = self._store.execute("SELECT kind, name FROM [contents] WHERE digest = ?", (digest,))
        if owner.fetchone() not in ((kind, name), None):
            other_kind, other = owner.fetchone()
            raise InvalidArgument(
                "source",
                f"rows that are not registered yet; these are the rows of the {other_kind} {other!r}, and a "
                "second account on them would break the promise of the first. Nothing was changed",
                Path(urlsplit(place).path).name,
                of=f"the {kind} {name!r}",
            )
        return None

    def release(self, digest: str | None) -> None:
        """Give rows back whose registration failed."""
        if digest is not None:
            self._store.execute("DELETE FROM [contents] WHERE digest = ?", (digest,))

    def catch_up(self, place: str, kind: str, name: str) -> None:
        """Claim the rows of what an earlier version registered without a claim. Where another one has them
        already, both go on, and the log says so: their accounts were opened before anyone looked."""
        row = self._store.execute("SELECT 1 FROM [contents] WHERE kind = ? AND name = ?", (kind, name))
        if row.fetchone() is not None:
            return
        try:
            self.claim(open_rows(place), place, kind, name)
        except InvalidArgument as error:
            _log.error("the %s %s goes on, though its rows are registered twice: %s", kind, name, error)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _digest(self, rows: Rows, place: str) -> str:
        try:
            content = self._rows(rows) if rows.is_small or not rows.stays else _place(place)
        except HoldfastError:
            raise
        except Exception:  # What it says may quote a value.
            raise QueryRejected(
                "The rows could not be read to compare them with what is registered. Nothing was changed. "
                "Open the table with holdfast.Guard to see which column cannot be read."
            ) from None
        return hmac.new(self._key, content, "sha256").hexdigest()

    def _rows(self, rows: Rows) -> bytes:
        """All rows: in any order where that still tells the table from others, and in their own where not."""
        # A copy may have an index that only numbers its rows, so such columns count where nothing else tells.
        numbering = rows.numbering()
        columns = [name for name in rows.columns if name not in numbering]
        hashes = rows.row_hashes(self._key, columns) if columns else np.zeros(1, dtype=np.uint64)
        telling = _telling(hashes)
        if not telling and numbering:
            columns = list(rows.columns)
            hashes = rows.row_hashes(self._key, columns)
            telling = _telling(hashes)
        ordered = np.sort(hashes) if telling or not rows.has_order else hashes
        names = "\n".join(sorted(columns))
        return hashlib.sha256(f"rows\n{names}\n".encode() + ordered.astype("<u8").tobytes()).digest()


def _telling(hashes: Any) -> bool:
    """Whether a table of the same law has the same rows, in any order, with probability at most 1e-9: the
    probability of these counts is greatest under the law that has their shares."""
    _, counts = np.unique(hashes, return_counts=True)
    rows = len(hashes)
    likeliest = (
        special.gammaln(rows + 1)
        - special.gammaln(counts + 1).sum()
        + float((counts * np.log(counts / rows)).sum())
    )
    return bool(likeliest <= math.log(_MISTAKEN))


def _place(place: str) -> bytes:
    """A table that is too large to be read for this: where it is in its database, or a file by its length
    and its ends."""
    if "://" in place:
        parts = urlsplit(place)
        scheme = "postgresql" if parts.scheme == "postgres" else parts.scheme
        address = f"{scheme}://{parts.hostname}:{parts.port}{parts.path}?{parts.query}#{parts.fragment}"
        return hashlib.sha256(f"table\n{address}".encode()).digest()
    path = Path(place)
    size = path.stat().st_size
    digest = hashlib.sha256(f"file\n{size}\n".encode())
    with path.open("rb") as file:
        digest.update(file.read(_END))
        file.seek(max(0, size - _END))
        digest.update(file.read(_END))
    return digest.digest()
