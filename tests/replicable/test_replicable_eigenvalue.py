"""The least eigenvalue within a factor: the variance bound, and ten thousand pairs of Wishart matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import polygamma

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, least_eigenvalue, sample_size
from holdfast.replicable._gaussian import _eigenvalue_grid, inverse_least, round_least
from holdfast.replicable._tape import LOSS, steady_exp
from limits import PAIRS, lower_limit, upper_limit

PROMISE = {"accuracy": 1.0, "rho": 0.1, "beta": 0.05}
LAWS = {
    "standard": lambda d: np.ones(d),
    "one small": lambda d: np.append(np.ones(d - 1), 1e-4),
    "geometric": lambda d: np.geomspace(1.0, 1e6, d),
    "two close": lambda d: np.append(np.full(d - 1, 1.02), 1.0),
}


def _least(rng, freedom, eigenvalues, samples):
    """Least eigenvalues of Wishart matrices (Bartlett); the covariance may be taken diagonal."""
    d = len(eigenvalues)
    inner = np.zeros((samples, d, d))
    inner[:, range(d), range(d)] = np.sqrt(rng.chisquare(freedom - np.arange(d), (samples, d)))
    below = np.tril_indices(d, -1)
    inner[:, below[0], below[1]] = rng.normal(size=(samples, below[0].size))
    factor = np.sqrt(eigenvalues)[:, None] * inner
    return np.linalg.svd(factor, compute_uv=False)[:, -1] ** 2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("d", "accuracy"), [(2, 1.0), (6, math.log(8.0))])
def test_ten_thousand_pairs_at_the_smallest_size(d, accuracy, law, rng):
    design = _eigenvalue_grid(d, accuracy, 0.1, 0.05)
    width, rows = design.width, design.rows
    eigenvalues = LAWS[law](d)
    coins = rng.uniform(size=PAIRS)
    first, second, private = (
        round_least(_least(rng, rows - 1.0, eigenvalues, PAIRS), rows, d, width, c)
        for c in (coins, coins, rng.uniform(size=PAIRS))
    )
    assert upper_limit(int((first != second).sum()), PAIRS) <= 0.1
    far = int((np.abs(np.log(first / eigenvalues.min())) > accuracy).sum())
    assert lower_limit(far, PAIRS) <= 0.05
    assert lower_limit(int((first != private).sum()), PAIRS) > 0.1


def test_a_quarter_of_the_rows_is_caught(rng):
    design = _eigenvalue_grid(1, 1.0, 0.1, 0.05)
    width, rows = design.width, design.rows
    coins = rng.uniform(size=PAIRS)
    few = rows // 4
    first, second = (
        round_least(_least(rng, few - 1.0, np.ones(1), PAIRS), few, 1, width, coins) for _ in range(2)
    )
    assert lower_limit(int((first != second).sum()), PAIRS) > 0.1


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("freedom", [40, 200])
def test_the_mean_inverse_is_bounded(d, freedom, rng):
    inverse = 1.0 / _least(rng, float(freedom), np.ones(d), 20_000)
    bound = inverse_least(freedom, d)
    assert inverse.mean() - 4.0 * inverse.std() / math.sqrt(20_000) <= bound
    assert bound <= 3.0 * inverse.mean()
    if d == 1:
        assert bound == pytest.approx(1.0 / (freedom - 2.0))


@pytest.mark.parametrize("law", LAWS)
def test_the_variance_of_the_logarithm_is_at_most_twice_the_mean_inverse(law, rng):
    """Poincaré for even functions; without evenness the bound would be four times."""
    logs = np.log(_least(rng, 60.0, LAWS[law](4), 40_000))
    inverse = 1.0 / _least(rng, 60.0, np.ones(4), 40_000)
    assert logs.var() <= 2.0 * inverse.mean() * 1.05


@pytest.mark.parametrize("freedom", [5, 50, 5000])
def test_in_one_dimension_the_variance_bound_is_nearly_exact_so_half_of_it_is_caught(freedom):
    variance, bound = polygamma(1, freedom / 2.0), 2.0 / (freedom - 2.0)
    assert bound / 2.0 < variance <= bound


def test_scales_keep_24_bits():
    values = steady_exp(np.linspace(-50.0, 50.0, 1001))
    mantissa = np.frexp(values)[0] * 2.0**24
    assert (mantissa == np.round(mantissa)).all()
    assert (np.abs(np.log(values) - np.linspace(-50.0, 50.0, 1001)) <= math.log(LOSS)).all()


def test_the_function_on_rows(rng):
    rows = sample_size("least_eigenvalue", dimension=2, **PROMISE)
    factor = np.array([[2.0, 0.0], [1.0, 0.5]])
    truth = float(np.linalg.eigvalsh(factor @ factor.T)[0])
    differ = far = 0
    for i in range(500):
        x, y = (rng.normal(size=(rows + 9, 2)) @ factor.T + 3.0 for _ in range(2))
        first, second = (least_eigenvalue(z, tape=Tape(i), **PROMISE) for z in (x, y))
        differ += first != second
        far += abs(math.log(float(first) / truth)) > 1.0
    assert lower_limit(differ, 500) <= 0.1
    assert lower_limit(far, 500) <= 0.05
    assert first.rows == rows


def test_sizes():
    sizes = [sample_size("least_eigenvalue", dimension=d, **PROMISE) for d in (1, 2, 10, 50)]
    assert sizes == [181, 246, 356, 658]
    assert sample_size("least_eigenvalue", accuracy=math.log(8.0), rho=0.1, beta=0.05, dimension=10) == 126
    weaker = sample_size("least_eigenvalue", accuracy=1.0, rho=0.2, beta=0.05, dimension=10)
    assert weaker < sizes[2]


def test_too_few_rows_and_best_effort(rng):
    x = rng.normal(size=(100, 2))
    with pytest.raises(NotEnoughRows):
        least_eigenvalue(x, tape=Tape("t"), **PROMISE)
    weaker = least_eigenvalue(x, tape=Tape("t"), best_effort=True, **PROMISE)
    assert 0.1 < weaker.guarantee.rho < 1.0
    with pytest.raises(NotEnoughRows):
        least_eigenvalue(x[:6], tape=Tape("t"), best_effort=True, **PROMISE)


@pytest.mark.parametrize(
    ("x", "change"),
    [
        (np.zeros((400, 2)), {}),
        ([[math.inf, 0.0]] * 400, {}),
        (np.eye(9), {"accuracy": 0.0}),
        (np.eye(9), {"rho": math.nan}),
        (np.eye(9), {"beta": 2.0}),
        (np.eye(9), {"tape": None}),
    ],
)
def test_bad_arguments(x, change):
    with pytest.raises(InvalidArgument) as refused:
        least_eigenvalue(x, **{"tape": Tape("t"), "best_effort": True, **PROMISE, **change})
    assert refused.value.argument in (change or "x")
