"""What may be missing is decided from the schema and the training part; what is not announced stays away."""

from __future__ import annotations

import random

import pytest
import queries_oracle as oracle

from holdfast import queries
from holdfast.engines import Column, Schema
from holdfast.errors import QueryRejected
from holdfast.queries import Expression
from holdfast.queries._kinds import gap, limits

SCHEMA = Schema(
    {
        "x": Column("number", "float64"),
        "y": Column("number", "float64"),
        "k": Column("number", "int32", nullable=False),
        "m": Column("number", "int64", nullable=True),
        "b": Column("boolean"),
        "s": Column("text"),
        "d": Column("date"),
    }
)


def refusal(question: str, nullable: set[str]) -> str:
    with pytest.raises(QueryRejected) as caught:
        queries.read(question).check(SCHEMA, nullable)
    return str(caught.value)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("mean(x, 0, 1)", "'x'"),
        ("mean(abs(x) + 1, 0, 1)", "'x'"),
        ("mean(m, 0, 1)", "'m'"),
        ("share(x > 1)", "'x'"),
        ("share(b)", "'b'"),
        ("share(lower(s) = 'a')", "'s'"),
        ("quantile(x, 0.5)", "'x'"),
        ("mean(case when b then x else 0 end, 0, 1)", "'x'"),
        ("mean(case when y > 0 then x else 0 end, 0, 1)", "'x'"),
        ("mean(coalesce(x, m), 0, 1)", "'x'"),
        ("mean(least(x, 3), 0, 1)", "'x'"),
        ("mean(x, 0, 1, where = y > 0)", "'x'"),
        ("mean(x, 0, 1, where = x > 0 or y > 0)", "'x'"),
        ("share(x is null or y > 0)", "'y'"),
        ("share(d > '2020-01-01')", "'d'"),
        ("mean(1 / k, 0, 1)", "'1 / k'"),
        ("mean(k % k, 0, 1)", "'k % k'"),
        ("mean(ln(k), 0, 1)", "'ln(k)'"),
        ("mean(sqrt(k), 0, 1)", "'sqrt(k)'"),
        ("mean(power(k, 0.5), 0, 1)", "'power(k, 0.5)'"),
        ("mean(power(k, -1), 0, 1)", "'power(k, -1)'"),
        ("mean(ln(k), 0, 1, where = k >= 0)", "'ln(k)'"),
        ("mean(1 / k, 0, 1, where = k <> 1)", "'1 / k'"),
        ("mean(case when k > 0 then 1 end, 0, 1)", "without else"),
        ("mean(case when k > 0 then 1 else null end, 0, 1)", "without else"),
        ("mean(case when k > 0 then null else 1 end, 0, 1)", "null"),
    ],
)
def test_a_question_that_does_not_say_is_refused_and_names_the_cause(question: str, named: str) -> None:
    message = refusal(question, {"x", "y", "b", "s", "d"})
    assert named in message
    assert "nulls=" in message
    assert "skip" in message
    for said in ("skip", "false" if question.startswith("share") else "0"):
        queries.read(f"{question[:-1]}, nulls = {said})").check(SCHEMA, {"x", "y", "b", "s", "d"})


def test_text_that_is_read_as_a_number_may_have_no_value() -> None:
    assert "cast(s as double)" in refusal("mean(cast(s as double), 0, 1)", set())
    assert "cast(s as boolean)" in refusal("share(cast(s as boolean))", set())


