"""Sums are exact integers: checked against Python integers, row by row."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast import queries
from holdfast.engines import SCALE_BITS, open_rows

UNIT = 2**SCALE_BITS


def by_hand(values: list[float | None], lo: float, hi: float, missing: float) -> list[int]:
    clipped = [
        lo if v is None and missing is None else min(max(missing if v is None else v, lo), hi) for v in values
    ]
    return [round((v - lo) * (UNIT / (hi - lo))) for v in clipped]


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
    assert found.clipped == sum(x is not None and not lo <= x <= hi for x in passing)


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


@given(
    lo=st.floats(-1e15, 1e15),
    width=st.floats(1e-150, 1e152),
    place=st.floats(-0.5, 1.5) | st.sampled_from([0.0, 2.0**-26, 2.0**-25, 1 - 2.0**-25, 1.0]),
    odd=st.sampled_from([None, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324]),
)
def test_one_value_is_scaled_as_by_the_engine(lo, width, place, odd) -> None:
    hi = lo + width
    assume(1e-150 < hi - lo < 1e152)
    value = lo + place * (hi - lo) if odd is None else odd
    rows = open_rows({"x": [value]})
    unit = rows.sums(queries.mean("x", bounds=(lo, hi)).check(rows.schema)).total
    # What a missing value counts as is scaled by us, and the same value of a row by the engine.
    missing = open_rows({"x": [value, math.nan]})
    asked = queries.mean("x", bounds=(lo, hi), nulls=min(max(value, lo), hi))
    assert missing.sums(asked.check(missing.schema)).total == 2 * unit
    inside = Fraction(min(max(value, lo), hi)) - Fraction(lo)
    step = (Fraction(hi) - Fraction(lo)) / UNIT
    assert abs(unit * step - inside) <= step * Fraction(501, 1000)


def test_a_question_is_one_statement(table, monkeypatch) -> None:
    rows = open_rows(table)
    seen: list[str] = []
    execute = rows._database._execute
    monkeypatch.setattr(
        rows._database,
        "_execute",
        lambda statement, numbers=None: seen.append(statement) or execute(statement, numbers),
    )
    rows.sums(
        queries.mean("x", bounds=(0, 7), where="age > 3", nulls="skip").check(rows.schema), squares=True
    )
    assert len(seen) == 1
    assert seen[0].startswith("SELECT")


def test_no_rows_pass(table) -> None:
    rows = open_rows(table)
    found = rows.sums(queries.mean("x", bounds=(0, 7), where="age > 300").check(rows.schema), squares=True)
    assert (found.rows, found.total, found.squares) == (0, 0, 0)


def test_numbers_are_distinguished_from_names_and_texts_that_look_like_them() -> None:
    name, text = "CAST('0.5' AS DOUBLE)", "CAST('0.25' AS DOUBLE)"
    rows = open_rows({name: [0.1, 0.3, 0.7, 0.9], "t": [text, "a", text, "a"]}).stored()
    asked = {
        f'share("{name}" > 0.5)': 2,
        f'share("{name}" > 0.25)': 3,
        f'share("{name}" > 0.25 and "{name}" < 0.75)': 2,
        "share(t = '{}')".format(text.replace("'", "''")): 2,
        f'share("{name}" > 1e-300)': 4,
        f'share("{name}" > -0.5)': 4,
    }
    for question, total in asked.items():
        assert rows.sums(queries.read(question).check(rows.schema)).total == total, question


def test_statements_that_differ_in_a_number_are_parsed_once() -> None:
    rows = open_rows({"x": np.linspace(0, 1, 101)[:-1]}).stored()
    for place in range(1, 100):
        question = queries.read(f"share(x >= {place / 100!r})").check(rows.schema)
        assert rows.sums(question).total == 100 - place
    assert len(rows._database._parsed) == 1
