"""Several questions in few statements: the same integers as one by one, whatever the questions are."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.engine import arrow, people
from contracts.questions import Questions
from holdfast import queries
from holdfast.engines import _sums, open_rows, sums_of_all
from holdfast.engines._sums import MOST_TOGETHER, _groups
from holdfast.errors import QueryRejected

ROWS = 3_000
TEXTS = [
    "share(x > 0.25)",
    "share(x > 0.5)",
    "share(0.5 < x)",
    "mean(x, 0, 1)",
    "mean(x, 0.25, 0.5)",
    "mean(x * y, 0, 1)",
    "mean(x, 0, 1, where = y < 0.3)",
    "share(x > 0.7, where = y < 0.3)",
    "share(x > 0.7, where = y < 0.31)",
    "mean(m, 0, 1, nulls = 0)",
    "mean(m, 0, 1, nulls = 0.4)",
    "mean(m, -1, 1, nulls = skip)",
    "share(m > 0.5, nulls = true)",
    "share(m > 0.5, nulls = skip)",
    "share(m > 0.5, nulls = false, where = t = 'a')",
    "share(t = 'a', nulls = false)",
    "share(t = ' FROM ', nulls = false)",
    "share(t = ' AS \"value\", ', nulls = false)",
    "share(x > 0.2, where = m is null)",
    "mean(ln(x), -5, 0, nulls = -5)",
    "mean(sqrt(x) + y, 0, 2, nulls = skip, where = t <> 'b')",
]


@pytest.fixture
def rows(rng):
    return open_rows(
        {
            "x": rng.random(ROWS),
            "y": rng.random(ROWS),
            "m": np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS)),
            "t": rng.choice(["a", "b", " FROM ", ' AS "value", '], ROWS),
            "value": rng.integers(0, 5, ROWS),
            "passes": rng.random(ROWS) < 0.5,
        }
    ).stored()


def checked(rows, texts):
    return [queries.read(text).check(rows.schema, frozenset(["m", "t"])) for text in texts]


def both(rows, asked, squares):
    alone = [rows.sums(question, squares=wanted) for question, wanted in zip(asked, squares, strict=True)]
    return alone, sums_of_all(rows, asked, squares)


@pytest.mark.parametrize("squares", [False, True])
def test_together_gives_the_integers_of_one_by_one(rows, squares):
    asked = checked(rows, TEXTS)
    alone, together = both(rows, asked, [squares] * len(asked))
    assert together == alone


def test_columns_that_are_named_like_our_own_are_no_trouble(rows):
    texts = ["mean(value, 0, 4)", "share(value > 2)", "share(passes)", "share(value > 1, where = passes)"]
    asked = checked(rows, texts)
    alone, together = both(rows, asked, [True, False, False, False])
    assert together == alone


def test_in_any_order_and_any_number(rows, rng):
    for _ in range(8):
        chosen = rng.choice(len(TEXTS), size=rng.integers(1, 40))
        asked = checked(rows, [TEXTS[place] for place in chosen])
        alone, together = both(rows, asked, list(rng.random(len(asked)) < 0.5))
        assert together == alone
    assert sums_of_all(rows, [], []) == []


def test_what_goes_together_shares_the_filter_and_the_columns(rows):
    def together(*texts):
        asked = checked(rows, texts)
        return [[one.place for one in group] for group in _groups(rows, asked, [False] * len(asked))]

    assert together("share(x > 0.1)", "share(y > 0.1)", "share(x > 0.2)") == [[0, 2], [1]]
    same = "share(x > 0.1, where = y > 0.5)"
    assert together(same, "share(x > 0.3, where = y > 0.5)", "share(x > 0.3, where = y > 0.6)") == [
        [0, 1],
        [2],
    ]
    many = [f"share(x > {place / 100})" for place in range(40)]
    assert [len(group) for group in together(*many)] == [MOST_TOGETHER, MOST_TOGETHER, 8]


def test_filters_of_their_own_in_one_statement(rows, monkeypatch):
    """As for Spark, where every statement is a job."""
    monkeypatch.setattr(_sums, "Spark", type(rows._database.dialect))
    monkeypatch.setattr(_sums, "DuckDB", type(None))
    asked = checked(rows, TEXTS[:16])
    assert len(_groups(rows, asked, [False] * 16)) == 1
    for squares in ([False] * 16, [True] * 16):
        alone, together = both(rows, asked, squares)
        assert together == alone


def test_few_statements_run(rows, monkeypatch):
    ran = []
    database = rows._database
    original = database.ask
    monkeypatch.setattr(database, "ask", lambda *asked: ran.append(asked) or original(*asked))
    sums_of_all(rows, checked(rows, [f"share(x > {place / 100})" for place in range(40)]), [False] * 40)
    assert len(ran) == 3


@pytest.mark.parametrize(
    ("place", "lacking", "count"),
    [
        ("memory", frozenset(), 60),
        ("postgres", frozenset({"% of fractions"}), 40),
        pytest.param("memory", frozenset(), 300, marks=pytest.mark.slow),
        pytest.param("postgres", frozenset({"% of fractions"}), 200, marks=pytest.mark.slow),
        pytest.param("spark", frozenset({"exp", "ln", "power"}), 20, marks=pytest.mark.slow),
    ],
)
def test_random_questions_wherever_the_rows_live(request, seed, place, lacking, count):
    columns = people(seed, 500)
    table = arrow(columns)
    if place != "memory":
        table = request.getfixturevalue(f"to_{place}")(table)
    rows = open_rows(table) if place != "memory" else open_rows(table).stored()
    writer, asked = Questions(seed, lacking), []
    for _ in range(count):
        try:
            question = queries.read(writer.line()).check(rows.schema, frozenset(columns))
        except QueryRejected:
            continue
        if question.kind != "quantile":
            asked.append(question)
    # Some that go together for certain.
    asked += [queries.read(f"share(y > {limit})").check(rows.schema, frozenset()) for limit in (0.5, 1, 2)]
    asked += [queries.read(f"mean(k, 0, {high})").check(rows.schema, frozenset()) for high in (2, 3)]
    assert len(asked) > count / 3
    alone, together = both(rows, asked, [place % 2 == 0 for place in range(len(asked))])
    assert together == alone
    assert len(_groups(rows, asked, [False] * len(asked))) < len(asked)
