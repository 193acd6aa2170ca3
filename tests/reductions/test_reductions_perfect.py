"""From replicable to perfectly generalising: the law of the output exactly, through counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from reductions_oracles import LEVEL, coin_of, samples
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, replicable_to_perfect
from holdfast.replicable import Tape
from holdfast.stability import DP, GoodCoins, PerfectGeneralization, Replicability, perfect_plan
from limits import lower_limit

EPSILON, DELTA, BAD = 8.0, 0.3, 0.2


def echo_or_one() -> Algorithm:
    """Rows are bits. Bad coins, a share of one in five, echo the row; good ones say 1 whatever it is."""
    return Algorithm(
        lambda rows, tape: int(rows[0]) if coin_of(tape) < BAD else 1,
        rows_needed=1,
        guarantee=GoodCoins(0.0, BAD),
        outcomes=(0, 1),
    )


def probability_of_one(counts: np.ndarray, parts: int, epsilon: float, sensitivity: float) -> np.ndarray:
    """P(the outcome is 1) given how often each seed's rows are 1 (a line a sample), over coins and choice."""
    seeds = counts.shape[1]
    total = np.zeros(len(counts))
    for bad in itertools.product((True, False), repeat=seeds):
        weight = math.prod(BAD if b else 1.0 - BAD for b in bad)
        votes = np.where(bad, np.maximum(counts, parts - counts), parts)
        one = np.where(bad, 2 * counts > parts, True)
        chances = np.exp(epsilon * (votes - votes.max(axis=1, keepdims=True)) / (2.0 * sensitivity))
        total += weight * (chances * one).sum(axis=1) / chances.sum(axis=1)
    return total


def share_of_far_pairs(values: np.ndarray, law: np.ndarray, epsilon: float, delta: float) -> float:
    """How likely two independent samples give laws (a, 1 − a), (b, 1 − b) that are not (ε, δ)-close."""
    order = np.argsort(values)
    values, below = values[order], np.append(0.0, np.cumsum(law[order]))
    grow = math.exp(epsilon)
    # b is close to a iff b ≥ (a − δ)/e^ε, b ≥ 1 − e^ε(1 − a) − δ, b ≤ e^ε a + δ and 1 − b ≥ (1 − a − δ)/e^ε.
    low = np.maximum((values - delta) / grow, 1.0 - grow * (1.0 - values) - delta)
    high = np.minimum(grow * values + delta, 1.0 - (1.0 - values - delta) / grow)
    close = below[np.searchsorted(values, high + 1e-12)] - below[np.searchsorted(values, low - 1e-12)]
    return 1.0 - float(law[order] @ close)


@pytest.mark.parametrize("p", [0.5, 0.45, 0.1])
def test_exact_sample_perfect_generalisation(p):
    perfect = replicable_to_perfect(echo_or_one(), epsilon=EPSILON, delta=DELTA, method="seeds")
    used = perfect.explain().steps[-1].parameters
    counts, law = samples(used["parts"], used["seeds"], p)
    values = probability_of_one(counts, used["parts"], EPSILON, used["sensitivity"])
    notion = perfect.guarantee
    assert isinstance(notion, PerfectGeneralization)
    assert (notion.kind, notion.epsilon) == ("sample", EPSILON)
    assert notion.beta == notion.delta == pytest.approx(2 * DELTA)
    assert share_of_far_pairs(values, law, notion.epsilon, notion.delta) <= notion.beta + 1e-9
    # The proof has room: the same holds at a far smaller ε and δ, and there is one at which it does not.
    assert share_of_far_pairs(values, law, 1e-6, 1e-9) > (0.5 if p > 0.4 else 0.0)


def test_the_choice_is_within_epsilon_where_scores_move_by_the_sensitivity_and_half_of_it_is_caught():
    # Step 5 of the proof at its worst: one score rises and the others fall by all that frequencies allow.
    plan = perfect_plan(1.0, 1e-4)
    votes = np.full(plan.seeds, 0.8 * plan.parts)
    step = np.full(plan.seeds, -plan.sensitivity)
    step[0] = plan.sensitivity

    def chances(scores: np.ndarray, sensitivity: float) -> np.ndarray:
        weights = np.exp(plan.epsilon * (scores - scores.max()) / (2.0 * sensitivity))
        return weights / weights.sum()

    def loss(sensitivity: float) -> float:
        ratio = chances(votes + step, sensitivity) / chances(votes, sensitivity)
        return float(np.abs(np.log(ratio)).max())

    assert 0.6 < loss(plan.sensitivity) <= plan.epsilon + 1e-9
    assert loss(plan.sensitivity / 2.0) > plan.epsilon


