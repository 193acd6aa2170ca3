"""Hints from the training part: they come before anything is charged, and read no protected row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from holdfast import Guard
from holdfast.dependence import Clusters
from holdfast.engines import Rows
from holdfast.errors import QueryRejected
from holdfast.guard import Asker
from holdfast.server import Policy

ROWS = 1_200
CITIES = ["Adelaide", "Sydney", "Perth"]


@pytest.fixture
def table(rng):
    return pd.DataFrame(
        {
            "city": rng.choice(CITIES, ROWS),
            "code": rng.choice(["Q-1", "Q-2"], ROWS),
            "x": rng.normal(1_000, 10, ROWS),
            "never": pd.Series([None] * ROWS, dtype="float64"),
            "t": pd.date_range("2024-01-01", periods=ROWS, tz="Europe/Berlin"),
        }
    )


@pytest.fixture
def guard(table):
    return Guard(table)


@pytest.fixture
def watched(guard, monkeypatch):
    """What was read of the protected rows."""
    read, protected = [], guard._setup.protected.rows
    for name in (
        "sums",
        "order_statistics",
        "frame",
        "texts",
        "empty_columns",
        "agreement",
        "different_rows",
    ):
        method = getattr(Rows, name)

        def noted(rows, *args, method=method, name=name, **options):
            if rows is protected:
                read.append(name)
            return method(rows, *args, **options)

        monkeypatch.setattr(Rows, name, noted)
    return read


@pytest.mark.parametrize(
    ("condition", "near"),
    [
        ("city = 'Adelei'", "Adelaide"),
        ("city <> 'adelaide'", "Adelaide"),
        ("city in ('Perth', 'Sidney')", "Sydney"),
        ("city not in ('PERTH ', 'Sydney')", "Perth"),
        ("x > 1000 and (city = 'Peth' or x < 5)", "Perth"),
        ("case city when 'Sydny' then true else false end", "Sydney"),
    ],
)
def test_a_misspelt_text_is_refused_free_of_charge(guard, watched, condition, near):
    message = f"Did you mean '{near}'"
    for ask in (
        guard.share,
        lambda text: guard.share("x > 1000", where=text),
        lambda text: guard.ask_all(["share(x > 1000)", f"share({text})"]),
        lambda text: guard.cost_preview(f"share({text})"),
        lambda text: guard.report([f"share({text})"]),
    ):
        with pytest.raises(QueryRejected, match=message) as refused:
            ask(condition)
        assert (refused.value.asked, refused.value.spent) == (0, 0)
    assert (guard.spent, guard.history, guard.closed, watched) == (0, (), False, [])


def test_a_misspelt_text_with_a_guess_is_answered(guard):
    answer = guard.share("city = 'Adelei'", guess=0)
    assert answer.low == 0
    assert "No training row has 'Adelei' in the column 'city'." in answer.notes
    spent = guard.spent
    assert guard.share("city = 'Adelei'") == answer  # What was answered is never refused.
    assert guard.cost_preview("share(city = 'Adelei')").known
    assert guard.spent == spent


@pytest.mark.parametrize("condition", ["city = 'London'", "code = 'Q-3'"])
def test_a_text_that_is_like_no_other_is_noted(guard, condition):
    """Codes that differ in a digit are no misspellings of each other."""
    note = f"No training row has {condition.partition(' = ')[2]} in the column '{condition[:4]}'."
    assert note in guard.cost_preview(f"share({condition})").why
    assert note in guard.share(condition).notes


def test_what_the_training_part_has_is_asked_without_a_word(guard):
    assert guard.cost_preview("share(city in ('Perth', 'Sydney'))").why == ""
    assert guard.share("city in ('Perth', 'Sydney')").notes == ()
    assert guard.share("city like 'Adelei%'").notes == ()


def test_public_categories_are_not_misspelt():
    sizes = ["small", "smaller", "smallest"]
    table = pl.DataFrame({"size": pl.Series(["small", "smallest"] * 300, dtype=pl.Enum(sizes))})
    answer = Guard(table, public_categories=True).share("size = 'smaller'")
    assert (answer.value, answer.notes) == (0, ())
    with pytest.raises(QueryRejected, match="Did you mean 'small'"):
        Guard(table).share("size = 'smaller'")


def test_a_column_of_names_has_no_misspellings(rng):
    names = [f"{''.join(rng.choice(list('abcdefgh'), 8))}{place}" for place in range(33_000)]
    guard = Guard({"name": names})
    assert len(guard.train["name"]) > 10_000
    assert guard.share("name = 'abcdefgh1'").notes == ()


def test_a_column_is_looked_through_once(guard, monkeypatch):
    looked, texts = [], Rows.texts
    monkeypatch.setattr(
        Rows, "texts", lambda rows, *args, **more: looked.append(args) or texts(rows, *args, **more)
    )
    for limit in range(5):
        guard.cost_preview(f"share(city = 'Perth' and x > {limit})")
        guard.cost_preview(f"share(x > {limit})")
    assert looked == [("city",)]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((0, 1), "lie above 1"), ((5_000, 6_000), "lie below 5000"), ((-1, 0), "lie above 0")],
)
def test_a_range_that_clips_everything_is_refused_free_of_charge(guard, watched, bounds, message):
    line = f"mean(x, {bounds[0]}, {bounds[1]}"
    for ask in (
        guard.ask,
        guard.cost_preview,
        lambda text: guard.ask_all(["share(x > 1000)", text]),
        lambda text: guard.report(["share(x > 1000)", text]),
    ):
        for where in ("", ", where = city = 'Perth'"):
            with pytest.raises(QueryRejected, match=message) as refused:
                ask(f"{line}{where})")
            assert refused.value.asked == 0
    assert (guard.spent, guard.history, guard.closed, watched) == (0, (), False, [])
    (first, second) = guard.answer_each([("share(x > 1000)", Asker()), (f"{line})", Asker())])
    assert first.value > 0
    assert message in str(second)
    meant = guard.mean("x", bounds=bounds, guess=bounds[0])
    assert {meant.low, meant.high} & set(bounds)


def test_agreed_code_refuses_it_too(table):
    guard = Guard(table, strategy="agreed-code", queries=5, surprises=2, error=0.2)
    with pytest.raises(QueryRejected, match="lie above 1"):
        guard.mean("x", bounds=(0, 1))
    assert guard.spent == 0


def test_values_at_an_end_of_the_range_are_not_clipped():
    guard = Guard({"x": np.ones(600), "y": np.full(600, np.nan)})
    assert guard.mean("x", bounds=(0, 1)).high == 1
    assert guard.mean("x", bounds=(1, 2)).low == 1
    assert guard.mean("y", bounds=(5, 6), nulls=5).low == 5


@pytest.mark.parametrize(
    "line",
    [
        "share(x > 1000, where = x > 1e6)",
        "mean(x, 0, 2000, where = x > 1e6)",
        "quantile(x, 0.5, where = x > 1e6)",
        "mean(never, 0, 1, nulls = skip)",
        "variance(x, 0, 2000, where = x > 1e6)",
    ],
)
def test_a_filter_that_no_training_row_passes_is_refused_free_of_charge(guard, watched, line):
    for ask in (guard.ask, guard.cost_preview, lambda asked: guard.discover(f"{asked} > 0.5")):
        with pytest.raises(QueryRejected, match=r"enters|say nothing about"):
            ask(line)
    assert guard.spent == 0
    assert watched == []


def test_a_filter_that_no_training_row_passes_is_noted_with_a_guess(guard):
    line = "share(x > 1000, where = x > 1e6, guess = 0.5)"
    note = f"None of {len(guard.train):,} training rows enters this question"
    assert note in guard.cost_preview(line).why
    assert any(one.startswith(note) for one in guard.ask(line).notes)


def test_a_small_training_part_does_not_show_that_no_row_passes(rng):
    table = {"x": rng.random(4_000), "kind": np.arange(4_000) % 2}
    guard = Guard(table, train={"x": rng.random(50), "kind": np.zeros(50, dtype=int)})
    answer = guard.share("x > 0.5", where="kind = 1")
    assert any(note.startswith("None of 50 training rows") for note in answer.notes)
    assert answer.low < 0.5 < answer.high


def test_a_column_without_values_is_noted(guard):
    note = "The column 'never' has no value in any training row."
    assert note in guard.cost_preview("share(never > 1, nulls = false)").why
    assert note in guard.share("never > 1", nulls=False).notes
    assert not any("no value in any" in note for note in guard.share("x > 1000").notes)


def test_times_with_a_zone_are_said_to_be_in_utc(guard):
    note = "Times in 't' are taken in UTC."
    assert note in guard.cost_preview("share(hour(t) = 23)").why
    assert note in guard.share("hour(t) = 23").notes


def test_without_training_rows_there_are_no_hints(table):
    guard = Guard(table, training_share=0)
    assert guard.share("city = 'Adelei'", guess=0.1).notes == ()
    assert guard.mean("x", bounds=(0, 1), guess=0.5).high == 1


def assumes_no_copies(guard):
    return any(one.startswith("Rows repeat") for one in guard.certificate.assumed)


def test_rows_that_repeat_are_an_assumption(table):
    few = table.drop(columns=["never", "t"]).assign(y=table["x"].to_numpy()[::-1])
    copied = pd.concat([few.iloc[:300]] * 4, ignore_index=True)
    assert assumes_no_copies(Guard(copied))
    assert assumes_no_copies(Guard(copied, train=copied))
    assert not assumes_no_copies(Guard(few))
    assert not assumes_no_copies(Guard(copied, dependence=Clusters([4] * 300)))


def test_rows_of_few_values_repeat_by_chance(rng):
    coins = {name: rng.integers(0, 3, ROWS) for name in "abcd"}
    assert not assumes_no_copies(Guard(coins))


def test_the_service_says_the_same(tmp_path, table):
    from fastapi.testclient import TestClient

    from holdfast.server import Service, create_app

    (tmp_path / "data").mkdir()
    table.to_parquet(tmp_path / "data" / "towns.parquet")
    guard, service = Guard(tmp_path / "data" / "towns.parquet"), Service(tmp_path)
    service.datasets.register("towns", "towns.parquet", Policy())
    token = service.tokens.issue("ann", role="analyst")[0]
    with TestClient(create_app(service)) as client:

        def post(path, body):
            headers = {"Authorization": f"Bearer {token}"}
            return client.post(f"/v1/datasets/towns/{path}", json=body, headers=headers).json()

        for line in ("share(city = 'Adelei')", "mean(x, 0, 1)"):
            with pytest.raises(QueryRejected) as refused:
                guard.ask(line)
            sentence = str(refused.value)
            assert post("questions", {"query": line})["detail"] == sentence
            assert post("preview", {"query": line})["detail"] == sentence
            told = post("batches", {"questions": [{"query": "share(x > 1e4)"}, {"query": line}]})
            problem = told["detail"] if "detail" in told else told["outcomes"][1]["problem"]["detail"]
            assert problem == sentence
        assert service.datasets.get("towns").guard.spent == sum(
            answer.cost for answer in service.datasets.get("towns").guard.history
        )
        assert [answer.query.text for answer in service.datasets.get("towns").guard.history] == [
            "share(x > 10000)"
        ]
    service.close()


def test_a_hint_that_takes_too_long_is_left_out(guard, monkeypatch):
    def late(*args, **options):
        raise QueryRejected("The question takes longer than the 1 seconds that one may take.")

    monkeypatch.setattr(Rows, "texts", late)
    monkeypatch.setattr(Rows, "empty_columns", late)
    assert guard.share("city = 'Adelei'", nulls=False).notes == ()
    assert guard.share("never > 1", nulls=False).notes == ()
