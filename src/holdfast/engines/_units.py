"""Rows in units: clusters that a column names, clusters that stand one after the other, or blocks with gaps.

A unit is what is independent where single rows are not. Rows in units are ordinary rows with one more column
that says which unit a row belongs to. Questions cannot read that column. They are summed unit by unit
(:meth:`holdfast.engines.Rows.unit_sums`).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.engines._database import DuckDB
from holdfast.errors import QueryRejected

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["UNIT", "UnitSizes", "in_blocks", "in_clusters", "in_numbered_units", "sizes_of", "unit_codes"]

UNIT = "@unit"
"""The column that says which unit a row belongs to, where it is not a column of the table."""


@dataclass(frozen=True)
class UnitSizes:
    """How many units there are of each size: public facts, as the number of rows is."""

    sizes: tuple[int, ...]
    units: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many units there are."""
        return sum(self.units)

    @property
    def largest(self) -> int:
        """How many rows the largest unit has."""
        return max(self.sizes)

    @property
    def listed(self) -> tuple[int, ...]:
        """The size of every unit, smallest first."""
        return tuple(np.repeat(self.sizes, self.units).tolist())


def require_unit_column(rows: Rows, column: str) -> None:
    """Refuse a column that cannot name units."""
    described = rows.schema.get(column)
    if described is None:
        raise QueryRejected(
            f"There is no column {column!r} to name the clusters; there are {', '.join(rows.columns)}."
        )
    if not (described.whole or described.kind in ("text", "boolean")):
        raise QueryRejected(
            f"The column {column!r} is neither text nor whole numbers, so it cannot name the clusters. Give "
            "each cluster a number or a name in a column of its own."
        )


def in_clusters(rows: Rows, column: str) -> Rows:
    """The same rows in clusters: those with one value of a column belong together."""
    require_unit_column(rows, column)
    clustered = rows.part(rows._name, rows.schema, rows.count)
    clustered.unit = column
    clustered.chosen = rows.chosen
    return clustered


def in_numbered_units(rows: Rows, numbers: NDArray[np.int64]) -> Rows:
    """The same stored rows in units that are numbered row by row."""
    import pyarrow as pa

    database = rows._database
    assert isinstance(database, DuckDB)
    name, quoted = f"units {secrets.token_hex(8)}", database.dialect.quoted
    database.lend("numbers", pa.table({UNIT: np.asarray(numbers, dtype=np.int64)}))
    database.run(
        f'CREATE TABLE {quoted(name)} AS SELECT "rows".*, "numbers".{quoted(UNIT)} '
        f'FROM {rows._source} AS "rows" POSITIONAL JOIN "numbers"'
    )
    database.take_back("numbers")
    return _with_unit(rows, name, rows.count)


def in_blocks(rows: Rows, length: int, gap: int) -> Rows:
    """The stored rows that lie in blocks of ``length`` rows, with ``gap`` rows left out after each; a last
    block that is not whole is left out too."""
    database, stride = rows._database, length + gap
    blocks = (rows.count + gap) // stride
    name = f"blocks {secrets.token_hex(8)}"
    database.define(
        name,
        f"SELECT *, rowid // {stride} AS {database.dialect.quoted(UNIT)} FROM {rows._source} "
        f"WHERE rowid % {stride} < {length} AND rowid < {blocks * stride}",
    )
    return _with_unit(rows, name, blocks * length)


def _with_unit(rows: Rows, name: str, count: int) -> Rows:
    part = rows.part(name, rows.schema, count)
    part.unit = UNIT
    return part


def sizes_of(rows: Rows) -> UnitSizes:
    """How many rows the units have. Refused where a row has no unit. Reads the column of units only."""
    database = rows._database
    unit, source = database.dialect.quoted(str(rows.unit)), database.dialect.quoted(rows._name)
    ((missing,),) = database.run(f"SELECT count(*) FROM {source} AS counted WHERE {unit} IS NULL")
    if missing:
        raise QueryRejected(
            f"{int(missing):,} rows have no value of {rows.unit!r}, which names the clusters. Give each its "
            "cluster, or leave those rows out."
        )
    counted = f"SELECT count(*) AS times FROM {source} AS counted GROUP BY {unit}"
    sizes = database.run(f"SELECT times, count(*) FROM ({counted}) AS counted GROUP BY times ORDER BY times")
    return UnitSizes(tuple(int(size) for size, _ in sizes), tuple(int(units) for _, units in sizes))


def unit_codes(rows: Rows) -> NDArray[np.int64]:
    """The unit of each row, as a number, in the order of the rows. Reads every row."""
    import pandas

    rows.require_readable()
    if rows.unit in rows.schema:
        return np.asarray(pandas.factorize(rows.frame([str(rows.unit)])[rows.unit])[0], dtype=np.int64)
    quoted = rows._database.dialect.quoted(str(rows.unit))
    listed = rows._database.run(f"SELECT {quoted} FROM {rows._source} AS listed")
    codes = pandas.factorize(np.array([unit for (unit,) in listed], dtype=object))[0]
    return np.asarray(codes, dtype=np.int64)
