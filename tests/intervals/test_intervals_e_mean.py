"""The e-value interval for bounded means: exact coverage on small laws, its twin, its laws, its width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from importlib.resources import files
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from contracts.examples import thinned
from enumeration import all_counts
from holdfast.errors import InvalidArgument
from holdfast.intervals import e_mean, e_mean_rates, empirical_bernstein, hoeffding

NATS = (math.log(2), 3.0, 6 * math.log(10))


def outcomes(values, weights, n) -> Iterator[tuple[float, float, float]]:
    """Every sample of size n up to order: its probability, mean and variance."""
    law = stats.multinomial(n, weights)
    for counts in all_counts(n, len(values)):
        mean = float(np.dot(counts, values)) / n
        around = float(np.dot(counts, (np.asarray(values) - mean) ** 2))
        yield float(law.pmf(counts)), mean, around / max(1, n - 1)


def misses(values, weights, n, nats, rates) -> tuple[float, float]:
    """The exact probabilities that the lower end is above the mean, and that the upper end is below it."""
    truth = float(np.dot(values, weights))
    above = below = 0.0
    for chance, mean, variance in outcomes(values, weights, n):
        inside = e_mean(mean, variance, n, nats, rates=rates)
        above += chance * (inside.low > truth)
        below += chance * (inside.high < truth)
    return above, below


TWO_POINTS = [((0.0, 1.0), 0.5), ((0.0, 1.0), 0.03), ((0.0, 0.3), 0.74), ((0.6, 1.0), 0.9)]


@pytest.mark.parametrize(
    ("n", "points", "nats"), thinned(itertools.product([1, 5, 20, 100], TWO_POINTS, NATS), 5)
)
def test_each_side_fails_with_at_most_half_of_the_error_on_two_points(n, points, nats) -> None:
    values, upper = points
    weights = (1 - upper, upper)
    truth = float(np.dot(values, weights))
    spread = float(np.dot(np.square(values), weights)) - truth**2
    for rates in (
        e_mean_rates(truth, spread, n, nats),
        (0.9 / max(truth, 0.1), 0.5),
        ([0.1, 1.0], [0.2, 2.0]),
    ):
        above, below = misses(values, weights, n, nats, rates)
        assert above <= math.exp(-nats) / 2
        assert below <= math.exp(-nats) / 2


@pytest.mark.parametrize("weights", [(0.2, 0.5, 0.3), (0.9, 0.05, 0.05), (0.05, 0.05, 0.9)])
@pytest.mark.parametrize("n", [3, 20])
def test_each_side_fails_with_at_most_half_of_the_error_on_three_points(n, weights) -> None:
    values = (0.0, 0.4, 1.0)
    for nats, rates in product((math.log(2), 4.0), ((0.5, 0.5), (1.4, 1.1))):
        above, below = misses(values, weights, n, nats, rates)
        assert max(above, below) <= math.exp(-nats) / 2


def kappa(share):
    """The least number with ln(1 + y) ≥ y − κy² for all y ≥ −share."""
    return (-np.log1p(-share) - share) / share**2


def lower_end(mean, variance, n, nats, rate, kappa) -> float:
    """The largest end of a fine grid from the mean down to 0 that the bets reject, where they lose no more
    than they have."""
    if mean == 0:
        return 0.0
    ends = np.linspace(mean, 0, 20_001)[1:-1]
    ends = ends[rate * ends < 1]
    spread = (n - 1) * variance + n * (mean - ends) ** 2
    evidence = n * rate * (mean - ends) - kappa(rate * ends) * rate**2 * spread
    rejected = np.flatnonzero(evidence >= nats + math.log(2))
    return float(ends[rejected[0]]) if len(rejected) else 0.0


def test_a_twin_that_forgets_how_far_a_loss_can_go_is_caught() -> None:
    """κ = ½ everywhere is right for small bets only."""
    upper, n, nats = 0.74, 100, 10.0
    rate = 0.999 / upper
    weights, missed = (1 - upper, upper), 0.0
    assert misses((0.0, 1.0), weights, n, nats, (rate, 0.5))[0] <= math.exp(-nats) / 2
    for chance, mean, variance in outcomes((0.0, 1.0), weights, n):
        low = e_mean(mean, variance, n, nats, rates=(rate, 0.5)).low
        assert low == pytest.approx(lower_end(mean, variance, n, nats, rate, kappa), abs=1e-3)
        missed += chance * (lower_end(mean, variance, n, nats, rate, lambda share: 0.5) > upper)
    assert missed > 2 * math.exp(-nats) / 2


def test_values_with_means_of_their_own_are_covered_on_average() -> None:
    """Independent rows with different laws: every sample of forty such coins, exactly."""
    chances, nats, n = np.linspace(0.02, 0.5, 40), math.log(4), 40
    law = np.array([1.0])  # of the number of ones
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    missed = 0.0
    for ones, probability in enumerate(law):
        mean = ones / n
        inside = e_mean(mean, n / (n - 1) * mean * (1 - mean), n, nats, rates=(0.6, 0.6))
        missed += float(probability) * (not inside.low <= chances.mean() <= inside.high)
    assert 0 < missed <= math.exp(-nats)


def test_the_bound_is_below_the_product_itself() -> None:
    """At its ends the interval rejects by the product too, with room to spare."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        rows = rng.beta(*rng.uniform(0.3, 4, 2), size=int(rng.integers(5, 200)))
        nats = float(rng.uniform(0.1, 8))
        rates = e_mean_rates(0.5, float(rng.uniform(0.01, 0.2)), len(rows), nats)
        inside = e_mean(rows.mean(), rows.var(ddof=1), len(rows), nats, rates=rates)
        level = nats + math.log(2)
        if inside.low > 0:
            assert np.log1p(rates[0] * (rows - inside.low)).sum() >= level
        if inside.high < 1:
            assert np.log1p(rates[1] * (inside.high - rows)).sum() >= level


