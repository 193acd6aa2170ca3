"""Betting: the bets are fair, coverage is exact on small domains and holds in simulation."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from intervals_oracles import TOLERANCE, misses, refuted

from holdfast.intervals import Interval, betting, empirical_bernstein, kl
from holdfast.intervals._means import _gains, _least, _peak, _stakes

NATS = [0.0, 0.3, 1.0, 3.0]


def shrunk(values, nats, factor, **bounds):
    """The twin: each end moved towards the sample mean."""
    interval, mean = betting(values, nats, **bounds), float(np.mean(values))
    return Interval(mean - factor * (mean - interval.low), mean + factor * (interval.high - mean))


def expected_wealth(stakes_of, atoms, probabilities, n, target):
    """E of the final wealth of both gamblers against the true mean, over all sequences of n rows."""
    mean = float(np.dot(atoms, probabilities))
    totals = [0.0, 0.0]
    for picks in itertools.product(range(len(atoms)), repeat=n):
        rows = np.array([atoms[i] for i in picks])
        mass = math.prod(probabilities[i] for i in picks)
        stakes = stakes_of(rows, target)
        totals[0] += mass * math.exp(_gains(rows, stakes, mean).sum())
        totals[1] += mass * math.exp(_gains(1.0 - rows, stakes, 1.0 - mean).sum())
    return totals


LAWS = [([0.0, 1.0], [0.7, 0.3]), ([0.0, 1.0], [0.02, 0.98]), ([0.1, 0.4, 1.0], [0.5, 0.3, 0.2])]


@pytest.mark.parametrize("target", [0.7, 4.0, 500.0])
@pytest.mark.parametrize(("atoms", "probabilities"), LAWS)
def test_wealth_is_a_fair_game(atoms, probabilities, target):
    for total in expected_wealth(_stakes, atoms, probabilities, 6, target):
        assert total == pytest.approx(1.0, abs=1e-9)


def test_the_fairness_check_rejects_stakes_that_know_the_row_they_bet_on():
    def peeking(rows, target):
        return _stakes(np.append(rows, 0.0), target)[1:]

    for atoms, probabilities in (LAWS[0], LAWS[2]):
        assert max(expected_wealth(peeking, atoms, probabilities, 6, 0.7)) > 1.001


def worst_miss(make, n, nats):
    """The largest exact miss probability over coins of every bias."""
    sequences = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    intervals = [make(rows, nats) for rows in sequences]
    successes = sequences.sum(axis=1)
    worst = 0.0
    for p in np.linspace(0.01, 0.99, 99):
        mass = p**successes * (1 - p) ** (n - successes)
        worst = max(worst, sum(m for m, i in zip(mass, intervals, strict=True) if not i.contains(p)))
    return worst


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_coverage_is_exact_over_all_sequences_of_coins(n):
    for nats in NATS:
        assert worst_miss(betting, n, nats) <= math.exp(-nats) * (1 + TOLERANCE)


def test_the_exact_check_rejects_a_shrunken_interval():
    assert worst_miss(lambda rows, nats: shrunk(rows, nats, 0.6), 8, 3.0) > 5 * math.exp(-3.0)


DRAWS = {
    "coins": (lambda rng, n: (rng.random(n) < 0.3).astype(float), 0.3, 300),
    "beta": (lambda rng, n: rng.beta(2, 5, n), 2 / 7, 300),
    "narrow beta": (lambda rng, n: rng.beta(10, 30, n), 0.25, 1000),
    "two atoms": (lambda rng, n: np.where(rng.random(n) < 0.1, 0.6, 0.2), 0.24, 600),
    "rare": (lambda rng, n: (rng.random(n) < 0.05).astype(float), 0.05, 600),
}


QUICK = ("coins", "two atoms")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in DRAWS]
)
def test_coverage_in_simulation_and_a_shrunken_twin(name, rng):
    draw, mean, rows = DRAWS[name]
    runs, nats = 600, 3.0
    missed = misses(lambda x: betting(x, nats), draw, mean, rows=rows, runs=runs, rng=rng)
    assert not refuted(missed, runs, math.exp(-nats))
    missed = misses(lambda x: shrunk(x, nats, 0.45), draw, mean, rows=rows, runs=runs, rng=rng)
    assert refuted(missed, runs, math.exp(-nats))


def test_an_order_chosen_after_a_look_at_the_rows_is_not_covered(rng):
    """Rows near the mean first, so that stakes rise, then the large ones: the small ones come too late."""

    def chosen(rows):
        nearest = np.argsort(np.abs(rows - rows.mean()))
        first = rows.size // 3
        return np.concatenate((rows[nearest[:first]], np.sort(rows[nearest[first:]])[::-1]))

    def uniform(rng, size):
        return rng.random(size)

    runs, nats = 200, 3.0
    for order, caught in [(np.asarray, False), (chosen, True)]:
        missed = misses(
            lambda rows, order=order: betting(order(rows), nats), uniform, 0.5, rows=3000, runs=runs, rng=rng
        )
        assert refuted(missed, runs, math.exp(-nats)) == caught


@pytest.mark.parametrize("nats", [0.0, 3.0, 50.0, 700.0])
def test_ends_are_where_the_wealth_reaches_the_target(nats, rng):
    for rows in (rng.beta(4, 8, 2000), np.full(2000, 0.3), (rng.random(2000) < 0.1).astype(float)):
        target = nats + math.log(2.0)
        stakes = _stakes(rows, target)
        interval = betting(rows, nats)
        for side, end in [(rows, interval.low), (1.0 - rows, 1.0 - interval.high)]:
            edge = _least(side, stakes, target)
            assert end == pytest.approx(edge, rel=1e-12)
            assert edge == 0.0 or _peak(side, stakes, edge) >= target
            if edge < side.mean():
                assert _peak(side, stakes, edge * (1 + 2e-10)) < target


def test_wealth_does_not_increase_with_the_candidate(rng):
    for rows in (rng.random(50), (rng.random(50) < 0.1).astype(float), np.full(50, 0.3)):
        wealth = [_peak(rows, _stakes(rows, 3.0), m) for m in np.linspace(0.0, 1.0, 201)]
        assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(wealth))


def test_it_is_narrower_than_kl_and_bernstein_for_small_variance(rng):
    rows = rng.beta(10, 30, 10**4)
    mean, variance = float(rows.mean()), float(rows.var(ddof=1))
    for nats in (3.0, 30.0, 300.0):
        width = betting(rows, nats).width
        assert width < 0.75 * empirical_bernstein(mean, variance, 10**4, nats).width
        assert width < 0.3 * kl(mean, 10**4, nats).width


def test_it_is_close_to_kl_for_fair_coins(rng):
    rows = (rng.random(10**4) < 0.5).astype(float)
    assert betting(rows, 20.0).width < 1.01 * kl(float(rows.mean()), 10**4, 20.0).width


@pytest.mark.parametrize("nats", [0.0, 1.0, 5000.0, 1e6])
@pytest.mark.parametrize("n", [1, 2, 100])
def test_it_is_ordered_and_holds_the_sample_mean(n, nats, rng):
    for rows in (rng.random(n), np.zeros(n), np.ones(n), np.sort(rng.random(n)), np.full(n, 0.3)):
        interval = betting(rows, nats)
        assert 0.0 <= interval.low <= float(rows.mean()) * (1 + 1e-12)
        assert float(rows.mean()) * (1 - 1e-12) <= interval.high <= 1.0


def test_it_is_equivariant_under_affine_maps_and_reflection(rng):
    rows = rng.beta(3, 5, 400)
    plain = betting(rows, 5.0)
    placed = betting(-2.0 + 6.0 * rows, 5.0, lo=-2.0, hi=4.0)
    assert placed.low == pytest.approx(-2.0 + 6.0 * plain.low, abs=1e-8)
    assert placed.high == pytest.approx(-2.0 + 6.0 * plain.high, abs=1e-8)
    mirrored = betting(1.0 - rows, 5.0)
    assert mirrored.low == pytest.approx(1.0 - plain.high, abs=1e-8)
    assert mirrored.high == pytest.approx(1.0 - plain.low, abs=1e-8)


def test_no_rows_say_nothing_and_truth_values_count():
    assert betting([], 3.0, lo=-1.0, hi=2.0) == Interval(-1.0, 2.0)
    assert betting([True, False, True], 3.0) == betting([1.0, 0.0, 1.0], 3.0)


def test_a_hundred_thousand_rows_take_well_under_a_second(rng):
    rows = rng.beta(10, 30, 10**5)
    began = time.process_time()
    betting(rows, 20.0)
    assert time.process_time() - began < 1.0
