"""A table in a database, named by one text: the address of the database and, after ``#``, the table.

``postgres://ann:secret@db.example/town#trips``, or ``#public.trips`` for a table of another schema. The
address goes to ibis as it is; a password in it is never shown, neither by us nor in what others say.
"""

from __future__ import annotations

import weakref
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.engines._in_place import open_table
from holdfast.engines._rows import Rows
from holdfast.engines._schema import reject_columns
from holdfast.errors import QueryRejected

__all__ = ["is_database", "open_url"]

# Schemes of files, which DuckDB reads itself.
_FILES = ("file", "http", "https", "s3", "s3a", "s3n", "gs", "gcs", "r2", "hf", "az", "azure", "abfss")


def is_database(text: str) -> bool:
    """Whether a text is the address of a database rather than of a file."""
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.isalnum() and scheme.lower() not in _FILES


def shown(url: str) -> str:
    """An address without the name and the password of who goes there, and without options."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" + (f"#{parts.fragment}" if parts.fragment else "")


def open_url(url: str) -> Rows:
    """Open ``scheme://…#table`` where it is."""
    address, _, name = url.partition("#")
    if not name:
        raise QueryRejected(
            f"{shown(url)} is a database; say which table of it with #, as in {shown(address)}#trips."
        )
    import ibis

    backend = None
    try:
        backend = ibis.connect(address)
        table = _table(backend, unquote(name))
        reject_columns(list(table.columns))
        rows = open_table(table, backend)
    except Exception as error:
        if backend is not None:
            backend.disconnect()
        if isinstance(error, QueryRejected):
            raise
        raise QueryRejected(f"Cannot open {shown(url)}: {_without_secrets(error, url)}.") from None
    # A connection of our own ends with the rows.
    weakref.finalize(rows._database, backend.disconnect)
    return rows


def _table(backend: Any, name: str) -> Any:
    schema, found, last = name.rpartition(".")
    return backend.table(last, database=schema) if found else backend.table(name)


def _without_secrets(error: Exception, url: str) -> str:
    """The first line of what went wrong, with nothing of the address that is not shown."""
    parts = urlsplit(url)
    text = str(error).splitlines()[0].rstrip(". ") if str(error) else type(error).__name__
    for secret in (url, parts.netloc.rpartition("@")[0], parts.query, parts.password, parts.username):
        for written in {secret or "", unquote(secret or "")} - {""}:
            text = text.replace(written, "…")
    return text