@given(
    mean=st.floats(0, 1),
    variance=st.floats(0, 0.25),
    n=st.integers(1, 10**9),
    nats=st.floats(0, 1e6),
    rate=st.floats(1e-6, 100),
)
def test_more_nats_never_make_it_narrower_and_units_do_not_matter(mean, variance, n, nats, rate) -> None:
    inside = e_mean(mean, variance, n, nats, rates=(rate, rate))
    assert 0 <= inside.low <= mean <= inside.high <= 1
    wider = e_mean(mean, variance, n, nats + 1, rates=(rate, rate))
    assert wider.low <= inside.low + 1e-9
    assert inside.high - 1e-9 <= wider.high
    scaled = e_mean(7 * mean - 3, 49 * variance, n, nats, lo=-3, hi=4, rates=(rate / 7, rate / 7))
    assert (scaled.low, scaled.high) == pytest.approx((7 * inside.low - 3, 7 * inside.high - 3), abs=1e-6)


def test_it_is_narrower_than_what_knows_less() -> None:
    """Prices of diamonds: about the normal radius, where empirical Bernstein is a third wider."""
    prices = pd.read_parquet(str(files("holdfast") / "data" / "diamonds.parquet"))["price"].to_numpy(float)
    chosen = np.random.default_rng(0).permutation(prices)[:8_000]
    train, rows = chosen[:2_667], chosen[2_667:]
    terms = {"lo": 0.0, "hi": 20_000.0}
    for nats in (3.7, 20.0):
        reach = 3 * train.std() / math.sqrt(len(rows))
        rates = e_mean_rates(train.mean(), train.var(ddof=1), len(rows), nats, reach=reach, **terms)
        inside = e_mean(rows.mean(), rows.var(ddof=1), len(rows), nats, rates=rates, **terms)
        normal = rows.std() * math.sqrt(2 * (nats + math.log(2)) / len(rows))
        other = empirical_bernstein(rows.mean(), rows.var(ddof=1), len(rows), nats, **terms)
        assert inside.half_width < 1.1 * normal
        assert inside.half_width < 0.82 * other.half_width
        assert inside.half_width < 0.5 * hoeffding(rows.mean(), len(rows), nats, **terms).half_width


@pytest.mark.parametrize("rates", [(1.0,), (0.0, 1.0), (1.0, math.nan), ([], 1.0), (1.0, 2.0, 3.0)])
def test_bad_rates_are_named(rates) -> None:
    with pytest.raises(InvalidArgument, match="rates"):
        e_mean(0.5, 0.1, 10, 1.0, rates=rates)


def test_a_variance_of_zero_gives_rates_all_the_same() -> None:
    rates = e_mean_rates(0.0, 0.0, 100, 3.0)
    assert all(rate > 0 for rate in rates)
    assert e_mean(0.0, 0.0, 100, 3.0, rates=rates).high < 0.06
