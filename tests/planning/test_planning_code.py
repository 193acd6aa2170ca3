"""The planner's code guard is the guard's own: prices, weights, and a real guard that keeps the plan."""

from __future__ import annotations

import math

import numpy as np
import planning_oracle as oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.coding import (
    COUNTING_WEIGHT,
    Account,
    Experience,
    Learned,
    Weights,
    best_half_cell,
    forgetting_price,
    guess_deviation,
)
from holdfast.dependence import MarkovChain
from holdfast.errors import BudgetSpent
from holdfast.guard import Guard
from holdfast.planning import plan
from holdfast.tails import BoundedDifferences


def coded(rows, queries, surprises=None):
    """What the planner says of the code guard."""
    return plan(queries=queries, confidence=0.95, rows=rows, surprises=surprises).method("code")


def counted(queries, surprises, cell):
    """What counting charges, step by step, for the questions before the last one: first those that surprise,
    each so many cells away, then those that do not."""
    experience, paid = Experience(), 0.0
    for number in range(queries - 1):
        surprise = number < surprises
        if surprise:
            paid += experience.surprise_price(cell)
        else:
            paid -= math.log1p(-experience.surprise_probability())
        experience = experience.after(surprise=surprise)
    return paid


@given(st.integers(1, 61), st.floats(0.0, 1.0))
def test_a_promise_costs_what_counting_charges_step_by_step(queries, share):
    promised = coded(20_000, queries, round(share * queries)).parameters
    room, cell = int(promised["surprises"]), max(1, math.floor(0.5 / promised["half_cell"] + 0.5))
    nats = Weights("all", float(queries)).nats(queries) - math.log(promised["beta"] * COUNTING_WEIGHT)
    nats += forgetting_price(queries) + max(counted(queries, number, cell) for number in range(room + 1))
    assert promised["nats"] == pytest.approx(nats, abs=2e-6)


@pytest.mark.parametrize(
    ("rows", "k", "mean", "last"),
    [(10**4, 10, 0.0349, 0.0436), (10**5, 100, 0.01815, 0.01987), (10**6, 10**4, 0.00785, 0.00821)],
)
def test_the_stated_widths(rows, k, mean, last):
    entry = coded(rows, k)
    assert entry.error == pytest.approx(last, rel=0.005)
    assert entry.parameters["mean"] == pytest.approx(mean, rel=0.005)


def test_ten_surprises_in_a_thousand_questions():
    rows = plan(queries=1000, confidence=0.95, error=0.1, surprises=10).method("code").rows
    assert rows == pytest.approx(18_000, rel=0.02)


@pytest.mark.parametrize(("k", "surprises"), [(1, 0), (1, 1), (10, 0), (10, 10), (1000, 10), (1000, 999)])
def test_the_promised_width_holds_when_recomputed(k, surprises):
    found = coded(20_000, k, surprises)
    p = found.parameters
    assert oracle.code_broken(p, found.error, 0.95) == []
    assert oracle.code_broken({**p, "half_cell": p["half_cell"] / 2}, found.error / 1.5, 0.95) != []
    if k > 10:
        assert oracle.code_broken({**p, "surprises": p["surprises"] / 2}, found.error * 0.999, 0.95) == []
        assert oracle.code_broken({**p, "surprises": surprises}, found.error * 0.999, 0.95) != []


@given(st.integers(1, 5000), st.integers(0, 200), st.integers(1000, 10**6))
def test_more_questions_more_surprises_and_fewer_rows_are_never_better(k, surprises, rows):
    here, another = coded(rows, k, min(surprises, k)), coded(rows, k + 1, min(surprises, k))
    # From some number of questions on, a larger part is set aside.
    assume(here.parameters["protected_rows"] == another.parameters["protected_rows"])
    # The cell is searched on a grid, so that laws hold up to its fineness.
    assert here.error <= another.error * 1.01
    assert here.error <= coded(rows, k, min(surprises + 20, k)).error * 1.01
    assert here.error >= coded(2 * rows, k, min(surprises, k)).error


@pytest.mark.parametrize("k", [1, 10, 100])
def test_the_forecast_is_what_honest_guesses_bring(k, rng):
    """The guard's own rules, with normal errors of the guesses: the forecast is the mean last width."""
    found = coded(10**5, k)
    protected, training = (found.parameters[part] for part in ("protected_rows", "training_rows"))
    tail = BoundedDifferences.of_mean(0, 1, protected)
    last, every = [], []
    for _ in range(100):
        account = Account(0.05, weights=Weights(expect=float(k)))
        for _ in range(k):
            radius = tail.radius_at(account.nats())
            deviation = guess_deviation(tail, account.nats(), protected / training)
            half_cell = best_half_cell(account, deviation, radius)
            every.append(half_cell + radius)
            place = math.floor(rng.standard_normal() * deviation / (2 * half_cell) + 0.5)
            prior, width = account.learned.cells, half_cell / deviation
            learned = Learned(cells=prior.after(place, width))
            price = prior.price(place, width)
            account = account.after(account.charge(price), surprise=place != 0, learned=learned)
        last.append(every[-1])
    assert np.mean(last) == pytest.approx(found.error, rel=0.04)
    assert np.mean(every) == pytest.approx(found.parameters["mean"], rel=0.04)


@pytest.mark.parametrize(("k", "surprises"), [(30, 3), (60, 0)])
def test_a_real_guard_keeps_the_plan(rng, k, surprises):
    """As many rows as the plan asks for, some guesses far off: no answer is refused or too wide."""
    error = 0.1
    rows = plan(queries=k, confidence=0.95, error=error, surprises=surprises).method("code").rows
    data = {f"c{j}": rng.integers(0, 2, rows) for j in range(k)}
    guard = Guard(data, error=error, expect=k)
    wrong = set(rng.choice(k, surprises, replace=False).tolist())
    for j in range(k):
        answer = guard.share(f"c{j} = 1", guess=0.01 if j in wrong else None)
        assert answer.high - answer.low <= 2 * error * (1 + 1e-9)
    small = Guard({name: column[: rows // 3] for name, column in data.items()}, error=error)

    def ask_all():
        for j in range(k):
            small.share(f"c{j} = 1", guess=0.01 if j in wrong else None)

    with pytest.raises(BudgetSpent):
        ask_all()


def test_a_chain_pays_for_its_gap():
    chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], n=20_000)
    entry = plan(queries=50, confidence=0.95, dependence=chain, surprises=2).method("code")
    assert entry.valid
    assert 0 < entry.parameters["bias"] <= 0.05 / 20
    assert entry.parameters["protected_rows"] + entry.parameters["training_rows"] < 20_000
    assert entry.error > plan(queries=50, confidence=0.95, rows=20_000, surprises=2).method("code").error
