"""Laws by counts: equal parts are evaluated once, and many parts at once, with the same result."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reductions_algorithms import response

from holdfast.errors import InvalidArgument
from holdfast.reductions import (
    Algorithm,
    _replicable,
    dp_to_replicable,
    exponential_choice,
    item_to_user_level,
    laplace_mean,
)
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
