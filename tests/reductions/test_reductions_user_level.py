"""Users with many rows: one vote each."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from reductions_algorithms import response, shaky
from reductions_ballots import election
from reductions_oracles import LEVEL
from scipy import stats

from enumeration import hockey_stick
from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, item_to_user_level
from holdfast.replicable import Tape
from holdfast.stability import DP, GoodCoins, Replicability
from limits import lower_limit

# What users hold: two bits, or nothing.
HOLDINGS = [*itertools.product((0, 1), repeat=2), ()]


def exact_user_epsilon(users: Algorithm, tape: str, weight: float | None = None) -> float:
    """The ε of the output's exact law given the tape, over all data and all replacements of one user."""
    laws = {
        data: election(users, data, Tape(tape)).law((0, 1, None), weight=weight)[:2]
        for data in itertools.product(HOLDINGS, repeat=users.rows_needed)
    }
    return max(
        float(np.abs(np.log((law / law.sum()) / (other / other.sum()))).max())
        for data, law in laws.items()
        for place in range(len(data))
        for holding in HOLDINGS
        for other in [laws[(*data[:place], holding, *data[place + 1 :])]]
    )


@pytest.mark.parametrize(("epsilon", "beta"), [(2.0, 0.6), (4.0, 0.5)])
@pytest.mark.parametrize("spent", [0.3, 6.0])
def test_exact_privacy_when_all_rows_of_a_user_are_replaced(epsilon, beta, spent):
    # A response of ε = 6 that declares 0.3 tells the rows almost surely: privacy must not need the promise.
    users = item_to_user_level(response(spent, DP(0.3)), rows_a_user=2, epsilon=epsilon, beta=beta)
    assert users.guarantee == DP(epsilon)
    assert 2 <= users.rows_needed <= 4
    exact = [exact_user_epsilon(users, tape) for tape in ("a", "b", "c")]
    assert max(exact) <= epsilon + 1e-9
    if spent == 6.0:
        # Two votes a user, as if weights grew twice as fast, are caught.
        assert exact_user_epsilon(users, "a", weight=2.0 * epsilon) > epsilon + 1e-3


# What is declared, the rows of a user, then what is asked for: ε, δ, β. Users hold one of four items.
LEAKY = {
    "pure items": (DP(0.001), 4.0, 0.02, 0.3),
    "items with δ": (DP(0.01, 0.001), 4.0, 0.04, 0.3),
    "replicable": (Replicability(0.001), 3.0, 0.1, 0.3),
    "good coins": (GoodCoins(0.01, 0.01), 5.0, 0.05, 0.3),
}


def item(guarantee, listed: bool) -> Algorithm:
    """The first row itself, whatever is declared: privacy must not need the promise."""
    law = {"outcomes": range(2000), "probabilities": lambda rows: np.arange(2000) == rows[0]}
    return Algorithm(
        lambda rows, tape: int(rows[0]), rows_needed=1, guarantee=guarantee, **(law if listed else {})
    )


@pytest.mark.parametrize("name", LEAKY)
def test_exact_approximate_privacy_of_users(name):
    guarantee, epsilon, delta, beta = LEAKY[name]
    algorithm = item(guarantee, listed=isinstance(guarantee, DP))
    users = item_to_user_level(algorithm, rows_a_user=1, epsilon=epsilon, delta=delta, beta=beta)
    assert users.guarantee == DP(epsilon, delta)
    assert 2 <= users.rows_needed <= 6
    items = range(4 if users.rows_needed < 5 else 2)
    votes = {
        people: election(users, [(held,) for held in people], Tape("a"))
        for people in itertools.product(items, repeat=users.rows_needed)
    }

    def worst(**constants) -> float:
        laws = {people: vote.law((0, 1, 2, 3), **constants) for people, vote in votes.items()}
        return max(
            hockey_stick(law, laws[(*people[:place], other, *people[place + 1 :])], epsilon)
            for people, law in laws.items()
            for place in range(len(people))
            for other in items
        )

    held = users.explain().steps[-1].parameters["reserve"]
    assert worst() <= delta + 1e-9
    assert worst(reserve=held / 2.0) > delta + 1e-3