def test_the_compiled_algorithm_has_the_law_that_was_checked(seed):
    perfect = replicable_to_perfect(
        echo_or_one(), epsilon=EPSILON, delta=DELTA, method="seeds", simulation=True
    )
    used = perfect.explain().steps[-1].parameters
    # All bad coins must see a close vote, or the outcome is 1 almost surely.
    rows = np.tile([0, 0, 1], perfect.rows_needed)[: perfect.rows_needed]
    ones = rows.reshape(used["seeds"], used["parts"]).sum(axis=1)
    law = float(probability_of_one(ones[None, :], used["parts"], EPSILON, used["sensitivity"])[0])
    trials = 100
    hits = sum(perfect(rows, Tape(seed).branch(number)) == 1 for number in range(trials))
    assert stats.binomtest(hits, trials, law).pvalue > LEVEL
    assert 0.5 < law < 0.98


def test_the_choice_is_made_with_the_sensitivity_of_the_plan(seed):
    # Every coin echoes its rows here (the declaration is false): two candidates, one with 93 % of the votes.
    echo = Algorithm(lambda rows, tape: int(rows[0]), rows_needed=1, guarantee=GoodCoins(0.0, BAD))
    perfect = replicable_to_perfect(echo, epsilon=EPSILON, delta=DELTA, simulation=True)
    used = perfect.explain().steps[-1].parameters
    parts, sensitivity = used["parts"], used["sensitivity"]
    minority = parts * 7 // 100
    rows = np.concatenate([np.zeros(parts), np.ones(parts - minority), np.zeros(minority)])

    def chance_of_one(width: float) -> float:
        return 1.0 / (1.0 + math.exp(EPSILON * minority / (2.0 * width)))

    trials = 500
    hits = sum(perfect(rows, Tape(seed).branch(number)) == 1 for number in range(trials))
    assert stats.binomtest(hits, trials, chance_of_one(sensitivity)).pvalue > LEVEL
    assert stats.binomtest(hits, trials, chance_of_one(sensitivity / 2.0)).pvalue < LEVEL


def test_it_fails_no_more_often_than_it_says(seed):
    wrong = 0.01

    def run(rows, tape):
        return -1 if rows[0] < wrong else 1

    algorithm = Algorithm(run, rows_needed=1, guarantee=GoodCoins(0.02, 0.0), failure=wrong)
    perfect = replicable_to_perfect(algorithm, epsilon=4.0, delta=0.05, simulation=True)
    assert perfect.failure == pytest.approx(math.sqrt(wrong) + 0.05 + 1.5 * 0.05**2)
    rng = np.random.default_rng(seed)
    failures = sum(perfect(rng.random(perfect.rows_needed), Tape(n)) == -1 for n in range(20))
    assert lower_limit(failures, 20) <= perfect.failure


