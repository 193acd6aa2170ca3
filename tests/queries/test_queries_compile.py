"""Compiled expressions against the oracle: equal to the last bit, null for null, and nothing ever raised."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import queries_oracle as oracle

from holdfast import queries
from holdfast.engines import Rows, Schema, open_rows
from holdfast.queries import Expression, _compile

TYPES = {"i": pa.int64(), "k": pa.int8(), "b": pa.bool_(), "s": pa.string(), "t": pa.string()}


def arrow(rows: list[oracle.Row]) -> pa.Table:
    return pa.table({n: pa.array([row[n] for row in rows], TYPES.get(n, pa.float64())) for n in rows[0]})


def drawn(seed: int) -> tuple[str, str, oracle.Meaning]:
    writer = oracle.Writer(seed)
    kind = writer.source.choice(["mean", "share"])
    deep = writer.source.choice([1, 2, 3, 4])
    return kind, *(writer.number if kind == "mean" else writer.condition)(deep)


def asked(kind: str, text: str) -> queries.Query:
    return queries.mean(text, bounds=(0, 1), nulls=0) if kind == "mean" else queries.share(text, nulls=False)


def computed(rows: Rows, query: queries.Query, *, schema: Schema | None = None, name: str = "") -> list[Any]:
    """The expression's value in every row, as the database has it."""
    import ibis

    schema = schema or rows.schema
    table = ibis.table(schema.to_ibis(), name=name or rows._name)
    values = query.check(schema).values(table)
    return [value for (value,) in rows._database.run(rows._database.compile(values))]


def same(found: list[Any], wanted: list[Any]) -> bool:
    return [(type(v), v) for v in found] == [(type(v), v) for v in wanted]


def first_difference(seed: int, expressions: int) -> str | None:
    """The text of an expression whose compiled form differs from the oracle in some row."""
    rows = oracle.rows(random.Random(seed), 300)
    opened = open_rows(arrow(rows))
    for number in range(expressions):
        kind, text, meaning = drawn(seed * 1_000_003 + number)
        if not same(computed(opened, asked(kind, text)), [meaning(row) for row in rows]):
            return text
    return None


def test_compiled_expressions_agree_with_the_oracle(seed: int) -> None:
    assert first_difference(seed, 250) is None


@pytest.mark.slow
def test_many_compiled_expressions_agree_with_the_oracle(seed: int) -> None:
    assert first_difference(1000 + seed, 3000) is None


def test_an_engine_that_keeps_nan_gives_the_same_values(seed: int) -> None:
    rows = oracle.rows(random.Random(seed), 300)
    opened = open_rows(arrow(rows))
    opened._database.lend("raw", arrow(rows))
    schema = Schema({n: replace(c, nan=c.storage == "float64") for n, c in opened.schema.items()})
    for number in range(100):
        kind, text, meaning = drawn(seed * 7_000_003 + number)
        found = computed(opened, asked(kind, text), schema=schema, name="raw")
        assert same(found, [meaning(row) for row in rows]), text


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        ("_ln", lambda self, arg: self._compile(arg).ln()),
        ("_divide", lambda self, left, right: self._compile(left) / self._compile(right)),
        ("_extreme", lambda self, choose, args: choose(*(self.value(arg) for arg in args))),
        ("_makes_nan", lambda self, node: False),
        ("_operand", lambda self, node: self._compile(node)),
    ],
)
def test_a_compiler_without_one_guard_is_caught(monkeypatch, part: str, broken: Any) -> None:
    monkeypatch.setattr(_compile.Compiler, part, broken)
    methods = dict(_compile._METHODS)
    methods.update({"ln": _compile.Compiler._ln, "/": _compile.Compiler._divide})
    monkeypatch.setattr(_compile, "_METHODS", methods)
    assert first_difference(0, 250)


def test_canonical_text_is_a_fixed_point(seed: int) -> None:
    for number in range(600):
        _, text, _ = drawn(seed * 3_000_017 + number)
        read = Expression.read(text)
        assert Expression.read(read.text) == read
        assert Expression.read(read.text).text == read.text


def test_dates_are_compared_with_dates_and_iso_texts() -> None:
    from datetime import date, datetime

    days = [date(2020, 1, 1), date(2020, 6, 1), None, date(1, 1, 1), date(9999, 12, 31)]
    moments = [
        datetime(2020, 1, 1, 12),
        datetime(2020, 6, 1),
        datetime(2020, 1, 1),
        None,
        datetime(1970, 1, 1),
    ]
    rows = open_rows(pa.table({"d": days, "m": pa.array(moments, pa.timestamp("ns"))}).slice(0))
    for text, wanted in {
        "d > '2020-01-01'": [False, True, None, False, True],
        "'2020-01-01' < d": [False, True, None, False, True],
        "m >= '2020-01-01 12:00:00'": [True, True, False, None, False],
        "d < m": [True, False, None, None, False],
        "d in ('2020-01-01', '9999-12-31')": [True, False, None, False, True],
        "m between '2020-01-01' and '2020-01-02'": [True, False, True, None, False],
        "m is null": [False, False, False, True, False],
    }.items():
        assert computed(rows, queries.share(text)) == wanted, text


@pytest.mark.parametrize("text", ["17 - x % 5", "x % 5 / 2", "2 * x % 5", "x % 5 * 2", "x + 7 % 5 - 1"])
def test_the_remainder_binds_as_tightly_in_a_question_as_in_duckdb(text: str) -> None:
    """A parser that reads 17 - x % 5 as (17 - x) % 5 would answer another question."""
    ours = computed(open_rows(pa.table({"x": [13.0]})), queries.mean(text, bounds=(-99, 99)))
    assert ours == [duckdb.sql(f"select {text} from (select 13.0::double as x)").fetchall()[0][0]]
