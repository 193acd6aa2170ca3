"""The training part as plain data: what its columns hold, and its rows a page at a time."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from holdfast import checks

MOST_ROWS = 200  # of one page; an agent reads every word of it
_COMMON_VALUES = 5
_LONGEST = 200  # characters of a common value

NO_TRAINING = "There is no training part. Bring a guess with every question, as in guess = 0.5."


def column_data(schema: Mapping[str, Any], frame: Any) -> list[dict[str, Any]]:
    """Each column with its name, its kind, and what the training rows show of it (None without them).

    Args:
        schema: The columns of the table.
        frame: The training rows as a pandas table, or None.
    """
    return [
        {
            "name": name,
            "kind": column.kind,
            "training": None if frame is None else _summary(frame[name], column.kind),
        }
        for name, column in schema.items()
    ]


def row_page(frame: Any, limit: Any, offset: Any) -> dict[str, Any]:
    """At most ``limit`` training rows from ``offset`` on, each as a map from column to value.

    Args:
        frame: The training rows as a pandas table, or None.
        limit: How many rows, at most 200.
        offset: How many rows to skip.
    """
    limit = checks.whole(limit, "limit", at_most=MOST_ROWS, of="training_rows")
    offset = checks.whole(offset, "offset", at_least=0, of="training_rows")
    if frame is None:
        return {"rows": [], "offset": offset, "total": 0, "next_offset": None, "note": NO_TRAINING}
    names = [str(name) for name in frame.columns]
    page = frame.iloc[offset : offset + limit]
    rows = [
        dict(zip(names, map(plain_value, row), strict=True))
        for row in page.itertuples(index=False, name=None)
    ]
    end = offset + len(rows)
    return {
        "rows": rows,
        "offset": offset,
        "total": len(frame),
        "next_offset": end if rows and end < len(frame) else None,
    }


def plain_value(value: Any) -> Any:
    """A cell of a table as a value that JSON has; None for a missing one."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, (datetime.date, datetime.time)):
        return None if value != value else value.isoformat()  # Only "no time" differs from itself.
    text = str(value)
    if text in ("True", "False"):  # A boolean of numpy's own type.
        return text == "True"
    return None if text in ("<NA>", "NaT") else text


def _summary(values: Any, kind: str) -> dict[str, Any]:
    present = values.dropna()
    rows = len(values)
    summary: dict[str, Any] = {"missing": (rows - len(present)) / rows if rows else None}
    if len(present) == 0:
        return summary
    if kind == "number":
        ends = {"least": present.min(), "median": present.median(), "most": present.max()}
        return summary | {name: plain_value(value) for name, value in ends.items()}
    if kind == "date":
        return summary | {"least": plain_value(present.min()), "most": plain_value(present.max())}
    counts = present.astype(str).value_counts().head(_COMMON_VALUES)
    common = [{"value": value[:_LONGEST], "share": count / rows} for value, count in counts.items()]
    return summary | {"different": int(present.astype(str).nunique()), "common": common}
