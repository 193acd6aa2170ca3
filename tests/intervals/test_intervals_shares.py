"""Shares: exact coverage, accuracy against multiprecision, laws."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import reduce
from itertools import combinations_with_replacement, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals_oracles import TOLERANCE, mp_divergence, mp_log_tail, worst_misses

from holdfast.intervals import Interval, clopper_pearson, hoeffding, kl

ROWS = [1, 2, 3, 5, 10, 30, 100]
NATS = [0.0, 1e-6, 0.3, 1.0, 3.0, 10.0, 30.0]
LN2 = math.log(2.0)


def all_of(make, n):
    return [make(s, n) for s in range(n + 1)]


def forgets_both_sides(interval):
    """The twin that spends all of δ on each side."""
    return lambda *arguments: interval(*arguments[:-1], max(0.0, arguments[-1] - LN2))


@pytest.mark.parametrize("n", ROWS)
def test_clopper_pearson_covers_and_no_narrower_interval_would(n):
    for nats in NATS:
        one_side, both = worst_misses(all_of(lambda s, n, nats=nats: clopper_pearson(s, n, nats), n))
        assert both <= math.exp(-nats) * (1 + TOLERANCE)
        assert one_side <= 0.5 * math.exp(-nats) * (1 + TOLERANCE)
        assert one_side >= 0.5 * math.exp(-nats) * (1 - 1e-6)


@pytest.mark.parametrize("n", ROWS)
def test_kl_covers_and_is_exact_when_no_row_is_a_success(n):
    for nats in NATS:
        one_side, both = worst_misses(all_of(lambda s, n, nats=nats: kl(s / n, n, nats), n))
        assert both <= math.exp(-nats) * (1 + TOLERANCE)
        assert one_side <= 0.5 * math.exp(-nats) * (1 + TOLERANCE)
        assert one_side >= 0.5 * math.exp(-nats) * (1 - 1e-6)


@pytest.mark.parametrize("make", [clopper_pearson, lambda s, n, nats: kl(s / n, n, nats)])
def test_the_coverage_check_rejects_a_millionth_of_a_nat(make):
    one_side, _ = worst_misses(all_of(lambda s, n: make(s, n, 3.0 - 1e-6), 10))
    assert one_side > 0.5 * math.exp(-3.0) * (1 + TOLERANCE)


@pytest.mark.parametrize("make", [clopper_pearson, lambda s, n, nats: kl(s / n, n, nats)])
def test_the_coverage_check_rejects_a_twin_that_forgets_one_side(make):
    _, both = worst_misses(all_of(lambda s, n: forgets_both_sides(make)(s, n, 3.0), 30))
    assert both > math.exp(-3.0) * (1 + TOLERANCE)


@pytest.mark.parametrize("nats", [0.0, 3.0, 30.0])
def test_a_range_of_counts_has_the_hull_of_their_intervals(nats):
    for n in (1, 5, 12):
        for fewest, most in combinations_with_replacement(range(n + 1), 2):
            counts = range(fewest, most + 1)
            exact, chernoff = (
                [clopper_pearson(s, n, nats) for s in counts],
                [kl(s / n, n, nats) for s in counts],
            )
            assert clopper_pearson(fewest, n, nats, most=most) == reduce(Interval.hull, exact)
            assert kl(fewest / n, n, nats, most=most / n) == reduce(Interval.hull, chernoff)


def kl_ends(mean, n, nats):
    interval = kl(mean, n, nats)
    level = (mp.mpf(nats) + mp.log(2)) / n
    return mp.mpf(mean), mp.mpf(interval.low), mp.mpf(interval.high), level


@pytest.mark.parametrize("mean", [1e-9, 1e-3, 0.1, 0.5, 0.7, 0.999, 1 - 1e-9])
def test_kl_ends_are_safe_and_tight_against_multiprecision(mean):
    for nats, n in product([0.0, 1e-6, 0.1, 3.0, 50.0, 700.0, 5000.0, 1e6], [1, 10, 1000, 10**6, 10**9]):
        with mp.workdps(60):
            u, low, high, level = kl_ends(mean, n, nats)
            for end in (low, high):
                if 0 < end < 1:
                    assert mp_divergence(u, end) >= level
                    # Rounding outward moves the end by 3e-14 of itself, and ln(end) by 2e-14 of the level.
                    side = u if end < u else 1 - u
                    slack = mp.mpf("1e-12") + mp.mpf("3e-14") * level / side
                    nudge = mp.mpf("5e-14") * end + slack * min(abs(u - end), end)
                    inward = end + nudge if end < u else end - nudge
                    assert mp_divergence(u, inward) < level
                else:
                    assert mp_divergence(u, mp.mpf("1e-290") if end == 0 else 1 - mp.mpf("3e-14")) < level


def test_kl_closed_forms_at_the_ends():
    for n, nats in [(1, 0.0), (7, 3.0), (1000, 20.0), (10**9, 1e-6)]:
        expected = -math.expm1(-(nats + LN2) / n)
        assert kl(0.0, n, nats).high == pytest.approx(expected, rel=1e-13)
        assert clopper_pearson(0, n, nats).high == pytest.approx(expected, rel=1e-13)
        assert kl(1.0, n, nats).low == pytest.approx(1.0 - expected, rel=1e-13)
        assert clopper_pearson(n, n, nats).low == pytest.approx(1.0 - expected, rel=1e-13)
        assert kl(0.0, n, nats).low == clopper_pearson(0, n, nats).low == 0.0
        assert kl(1.0, n, nats).high == clopper_pearson(n, n, nats).high == 1.0


DELTA_1E300 = 300 * math.log(10)
TABLE = [
    (successes, n, nats)
    for n in (2, 5, 20, 60, 400, 10**4, 10**6, 10**9)
    for successes in sorted({1, 2, 3, n // 100, n // 3, n // 2, n - 2, n - 1})
    for nats in (1e-6, 1.0, 20.0, 300.0, 459.0, 461.0, DELTA_1E300, 5000.0)
    if 0 < successes < n and (nats >= 20.0 or n <= 10**6)
]


def excess_of_upper_end(successes, n, nats):
    """Nats by which the tail at the upper end is below its target (positive: safe)."""
    high = clopper_pearson(successes, n, nats).high
    # Near 1 the distance from 1 is read off the mirrored interval, where it keeps all its digits.
    w = 1 - mp.mpf(high) if high <= 0.5 else mp.mpf(clopper_pearson(n - successes, n, nats).low)
    return None if w == 0 else float(-mp.mpf(nats) - mp.log(2) - mp_log_tail(successes, n, w))


def test_clopper_pearson_is_safe_and_exact_against_multiprecision():
    with mp.workdps(40):
        checked = 0
        for successes, n, nats in TABLE:
            excess = excess_of_upper_end(successes, n, nats)
            if excess is None:
                # The distance from 1 is below 1e-290: no float to compare with.
                assert nats > 600.0
                assert n - successes <= 9
                continue
            checked += 1
            exact = nats + LN2 <= 460.0
            rounding = 1e-13 * math.sqrt(n * (nats + 1.0)) + 1e-9
            assert 0.0 <= excess <= (3 * rounding if exact else 0.002 + 3 * rounding), (successes, n, nats)
        assert checked > 300


def test_clopper_pearson_holds_where_the_inverse_beta_function_does_not():
    from scipy import special

    assert math.isnan(special.betaincinv(3, 3, 0.5 * math.exp(-400.0)))
    interval = clopper_pearson(3, 5, 400.0)
    assert 0.0 < interval.low < 1e-50
    tail = mp.log(sum(mp.binomial(5, k) * mp.mpf(interval.low) ** k for k in (3, 4, 5)))
    assert -400.0 - LN2 - 1e-6 <= float(tail) <= -400.0 - LN2


@pytest.mark.parametrize("nats", [5000.0, 1e6, 1e12])
@pytest.mark.parametrize("n", [1, 50, 10**4, 10**8])
def test_thousands_of_nats_stay_finite_and_ordered(n, nats):
    for successes in {0, 1, n // 7, n // 2, n}:
        exact, chernoff = clopper_pearson(successes, n, nats), kl(successes / n, n, nats)
        outer = hoeffding(successes / n, n, nats)
        assert 0.0 <= chernoff.low <= exact.low <= successes / n <= exact.high <= chernoff.high <= 1.0
        assert outer.hull(chernoff) == outer


shares = st.floats(0.0, 1.0)
row_counts = st.integers(1, 10**9)
nats_values = st.one_of(st.floats(0.0, 10.0), st.floats(0.0, 6000.0), st.floats(0.0, 1e6))


def within(inner: Interval, outer: Interval, tolerance: float = 1e-12) -> bool:
    return outer.low <= inner.low * (1 + tolerance) and inner.high <= outer.high + tolerance * outer.high


@st.composite
def successes_of_rows(draw):
    n = draw(row_counts)
    return draw(st.one_of(st.integers(0, n), st.integers(0, min(n, 5)), st.integers(max(0, n - 5), n))), n


@given(shares, row_counts, nats_values, nats_values)
def test_kl_is_nested_in_nats_and_holds_the_mean(mean, n, first, second):
    assert within(kl(mean, n, min(first, second)), kl(mean, n, max(first, second)))
    assert kl(mean, n, first).contains(mean)


@given(shares, row_counts, row_counts, nats_values)
def test_kl_narrows_with_rows(mean, first, second, nats):
    assert within(kl(mean, max(first, second), nats), kl(mean, min(first, second), nats))


@given(shares, shares, row_counts, nats_values)
def test_kl_moves_with_the_mean(first, second, n, nats):
    low, high = kl(min(first, second), n, nats), kl(max(first, second), n, nats)
    assert low.low <= high.low + 1e-12 * high.low
    assert low.high <= high.high + 1e-12 * high.high


@given(successes_of_rows(), nats_values, nats_values)
def test_clopper_pearson_is_nested_in_nats_and_within_kl_within_hoeffding(sample, first, second):
    successes, n = sample
    exact = clopper_pearson(successes, n, first)
    assert within(exact, clopper_pearson(successes, n, max(first, second)), 1e-9)
    assert within(exact, kl(successes / n, n, first))
    assert within(kl(successes / n, n, first), hoeffding(successes / n, n, first))
    assert exact.contains(successes / n)


@given(successes_of_rows(), nats_values)
def test_clopper_pearson_mirrors(sample, nats):
    successes, n = sample
    here, there = clopper_pearson(successes, n, nats), clopper_pearson(n - successes, n, nats)
    assert here.low == pytest.approx(1.0 - there.high, abs=1e-13)
    assert here.high == pytest.approx(1.0 - there.low, abs=1e-13)


@given(shares, row_counts, nats_values, st.floats(-100.0, 100.0), st.floats(0.01, 100.0))
def test_kl_is_equivariant_under_affine_maps(mean, n, nats, lo, span):
    hi = lo + span
    moved = min(max(lo + (hi - lo) * mean, lo), hi)
    plain, placed = kl(mean, n, nats), kl(moved, n, nats, lo=lo, hi=hi)
    # A rounded mean near an end moves the share by some 1e-14, and the limit by the root of that.
    slack = 1e-12 * (abs(lo) + abs(hi)) + 30 * math.sqrt(abs(lo) * 1e-15 * (hi - lo))
    assert placed.low == pytest.approx(lo + (hi - lo) * plain.low, abs=slack)
    assert placed.high == pytest.approx(lo + (hi - lo) * plain.high, abs=slack)
    mirrored = kl(-moved, n, nats, lo=-hi, hi=-lo)
    assert (mirrored.low, mirrored.high) == (-placed.high, -placed.low)


def test_small_means_near_an_end_keep_their_digits():
    near_zero = kl(1e-12, 10**6, 3.0)
    near_hi = kl(-1e-12, 10**6, 3.0, lo=-1.0, hi=0.0)
    assert near_hi.low == -near_zero.high
    assert near_hi.high == -near_zero.low


def test_no_rows_say_nothing():
    assert clopper_pearson(0, 0, 3.0) == Interval(0.0, 1.0)


def test_numpy_scalars_give_the_same():
    assert kl(np.float64(0.25), np.int64(400), np.float64(3.0)) == kl(0.25, 400, 3)
    assert clopper_pearson(np.int32(100), np.int64(400), 3) == clopper_pearson(100, 400.0, 3.0)


def test_the_room_does_not_load_what_it_does_not_need():
    check = (
        "import sys, holdfast.intervals; print('scipy.stats' in sys.modules, 'scipy.optimize' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