@pytest.mark.parametrize(
    "question",
    [
        "mean(coalesce(x, 0), 0, 1)",
        "mean(case when x is null then 0 else x end, 0, 1)",
        "mean(case when x is not null then x else 0 end, 0, 1)",
        "mean(case when x > 3 and b then x * 2 else 0 end, 0, 1)",
        "mean(case when x is null or y is null then 0 else x * y end, 0, 1)",
        "mean(x, 0, 1, where = x is not null)",
        "mean(x + y, 0, 1, where = x > y)",
        "mean(x, 0, 1, where = not x is null and b)",
        "share(x is null)",
        "share(x is not null and x > 1)",
        "share(x is null or x > 1)",
        "share(coalesce(b, false))",
        "share(b is true)",
        "mean(k / 2, 0, 1)",
        "mean(1 / k, 0, 1, where = k <> 0)",
        "mean(1 / k, 0, 1, where = k > 0)",
        "mean(1 / (abs(k) + 1), 0, 1)",
        "mean(k % 7, 0, 1)",
        "mean(ln(k), 0, 1, where = k > 0)",
        "mean(ln(k), 0, 1, where = k >= 1 and k < 9)",
        "mean(ln(greatest(k, 1)), 0, 1)",
        "mean(ln(1 + abs(k)), 0, 1)",
        "mean(ln(1 + exp(k)), 0, 1)",
        "mean(sqrt(abs(k)), 0, 1)",
        "mean(power(k, 2), 0, 1)",
        "mean(power(abs(k), 0.5), 0, 1)",
        "mean(case when k > 0 then ln(k) else 0 end, 0, 1)",
        "mean(cast(k > 0 as double) / (cast(k > 0 as double) + 1), 0, 1)",
        "share(s is null)",
    ],
)
def test_a_question_that_cannot_be_null_needs_to_say_nothing(question: str) -> None:
    checked = queries.read(question).check(SCHEMA, {"x", "y", "b", "s", "d"})
    assert not checked.skips


def test_nothing_is_required_of_columns_that_showed_no_nulls() -> None:
    for question in ("mean(x + y, 0, 1)", "share(b or x > 1)", "quantile(x, 0.5)", "share(s = 'a')"):
        assert not queries.read(question).check(SCHEMA).skips


def announced(seed: int, count: int) -> list[tuple[str, dict[str, object]]]:
    """Expressions said never to be null, with a row on which they are."""
    schema = Schema(
        {
            **{name: Column("number", "float64") for name in "xyz"},
            **{"i": Column("number", "int64"), "k": Column("number", "int8")},
            **{"b": Column("boolean"), "s": Column("text"), "t": Column("text")},
        }
    )
    rows = [
        {name: value for name, value in row.items() if value is value}
        for row in oracle.rows(random.Random(seed), 400)
        if not any(value != value for value in row.values())
    ]
    wrong = []
    for number in range(count):
        writer = oracle.Writer(seed * 5_000_011 + number)
        text, meaning = (writer.number if number % 2 else writer.condition)(writer.source.choice([1, 2, 3]))
        if gap(Expression.read(text).node, schema, frozenset("xyibs")) is not None:
            continue
        for row in rows:
            before = oracle.MADE_NAN[0]
            if meaning(row) is None and oracle.MADE_NAN[0] == before:
                wrong.append((text, row))
    return wrong


def test_what_is_not_announced_is_never_null(seed: int) -> None:
    assert announced(seed, 1500) == []


@pytest.mark.parametrize("blind", ["/", "ln", "case", "coalesce"])
def test_an_analysis_that_overlooks_something_is_caught(monkeypatch, blind: str) -> None:
    from holdfast.queries import _kinds

    real = _kinds.gap

    def careless(node, columns, nullable, facts=_kinds.NOTHING):
        return None if getattr(node, "op", None) == blind else real(node, columns, nullable, facts)

    monkeypatch.setattr(_kinds, "gap", careless)
    monkeypatch.setitem(globals(), "gap", careless)
    assert announced(0, 1500)


def test_limits_hold_in_every_row(seed: int) -> None:
    schema = Schema(
        {
            **{name: Column("number", "float64") for name in "xyz"},
            **{"i": Column("number", "int64"), "k": Column("number", "int8")},
            **{"b": Column("boolean"), "s": Column("text"), "t": Column("text")},
        }
    )
    rows = oracle.rows(random.Random(seed), 150)
    narrow = 0
    for number in range(1500):
        writer = oracle.Writer(seed * 9_000_011 + number)
        text, meaning = writer.number(writer.source.choice([1, 2, 3]))
        low, high = limits(Expression.read(text).node, schema)
        narrow += low > float("-inf") or high < float("inf")
        values = [value for value in map(meaning, rows) if value is not None]
        assert all(low <= value <= high for value in values), text
    assert narrow > 300
