"""Rows that come after others: those that are protected are as independent of the earlier ones as is said."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from holdfast.dependence import Clusters, DependencyGraph, GaussianRows, Independent, MarkovChain, MDependent
from holdfast.errors import InvalidArgument, NotEnoughRows

SKEW = np.array([[0.7, 0.3], [0.5, 0.5]])
THREE = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])


def distance_to_product(transition, start, earlier, dropped, protected):
    """Exactly: the law of (all earlier rows, protected rows) against the product of its two parts."""
    rows = earlier + dropped + protected
    law = np.array(start, dtype=float)
    for _ in range(rows - 1):
        law = law[..., None] * transition
    joint = law.sum(axis=tuple(range(earlier, earlier + dropped)))
    joint = joint.reshape(len(transition) ** earlier, -1)
    return float(np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum()) / 2


@pytest.mark.parametrize("transition", [SKEW, THREE], ids=["skew", "three"])
@pytest.mark.parametrize("beta", [0.3, 0.9])
def test_knowing_all_earlier_rows_of_a_chain_gains_at_most_the_bias(transition, beta):
    chain = MarkovChain(transition, 8)
    parts = chain.fresh(beta)
    assert not parts.train.any()
    assert parts.bias <= beta / 20
    protected = min(3, int(parts.protected.sum()))
    distance = distance_to_product(transition, chain.stationary, 3, parts.dropped, protected)
    assert 0 < distance <= parts.bias


def test_one_dropped_row_less_is_caught():
    """The charge for the gap that was left would not pay for one that is a row shorter."""
    symmetric = np.array([[0.7, 0.3], [0.3, 0.7]])
    parts = MarkovChain(symmetric, 20).fresh(0.9)
    distances = [distance_to_product(symmetric, [0.5, 0.5], 2, parts.dropped - less, 2) for less in (0, 1)]
    assert distances[0] <= parts.bias < distances[1]


def test_a_chain_that_starts_somewhere_continues_from_the_law_of_its_first_protected_row():
    parts = MarkovChain(SKEW, 500, initial=[0.0, 1.0]).fresh()
    first = int(np.flatnonzero(parts.protected)[0])
    assert first == parts.dropped
    np.testing.assert_allclose(
        parts.protected_model.initial, [0.0, 1.0] @ np.linalg.matrix_power(SKEW, first), rtol=1e-12
    )


def test_the_first_m_rows_are_dropped_where_m_may_reach_back():
    coins = np.array(list(itertools.product((0, 1), repeat=8)))
    rows = coins[:, 1:] * coins[:, :-1]  # 1-dependent
    earlier, later = rows[:, :3], rows[:, 3:]
    parts = MDependent(4, 1).fresh()

    def distance(kept):
        left = np.unique(earlier, axis=0, return_inverse=True)[1]
        right = np.unique(later[:, kept], axis=0, return_inverse=True)[1]
        joint = np.zeros((left.max() + 1, right.max() + 1))
        np.add.at(joint, (left, right), 1 / len(coins))
        return np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum() / 2

    assert distance(parts.protected) == pytest.approx(0.0, abs=1e-12)
    assert distance(np.ones(4, dtype=bool)) > 0.05
    assert parts.bias == 0.0


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Independent(10), "independent of all rows of earlier epochs"),
        (Clusters([3, 3, 4]), "No cluster has rows in two epochs"),
        (DependencyGraph([(0, 1)], n=10), "independent of all rows of earlier epochs"),
        (GaussianRows(np.eye(10)), "independent of all rows of earlier epochs"),
        (MDependent(10, 2), "come after all rows of earlier epochs"),
        (MarkovChain(SKEW, 40), "come after all rows of earlier epochs"),
    ],
)
def test_assumptions_about_earlier_rows_are_listed(model, says):
    parts = model.fresh()
    assert any(says in sentence for sentence in parts.assumptions)
    assert set(model.assumptions) <= set(parts.assumptions)
    assert parts.protected_model.n == parts.protected.sum()


@pytest.mark.parametrize("model", [MDependent(3, 3), MarkovChain(SKEW, 2)])
def test_too_few_rows_after_a_gap_are_said_in_numbers(model):
    with pytest.raises(NotEnoughRows):
        model.fresh()


def test_bad_failure_probabilities_are_named():
    with pytest.raises(InvalidArgument, match="beta"):
        MarkovChain(SKEW, 100).fresh(float("nan"))
