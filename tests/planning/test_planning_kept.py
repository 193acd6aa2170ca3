"""What a plan certifies can be promised to a guard, and every share and mean is then answered."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Guard, plan
from holdfast.dependence import Clusters, MarkovChain
from holdfast.errors import BudgetSpent
from holdfast.stability import transfer_error, typical_gaussian_error
from holdfast.tails import BoundedDifferences

STRATEGIES = (
    "split",
    "agreed-code",
    "grid-code",
    "typical-laplace",
    "typical-gaussian",
    "transfer-gaussian",
)


def tables(rows):
    """Values in the middle of the range, where intervals are widest, and at its ends."""
    rng = np.random.default_rng(rows)
    return {"coin": rng.integers(0, 2, rows), "x": rng.random(rows), "never": np.zeros(rows, dtype=int)}


def guard_for(rows, k, strategy, error, dependence=None):
    options = {"surprises": k} if strategy == "agreed-code" else {}
    return Guard(tables(rows), strategy=strategy, queries=k, error=error, dependence=dependence, **options)


def asked(k):
    shares = ("share(coin = 1)", "mean(x, 0, 1)", "share(never = 1)", "mean(1000 * x, 0, 1, guess = 1)")
    further = (f"share(x > {place / 1000})" for place in range(1, 1000))
    return [*shares, *further][:k]


def keeps(rows, k, strategy, dependence=None):
    """Promise a guard what the plan certifies, and ask; every answer must come, and within the error."""
    made = plan(
        queries=k,
        confidence=0.95,
        rows=rows,
        dependence=dependence,
        surprises=k if strategy == "agreed-code" else None,
    )
    error = made.method(strategy).error
    guard = guard_for(rows, k, strategy, error, dependence)
    for question in asked(min(k, 6)):
        assert guard.cost_preview(question).allowed
        assert guard.ask(question).half_width <= error
    return error


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("rows", "k"), [(20_000, 20), (20_000, 1), (300, 40)])
def test_the_error_of_a_plan_can_be_promised(strategy, rows, k):
    keeps(rows, k, strategy)


ANY = st.integers(20, 30_000), st.integers(1, 300), st.sampled_from(STRATEGIES)


def keeps_any(rows, k, strategy):
    if strategy == "split" and k > rows:
        return  # Refused at opening: not every question has a row of its own.
    if strategy in ("agreed-code", "grid-code"):
        least = plan(queries=k, confidence=0.95, rows=rows, surprises=k).method(strategy)
        if least.error >= 1:
            return  # Refused at opening: no error can be kept.
    keeps(rows, k, strategy)


@settings(max_examples=10)
@given(*ANY)
def test_for_any_number_of_rows_and_questions(rows, k, strategy):
    keeps_any(rows, k, strategy)


@pytest.mark.slow
@settings(max_examples=300)
@given(*ANY)
def test_for_many_numbers_of_rows_and_questions(rows, k, strategy):
    keeps_any(rows, k, strategy)


def test_the_code_guard_keeps_its_plan_while_surprises_last():
    error = plan(queries=20, confidence=0.95, rows=20_000, surprises=3).method("code").error
    guard = Guard(tables(20_000), error=error)
    for number, question in enumerate(asked(20)):
        guess = ", guess = 0.99" if number in (4, 5) else ""
        assert guard.ask(question.replace(")", f"{guess})")).half_width <= error


@pytest.mark.parametrize("strategy", ["typical-laplace", "typical-gaussian", "grid-code"])
@pytest.mark.parametrize(
    "dependence",
    [Clusters([4] * 1_000), MarkovChain([[0.9, 0.1], [0.2, 0.8]], 4_000)],
    ids=["clusters", "chain"],
)
def test_with_rows_that_depend_on_each_other(strategy, dependence):
    keeps(4_000, 20, strategy, dependence)


@pytest.mark.parametrize("strategy", ["split", "typical-gaussian", "transfer-gaussian", "grid-code"])
def test_the_rows_of_a_plan_keep_its_promise(strategy):
    made = plan(queries=10, confidence=0.95, error=0.15).method(strategy)
    guard = guard_for(made.rows, 10, strategy, 0.15)
    for question in asked(6):
        assert guard.ask(question).half_width <= 0.15


@pytest.mark.parametrize("strategy", ["typical-gaussian", "typical-laplace"])
def test_a_single_question_is_answered_without_noise(strategy):
    table = tables(2_000)
    guard = Guard(table, strategy=strategy, queries=1)
    answer = guard.share("coin = 1")
    assert answer.value == table["coin"].mean()
    assert answer.half_width == pytest.approx(math.sqrt(math.log(2 / 0.05) / 4_000), rel=1e-6)
    with pytest.raises(BudgetSpent):
        guard.share("x > 0.5")


@pytest.mark.parametrize("strategy", ["typical-gaussian", "typical-laplace", "transfer-gaussian"])
def test_a_promise_that_cannot_be_kept_is_refused_before_anything_is_charged(strategy):
    guard = Guard(tables(2_000), strategy=strategy, queries=10, error=0.01)
    for question in ("share(coin = 1)", "mean(x, 0, 1)", "share(x > 0.5, where = coin = 1)"):
        with pytest.raises(BudgetSpent, match="Nothing was charged") as caught:
            guard.ask(question)
        assert caught.value.left == 10
        assert not guard.cost_preview(question).allowed
    assert guard.spent == 0
    assert len(list(guard._book.events())) == 1
    # An error counts in the units of the question: a narrow range can keep it.
    assert guard.mean("0.02 * x", bounds=(0, 0.02)).half_width <= 0.01


def test_splitting_refuses_before_reading_what_no_rows_could_keep():
    guard = Guard(tables(2_000), strategy="split", queries=10, error=0.005)
    with pytest.raises(BudgetSpent, match="Nothing was charged"):
        guard.share("coin = 1")
    assert guard.spent == 0
    enough = Guard(tables(2_000), strategy="split", queries=10, error=0.03)
    assert enough.share("never = 1").half_width <= 0.03
    with pytest.raises(BudgetSpent, match="charged as an answer"):
        enough.share("coin = 1")
    assert enough.spent == 2


@pytest.mark.parametrize(("strategy", "k"), [("typical-gaussian", 20), ("transfer-gaussian", 1)])
def test_a_plan_without_the_grid_would_be_refused(strategy, k):
    """The twin: the error of the continuous noise alone, which is what plans certified before."""
    if strategy == "typical-gaussian":
        error = typical_gaussian_error(BoundedDifferences.of_mean(0, 1, 20_000), k, 0.05).error
    else:
        error = min(transfer_error(20_000, k, 0.05, method=way).error for way in ("information", "jung"))
    kept = plan(queries=k, confidence=0.95, rows=20_000).method(strategy).error
    assert error < kept < error * (1 + 1e-3)
    with pytest.raises(BudgetSpent):
        guard_for(20_000, k, strategy, error).mean("x", bounds=(0, 1))
