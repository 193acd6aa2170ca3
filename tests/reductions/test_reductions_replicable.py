"""From private to replicable: the compiled algorithm on all data of six binary rows, and on more."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from reductions_oracles import LEVEL, SHARES, mean_mismatch
from scipy import stats

from enumeration import data, exact_delta, exact_epsilon, independent, noisy_count, with_leak
from holdfast.errors import InvalidArgument
from holdfast.reductions import (
    Algorithm,
    dp_to_replicable,
    exponential_choice,
    laplace_mean,
    perfect_to_replicable,
    replicability_budget,
)
from holdfast.replicable import Tape
from holdfast.stability import DP, PerfectGeneralization, Replicability
from limits import lower_limit, upper_limit


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
        assert mean_mismatch(independent(steady.rows_needed, p), laws) <= steady.guarantee.rho + 1e-9


@pytest.mark.parametrize(("rows", "epsilon", "delta", "rho"), [(1, 0.4, 0.002, 0.25), (3, 0.2, 0.003, 0.4)])
def test_approximate_privacy_keeps_its_promise_on_all_data_of_six_rows_too(rows, epsilon, delta, rho):
    table = with_leak(noisy_count(rows, epsilon), delta)
    dp = DP(epsilon, exact_delta(table, rows, epsilon) + 1e-15)
    steady = dp_to_replicable(from_table(table, rows, dp), rho=rho)
    assert steady.rows_needed <= 6
    laws = np.array([steady.law(line) for line in data(steady.rows_needed)])
    for p in SHARES:
        assert mean_mismatch(independent(steady.rows_needed, p), laws) <= steady.guarantee.rho + 1e-9


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
    drawn = [steady(rows, Tape(seed).branch(number)) for number in range(1200)]
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


HOSTILE = {
    "fair coins": lambda rng, size: rng.integers(0, 2, size).astype(float),
    "all at one end": lambda rng, size: np.zeros(size),
    "rare ones": lambda rng, size: (rng.random(size) < 0.01).astype(float),
    "towards the ends": lambda rng, size: rng.beta(0.2, 0.2, size),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_replicable_means_agree_and_are_right_as_often_as_promised(name, seed):
    private = laplace_mean(rows=400, epsilon=replicability_budget(0.2, 400).epsilon, accuracy=0.7, cells=20)
    steady = dp_to_replicable(private, rho=0.2)
    assert steady.rows_needed == 400
    truth = {"all at one end": 0.0, "rare ones": 0.01}.get(name, 0.5)
    rng, tape, trials = np.random.default_rng(seed), Tape(seed), 500
    first, second = np.array(
        [[steady(HOSTILE[name](rng, 400), tape.branch(number)) for _ in range(2)] for number in range(trials)]
    ).T
    assert lower_limit(int((first != second).sum()), trials) <= steady.guarantee.rho
    assert lower_limit(int((np.abs(first - truth) > 0.7).sum()), trials) <= steady.failure < 0.2


@pytest.mark.parametrize("rates", [(0.5, 0.5, 0.5, 0.5), (0.2, 0.3, 0.6, 0.9), (0.0, 1.0, 1.0, 1.0)])
def test_replicable_choices_agree_and_are_right_as_often_as_promised(rates, seed):
    private = exponential_choice(models=4, rows=900, epsilon=0.03, accuracy=0.5)
    steady = dp_to_replicable(private, rho=0.3)
    rng, tape, trials = np.random.default_rng(seed), Tape(seed), 200
    chosen = [
        [
            steady((rng.random((steady.rows_needed, 4)) < rates).astype(float), tape.branch(number))
            for _ in range(2)
        ]
        for number in range(trials)
    ]
    assert lower_limit(sum(first != second for first, second in chosen), trials) <= steady.guarantee.rho
    wrong = sum(rates[first] > min(rates) + 0.5 for first, _ in chosen)
    assert lower_limit(wrong, trials) <= steady.failure < 0.1


def test_private_coins_are_caught(seed):
    steady = dp_to_replicable(laplace_mean(rows=100, epsilon=0.02, accuracy=0.5, cells=10), rho=0.2)
    trials = 300
    apart = run_twice(steady, HOSTILE["fair coins"], trials, seed, shared=False)
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
    parts = dp_to_replicable(wide, rho=0.2, sampling="parts")
    subsets = dp_to_replicable(wide, rho=0.2, sampling="subsample")
    assert dp_to_replicable(wide, rho=0.2).rows_needed == subsets.rows_needed
    few = exponential_choice(models=2, rows=50, epsilon=0.5, accuracy=0.5)
    assert dp_to_replicable(few, rho=0.2).explain().steps[-1].parameters["draws"] < 100
    assert subsets.guarantee.rho <= 0.2
    assert (subsets.rows_needed, parts.rows_needed) == (566_000, 11_916_000)
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


@pytest.mark.parametrize("n", [4, 6])
def test_perfect_generalisation_becomes_replicable_on_all_data_of_six_rows(n):
    table = noisy_count(n, 0.05)
    law = independent(n, 0.5)
    middle = law @ table
    far = np.log(table / middle).max(axis=1)
    notion = PerfectGeneralization(float(law[far > 0.1].sum()), 0.1, 0.0, kind="one-way")
    algorithm = from_table(table, n, DP(1.0))
    known = Algorithm(
        algorithm.run,
        rows_needed=n,
        guarantee=notion,
        outcomes=algorithm.outcomes,
        probabilities=algorithm.probabilities,
    )
    steady = perfect_to_replicable(known)
    laws = np.array([steady.law(line) for line in data(n)])
    assert mean_mismatch(law, laws) <= steady.guarantee.rho + 1e-9
    assert steady.guarantee == notion.replicability()
    assert "Theorem 3.17" in str(steady.explain())
    rough = Algorithm(
        algorithm.run, rows_needed=n, guarantee=notion, outcomes=algorithm.outcomes, law_runs=900
    )
    assert perfect_to_replicable(rough).guarantee.rho > steady.guarantee.rho
    # A guarantee that says little: n + 1 outcomes still differ no more often than 1 − 1/(n + 1).
    weak = replace(known, guarantee=PerfectGeneralization(0.9, 0.05, 0.0, kind="one-way"))
    assert perfect_to_replicable(weak).guarantee.rho == pytest.approx(n / (n + 1))
    assert perfect_to_replicable(weak, method="paper").guarantee.rho == 1.0
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
