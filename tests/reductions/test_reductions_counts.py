"""Laws by counts: equal parts are evaluated once, and many parts at once, with the same result."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reductions_algorithms import response
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.reductions import (
    Algorithm,
    _mismatch,
    _replicable,
    amplify_delta,
    dp_to_replicable,
    exponential_choice,
    item_to_user_level,
    laplace_mean,
    private_agnostic,
)
from holdfast.reductions._algorithm import ordered_subsets
from holdfast.reductions._mismatch import Sampling
from holdfast.replicable import Tape
from holdfast.stability import DP


def pairs() -> Algorithm:
    """Two rows, of which the first counts more: the order within a part matters."""
    return Algorithm(
        lambda rows, tape: 0,
        rows_needed=2,
        guarantee=DP(0.8),
        outcomes=(0, 1, 2),
        probabilities=lambda rows: (
            np.array([4.0, 2.0 + rows[0], 4.0 - rows[0]]) / np.array([10.0, 10.0, 10.0])
            - np.array([0.1, -0.1, 0.0]) * rows[1]
        ),
    )


def apart(steady: Algorithm, single: Algorithm) -> float:
    """The largest distance, over all binary rows, between the law by counts and the average part by part."""
    worst = 0.0
    for rows in itertools.product((0, 1), repeat=steady.rows_needed):
        parts = np.array(rows).reshape(-1, single.rows_needed)
        average = np.mean([single.law(part) for part in parts], axis=0)
        worst = max(worst, float(np.abs(steady.law(np.array(rows)) - average).max()))
    return worst


@pytest.mark.parametrize("single", [response(1.0), pairs()], ids=["one row", "two rows"])
def test_counts_give_the_average_over_parts_on_all_data(single, monkeypatch):
    rho = 0.2 if single.rows_needed == 1 else 0.35
    steady = dp_to_replicable(single, rho=rho)
    assert 3 * single.rows_needed <= steady.rows_needed <= 12
    assert apart(steady, single) < 1e-12

    # A twin that forgets how often a part occurs is caught.
    def once(samples):
        different = np.unique(samples, axis=0)
        return different, np.ones(len(different), dtype=np.int64)

    monkeypatch.setattr(_replicable, "distinct", once)
    assert apart(steady, single) > 0.01


def test_each_different_part_is_evaluated_once():
    calls = []
    single = response(1.0)

    def counted(rows):
        calls.append(int(rows[0]))
        return single.probabilities(rows)

    users = item_to_user_level(
        replace(single, probabilities=counted), rows_a_user=10_000, epsilon=1.0, simulation=True
    )
    rows = (np.random.default_rng(1).random((users.rows_needed, 10_000)) < 0.9).astype(int)
    assert users(rows, Tape("counts")) == 1
    assert len(calls) == 2 * users.rows_needed


READY = {
    "mean": (laplace_mean(rows=30, epsilon=0.5, accuracy=0.4, cells=7, bounds=(-2.0, 3.0)), (30,)),
    "choice": (exponential_choice(models=4, rows=30, epsilon=0.5, accuracy=0.4), (30, 4)),
}


@pytest.mark.parametrize("name", READY)
def test_many_laws_at_once_are_those_of_each_sample(name, seed):
    single, shape = READY[name]
    rng = np.random.default_rng(seed)
    samples = rng.normal(0.5, 2.0, (50, *shape))
    many = single.laws(samples)
    each = [single.law(sample) for sample in samples]
    assert np.array_equal(many, each)
    shuffled = samples[:, rng.permutation(30)]
    assert np.array_equal(single.laws(shuffled), many)
    assert not np.allclose(single.laws(samples + 0.3), many)


def test_a_batch_of_the_wrong_shape_is_refused():
    wrong = replace(response(1.0), batch_probabilities=lambda samples: [[0.5, 0.5]])
    with pytest.raises(InvalidArgument, match=r"batch_probabilities.*one line for each sample"):
        dp_to_replicable(wrong, rho=0.2)(np.ones(100, dtype=int), Tape("x"))
    with pytest.raises(InvalidArgument, match="batch_probabilities"):
        Algorithm(
            lambda rows, tape: 0, rows_needed=1, guarantee=DP(1.0), batch_probabilities=lambda samples: []
        )


def test_subsets_are_ordered_choices_without_repetition(seed):
    lines = ordered_subsets(Tape(seed), 3000, 2, 4)
    assert (lines[:, 0] != lines[:, 1]).all()
    counts = np.unique(lines @ [4, 1], return_counts=True)[1]
    assert len(counts) == 12
    assert stats.chisquare(counts).pvalue > 1e-6
    # With replacement, one line in four would repeat itself.
    drawn = Tape(seed).branch("try 0").integers(6000, 4).reshape(3000, 2)
    assert 600 < (drawn[:, 0] == drawn[:, 1]).sum() < 900


def test_laws_on_subsets_are_averaged_in_batches(seed):
    mean = laplace_mean(rows=20, epsilon=2.0, accuracy=0.3, cells=5)
    plan = Sampling(300, 400, 0.1, False)
    steady = _replicable.sampled(mean, plan, theorem="")
    rows = np.random.default_rng(seed).random(400)
    law = _replicable._mixture(mean, plan, 1, False)(rows, Tape(seed))
    lines = ordered_subsets(Tape(seed).branch("subsets 0"), 300, 20, 400)
    assert np.abs(law - np.mean([mean.law(rows[line]) for line in lines], axis=0)).max() < 1e-12
    assert steady(rows, Tape(seed)) in mean.outcomes
    # One law at a time, by other coins, gives the same average but for the choice of subsets.
    slow = _replicable._mixture(replace(mean, batch_probabilities=None), plan, 1, False)
    assert np.abs(law - slow(rows, Tape(seed))).max() < 0.05


def many(outcomes: int) -> Algorithm:
    def laws(samples):
        return np.full((len(samples), outcomes), 1.0 / outcomes)

    return Algorithm(
        lambda rows, tape: 0,
        rows_needed=1000,
        guarantee=DP(0.3),
        failure=0.001,
        outcomes=tuple(range(outcomes)),
        probabilities=lambda rows: laws([rows])[0],
        batch_probabilities=laws,
    )


def test_rows_do_not_grow_with_the_outcomes_where_subsets_are_taken(monkeypatch):
    def rows() -> list[int]:
        task = {"labelings": len, "predict": len, "growth": lambda n: n + 1}
        bounds = {"accuracy": 0.2, "learner_accuracy": 0.05, "epsilon": 1.0}
        return [
            amplify_delta(many(10_000), epsilon=1.0).rows_needed,
            private_agnostic(many(10_000), **task, **bounds).rows_needed,
        ]

    with_subsets = rows()
    with monkeypatch.context() as changed:
        changed.setattr(_mismatch, "_MOST_IN_BATCHES", 1)
        without = rows()
    for few, more in zip(with_subsets, without, strict=True):
        assert 100 * few < more
    assert amplify_delta(many(1000), epsilon=1.0).rows_needed > with_subsets[0] / 3
