"""The auditor never contradicts what a compiler promises, and catches one that promises too much."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from holdfast import audit
from holdfast.reductions import Algorithm, amplify_delta, dp_to_replicable, item_to_user_level
from holdfast.replicable import Tape
from holdfast.stability import DP


def response(epsilon: float, declared: float) -> Algorithm:
    """One binary row, told truthfully with probability e^ε/(1 + e^ε)."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return Algorithm(
        lambda rows, tape: int(rows[0]),
        rows_needed=1,
        guarantee=DP(declared),
        outcomes=(0, 1),
        probabilities=lambda rows: [1.0 - truth, truth] if rows[0] else [truth, 1.0 - truth],
    )


def audited(private: Algorithm, data, neighbour, claimed: float, seed: int):
    """What the auditor says of a private algorithm on two tables that differ in one row."""

    def law(rows):
        return lambda rng: private(rows, Tape(int(rng.integers(2**62))))

    return audit.indistinguishability(
        law(data), law(neighbour), 4_000, epsilon=claimed, confidence=0.999, seed=seed
    )


@pytest.mark.parametrize(("spent", "verdict"), [(2.0, "not refuted"), (8.0, "refuted")])
def test_users_are_as_private_as_promised_and_more_is_caught(spent, verdict, seed):
    # Rows are told almost surely, so all privacy comes from the vote. The twin spends 8 and promises 2.
    told = replace(response(6.0, 6.0), guarantee=DP(0.3))
    users = item_to_user_level(told, rows_a_user=2, epsilon=spent, beta=0.6, simulation=True)
    ones = [(1, 1)] * users.rows_needed
    assert audited(users, ones, [(0, 0), *ones[1:]], 2.0, seed).verdict == verdict


@pytest.mark.parametrize(("spent", "verdict"), [(2.0, "not refuted"), (8.0, "refuted")])
def test_smaller_deltas_are_as_private_as_promised_and_more_is_caught(spent, verdict, seed):
    told = replace(response(6.0, 6.0), guarantee=DP(0.3, 1e-3))
    private = amplify_delta(told, epsilon=spent, beta=0.6, simulation=True)
    ones = np.ones(private.rows_needed, dtype=int)
    neighbour = ones.copy()
    neighbour[0] = 0
    assert audited(private, ones, neighbour, 2.0, seed).verdict == verdict


def test_replicability_is_as_promised_and_private_coins_are_caught(seed):
    twice = dp_to_replicable(response(0.05, 0.05), rho=0.3)

    def sample(rng):
        return rng.integers(0, 2, twice.rows_needed)

    assert audit.replicability(twice, sample, 600, rho=0.3, confidence=0.999, seed=seed).verdict != "refuted"

    def alone(rows, tape):
        return twice(rows, Tape(int(np.random.default_rng().integers(2**62))))

    assert audit.replicability(alone, sample, 600, rho=0.3, confidence=0.999, seed=seed).verdict == "refuted"
