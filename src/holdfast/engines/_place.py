"""Splitting rows where they are: by their place in files, or by a key that the owner names.

Which part a row goes to is a keyed hash of something that is not asked about, so nothing has to be copied and
the same seed gives the same parts again.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["FILE_PLACE", "split_by_key", "split_by_place"]

FILE_PLACE = ("@row", "@file")
"""The columns that say where a row of a Parquet file stands."""


def split_by_place(rows: Rows, source: str, share: float, seed: int) -> tuple[Rows, Rows, str]:
    """A training part of about ``share`` of the rows of ``source``, a view with the columns ``FILE_PLACE``,
    and the rest; and a text that differs if hashes do, as they may from one version of DuckDB to another."""
    row, file = map(rows._database.dialect.quoted, FILE_PLACE)
    condition = f"{_hash(row, file, seed)} < {int(share * 2**64)}"
    first = f"SELECT sum({_hash('i', '0', seed)} // 1024) FROM range(1000) AS t(i)"
    ((check,),) = rows._database.run(first)
    return *_parts(rows, source, condition, list(rows.columns)), f"{int(check):x}"


def _hash(row: str, file: str, seed: int) -> str:
    """The SQL of a hash of a place: a number for every place, no two alike, and a salt on top. (DuckDB joins
    the hashes of several columns so that a salt among them would change all rows in the same way.)"""
    salt = int.from_bytes(hashlib.sha256(str(int(seed)).encode()).digest()[:8], "big")
    place = f"CAST({file} AS UBIGINT) * {2**40} + CAST({row} AS UBIGINT)"
    return f"hash(xor({place}, CAST({salt} AS UBIGINT)))"


def split_by_key(rows: Rows, key: str, share: float, seed: int) -> tuple[Rows, Rows]:
    """A training part of the rows with about ``share`` of the keys, and the rest, both without the key: rows
    with one key stay together."""
    column = rows.schema.get(key)
    if column is None:
        raise QueryRejected(f"There is no column {key!r} to split by; there are {', '.join(rows.columns)}.")
    if not (column.whole or column.kind == "text"):
        raise QueryRejected(
            f"The column {key!r} is neither text nor whole numbers, and its digits differ between databases; "
            "split by another one."
        )
    kept = [name for name in rows.columns if name != key]
    if not kept:
        raise QueryRejected(f"Besides {key!r}, which the rows are split by, there is no column to ask about.")
    dialect = rows._database.dialect
    mark = dialect.marked(dialect.quoted(key), f"{int(seed)} ")
    condition = f"{mark} < '{int(share * 2**32):08x}'"
    return _parts(rows, rows._name, condition, kept)


def _parts(rows: Rows, source: str, condition: str, columns: list[str]) -> tuple[Rows, Rows]:
    database = rows._database
    quoted = database.dialect.quoted
    ((chosen,),) = database.run(
        f"SELECT sum(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM {quoted(source)} AS counted"
    )
    counts = int(chosen), rows.count - int(chosen)
    if 0 in counts:
        raise QueryRejected("The split leaves one part without rows; give another share, seed or key.")
    listed = ", ".join(map(quoted, columns))
    schema = rows.schema.only(columns)
    parts = []
    for count, mark in zip(counts, (condition, f"NOT ({condition})"), strict=True):
        name = f"part {secrets.token_hex(8)}"
        database.define(name, f"SELECT {listed} FROM {quoted(source)} AS whole WHERE {mark}")
        parts.append(rows.part(name, schema, count))
    return parts[0], parts[1]
