"""Several replicable means: which way needs the fewest rows, and whether it keeps its promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.replicable import Tape, correlated_normal, mean, plan_several, sample_size

ASK = {"accuracy": 0.05, "rho": 0.1, "beta": 0.05}
NATS = math.log(1e5)


def test_the_ways_and_their_crossing():
    ten = plan_several(analyses=10, **ASK)
    assert [way.name for way in ten.ways] == ["one by one", "together", "through privacy", "fresh rows"]
    assert ten.best.rows == 332_146 == sample_size("mean", accuracy=0.05, rho=0.01, beta=0.005, bounds=(0, 1))
    assert ten.way("together").rows == 1_378_156
    assert ten.way("fresh rows").rows == 10 * ten.best.rows
    thousand = plan_several(analyses=1000, **ASK)
    assert [way.name for way in thousand.ways[:2]] == ["together", "through privacy"]
    assert thousand.way("through privacy").rows == 596_777_954
    assert thousand.best == thousand.way("one by one")  # of those that can be run
    assert thousand.best.rows == 3_184_467_883
    with pytest.raises(InvalidArgument, match="together or through privacy"):
        thousand.way("all at once")
    assert thousand.way("together").rows == 179_377_382
    assert not thousand.way("together").efficient
    assert ten.way("together").efficient


@pytest.mark.parametrize("k", [1, 3, 20, 400])
def test_the_private_way_has_room_for_noise_and_sampling(k):
    rows = plan_several(analyses=k, **ASK).way("through privacy").rows
    # The noise alone, at all of β, and the sampling error alone.
    x = 0.1 / 1.9
    sd = math.sqrt(k) / (2 * x * math.sqrt(rows))
    assert sd * stats.norm.isf(0.05 / (2 * k)) < 0.05
    assert sd * stats.norm.isf(0.05 / (2 * k)) > 0.85 * 0.05
    # Two samples are √(2I) apart, I = k/8ns².
    assert math.sqrt(2 * k / (8 * rows * sd**2)) == pytest.approx(x, rel=1e-9)


def test_three_means_of_the_same_rows_each_chosen_by_the_last(seed):
    # A mean decides which column is averaged next.
    rng = np.random.default_rng(seed)
    terms = {"accuracy": 0.3, "rho": 0.2 / 3, "beta": 0.05, "bounds": (0.0, 1.0)}
    rows = sample_size("mean", **terms)
    shares = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.45, 0.55])

    def transcript(table, tape):
        place, results = 0, []
        for number in range(3):
            result = float(mean(table[:, place], **terms, tape=tape.branch(f"step {number}")))
            results.append(result)
            place = 2 * place + (1 if result > 0.5 else 2)
        return results

    trials = 1500
    differ = 0
    for number in range(trials):
        tables = [(rng.random((rows, 7)) < shares).astype(float) for _ in range(2)]
        first, second = (transcript(table, Tape(seed).branch(number)) for table in tables)
        differ += first != second
    assert clopper_pearson(differ, trials, NATS).low <= 0.2
    # One ρ for all three is too little: the twin is seen.
    assert clopper_pearson(differ, trials, NATS).low > 0.2 / 3


@pytest.mark.slow
def test_noise_chosen_together_by_shared_coins_agrees_as_planned(seed):
    # Two means fixed in advance, noise of the private way: the mismatch is below ρ, and half the noise fails.
    rho, k, rows = 0.3, 2, 400
    x = rho / (2 - rho)
    sd = math.sqrt(k) / (2 * x * math.sqrt(rows))
    rng = np.random.default_rng(seed)

    def rate(noise, trials=2000):
        differ = 0
        for number in range(trials):
            means = [rng.binomial(rows, 0.5, k) / rows for _ in range(2)]
            tape = Tape(seed).branch(number)
            first, second = (correlated_normal(values, noise, tape) for values in means)
            differ += not np.array_equal(first, second)
        return differ

    assert clopper_pearson(rate(sd), 2000, NATS).low <= rho
    assert clopper_pearson(rate(sd / 4), 2000, NATS).low > rho
