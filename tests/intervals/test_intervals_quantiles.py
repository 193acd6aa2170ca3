"""Quantiles: ranks against exact rational tails, coverage on laws with atoms, dependent rows."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals_oracles import TOLERANCE, mp_log_tail, multinomial
from scipy import stats

from enumeration import all_counts
from holdfast.intervals import Interval, quantile, quantile_ranks, quantile_ranks_from_tail
from holdfast.tails import BoundedDifferences, Custom

LN2 = math.log(2.0)


def exact_ranks(n, q, delta):
    """The ranks by summing exact binomial probabilities."""
    q = Fraction(q)
    mass = [math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
    low = max((k + 1 for k in range(n + 1) if sum(mass[: k + 1]) <= delta / 2), default=0)
    high = min((k for k in range(n + 1) if sum(mass[k:]) <= delta / 2), default=n + 1)
    return low, high


@pytest.mark.parametrize("q", [0.01, 0.25, 0.5, 0.9, 0.999])
def test_ranks_are_the_best_by_exact_sums(q):
    for n in [1, 2, 7, 20, 45]:
        for nats in (1e-6, 0.3, 1.0, 3.0, 10.0, 30.0):
            assert quantile_ranks(n, q, nats) == exact_ranks(n, q, Fraction(math.exp(-nats))), nats


QUARTERS = {"values": (0.0, 1.0, 2.0, 3.0), "probabilities": (0.25, 0.25, 0.25, 0.25)}
LUMPS = {"values": (0.0, 1.0, 2.0), "probabilities": (0.1, 0.8, 0.1)}
SKEW = {"values": (-1.0, 0.0, 5.0), "probabilities": (0.5, 0.3, 0.2)}


def quantiles(law, q):
    """The smallest and the largest q-quantile of a law with atoms, by the definition."""
    values, probabilities = law["values"], law["probabilities"]
    at_most = [math.fsum(probabilities[: i + 1]) for i in range(len(values))]
    below = [math.fsum(probabilities[:i]) for i in range(len(values))]
    hits = [x for x, f, b in zip(values, at_most, below, strict=True) if b <= q <= f]
    return min(hits), max(hits)


def miss(law, n, q, ranks):
    """The exact probability that some q-quantile lies outside the order statistics of these ranks."""
    least, greatest = quantiles(law, q)
    low_rank, high_rank = ranks
    total = 0.0
    for count in all_counts(n, len(law["values"])):
        rows = np.repeat(law["values"], count)
        low = rows[low_rank - 1] if low_rank >= 1 else -math.inf
        high = rows[high_rank - 1] if high_rank <= n else math.inf
        total += multinomial(count, law["probabilities"]) * (not (low <= least and greatest <= high))
    return total


@pytest.mark.parametrize("law", [QUARTERS, LUMPS, SKEW])
def test_every_quantile_is_covered_for_laws_with_atoms(law):
    for nats, q in product([0.0, 0.3, 1.0, 3.0], [0.1, 0.25, 0.5, 0.75, 0.85]):
        for n in (1, 4, 12):
            assert miss(law, n, q, quantile_ranks(n, q, nats)) <= math.exp(-nats) * (1 + TOLERANCE)


def test_the_check_rejects_shifted_ranks():
    """At a flat stretch of the distribution function both ends of the quantiles are needed."""
    n, q, nats = 12, 0.5, 1.0
    low, high = quantile_ranks(n, q, nats)
    for law in (QUARTERS, {"values": (0.0, 1.0), "probabilities": (0.5, 0.5)}):
        assert quantiles(law, q)[0] < quantiles(law, q)[1]
        assert miss(law, n, q, (low, high)) <= math.exp(-nats)
        assert miss(law, n, q, (low + 1, high - 1)) > math.exp(-nats)
        assert miss(law, n, q, (low + 1, high)) > math.exp(-nats) / 2 + miss(law, n, q, (0, high))


@pytest.mark.parametrize("n", [100, 10**4, 10**6, 10**9])
def test_large_samples_against_multiprecision(n):
    for q in [1e-6, 0.01, 0.5, 0.9, 1 - 1e-6]:
        with mp.workdps(40):
            w = 1 - mp.mpf(q)
            for nats in (20.0, 458.0, 461.0, 5000.0):
                low, high = quantile_ranks(n, q, nats)
                target = -mp.mpf(nats) - mp.log(2)
                if low >= 1:
                    assert (mp_log_tail(low - 1, n, w) if low >= 2 else n * mp.log(w)) <= target
                if 1 <= low < n * q:
                    # The next rank would fail; beyond 460 nats, but for the 0.002 nats of the bound.
                    assert mp_log_tail(low, n, w) > target - (0 if nats < 459 else 0.002) - 1e-6
                if high <= n:
                    flipped = n - high
                    tail = mp_log_tail(flipped, n, mp.mpf(q)) if flipped >= 1 else n * mp.log(mp.mpf(q))
                    assert tail <= target


def test_ranks_agree_with_the_normal_approximation():
    n, nats = 10**6, 3.0
    z = stats.norm.isf(math.exp(-nats) / 2)
    low, high = quantile_ranks(n, 0.5, nats)
    assert low == pytest.approx(n / 2 - z * math.sqrt(n) / 2, abs=1.5)
    assert high == pytest.approx(n / 2 + z * math.sqrt(n) / 2, abs=1.5)


@pytest.mark.parametrize("nats", [5000.0, 1e6, 1e12])
def test_thousands_of_nats_stay_ordered(nats):
    for n in (0, 1, 1000, 10**7):
        for q in (1e-9, 0.3, 0.5, 1 - 1e-9):
            low, high = quantile_ranks(n, q, nats)
            assert 0 <= low <= n * q <= high <= n + 1
    assert quantile_ranks(1000, 0.5, 5000.0) == (0, 1001)
    assert quantile_ranks(10**7, 0.5, 5000.0)[0] > 4_800_000


rows = st.integers(0, 10**9)
levels = st.one_of(st.floats(1e-6, 1 - 1e-6), st.sampled_from([0.25, 0.5, 0.75]))
nats_values = st.one_of(st.floats(0.0, 10.0), st.floats(0.0, 6000.0))


@given(rows, levels, nats_values, nats_values)
def test_ranks_are_nested_in_nats(n, q, first, second):
    inner, outer = quantile_ranks(n, q, min(first, second)), quantile_ranks(n, q, max(first, second))
    assert 0 <= outer[0] <= inner[0] <= inner[1] <= outer[1] <= n + 1


@given(rows, st.sampled_from([0.25, 0.5, 0.125, 0.0625]), nats_values)
def test_ranks_mirror(n, q, nats):
    low, high = quantile_ranks(n, q, nats)
    assert quantile_ranks(n, 1.0 - q, nats) == (n + 1 - high, n + 1 - low)


@given(rows, levels, levels, nats_values)
def test_ranks_move_with_the_level(n, first, second, nats):
    low, high = quantile_ranks(n, min(first, second), nats), quantile_ranks(n, max(first, second), nats)
    assert low[0] <= high[0]
    assert low[1] <= high[1]


def test_the_interval_is_made_of_values():
    values = np.sort(np.random.default_rng(0).normal(size=400))
    low, high = quantile_ranks(400, 0.5, 3.0)
    assert quantile(values, 0.5, 3.0) == Interval(values[low - 1], values[high - 1])
    assert quantile([1.0, 2.0], 0.5, 3.0) == Interval(-math.inf, math.inf)
    assert quantile([], 0.5, 3.0) == Interval(-math.inf, math.inf)
    assert quantile(np.arange(100), 0.01, 3.0).low == -math.inf


def test_integers_too_long_for_a_float_are_rounded_outward():
    values = np.full(400, 2**60 + 1)
    interval = quantile(values, 0.5, 3.0)
    assert int(interval.low) < 2**60 + 1 < int(interval.high)


def pairs_tail(n):
    """The mean of n rows that come in identical pairs: n/2 clusters, each worth 2/n."""
    return BoundedDifferences(delta=2.0 / n, n=n // 2)


def miss_with_pairs(n, q, ranks):
    """The exact miss probability for the median of a law without atoms, when each value comes twice."""
    low, high = ranks
    clusters = stats.binom(n // 2, q)
    return float(clusters.cdf((low - 1) // 2) + clusters.sf(math.ceil(high / 2) - 1))


@pytest.mark.parametrize("nats", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("q", [0.2, 0.5, 0.7])
def test_dependent_rows_are_covered(q, nats):
    for n in (40, 200, 1000):
        ranks = quantile_ranks_from_tail(n, q, pairs_tail(n), nats)
        assert miss_with_pairs(n, q, ranks) <= math.exp(-nats)


def test_the_check_rejects_ranks_that_take_pairs_for_independent_rows():
    assert miss_with_pairs(1000, 0.5, quantile_ranks(1000, 0.5, 3.0)) > 2 * math.exp(-3.0)


def test_ranks_from_a_tail_follow_their_inequality():
    for n, q, r in [(400, 0.5, 0.1), (400, 0.5, 0.1012), (7, 0.3, 0.05), (1000, 0.999, 0.01), (50, 0.5, 0.5)]:
        low, high = quantile_ranks_from_tail(n, q, Custom(lambda alpha, r=r: 100.0 * (alpha >= r)), 3.0)
        assert low == 0 or q - (low - 1) / n >= r - 1e-9
        assert q - low / n < r + 1e-9
        assert high == n + 1 or high / n - q >= r - 1e-9
        assert (high - 1) / n - q < r + 1e-9


def test_a_tail_that_never_gets_there_says_nothing():
    assert quantile_ranks_from_tail(100, 0.5, Custom(lambda alpha: 1.0), 3.0) == (0, 101)


@given(st.integers(1, 10**7), levels, st.floats(0.0, 2000.0))
def test_ranks_from_a_tail_are_wider_than_the_exact_ones(n, q, nats):
    low, high = quantile_ranks(n, q, nats)
    wide_low, wide_high = quantile_ranks_from_tail(n, q, BoundedDifferences.of_mean(0, 1, n), nats)
    assert 0 <= wide_low <= low <= high <= wide_high <= n + 1
