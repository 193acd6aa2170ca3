"""A table in a database, named by one text: the address of the database and, after ``#``, the table.

``postgres://ann:secret@db.example/town#trips``, or ``#public.trips`` for a table of another schema. The
address goes to ibis as it is; a password in it is never shown, neither by us nor in what others say.
"""

from __future__ import annotations

import weakref
from typing import Any
from urllib.parse import unquote

from holdfast.engines._address import shown, without_secrets
from holdfast.engines._in_place import open_table
from holdfast.engines._rows import Rows
from holdfast.engines._schema import reject_columns
from holdfast.errors import QueryRejected

__all__ = ["open_url"]


def open_url(url: str) -> Rows:
    """Open ``scheme://…#table`` where it is."""
    address, _, name = url.partition("#")
    if not name:
        raise QueryRejected(
            f"{shown(url)} is a database; say which table of it with #, as in {shown(address)}#trips."
        )
    import ibis

    backend: Any = None
    table: Any = None
    try:
        backend = ibis.connect(address)
        table = _table(backend, unquote(name))
    except Exception as error:  # No row was read yet, so the database may say what is wrong.
        reason = without_secrets(error, url)
    if table is None:
        if backend is not None:
            backend.disconnect()
        raise QueryRejected(f"Cannot open {shown(url)}: {reason}.")
    try:
        reject_columns(list(table.columns))
        rows = open_table(table, backend)
    except Exception:
        backend.disconnect()
        raise
    # A connection of our own ends with the rows.
    weakref.finalize(rows._database, backend.disconnect)
    return rows


def _table(backend: Any, name: str) -> Any:
    schema, found, last = name.rpartition(".")
    return backend.table(last, database=schema) if found else backend.table(name)
