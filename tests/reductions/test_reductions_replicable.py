"""From private to replicable: the mismatch of shared coins, exactly, on all data of six binary rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_oracles import (
    LEVEL,
    SHARES,
    chance,
    data,
    exact_delta,
    exact_epsilon,
    lower_limit,
    mean_mismatch,
    mean_variation,
    noisy_count,
    randomised_response,
    upper_limit,
    with_leak,
)
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.reductions import (
    Algorithm,
    dp_replicability,
    dp_to_replicable,
    exponential_choice,
    laplace_mean,
    perfect_to_replicable,
    replicability_budget,
)
from holdfast.reductions._mismatch import disagreement, mean_distance, spread, subsampled_distance
from holdfast.replicable import Tape
from holdfast.stability import DP, PerfectGeneralization, Replicability, explain


def from_table(table: np.ndarray, n: int, dp: DP, **fields) -> Algorithm:
    """The algorithm whose output law on n binary rows is a line of the table."""
    powers = 2 ** np.arange(n)[::-1]
    exact = {"probabilities": lambda rows: table[int(np.asarray(rows) @ powers)]}
    return Algorithm(
        lambda rows, tape: int(
            np.searchsorted(
                np.cumsum(table[int(np.asarray(rows) @ powers)]), tape.uniforms(1)[0] * (1 - 1e-12)
            )
        ),
        rows_needed=n,
        guarantee=dp,
        outcomes=tuple(range(table.shape[1])),
        **{**exact, **fields},
    )


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
            assert mean_variation(chance(n, p), table) <= mean_distance(DP(epsilon), n) + 1e-9
            assert mean_mismatch(chance(n, p), table) <= rho + 1e-9


def test_half_of_the_coupling_constant_is_caught():
    table = randomised_response(6, 0.2)
    truth = mean_mismatch(chance(6, 0.5), table)
    assert dp_replicability(DP(0.2), 6).rho / 2.0 < truth <= dp_replicability(DP(0.2), 6).rho
    # Two outcomes: the bound is not twice too large there either.
    coin = randomised_response(1, 0.2)
    assert mean_mismatch(chance(1, 0.5), coin) > dp_replicability(DP(0.2), 1, outcomes=2).rho / 2.0


def test_half_of_epsilon_is_caught():
    table = randomised_response(6, 0.4)
    assert mean_mismatch(chance(6, 0.5), table) > dp_replicability(DP(0.2), 6).rho


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
    assert worst - 1.0 <= spread(epsilon, 1) + 1e-12
    assert worst - 1.0 >= spread(epsilon, 1) * (1.0 - 1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("delta", [1e-3, 0.02])
def test_enumerated_mismatch_of_approximate_privacy(n, delta, seed):
    for table in tables(n, np.random.default_rng(seed)):
        leaky = with_leak(table, delta)
        for epsilon in (exact_epsilon(table, n), exact_epsilon(table, n) / 3.0, 0.0):
            dp = DP(epsilon, exact_delta(leaky, n, epsilon) + 1e-15)
            for p in SHARES:
                assert mean_variation(chance(n, p), leaky) <= mean_distance(dp, n) + 1e-9
                assert mean_mismatch(chance(n, p), leaky) <= dp_replicability(dp, n).rho + 1e-9


def test_a_bound_that_forgets_delta_is_caught():
    leaky = with_leak(randomised_response(3, 0.001), 0.05)
    assert mean_variation(chance(3, 0.5), leaky) > mean_distance(DP(0.001), 3) + 0.01


def test_delta_is_paid_for_every_row():
    # Each row is printed with probability δ: the laws on two samples of distinct rows are nδ apart.
    n, delta = 100, 1e-4
    assert n * delta <= mean_distance(DP(0.0, delta), n) < 4.001 * n * delta
    assert mean_distance(DP(0.0, delta), 1) < n * delta


@pytest.mark.parametrize(("n", "parts"), [(1, 6), (2, 3), (3, 2), (1, 4)])
def test_enumerated_mismatch_over_parts(n, parts, seed):
    lines = data(n * parts)
    places = lines.reshape(len(lines), parts, n) @ (2 ** np.arange(n)[::-1])
    for table in tables(n, np.random.default_rng(seed)):
        average = table[places].mean(axis=1)
        dp = DP(exact_epsilon(table, n))
        for p in SHARES[:2]:
            bound = dp_replicability(dp, n, parts=parts, outcomes=table.shape[1]).rho
            assert mean_mismatch(chance(n * parts, p), average) <= bound + 1e-9


def test_any_algorithm_with_few_outcomes_is_replicable_over_parts():
    # The least private one: the row itself. Counting outcomes alone gives the bound.
    table = np.eye(2)
    lines = data(6)
    average = table[lines].mean(axis=1)
    bound = dp_replicability(DP(50.0), 1, parts=6, outcomes=2).rho
    truth = mean_mismatch(chance(6, 0.5), average)
    assert bound / 2.0 < truth <= bound + 1e-9


@pytest.mark.parametrize(("n", "m", "draws"), [(1, 3, 2), (2, 3, 1), (2, 4, 2), (1, 2, 3)])
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
                law = chance(m, p)
                choices = list(itertools.product(range(len(subsets)), repeat=draws))
                found = np.mean([mean_variation(law, laws[list(choice)].mean(axis=0)) for choice in choices])
                assert found <= bound + 1e-9


@pytest.mark.parametrize(
    ("rows", "epsilon", "rho"), [(1, 0.5, 0.3), (2, 0.3, 0.25), (3, 0.3, 0.35), (6, 0.1, 0.2)]
)
def test_the_compiled_algorithm_keeps_its_promise_on_all_data_of_six_rows(rows, epsilon, rho):
    table = noisy_count(rows, epsilon)
    steady = dp_to_replicable(from_table(table, rows, DP(exact_epsilon(table, rows))), rho=rho)
    assert isinstance(steady.guarantee, Replicability)
    assert steady.guarantee.rho <= rho
    assert steady.rows_needed <= 6
    laws = np.array([steady.law(line) for line in data(steady.rows_needed)])
    for p in SHARES:
        assert mean_mismatch(chance(steady.rows_needed, p), laws) <= steady.guarantee.rho + 1e-9


def test_the_compiled_algorithm_averages_over_its_parts():
    table = noisy_count(2, 0.5)
    steady = dp_to_replicable(from_table(table, 2, DP(0.5)), rho=0.4)
    draws = steady.explain().steps[-1].parameters["draws"]
    assert (draws, steady.rows_needed) == (steady.rows_needed // 2, 2 * draws)
    assert draws > 1
    for line in data(steady.rows_needed):
        places = line.reshape(draws, 2) @ np.array([2, 1])
        assert np.allclose(steady.law(line), table[places].mean(axis=0), atol=1e-15)


def test_the_compiled_algorithm_chooses_with_the_probabilities_it_says(seed):
    table = noisy_count(2, 0.5)
    steady = dp_to_replicable(from_table(table, 2, DP(0.5)), rho=0.4)
    rows = data(steady.rows_needed)[5]
    drawn = [steady(rows, Tape(seed).branch(number)) for number in range(3000)]
    counts = np.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, counts.sum() * steady.law(rows)).pvalue > LEVEL


def run_twice(steady: Algorithm, sampler, trials: int, seed: int, shared: bool = True) -> int:
    rng = np.random.default_rng(seed)
    differ = 0
    for number in range(trials):
        tape = Tape(seed).branch(number)
        other = tape if shared else tape.branch("another")
        first, second = (steady(sampler(rng, steady.rows_needed), coins) for coins in (tape, other))
        differ += first != second
    return differ


def test_two_runs_agree_as_promised_and_private_coins_are_caught(seed):
    steady = dp_to_replicable(laplace_mean(rows=100, epsilon=0.02, accuracy=0.5, cells=10), rho=0.2)
    trials = 1000

    def sampler(rng, size):
        return rng.beta(0.5, 0.5, size)

    assert lower_limit(run_twice(steady, sampler, trials, seed), trials) <= steady.guarantee.rho
    apart = run_twice(steady, sampler, trials, seed, shared=False)
    assert lower_limit(apart, trials) > steady.guarantee.rho


@pytest.mark.parametrize("sampling", ["parts", "subsample"])
def test_laws_estimated_from_runs_are_replicable_too(sampling, seed):
    table = noisy_count(3, 1.0)
    rough = from_table(table, 3, DP(1.0), probabilities=None, law_runs=2)
    steady = dp_to_replicable(rough, rho=0.5, sampling=sampling)
    exact = dp_to_replicable(from_table(table, 3, DP(1.0)), rho=0.5, sampling=sampling)
    assert steady.rows_needed >= exact.rows_needed
    assert steady.failure == rough.failure
    trials = 60 if sampling == "parts" else 25
    differ = run_twice(steady, lambda rng, size: rng.integers(0, 2, size), trials, seed)
    assert lower_limit(differ, trials) <= steady.guarantee.rho


def test_a_stated_error_of_the_law_enters_everything():
    table = noisy_count(2, 0.5)
    plain = from_table(table, 2, DP(0.5), failure=0.01)
    rough = from_table(table, 2, DP(0.5), failure=0.01, law_error=0.02)
    exact, wide = dp_to_replicable(plain, rho=0.3), dp_to_replicable(rough, rho=0.3)
    assert wide.rows_needed > exact.rows_needed
    assert wide.failure == pytest.approx(0.03)
    assert wide.guarantee.rho <= 0.3
    with pytest.raises(InvalidArgument, match="law_error"):
        dp_to_replicable(from_table(table, 2, DP(0.5), law_error=0.2), rho=0.3)


def test_subsets_need_fewer_rows_where_outcomes_are_many_and_rows_outweigh_privacy():
    wide = laplace_mean(rows=2000, epsilon=0.1, accuracy=0.1, cells=1000)
    parts = dp_to_replicable(wide, rho=0.2)
    subsets = dp_to_replicable(wide, rho=0.2, sampling="subsample")
    assert subsets.guarantee.rho <= 0.2
    assert subsets.rows_needed < parts.rows_needed
    used = subsets.explain().steps[-1].parameters
    assert (used["rows"], subsets.rows_needed) == (subsets.rows_needed, subsets.rows_needed)


def test_the_printed_route_needs_many_times_the_rows():
    choice = exponential_choice(models=4, rows=50, epsilon=0.5, accuracy=0.5)
    sharp = dp_to_replicable(choice, rho=0.2, sampling="subsample")
    paper = dp_to_replicable(choice, rho=0.2, method="paper")
    assert paper.guarantee.rho <= 0.2
    assert paper.rows_needed > 100 * sharp.rows_needed


def test_the_printed_route_for_approximate_privacy_needs_its_constants():
    leaky = Algorithm(
        lambda rows, tape: 0, rows_needed=50, guarantee=DP(0.5, 1e-40), outcomes=(0, 1), law_runs=1
    )
    with pytest.raises(InvalidArgument) as caught:
        dp_to_replicable(leaky, rho=0.2, method="paper")
    assert caught.value.argument == "c"
    by_constant = [
        dp_to_replicable(leaky, rho=0.2, method="paper", c=1.0, C=C).rows_needed for C in (1.0, 100.0, 1e4)
    ]
    assert by_constant == sorted(by_constant)
    assert by_constant[0] < by_constant[2]
    with pytest.raises(InvalidArgument, match="rho"):
        dp_to_replicable(leaky, rho=0.2, method="paper", c=1e15, C=1.0)


def test_explicit_constants_beat_the_graph():
    ours = dp_replicability(DP(1e-5), 1000).rho
    assert ours < explain(DP(1e-5), "replicable", n=1000).result.rho / 9.0
    leaky = DP(1e-5, 1e-12)
    assert dp_replicability(leaky, 1000).rho < explain(leaky, "replicable", n=1000).result.rho / 4.0


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
    budget = replicability_budget(rho, n, parts=parts, outcomes=outcomes)
    two = outcomes if outcomes == 2 else None
    within = mean_distance(budget, n, parts)
    assert disagreement(within, two) <= rho
    assert disagreement(mean_distance(DP(budget.epsilon * (1.0 + 1e-9)), n, parts), two) > rho * (1.0 - 1e-6)


def test_the_sample_size_of_sis_corollary_3_13_is_too_small_for_its_proof():
    # With C's part left out, the proof needs 6tε'√m ≤ ρ for t = √(2 ln(2/γ)) and ε' = 2εn/m.
    rho, gamma, epsilon, n = 0.01, 1e-6, 0.5, 100
    root = math.sqrt(72.0 * math.log(2.0 / gamma))
    t = math.sqrt(2.0 * math.log(2.0 / gamma))

    def bits(m: float) -> float:
        return 6.0 * t * (2.0 * epsilon * n / m) * math.sqrt(m)

    printed = 4.0 * epsilon**2 * n**2 * root / rho**2
    needed = 4.0 * epsilon**2 * n**2 * root**2 / rho**2
    assert bits(printed) > 5.0 * rho
    assert bits(needed) == pytest.approx(rho)


def test_perfect_generalisation_becomes_replicable_on_all_data_of_four_rows():
    table = noisy_count(4, 0.05)
    law = chance(4, 0.5)
    middle = law @ table
    far = np.log(table / middle).max(axis=1)
    notion = PerfectGeneralization(float(law[far > 0.05].sum()), 0.05, 0.0, kind="one-way")
    algorithm = from_table(table, 4, DP(1.0))
    known = Algorithm(
        algorithm.run,
        rows_needed=4,
        guarantee=notion,
        outcomes=algorithm.outcomes,
        probabilities=algorithm.probabilities,
    )
    steady = perfect_to_replicable(known)
    laws = np.array([steady.law(line) for line in data(4)])
    assert mean_mismatch(law, laws) <= steady.guarantee.rho + 1e-9
    assert steady.guarantee == notion.replicability()
    assert "Theorem 3.17" in str(steady.explain())
    rough = Algorithm(
        algorithm.run, rows_needed=4, guarantee=notion, outcomes=algorithm.outcomes, law_runs=900
    )
    assert perfect_to_replicable(rough).guarantee.rho > steady.guarantee.rho
    assert upper_limit(0, 10_000) < 1e-3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rho": 0.0}, "rho"),
        ({"rho": math.nan}, "rho"),
        ({"rho": 1.0}, "rho"),
        ({"sampling": "all"}, "sampling"),
        ({"method": "best"}, "method"),
        ({"c": 1.0}, "c"),
        ({"C": 1.0}, "C"),
        ({"workers": -1}, "workers"),
        ({"algorithm": 3}, "algorithm"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=Replicability(0.1))}, "algorithm"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(1.0))}, "outcomes"),
        (
            {"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(1.0), outcomes=(0, 1))},
            "probabilities",
        ),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": from_table(noisy_count(1, 1.0), 1, DP(1.0)), "rho": 0.1, **change}
    with pytest.raises(InvalidArgument) as caught:
        dp_to_replicable(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named


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
