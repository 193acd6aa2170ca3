"""Taking a table apart by a mask over its rows, in order, without loading it into this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["split_rows"]

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def split_rows(rows: Rows, train: Mask, protected: Mask) -> tuple[Rows, Rows]:
    """The two parts; the training part lives in a database of its own, so that looking at it shows nothing
    else."""
    import pyarrow as pa

    from holdfast.engines._open import from_arrow
    from holdfast.engines._rows import Rows

    database, mark = rows._database, _unused(rows)
    database.lend("part", pa.table({mark: train.astype(np.int8) + 2 * protected.astype(np.int8)}))
    chosen = f'SELECT "rows".* FROM "{rows._name}" AS "rows" POSITIONAL JOIN "part" WHERE "part"."{mark}" = '
    database.run(f'CREATE TABLE "protected" AS {chosen} 2')
    seen = database.arrow(f"{chosen} 1")
    database.take_back("part")
    kept = Rows(database, "protected", rows.schema, int(protected.sum()), rows._kind)
    held = None if rows._held is None else rows._kind.cut(rows._held, train)
    return from_arrow(seen, rows._kind, held, schema=rows.schema), kept


def _unused(rows: Rows) -> str:
    """A name that no column has, in any case."""
    name = "part"
    while name in {column.lower() for column in rows.columns}:
        name += "_"
    return name
