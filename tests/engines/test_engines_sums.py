"""Sums are exact integers: checked against Python integers, row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast import queries
from holdfast.engines import SCALE_BITS, open_rows
from holdfast.engines import _sums as sums_module

UNIT = 2**SCALE_BITS


def by_hand(values: list[float | None], lo: float, hi: float, missing: float) -> list[int]:
    clipped = [
        lo if v is None and missing is None else min(max(missing if v is None else v, lo), hi) for v in values
    ]
    return [math.floor((v - lo) * (UNIT / (hi - lo)) + 0.5) for v in clipped]


@pytest.fixture
def table(rng: np.random.Generator) -> dict[str, object]:
    x = rng.normal(size=5000) * 10
    x[::7] = np.nan
    x[3], x[4] = np.inf, -np.inf
    return {"x": x, "age": rng.integers(0, 90, 5000), "flag": rng.random(5000) < 0.3}


@pytest.mark.parametrize(("lo", "hi"), [(-5.0, 5.0), (0.0, 1e-3), (-1e151, 1e151), (1e15, 1e15 + 3)])
@pytest.mark.parametrize("nulls", [None, "skip", "middle"])
@pytest.mark.parametrize("where", [None, "age > 40"])
def test_a_mean_is_summed_exactly(table, lo, hi, nulls, where) -> None:
    said = lo + (hi - lo) / 3 if nulls == "middle" else nulls
    rows = open_rows(table)
    query = queries.mean("x", bounds=(lo, hi), where=where, nulls=said)
    found = rows.sums(query.check(rows.schema), squares=True)
    passing = [
        None if math.isnan(x) else float(x)
        for x, age in zip(table["x"], table["age"], strict=True)
        if where is None or age > 40
    ]
    if nulls == "skip":
        passing = [x for x in passing if x is not None]
    units = by_hand(passing, lo, hi, said if nulls == "middle" else lo)
    assert (found.rows, found.total, found.squares) == (len(units), sum(units), sum(u * u for u in units))
    assert found.scale == UNIT


def test_a_share_is_counted_exactly(table) -> None:
    rows = open_rows(table)
    known = ~np.isnan(table["x"])
    true = (table["x"] > 1) & known
    for nulls, total, count in (
        (None, true.sum(), 5000),
        (True, (true | ~known).sum(), 5000),
        ("skip", true.sum(), known.sum()),
    ):
        found = rows.sums(queries.share("x > 1", nulls=nulls).check(rows.schema), squares=True)
        assert (found.rows, found.total, found.squares, found.scale) == (count, total, total, 1)


def test_many_rows_are_added_as_integers(table, monkeypatch) -> None:
    rows = open_rows(table)
    asked = queries.mean("x", bounds=(0, 7)).check(rows.schema)
    few = rows.sums(asked)
    monkeypatch.setattr(sums_module, "_EXACT_IN_FLOATS", 10)
    assert rows.sums(asked) == few


def test_a_question_is_one_statement(table, monkeypatch) -> None:
    rows = open_rows(table)
    seen: list[str] = []
    run = rows._database.run
    monkeypatch.setattr(rows._database, "run", lambda statement: seen.append(statement) or run(statement))
    rows.sums(
        queries.mean("x", bounds=(0, 7), where="age > 3", nulls="skip").check(rows.schema), squares=True
    )
    assert len(seen) == 1
    assert seen[0].startswith("SELECT")


def test_no_rows_pass(table) -> None:
    rows = open_rows(table)
    found = rows.sums(queries.mean("x", bounds=(0, 7), where="age > 300").check(rows.schema), squares=True)
    assert (found.rows, found.total, found.squares) == (0, 0, 0)
