"""Joint draws: exact on tiny domains, ten thousand pairs at the smallest size, and sizes that are refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, gaussian_mean, histogram, sample_size
from holdfast.replicable._joint import (
    _beyond,
    _shares_distance,
    covariance_argument,
    draw_mean,
    draw_shares,
    known_mean_design,
    mismatch_of,
    noise_for,
    shares_design,
)
from limits import PAIRS, lower_limit

COVARIANCE = [[4.0, 1.0, 0.5], [1.0, 2.0, -0.3], [0.5, -0.3, 1.0]]


def samples_of(rows, law):
    """Every table of counts and its probability."""
    k = len(law)
    for bars in itertools.combinations(range(rows + k - 1), k - 1):
        edges = (-1, *bars, rows + k - 1)
        counts = np.diff(edges) - 1
        yield counts, stats.multinomial.pmf(counts, rows, law)


def exact_mismatch(rows, law, noise):
    """(least, most) that shared coins can differ, over all pairs of samples: T and 2T/(1 + T)."""
    counts, weights = zip(*samples_of(rows, law), strict=True)
    shares = np.array(counts) / rows
    apart = np.linalg.norm(shares[:, None, :] - shares[None, :, :], axis=2)
    distance = 2.0 * stats.norm.cdf(apart / (2.0 * noise)) - 1.0
    pairs = np.outer(weights, weights)
    return float((pairs * distance).sum()), float((pairs * 2.0 * distance / (1.0 + distance)).sum())


@pytest.mark.parametrize("law", [(0.5, 0.5), (0.9, 0.1), (1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1)])
@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_the_mismatch_of_shares_by_enumeration(law, rho):
    rows = 9
    noise = noise_for(_shares_distance(len(law)) / math.sqrt(rows), rho)
    assert exact_mismatch(rows, law, noise)[1] <= rho
    assert mismatch_of(_shares_distance(len(law)) / math.sqrt(rows), noise) == pytest.approx(rho, rel=1e-9)
    # A third of the noise: even coins that agree as often as anything can would differ too often.
    assert max(law) > 0.5 or exact_mismatch(rows, law, noise / 3.0)[0] > rho


def test_shares_differ_exactly_as_often_as_the_laws_of_two_samples_are_apart(seed):
    """Two categories, one contrast: coins differ with probability T, for the counts of two tiny samples."""
    noise, trials = 0.4, 1500
    first, second = np.array([3, 6]) / 9.0, np.array([5, 4]) / 9.0
    tapes = [Tape(seed).branch(number) for number in range(trials)]
    differ = sum(
        not np.array_equal(draw_shares(first, noise, tape), draw_shares(second, noise, tape))
        for tape in tapes
    )
    apart = 2.0 * stats.norm.cdf(np.linalg.norm(first - second) / (2.0 * noise)) - 1.0
    # Draws beyond the simplex are cut to its ends, where different draws may become one result.
    assert stats.binomtest(differ, trials, apart, "greater").pvalue > 1e-6
    assert differ > 0.5 * apart * trials


def test_noise_on_shares_sums_to_zero_and_has_the_stated_variance(seed):
    shares = np.array([0.4, 0.35, 0.25])
    assert np.abs(draw_shares(shares, 1e-9, Tape("study-7")) - shares).max() < 1e-8
    noise, count = 0.01, 1500
    drawn = np.array([draw_shares(shares, noise, Tape(seed).branch(i)) for i in range(count)]) - shares
    assert np.abs(drawn.sum(axis=1)).max() < 1e-15
    expected = noise**2 * (np.eye(3) - 1.0 / 3.0)
    assert np.abs(np.cov(drawn.T) - expected).max() < 5.0 * noise**2 * math.sqrt(2.0 / count)


def test_ten_thousand_pairs_of_shares_at_the_smallest_size(rng, seed):
    """Half through the function, all through the exact distance of the two laws."""
    k, ask = 4, (0.2, 0.2, 0.1)
    plan = shares_design(k, *ask)
    counts = rng.multinomial(plan.rows, np.full(k, 0.25), (2, PAIRS)) / plan.rows
    apart = np.linalg.norm(counts[0] - counts[1], axis=1)
    distance = 2.0 * stats.norm.cdf(apart / (2.0 * plan.width)) - 1.0
    assert (2.0 * distance / (1.0 + distance)).mean() <= 0.2
    pairs = 800
    drawn = [
        [draw_shares(counts[lab][i], plan.width, Tape(seed).branch(i)) for i in range(pairs)]
        for lab in (0, 1)
    ]
    differ = sum(not np.array_equal(*pair) for pair in zip(*drawn, strict=True))
    assert lower_limit(differ, pairs) <= 0.2
    off = 0.5 * np.abs(np.array(drawn[0]) - 0.25).sum(axis=1)
    assert lower_limit(int((off > 0.2).sum()), pairs) <= 0.1
    private = sum(
        not np.array_equal(draw_shares(counts[1][i], plan.width, Tape(seed).branch("own").branch(i)), first)
        for i, first in enumerate(drawn[0][:200])
    )
    assert private == 200


@pytest.mark.parametrize(
    ("d", "method"), [(1, "joint"), (3, "joint"), (14, "joint"), (2, "grid"), (6, "grid")]
)
def test_pairs_of_known_means_at_the_smallest_size(d, method, rng, seed):
    accuracy, rho, beta, pairs = 0.5, 0.2, 0.1, 500
    plan = known_mean_design(d, accuracy, rho, beta, method, of="here")
    base = rng.normal(size=(d, 2 * d + 2))
    factor = covariance_argument(base @ base.T, d, of="here")
    full = np.array([line + [0.0] * (d - len(line)) for line in factor])
    mean = rng.normal(size=d) * 10.0
    centres = mean + rng.normal(size=(2, pairs, d)) @ full.T / math.sqrt(plan.rows)
    drawn = np.array(
        [
            [draw_mean(centres[lab][i], factor, plan, Tape(seed).branch(i)) for i in range(pairs)]
            for lab in (0, 1)
        ]
    )
    assert lower_limit(int((drawn[0] != drawn[1]).any(axis=1).sum()), pairs) <= rho
    away = np.linalg.norm(np.linalg.solve(full, (drawn[0] - mean).T), axis=0)
    assert lower_limit(int((away > accuracy).sum()), pairs) <= beta
    # Both bounds are near what happens: a tenth of the rows is caught.
    few = mean + rng.normal(size=(2, 200, d)) @ full.T / math.sqrt(plan.rows / 10)
    parted = sum(
        not np.array_equal(*(draw_mean(few[lab][i], factor, plan, Tape(seed).branch(i)) for lab in (0, 1)))
        for i in range(200)
    )
    assert lower_limit(parted, 200) > rho


@pytest.mark.parametrize(("d", "cell"), [(1, 3.0), (2, 10.0), (5, 40.0)])
def test_the_error_of_a_grid_is_bounded_from_above_and_closely(d, cell, rng):
    squares = ((cell * (rng.random((200_000, d)) - 0.5) + rng.normal(size=(200_000, d))) ** 2).sum(axis=1)
    reach = math.sqrt(np.quantile(squares, 0.95))
    assert 0.048 <= _beyond(reach, d, cell) <= 0.058
    if d == 1:
        exact = 2.0 * np.mean(stats.norm.sf(reach - cell * ((np.arange(10**5) + 0.5) / 10**5 - 0.5)))
        assert exact <= _beyond(reach, d, cell)


def test_the_functions_on_rows():
    rng = np.random.default_rng(3)
    ask = {"accuracy": 0.5, "rho": 0.3, "beta": 0.1}
    tape = Tape("study-7")
    rows = sample_size("gaussian_mean", dimension=3, known_covariance=True, method="joint", **ask)
    tables = [rng.multivariate_normal([5.0, -2.0, 0.0], COVARIANCE, rows) for _ in range(2)]
    first, second = (
        gaussian_mean(table, covariance=COVARIANCE, method="joint", tape=tape, **ask) for table in tables
    )
    assert first == second
    assert np.abs(first.value - [5.0, -2.0, 0.0]).max() < 1.5
    assert first.details["method"] == "joint"
    assert first.details["needed"] == rows
    cheaper = gaussian_mean(tables[0], covariance=COVARIANCE, tape=tape, **ask)
    assert cheaper.details["method"] == "grid"
    assert cheaper.details["needed"] < rows
    with pytest.raises(NotEnoughRows):
        gaussian_mean(tables[0][1:], covariance=COVARIANCE, method="joint", tape=tape, **ask)
    needed = sample_size("histogram", categories=3, method="joint", **ask)
    items = [rng.choice(3, size=needed, p=[0.5, 0.3, 0.2]) for _ in range(2)]
    one, two = (histogram(sample, 3, method="joint", tape=tape, **ask) for sample in items)
    assert one == two
    assert math.fsum(one.value) == pytest.approx(1.0)
    assert needed > sample_size("histogram", categories=3, **ask)
    with pytest.raises(NotEnoughRows):
        histogram(items[0][1:], 3, method="joint", tape=tape, **ask)


def test_best_effort_says_what_fewer_rows_promise():
    ask = {"accuracy": 0.5, "rho": 0.2, "beta": 0.1}
    tape = Tape("study-7")
    few = gaussian_mean([1.0, 2.0, 3.0], covariance=1.0, method="joint", best_effort=True, tape=tape, **ask)
    assert few.guarantee.rho > 0.2
    assert few.beta > 0.1
    for method in ("joint", "grid"):
        plan = known_mean_design(3, 0.5, 0.2, 0.1, method, of="here")
        rho, beta = plan.mismatch(plan.rows), plan.failure(plan.rows)
        assert (rho, beta) == (pytest.approx(0.2, rel=1e-3), pytest.approx(0.1, rel=1e-2))
        assert plan.mismatch(plan.rows // 4) > rho
        assert plan.failure(plan.rows // 4) > beta
    plan = shares_design(3, 0.5, 0.2, 0.1)
    rho, beta = plan.mismatch(plan.rows), plan.failure(plan.rows)
    assert rho == pytest.approx(0.2, rel=1e-6)
    assert 0.1 <= beta < 0.2
    share = histogram([0, 1, 2, 0], 3, method="joint", best_effort=True, tape=tape, **ask)
    assert share.guarantee.rho > 0.9
    assert share.beta == 1.0


def test_equal_draws_give_equal_bits_whatever_the_sample():
    """The factor is computed by exactly rounded sums, and the result from the draw alone."""
    factor = covariance_argument(COVARIANCE, 3, of="here")
    full = np.array([line + [0.0] * (3 - len(line)) for line in factor])
    assert np.allclose(full @ full.T, COVARIANCE, rtol=1e-14)
    plan = known_mean_design(3, 0.5, 0.1, 0.1, "joint", of="here")
    means = [draw_mean(np.array([1.0, 2.0, 3.0]) + 1e-6 * i, factor, plan, Tape("study-7")) for i in range(9)]
    assert all(np.array_equal(means[0], mean) for mean in means)


@pytest.mark.parametrize(
    ("argument", "run"),
    [
        ("method", lambda: sample_size("histogram", categories=22, accuracy=0.1, rho=0.1, method="joint")),
        ("method", lambda: histogram([0, 1], 2, accuracy=0.1, rho=0.1, tape=Tape("a"), method="darts")),
        ("method", lambda: _mean(np.ones((5, 21)), covariance=np.eye(21), method="joint")),
        ("method", lambda: _mean(np.ones((5, 2)), method="joint")),
        ("method", lambda: sample_size("gaussian_mean", accuracy=0.1, rho=0.1, beta=0.1, method="grid")),
        ("covariance", lambda: _mean(np.ones((5, 2)), covariance=[[1.0, 2.0], [2.0, 1.0]])),
        ("covariance", lambda: _mean(np.ones((5, 2)), covariance=[[1.0, 0.5], [0.4, 1.0]])),
        ("covariance", lambda: _mean(np.ones((5, 2)), covariance=np.eye(3))),
        ("covariance", lambda: _mean(np.ones((5, 2)), covariance="identity")),
        ("covariance", lambda: _mean(np.ones(5), covariance=0.0)),
    ],
)
def test_mistakes_are_named(argument, run):
    with pytest.raises(InvalidArgument) as caught:
        run()
    assert caught.value.argument == argument


def _mean(x, **given):
    return gaussian_mean(x, accuracy=0.5, rho=0.1, beta=0.1, tape=Tape("study-7"), **given)
