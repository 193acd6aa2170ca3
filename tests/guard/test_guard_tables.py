"""Tables: a question for each value that the training part shows, asked together, in one scan."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.engines import unsealed
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.readings import OTHERS


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    rows = 8_000
    frame = pd.DataFrame({"carrier": rng.choice([f"c{place:02}" for place in range(20)], rows)})
    frame["late"] = rng.random(rows) < 0.3
    frame["delay"] = rng.gamma(2, 10, rows)
    frame["night"] = rng.random(rows) < 0.5
    frame.loc[:4, "carrier"] = "rare"
    return frame


def noted_statements(guard, monkeypatch):
    """A list of every statement that reads rows, from here on."""
    statements = []
    for part in (guard._setup.training, guard._setup.protected):
        for name in ("run", "ask"):
            original = getattr(part.rows._database, name)
            monkeypatch.setattr(
                part.rows._database,
                name,
                lambda *asked, original=original: statements.append(asked) or original(*asked),
            )
    return statements


@pytest.mark.parametrize("question", ["share(late, by = carrier)", "mean(delay, 0, 200, by = carrier)"])
def test_twenty_groups_cost_at_most_three_scans_and_say_what_each_says_alone(table, monkeypatch, question):
    guard = Guard(table)
    statements = noted_statements(guard, monkeypatch)
    answers = guard.table(question)
    assert 2 <= len(statements) <= 3
    assert len(answers) >= 21
    with unsealed():
        rows = guard._setup.protected.rows.frame()
    column = "late" if question.startswith("share") else "delay"
    for row in answers.rows:
        if row.answer is not None:
            (value,) = row.group
            truth = rows[column][rows.carrier == value].mean()
            assert row.answer.low <= truth <= row.answer.high
            assert guard.ask(str(row.answer.query)) == row.answer


def test_the_sums_of_a_table_are_those_of_its_questions(table):
    together, alone = Guard(table, expect=1), Guard(table, expect=1)
    told = together.table("share(late, by = night)")
    texts = [str(answer.query) for answer in told.answers]
    assert [answer.value for answer in told.answers] == [answer.value for answer in alone.ask_all(texts)]


def test_small_groups_and_values_not_seen_say_so(table):
    guard = Guard(table)
    shown = guard.share("late", by="carrier")
    notes = {row.group[0]: row.note for row in shown.rows if row.answer is None}
    assert "Too few rows" in notes.get("rare", "Too few rows")
    assert notes[OTHERS].startswith("Not asked: not in the training rows")
    assert "rare" not in [str(answer.query) for answer in guard.history]
    with pytest.raises(KeyError):
        shown["rare"]


def test_two_columns_and_the_forms_a_table_has(table):
    guard = Guard(table[table.carrier < "c03"].reset_index(drop=True))
    shown = guard.mean("delay", bounds="train", by=["carrier", "night"])
    assert shown.by == ("carrier", "night")
    assert len(shown.rows[0].group) == 2
    frame = shown.to_frame()
    assert list(frame.columns) == ["carrier", "night", "value", "low", "high", "note"]
    assert "<table>" in shown._repr_html_()
    assert "carrier" in str(shown).splitlines()[1]
    json.dumps(shown.to_dict())
    answer = shown[("c01", "True")]
    assert answer.low < 20 < answer.high


def test_groups_come_in_the_order_of_their_categories_and_nulls_last(rng):
    rows = 3_000
    sizes = pd.Categorical.from_codes(rng.integers(-1, 3, rows), ["small", "medium", "large"], ordered=True)
    frame = pd.DataFrame({"size": sizes, "x": rng.random(rows)})
    frame["floor"] = pd.array(np.where(rng.random(rows) < 0.3, None, rng.integers(0, 2, rows)), dtype="Int64")
    guard = Guard(frame, public_categories=["size"])
    shown = guard.share("x > 0.5", by="size")
    assert [row.group[0] for row in shown.rows] == ["small", "medium", "large", "null", OTHERS]
    shown = guard.mean("x", bounds=(0, 1), by="floor")
    assert [row.group[0] for row in shown.rows] == ["0", "1", "null", OTHERS]
    assert shown[0] == shown[0.0] == shown["0"]
    with unsealed():
        protected = guard._setup.protected.rows.frame()
    truth = protected.x[protected.floor.isna()].mean()
    assert shown[None].low < truth < shown[None].high
    both = guard.quantile("x", 0.5, by=["size", "floor"])
    assert [row.group for row in both.rows[:3]] == [("small", "0"), ("small", "1"), ("small", "null")]


def test_groups_that_the_filter_leaves_out_are_not_asked_about(table):
    guard = Guard(table)
    shown = guard.share("late", by="carrier", where="carrier < 'c02'")
    assert [row.group[0] for row in shown.rows if row.answer is not None] == ["c00", "c01"]
    assert all("enters" in row.note for row in shown.rows if row.group[0] > "c01" and row.group != (OTHERS,))
    assert len(guard.history) == 2


def test_a_table_of_differences_and_of_quantiles(table):
    guard = Guard(table)
    apart = guard.difference("late", between="night, not night", by="carrier", where="carrier < 'c02'")
    assert [row.group for row in apart.rows if row.answer is not None] == [("c00",), ("c01",)]
    medians = guard.quantile("delay", 0.5, by="night")
    assert all(answer.low < 16.8 < answer.high for answer in medians.answers)
    assert guard.median("delay", by="night") == medians


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("share(late, by = airline)", "is no column"),
        ("share(late, by = delay)", "at most 100"),
        ("share(late)", "by a column"),
        ("share(late, by = (carrier, night, late))", "one column or two"),
    ],
)
def test_a_question_that_is_not_a_table_is_refused_free_of_charge(table, question, words):
    guard = Guard(table)
    with pytest.raises((QueryRejected, InvalidArgument), match=words):
        guard.table(question)
    assert guard.spent == 0
