"""Tails: closed forms against exact distributions, and the laws every tail obeys."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr, ndtr

from holdfast.errors import InvalidArgument
from holdfast.tails import Bernstein, BoundedDifferences, Custom, Normal, SubExponential, SubGaussian

positive = st.floats(1e-3, 1e3)
TAILS = st.one_of(
    st.builds(BoundedDifferences, delta=positive, n=st.integers(1, 10**6)),
    st.builds(SubGaussian, sigma=positive),
    st.builds(Normal, sigma=positive),
    st.builds(SubExponential, sigma=positive, b=positive),
    st.builds(Bernstein, variance=st.floats(0, 10), bound=positive, n=st.integers(1, 10**6)),
    st.builds(lambda scale: Custom(lambda alpha: (alpha / scale) ** 1.5), positive),
)
PROBABILITIES = st.floats(1e-300, 0.999)


@given(TAILS, PROBABILITIES)
def test_radius_and_gamma_are_inverse_and_on_the_safe_side(tail, nu):
    radius = tail.radius(nu)
    assert tail.gamma(radius) >= -math.log(nu) * (1 - 1e-9) - 1e-9
    if radius > 0:
        assert tail.gamma(radius * (1 - 1e-6)) <= -math.log(nu) * (1 + 1e-9) + 1e-9
    assert tail.radius_at(-math.log(nu)) == radius


@given(TAILS, PROBABILITIES, PROBABILITIES)
def test_a_smaller_probability_needs_a_larger_radius(tail, first, second):
    small, large = sorted((first, second))
    assert tail.radius(small) >= tail.radius(large)


@given(TAILS)
def test_five_thousand_nats_and_beyond_stay_finite(tail):
    assert tail.radius_at(5000) <= tail.radius_at(1e6) < math.inf


def _two_sided_binomial(n: int, p: float, alpha: float) -> float:
    counts = np.arange(n + 1)
    return float(_binomial_mass(n, p)[np.abs(counts / n - p) > alpha].sum())


def _binomial_mass(n: int, p: float) -> np.ndarray:
    below = bdtr(np.arange(-1, n + 1).clip(0), n, p)
    below[0] = 0.0
    return np.diff(below)


@pytest.mark.parametrize("p", [0.5, 0.1, 0.01])
def test_the_tails_of_a_mean_hold_exactly_for_coins(p):
    for n in [1, 2, 5, 20, 100]:
        bounded = BoundedDifferences.of_mean(0, 1, n)
        bernstein = Bernstein(variance=p * (1 - p), bound=max(p, 1 - p), n=n)
        for alpha in np.linspace(0.001, 1, 97):
            exact = _two_sided_binomial(n, p, alpha)
            assert exact <= math.exp(-bounded.gamma(alpha)) + 1e-12
            assert exact <= math.exp(-bernstein.gamma(alpha)) + 1e-12


def test_the_normal_is_within_its_own_tail_and_a_narrower_one_is_caught():
    alphas = np.linspace(0.1, 6, 60)
    exact = 2 * ndtr(-alphas)
    for tail, narrower in ((SubGaussian(1.0), SubGaussian(0.8)), (Normal(1.0), Normal(1.0 - 1e-9))):
        claimed = np.exp([-tail.gamma(alpha) for alpha in alphas])
        sabotaged = np.exp([-narrower.gamma(alpha) for alpha in alphas])
        assert np.all(exact <= claimed)
        assert np.any(exact > sabotaged)


def _normal_nats(distance: mpmath.mpf) -> mpmath.mpf:
    """−ln 2Φ(−z); by its asymptotic series where erfc is too small to compute."""
    if distance < 30:
        return -mpmath.log(mpmath.erfc(distance / mpmath.sqrt(2)))
    series = sum((-1) ** k * mpmath.fac2(2 * k - 1) / distance ** (2 * k) for k in range(1, 15))
    half_width = mpmath.log(distance * mpmath.sqrt(mpmath.pi / 2)) - mpmath.log1p(series)
    return distance**2 / 2 + half_width


@pytest.mark.parametrize("nats", [1e-12, 1e-3, 0.5, 1.0, 1.0 + 1e-9, 3.0, 40.0, 700.0, 5000.0, 1e6, 1e12])
def test_the_normal_radius_is_exact_to_many_digits(nats):
    """On the safe side, and a relative 1e-12 less would not be; down to exp(−10⁶) and far beyond."""
    with mpmath.workdps(60):
        radius = mpmath.mpf(Normal(3.0).radius_at(nats)) / 3
        assert _normal_nats(radius) >= nats
        assert _normal_nats(radius * (1 - mpmath.mpf("1e-12"))) < nats
        claimed = Normal(3.0).gamma(float(3 * radius))
        assert nats * (1 - 1e-12) <= claimed <= _normal_nats(mpmath.mpf(float(3 * radius)) / 3)


def test_the_normal_radius_at_the_usual_level():
    assert Normal(1.0).radius(0.05) == pytest.approx(1.959963984540054, rel=1e-13)
    assert SubGaussian(1.0).radius(0.05) == pytest.approx(2.716203, rel=1e-6)
    assert Normal(2.0).of_mean(16) == Normal(0.5)
    assert Normal(1.0).radius_at(0.0) == 0.0
    assert Normal(1.0).gamma(0.0) == 0.0
    assert Normal(1e-300).gamma(1e300) == math.inf


@given(positive, st.floats(0.0, 1e9))
def test_normal_is_never_wider_than_subgaussian(sigma, nats):
    assert Normal(sigma).radius_at(nats) <= SubGaussian(sigma).radius_at(nats)


def test_a_centred_exponential_is_within_its_subexponential_tail():
    # ln E exp(λ(X − 1)) = −ln(1 − λ) − λ ≤ λ²σ²/2 for |λ| ≤ ½ with σ² = 8(ln 2 − ½) (largest at λ = ½).
    tail = SubExponential(sigma=math.sqrt(8 * (math.log(2) - 0.5)), b=2.0)
    for alpha in np.linspace(0.05, 60, 300):
        exact = math.exp(-1 - alpha) + (1 - math.exp(-(1 - alpha)) if alpha < 1 else 0.0)
        assert exact <= math.exp(-tail.gamma(alpha)) + 1e-12


def test_means_of_independent_values():
    assert SubGaussian(3.0).of_mean(9) == SubGaussian(1.0)
    assert SubExponential(2.0, 1.0).of_mean(4) == SubExponential(1.0, 0.25)
    assert BoundedDifferences.of_mean(-1, 3, 8) == BoundedDifferences(delta=0.5, n=8)


def test_a_custom_tail_that_never_gets_there_has_an_infinite_radius():
    assert Custom(lambda alpha: min(alpha, 3.0)).radius(1e-9) == math.inf


def test_a_custom_tail_with_a_jump_is_rounded_to_the_safe_side():
    tail = Custom(lambda alpha: 100.0 if alpha >= 0.37 else 0.0)
    assert 0.37 <= tail.radius(1e-6) <= 0.37 * (1 + 1e-11)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: SubGaussian(0), "sigma"),
        (lambda: SubGaussian(math.nan), "sigma"),
        (lambda: Normal(0), "sigma"),
        (lambda: Normal(1).radius(1), "nu"),
        (lambda: Normal(1).radius_at(math.nan), "nats"),
        (lambda: Normal(1).gamma(-1), "alpha"),
        (lambda: SubExponential(1, -1), "b"),
        (lambda: BoundedDifferences(0.1, 0), "n"),
        (lambda: BoundedDifferences("a", 3), "delta"),
        (lambda: BoundedDifferences.of_mean(1, 1, 3), "hi"),
        (lambda: Bernstein(-1, 1, 1), "variance"),
        (lambda: SubGaussian(1).radius(0), "nu"),
        (lambda: SubGaussian(1).radius(1), "nu"),
        (lambda: SubGaussian(1).radius_at(-1), "nats"),
        (lambda: SubGaussian(1).gamma(-1), "alpha"),
        (lambda: Custom("no function"), "gamma"),
        (lambda: Custom(lambda alpha: math.nan).radius(0.1), "gamma"),
    ],
)
def test_bad_arguments_are_named(make, argument):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == argument
