"""Coverage along simulated chains, from fast to slow mixing, beside the tail for independent rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from holdfast.dependence import Independent, MarkovChain


def simulate(rng, correlation, n):
    """One stationary symmetric chain on two states with that second eigenvalue."""
    flips = rng.random(n, dtype=np.float32) < (1 - correlation) / 2
    flips[0] = rng.random() < 0.5
    return np.cumsum(flips) % 2


def shares_of_ones(rng, correlation, n, runs):
    return np.array([simulate(rng, correlation, n).mean() for _ in range(runs)])


def misses(shares, radius):
    count = int((np.abs(shares - 0.5) > radius).sum())
    return binomtest(count, len(shares)).proportion_ci(0.999, method="exact")


def symmetric(correlation, n):
    change = (1 - correlation) / 2
    return MarkovChain([[1 - change, change], [change, 1 - change]], n)


@pytest.mark.parametrize(("correlation", "n"), [(0.0, 10_000), (0.5, 10_000), (0.9, 10_000), (0.99, 100_000)])
def test_the_chains_tail_covers(seed, correlation, n):
    shares = shares_of_ones(np.random.default_rng(seed), correlation, n, 600)
    tail = symmetric(correlation, n).mean_tail(0, 1)
    assert misses(shares, tail.radius(0.05)).high <= 0.05


def test_the_tail_for_independent_rows_fails_on_a_slow_chain(seed):
    shares = shares_of_ones(np.random.default_rng(seed), 0.9, 10_000, 600)
    assert misses(shares, Independent(10_000).mean_tail(0, 1).radius(0.05)).low > 0.3


def test_a_twin_with_a_norm_a_third_too_small_fails(seed):
    """The test has power: at λ = 0.6 in place of 0.9 the intervals miss more often than they may."""
    shares = shares_of_ones(np.random.default_rng(seed), 0.9, 10_000, 600)
    assert misses(shares, symmetric(0.6, 10_000).mean_tail(0, 1).radius(0.05)).low > 0.05


def test_the_protected_part_covers_whatever_was_seen_of_the_training_part(seed):
    """The analyst asks how many protected rows are in the state in which the training part ended."""
    rng = np.random.default_rng(seed)
    parts = symmetric(0.9, 20_000).split(0.5, rng, beta=0.05)
    last = int(np.flatnonzero(parts.train)[-1])
    rows = [simulate(rng, 0.9, 20_000) for _ in range(600)]
    shares = np.array([(row[parts.protected] == row[last]).mean() for row in rows])
    radius = parts.protected_model.mean_tail(0, 1).radius(0.05 - parts.bias)
    assert misses(shares, radius).high <= 0.05
    assert radius < 0.1
