"""The training part as plain data: what its columns hold, and its rows a page at a time."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from holdfast import checks

MOST_ROWS = 200  # of one page; an agent reads every word of it
_COMMON_VALUES = 5
_LONGEST = 200  # characters of a common value
_BINS = 24  # of a picture of one column
_TAILS = (0.01, 0.99)  # beyond these quantiles a value counts in the first or the last bin
# What pandas calls the row numbers that it wrote into a file.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__|Unnamed: \d+(_level_\d+)?|", re.ASCII)
# "column0" is what DuckDB calls a column of a CSV file whose header is empty.
_PERHAPS_ROW_NUMBERS = frozenset({"index", "level_0", "row", "row_number", "rownum", "column0", "column00"})

NO_TRAINING = "There is no training part. Bring a guess with every question, as in guess = 0.5."


def column_data(schema: Mapping[str, Any], frame: Any, *, pictures: bool = False) -> list[dict[str, Any]]:
    """Each column with its name, its kind, and what the training rows show of it (None without them).

    Guarantee: reads the names and kinds of the columns and the training rows, and nothing else.

    Args:
        schema: The columns of the table.
        frame: The training rows as a pandas table, or None.
        pictures: Also say which columns hold row numbers (``index``), and for numbers and dates the share of
            training rows in each of at most 24 bins (``bins``).
    """
    listed = []
    for name, column in schema.items():
        values = None if frame is None else frame[name]
        described = {
            "name": name,
            "kind": column.kind,
            "training": None if values is None else _summary(values, column.kind),
        }
        if pictures:
            described["index"] = _holds_row_numbers(name, values)
            if values is not None and column.kind in ("number", "date"):
                described["training"]["bins"] = _binned(values, column.kind)
        listed.append(described)
    return listed


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


def plain_value(value: object) -> Any:
    """A value of a table as a JSON value; None for a missing one."""
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
        import numpy as np

        present = present[np.isfinite(present.astype(float))]
        if len(present) == 0:
            return summary
        ends = {"least": present.min(), "median": present.median(), "most": present.max()}
        return summary | {name: plain_value(value) for name, value in ends.items()}
    if kind == "date":
        return summary | {"least": plain_value(present.min()), "most": plain_value(present.max())}
    counts = present.astype(str).value_counts().head(_COMMON_VALUES)
    common = [{"value": value[:_LONGEST], "share": count / rows} for value, count in counts.items()]
    return summary | {"different": int(present.astype(str).nunique()), "common": common}


def _holds_row_numbers(name: str, values: Any) -> bool:
    """Whether a column has row numbers: by its name, or by a name that may mean that with training values
    that only go up."""
    if _ROW_NUMBERS.fullmatch(name):
        return True
    if name.lower() not in _PERHAPS_ROW_NUMBERS or values is None:
        return False
    return bool(values.notna().all() and values.is_unique and values.is_monotonic_increasing)


def _binned(values: Any, kind: str) -> list[float]:
    """The share of training rows in each of some bins of equal width, from a low quantile to a high one.
    Empty where there is nothing to compare."""
    import numpy as np
    import pandas

    if kind == "date":
        times = pandas.to_datetime(values.astype(str), errors="coerce", utc=True, format="ISO8601")
        numbers = times.dropna().astype("int64").to_numpy(dtype=float)
    else:
        numbers = pandas.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) == 0:
        return []
    least, most = np.quantile(numbers, _TAILS)
    distinct = len(np.unique(numbers))
    if not least < most:
        least, most = numbers.min(), numbers.max()
    if distinct < 2 or not math.isfinite(most - least):
        return []
    edges = np.linspace(least, most, min(_BINS, max(2, distinct)) + 1)
    counts, _ = np.histogram(np.clip(numbers, least, most), edges)
    return [round(float(count) / len(values), 4) for count in counts]
