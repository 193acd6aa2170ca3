"""The mean of a Gaussian with unknown covariance: least squares in turn, and ten thousand pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln, polygamma

from contracts.examples import examples
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, gaussian_mean, sample_size
from holdfast.replicable._gaussian import GaussianGrid, _failure, _grid, _mismatch, law_of_sum, round_in_turn
from limits import PAIRS, lower_limit, upper_limit

PROMISE = {"accuracy": 0.5, "rho": 0.2, "beta": 0.1}


def _statistics(rng, rows, mean, factor, samples):
    """Sample means and Cholesky factors of the centred sums of squares (Bartlett)."""
    d = len(mean)
    inner = np.zeros((samples, d, d))
    inner[:, range(d), range(d)] = np.sqrt(rng.chisquare(rows - 1.0 - np.arange(d), (samples, d)))
    below = np.tril_indices(d, -1)
    inner[:, below[0], below[1]] = rng.normal(size=(samples, below[0].size))
    return mean + rng.normal(size=(samples, d)) @ factor.T / math.sqrt(rows), factor @ inner


def _laws(d):
    near_one = np.full((d, d), 0.9999) + 0.0001 * np.eye(d)
    return {
        "standard": (np.zeros(d), np.eye(d)),
        "twelve orders of magnitude": (np.full(d, 1e3), np.diag(np.geomspace(1e-6, 1e6, d))),
        "nearly collinear": (np.arange(d) * 100.0, near_one),
        "random": (np.zeros(d), np.cov(np.random.default_rng(5).normal(size=(d, 3 * d))).reshape(d, d)),
    }


@pytest.mark.parametrize(
    ("d", "accuracy", "rho", "beta"), [(1, 0.1, 0.1, 0.05), (3, 0.5, 0.2, 0.1), (6, 0.2, 0.1, 0.05)]
)
@pytest.mark.parametrize("law", _laws(2))
def test_ten_thousand_pairs_at_the_smallest_size(d, accuracy, rho, beta, law, rng):
    grid = _grid(d, accuracy, rho, beta)
    mean, covariance = _laws(d)[law]
    factor = np.linalg.cholesky(covariance)
    coins = rng.uniform(size=(PAIRS, 2 * d))
    first, second, other = (
        round_in_turn(*_statistics(rng, grid.rows, mean, factor, PAIRS), grid.rows, grid, c)[0]
        for c in (coins, coins, rng.uniform(size=coins.shape))
    )
    assert lower_limit(int((first != second).any(axis=1).sum()), PAIRS) <= rho
    distance = np.linalg.norm(np.linalg.solve(factor, (first - mean).T), axis=0)
    assert lower_limit(int((distance > accuracy).sum()), PAIRS) <= beta
    assert lower_limit(int((first != other).any(axis=1).sum()), PAIRS) > rho


def test_samples_of_different_sizes_agree_too(rng):
    grid = _grid(3, 0.5, 0.2, 0.1)
    coins = rng.uniform(size=(PAIRS, 6))
    first, second = (
        round_in_turn(*_statistics(rng, rows, np.zeros(3), np.eye(3), PAIRS), rows, grid, coins)[0]
        for rows in (grid.rows, 5 * grid.rows)
    )
    assert upper_limit(int((first != second).any(axis=1).sum()), PAIRS) <= 0.2


def test_rounding_without_prediction_is_caught(rng):
    """Coordinates rounded on their own grids do not keep the Mahalanobis distance of correlated rows."""
    grid = _grid(3, 0.5, 0.2, 0.1)
    mean, covariance = _laws(3)["nearly collinear"]
    factor = np.linalg.cholesky(covariance)
    centre, _ = _statistics(rng, grid.rows, mean, factor, 1000)
    rounded = centre + grid.width * rng.uniform(-0.5, 0.5, centre.shape)
    distance = np.linalg.norm(np.linalg.solve(factor, (rounded - mean).T), axis=0)
    assert lower_limit(int((distance > 0.5).sum()), 1000) > 0.5


def test_a_coordinate_is_predicted_by_least_squares(rng):
    x = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4)) + 7.0
    grid = GaussianGrid(0.3, 0.5, 50)
    coins = rng.uniform(size=8)
    factor = np.linalg.cholesky((x - x.mean(axis=0)).T @ (x - x.mean(axis=0)))
    rounded, scales = round_in_turn(x.mean(axis=0), factor, 50, grid, coins)
    for j in range(4):
        design = np.column_stack([np.ones(50), x[:, :j]])
        coefficients, residual, _, _ = np.linalg.lstsq(design, x[:, j])
        predicted = coefficients @ np.append(1.0, rounded[:j])
        assert abs(rounded[j] - predicted) <= 0.3 * scales[j] / 2.0 * (1.0 + 1e-6)
        assert abs(math.log(scales[j] / math.sqrt(residual[0] / (48.0 - j)))) <= 0.25 + 0.02


@pytest.mark.parametrize("freedom", [2, 5, 30, 1000])
def test_two_log_variances_differ_by_at_most_the_bound(freedom):
    """E|ln F| for F with k and k degrees of freedom, of log-density −k ln(2 cosh(y/2)) + constant."""

    def density(y):
        return math.exp(-betaln(freedom / 2, freedom / 2) - freedom * math.log(2.0 * math.cosh(y / 2.0)))

    spread = 60.0 / math.sqrt(freedom)
    exact = 2.0 * quad(lambda y: y * density(y), 0.0, spread, limit=200)[0]
    bound = 2.0 * math.sqrt(polygamma(1, freedom / 2.0) / math.pi)
    assert exact <= bound * (1.0 + 1e-9)
    assert freedom < 5 or exact >= 0.95 * bound


def test_the_leverage_is_what_the_proof_says(rng):
    """1/n + Σ w²U²e^{2hU'}/κ, of mean 1/n + w²/12·sinh(h)/h·Σ 1/κ, whatever the covariance."""
    rows, d = 40, 4
    grid = GaussianGrid(2.0, 1.0, rows)
    mean, covariance = _laws(d)["nearly collinear"]
    centre, factor = _statistics(rng, rows, mean, np.linalg.cholesky(covariance), 40_000)
    rounded, _ = round_in_turn(centre, factor, rows, grid, rng.uniform(size=(40_000, 2 * d)))
    gap = np.linalg.solve(factor, (rounded - centre)[..., None])[..., 0]
    freedom = rows - 1.0 - np.arange(d)
    normaliser = 2.0 * np.exp(polygamma(0, freedom / 2.0))
    expected = 4.0 / 12.0 * math.sinh(1.0) * (1.0 / normaliser).sum()
    leverage = (gap**2).sum(axis=1)
    assert leverage.mean() == pytest.approx(expected, abs=5.0 * leverage.std() / 200.0)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_law_of_a_sum_is_a_lower_bound_and_close(count):
    """Sums of uniforms, against the formula of Irwin and Hall."""
    cells = 1000
    law = np.cumsum(law_of_sum(np.minimum(np.arange(cells + 1) / cells * count, 1.0), count))
    for i in (200, 500, 800, 1000):
        x = i / cells * count
        terms = [(-1) ** j * math.comb(count, j) * (x - j) ** count for j in range(math.floor(x) + 1)]
        exact = sum(terms) / math.factorial(count)
        assert exact - 0.015 * count <= law[i] <= exact
    with pytest.raises(ValueError, match="at least one"):
        law_of_sum([1.0], 0)


def test_more_rows_never_hurt():
    grid = _grid(3, 0.5, 0.2, 0.1)
    rows = [grid.rows, grid.rows + 1, 2 * grid.rows, 10 * grid.rows, 1000 * grid.rows]
    mismatch = [_mismatch(n, 3, grid.width, grid.step) for n in rows]
    failure = [_failure(n, 3, grid.width, grid.step, 0.5) for n in rows]
    assert mismatch == sorted(mismatch, reverse=True)
    assert failure == sorted(failure, reverse=True)


@pytest.mark.parametrize("freedom", [3.0, 10.0, 100.0, 1e4])
def test_the_median_log_variance_is_above_its_mean_by_a_falling_amount(freedom):
    from scipy.special import gammaincinv, psi

    above = [
        math.log(gammaincinv(k / 2.0, 0.5)) - psi(k / 2.0) for k in (freedom, freedom + 1.0, 2.0 * freedom)
    ]
    assert above[0] > above[1] > above[2] > 0.0


@examples(4)
@given(st.floats(0.05, 1.0), st.floats(0.05, 0.5), st.floats(0.02, 0.3), st.integers(1, 6))
def test_a_clearly_weaker_promise_never_needs_more_rows(accuracy, rho, beta, dimension):
    """Clearly weaker: the widths are searched on a grid, so sizes are monotone up to its step."""
    rows = sample_size("gaussian_mean", accuracy=accuracy, rho=rho, beta=beta, dimension=dimension)
    for name, factor in (("accuracy", 1.2), ("rho", 1.2), ("beta", 1.5)):
        promise = {"accuracy": accuracy, "rho": rho, "beta": beta}
        promise[name] *= factor
        assert sample_size("gaussian_mean", dimension=dimension, **promise) <= rows


def test_the_function_on_rows(rng):
    promise = {"accuracy": 1.0, "rho": 0.3, "beta": 0.1}
    rows = sample_size("gaussian_mean", dimension=2, **promise)
    factor = np.array([[2.0, 0.0], [1.9, 0.1]])
    differ = far = 0
    for i in range(1000):
        x, y = (rng.normal(size=(rows, 2)) @ factor.T + [5.0, -3.0] for _ in range(2))
        first, second = (gaussian_mean(z, tape=Tape(f"pair {i}"), **promise) for z in (x, y))
        differ += first != second
        far += np.linalg.norm(np.linalg.solve(factor, first.value - [5.0, -3.0])) > 1.0
    assert lower_limit(differ, 1000) <= 0.3
    assert lower_limit(far, 1000) <= 0.1
    assert first.details["scales"].shape == (2,)


def test_sizes():
    promise = {"accuracy": 0.1, "rho": 0.1, "beta": 0.05}
    sizes = [sample_size("gaussian_mean", dimension=d, **promise) for d in (1, 2, 5, 10)]
    assert sizes == [6_054, 32_381, 346_515, 2_235_980]


def test_too_few_rows_and_best_effort(rng):
    x = rng.normal(size=(200, 2))
    with pytest.raises(NotEnoughRows) as caught:
        gaussian_mean(x, tape=Tape("t"), **PROMISE)
    needed = sample_size("gaussian_mean", dimension=2, **PROMISE)
    assert (caught.value.needed, caught.value.got) == (needed, 200)
    weaker = gaussian_mean(x, tape=Tape("t"), best_effort=True, **PROMISE)
    assert 0.2 < weaker.guarantee.rho < 1.0
    assert weaker.beta >= 0.1 * 0.9
    with pytest.raises(NotEnoughRows):
        gaussian_mean(x[:4], tape=Tape("t"), best_effort=True, **PROMISE)


@pytest.mark.parametrize(
    ("x", "change"),
    [
        (np.ones((5000, 2)), {}),
        (np.column_stack([np.arange(5000.0), 2.0 * np.arange(5000.0)]), {}),
        ([[0.0, math.nan]] * 10, {}),
        (np.zeros((2, 2, 2)), {}),
        (["a", "b"], {}),
        ([], {}),
        (np.eye(9), {"accuracy": math.inf}),
        (np.eye(9), {"rho": 1.0}),
        (np.eye(9), {"beta": 0.0}),
        (np.eye(9), {"tape": 7}),
    ],
)
def test_bad_arguments(x, change):
    with pytest.raises(InvalidArgument) as refused:
        gaussian_mean(x, **{"tape": Tape("t"), "best_effort": True, **PROMISE, **change})
    assert refused.value.argument in (change or "x")
