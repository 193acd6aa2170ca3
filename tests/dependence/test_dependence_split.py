"""Setting rows aside: the parts are as independent as the split says, and no more is claimed."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from holdfast.dependence import (
    Clusters,
    DependencyGraph,
    GaussianRows,
    Independent,
    MarkovChain,
    MDependent,
)
from holdfast.errors import InvalidArgument, NotEnoughRows

FAST = np.array([[0.65, 0.35], [0.35, 0.65]])
SKEW = np.array([[0.7, 0.3], [0.5, 0.5]])
THREE = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])


def path_laws(transition, start, n):
    """The law of n rows as an array with one axis a row."""
    law = np.array(start, dtype=float)
    for _ in range(n - 1):
        law = law[..., None] * transition
    return law


def total_variation_to_product(chain, parts, protected_start):
    """Exactly: the law of (training, protected) rows against the product of the training rows' law and the
    law of a chain from ``protected_start``."""
    states = len(chain.transition)
    start = chain.stationary if chain.initial is None else chain.initial
    train = int(parts.train.sum())
    first = int(np.flatnonzero(parts.protected)[0])
    across = np.linalg.matrix_power(chain.transition, first - train + 1)
    left = path_laws(chain.transition, start, train).reshape(-1, states)
    right = [path_laws(chain.transition, row, int(parts.protected.sum())).ravel() for row in across]
    joint = np.concatenate([np.outer(left[:, s], right[s]) for s in range(states)])
    alone = path_laws(chain.transition, protected_start, int(parts.protected.sum())).ravel()
    product = np.concatenate([np.outer(left[:, s], alone) for s in range(states)])
    return float(np.abs(joint - product).sum()) / 2


CHAINS = [
    MarkovChain(FAST, 12),
    MarkovChain(SKEW, 11),
    MarkovChain(THREE, 9),
    MarkovChain(SKEW, 11, initial=[1.0, 0.0]),
    MarkovChain(THREE, 9, initial=[0.0, 0.0, 1.0]),
]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("beta", [0.2, 0.9])
def test_a_chains_parts_are_within_the_bias_of_independent(chain, beta, rng):
    parts = chain.split(0.5, rng, beta=beta)
    assert parts.bias <= beta / 20
    distance = total_variation_to_product(chain, parts, law_of_first(parts))
    assert distance <= parts.bias
    assert distance > 0


def test_a_twin_that_counts_two_steps_too_many_is_caught(rng):
    """The coefficient of P^{g+3} in place of P^{g+1} would be too small a charge."""
    chain = CHAINS[0]
    parts = chain.split(0.5, rng, beta=0.9)
    gap = parts.dropped
    twin = 0.3 ** (gap + 3)
    assert parts.bias == pytest.approx(0.3 ** (gap + 1))
    assert total_variation_to_product(chain, parts, law_of_first(parts)) > twin


def test_the_gap_is_the_shortest(rng):
    for matrix, beta in itertools.product((FAST, SKEW, THREE), (0.9, 0.05, 1e-6)):
        parts = MarkovChain(matrix, 5000).split(0.3, rng, beta=beta)
        gap = parts.dropped

        def coefficient(steps, matrix=matrix):
            power = np.linalg.matrix_power(matrix, steps)
            return max(np.abs(a - b).sum() / 2 for a in power for b in power)

        assert coefficient(gap + 1) <= beta / 20
        assert gap == 0 or coefficient(gap) > beta / 20
        assert parts.bias == pytest.approx(coefficient(gap + 1), rel=1e-6)


def test_a_slow_chain_needs_a_long_gap_that_is_found_at_once(rng):
    chain = MarkovChain([[0.9999, 0.0001], [0.0001, 0.9999]], 10**6)
    gap = chain.split(0.5, rng).dropped
    assert gap == math.ceil(math.log(0.05 / 20) / math.log(0.9998)) - 1


def law_of_first(parts):
    """The law of the first protected row: the given start, or the stationary one."""
    model = parts.protected_model
    return model.stationary if model.initial is None else model.initial


def test_a_chain_with_a_given_start_continues_from_the_law_of_its_first_protected_row(rng):
    moved = MarkovChain(SKEW, 1000, initial=[0.0, 1.0]).split(0.005, rng)
    steps = int(np.flatnonzero(moved.protected)[0])
    expected = [0.0, 1.0] @ np.linalg.matrix_power(SKEW, steps)
    np.testing.assert_allclose(moved.protected_model.initial, expected, rtol=1e-12)
    names = [row.name for row in moved.protected_model.mean_tail(0, 1).rows]
    assert "stationary chain" not in names
    assert "Dobrushin contraction" in names


def test_the_stationary_row_is_kept_because_the_product_law_is_stationary(rng):
    """The bias pays for a product in which the protected rows have their own law: a stationary chain."""
    chain = CHAINS[1]
    parts = chain.split(0.5, rng, beta=0.9)
    assert parts.protected_model.initial is None
    assert total_variation_to_product(chain, parts, chain.stationary) <= parts.bias
    names = [row.name for row in MarkovChain(SKEW, 1000).split(0.5, rng).protected_model.mean_tail(0, 1).rows]
    assert "stationary chain" in names
    given_start = CHAINS[3].split(0.5, rng, beta=0.9)
    assert given_start.protected_model.initial is not None


def test_contiguous_parts_stand_in_order(rng):
    for model in (MDependent(50, 3), MarkovChain(FAST, 50)):
        parts = model.split(0.5, rng)
        train, protected = np.flatnonzero(parts.train), np.flatnonzero(parts.protected)
        assert (train == np.arange(len(train))).all()
        assert protected[-1] == 49
        assert protected[0] - train[-1] - 1 == parts.dropped == len(range(train[-1] + 1, protected[0]))
    assert MDependent(50, 3).split(0.5, rng).dropped == 3


def test_m_dependent_parts_are_independent_and_one_row_less_is_not(rng):
    """Rows 1[coin i = coin i+1 = 1], 1-dependent, by enumeration of the coins."""
    coins = np.array(list(itertools.product((0, 1), repeat=8)))
    rows = coins[:, 1:] * coins[:, :-1]
    parts = MDependent(7, 1).split(0.5, rng)

    def distance(train, protected):
        left = np.unique(rows[:, train], axis=0, return_inverse=True)[1]
        right = np.unique(rows[:, protected], axis=0, return_inverse=True)[1]
        joint = np.zeros((left.max() + 1, right.max() + 1))
        np.add.at(joint, (left, right), 1 / len(rows))
        return np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() / 2

    assert distance(parts.train, parts.protected) <= 1e-12
    touching = np.arange(7) > np.flatnonzero(parts.train)[-1]
    assert distance(parts.train, touching) > 0.01


@given(
    sizes=st.lists(st.integers(1, 20), min_size=2, max_size=40),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_clusters_are_never_divided(sizes, share, seed):
    model = Clusters(sizes)
    parts = model.split(share, np.random.default_rng(seed))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    assert set(labels[parts.train]).isdisjoint(labels[parts.protected])
    assert parts.dropped == parts.bias == 0
    assert parts.protected_model.sizes == tuple(
        np.bincount(labels[parts.protected])[np.unique(labels[parts.protected])]
    )
    assert parts.train.any()
    assert parts.protected.any()
    assert parts.train.sum() <= max(share * model.n, min(sizes))


@given(n=st.integers(2, 500), share=st.floats(0.001, 0.999), seed=st.integers(0, 99))
def test_independent_rows_are_taken_at_random_in_the_asked_share(n, share, seed):
    parts = Independent(n).split(share, np.random.default_rng(seed))
    assert (parts.train ^ parts.protected).all()
    assert parts.train.sum() == min(n - 1, max(1, round(share * n)))
    assert parts.protected_model == Independent(int(parts.protected.sum()))


def test_every_row_is_as_likely_to_be_taken(seed):
    rng = np.random.default_rng(seed)
    counts = sum(Independent(20).split(0.5, rng).train.astype(int) for _ in range(4000))
    assert all(binomtest(int(count), 4000, 0.5).pvalue > 1e-7 for count in counts)


def families_missed(rng, *, whole, families=500, columns=401, runs=200):
    """How often an interval misses after one look at the training part.

    Families of two identical rows of fair coins; the analyst looks at the training rows once and asks for the
    share of rows that agree with most of the columns' majorities there, a share that is exactly one half.
    """
    missed = 0
    for _ in range(runs):
        rows = np.repeat(rng.integers(0, 2, (families, columns)) * 2 - 1, 2, axis=0)
        model = Clusters([2] * families) if whole else Independent(2 * families)
        parts = model.split(0.5, rng)
        majority = np.where(rows[parts.train].sum(axis=0) >= 0, 1, -1)
        answer = (rows[parts.protected] @ majority > 0).mean()
        missed += abs(answer - 0.5) > parts.protected_model.mean_tail(0, 1).radius(0.05)
    return missed, runs


def test_families_split_row_by_row_miss_and_whole_families_hold(seed):
    rng = np.random.default_rng(seed)
    missed, runs = families_missed(rng, whole=False)
    assert binomtest(missed, runs).proportion_ci(0.999, method="exact").low > 0.8
    missed, runs = families_missed(rng, whole=True)
    assert binomtest(missed, runs).proportion_ci(0.999, method="exact").low <= 0.05
    assert missed / runs <= 0.05


def test_a_model_without_a_rule_says_what_to_do_instead(rng):
    with pytest.raises(InvalidArgument, match=r"train=.*or bring a guess") as caught:
        GaussianRows(np.eye(5)).split(0.5, rng)
    assert caught.value.argument == "dependence"


def test_too_few_rows_are_refused_with_the_number_that_is_needed(rng):
    with pytest.raises(NotEnoughRows):
        Independent(1).split(0.5, rng)
    with pytest.raises(InvalidArgument, match="two clusters"):
        Clusters([10]).split(0.5, rng)
    with pytest.raises(NotEnoughRows) as caught:
        MDependent(10, 9).split(0.5, rng)
    assert caught.value.needed == 11
    assert MDependent(11, 9).split(0.5, rng).dropped == 9
    slow = [[0.99, 0.01], [0.01, 0.99]]
    with pytest.raises(NotEnoughRows) as caught:
        MarkovChain(slow, 100).split(0.5, rng)
    assert MarkovChain(slow, caught.value.needed).split(0.5, rng).protected.sum() == 1
    with pytest.raises(InvalidArgument, match="without a period"):
        MarkovChain([[0.0, 1.0], [1.0, 0.0]], 1000).split(0.5, rng)


@pytest.mark.parametrize(
    "model",
    [Independent(9), Clusters([3] * 9), MDependent(90, 1), DependencyGraph([], n=9), MarkovChain(FAST, 90)],
    ids=lambda model: model.name,
)
def test_arguments_are_checked_by_every_rule(model, rng):
    for share in (0.0, 1.0, math.nan, -0.5, "half", None):
        with pytest.raises(InvalidArgument, match="share"):
            model.split(share, rng)
    for beta in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgument, match="beta"):
            model.split(0.5, rng, beta=beta)
    for generator in (None, 3, np.random):
        with pytest.raises(InvalidArgument, match="Generator"):
            model.split(0.5, generator)


def test_a_split_keeps_extra_assumptions_and_can_be_stored(rng):
    model = Clusters([2] * 5, extra_assumptions=("Families were recorded correctly.",))
    parts = model.split(0.5, rng)
    assert "Families were recorded correctly." in parts.protected_model.assumptions
    assert "Families were recorded correctly." in parts.assumptions
    stored = json.loads(json.dumps(parts.to_dict()))
    assert stored["train"] + stored["protected"] == 10
    assert stored["protected_model"]["name"] == "independent clusters"
    with pytest.raises(ValueError, match="read-only"):
        parts.train[0] = True
