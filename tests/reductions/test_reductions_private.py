"""From replicable to private: exact privacy on all data of six binary rows, failure by simulation."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from reductions_ballots import election
from reductions_oracles import LEVEL, coin_of, mean_mismatch, selection_law
from scipy import stats

from enumeration import data, exact_delta, exact_epsilon, hockey_stick
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import Algorithm, dp_replicability, replicable_to_dp
from holdfast.replicable import Tape
from holdfast.stability import DP, GoodCoins, Replicability, private_plan, selection_threshold
from limits import lower_limit, upper_limit

# Budgets so wide that the plan needs at most six runs.
WIDE = [(3.0, 0.08), (2.0, 0.3), (5.0, 0.01), (1.2, 0.25)]


def row_itself() -> Algorithm:
    """The most sensitive algorithm there is. Its declaration is false: privacy must not need it."""
    return Algorithm(lambda rows, tape: rows[0], rows_needed=1, guarantee=GoodCoins(0.0, 0.0))


def row_and_coin() -> Algorithm:
    """Another one, whose output depends on the tape too."""
    return Algorithm(
        lambda rows, tape: int(rows[0] ^ (coin_of(tape) < 0.5)), rows_needed=1, guarantee=GoodCoins(0.0, 0.0)
    )


def output_table(runs: int, scale: float, bound: float) -> np.ndarray:
    ones = data(runs).sum(axis=1)
    laws = {count: selection_law((runs - count, count), scale, bound) for count in range(runs + 1)}
    return np.array([laws[count] for count in ones])


@pytest.mark.parametrize(("epsilon", "delta"), WIDE)
def test_exact_privacy_on_all_data_of_up_to_six_binary_rows(epsilon, delta):
    private = replicable_to_dp(row_itself(), epsilon=epsilon, delta=delta)
    runs = private.rows_needed
    assert runs <= 6
    assert private.guarantee == DP(epsilon, delta)
    table = output_table(runs, 2.0 / epsilon, selection_threshold(epsilon, delta))
    assert np.allclose(table.sum(axis=1), 1.0, atol=1e-12)
    assert exact_delta(table, runs, epsilon) <= delta + 1e-9


@pytest.mark.parametrize(("epsilon", "beta"), [(1.0, 0.35), (2.0, 0.2), (5.0, 0.05)])
@pytest.mark.parametrize("make", [row_itself, row_and_coin])
def test_exact_pure_privacy_on_all_data_of_up_to_six_binary_rows(epsilon, beta, make):
    private = replicable_to_dp(replace(make(), outcomes=(0, 1)), epsilon=epsilon, beta=beta)
    assert private.guarantee == DP(epsilon)
    assert private.outcomes == (0, 1)
    assert 2 <= private.rows_needed <= 6
    for tape in (Tape("a"), Tape("b")):
        votes = [election(private, rows, tape) for rows in data(private.rows_needed)]
        table = np.array([vote.law((0, 1)) for vote in votes])
        assert exact_epsilon(table, private.rows_needed) <= epsilon + 1e-9
        twin = np.array([vote.law((0, 1), weight=2.0 * epsilon) for vote in votes])
        assert exact_epsilon(twin, private.rows_needed) > epsilon + 1e-3


@pytest.mark.parametrize(("epsilon", "delta"), WIDE[:3])
def test_noise_or_truncation_off_by_two_is_caught(epsilon, delta):
    runs = replicable_to_dp(row_itself(), epsilon=epsilon, delta=delta).rows_needed
    bound = selection_threshold(epsilon, delta)
    narrow = output_table(runs, 1.0 / epsilon, bound)
    short = output_table(runs, 2.0 / epsilon, bound / 2.0)
    assert exact_delta(narrow, runs, epsilon) > delta + 1e-3
    assert exact_delta(short, runs, epsilon) > delta + 1e-3


def count_table(runs: int, scale: float, bound: float) -> list[np.ndarray]:
    return [selection_law((runs - count, count), scale, bound) for count in range(runs + 1)]


def worst_step(laws: list[np.ndarray], epsilon: float) -> float:
    """The δ at this ε between data whose counts differ by one row."""
    pairs = [*itertools.pairwise(laws), *itertools.pairwise(laws[::-1])]
    return max(hockey_stick(first, second, epsilon) for first, second in pairs)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 1e-4), (2.0, 1e-8)])
def test_exact_privacy_at_budgets_people_use(epsilon, delta):
    runs = replicable_to_dp(row_itself(), epsilon=epsilon, delta=delta).rows_needed
    bound = selection_threshold(epsilon, delta)
    assert worst_step(count_table(runs, 2.0 / epsilon, bound), epsilon) <= delta * (1.0 + 1e-6)
    assert worst_step(count_table(runs, 1.0 / epsilon, bound), epsilon) > 100 * delta
    assert worst_step(count_table(runs, 2.0 / epsilon, bound / 2.0), epsilon) > 10 * delta


@pytest.mark.parametrize("make", [row_itself, row_and_coin])
def test_the_compiled_algorithm_has_the_law_that_was_checked(make, seed):
    epsilon, delta = 3.0, 0.08
    private = replicable_to_dp(make(), epsilon=epsilon, delta=delta, simulation=True)
    rows = np.array([0, 1, 1, 1, 1, 1])[: private.rows_needed]
    tape = Tape(seed)
    drawn = [private(rows, tape.branch(number)) for number in range(1500)]
    counts = np.array([drawn.count(None), drawn.count(0), drawn.count(1)])
    bound = selection_threshold(epsilon, delta)
    law = selection_law((1, 5), 2.0 / epsilon, bound)
    if make is row_and_coin:  # the coin is the same for all runs, so it only swaps the two outcomes
        law = (law + law[[0, 2, 1]]) / 2.0
    assert stats.chisquare(counts, counts.sum() * law).pvalue > LEVEL
    twin = selection_law((1, 5), 1.0 / epsilon, bound / 2.0)
    assert (
        stats.chisquare(counts, counts.sum() * np.maximum(twin, 1e-9) / np.maximum(twin, 1e-9).sum()).pvalue
        < LEVEL
    )


@pytest.mark.parametrize("parts", [1, 4, 6])
def test_no_outcome_is_an_outcome_and_a_count_without_it_is_broken(parts):
    """Two votes of an algorithm with the outcomes 0 and 1: where they differ, nothing is selected.

    Shared coins then choose from the law of the selection, averaged over parts. They differ more often than
    two outcomes allow, and no more often than three do.
    """
    epsilon, delta = 20.0, 0.01
    votes = count_table(2, 2.0 / epsilon, selection_threshold(epsilon, delta))
    assert worst_step(votes, epsilon) <= delta
    assert votes[1][0] > 0.9  # one vote each: nothing
    laws = np.array([law / law.sum() for law in votes])
    chances = stats.binom.pmf(np.arange(3), 2, 0.5)
    samples = list(itertools.product(range(3), repeat=parts))
    averages = np.array([laws[list(sample)].mean(axis=0) for sample in samples])
    mismatch = mean_mismatch(np.array([np.prod(chances[list(sample)]) for sample in samples]), averages)
    without, counted = (
        dp_replicability(DP(epsilon, delta), 2, parts=parts, outcomes=outcomes).rho for outcomes in (2, 3)
    )
    assert without < mismatch - 0.01
    assert mismatch <= counted
    private = replicable_to_dp(replace(row_itself(), outcomes=(0, 1)), epsilon=epsilon, delta=delta)
    assert private.outcomes == (0, 1, None)


def test_one_changed_row_changes_one_vote():
    seen = []
    spy = Algorithm(lambda rows, tape: seen.append(tuple(rows)), rows_needed=3, guarantee=GoodCoins(0.0, 0.0))
    private = replicable_to_dp(spy, epsilon=3.0, delta=0.08)
    private(list(range(private.rows_needed + 5)))
    assert sorted(itertools.chain(*seen)) == list(range(private.rows_needed))
    assert all(len(part) == 3 for part in seen)


def test_all_parts_of_one_seed_share_its_coins_and_seeds_do_not():
    told = Algorithm(lambda rows, tape: str(tape), rows_needed=1, guarantee=GoodCoins(0.1, 0.1))
    calls = []
    spy = Algorithm(lambda rows, tape: calls.append(str(tape)), rows_needed=1, guarantee=told.guarantee)
    private = replicable_to_dp(spy, epsilon=1.0, delta=1e-6)
    private(np.zeros(private.rows_needed), Tape("x"))
    used = private.explain().steps[-1].parameters
    assert len(calls) == used["seeds"] * used["parts"] == private.rows_needed
    assert {calls.count(coins) for coins in set(calls)} == {used["parts"]}
    assert len(set(calls)) == used["seeds"] == 2


def rarely_off(eta: float, nu: float, wrong: float) -> Algorithm:
    """Rows are uniform numbers. Bad coins (a share ν) echo the row; good ones leave their canonical output
    with probability η over the row. Outputs below 0 are wrong, a share ``wrong`` of the runs."""

    def run(rows, tape):
        coin = coin_of(tape)
        if rows[0] < wrong:
            return -1.0
        if coin < nu or rows[0] > 1.0 - eta + wrong:
            return float(rows[0])
        return 1.0 + round(coin, 6)

    return Algorithm(run, rows_needed=1, guarantee=GoodCoins(eta, nu), failure=wrong)


@pytest.mark.parametrize(("eta", "nu", "wrong", "beta"), [(0.1, 0.1, 0.0, 0.05), (0.05, 0.2, 0.002, 0.1)])
def test_it_fails_no_more_often_than_it_says(eta, nu, wrong, beta, seed):
    algorithm = rarely_off(eta, nu, wrong)
    private = replicable_to_dp(algorithm, epsilon=2.0, delta=1e-3, beta=beta, simulation=True)
    assert private.failure <= beta
    rng = np.random.default_rng(seed)
    trials = 400
    failures = 0
    for number in range(trials):
        found = private(rng.random(private.rows_needed), Tape(seed).branch(number))
        failures += found is None or found < 0.0
    assert lower_limit(failures, trials) <= private.failure


def test_half_of_the_parts_are_not_enough():
    plan = private_plan(2.0, 1e-3, coins=GoodCoins(0.1, 0.0))
    most = math.floor(2.0 * plan.threshold)
    assert stats.binom.cdf(most, plan.parts, 0.9) <= plan.failure + 1e-12
    assert stats.binom.cdf(most, plan.parts // 2, 0.9) == 1.0


def test_replicability_is_turned_into_the_cheapest_good_coins():
    at = {
        nu: private_plan(1.0, 1e-6, coins=Replicability(0.01).good_coins(nu)).runs for nu in (0.03, 0.1, 0.3)
    }
    constant = Algorithm(lambda rows, tape: 7, rows_needed=10, guarantee=Replicability(0.01))
    private = replicable_to_dp(constant, epsilon=1.0, delta=1e-6)
    assert private.rows_needed <= 10 * min(at.values())
    never = Algorithm(lambda rows, tape: 7, rows_needed=10, guarantee=Replicability(0.0))
    assert replicable_to_dp(never, epsilon=1.0, delta=1e-6).rows_needed < private.rows_needed


def test_what_it_explains():
    private = replicable_to_dp(row_itself(), epsilon=3.0, delta=0.08)
    path = private.explain()
    assert path.result == DP(3.0, 0.08)
    assert path.rows == private.rows_needed == path.factor
    assert "SIS Theorem 3.1" in str(path)
    assert "independent rows" in str(path)
    assert path.steps[-1].parameters["threshold"] == pytest.approx(selection_threshold(3.0, 0.08), rel=1e-4)


def test_a_vote_may_be_none_or_not_a_number():
    for output in (None, math.nan, np.float64("nan"), np.array([1.0, 2.0]), {1, 2}):
        algorithm = Algorithm(lambda rows, tape, o=output: o, rows_needed=1, guarantee=GoodCoins(0.0, 0.0))
        private = replicable_to_dp(algorithm, epsilon=3.0, delta=0.08)
        found = private([0] * private.rows_needed)
        if output is None:
            assert found is None
        elif isinstance(output, float):
            assert math.isnan(found)
        else:
            assert found == ((1.0, 2.0) if isinstance(output, np.ndarray) else frozenset({1, 2}))


def test_the_oracle_sees_a_gap_of_one_in_a_thousand():
    law = selection_law((3, 3), 1.0, 2.0)
    moved = selection_law((3, 3), 1.001, 2.0)
    assert hockey_stick(law, moved, 0.0) > 1e-5
    assert upper_limit(0, 100) < 0.07


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"beta": 0.0}, "beta"),
        ({"simulation": 1}, "simulation"),
        ({"workers": 0}, "workers"),
        ({"progress": 3}, "progress"),
        ({"algorithm": 3}, "algorithm"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(1.0))}, "algorithm"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=Replicability(0.5))}, "rho"),
        (
            {
                "algorithm": Algorithm(
                    lambda r, t: 0, rows_needed=1, guarantee=Replicability(0.1), failure=0.2
                )
            },
            "failure",
        ),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": row_itself(), "epsilon": 1.0, "delta": 1e-6, **change}
    with pytest.raises(InvalidArgument) as caught:
        replicable_to_dp(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named


def test_too_few_rows_are_refused():
    private = replicable_to_dp(row_itself(), epsilon=3.0, delta=0.08)
    with pytest.raises(NotEnoughRows) as caught:
        private([0, 1])
    assert (caught.value.needed, caught.value.got) == (private.rows_needed, 2)
