"""What a person meets at the edges: rows of other kinds, models without bounds, books that were closed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from holdfast import Guard, plan
from holdfast.dependence import GaussianRows
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.guard import Board
from holdfast.ledger import BookError

ROWS = 300


@pytest.fixture
def table():
    rng = np.random.default_rng(2)
    return {"x": rng.normal(size=ROWS), "name": rng.choice(["a", "b"], ROWS), "flag": rng.random(ROWS) < 0.5}


@pytest.mark.parametrize(
    ("column", "values", "kinds"),
    [
        ("x", ["a"], ("a number", "text")),
        ("name", [1.0], ("text", "a number")),
        ("flag", [1.0], ("true or false", "a number")),
        ("x", [[1.0]], ("a number", "cannot be computed with")),
    ],
)
def test_a_training_part_of_other_kinds_is_refused_before_the_first_question(table, column, values, kinds):
    train = {**{name: array[:1] for name, array in table.items()}, column: values}
    with pytest.raises(QueryRejected) as refused:
        Guard(table, train=train)
    said = str(refused.value)
    assert repr(column) in said
    assert said.index(kinds[0]) < said.index(kinds[1])


def test_whole_and_broken_numbers_are_of_one_kind(table):
    train = {**{name: array[:50] for name, array in table.items()}, "x": np.arange(50)}
    assert Guard(table, train=train).share("x > 0").low < 1


@pytest.fixture
def model():
    return GaussianRows(np.eye(ROWS))


@pytest.mark.parametrize("error", [None, 0.5])
def test_gaussian_rows_are_asked_with_a_tail_and_say_so(table, model, error):
    guard = Guard(table, dependence=model, training_share=0, error=error)
    assert repr(guard).startswith("Guard(300 protected rows")
    assert float(guard.left) > 0
    for question in ("share(x > 0)", "mean(x, 0, 1)", "quantile(x, 0.5)"):
        with pytest.raises(QueryRejected, match=r"tail=model\.mean_tail\(\)") as refused:
            guard.ask(question)
        assert refused.value.asked == 0
        with pytest.raises(QueryRejected, match=r"guard\.custom"):
            guard.cost_preview(question)
    assert guard.spent == 0
    answer = guard.custom(lambda rows: rows["x"].mean(), tail=model.mean_tail(), guess=0.0)
    assert answer.low < 0 < answer.high
    assert guard.spent > 0


@pytest.mark.parametrize("strategy", ["typical-gaussian", "typical-laplace"])
def test_gaussian_rows_are_asked_with_noise_and_a_tail_within_the_planned_error(table, model, strategy):
    error = plan(queries=3, confidence=0.95, dependence=model).method(strategy).error
    guard = Guard(table, dependence=model, strategy=strategy, queries=3, error=error)
    with pytest.raises(QueryRejected, match=r"tail=model\.mean_tail\(\)"):
        guard.share("x > 0")
    answer = guard.custom(lambda rows: rows["x"].mean(), tail=model.mean_tail())
    assert answer.low < 0 < answer.high
    assert answer.half_width <= error * (1 + 1e-12)
    assert guard.spent == 1


@pytest.mark.parametrize("strategy", ["grid-code", "split"])
def test_other_strategies_refuse_gaussian_rows_in_words(table, model, strategy):
    with pytest.raises(QueryRejected, match="code"):
        Guard(table, dependence=model, strategy=strategy, queries=3)


@pytest.mark.parametrize("ledger", [5, 2.5, ["book"]])
def test_a_ledger_that_is_no_place_is_named(table, ledger):
    with pytest.raises(InvalidArgument) as refused:
        Guard(table, ledger=ledger)
    assert refused.value.argument == "ledger"


@pytest.mark.parametrize("kept", [True, False])
def test_a_closed_guard_says_what_was_spent_and_how_to_continue(table, tmp_path, kept):
    path = tmp_path / "account.holdfast" if kept else None
    guard = Guard(table, ledger=path)
    answer = guard.share("x > 0")
    spent, left, shown = guard.spent, guard.left, repr(guard)
    guard.close()
    guard.close()
    assert (guard.spent, guard.left, guard.closed, repr(guard)) == (spent, left, False, shown)
    assert guard.share("x > 0") == answer
    for use in (lambda: guard.share("x > 1"), lambda: guard.history, guard.close_account):
        with pytest.raises(BookError, match="same ledger" if kept else "ledger=path") as refused:
            use()
        assert "closed here" in str(refused.value)
        assert not str(refused.value).endswith("..")
    if kept:
        assert Guard(table, ledger=path).spent == spent


@pytest.mark.parametrize(
    ("strategy", "words"),
    [("split", "no noise"), ("grid-code", "no noise"), ("typical-gaussian", "with noise")],
)
def test_answers_say_whether_noise_was_added_and_what_is_counted(strategy, words):
    guard = Guard({"x": np.random.default_rng(0).random(4000)}, strategy=strategy, queries=5)
    answer = guard.share("x > 0.5")
    for shown in (repr(answer), answer._repr_html_()):
        assert words in shown
        assert "as guessed" not in shown
        assert ("with noise" in shown) == (words == "with noise")
    assert str(guard.left) == guard.left.words == "4 of 5 answers"
    assert (guard.unit, guard.left.unit, answer.unit) == ("answers", "answers", "answers")
    assert guard.spent == answer.cost == guard.certificate.numbers["answers spent"] == 1
    assert "1 question, 1 answer spent" in repr(guard)
    assert "nats" not in repr(guard) + repr(answer) + repr(guard.cost_preview("share(x > 0.7)"))


def test_what_is_left_has_plain_values(table):
    unlimited = Guard(table).left
    assert unlimited.to_dict()["left"] is None
    assert unlimited.to_dict()["unit"] == "nats"
    some = Guard(table, error=0.3).left
    said = json.loads(json.dumps(some.to_dict()))
    assert said["left"] == float(some)
    assert (said["words"], said["confirmed"], said["surprises"]) == (
        some.words,
        some.confirmed,
        some.surprises,
    )
    assert some.words.split()[0] in some._repr_html_()
    counted = Guard(table, strategy="split", queries=4).left
    assert counted.to_dict()["unit"] == "answers"


def test_a_closed_board_says_so(tmp_path):
    board = Board({"id": np.arange(50), "y": np.arange(50) % 2}, id="id", target="y", ledger=tmp_path / "b")
    board.close()
    with pytest.raises(BookError, match="closed here"):
        board.submit({"id": np.arange(50), "prediction": np.zeros(50, dtype=int)})


@pytest.fixture
def gaps():
    """A training part without a missing value, and protected rows of which more than half are missing."""
    rng = np.random.default_rng(4)
    protected = rng.random(1000)
    protected[rng.random(1000) < 0.6] = np.nan
    return {"f": protected}, {"f": rng.random(500)}


def test_what_a_missing_value_counts_as_is_said_wherever_one_may_be(gaps):
    data, train = gaps
    guard = Guard(data, train=train)
    assert "a missing one counts as 0" in guard.mean("f", bounds=(0, 1)).notes[0]
    assert "missing" in guard.quantile("f", 0.9).notes[0]
    # Whether it is said depends on the question and the columns, and not on what is missing.
    whole = Guard({"f": train["f"]}, train=train)
    assert "a missing one counts as 0" in whole.mean("f", bounds=(0, 1)).notes[0]
    for said in ({"nulls": 0.5}, {"nulls": "skip"}, {"where": "f is not null"}):
        assert not any("missing" in note for note in guard.mean("f", bounds=(0, 1), **said).notes)
    numbers = Guard({"n": np.arange(500)})
    assert numbers.mean("n", bounds=(0, 500)).notes == ("Values outside [0, 500] are clipped.",)


def test_a_quantile_without_a_bound_costs_little_and_says_no_cell(gaps):
    """Where the interval is the whole line the cell would tell nothing and cost up to 42 nats more."""
    data, train = gaps
    answer = Guard(data, train=train).quantile("f", 0.5)
    assert (answer.low, answer.high) == (-np.inf, np.inf)
    assert answer.certificate.numbers["cells from the guess"] == 0
    assert answer.value == answer.guess
    assert not answer.confirmed
    assert answer.cost < 7


def test_the_certificate_says_what_is_taken_to_be_public():
    guard = Guard({"x": [0.0, 1.0] * 50})
    assert any("their types and the number of rows are public" in line for line in guard.certificate.assumed)
