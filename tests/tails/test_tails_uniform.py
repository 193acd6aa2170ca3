"""Uniform convergence: Sauer's sum is exact for simple classes, and the bound holds for thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.tails import uniform_convergence, uniform_convergence_rows


@pytest.mark.parametrize("n", [100, 115, 130])
def test_sauers_sum_counts_thresholds_and_intervals(n):
    """The bound is 4·S·exp(−n·deviation²/8); S counts the subsets of 2n points that a class cuts out."""
    line = np.arange(2 * n)
    thresholds = {bytes(line < cut) for cut in range(2 * n + 1)}
    intervals = {bytes((low <= line) & (line < high)) for low in line for high in range(low, 2 * n + 1)}

    def counted(vc):
        return uniform_convergence(vc=vc, n=n, deviation=1.0) / (4.0 * math.exp(-n / 8.0))

    assert counted(1) == pytest.approx(len(thresholds), rel=1e-9)
    assert counted(2) == pytest.approx(len(intervals), rel=1e-9)
    # A dimension too small is caught by the count.
    assert counted(1) < len(intervals) / 2


def test_a_class_that_cuts_out_every_subset_is_promised_nothing():
    assert uniform_convergence(vc=200, n=100, deviation=1.0) == 1.0
    assert uniform_convergence(vc=300, n=100, deviation=1.0) == 1.0


@pytest.mark.parametrize("n", [50, 400, 3000])
def test_the_largest_deviation_of_thresholds_is_within_the_bound(n):
    for deviation in (0.05, 0.1, 0.3, 0.6):
        exact = stats.kstwo.sf(deviation, n)
        assert exact <= uniform_convergence(vc=1, n=n, deviation=deviation)
    # With n in place of n/8 in the exponent and no count, the twin is below the exact tail.
    assert stats.kstwo.sf(1.0 / math.sqrt(n), n) > 0.5 * math.exp(-n / n)


def test_rows_are_the_fewest_and_the_printed_form_needs_more():
    ask = {"vc": 3, "deviation": 0.1, "beta": 0.05}
    rows = uniform_convergence_rows(**ask)
    assert rows == 28_341 < uniform_convergence_rows(**ask, method="paper") == 29_903
    assert uniform_convergence(vc=3, n=rows, deviation=0.1) <= 0.05
    assert uniform_convergence(vc=3, n=rows - 1, deviation=0.1) > 0.05
    with pytest.raises(InvalidArgument, match="vc"):
        uniform_convergence(vc=1, n=10, deviation=0.1, method="paper")
