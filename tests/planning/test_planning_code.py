"""The planner's code guard is the guard's own: prices, weights, and a real guard that keeps the plan."""

from __future__ import annotations

import math

import numpy as np
import planning_oracle as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import Account, Experience, Learned, Weights, best_half_cell, guess_deviation
from holdfast.dependence import MarkovChain
from holdfast.errors import BudgetSpent
from holdfast.guard import Guard
from holdfast.planning import plan
from holdfast.planning._guarded import expected_width, place_price, promised_width, sequence_price
from holdfast.tails import BoundedDifferences


def half_of(rows):
    return BoundedDifferences.of_mean(0, 1, rows // 2)


@given(st.lists(st.booleans(), max_size=60))
def test_a_pattern_costs_what_counting_charges_step_by_step(surprises):
    experience, paid = Experience(), 0.0
    for surprise in surprises:
        chance = experience.surprise_probability()
        paid -= math.log(chance) if surprise else math.log1p(-chance)
        experience = experience.after(surprise=surprise)
    f = sum(surprises)
    assert float(sequence_price(np.array(float(len(surprises) - f)), np.array(float(f)))) == pytest.approx(
        paid
    )


@pytest.mark.parametrize("cell", [1, 2, 17, 1000])
def test_a_place_costs_what_counting_charges(cell):
    experience = Experience(3, 1)
    on_top = experience.surprise_price(cell) + math.log(experience.surprise_probability())
    assert float(place_price(np.array(float(cell)))) == pytest.approx(on_top)


@pytest.mark.parametrize(
    ("rows", "k", "mean", "last"),
    [(10**4, 10, 0.041, 0.050), (10**5, 100, 0.0192, 0.0208), (10**6, 10**4, 0.0077, 0.0084)],
)
def test_the_stated_widths(rows, k, mean, last):
    found = expected_width(half_of(rows), k, 0.05)
    assert found.error <= last
    assert found.error == pytest.approx(last, rel=0.06)
    assert found.mean == pytest.approx(mean, rel=0.06)


def test_ten_surprises_in_a_thousand_questions():
    rows = plan(queries=1000, confidence=0.95, error=0.1, surprises=10).method("code").rows
    assert rows == pytest.approx(18_000, rel=0.02)


@pytest.mark.parametrize(("k", "surprises"), [(1, 0), (1, 1), (10, 0), (10, 10), (1000, 10), (1000, 999)])
def test_the_promised_width_holds_when_recomputed(k, surprises):
    found = promised_width(half_of(20_000), k, 0.05, surprises)
    p = {**found.to_dict(), "protected_rows": 10_000, "bias": 0.0}
    assert oracle.code_broken(p, found.error, 0.95) == []
    assert oracle.code_broken({**p, "half_cell": p["half_cell"] / 2}, found.error / 1.5, 0.95) != []
    if k > 10:
        assert oracle.code_broken({**p, "surprises": p["surprises"] / 2}, found.error * 0.999, 0.95) == []
        assert oracle.code_broken({**p, "surprises": surprises}, found.error * 0.999, 0.95) != []


@given(st.integers(1, 5000), st.integers(0, 200), st.integers(1000, 10**6))
def test_more_questions_more_surprises_and_fewer_rows_are_never_better(k, surprises, rows):
    tail, beta = BoundedDifferences.of_mean(0, 1, rows), 0.05
    here = promised_width(tail, k, beta, surprises).error
    # The cell is searched on a grid, so that laws hold up to its fineness.
    assert here <= promised_width(tail, k + 1, beta, surprises).error * 1.01
    assert here <= promised_width(tail, k, beta, surprises + 20).error * 1.01
    assert here >= promised_width(BoundedDifferences.of_mean(0, 1, 2 * rows), k, beta, surprises).error


@pytest.mark.parametrize("k", [1, 10, 100])
def test_the_forecast_is_what_honest_guesses_bring(k, rng):
    """The guard's own rules, with normal errors of the guesses: the forecast is the mean last width."""
    rows = 10**5
    tail = half_of(rows)
    found = expected_width(tail, k, 0.05)
    last, every = [], []
    for _ in range(100):
        account = Account(0.05, weights=Weights(expect=float(k)))
        for _ in range(k):
            radius, deviation = tail.radius_at(account.nats()), guess_deviation(tail, account.nats())
            half_cell = best_half_cell(account, deviation, radius)
            every.append(half_cell + radius)
            place = math.floor(rng.standard_normal() * deviation / (2 * half_cell) + 0.5)
            prior, width = account.learned.cells, half_cell / deviation
            learned = Learned(cells=prior.after(place, width))
            price = prior.price(place, width)
            account = account.after(account.charge(price), surprise=place != 0, learned=learned)
        last.append(every[-1])
    assert np.mean(last) == pytest.approx(found.error, rel=0.04)
    assert np.mean(every) == pytest.approx(found.mean, rel=0.04)


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
