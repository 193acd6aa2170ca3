"""The bounds that sizes rest on, each against an exact law: gaps, tails, ends of bands, thresholds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from holdfast.replicable._rounding import (
    CountThreshold,
    band_end,
    chernoff,
    divergence,
    mean_gap,
    share_gap,
)


@given(n=st.integers(1, 400))
def test_the_fair_coin_lies_as_far_apart_as_the_bound_and_no_further(n):
    exact = math.exp(special.gammaln(n + 0.5) - special.gammaln(n + 1)) / math.sqrt(math.pi)
    assert exact <= mean_gap(n) <= exact * (1.0 + 0.03 / n**2)


@given(n=st.integers(1, 60), p=st.floats(1e-6, 1 - 1e-6))
def test_shares_lie_no_further_apart_than_the_bound(n, p):
    law = stats.binom.pmf(np.arange(n + 1), n, p)
    exact = float(law @ np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) @ law) / n
    assert exact <= share_gap(n, p * (1.0 - p)) + 1e-12
    assert p * (1 - p) < 0.2 or exact < 2.0 * share_gap(n, 0.5 * p * (1.0 - p)) * 0.9


@given(
    n=st.integers(50, 3000),
    cut=st.floats(0.02, 0.4),
    items=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=40),
)
def test_the_sum_over_items_is_bounded_by_its_value_at_the_lowest_cutoff(n, cut, items):
    """Σ ∫ over cutoffs ≥ a of 2G(1−G) ≤ E|p1−p2| at p = a, divided by a, for shares that sum to one."""
    shares = np.array(items) / sum(items)
    grid = np.arange(math.ceil(cut * n), n + 1)
    below = stats.binom.cdf(grid[None, :] - 1, n, shares[:, None])
    total = float((2.0 * below * (1.0 - below)).sum()) / n
    partial = (grid[0] / n - cut) * float((2.0 * below[:, 0] * (1.0 - below[:, 0])).sum())
    assert total - float((2.0 * below[:, 0] * (1.0 - below[:, 0])).sum()) / n + partial <= share_gap(
        n, cut * (1.0 - cut)
    ) / cut * (1 + 1e-9)


@given(n=st.integers(1, 200), truth=st.floats(0.01, 0.99), share=st.floats(0.0, 1.0))
def test_chernoff_bounds_the_binomial_tail(n, truth, share):
    count = share * n
    if share >= truth:
        exact = stats.binom.sf(math.ceil(count - 1e-9) - 1, n, truth)
    else:
        exact = stats.binom.cdf(math.floor(count + 1e-9), n, truth)
    assert exact <= chernoff(n, math.floor(count + 1e-9) / n if share < truth else count / n, truth) + 1e-12
    assert divergence(share, truth) >= 2 * (share - truth) ** 2 - 1e-12


def test_the_end_of_a_band_is_as_near_the_limit_as_the_rows_allow():
    for n, inside, limit in ((1000, 0.5, 0.55), (1000, 0.5, 0.45), (10, 0.5, 0.55)):
        end = band_end(n, inside, limit, 0.01)
        assert chernoff(n, end, limit) <= 0.01 or end == inside
        assert chernoff(n, end + (limit - inside) * 1e-6, limit) > 0.01


@pytest.mark.parametrize(("n", "low", "high"), [(100, 0, 40), (1000, 50, 300), (50, 3, 3)])
def test_thresholds_have_the_weights_of_the_lemma(n, low, high):
    threshold = CountThreshold(n, low, high)
    drawn, counts = np.unique(threshold(np.linspace(0.0, 1.0, 200_001)), return_counts=True)
    assert drawn.tolist() == list(range(low, high + 1))
    arc = math.asin(math.sqrt((high + 2) / (n + 1))) - math.asin(math.sqrt((low + 1) / (n + 1)))
    weights = 1.0 / (2.0 * np.sqrt((drawn + 1.0) * (n - drawn))) / arc
    assert (counts / 200_001 <= weights + 2e-5).all()
    exact = special.bdtr(drawn, n, 0.3) @ (counts / 200_001)
    assert exact <= threshold.below(0.3) <= exact + 0.02
    assert 1.0 - exact <= threshold.above(0.3) + 1e-4
