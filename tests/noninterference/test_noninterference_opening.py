"""Tables that cannot be opened: errors name the kind and the column, and quote no value of a row."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from observe import Look, assert_same, observe
from pairs import ROWS, training_mask

from holdfast import Guard

PLACE = int(np.flatnonzero(~training_mask())[3])


def _with(value, rest):
    """One value at a protected place among others."""
    return [value if place == PLACE else rest for place in range(ROWS)]


def _columns(value, rest):
    return {"x": list(range(ROWS)), "s": _with(value, rest)}


def _frame(value, rest, dtype="object"):
    return pd.DataFrame({"x": range(ROWS), "s": pd.Series(_with(value, rest), dtype=dtype)})


def _written(name: str, content: bytes) -> str:
    Path("brought").mkdir(exist_ok=True)
    (Path("brought") / name).write_bytes(content)
    return f"brought/{name}"


def _csv(line: str) -> str:
    lines = ["x,s", *(line if place == PLACE else f"{place},a" for place in range(ROWS))]
    return _written("people.csv", "\n".join(lines).encode("utf-8", "surrogateescape"))


def _parquet(raw: bytes) -> str:
    """A Parquet file that calls bytes a text."""
    Path("brought").mkdir(exist_ok=True)
    table = pa.table({"x": range(ROWS), "s": pa.array(_with(raw, b"a"), pa.binary())})
    bad = pa.StringArray.from_buffers(ROWS, *table["s"].chunk(0).buffers()[1:])
    pyarrow.parquet.write_table(pa.table({"x": table["x"], "s": bad}), "brought/people.parquet")
    return "brought/people.parquet"


BROKEN = {
    "a text among numbers": (partial(_frame, rest=1.0), "Ms Smith, HIV+", "Mr Jones"),
    "a text among whole numbers": (partial(_columns, rest=1), "Ms Smith, HIV+", "Mr Jones"),
    "a number among texts": (partial(_frame, rest="a"), 41.5, 7.25),
    "a number among texts in a dict": (partial(_columns, rest="a"), 41, 7),
    "bytes among texts": (partial(_frame, rest="a"), b"HIV", b"no"),
    "a list among numbers": (partial(_frame, rest=1), [41], [7, 8]),
    "a date among numbers": (partial(_frame, rest=1), dt.date(2020, 1, 1), dt.date(1999, 1, 1)),
    "an object": (partial(_frame, rest=1), Path("HIV"), Path("no")),
    "a whole number beyond 64 bits": (partial(_frame, rest=1), 2**70 + 41, 2**80),
    "a negative number among large ones": (partial(_frame, rest=2**63 + 1), -41, -7),
    "a whole number beyond 64 bits in a dict": (partial(_columns, rest=1), 2**70 + 41, 2**80),
    "half a character": (partial(_frame, rest="a"), "HIV \ud800", "\udfff"),
    "half a character in a dict": (partial(_columns, rest="a"), "HIV \ud800", "\udfff"),
    "a huge decimal": (
        partial(_frame, rest=decimal.Decimal(1)),
        decimal.Decimal("1e99"),
        decimal.Decimal("7" * 90),
    ),
    "a long time": (
        partial(_frame, rest=dt.timedelta(1)),
        dt.timedelta(999_999_999),
        dt.timedelta(888_888_888),
    ),
    "a complex number": (partial(_frame, rest=1.0), 41j, 7j),
    "polars objects": (
        lambda value: pl.DataFrame({"s": pl.Series(_with(value, 1), dtype=pl.Object)}),
        "HIV",
        "no",
    ),
    "a CSV line with a field more": (_csv, "3,HIV,41", "3,b,7,8"),
    "a CSV line with an open quote": (_csv, '3,"HIV', '3,"b'),
    "a CSV line in another encoding": (_csv, "3,HIV\udce9", "3,b\udcff"),
    "a Parquet text in no encoding": (_parquet, b"HIV\xff\xfe", b"b\xff"),
}


def opened(look: Look, make, value):
    """Open the table, and if that works look at it and ask."""
    data = make(value)
    look.callers.append(data)
    if isinstance(data, dict):
        look.callers += data.values()
    guard = look("guard", Guard, data)
    if guard is not None:
        look("train", getattr, guard, "train")
        look("share", guard.share, "s is null")
        look("text", guard.share, "s = 'a'")
        look("number", guard.mean, "s", bounds=(0, 2))
        look("again", guard.share, "s is null", where="x > 3")


@pytest.mark.parametrize("name", BROKEN)
def test_no_value_stands_in_the_refusal_of_a_table(name):
    make, first, second = BROKEN[name]
    assert_same(*(observe(partial(opened, make=make, value=value)) for value in (first, second)))


def test_the_files_of_a_session_are_its_own():
    before = os.getcwd()
    observe(lambda look: look("here", os.getcwd))
    assert os.getcwd() == before