@pytest.mark.parametrize("delta", [pytest.param(0.0, marks=pytest.mark.slow), 1e-3])
def test_items_may_be_protected_up_to_delta(delta, seed):
    # With probability δ a row is printed; the rest is a response that is rarely wrong.
    truth = 1.0 / (1.0 + math.exp(-4.0)) * (1.0 - delta) + delta
    leaky = Algorithm(
        lambda rows, tape: int(rows[0]),
        rows_needed=1,
        guarantee=DP(4.0, delta),
        failure=1.0 - truth,
        outcomes=(0, 1),
        probabilities=lambda rows: [1.0 - truth, truth] if rows[0] else [truth, 1.0 - truth],
    )
    users = item_to_user_level(leaky, rows_a_user=16, epsilon=1.0, beta=0.45, simulation=True)
    assert users.guarantee == DP(1.0)
    assert users.failure <= 0.45
    trials, people = 200, np.ones((users.rows_needed, 16), dtype=int)
    failures = sum(users(people, Tape(seed).branch(number)) != 1 for number in range(trials))
    assert lower_limit(failures, trials) <= users.failure
    others = sum(users(1 - people, Tape(seed).branch(number)) != 1 for number in range(20))
    assert lower_limit(others, 20) > users.failure


@pytest.mark.parametrize("guarantee", [Replicability(0.05), GoodCoins(0.0, 0.1)])
def test_each_user_runs_a_replicable_algorithm_once(guarantee, seed):
    users = item_to_user_level(
        shaky(guarantee), rows_a_user=3, epsilon=2.0, delta=1e-3, beta=0.3, simulation=True
    )
    assert [step.target for step in users.steps] == ["dp"]
    assert users.steps[0].source == ("replicable" if isinstance(guarantee, Replicability) else "good-coins")
    assert users.steps[0].parameters["rows a user"] == 1
    rng, trials = np.random.default_rng(seed), 200
    found = [users(rng.integers(0, 2, (users.rows_needed, 3)), Tape(seed).branch(n)) for n in range(trials)]
    # Good coins have an output of 2 or more; an echo of a row, 0 or 1, is wrong, and so is nobody.
    wrong = sum(outcome is None or outcome < 2 for outcome in found)
    assert lower_limit(wrong, trials) <= users.failure <= 0.3
    # Coins of their own, as if each user had another tape: nobody, or anybody, wins.
    ballots = [
        shaky(guarantee)([1], Tape(seed).branch(f"user {number}")) for number in range(users.rows_needed)
    ]
    assert max(Counter(ballots).values()) < 0.8 * len(ballots)


def test_the_compiled_algorithm_has_the_law_that_was_checked(seed):
    echo = replace(response(0.3), probabilities=lambda rows: [0.0, 1.0] if rows[0] else [1.0, 0.0])
    users = item_to_user_level(echo, rows_a_user=2, epsilon=2.0, beta=0.6, simulation=True)
    people = [(1, 1)] * users.rows_needed
    used = election(users, people, Tape("x"))
    trials = 500
    hits = sum(users(people, Tape(seed).branch(number)) for number in range(trials))
    assert stats.binomtest(hits, trials, float(used.law((0, 1))[1])).pvalue > LEVEL
    assert stats.binomtest(hits, trials, float(used.law((0, 1), weight=6.0)[1])).pvalue < LEVEL


def test_short_users_have_no_vote():
    users = item_to_user_level(response(0.3), rows_a_user=50, epsilon=0.2)
    rows = [list(block) for block in np.random.default_rng(0).integers(0, 2, (users.rows_needed, 50))]
    rows[3] = []
    ballots = election(users, rows, Tape("x")).ballots
    assert [place for place, ballot in enumerate(ballots) if ballot == (None,)] == [3]


@pytest.mark.parametrize(
    ("change", "named"), [({"rows_a_user": 0}, "rows_a_user"), ({"epsilon": 0.0}, "epsilon")]
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        item_to_user_level(response(0.3), **{"rows_a_user": 50, "epsilon": 1.0, **change})
    assert caught.value.argument == named
