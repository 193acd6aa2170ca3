"""Users with many rows: one vote each."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from reductions_ballots import election
from reductions_oracles import LEVEL, lower_limit
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, _ballot, item_to_user_level
from holdfast.replicable import Tape
from holdfast.stability import DP


def response(epsilon: float = 0.3) -> Algorithm:
    """One binary row, told truthfully with probability e^ε/(1 + e^ε)."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return Algorithm(
        lambda rows, tape: int(rows[0]),
        rows_needed=1,
        guarantee=DP(epsilon),
        outcomes=(0, 1),
        probabilities=lambda rows: [1.0 - truth, truth] if rows[0] else [truth, 1.0 - truth],
    )


# What users hold: two bits, or nothing.
HOLDINGS = [*itertools.product((0, 1), repeat=2), ()]


def exact_user_epsilon(users: Algorithm, tape: str, weight: float | None = None) -> float:
    """The ε of the output's exact law given the tape, over all data and all replacements of one user."""
    laws = {
        data: election(_ballot, users, data, Tape(tape)).law((0, 1, None), weight=weight)[:2]
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
    users = item_to_user_level(
        replace(response(spent), guarantee=DP(0.3)), rows_a_user=2, epsilon=epsilon, beta=beta
    )
    assert users.guarantee == DP(epsilon)
    assert 2 <= users.rows_needed <= 4
    exact = [exact_user_epsilon(users, tape) for tape in ("a", "b", "c")]
    assert max(exact) <= epsilon + 1e-9
    if spent == 6.0:
        # Two votes a user, as if weights grew twice as fast, are caught.
        assert exact_user_epsilon(users, "a", weight=2.0 * epsilon) > epsilon + 1e-3


def test_the_compiled_algorithm_has_the_law_that_was_checked(seed):
    echo = replace(response(), probabilities=lambda rows: [0.0, 1.0] if rows[0] else [1.0, 0.0])
    users = item_to_user_level(echo, rows_a_user=2, epsilon=2.0, beta=0.6, simulation=True)
    people = [(1, 1)] * users.rows_needed
    used = election(_ballot, users, people, Tape("x"))
    trials = 1500
    hits = sum(users(people, Tape(seed).branch(number)) for number in range(trials))
    assert stats.binomtest(hits, trials, float(used.law((0, 1))[1])).pvalue > LEVEL
    assert stats.binomtest(hits, trials, float(used.law((0, 1), weight=6.0)[1])).pvalue < LEVEL


def test_users_agree_on_what_is_right_as_often_as_promised(seed):
    # Half of the rows are 1: nothing is wrong. All rows are 1, told by a response that is rarely wrong: 0 is.
    wrong = 1.0 / (1.0 + math.exp(6.0))
    sure = replace(response(6.0), failure=wrong)
    users = item_to_user_level(sure, rows_a_user=30, epsilon=1.0, beta=0.2, simulation=True)
    assert wrong < users.failure <= 0.2
    trials, people = 100, np.ones((users.rows_needed, 30), dtype=int)
    failures = sum(users(people, Tape(seed).branch(number)) != 1 for number in range(trials))
    assert lower_limit(failures, trials) <= users.failure
    others = sum(users(1 - people, Tape(seed).branch(number)) != 1 for number in range(20))
    assert lower_limit(others, 20) > users.failure


def test_workers_change_nothing_and_short_users_have_no_vote():
    one, three = (
        item_to_user_level(response(), rows_a_user=50, epsilon=0.2, simulation=True, workers=workers)
        for workers in (1, 3)
    )
    rows = [list(block) for block in np.random.default_rng(0).integers(0, 2, (one.rows_needed, 50))]
    rows[3] = []
    found = [one(rows, Tape(name)) for name in range(6)]
    assert found == [three(rows, Tape(name)) for name in range(6)]
    assert set(found) == {0, 1}
    ballots = election(_ballot, one, rows, Tape("x")).ballots
    assert [place for place, ballot in enumerate(ballots) if ballot == (None,)] == [3]


@pytest.mark.parametrize(
    ("change", "named"), [({"rows_a_user": 0}, "rows_a_user"), ({"epsilon": 0.0}, "epsilon")]
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        item_to_user_level(response(), **{"rows_a_user": 50, "epsilon": 1.0, **change})
    assert caught.value.argument == named
