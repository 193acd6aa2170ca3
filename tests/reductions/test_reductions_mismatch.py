"""How often shared coins disagree: every bound against all pairs of data of a few binary rows."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_oracles import SHARES, mean_mismatch, mean_variation

from enumeration import (
    data,
    exact_delta,
    exact_epsilon,
    independent,
    noisy_count,
    randomised_response,
    with_leak,
)
from holdfast.errors import InvalidArgument
from holdfast.reductions import (
    dp_replicability,
    replicability_budget,
)
from holdfast.reductions._mismatch import subsampled_distance
from holdfast.stability import DP, coin_disagreement, explain, mean_distance, outcome_variance


def tables(n: int, rng: np.random.Generator) -> list[np.ndarray]:
    weights = np.exp(0.3 * rng.standard_normal((2**n, 4)))
    return [
        randomised_response(n, 0.1),
        randomised_response(n, 0.6),
        noisy_count(n, 0.1),
        noisy_count(n, 0.6),
        weights / weights.sum(axis=1, keepdims=True),
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_enumerated_mismatch_of_pure_privacy(n, seed):
    for table in tables(n, np.random.default_rng(seed)):
        epsilon = exact_epsilon(table, n)
        rho = dp_replicability(DP(epsilon), n, outcomes=table.shape[1]).rho
        without = dp_replicability(DP(epsilon), n).rho
        assert rho <= without
        for p in SHARES:
            assert mean_variation(independent(n, p), table) <= mean_distance(DP(epsilon), n) + 1e-9
            assert mean_mismatch(independent(n, p), table) <= rho + 1e-9


def test_half_of_the_coupling_constant_is_caught():
    table = randomised_response(6, 0.2)
    truth = mean_mismatch(independent(6, 0.5), table)
    assert dp_replicability(DP(0.2), 6).rho / 2.0 < truth <= dp_replicability(DP(0.2), 6).rho
    # Two outcomes: the bound is not twice too large there either.
    coin = randomised_response(1, 0.2)
    assert mean_mismatch(independent(1, 0.5), coin) > dp_replicability(DP(0.2), 1, outcomes=2).rho / 2.0


def test_half_of_epsilon_is_caught():
    table = randomised_response(6, 0.4)
    assert mean_mismatch(independent(6, 0.5), table) > dp_replicability(DP(0.2), 6).rho


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_the_spread_is_attained_by_randomised_response(epsilon):
    # Relative variance of one outcome's probability over fair rows: both rows equally likely is not the worst
    # share, the one that makes the mean of the two-point law its geometric centre is.
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    values = np.array([truth, 1.0 - truth])
    worst = max(
        float((p * values[0] ** 2 + (1 - p) * values[1] ** 2) / (p * values[0] + (1 - p) * values[1]) ** 2)
        for p in np.linspace(0.001, 0.999, 9999)
    )
    assert worst - 1.0 <= outcome_variance(epsilon, 1) + 1e-12
    assert worst - 1.0 >= outcome_variance(epsilon, 1) * (1.0 - 1e-4)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.02])
def test_enumerated_mismatch_of_approximate_privacy(delta, seed):
    for n in [1, 2, 3, 4, 6]:
        for table in tables(n, np.random.default_rng(seed))[: 5 if n < 6 else 1]:
            leaky = with_leak(table, delta)
            for epsilon in (exact_epsilon(table, n), exact_epsilon(table, n) / 3.0, 0.0):
                dp = DP(epsilon, exact_delta(leaky, n, epsilon) + 1e-15)
                for p in SHARES:
                    assert mean_variation(independent(n, p), leaky) <= mean_distance(dp, n) + 1e-9
                    assert mean_mismatch(independent(n, p), leaky) <= dp_replicability(dp, n).rho + 1e-9


def test_a_bound_that_forgets_delta_is_caught():
    leaky = with_leak(randomised_response(3, 0.001), 0.05)
    assert mean_variation(independent(3, 0.5), leaky) > mean_distance(DP(0.001), 3) + 0.01


def test_delta_is_paid_for_every_row():
    # Each row is printed with probability δ: the laws on two samples of distinct rows are nδ apart.
    n, delta = 100, 1e-4
    assert n * delta <= mean_distance(DP(0.0, delta), n) < 2.001 * n * delta
    assert mean_distance(DP(0.0, delta), 1) < n * delta


@given(st.floats(-9.0, 0.5), st.floats(-30.0, -3.0), st.integers(1, 10**6), st.integers(1, 10**6))
def test_approximate_privacy_takes_the_better_clamp(exponent, delta_exponent, n, parts):
    epsilon, delta = 10.0**exponent, 10.0**delta_exponent
    with mpmath.workdps(40):
        x = min(
            mpmath.sqrt((mpmath.cosh(mpmath.mpf(epsilon) * length / 2) ** (2 * n) - 1) / (2 * parts)) + cost
            for length, cost in ((2, 2 * n * mpmath.mpf(delta)), (1, 2 * n * mpmath.sqrt(mpmath.mpf(delta))))
        )
        exact = min(1.0, float(x)) if x < 2 else 1.0
    assert exact <= mean_distance(DP(epsilon, delta), n, parts) <= exact * (1.0 + 1e-9)


def test_the_short_clamp_pays_less_where_delta_is_tiny():
    """Half of the bound of the long clamp, where n√δ is small against ε√n."""
    short, long = mean_distance(DP(1e-3, 1e-24), 1000), mean_distance(DP(1e-3, 1e-9), 1000)
    assert short == pytest.approx(mean_distance(DP(1e-3), 1000), rel=1e-6)
    assert long == pytest.approx(mean_distance(DP(2e-3), 1000), rel=1e-3)


@pytest.mark.parametrize("outcomes", [1, 2, 3, 7])
def test_one_sample_with_k_outcomes_is_no_farther_than_chance(outcomes, rng):
    """E TV ≤ 1 − 1/k, and shared coins differ no more often; printing a uniform row attains both."""
    bound = mean_distance(DP(50.0), 1, outcomes=outcomes)
    assert bound == pytest.approx(1.0 - 1.0 / outcomes)
    assert dp_replicability(DP(50.0), 1, outcomes=outcomes).rho == pytest.approx(1.0 - 1.0 / outcomes)
    uniform = np.full(outcomes, 1.0 / outcomes)
    attained = mean_variation(uniform, np.eye(outcomes))
    assert attained == pytest.approx(1.0 - 1.0 / outcomes)
    # A count that forgets one outcome is broken.
    if outcomes > 1:
        assert attained > mean_distance(DP(50.0), 1, outcomes=outcomes - 1) + 0.01
    for law, table in (
        (rng.dirichlet(np.ones(6)), rng.dirichlet(np.full(outcomes, concentration), 6))
        for concentration in (0.05, 0.3, 1.0)
    ):
        assert mean_variation(law, table) <= bound + 1e-9
        assert mean_mismatch(law, table) <= bound + 1e-9


@pytest.mark.parametrize(("n", "parts"), [(1, 6), (2, 3), (3, 2), (1, 4)])
def test_enumerated_mismatch_over_parts(n, parts, seed):
    lines = data(n * parts)
    places = lines.reshape(len(lines), parts, n) @ (2 ** np.arange(n)[::-1])
    for table in tables(n, np.random.default_rng(seed)):
        average = table[places].mean(axis=1)
        dp = DP(exact_epsilon(table, n))
        for p in SHARES[:2]:
            bound = dp_replicability(dp, n, parts=parts, outcomes=table.shape[1]).rho
            assert mean_mismatch(independent(n * parts, p), average) <= bound + 1e-9


def test_any_algorithm_with_few_outcomes_is_replicable_over_parts():
    # The least private one: the row itself. Counting outcomes alone gives the bound.
    table = np.eye(2)
    lines = data(6)
    average = table[lines].mean(axis=1)
    bound = dp_replicability(DP(50.0), 1, parts=6, outcomes=2).rho
    truth = mean_mismatch(independent(6, 0.5), average)
    assert bound / 2.0 < truth <= bound + 1e-9


@pytest.mark.parametrize(("n", "m", "draws"), [(1, 3, 2), (2, 3, 1), (2, 4, 2), (1, 2, 3), (1, 6, 2)])
def test_enumerated_mismatch_over_subsets(n, m, draws, seed):
    subsets = list(itertools.permutations(range(m), n))
    lines = data(m)
    powers = 2 ** np.arange(n)[::-1]
    for table in tables(n, np.random.default_rng(seed))[::2]:
        one = np.array([table[lines[:, subset] @ powers] for subset in subsets])
        for leak in (0.0, 0.01):
            laws = (
                one
                if leak == 0.0
                else np.array([with_leak(table, leak)[lines[:, s] @ powers] for s in subsets])
            )
            epsilon = exact_epsilon(table, n)
            dp = DP(epsilon, 0.0 if leak == 0.0 else exact_delta(with_leak(table, leak), n, epsilon) + 1e-15)
            bound = subsampled_distance(dp, n, m, draws, laws.shape[2])
            for p in SHARES[:2]:
                law = independent(m, p)
                choices = list(itertools.product(range(len(subsets)), repeat=draws))
                found = np.mean([mean_variation(law, laws[list(choice)].mean(axis=0)) for choice in choices])
                assert found <= bound + 1e-9


@pytest.mark.parametrize(("dp", "times"), [(DP(1e-5), 9.0), (DP(1e-5, 1e-12), 4.0)])
def test_the_graph_has_this_bound_and_the_way_around_is_many_times_worse(dp, times):
    ours = dp_replicability(dp, 1000)
    assert ours == explain(dp, "replicable", n=1000).result
    around = min(explain(dp, "replicable", n=1000, beta=10.0**-power).result.rho for power in (5, 6, 7, 8))
    assert times * ours.rho < around


@given(st.floats(1e-6, 2.0), st.integers(1, 10_000), st.integers(1, 1000), st.integers(2, 50))
def test_more_privacy_fewer_rows_more_parts_fewer_outcomes_never_hurt(epsilon, n, parts, outcomes):
    rho = dp_replicability(DP(epsilon), n, parts=parts, outcomes=outcomes).rho
    assert rho <= dp_replicability(DP(epsilon * 1.5), n, parts=parts, outcomes=outcomes).rho
    assert rho <= dp_replicability(DP(epsilon, 1e-9), n, parts=parts, outcomes=outcomes).rho
    assert rho <= dp_replicability(DP(epsilon), n + 1, parts=parts, outcomes=outcomes).rho
    assert rho >= dp_replicability(DP(epsilon), n, parts=parts + 1, outcomes=outcomes).rho
    assert rho <= dp_replicability(DP(epsilon), n, parts=parts, outcomes=outcomes + 1).rho


@given(st.floats(1e-9, 0.99), st.integers(1, 10**9), st.integers(1, 10**6), st.sampled_from([None, 2, 50]))
def test_the_budget_is_the_largest_that_keeps_the_promise(rho, n, parts, outcomes):
    """By privacy alone: the bounds that count outcomes are left out."""
    budget = replicability_budget(rho, n, parts=parts, outcomes=outcomes)
    more = DP(budget.epsilon * (1.0 + 1e-9))
    within, beyond = (
        distance if outcomes == 2 else coin_disagreement(distance, None)
        for distance in (mean_distance(dp, n, parts) for dp in (budget, more))
    )
    assert within <= rho
    assert beyond > rho * (1.0 - 1e-6)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dp": 0.1, "n": 10}, "dp"),
        ({"dp": DP(0.1), "n": 0}, "n"),
        ({"dp": DP(0.1), "n": 10, "parts": 0}, "parts"),
        ({"dp": DP(0.1), "n": 10, "outcomes": 0}, "outcomes"),
    ],
)
def test_bad_arguments_of_the_bound_are_named(arguments, named):
    with pytest.raises(InvalidArgument) as caught:
        dp_replicability(**arguments)
    assert caught.value.argument == named
