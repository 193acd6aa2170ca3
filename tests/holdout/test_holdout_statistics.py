"""The reusable holdout for statistics with a declared sensitivity, and for m-dependent and Gaussian rows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from holdfast.dependence import Clusters, GaussianRows, MarkovChain, MDependent
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected
from holdfast.guard import ReusableHoldout
from holdfast.holdout import SparseNoise

SETTINGS = {"threshold": 0.1, "noise": 0.01, "budget": 4}


def coins(rng, rows=2_000, columns=40):
    return rng.integers(0, 2, (2, rows, columns), dtype=np.int8)


def column_sum(j):
    return lambda rows: int(rows[:, j].sum())


def test_a_sum_is_answered_as_its_mean_is_with_the_same_noise(rng):
    train, fresh = coins(rng)
    fresh[:, 3] = 1
    draws = [
        ReusableHoldout(train, fresh, **SETTINGS, simulation=True, seed=np.random.default_rng(5))
        for _ in range(2)
    ]
    for j in (0, 3, 4):
        mean = draws[0].ask(lambda rows, j=j: rows[:, j])
        total = draws[1].ask(column_sum(j), sensitivity=1.0)
        assert total.value == pytest.approx(2_000 * mean.value, abs=1e-3) or mean.value == 1.0
        assert total.confirmed == mean.confirmed
        assert total.guess == pytest.approx(2_000 * mean.guess)
        assert total.cost == mean.cost
        assert total.half_width >= 2_000 * mean.half_width * (1 - 1e-6)
    assert [holdout.left.surprises for holdout in draws] == [3, 3]
    assert draws[0].privacy == draws[1].privacy
    assert total.certificate.numbers["holdout value within"] > 0
    assert any("declared sensitivity" in words for words in total.certificate.assumed)
    assert not any("declared sensitivity" in words for words in mean.certificate.assumed)
    assert any("declared sensitivity" in words for words in draws[1].certificate.assumed)


@given(
    st.integers(1, 10**6),
    st.floats(1e-6, 1.0),
    st.floats(1e-9, 1e9),
    st.floats(-1e12, 1e12),
    st.floats(-1.0, 1.0),
)
def test_one_row_moves_a_rounded_statistic_by_the_counted_steps(rows, scale, sensitivity, value, moved):
    noise = SparseNoise(scale, rows)
    unit = rows * Fraction(sensitivity)
    levels = [Fraction(value) / unit, (Fraction(value) + Fraction(moved) * Fraction(sensitivity)) / unit]
    farthest = Fraction(noise.farthest)
    first, second = (noise.on_grid(min(max(level, -farthest), farthest)) for level in levels)
    steps = abs(first - second) / noise.grid
    assert steps <= noise.moved
    assert (first / noise.grid).is_integer()
    assert abs(first / noise.grid) <= 2**52


def read_by_sums(rng, factor=1.0, rows=400, columns=101):
    """A threshold and noise so small that the holdout speaks every time, then the vote it was made to cast.
    ``factor`` times too small a declaration buys too little noise."""
    train, fresh = coins(rng, rows, columns)
    holdout = ReusableHoldout(
        train, fresh, threshold=1e-4, noise=0.002, budget=200, simulation=True, seed=rng
    )
    signs = []
    for j in range(columns):
        answer = holdout.ask(column_sum(j), sensitivity=1.0 / factor)
        signs.append(np.sign(answer.value - rows / 2) or 1.0)

    def vote(part):
        return float(((2.0 * part - 1) @ np.array(signs) > 0).sum())

    answer = holdout.ask(vote, sensitivity=1.0 / factor)
    return answer.low <= rows / 2 <= answer.high


def test_intervals_of_statistics_hold_for_an_analyst_who_reads_the_holdout(seed):
    held = sum(read_by_sums(np.random.default_rng([seed, run])) for run in range(25))
    assert binomtest(held, 25).proportion_ci(0.9, method="exact").low >= 0.85


def test_a_twin_with_too_small_a_sensitivity_misses(seed):
    held = sum(read_by_sums(np.random.default_rng([seed, run]), factor=500.0) for run in range(12))
    assert held < 6


def test_statistics_that_are_no_means_of_rows(rng):
    """A spread, a count of different values, a rank: one number each, in its own units."""
    train, fresh = np.clip(rng.normal(size=(2, 20_000)), -3, 3)
    holdout = ReusableHoldout(train, fresh, threshold=0.05, noise=0.002, budget=3)
    spread = holdout.ask(lambda rows: float(np.var(rows)), sensitivity=36 / 20_000)
    assert spread.confirmed
    assert spread.low < 0.98 < spread.high
    assert spread.half_width < 36 * 0.15
    shifted = holdout.ask(lambda rows: 1e12 + float(rows.sum()), sensitivity=6.0)
    assert shifted.low < 1e12 < shifted.high
    assert math.isfinite(shifted.high)
    assert "(rows)" in shifted.query


@pytest.mark.parametrize(
    "bad",
    [lambda rows: rows, lambda rows: math.nan, lambda rows: math.inf, lambda rows: "many", lambda rows: None],
)
def test_values_that_are_not_numbers_are_refused_before_the_holdout_is_read(rng, bad):
    holdout = ReusableHoldout(*coins(rng), **SETTINGS)
    with pytest.raises(QueryRejected, match="one finite number") as refused:
        holdout.ask(bad, sensitivity=1.0)
    assert (refused.value.asked, refused.value.spent, holdout.spent) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf, "1", True])
def test_a_sensitivity_is_a_positive_number(rng, sensitivity):
    holdout = ReusableHoldout(*coins(rng), **SETTINGS)
    with pytest.raises(InvalidArgument, match="sensitivity"):
        holdout.ask(len, sensitivity=sensitivity)
    table = pd.DataFrame({"x": [0.0, 1.0]})
    with pytest.raises(InvalidArgument, match="a function of the rows"):
        ReusableHoldout(table, table, **SETTINGS).ask("mean(x)", sensitivity=1.0)


def test_a_statistic_that_fails_on_the_holdout_alone_closes_it(rng):
    train, fresh = coins(rng)
    fresh[0, 0] = 2
    holdout = ReusableHoldout(train, fresh, **SETTINGS)
    with pytest.raises(QueryRejected, match="one finite number for the holdout") as refused:
        holdout.ask(lambda rows: math.nan if rows.max() > 1 else 0.0, sensitivity=1.0)
    assert refused.value.left == 0.0
    with pytest.raises(BudgetSpent):
        holdout.ask(column_sum(1), sensitivity=1.0)


def test_an_answer_beyond_all_finite_tails_has_infinite_ends(rng):
    train, fresh = coins(rng)
    holdout = ReusableHoldout(train, fresh, threshold=0.1, noise=1e-6, budget=2)
    train_sum = int(train.sum())
    answer = holdout.ask(lambda rows: 0.0 if int(rows.sum()) == train_sum else 1e9, sensitivity=1.0)
    assert not answer.confirmed
    assert (answer.low, answer.high) == (-math.inf, math.inf)


# Models whose Bayesian privacy is that of all rows.


def autoregression(rng, n, correlation):
    steps = rng.normal(size=n) * math.sqrt(1 - correlation**2)
    values = np.empty(n)
    values[0] = rng.normal()
    for k in range(1, n):
        values[k] = correlation * values[k - 1] + steps[k]
    return values


def gaussian_model(n, correlation):
    return GaussianRows(correlation ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))))


def test_gaussian_rows_are_asked_for_bounded_means_and_for_statistics(rng):
    n = 800
    train, fresh = autoregression(rng, n, 0.3), autoregression(rng, n, 0.3)
    settings = {"threshold": 0.5, "noise": 0.02, "budget": 5, "simulation": True, "seed": rng}
    holdout = ReusableHoldout(train, fresh, **settings, dependence=gaussian_model(n, 0.3))
    alone = ReusableHoldout(train, fresh, **settings)
    mean, total = (lambda rows: rows > 0), (lambda rows: float(np.clip(rows, -1, 1).sum()))
    for question, given_ in ((mean, {}), (total, {"sensitivity": 2.0})):
        answer = holdout.ask(question, **given_)
        truth = 0.5 if not given_ else 0.0
        assert answer.low < truth < answer.high
        plain = alone.ask(question, **given_)
        assert answer.confirmed
        assert plain.confirmed
        assert answer.certificate.numbers["releases before"] == 0
        told = next(key for key in answer.certificate.numbers if key.endswith("within"))
        ratio = answer.certificate.numbers[told] / plain.certificate.numbers[told]
        # The eigenvalues of a long autoregression lie between (1 − r)/(1 + r) and its inverse.
        assert ratio == pytest.approx(math.sqrt(1 + 2 / math.pi * ((1.3 / 0.7) ** 2 - 1)), rel=0.02)
    assert holdout.bayesian_privacy.epsilon == pytest.approx(n * holdout.privacy.epsilon)
    assert "Gaussian" in str(answer.certificate)


def moving_coins(rng, n, m, columns):
    """Each row is the majority of m + 1 coins of a sequence: m-dependent, and right half of the time."""
    tossed = rng.integers(0, 2, (n + m, columns))
    sums = np.cumsum(np.vstack([np.zeros((1, columns), dtype=int), tossed]), axis=0)
    return (2 * (sums[m + 1 :] - sums[: -m - 1]) > m + 1).astype(np.int8)


def test_intervals_hold_on_m_dependent_rows(seed):
    """With an even m the majority of m + 1 fair coins is a fair coin, and neighbours agree."""
    n, m = 600, 2
    missed = 0
    for run in range(20):
        rng = np.random.default_rng([seed, run])
        train, fresh = moving_coins(rng, n, m, 30), moving_coins(rng, n, m, 30)
        holdout = ReusableHoldout(
            train, fresh, threshold=1e-3, noise=0.01, budget=31, dependence=MDependent(n, m),
            simulation=True, seed=rng,
        )  # fmt: skip
        answers = [holdout.ask(column_sum(j), sensitivity=1.0) for j in range(30)]
        missed += any(not answer.low <= n / 2 <= answer.high for answer in answers)
        assert answers[0].half_width < n
    assert missed <= 3


@pytest.mark.parametrize(
    "model",
    [Clusters([2] * 100), MarkovChain([[0.6, 0.4], [0.4, 0.6]], n=200), MDependent(200, 1)],
)
def test_every_model_has_a_tail_for_statistics(rng, model):
    train, fresh = coins(rng, rows=200)
    settings = {**SETTINGS, "threshold": 0.4}
    answer = ReusableHoldout(train, fresh, **settings, dependence=model).ask(column_sum(0), sensitivity=1.0)
    plain = ReusableHoldout(train, fresh, **settings).ask(column_sum(0), sensitivity=1.0)
    assert answer.low < 100 < answer.high
    assert plain.confirmed
    assert answer.confirmed
    assert answer.half_width > plain.half_width
