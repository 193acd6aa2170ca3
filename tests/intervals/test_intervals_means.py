"""Hoeffding and empirical Bernstein: formulas, exact coverage, simulation, laws."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals_oracles import TOLERANCE, refuted, worst_misses
from scipy import stats

from holdfast.intervals import (
    Interval,
    clopper_pearson,
    empirical_bernstein,
    empirical_bernstein_radius,
    hoeffding,
)

LN2 = math.log(2.0)
ROWS = [1, 2, 3, 5, 10, 30, 100]
NATS = [0.0, 0.3, 1.0, 3.0, 10.0]


def of_shares(n, nats, *, scale=1.0):
    """Empirical Bernstein for every number of successes, its radius scaled."""
    intervals = []
    for successes in range(n + 1):
        mean = successes / n
        variance = n / (n - 1) * mean * (1 - mean) if n > 1 else 0.0
        radius = scale * empirical_bernstein_radius(variance, n, nats)
        intervals.append(Interval(max(0.0, mean - radius), min(1.0, mean + radius)))
    return intervals


@pytest.mark.parametrize("n", ROWS)
def test_hoeffding_covers(n):
    for nats in NATS:
        _, both = worst_misses([hoeffding(s / n, n, nats) for s in range(n + 1)])
        assert both <= math.exp(-nats) * (1 + TOLERANCE)


def test_the_check_rejects_a_hoeffding_that_forgets_the_other_side():
    """One fair coin: without ln 2 the radius is below ½ and the interval never holds ½ (erratum, TS 2.2)."""
    radius = math.sqrt(0.3 / 2)
    _, both = worst_misses([Interval(max(0.0, s - radius), min(1.0, s + radius)) for s in (0, 1)])
    assert both > math.exp(-0.3)


@pytest.mark.parametrize("n", ROWS)
def test_empirical_bernstein_covers(n):
    for nats in NATS:
        _, both = worst_misses(of_shares(n, nats))
        assert both <= math.exp(-nats) * (1 + TOLERANCE)


def miss_of_a_fair_coin(scale):
    """The exact probability that 10⁵ fair coins fall outside, at 20 nats, with a scaled radius."""
    n, nats = 10**5, 20.0
    fewest = 0
    for successes in range(n // 2 - 3000, n // 2):
        mean = successes / n
        radius = empirical_bernstein_radius(n / (n - 1) * mean * (1 - mean), n, nats)
        if mean + scale * radius >= 0.5:
            fewest = successes
            break
    return 2 * float(stats.binom.cdf(fewest - 1, n, 0.5)), math.exp(-nats)


def test_the_exact_check_rejects_a_radius_a_seventh_too_short():
    miss, delta = miss_of_a_fair_coin(1.0)
    assert 0.001 * delta < miss <= delta
    miss, delta = miss_of_a_fair_coin(6 / 7)
    assert miss > delta


def test_the_exact_check_rejects_a_radius_without_its_linear_term():
    """When no row is a success the sample variance is 0, and only the linear term is left."""
    n, nats = 50, 3.0
    intervals = of_shares(n, nats)
    intervals[0], intervals[n] = Interval(0.0, 0.0), Interval(1.0, 1.0)
    _, both = worst_misses(intervals)
    assert both > math.exp(-nats)


@pytest.mark.parametrize(
    ("variance", "n", "nats", "width"),
    [
        (0.25, 2, 0.0, 1.0),
        (0.01, 1000, 3.0, 1.0),
        (4.0, 77, 5000.0, 10.0),
        (0.0, 10, 1e6, 2.0),
        (1e-9, 10**9, 1.0, 1.0),
    ],
)
def test_the_radius_is_that_of_the_proof_and_below_the_printed_one(variance, n, nats, width):
    with mp.workdps(40):
        level = mp.mpf(nats) + mp.log(3)
        root = mp.sqrt(2 * mp.mpf(variance) * level / n)
        exact = root + width * level * (2 / mp.sqrt(mp.mpf(n) * (n - 1)) + 1 / mp.mpf(3 * n))
        printed = root + 7 * width * level / (3 * (n - 1))
        radius = empirical_bernstein_radius(variance, n, nats, width=width)
        assert exact <= radius <= exact * (1 + mp.mpf("3e-14"))
        assert radius <= printed


DRAWS = {
    "coins": (lambda rng, size: (rng.random(size) < 0.3).astype(float), 0.3),
    "beta": (lambda rng, size: rng.beta(2, 5, size), 2 / 7),
    "narrow beta": (lambda rng, size: rng.beta(200, 300, size), 0.4),
    "two atoms": (lambda rng, size: np.where(rng.random(size) < 0.1, 0.9, 0.2), 0.27),
    "rare": (lambda rng, size: (rng.random(size) < 0.004).astype(float), 0.004),
}


@pytest.mark.parametrize("name", DRAWS)
def test_empirical_bernstein_covers_in_simulation_and_half_its_root_does_not(name, rng):
    draw, mean = DRAWS[name]
    runs, n, nats = 2000, 4000, 4.0
    missed = missed_by_twin = 0
    for _ in range(runs):
        rows = draw(rng, n)
        found, variance = float(rows.mean()), float(rows.var(ddof=1))
        missed += not empirical_bernstein(found, variance, n, nats).contains(mean)
        missed_by_twin += abs(found - mean) > 0.5 * math.sqrt(2 * variance * (nats + LN2) / n)
    assert not refuted(missed, runs, math.exp(-nats))
    assert refuted(missed_by_twin, runs, math.exp(-nats))


def test_empirical_bernstein_is_narrow_for_small_variance():
    n, nats = 10**5, 20.0
    assert empirical_bernstein(0.3, 1e-4, n, nats).width < 0.12 * hoeffding(0.3, n, nats).width
    assert clopper_pearson(0.3 * n, n, nats).width < empirical_bernstein(0.3, 0.21, n, nats).width


def test_one_row_has_no_variance():
    assert empirical_bernstein_radius(0.0, 1, 3.0) == math.inf
    assert empirical_bernstein(0.3, 0.0, 1, 3.0) == Interval(0.0, 1.0)


@pytest.mark.parametrize("nats", [5000.0, 1e6])
def test_thousands_of_nats_stay_finite_and_ordered(nats):
    for n in (2, 1000, 10**7):
        for interval in (hoeffding(0.3, n, nats), empirical_bernstein(0.3, 0.1, n, nats)):
            assert 0.0 <= interval.low <= 0.3 <= interval.high <= 1.0
        assert math.isfinite(empirical_bernstein_radius(0.1, n, nats))


means = st.floats(0.0, 1.0)
rows = st.integers(2, 10**9)
levels = st.one_of(st.floats(0.0, 10.0), st.floats(0.0, 1e6))
variances = st.one_of(st.floats(0.0, 0.25), st.floats(0.0, 1e-6))


@given(variances, variances, rows, levels)
def test_the_radius_grows_with_the_variance(first, second, n, nats):
    small, large = (
        empirical_bernstein_radius(min(first, second), n, nats),
        empirical_bernstein_radius(max(first, second), n, nats),
    )
    assert small <= large


@given(means, variances, rows, rows, levels, levels)
def test_both_widen_with_nats_and_narrow_with_rows(mean, variance, n, m, first, second):
    few, many, low, high = min(n, m), max(n, m), min(first, second), max(first, second)
    for make in (hoeffding, lambda mean, n, nats: empirical_bernstein(mean, variance, n, nats)):
        assert make(mean, many, low).contains(mean)
        for inner, outer in [
            (make(mean, n, low), make(mean, n, high)),
            (make(mean, many, low), make(mean, few, low)),
        ]:
            assert outer.hull(inner) == outer


@given(means, variances, rows, levels, st.floats(-50.0, 50.0), st.floats(0.01, 100.0))
def test_both_are_equivariant_under_affine_maps(mean, variance, n, nats, lo, span):
    hi = lo + span
    moved = min(max(lo + (hi - lo) * mean, lo), hi)
    pairs = [
        (hoeffding(mean, n, nats), hoeffding(moved, n, nats, lo=lo, hi=hi)),
        (
            empirical_bernstein(mean, variance, n, nats),
            empirical_bernstein(moved, variance * (hi - lo) ** 2, n, nats, lo=lo, hi=hi),
        ),
    ]
    for plain, placed in pairs:
        assert placed.low == pytest.approx(lo + (hi - lo) * plain.low, abs=1e-12 * (abs(lo) + abs(hi)))
        assert placed.high == pytest.approx(lo + (hi - lo) * plain.high, abs=1e-12 * (abs(lo) + abs(hi)))
        assert lo <= placed.low <= placed.high <= hi
