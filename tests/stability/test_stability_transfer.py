"""Transfer: the check values, the promise recomputed from the record, and an attack it must survive."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binomtest

from contracts.examples import examples
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import Noise
from holdfast.stability import gaussian_delta, split_error, transfer_error


@pytest.mark.parametrize(
    ("n", "k", "method", "expected"),
    [
        (10**5, 2000, "information", 0.0998),
        (10**6, 148_480, "information", 0.0999),
        (10**6, 25_216, "information", 0.0623),
        (10**4, 10, "information", 0.0746),
        (10**6, 25_216, "jung", 0.0999),
        (10**4, 10, "jung", 0.124),
        (10**5, 100, "jung", 0.073),
        (10**6, 10**4, "jung", 0.078),
        (10**5, 100, "information", 0.044),
        (10**6, 10**4, "information", 0.049),
    ],
)
def test_check_values(n, k, method, expected):
    digits = len(str(expected).split(".")[1])
    assert transfer_error(n, k, 0.05, method=method).error == pytest.approx(expected, abs=0.5 * 10.0**-digits)


def test_split_check_values():
    assert split_error(10**4, 10, 0.05) == pytest.approx(0.055, abs=5e-4)
    assert split_error(10**5, 100, 0.05) == pytest.approx(0.064, abs=5e-4)
    assert split_error(10**6, 10**4, 0.05) == pytest.approx(0.254, abs=5e-4)
    assert split_error(10, 11, 0.05) == 1.0
    assert split_error(3, 3, 0.05) == 1.0
    assert split_error(25, 2, 0.05) == pytest.approx(math.sqrt(math.log(4 / 0.05) / 24), rel=1e-12)


def divergence(b, q):
    return b * mp.log(b / q) + (1 - b) * mp.log((1 - b) / (1 - q))


SIZES = [
    (10**5, 10, 1e-20),
    (100, 1, 0.05),
    (10**4, 10, 0.05),
    (10**5, 2000, 0.05),
    (10**6, 10**6, 1e-9),
    (10**7, 3, 0.3),
    (500, 400, 0.9),
]


@pytest.mark.parametrize(("n", "k", "beta"), SIZES)
def test_information_keeps_its_promise(n, k, beta):
    found = transfer_error(n, k, beta)
    with mp.workdps(60):
        b1, b2, t, sd = mp.mpf(found.b1), mp.mpf(found.b2), mp.mpf(found.generalization), mp.mpf(found.sd)
        assert b1 + b2 <= beta
        assert b1 + b2 >= beta * (1 - mp.mpf("1e-10"))
        assert divergence(b2, mp.exp(-2 * n * t**2)) >= k / (8 * n * sd**2)
        assert k * mp.erfc(mp.mpf(found.noise) / sd / mp.sqrt(2)) <= b1
        assert found.information >= k / (8 * n * sd**2)
        assert found.error == pytest.approx(min(1.0, float(t) + found.noise), rel=1e-12)
        assert found.log_independent == pytest.approx(float(-2 * n * t**2), rel=1e-10)


@pytest.mark.parametrize(("n", "k", "beta"), SIZES)
def test_jung_keeps_its_promise(n, k, beta):
    found = transfer_error(n, k, beta, method="jung")
    with mp.workdps(60):
        ratio = mp.sqrt(k) / (n * mp.mpf(found.sd))
        epsilon = mp.mpf(found.epsilon)
        delta = mp.ncdf(ratio / 2 - epsilon / ratio) - mp.exp(epsilon) * mp.ncdf(-ratio / 2 - epsilon / ratio)
        assert delta <= found.delta
        assert found.b1 / mp.mpf(found.c) + found.delta / mp.mpf(found.d) <= beta
        assert k * mp.erfc(mp.mpf(found.noise) / found.sd / mp.sqrt(2)) <= found.b1 * (1 + mp.mpf("1e-12"))
        spent = mp.expm1(epsilon) + found.c + 2 * mp.mpf(found.d)
        assert spent <= found.generalization
        assert found.error == pytest.approx(min(1.0, float(spent) + found.noise), rel=1e-10)


def test_the_information_search_finds_the_minimum():
    for n, k, beta in ((10**4, 10, 0.05), (10**6, 25_216, 0.01), (10**3, 2, 0.5)):
        found = transfer_error(n, k, beta)

        def error(point, n=n, k=k, beta=beta):
            sd, b1 = math.exp(point[0]), beta / (1 + math.exp(-point[1]))
            b2 = beta - b1
            information = k / (8 * n * sd**2)
            low, high = 1e-9, 1e6
            for _ in range(200):
                middle = (low + high) / 2
                q = math.exp(-min(middle, 700.0))
                value = b2 * (math.log(b2) + middle) + (1 - b2) * (math.log1p(-b2) - math.log1p(-q))
                low, high = (middle, high) if q > b2 or value < information else (low, middle)
            return math.sqrt(high / (2 * n)) + sd * -float(mp.sqrt(2) * mp.erfinv(b1 / k - 1))

        start = [math.log(found.sd) + 0.3, -2.0]
        best = minimize(
            error, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 150}
        )
        assert found.error <= best.fun * (1 + 1e-7)
        assert found.error == pytest.approx(best.fun, rel=1e-4)


def test_the_jung_search_finds_the_minimum():
    for n, k, beta in ((10**4, 10, 0.05), (10**6, 25_216, 0.05)):
        found = transfer_error(n, k, beta, method="jung")

        def error(point, n=n, k=k, beta=beta):
            sd, b1, epsilon = np.exp(point)
            delta = gaussian_delta(epsilon, math.sqrt(k) / (n * sd))
            shares = (math.sqrt(b1) + math.sqrt(2 * delta)) ** 2 / beta
            return sd * -float(mp.sqrt(2) * mp.erfinv(b1 / k - 1)) + math.expm1(epsilon) + shares

        start = np.log([1.2 * found.sd, 0.6 * found.b1, 1.2 * found.epsilon])
        best = minimize(
            error, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 600}
        )
        assert found.error <= best.fun * (1 + 1e-7)


def test_information_bounds_the_probability_of_every_event(rng):
    """kl(P(E) ‖ P_product(E)) ≤ mutual information for all events of small laws; half would be caught."""
    broken = 0
    for _ in range(15):
        joint = rng.dirichlet(np.full(9, 0.4)).reshape(3, 3)
        product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        information = float(np.sum(joint * np.log(joint / product)))
        for event in itertools.product((False, True), repeat=9):
            mask = np.array(event).reshape(3, 3)
            b, q = joint[mask].sum(), product[mask].sum()
            if 0 < b < 1 and 0 < q < 1:
                assert float(divergence(b, q)) <= information + 1e-12
                broken += float(divergence(b, q)) > information / 2
    assert broken > 0


@pytest.mark.parametrize("sd", [0.2, 0.5, 2.0])
def test_one_noisy_answer_reveals_at_most_one_eighth_over_variance(sd):
    """n = k = 1, a fair bit: mutual information by quadrature, at most 1/(8 sd²), near it for much noise."""
    grid = np.linspace(-0.5 - 12 * sd, 1.5 + 12 * sd, 40_001)
    laws = [np.exp(-0.5 * ((grid - x) / sd) ** 2) / (sd * math.sqrt(2 * math.pi)) for x in (0.0, 1.0)]
    mixture = (laws[0] + laws[1]) / 2
    information = sum(
        np.trapezoid(0.5 * law * np.log(np.maximum(law, 1e-300) / mixture), grid) for law in laws
    )
    assert information <= 1 / (8 * sd**2)
    if sd == 2.0:
        assert information > 0.9 / (8 * sd**2)


def sign_attack(rng, n, k, sd):
    """k − 1 columns of fair bits; the last query votes by the signs of the answers. The worst error."""
    rows = rng.integers(0, 2, size=(n, k - 1))
    answers = rows.mean(axis=0) + sd * rng.standard_normal(k - 1)
    signs = np.where(answers > 0.5, 1.0, -1.0)
    last = (np.sign((rows - 0.5) @ signs + 1e-9) + 1.0) / 2.0
    final = last.mean() + sd * rng.standard_normal()
    return max(float(np.max(np.abs(answers - 0.5))), abs(float(final) - 0.5))


def test_the_sign_attack_stays_within_the_promise_and_breaks_a_naive_one(rng):
    n, k, beta, trials = 2000, 100, 0.05, 100
    promised = transfer_error(n, k, beta)
    assert promised.error < 0.5
    missed = sum(sign_attack(rng, n, k, promised.sd) > promised.error for _ in range(trials))
    assert binomtest(missed, trials, beta, alternative="greater").pvalue > 1e-6
    naive = math.sqrt(math.log(2 * k / beta) / (2 * n))
    missed = sum(sign_attack(rng, n, k, 0.0) > naive for _ in range(trials))
    assert binomtest(missed, trials, beta, alternative="greater").pvalue < 1e-6


@examples(25)
@given(
    st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 10**6), st.sampled_from([0.001, 0.05, 0.5])
)
def test_information_and_split_are_monotone(first, second, k, beta):
    low, high = sorted((first, second))
    assert transfer_error(high, k, beta).error <= transfer_error(low, k, beta).error * (1 + 1e-6)
    assert split_error(high, k, beta) <= split_error(low, k, beta)
    few, many = min(k, first), max(k, first)
    assert transfer_error(second, few, beta).error <= transfer_error(second, many, beta).error * (1 + 1e-6)
    assert split_error(second, few, beta) <= split_error(second, many, beta)
    assert transfer_error(low, k, beta).error <= transfer_error(low, k, beta / 2).error * (1 + 1e-6)


@examples(8)
@given(st.integers(100, 10**7), st.integers(100, 10**7), st.integers(1, 10**6))
def test_jung_is_monotone(first, second, k):
    low, high = sorted((first, second))
    assert transfer_error(high, k, 0.05, method="jung").error <= transfer_error(
        low, k, 0.05, method="jung"
    ).error * (1 + 1e-6)


@pytest.mark.parametrize("method", ["information", "jung"])
@pytest.mark.parametrize(
    ("n", "k", "beta"), [(1, 1, 0.5), (1, 10**6, 1e-9), (10**12, 1, 0.05), (10**6, 10, 1e-300)]
)
def test_extreme_sizes_give_a_number_of_at_most_one(method, n, k, beta):
    found = transfer_error(n, k, beta, method=method)
    assert 0.0 < found.error <= 1.0
    assert all(math.isfinite(value) for value in found.to_dict().values() if isinstance(value, float))


@pytest.mark.parametrize("method", ["information", "jung"])
def test_fast_enough(method):
    start = time.process_time()
    transfer_error(10**6, 10**4, 0.05, method=method)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: transfer_error(0, 1, 0.05), "n"),
        (lambda: transfer_error(10, 0, 0.05), "k"),
        (lambda: transfer_error(10, 1, 0.0), "beta"),
        (lambda: transfer_error(10, 1, 1.0), "beta"),
        (lambda: transfer_error(10, 1, math.nan), "beta"),
        (lambda: transfer_error(10, 1, 0.05, method="best"), "method"),
        (lambda: split_error(10, 1.5, 0.05), "k"),
        (lambda: split_error(10, 1, 2.0), "beta"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.argument == name


@pytest.mark.parametrize(
    ("n", "sd", "resolution"), [(7, 0.3, 3), (12, 0.05, 5), (50, 0.2, 4), (400, 0.01, 9)]
)
def test_rounding_first_costs_no_more_than_the_noise_is_made_for(n, sd, resolution):
    """One row varies, all others are anything: the rounded mean stays within (1/n + g)/2 of the middle of its
    range, and with the guard's noise that is at most 1/(2n·sd) standard deviations, as without a grid. The
    twin, a reference at the value one half, may be farther away."""
    noise = Noise.hiding("gaussian", 1 / n, 1 / (n * sd), resolution=resolution)
    grid, most = Fraction(noise.grid), 1 / (2 * Fraction(n) * Fraction(sd))
    from_middle = from_half = Fraction(0)
    for others in np.random.default_rng(n).random(200):
        rest = Fraction(float(others)) * (n - 1)

        def rounded(value, rest=rest):
            return round((rest + value) / n / grid) * grid

        middle = (rounded(Fraction(0)) + rounded(Fraction(1))) / 2
        for value in (Fraction(0), Fraction(1, 3), Fraction(1)):
            from_middle = max(from_middle, abs(rounded(value) - middle))
            from_half = max(from_half, abs(rounded(value) - rounded(Fraction(1, 2))))
    assert from_middle <= (Fraction(1, n) + grid) / 2
    assert from_middle / Fraction(noise.scale) <= most * (1 + Fraction(2, 2**52))
    if n == 7:
        assert from_half > (Fraction(1, n) + grid) / 2
