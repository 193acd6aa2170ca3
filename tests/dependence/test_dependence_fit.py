"""A fitted chain: the region holds the truth as often as it says, and its slowest chain is slow enough."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from holdfast.dependence import FittedChain, MarkovChain, Mixing, fit
from holdfast.dependence._forgetting import (
    budgets,
    code_excess,
    dobrushin,
    highest,
    one_step,
    operator_norm,
    radii,
    slowest,
    stationary_law,
)
from holdfast.errors import InvalidArgument, NotEnoughRows

SHARES = (0.02, 0.1, 0.3, 0.5, 0.8)
THREE = [
    [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]],
    [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.3, 0.0, 0.7]],
    [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.2, 0.2, 0.6]],
]


def walk(transition, n, rng, start=0):
    """A trajectory of a chain, as numbers of states."""
    edges = np.cumsum(transition, axis=1)
    states, draws = [start], rng.random(n - 1)
    for draw in draws:
        states.append(min(int(np.searchsorted(edges[states[-1]], draw, side="right")), len(edges) - 1))
    return np.array(states)


def law_of_counts(transition, start, n):
    """The exact law of the counts of transitions in ``n`` rows, by dynamic programming over trajectories."""
    size = len(transition)
    law = {(start, (0,) * size**2): 1.0}
    for _ in range(n - 1):
        step = {}
        for (state, counts), weight in law.items():
            for following in range(size):
                if transition[state][following] > 0:
                    place = state * size + following
                    moved = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
                    key = following, moved
                    step[key] = step.get(key, 0.0) + weight * transition[state][following]
        law = step
    totals = {}
    for (_, counts), weight in law.items():
        totals[counts] = totals.get(counts, 0.0) + weight
    return [(np.array(counts, dtype=float).reshape(size, size), weight) for counts, weight in totals.items()]


def outside(counts, transition, limit):
    """Whether some row of the matrix is farther from the observed frequencies than ``limit`` nats in all."""
    leaving = counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * np.log(counts / leaving[:, None] / transition), 0.0)
    return bool((terms.sum(axis=1) > limit).any())


def miss_probability(transition, n, failure, limits):
    """The largest probability, over the starts, that the region misses the truth."""
    matrix = np.array(transition)
    return max(
        sum(
            weight
            for counts, weight in law_of_counts(transition, start, n)
            if outside(counts, matrix, limits(counts, failure))
        )
        for start in range(len(matrix))
    )


def region(counts, failure):
    leaving = counts.sum(axis=1)
    limits = budgets(counts, np.ones(counts.shape, dtype=bool), failure)
    return np.where(leaving > 0, np.where(leaving > 0, limits, 0.0) * leaving, np.inf)


def without_the_code(counts, failure):
    """The twin: the frequencies are treated as if they had been fixed before the rows were seen."""
    return np.full(len(counts), math.log(1 / failure))


@pytest.mark.parametrize("n", [3, 6, 10])
@pytest.mark.parametrize("failure", [0.5, 0.2, 0.05, 0.01])
def test_the_region_misses_a_two_state_chain_no_more_often_than_it_says(n, failure):
    for a, b in itertools.product(SHARES, repeat=2):
        assert miss_probability([[1 - a, a], [b, 1 - b]], n, failure, region) <= failure


@pytest.mark.parametrize("transition", THREE)
@pytest.mark.parametrize("failure", [0.5, 0.1])
def test_the_region_misses_a_three_state_chain_no_more_often_than_it_says(transition, failure):
    assert miss_probability(transition, 7, failure, region) <= failure


@pytest.mark.parametrize("failure", [0.5, 0.2, 0.05])
def test_a_region_without_the_price_of_the_code_is_caught(failure):
    worst = max(
        miss_probability([[1 - a, a], [b, 1 - b]], 10, failure, without_the_code)
        for a, b in itertools.product(SHARES, repeat=2)
    )
    assert worst > failure


def test_the_code_is_a_probability_over_what_follows_a_state():
    """Σ over all sequences of KT = 1, so that the likelihood ratio is a martingale of mean 1."""
    for size, length in ((2, 6), (3, 5)):
        total = 0.0
        for sequence in itertools.product(range(size), repeat=length):
            counts = np.bincount(sequence, minlength=size)[None].astype(float)
            frequent = float((counts[counts > 0] * np.log(counts[counts > 0] / length)).sum())
            excess = float(code_excess(counts, np.ones((1, size), dtype=bool))[0])
            total += math.exp(frequent - excess)
        assert total == pytest.approx(1.0, rel=1e-12)


def test_the_largest_probability_within_a_budget_solves_its_equation(rng):
    share, budget = rng.random(200), rng.exponential(0.3, 200)
    share[:3], budget[:3] = [0.0, 1.0, 0.5], [0.7, 0.7, 0.0]
    upper = highest(share, budget)
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = np.where(share > 0, share * np.log(share / upper), 0) + np.where(
            share < 1, (1 - share) * np.log((1 - share) / (1 - upper)), 0
        )
    interior = upper < 1 - 1e-6
    np.testing.assert_allclose(reached[interior], budget[interior], rtol=1e-6, atol=1e-7)
    assert upper[0] == pytest.approx(1 - math.exp(-0.7))
    assert upper[1] == 1.0
    assert interior.sum() > 150


def within_region(counts, budget, rng, tries=15):
    """Random matrices on the border of the region: from the frequencies as far as it goes, row by row."""
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    for _ in range(tries):
        matrix = np.empty_like(frequencies)
        sharp = rng.choice([0.05, 0.3, 2.0])
        for i, row in enumerate(frequencies):
            target = rng.dirichlet(np.full(len(row), sharp))
            low, high = 0.0, 1.0
            for _ in range(50):
                middle = (low + high) / 2
                trial = (1 - middle) * row + middle * target
                with np.errstate(divide="ignore", invalid="ignore"):
                    far = np.where(row > 0, row * np.log(row / trial), 0.0).sum()
                low, high = (middle, high) if far <= budget[i] else (low, middle)
            matrix[i] = (1 - low) * row + low * target
        yield matrix


def test_radii_hold_and_are_reached(rng):
    for size in (2, 3, 5):
        counts = rng.integers(0, 40, (size, size)).astype(float)
        counts[0, 0] = 0
        counts += np.eye(size)
        allowed = np.ones(counts.shape, dtype=bool)
        budget = budgets(counts, allowed, 0.05)
        radius = radii(counts, allowed, budget)
        assert (radius <= np.sqrt(budget / 2) + 1e-9).all()
        frequencies = counts / counts.sum(axis=1, keepdims=True)
        largest = np.zeros(size)
        for matrix in within_region(counts, budget, rng, 80):
            apart = np.abs(matrix - frequencies).sum(axis=1) / 2
            assert (apart <= radius).all()
            largest = np.maximum(largest, apart)
        assert (largest >= 0.5 * radius).all()
        # Reached by the law that raises the best set, in proportion inside and outside.
        for row, limit, far in zip(frequencies, budget, radius, strict=True):
            sets = [s for s in itertools.product((0, 1), repeat=size) if 0 < sum(s) < size]
            shares = np.array([float(np.dot(s, row)) for s in sets])
            assert float((highest(shares, limit) - shares).max()) == pytest.approx(far, abs=1e-9)


def test_the_largest_radius_is_found_among_many_sets(rng):
    counts = rng.integers(1, 4000, (1, 12)).astype(float)
    allowed = np.ones(counts.shape, dtype=bool)
    budget = np.array([0.02])
    sets = (np.arange(1, 2**12 - 1)[:, None] >> np.arange(12)) & 1
    shares = sets @ counts[0] / counts.sum()
    assert radii(counts, allowed, budget)[0] == pytest.approx(
        float((highest(shares, 0.02) - shares).max()), abs=1e-10
    )


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("rows", [60, 800, 20_000])
def test_no_chain_in_the_region_is_slower_than_the_bound(size, rows, rng):
    allowed = np.ones((size, size), dtype=bool)
    for _ in range(4):
        truth = 0.3 * rng.dirichlet(np.full(size, 0.5), size) + 0.7 * np.eye(size)
        counts = np.round(truth * rows / size) + np.eye(size)
        budget = budgets(counts, allowed, 0.05)
        radius = radii(counts, allowed, budget)
        frequencies = counts / counts.sum(axis=1, keepdims=True)
        first = one_step(frequencies, budget, radius, sets=True)
        loose = one_step(frequencies, budget, radius, sets=False)
        assert (first <= loose + 1e-9).all()
        memory = slowest(frequencies, budget, radius, first, 0)
        if memory is None:
            continue
        steps = np.arange(1, 80)
        bounds = np.exp(memory.log_theta_at(steps))
        assert (np.diff(bounds) <= 1e-12).all()
        for matrix in within_region(counts, budget, rng):
            power = np.eye(size)
            for step, bound in zip(steps, bounds, strict=True):
                power = power @ matrix
                assert dobrushin(power) <= bound + 1e-12, (step, bound)


def test_half_the_region_is_caught(rng):
    """The twin: with half the radius there are chains in the region that are slower than its bound."""
    counts = np.array([[475.0, 25.0], [25.0, 475.0]])
    allowed = np.ones((2, 2), dtype=bool)
    budget = budgets(counts, allowed, 0.05)
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    radius = radii(counts, allowed, budget / 4)
    first = one_step(frequencies, budget / 4, radius, sets=True)
    memory = slowest(frequencies, budget / 4, radius, first, 0)
    bound = math.exp(float(memory.log_theta_at(np.array(3))))
    true = [dobrushin(np.linalg.matrix_power(m, 3)) for m in within_region(counts, budget, rng, 200)]
    assert max(true) > bound


def test_the_variance_route_is_needed_where_far_jumps_are_never_seen(rng):
    """On a chain of neighbours the bound with variances is far below the one with radii alone."""
    size = 8
    near = np.exp(-np.abs(np.subtract.outer(np.arange(size), np.arange(size))) * 1.5)
    counts = np.round(near / near.sum(axis=1, keepdims=True) * 100_000)
    allowed = np.ones((size, size), dtype=bool)
    budget = budgets(counts, allowed, 0.002)
    radius = radii(counts, allowed, budget)
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    first = one_step(frequencies, budget, radius, sets=True)
    sharp = slowest(frequencies, budget, radius, first, 0).row_sums(10_000)[0]
    plain = slowest(frequencies, np.ones(size), radius, first, 0).row_sums(10_000)[0]
    assert sharp < 0.8 * plain


@pytest.mark.parametrize(("rows", "effective"), [(33_333, 0.917), (1_000, 0.966)])
def test_how_slow_a_sticky_chain_may_be_after_so_many_rows(rows, effective):
    counts = np.round(np.array([[0.95, 0.05], [0.05, 0.95]]) * rows / 2)
    theta = math.exp(float(FittedChain(counts).log_remembered(1)))
    assert 0.9 < theta <= effective


@pytest.mark.slow
def test_the_bound_holds_as_often_as_it_says_and_frequencies_alone_do_not(rng):
    _check_simulation(rng, 1_000)


def test_the_bound_holds_as_often_as_it_says_in_a_few_runs(rng):
    _check_simulation(rng, 100)


def _check_simulation(rng, runs):
    truth = np.array([[0.9, 0.1], [0.2, 0.8]])
    exact = dobrushin(truth @ truth)
    misses = plain_misses = 0
    for _ in range(runs):
        model = fit({"s": walk(truth, 400, rng)}, columns="s", confidence=0.9)
        missed = exact > math.exp(float(model.log_remembered(2)))
        assert not (missed and model.contains(truth))
        misses += not model.contains(truth)
        frequencies = model.counts / model.counts.sum(axis=1, keepdims=True)
        plain_misses += exact > dobrushin(frequencies @ frequencies)
    assert misses <= 0.1 * runs
    assert plain_misses > 0.25 * runs  # The twin: the frequencies taken as exact.


# Chains of higher order.


def second_order(rng):
    """A chain of order 2 on two states: the probability of 1 after each pair."""
    return rng.uniform(0.1, 0.9, (2, 2))


def future_law(ones, window, length):
    """The exact law of the next ``length`` states after a pair."""
    law = {(): 1.0}
    for _ in range(length):
        step = {}
        for path, weight in law.items():
            before = (*window, *path)[-2:]
            for state in (0, 1):
                p = ones[before] if state else 1 - ones[before]
                step[*path, state] = weight * p
        law = step
    return law


def test_what_a_chain_of_order_two_remembers_is_about_all_later_rows(rng):
    for _ in range(5):
        ones = second_order(rng)
        runs = tuple(itertools.product((0, 1), repeat=2))
        counts = np.array([np.round([1e9 * (1 - ones[run]), 1e9 * ones[run]]) for run in runs])
        model = FittedChain(counts, order=2, runs=runs)
        remembered = np.exp(model.log_remembered(np.arange(8)))
        assert remembered[0] == 1.0
        exact = np.zeros(8)
        for steps in range(1, 8):
            for a, b in itertools.combinations(runs, 2):
                laws = []
                for window in (a, b):
                    law = {}
                    for path, weight in future_law(ones, window, steps + 2).items():
                        law[path[steps - 1 :]] = law.get(path[steps - 1 :], 0.0) + weight
                    laws.append(law)
                apart = sum(abs(laws[0][path] - laws[1][path]) for path in laws[0]) / 2
                exact[steps] = max(exact[steps], apart)
        assert (exact[1:] <= remembered[1:]).all()
        np.testing.assert_allclose(remembered[1:], exact[1:], atol=2e-3)
        # The twin: one step more on the chain of pairs would promise too much.
        assert (exact[1:7] > remembered[2:]).any()


def test_an_order_two_chain_is_fitted_on_pairs_and_a_declared_order_is_an_assumption(rng):
    states = [0, 1]
    for draw in rng.random(30_000):
        states.append(int(draw < (0.1, 0.8, 0.3, 0.7)[2 * states[-2] + states[-1]]))
    table = {"s": np.array(states)}
    model = fit(table, columns="s", order=2)
    assert model.runs == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert model.counts.sum() == len(states) - 2
    assert model.fitted_rows == len(states)
    pairs = list(zip(states, states[1:], states[2:], strict=False))
    assert model.counts[1, 0] == pairs.count((0, 1, 0))
    assert "order 2" in model.assumptions[0]
    assert "BIC" not in model.assumptions[0]
    assert fit(table, columns="s", order="bic").order == 2
    proposed = fit(table, columns="s", order="bic")
    assert "BIC proposed" in proposed.assumptions[0]
    assert "nothing covers" in proposed.assumptions[0]
    assert proposed.fingerprint == model.fingerprint
    assert fit({"s": rng.integers(0, 2, 5_000)}, columns="s", order="bic").order == 1


def test_runs_that_are_never_seen_are_assumed_not_to_occur(rng):
    # After 0 always comes 1, so the pair (0, 0) never occurs.
    states = walk(np.array([[0.0, 1.0], [0.4, 0.6]]), 5_000, rng)
    model = fit({"s": states}, columns="s", order=2)
    assert model.runs == ((0, 1), (1, 0), (1, 1))
    assert any("no run of 2 states other than the 3" in sentence for sentence in model.assumptions)
    assert model.counts[1, 0] == 0
    assert not model.contains([[0.5, 0.5], [0.1, 0.9], [0.4, 0.6]])
    with pytest.raises(InvalidArgument, match="never show the run of states 0, 0"):
        fit({"s": states}, columns="s", order=2, states=[0, 1])


# Tails and splits.


@pytest.mark.parametrize("transition", [[[0.9, 0.1], [0.3, 0.7]], *THREE])
def test_with_very_many_training_rows_the_bounds_are_those_of_the_chain(transition):
    counts = np.round(np.array(transition) * 1e12)
    size = len(transition)
    model = FittedChain(counts, 5_000)
    exact = MarkovChain(transition, 5_000, initial=np.eye(size)[0])
    rows = {row.name: row.radius for row in model.mean_tail_report(0, 1).rows}
    known_rows = {row.name: row.radius for row in exact.mean_tail_report(0, 1).rows}
    assert rows.keys() == known_rows.keys()
    for name, radius in rows.items():
        assert radius == pytest.approx(known_rows[name], rel=2e-3)
        assert radius >= known_rows[name] * (1 - 1e-9)
    np.testing.assert_allclose(
        np.exp(model.log_remembered(np.arange(10))), np.exp(exact.log_remembered(np.arange(10))), atol=1e-4
    )


def test_two_states_have_the_norm_of_the_chain_itself():
    transition = [[0.9, 0.1], [0.3, 0.7]]
    model = FittedChain(np.round(np.array(transition) * 1e12), 5_000, start="stationary")
    exact = MarkovChain(transition, 5_000)
    assert model.mean_tail(0, 1).radius(0.05) == pytest.approx(exact.mean_tail(0, 1).radius(0.05), rel=1e-3)


def test_the_norm_of_any_chain_is_at_most_the_root_of_its_contraction(rng):
    above = 0
    for _ in range(300):
        size = int(rng.integers(2, 6))
        matrix = rng.dirichlet(np.full(size, rng.choice([0.1, 0.5, 2.0])), size) + 1e-6
        matrix /= matrix.sum(axis=1, keepdims=True)
        norm, theta = operator_norm(matrix, stationary_law(matrix)), dobrushin(matrix)
        assert norm <= math.sqrt(theta) + 1e-9
        if size == 2:
            assert norm <= theta + 1e-9
        above += norm > theta + 1e-6
    assert above  # The twin: without the root it is false.


def indicator_law(transition, marked, n):
    """The exact law of how many of ``n`` stationary rows are in the marked states."""
    law = np.zeros((len(transition), n + 1))
    for state, weight in enumerate(stationary_law(transition)):
        law[state, int(state in marked)] = weight
    for _ in range(n - 1):
        law = transition.T @ law
        for state in marked:
            law[state] = np.roll(law[state], 1)
    return law.sum(axis=0)


@pytest.mark.parametrize("transition", [[[0.85, 0.15], [0.1, 0.9]], THREE[0], THREE[1]])
def test_every_row_holds_for_the_true_chain(transition):
    transition = np.array(transition)
    size, n = len(transition), 400
    model = FittedChain(np.round(transition * 1e5), n, start="stationary")
    assert model.contains(transition)
    for marked in [(0,), (size - 1,), tuple(range(size - 1))]:
        law = indicator_law(transition, marked, n)
        center = stationary_law(transition)[list(marked)].sum()
        off = np.abs(np.arange(n + 1) / n - center)
        for row in model._rows(0.0, 1.0):
            for distance in np.linspace(0.01, 0.6, 40):
                assert law[off > distance].sum() <= 2 * math.exp(-row.tail.gamma(distance)) + 1e-12


def test_a_split_has_the_gap_of_the_slowest_chain_and_leaves_a_stationary_stretch(rng):
    counts = [[15_000, 800], [800, 15_000]]
    model = FittedChain(counts, columns="level").with_rows(100_000)
    parts = model.split(0.3, rng, beta=0.05)
    gap = parts.dropped
    remembered = np.exp(model.log_remembered(np.array([gap, gap + 1])))
    assert remembered[1] <= parts.bias <= 0.0025 < remembered[0]
    rest = parts.protected_model
    assert rest.start == "after a gap"
    assert rest.n == parts.protected.sum()
    assert (rest.columns, rest.failure) == (model.columns, model.failure)
    names = {row.name for row in rest.mean_tail_report(0, 1).rows}
    assert names == {"Dobrushin contraction", "stationary chain", "β-mixing blocks"}
    assert "stationary chain" not in {row.name for row in model.mean_tail_report(0, 1).rows}
    assert rest.assumptions == model.assumptions
    later = model.fresh(0.05)
    assert (later.dropped, later.bias) == (gap, parts.bias)
    assert later.protected_model.start == "after a gap"


def test_the_gap_brings_any_past_to_the_stationary_law(rng):
    """Exactly: given any state before the gap, the law after it is within the bias of stationary."""
    transition = np.array(THREE[0])
    model = FittedChain(np.round(transition * 1e4), 1_000)
    assert model.contains(transition)
    parts = model.split(0.3, rng, beta=0.2)
    reached = np.linalg.matrix_power(transition, parts.dropped + 1)
    apart = np.abs(reached - stationary_law(transition)).sum(axis=1) / 2
    assert apart.max() <= parts.bias


def test_a_gap_longer_than_the_table_is_named(rng):
    model = FittedChain([[15_000, 800], [800, 15_000]], 60)
    with pytest.raises(NotEnoughRows, match="with the 67 rows of a gap after it"):
        model.split(0.3, rng)
    with pytest.raises(NotEnoughRows, match="with the 67 rows of a gap"):
        model.fresh()


# Reading tables.


def test_a_chain_is_fitted_to_columns_of_any_table(rng):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    states = walk(np.array(THREE[0]), 3_000, rng)
    words = np.array(["low", "mid", "top"])[states]
    plain = {"level": words, "time": np.arange(3_000), "flag": states > 0}
    frame = pd.DataFrame(plain)
    model = fit(plain, columns="level")
    for table in (
        frame,
        frame.astype({"level": "category"}),
        frame.astype({"level": "string"}),
        pl.DataFrame(plain),
        pa.table(plain),
        {"level": words.tolist()},
        {"level": words.astype(object)},
    ):
        assert fit(table, columns="level") == model
        assert fit(table, columns=["level"]).fingerprint == model.fingerprint
    assert model.states == ("low", "mid", "top")
    assert model.columns == {"level"}
    assert model.n is None
    assert model.failure == pytest.approx(0.002)
    assert model.fitted_rows == 3_000
    both = fit(frame, columns=("level", "flag"))
    assert both.states == (("low", False), ("mid", True), ("top", True))
    np.testing.assert_array_equal(both.counts, model.counts)
    assert both.columns == {"level", "flag"}
    assert both.fingerprint != model.fingerprint


def test_counts_are_those_of_the_trajectory():
    model = fit({"x": [3, 1, 1, 3, 3, 1, 3, 1, 1, 1] * 20 + [3]}, columns="x")
    assert model.states == (1, 3)
    np.testing.assert_array_equal(model.counts, [[60, 60], [60, 20]])


def test_declared_states_keep_their_order_and_are_said_to_be_declared(rng):
    table = {"x": rng.integers(0, 3, 3_000)}
    model = fit(table, columns="x", states=[2, 0, 1])
    assert model.states == (2, 0, 1)
    seen = fit(table, columns="x")
    np.testing.assert_array_equal(model.counts, seen.counts[np.ix_([2, 0, 1], [2, 0, 1])])
    assert any("that were declared" in sentence for sentence in model.assumptions)
    assert any("that the training rows show" in sentence for sentence in seen.assumptions)
    pairs = {"x": table["x"], "y": table["x"] > 0}
    both = fit(pairs, columns=["x", "y"], states=[(1, True), [0, False], (np.int64(2), np.True_)])
    assert both.states == ((1, True), (0, False), (2, True))


def test_what_is_assumed_is_said(rng):
    model = fit({"x": rng.integers(0, 2, 2_000)}, columns="x").with_rows(500)
    text = " ".join(model.assumptions)
    for words in (
        "in the order of the table",
        "The order is assumed",
        "2,000 training rows",
        "charged",
        "'x'",
    ):
        assert words in text
    assert "500 rows" in model.description
    assert "2,000 rows at confidence 0.998" in model.description
    assert "any number of rows" in fit({"x": rng.integers(0, 2, 2_000)}, columns="x").description
    stationary = FittedChain([[50, 50], [50, 50]], start="stationary")
    assert stationary.assumptions[-1] == "The chain starts at its stationary law."
    assert set(model.to_dict()) == {
        *("name", "columns", "states", "order", "fitted_rows", "confidence", "start", "n", "assumptions")
    }


def test_models_are_values_with_a_fingerprint_of_their_content():
    counts = [[50, 20], [30, 60]]
    model = FittedChain(counts, 100)
    assert model == FittedChain(np.array(counts, dtype=float), 100)
    assert hash(model) == hash(FittedChain(counts, 100))
    others = [
        FittedChain([[50, 21], [30, 60]], 100),
        FittedChain(counts, 101),
        FittedChain(counts),
        FittedChain(counts, 100, confidence=0.99),
        FittedChain(counts, 100, states=("a", "b")),
        FittedChain(counts, 100, columns="x"),
        FittedChain(counts, 100, start="stationary"),
    ]
    assert len({model.fingerprint, *(other.fingerprint for other in others)}) == 8
    assert all(other != model for other in others)
    assert FittedChain(counts).with_rows(100) == model


def test_a_model_without_rows_says_what_to_do(rng):
    model = FittedChain([[50, 20], [30, 60]])
    for use in (lambda: model.mean_tail(0, 1), lambda: model.split(0.5, rng), model.fresh):
        with pytest.raises(InvalidArgument, match=r"with_rows\(n\), or give it to Guard"):
            use()
    with pytest.raises(InvalidArgument, match="a model of the 7 rows"):
        model.with_rows(6).with_rows(7)


def _bad_tables():
    x = [0, 1] * 50 + [0, 0, 1, 1] * 20
    return {
        "a missing value": (
            {"train": {"x": [*x, None]}, "columns": "x"},
            r"without missing values in 'x'.*1 of 181",
        ),
        "NaN": ({"train": {"x": np.array([*x, math.nan])}, "columns": "x"}, "without missing values"),
        "an object NaN": ({"train": {"x": [*x, math.nan]}, "columns": "x"}, "without missing values"),
        "no such column": ({"train": {"x": x}, "columns": "y"}, r"columns of the training rows \(\['x'\]\)"),
        "no columns": ({"train": {"x": x}}, "the columns that make up a state"),
        "a column twice": ({"train": {"x": x}, "columns": ["x", "x"]}, "several different names"),
        "a column that is no text": ({"train": {"x": x}, "columns": [3]}, "the name of a column"),
        "no table": ({"train": x, "columns": "x"}, "pandas or polars frame"),
        "lengths": ({"train": {"x": x, "y": x[1:]}, "columns": ["x", "y"]}, "columns of one length"),
        "lists in a column": ({"train": {"x": [[0], [1]]}, "columns": "x"}, "'x'"),
        "a matrix": ({"train": {"x": np.zeros((4, 2))}, "columns": "x"}, "one value in each row"),
        "many values": (
            {"train": {"x": np.arange(500)}, "columns": "x"},
            r"2 to 50 states.*Bin.*Mixing\(rate\)",
        ),
        "one value": ({"train": {"x": [1] * 50}, "columns": "x"}, "with 1 states"),
        "an unseen state": ({"train": {"x": x}, "columns": "x", "states": [0, 1, 7]}, "never show 7"),
        "an undeclared state": ({"train": {"x": x}, "columns": "x", "states": [0]}, "they show 1 too"),
        "a state twice": ({"train": {"x": x}, "columns": "x", "states": [0, 1, 1]}, "different states"),
        "states as a text": (
            {"train": {"x": x}, "columns": "x", "states": "01"},
            "a list of different states",
        ),
        "a state at the end": (
            {"train": {"x": [*x, 5]}, "columns": "x"},
            "show only at their end the state 5",
        ),
        "kind": ({"train": {"x": x}, "columns": "x", "kind": "tree"}, "kind"),
        "order": ({"train": {"x": x}, "columns": "x", "order": 0}, "order"),
        "an order in words": ({"train": {"x": x}, "columns": "x", "order": "aic"}, "order"),
        "confidence": ({"train": {"x": x}, "columns": "x", "confidence": 1.0}, "confidence"),
        "too many runs": (
            {"train": {"x": np.random.default_rng(0).integers(0, 8, 5_000)}, "columns": "x", "order": 2},
            "64 runs",
        ),
        "a circle": ({"train": {"x": [0, 1, 2] * 50}, "columns": "x"}, "goes round in a circle"),
        "too short": (
            {"train": {"x": np.random.default_rng(1).integers(0, 6, 60)}, "columns": "x"},
            r"too short to show that the chain forgets: it has 60 rows, about \d.* would do.*Mixing\(rate\)",
        ),
    }


@pytest.mark.parametrize("case", _bad_tables())
def test_what_cannot_be_fitted_is_named(case):
    arguments, sentence = _bad_tables()[case]
    with pytest.raises(InvalidArgument, match=sentence):
        fit(**arguments)


def test_about_as_many_rows_as_it_says_would_do():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidArgument, match="too short") as refused:
        fit({"x": rng.integers(0, 6, 60)}, columns="x")
    enough = int(str(refused.value).split("about ")[1].split(" would")[0].replace(",", ""))
    assert fit({"x": rng.integers(0, 6, 2 * enough)}, columns="x").log_remembered(50) < 0


def test_too_few_rows():
    with pytest.raises(NotEnoughRows, match="a chain of order 2"):
        fit({"x": [0, 1]}, columns="x", order=2)
    with pytest.raises(NotEnoughRows, match="BIC"):
        fit({"x": [0, 1, 0]}, columns="x", order="bic")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"counts": [[1, 2], [0, 0]]}, "row 1 is empty"),
        ({"counts": [[1, -2], [1, 1]]}, "counts"),
        ({"counts": [[1.5, 2], [1, 1]]}, "counts"),
        ({"counts": "ab"}, "counts"),
        ({"counts": [[5]]}, "counts"),
        ({"counts": [[5, 1], [1, 5]], "states": ("a",)}, "states"),
        ({"counts": [[5, 1], [1, 5]], "order": 2}, "runs"),
        ({"counts": [[5, 1], [1, 5]], "order": 2, "runs": ((0, 1), (1, 2))}, "runs"),
        ({"counts": [[5, 1], [1, 5]], "start": "now"}, "start"),
        ({"counts": [[5, 1], [1, 5]], "n": 0}, "n"),
    ],
)
def test_bad_counts_are_refused(arguments, name):
    with pytest.raises(InvalidArgument, match=name):
        FittedChain(**arguments)


# Columns of a chain that is given.


def test_a_given_chain_may_name_its_columns():
    plain, named = MarkovChain(THREE[0], 50), MarkovChain(THREE[0], 50, columns=["b", "a"])
    assert plain.columns is None
    assert named.columns == {"a", "b"}
    assert named != plain
    assert named.fingerprint != plain.fingerprint
    assert named == MarkovChain(THREE[0], 50, columns=("a", "b"))
    assert "columns 'a', 'b'" in " ".join(named.assumptions)
    assert "columns=['a', 'b']" in repr(named)
    assert "columns" not in repr(plain)
    assert named.to_dict()["columns"] == ["a", "b"]
    assert named.split(0.5, np.random.default_rng(0), 0.9).protected_model.columns == {"a", "b"}
    with pytest.raises(InvalidArgument, match="columns"):
        MarkovChain(THREE[0], 50, columns=[])


def test_fingerprints_of_chains_without_columns_are_as_before():
    assert MarkovChain([[0.9, 0.1], [0.3, 0.7]], 20).fingerprint.startswith("c5bca963f755d4cf0b012748")


def test_taking_frequencies_as_exact_points_to_the_fit_that_does_not():
    with pytest.warns(UserWarning, match=r"dependence\.fit accounts for the error"):
        chain = MarkovChain.fit([0, 1, 0, 0, 1, 1], columns="x")
    assert chain.columns == {"x"}
    assert not any("dependence.fit" in sentence for sentence in chain.extra_assumptions)


def test_a_declared_rate_is_what_remains_where_nothing_can_be_fitted():
    assert Mixing(0.9).columns is None
    assert Mixing(0.9).failure == 0.0
