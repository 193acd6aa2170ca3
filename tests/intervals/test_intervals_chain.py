"""Shares and means of stationary chains: exact coverage, exact moments, and twins that must fail."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals_oracles import TOLERANCE
from scipy import stats

from holdfast.dependence import MarkovChain
from holdfast.intervals import (
    Interval,
    _chain,
    _means,
    chain_mean,
    chain_mean_radius,
    chain_share,
    e_mean,
    e_mean_rates,
    kl,
)

LN2 = math.log(2.0)
NATS = [LN2, 1.0, 3.0, 6.0, 12.0]


def restarts(law, norm):
    """The chain λI + (1 − λ)1π, for which the bound is sharpest."""
    law = np.asarray(law, float)
    return norm * np.eye(len(law)) + (1 - norm) * law


def window(restart):
    """Three fair bits, one new one a row, all three new with probability ``restart``: not reversible."""
    moves = np.zeros((8, 8))
    for state in range(8):
        for bit in (0, 1):
            moves[state, (2 * state + bit) % 8] += 0.5
    return (1 - restart) * moves + restart / 8


def turning(turn, restart):
    """Around three states in one direction: not reversible, and with complex eigenvalues."""
    around = np.roll(np.eye(3), 1, axis=1)
    moves = turn * around + (1 - turn) * np.eye(3)
    return (1 - restart) * moves + restart * np.full((3, 3), 1 / 3)


FOUR = np.array([[0.4, 0.2, 0.2, 0.2], [0.1, 0.5, 0.3, 0.1], [0.5, 0.1, 0.2, 0.2], [0.1, 0.3, 0.2, 0.4]])
# The chain, a value for each state, the states that pass the filter, the rows.
CASES = {
    "two states that stay": (restarts([0.7, 0.3], 0.6), (0, 1), (1, 1), 40),
    "a rare state that stays": (restarts([0.95, 0.05], 0.8), (0, 1), (1, 1), 40),
    "almost independent": (restarts([0.5, 0.3, 0.2], 0.05), (0, 1, 3), (1, 1, 1), 30),
    "three states that stay": (restarts([0.6, 0.3, 0.1], 0.7), (0, 1, 3), (1, 1, 1), 30),
    "three states, filtered": (restarts([0.2, 0.4, 0.4], 0.3), (1, 0, 1), (0, 1, 1), 30),
    "those that pass stay": (restarts([0.3, 0.4, 0.3], 0.7), (1, 0, 1), (0, 1, 1), 36),
    "few pass": (restarts([0.6, 0.3, 0.1], 0.4), (0, 0, 1), (0, 1, 1), 36),
    "turning": (turning(0.6, 0.7), (0, 1, 2), (1, 1, 1), 30),
    "four states": (FOUR, (0, 1, 2, 4), (1, 1, 1, 1), 16),
    "four states, filtered": (FOUR, (0, 1, 2, 4), (1, 0, 1, 1), 16),
    "window": (window(0.2), (0, 0, 0, 1, 0, 1, 1, 1), (1,) * 8, 60),
}
SHARES = [case for case, (_, values, passes, _) in CASES.items() if max(values) == min(passes) == 1]


def norm_of(transition):
    return 1.0 - MarkovChain(transition, n=2).spectral_gap


def law_of_sums(transition, vectors, n):
    """The exact joint law of the sums of a vector of whole numbers over n rows of the stationary chain."""
    stationary = MarkovChain(transition, n=2).stationary
    size = len(stationary)
    law = defaultdict(lambda: np.zeros(size))
    for state in range(size):
        law[tuple(vectors[state])][state] += stationary[state]
    for _ in range(n - 1):
        after = defaultdict(lambda: np.zeros(size))
        for sums, mass in law.items():
            moved = mass @ transition
            for state in range(size):
                after[tuple(a + b for a, b in zip(sums, vectors[state], strict=True))][state] += moved[state]
        law = after
    return {sums: float(mass.sum()) for sums, mass in law.items()}


@cache
def sums_of(case):
    """The law of (rows that pass, their sum, their squares), the norm, the truth, the rows, the top."""
    transition, values, passes, n = CASES[case]
    vectors = [(p, p * x, p * x * x) for x, p in zip(values, passes, strict=True)]
    stationary = MarkovChain(transition, n=2).stationary
    weights = stationary * np.array(passes)
    truth = float(weights @ np.array(values) / weights.sum())
    return law_of_sums(transition, vectors, n), norm_of(transition), truth, n, max(values)


def misses(case, interval):
    """The exact probabilities that the truth is below, and above, the interval."""
    law, norm, truth, n, most = sums_of(case)
    below = above = 0.0
    for (passing, total, squares), mass in law.items():
        limits = interval(passing, total, squares, n, norm, most)
        below += mass * (truth < limits.low - 1e-12)
        above += mass * (truth > limits.high + 1e-12)
    return below, above


def shares(nats, norm_used=None):
    def interval(_passing, total, _squares, n, norm, _most):
        return chain_share(total, n, nats, norm=norm if norm_used is None else norm_used)

    return interval


def means(nats, centre):
    def interval(passing, total, squares, n, norm, most):
        mean = total / passing if passing else 0.0
        square = (squares - 2 * centre * total + centre**2 * passing) / n
        return chain_mean(
            *(mean, square, n, nats), norm=norm, lo=0.0, hi=most, centre=centre, share=passing / n
        )

    return interval


def bets(nats, rates, norm_used=None):
    """The interval by an e-value, from the rows that pass only."""

    def interval(passing, total, squares, n, norm, most):
        if passing == 0:
            return Interval(0.0, float(most))
        mean = total / passing
        variance = max(0.0, squares - passing * mean * mean) / max(1, passing - 1)
        norm = norm if norm_used is None else norm_used
        return e_mean(mean, variance, passing, nats, lo=0.0, hi=most, rates=rates, norm=norm)

    return interval


@pytest.mark.parametrize("nats", NATS)
@pytest.mark.parametrize("case", SHARES)
def test_a_share_is_missed_on_each_side_with_at_most_half_of_the_error(case, nats):
    for miss in misses(case, shares(nats)):
        assert miss <= math.exp(-nats) / 2 * (1 + TOLERANCE)


@pytest.mark.parametrize("nats", NATS)
@pytest.mark.parametrize("case", CASES)
def test_a_mean_is_missed_with_at_most_the_error(case, nats):
    most = max(CASES[case][1])
    for centre in (0.0, 0.4 * most):
        assert sum(misses(case, means(nats, centre))) <= math.exp(-nats) * (1 + TOLERANCE)


def test_a_share_is_missed_nearly_as_often_as_the_bound_allows():
    # All of seven rows are successes: with these nats the interval only just misses the truth.
    truth, norm, n = 0.4, 0.5, 7
    transition = restarts([1 - truth, truth], norm)
    nats = -n * math.log(norm + (1 - norm) * truth) - LN2
    assert (
        chain_share(n, n, nats - 1e-6, norm=norm).low > truth > chain_share(n, n, nats + 1e-6, norm=norm).low
    )
    miss = truth * transition[1, 1] ** (n - 1)
    assert 0.55 * math.exp(-nats) / 2 < miss < math.exp(-nats) / 2


def test_a_twin_that_takes_the_rows_for_independent_is_caught():
    case = "two states that stay"
    assert sum(misses(case, shares(6.0, norm_used=0.0))) > 10 * math.exp(-6.0)
    law, _norm, truth, n, _most = sums_of("three states that stay")
    failure = 0.0
    for (_passing, total, squares), mass in law.items():
        interval = chain_mean(
            total / n, (squares - total + 0.25 * n) / n, n, 3.0, norm=0.0, lo=0, hi=3, centre=0.5
        )
        failure += mass * (not interval.contains(truth))
    assert failure > 2 * math.exp(-3.0)


def test_a_twin_with_the_second_eigenvalue_in_place_of_the_norm_is_caught():
    transition = CASES["window"][0]
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(transition)))
    second = float(eigenvalues[-2])
    # The matrix of the window is nilpotent but for the eigenvalue 1, so its zeros are found to 1e-4 only.
    assert second < 1e-2
    assert norm_of(transition) == pytest.approx(0.8)
    assert sum(misses("window", shares(6.0, norm_used=second))) > 4 * math.exp(-6.0)


@pytest.mark.parametrize(
    ("case", "nats"),
    [("a rare state that stays", 3.0), ("few pass", 6.0), ("three states that stay", 6.0)],
)
def test_a_twin_that_takes_the_sample_mean_square_for_the_true_one_is_caught(case, nats, monkeypatch):
    monkeypatch.setattr(_chain, "_square_above", lambda square, *_: max(square, 1e-9))
    assert sum(misses(case, means(nats, 0.0))) > 3 * math.exp(-nats)


@pytest.mark.parametrize("case", CASES)
def test_an_e_value_misses_on_each_side_with_at_most_half_of_the_error(case):
    _law, norm, truth, n, most = sums_of(case)
    for nats in NATS:
        good = e_mean_rates(truth, 0.2 * most**2, n, nats, lo=0.0, hi=most, norm=norm)
        for rates in (good, (0.9 / truth, 0.9 / (most - truth)), ([0.1, 1.0], [0.2, 2.0])):
            for miss in misses(case, bets(nats, rates)):
                assert miss <= math.exp(-nats) / 2 * (1 + TOLERANCE)


@pytest.mark.parametrize("case", ["two states that stay", "three states that stay", "those that pass stay"])
def test_an_e_value_of_independent_rows_is_caught_on_a_chain(case):
    _law, _norm, truth, n, most = sums_of(case)
    rates = e_mean_rates(truth, 0.2 * most**2, n, 6.0, lo=0.0, hi=most)
    assert max(misses(case, bets(6.0, rates, norm_used=0.0))) > 2 * math.exp(-6.0) / 2


def stochastic(rng, size, stickiness):
    rows = rng.dirichlet(np.ones(size), size)
    return stickiness * np.eye(size) + (1 - stickiness) * rows


def log_moment(transition, stationary, function, t, n):
    """ln E exp(t Σ f(X_i)), exactly, by powers of the matrix."""
    factor = np.exp(t * function)
    row, log = stationary * factor, 0.0
    for _ in range(n - 1):
        row = (row @ transition) * factor
        log += math.log(row.sum())
        row /= row.sum()
    return log + math.log(row.sum())


def test_no_moment_is_above_the_bound():
    rng = np.random.default_rng(1)
    closest = []
    for trial in range(300):
        size = int(rng.integers(2, 6))
        kind = trial % 3
        transition = stochastic(rng, size, rng.uniform(0, 0.9))
        if kind == 1:
            transition = restarts(rng.dirichlet(np.ones(size)), rng.uniform(0, 0.95))
        if kind == 2 and size == 3:
            transition = turning(rng.uniform(), rng.uniform(0.05, 0.9))
        stationary = MarkovChain(transition, n=2).stationary
        norm = norm_of(transition)
        if not norm < 1:
            continue
        function = rng.uniform(0, 1, size)
        n = int(rng.integers(1, 60))
        p = float(stationary @ function)
        for t in 10 ** rng.uniform(-3, 1.5, 4):
            log = log_moment(transition, stationary, function, t, n) - n * t * p
            growth = _chain._log_growth(p, 1 - p, t, norm)
            assert log <= n * growth * (1 + 1e-9) + 1e-12
            centred = function - p
            variance, most = float(stationary @ centred**2), float(centred.max())
            apart = most + variance / most
            bennett = _chain._log_growth(variance / apart / most, most / apart, t * apart, norm)
            assert log <= n * bennett * (1 + 1e-9) + 1e-12
            assert bennett <= growth * (1 + 1e-9)
            closest.append(log / (n * bennett))
    assert max(closest) > 0.98


def log_product(transition, stationary, factor, n):
    """ln E Π factor(X_i), exactly."""
    return log_moment(transition, stationary, np.log(factor), 1.0, n)


def test_the_e_value_of_a_chain_has_expectation_at_most_1():
    rng = np.random.default_rng(2)
    closest, twin = [], []
    for trial in range(300):
        size = int(rng.integers(2, 6))
        transition = stochastic(rng, size, rng.uniform(0, 0.9))
        if trial % 2:
            transition = restarts(rng.dirichlet(np.ones(size)), rng.uniform(0, 0.95))
        stationary = MarkovChain(transition, n=2).stationary
        norm = norm_of(transition)
        if not norm < 1:
            continue
        centred = rng.uniform(0, 1, size)
        centred -= stationary @ centred
        bet = rng.uniform(0, 1) / -centred.min() * centred
        n = int(rng.integers(1, 60))
        log = log_product(transition, stationary, (1 + bet) / (1 + norm * bet), n)
        assert log <= 1e-12 * n
        closest.append(log)
        twin.append(log_product(transition, stationary, 1 + bet, n))
    assert max(closest) > -0.05
    assert max(twin) > 1.0


def test_kappa_bounds_the_logarithm_of_a_factor_from_below_and_no_tighter_one_would():
    for norm in (0.0, 0.3, 0.9, 0.999, 1 - 1e-6):
        for share in (1e-9, 1e-5, 9e-4, 1.1e-3, 0.01, 0.3, 0.9, 0.999):
            kappa = mp.mpf(_means._kappa(share, norm))
            with mp.workdps(60):
                for y in (-share, -share / 2, share, 1.0, 100.0):
                    y = mp.mpf(y)
                    log = mp.log(1 + y) - mp.log(1 + mp.mpf(norm) * y)
                    assert log >= (1 - mp.mpf(norm)) * y - kappa * y * y
                y = -mp.mpf(share)
                exact = ((1 - mp.mpf(norm)) * y - mp.log(1 + y) + mp.log(1 + mp.mpf(norm) * y)) / y**2
                assert kappa <= exact * (1 + mp.mpf("3e-9"))


def test_the_growth_is_the_norm_of_the_weighted_operator():
    rng = np.random.default_rng(3)
    for _ in range(200):
        p, norm, s = rng.uniform(0.01, 0.99), rng.uniform(0, 0.99), 10 ** rng.uniform(-2, 1.5)
        law, weight = np.array([1 - p, p]), np.exp(s * (np.array([0.0, 1.0]) - p))
        root = np.sqrt(law)
        symmetric = np.sqrt(weight)[:, None] * (norm * np.eye(2) + (1 - norm) * np.outer(root, root))
        largest = float(np.linalg.eigvalsh(symmetric * np.sqrt(weight))[-1])
        assert _chain._log_growth(p, 1 - p, s, norm) == pytest.approx(math.log(largest), rel=1e-7, abs=1e-12)


def test_the_two_point_law_is_the_worst():
    rng = np.random.default_rng(4)
    for _ in range(200):
        size, norm, t = int(rng.integers(2, 7)), rng.uniform(0, 0.99), 10 ** rng.uniform(-2, 1)
        law, function = rng.dirichlet(np.ones(size)), rng.uniform(-1, 1, size)
        function -= law @ function
        weight = np.exp(t * function)
        scaled = np.sqrt(np.outer(weight, weight))
        operator = scaled * (norm * np.eye(size) + (1 - norm) * np.sqrt(np.outer(law, law)))
        largest = math.log(np.linalg.eigvalsh(operator)[-1])
        variance, most = float(law @ function**2), float(function.max())
        apart = most + variance / most
        worst = _chain._log_growth(variance / apart / most, most / apart, t * apart, norm)
        assert largest <= worst * (1 + 1e-9) + 1e-12


def mp_growth(p, s, norm):
    p, s, norm = mp.mpf(p), mp.mpf(s), mp.mpf(norm)
    up, down = mp.e ** ((1 - p) * s), mp.e ** (-p * s)
    total = (norm + (1 - norm) * p) * up + (1 - (1 - norm) * p) * down
    return mp.log((total + mp.sqrt(total * total - 4 * norm * up * down)) / 2)


NORMS = [0.0, 0.3, 0.9, 0.999, 1 - 1e-6]


@pytest.mark.parametrize("p", [1e-15, 1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 2.0**-40])
def test_the_growth_is_exact_against_multiprecision(p):
    for norm in NORMS:
        with mp.workdps(80):
            for s in (1e-9, 1e-6, 1e-3, 0.1, 0.49, 0.51, 1.0, 5.0, 30.0, 200.0, 700.0):
                exact = mp_growth(p, s, norm)
                error = float((mp.mpf(_chain._log_growth(p, 1 - p, s, norm)) - exact) / exact)
                # The slack is sharpest where w of the quadratic equation is about 0.
                assert -1e-14 <= error <= 1e-13 + 4e-15 / math.sqrt(p)


@pytest.mark.parametrize("norm", NORMS)
def test_the_exponent_is_the_best(norm):
    exponents = np.geomspace(1e-16, 700.0, 5000)
    for p in (1e-9, 1e-3, 0.2, 0.5, 0.95):
        for part in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999):
            d = part * (1 - p)
            rate = _chain._rate(p, 1 - p, d, 1 - p - d, norm)
            best = max(s * d - _chain._log_growth(p, 1 - p, float(s), norm) for s in exponents)
            # Beside a kink the nearest exponent of the grid gives away up to a per cent.
            assert best * (1 - 1e-9) <= rate <= best * (1 + 1e-2)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**9])
def test_norm_0_is_the_interval_of_independent_rows(n):
    for nats in [0.0, 0.3, 3.0, 40.0, 5000.0]:
        for count in {0, 1, n // 10, n // 2, n - 1, n}:
            chain, independent = chain_share(count, n, nats, norm=0.0), kl(count / n, n, nats)
            assert chain.low == pytest.approx(independent.low, rel=1e-9, abs=1e-9 * count / n)
            assert chain.high == pytest.approx(independent.high, rel=1e-9)


def test_norm_0_is_bennetts_inequality():
    for variance, most, level in [(0.01, 0.5, 1e-3), (0.2, 0.9, 0.01), (0.001, 1.0, 0.05)]:
        radius = _chain._radius(variance, most, level, 0.0)
        p = variance / (variance + most**2)
        d = radius / (most + variance / most)
        exact = (p + d) * math.log((p + d) / p) + (1 - p - d) * math.log((1 - p - d) / (1 - p))
        assert exact == pytest.approx(level, rel=1e-8)
        x = most * radius / variance
        bennett = variance / most**2 * ((1 + x) * math.log1p(x) - x)
        assert bennett <= level * (1 + 1e-9)


norms = st.one_of(st.just(0.0), st.floats(0.0, 0.999), st.floats(1e-6, 1e-2).map(lambda gap: 1 - gap))
row_counts = st.one_of(st.integers(1, 100), st.integers(1, 10**15))
nats_values = st.one_of(st.floats(0.0, 10.0), st.floats(0.0, 1e6))
units = st.floats(0.0, 1.0)


def within(inner: Interval, outer: Interval, tolerance: float = 1e-9) -> bool:
    slack = tolerance * outer.width + 1e-13
    return outer.low <= inner.low + slack and inner.high <= outer.high + slack


@given(units, row_counts, nats_values, norms)
def test_a_share_is_never_worse_than_the_hoeffding_row(part, rows, nats, norm):
    count = round(part * rows)
    radius = math.sqrt((nats + LN2) * (1 + norm) / (1 - norm) / (2 * rows))
    hoeffding = Interval(count / rows - radius, count / rows + radius).clip(0.0, 1.0)
    interval = chain_share(count, rows, nats, norm=norm)
    assert within(interval, hoeffding)
    assert interval.contains(count / rows)


@given(units, row_counts, nats_values, nats_values, norms, norms)
def test_a_share_is_nested_in_nats_and_norm(part, rows, nats, more, norm, larger):
    count = round(part * rows)
    inner = chain_share(count, rows, min(nats, more), norm=min(norm, larger))
    assert within(inner, chain_share(count, rows, max(nats, more), norm=max(norm, larger)))
    mirrored = chain_share(rows - count, rows, min(nats, more), norm=min(norm, larger))
    assert mirrored.low == pytest.approx(1.0 - inner.high, abs=1e-13)


@given(st.floats(1e-6, 0.999), st.floats(0.01, 1.0), norms, units)
def test_the_growth_is_at_most_that_of_jiang_sun_and_fan(part, most, norm, reach):
    variance = part * most * most
    t = reach * (1 - norm) / (5 * most) * 0.999
    if t < 1e-6:
        return
    apart = most + variance / most
    growth = _chain._log_growth(variance / apart / most, most / apart, t * apart, norm)
    theirs = variance / most**2 * _chain._exp_gap(t * most)
    theirs += variance * norm * t * t / (1 - norm - 5 * most * t)
    assert growth <= theirs * (1 + 1e-9)


@given(st.floats(1e-6, 0.999), st.floats(1e-12, 1.0), norms)
def test_the_radius_is_at_most_that_of_jiang_sun_and_fan(part, level, norm):
    linear = 5 / (1 - norm) if norm > 0 else 1 / 3
    proxy = (1 + norm) / (1 - norm) * part
    theirs = level * linear + math.sqrt((level * linear) ** 2 + 2 * level * proxy)
    assert _chain._radius(part, 1.0, level, norm) <= theirs * (1 + 1e-8)


@st.composite
def summaries(draw):
    """mean, square, centre and share that some sample in [0, 1] has."""
    mean, centre, share = draw(units), draw(units), draw(st.one_of(st.just(1.0), st.floats(0.01, 1.0)))
    spread = draw(units) * mean * (1 - mean)
    return mean, share * ((mean - centre) ** 2 + spread), centre, share


@given(summaries(), row_counts, nats_values, norms)
def test_a_mean_is_in_its_interval_and_no_end_is_farther_than_predicted(summary, rows, nats, norm):
    mean, square, centre, share = summary
    interval = chain_mean(mean, square, rows, nats, norm=norm, centre=centre, share=share)
    radius = chain_mean_radius(math.sqrt(square), rows, nats, norm=norm, share=share)
    assert 0.0 <= interval.low <= mean <= interval.high <= 1.0
    assert max(interval.high - mean, mean - interval.low) <= radius * (1 + 1e-8) + 1e-13
    mirrored = chain_mean(1 - mean, square, rows, nats, norm=norm, centre=1 - centre, share=share)
    assert mirrored.low == pytest.approx(1.0 - interval.high, abs=1e-7 * interval.width + 1e-12)
    scaled = chain_mean(
        *(7 * mean - 3, 49 * square, rows, nats),
        **{"norm": norm, "lo": -3.0, "hi": 4.0, "centre": 7 * centre - 3, "share": share},
    )
    assert scaled.low == pytest.approx(7 * interval.low - 3, abs=1e-6 * interval.width + 1e-11)


@given(summaries(), row_counts, nats_values, nats_values, norms, norms)
def test_a_mean_is_nested_in_nats_and_norm(summary, rows, nats, more, norm, larger):
    mean, square, centre, share = summary
    inner, outer = (
        chain_mean(mean, square, rows, level, norm=bound, centre=centre, share=share)
        for level, bound in ((min(nats, more), min(norm, larger)), (max(nats, more), max(norm, larger)))
    )
    assert within(inner, outer, 1e-5)


@pytest.mark.parametrize("mean", [5e-324, 1e-310, 1e-300])
def test_a_mean_below_the_least_normal_number_has_an_interval(mean):
    """What is left of such a mean is rounded to zero in a product, and is not divided by."""
    for norm in (0.0, 0.5, 0.99):
        tiny, none = (chain_mean(it, it * it, 3, 0.1, norm=norm, centre=0.0) for it in (mean, 0.0))
        assert tiny.low == 0.0
        assert tiny.high == pytest.approx(none.high, rel=1e-9)


@given(units, row_counts, nats_values, norms)
def test_a_mean_costs_little_more_than_a_share_where_values_are_at_the_ends(part, rows, nats, norm):
    count = round(part * rows)
    interval = chain_mean(count / rows, count / rows, rows, nats, norm=norm, centre=0.0)
    assert within(interval, chain_share(count, rows, nats + math.log(10 / 9), norm=norm))


def test_a_mean_of_small_variance_is_far_narrower_than_the_hoeffding_row():
    rows, nats, norm = 66_667, 4.0, 0.9
    interval = chain_mean(0.125, 1 / 64, rows, nats, norm=norm, centre=0.125)
    hoeffding = math.sqrt((nats + LN2) * (1 + norm) / (1 - norm) / (2 * rows))
    assert interval.half_width < 0.35 * hoeffding


def test_a_centre_far_from_the_mean_is_made_up_for():
    terms = {"norm": 0.5, "lo": 0.0, "hi": 1.0}
    far = chain_mean(0.5, 0.26, 10**6, 4.0, centre=0.0, **terms)
    near = chain_mean(0.5, 0.01, 10**6, 4.0, centre=0.5, **terms)
    assert near.width < far.width < 1.2 * near.width


def test_no_rows_say_nothing():
    assert chain_share(0, 0, 3.0, norm=0.5) == Interval(0.0, 1.0)
    assert chain_mean(0.5, 0.0, 10, 3.0, norm=0.5, centre=0.5, share=0.0) == Interval(0.0, 1.0)


def test_the_table_of_the_theory_page_is_right():
    page = Path(__file__).parents[2] / "docs" / "theory" / "intervals.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    rows, nats = 66_667, 4.0
    level = (nats + LN2) / rows
    grid = (np.arange(400_000) + 0.5) / 400_000
    laws = {
        "uniform on [0, 1]": (grid, 1.0),
        "exponential, cut to [0, 8]": (np.minimum(-np.log1p(-grid), 8.0), 8.0),
    }
    for name, (values, hi) in laws.items():
        mean, variance = float(values.mean()), float(values.var())
        for norm in (0.5, 0.9, 0.99):
            proxy = (1 + norm) / (1 - norm)
            unit = stats.norm.isf(math.exp(-nats) / 2) * math.sqrt(proxy * variance / rows)
            rates = e_mean_rates(mean, variance, rows, nats, hi=hi, norm=norm)
            linear = level * 5 / (1 - norm) * max(mean, hi - mean)
            sides = [_chain._radius(variance, most, level, norm) for most in (mean, hi - mean)]
            radii = (
                e_mean(mean, variance, rows, nats, hi=hi, rates=rates, norm=norm).half_width,
                chain_mean(mean, variance, rows, nats, norm=norm, hi=hi, centre=mean).half_width,
                sum(sides) / 2,
                linear + math.sqrt(linear**2 + 2 * level * proxy * variance),
                hi * math.sqrt(level * proxy / 2),
            )
            cells = " | ".join(f"{radius / unit:.2f}" for radius in radii)
            assert f"| {name} | {norm} | {cells} |" in lines
