"""Users with many rows: one vote each."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, item_to_user_level
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


@pytest.mark.parametrize("name", range(3))
def test_votes_that_differ_by_one_user_are_within_epsilon(name):
    epsilon, blocks = 2.0, list(itertools.product((0, 1), repeat=2))
    users = item_to_user_level(response(), rows_a_user=2, epsilon=epsilon, beta=0.3, simulation=True)
    assert users.guarantee == DP(epsilon)
    parts = users.rows_needed
    # A user has one ballot: counts of votes differ by one, whatever the tape, and so do the exponents by ε/2.
    law = {c: math.exp(epsilon * c / 2.0) for c in range(parts + 1)}
    ones = [law[c] / (law[c] + law[parts - c]) for c in range(parts + 1)]
    steps = [abs(math.log(a / b)) for a, b in itertools.pairwise(ones)]
    assert max(steps) <= epsilon + 1e-9
    found = users([blocks[i % 4] for i in range(parts)], Tape(name))
    assert found in (0, 1)


def test_workers_change_nothing_and_short_users_have_no_vote():
    rows = [list(block) for block in np.random.default_rng(0).integers(0, 2, (60, 50))]
    rows[3] = []
    found = [
        item_to_user_level(response(), rows_a_user=50, epsilon=1.0, simulation=True, workers=workers)(
            rows, Tape("x")
        )
        for workers in (1, 3)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "named"), [({"rows_a_user": 0}, "rows_a_user"), ({"epsilon": 0.0}, "epsilon")]
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        item_to_user_level(response(), **{"rows_a_user": 50, "epsilon": 1.0, **change})
    assert caught.value.argument == named
