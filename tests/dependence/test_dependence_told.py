"""m-dependent and Gaussian rows: statistics with bounded differences, and what private answers tell about all
rows together, against exact laws; twins that take the rows for independent are caught."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from holdfast.dependence import GaussianRows, Independent, MDependent
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, BayesianDP

THETAS = (0.01, 0.1, 0.3, 1.0, 3.0)


def windows(rng, n, m, *, copies=False):
    """All datasets of an m-dependent sequence with their chances: functions of m + 1 coins each."""
    coins = np.array(list(itertools.product(range(2), repeat=n + m)))
    chances = np.where(coins, 0.35, 0.65).prod(axis=1)
    if copies:
        rows = coins[:, [j // (m + 1) for j in range(n)]]
    else:
        table = rng.integers(0, 3, (n, 2 ** (m + 1)))
        places = 2 ** np.arange(m + 1)
        rows = np.stack([table[j][coins[:, j : j + m + 1] @ places] for j in range(n)], axis=1)
    return rows, chances


def one_step_statistics(rng, rows):
    """Statistics that move by at most 1 with one row: distances to chosen datasets."""
    yield (rows == rows[0]).sum(axis=1).astype(float)
    for _ in range(4):
        centres = rng.integers(0, rows.max() + 1, (3, rows.shape[1]))
        distances = (rows[:, None, :] != centres).sum(axis=2) + rng.uniform(0, 2, 3)
        yield distances.min(axis=1)


def moment_excess(values, chances, total):
    """The largest ln E e^{θ(q − E q)} − θ²·total/8, which no θ may make positive."""
    centred = values - chances @ values
    return max(
        math.log(float(chances @ np.exp(theta * centred))) - theta * theta * total / 8
        for theta in (*THETAS, *(-theta for theta in THETAS))
    )


def told_excess(values, chances, total, epsilon):
    """The largest ln E L^a − a(a−1)·total·ε²/8, L the likelihood ratio of an output of chance ∝ e^{εq}."""
    logs = epsilon * (values - values.max())
    logs = logs - math.log(float(chances @ np.exp(logs)))
    return max(
        math.log(float(chances @ np.exp(a * logs))) - a * (a - 1) * total * epsilon**2 / 8
        for a in (1.1, 1.5, 2.0, 4.0)
    )


@pytest.mark.parametrize(("n", "m"), [(6, 1), (7, 2), (5, 3), (6, 0)])
def test_m_dependent_rows_keep_both_bounds(rng, n, m):
    model = MDependent(n, m)
    for copies in (False, True):
        rows, chances = windows(rng, n, m, copies=copies)
        for values in one_step_statistics(rng, rows):
            assert moment_excess(values, chances, model._stretched) <= 1e-12
            for epsilon in (0.05, 0.8):
                assert told_excess(values, chances, model._stretched, epsilon) <= 1e-12


def test_a_twin_that_takes_m_dependent_rows_for_independent_is_caught(rng):
    rows, chances = windows(rng, 6, 2, copies=True)
    values = rows.sum(axis=1).astype(float)
    assert moment_excess(values, chances, 6) > 0.01
    assert told_excess(values, chances, 6, 0.8) > 0.01


@pytest.mark.parametrize("m", [0, 1, 3, 9, 40])
def test_stretches_are_counted_one_by_one(m):
    for n in [1, 2, 7, 30]:
        length = max(m, 1)
        sizes = [min(length + m, n - first) for first in range(0, n, length)]
        model = MDependent(n, m)
        expected = min(n * n, sum(size * size for size in sizes))
        assert model._stretched == expected
        tail = model.difference_tail(2.0)
        assert tail.sigma == pytest.approx(math.sqrt(sum(size * size for size in sizes)), rel=1e-9)
        if m == 0:
            assert tail.sigma == pytest.approx(Independent(n).difference_tail(2.0).sigma, rel=1e-9)
        some = np.linspace(0.5, 1.5, n)
        assert model.difference_tail(some).sigma <= model.difference_tail(1.5).sigma * (1 + 1e-9)


def test_bayesian_privacy_of_m_dependent_rows_is_that_of_all_rows():
    """A known row in between ties rows far apart: x_1 = z_1, x_2 = z_1 ⊕ z_2, x_3 = z_2."""
    assert MDependent(9, 2).bayesian_dp(DP(0.1)).epsilon == pytest.approx(0.9)
    assert MDependent(9, 0).bayesian_dp(DP(0.1)).epsilon == pytest.approx(0.1)
    assert MDependent(9, 2).required_dp(BayesianDP(0.9), "group").epsilon == pytest.approx(0.1)
    assert MDependent(900, 2).joint_epsilon(0.1) < 0.3


def equicorrelated(n, correlation):
    return GaussianRows(np.full((n, n), correlation) + (1 - correlation) * np.eye(n))


def count_law(n, correlation, above=0.0):
    """The law of how many of n equicorrelated standard normals lie above a level, by quadrature."""
    common = np.linspace(-9, 9, 4001)
    weights = norm.pdf(common)
    weights /= weights.sum()
    chance = norm.sf((above - math.sqrt(correlation) * common) / math.sqrt(1 - correlation))
    return weights @ binom.pmf(np.arange(n + 1)[None, :], n, chance[:, None])


@pytest.mark.parametrize(("n", "correlation"), [(5, 0.2), (20, 0.1), (60, 0.05), (60, 0.5)])
@pytest.mark.parametrize("above", [0.0, 1.0])
def test_gaussian_rows_keep_both_bounds(n, correlation, above):
    model = equicorrelated(n, correlation)
    chances = count_law(n, correlation, above)
    counts = np.arange(n + 1.0)
    for values in (counts, np.minimum(counts, n // 2), np.abs(counts - n / 2)):
        assert moment_excess(values, chances, 4 * model.difference_tail(1.0).sigma ** 2) <= 1e-9
        for epsilon in (0.02, 0.5):
            assert told_excess(values, chances, model._revealed(epsilon), epsilon) <= 1e-9


def test_a_twin_that_takes_gaussian_rows_for_independent_is_caught():
    chances, counts = count_law(20, 0.1), np.arange(21.0)
    assert equicorrelated(20, 0.1)._revealed(0.1) < 70
    assert moment_excess(counts, chances, 20) > 0.01
    assert told_excess(counts, chances, 20, 0.5) > 0.01


def test_gaussian_blocks_count_apart_and_scales_do_not_matter():
    block = np.full((3, 3), 0.4) + 0.6 * np.eye(3)
    joined = np.zeros((7, 7))
    joined[:3, :3] = joined[3:6, 3:6] = block
    joined[6, 6] = 1.0
    model = GaussianRows(joined)
    assert model.bayesian_dp(DP(0.1)).epsilon == pytest.approx(0.3)
    assert model.required_dp(BayesianDP(0.3)).epsilon == pytest.approx(0.1)
    alone = 4 * GaussianRows(block).difference_tail(1.0).sigma ** 2
    assert 4 * model.difference_tail(1.0).sigma ** 2 == pytest.approx(2 * alone + 1, rel=1e-9)
    scales = np.diag(np.linspace(0.1, 50.0, 7))
    scaled = GaussianRows(scales @ joined @ scales)
    assert scaled.difference_tail(1.0).sigma == pytest.approx(model.difference_tail(1.0).sigma, rel=1e-9)
    independent = GaussianRows(np.diag([1.0, 2.0, 0.0, 3.0]))
    assert independent.difference_tail(0.5).sigma == pytest.approx(0.5, rel=1e-9)
    assert independent._revealed(0.3) == pytest.approx(4, rel=1e-9)
    assert independent._revealed(0.0) == 4
    copies = GaussianRows(np.ones((4, 4)))  # no least eigenvalue: group privacy
    assert copies.difference_tail(1.0).sigma == pytest.approx(2.0, rel=1e-9)
    assert copies._revealed(0.3) == pytest.approx(16, rel=1e-9)


def test_weakly_correlated_gaussian_rows_tell_little_more_than_independent_ones():
    """A stationary autoregression: its correlations have eigenvalues in a fixed interval, however long."""
    for n in (50, 400):
        lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        model = GaussianRows(0.3**lags)
        assert n < model._revealed(0.01) < 3 * n
        assert model.bayesian_dp(DP(0.01)).epsilon == pytest.approx(0.01 * n)
        assert model.joint_epsilon(0.01) < 0.018
        assert model.share_tail().radius(0.05) == model.statistic_tail().radius(0.05)
    with pytest.raises(InvalidArgument, match="differences"):
        model.difference_tail([1.0, 2.0])


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 5.0, 40.0])
def test_the_steepest_slope_of_a_private_answer_under_gaussian_noise(epsilon):
    """Over all f between 1 and e^ε the slope of ln E f(t + Z) is steepest for a half line."""
    cuts = np.linspace(-12, 12, 400_001)
    rise = math.expm1(epsilon)
    slopes = rise * norm.pdf(cuts) / (1 + rise * norm.sf(cuts))
    # Of two rows with this correlation, 2 + 16·slope²·correlation/(1 − correlation)/ε² ε²-parts are revealed
    # where independent rows reveal 2 (docs/theory/reusable-holdout.md, Gaussian rows).
    correlation = 0.1
    pair = GaussianRows([[1.0, correlation], [correlation, 1.0]])
    revealed = 2 * (pair.joint_epsilon(epsilon) / epsilon) ** 2
    assert 2 < revealed < 4
    found = epsilon * math.sqrt((revealed - 2) * (1 - correlation) / (16 * correlation))
    assert slopes.max() <= found <= slopes.max() * (1 + 1e-6)
    rng = np.random.default_rng(0)
    grid = np.linspace(-8, 8, 2001)
    for _ in range(20):
        f = np.exp(epsilon * rng.random(2001).round(int(rng.integers(0, 3))))
        assert abs(norm.pdf(grid) @ (f * grid)) / (norm.pdf(grid) @ f) <= found