def test_replicability_is_turned_into_the_cheapest_good_coins():
    constant = Algorithm(lambda rows, tape: 7, rows_needed=3, guarantee=Replicability(0.001))
    perfect = replicable_to_perfect(constant, epsilon=2.0, delta=0.1)
    at = [perfect_plan(2.0, 0.1, coins=Replicability(0.001).good_coins(nu)).runs for nu in (0.01, 0.05, 0.2)]
    assert perfect.rows_needed <= 3 * min(at)
    assert "Theorem 3.19" in str(perfect.explain())
    assert perfect.guarantee.two_way().kind == "two-way"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"simulation": "yes"}, "simulation"),
        ({"workers": 1.5}, "workers"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(1.0))}, "algorithm"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=GoodCoins(0.5, 0.1))}, "coins"),
        (
            {
                "algorithm": Algorithm(
                    lambda r, t: 0, rows_needed=1, guarantee=Replicability(0.1), failure=0.3
                )
            },
            "failure",
        ),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": echo_or_one(), "epsilon": 1.0, "delta": 0.1, **change}
    with pytest.raises(InvalidArgument) as caught:
        replicable_to_perfect(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named


def vote_for_one(counts: np.ndarray, runs: int, weight: float) -> np.ndarray:
    """P(the outcome is 1) where a bad coin's runs echo bits with so many ones, and a good one's all say 1."""
    echoed = 1.0 / (1.0 + np.exp(weight / 2.0 * (runs - 2.0 * counts)))
    return BAD * echoed + (1.0 - BAD) / (1.0 + math.exp(-weight / 2.0 * runs))


@pytest.mark.parametrize("p", [0.5, 0.45, 0.1])
def test_exact_perfect_generalisation_of_the_vote(p):
    steady = Algorithm(
        echo_or_one().run, rows_needed=1, guarantee=GoodCoins(0.0, 0.02), outcomes=(0, 1)
    )  # the declaration is false: the stability does not depend on it
    for epsilon, delta in ((1.0, 0.05), (0.5, 0.2)):
        perfect = replicable_to_perfect(steady, epsilon=epsilon, delta=delta, method="vote")
        used, runs = perfect.explain().steps[-1].parameters, perfect.rows_needed
        assert used["seeds"] == 1
        notion = perfect.guarantee
        assert (notion.epsilon, notion.delta, notion.kind) == (epsilon, 0.0, "sample")
        assert notion.beta == pytest.approx(2 * delta)
        counts, law = np.arange(runs + 1), stats.binom.pmf(np.arange(runs + 1), runs, p)
        weight = used["weight epsilon"]
        assert weight * math.sqrt(runs * math.log(2 / delta)) <= epsilon
        values = vote_for_one(counts, runs, weight)
        assert share_of_far_pairs(values, law, epsilon, 0.0) <= notion.beta + 1e-9
        # With coins that all echo, weights six times as large go beyond what is promised.
        echoed = 1.0 / (1.0 + np.exp(3.0 * weight * (runs - 2.0 * counts)))
        if p == 0.5:
            assert share_of_far_pairs(echoed, law, epsilon, 0.0) > notion.beta


def test_the_vote_has_the_law_that_was_checked_and_fails_no_more_often_than_it_says(seed):
    declared = Algorithm(echo_or_one().run, rows_needed=1, guarantee=GoodCoins(0.0, 0.02), outcomes=(0, 1))
    perfect = replicable_to_perfect(declared, epsilon=1.0, delta=0.05, method="vote", simulation=True)
    runs, weight = perfect.rows_needed, perfect.explain().steps[-1].parameters["weight epsilon"]
    rows = np.tile([0, 0, 0, 1], runs)[:runs]
    law = float(vote_for_one(np.array([rows.sum()]), runs, weight)[0])
    hits = sum(perfect(rows, Tape(seed).branch(number)) == 1 for number in range(100))
    assert stats.binomtest(hits, 100, law).pvalue > LEVEL
    assert law < 0.9
    wrong = 0.01
    task = Algorithm(
        lambda rows, tape: 0 if rows[0] < wrong else 1,
        rows_needed=1,
        guarantee=GoodCoins(0.02, 0.0),
        failure=wrong,
        outcomes=(0, 1),
    )
    perfect = replicable_to_perfect(task, epsilon=1.0, delta=0.05, beta=0.1, method="vote", simulation=True)
    assert perfect.failure <= 0.1
    rng = np.random.default_rng(seed)
    failures = sum(perfect(rng.random(perfect.rows_needed), Tape(n)) == 0 for n in range(60))
    assert lower_limit(failures, 60) <= perfect.failure


def test_the_cheaper_of_the_two_is_taken():
    def rows(outcomes, method="cheapest", delta=0.01):
        task = Algorithm(
            lambda rows, tape: 0, rows_needed=1, guarantee=GoodCoins(0.01, 0.01), outcomes=outcomes
        )
        return replicable_to_perfect(task, epsilon=1.0, delta=delta, method=method).rows_needed

    assert rows((0, 1)) == rows((0, 1), "vote") < 300
    assert rows(range(20)) == rows(range(20), "vote") < 1_300
    assert rows(range(20), "seeds") == rows(None) == 6_534
    assert rows(range(20), delta=0.1) == rows(range(20), "seeds", delta=0.1) == 80
    with pytest.raises(InvalidArgument) as caught:
        rows(None, "vote")
    assert caught.value.argument == "outcomes"
