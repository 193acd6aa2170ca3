"""Gaussian and Laplace profiles against mpmath, an exact expansion, and an independent accountant."""

from __future__ import annotations

import itertools
import math
import time

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument
from holdfast.stability import Gaussian, Laplace, gaussian_delta, laplace_delta, log_composed_delta_pure


def exact_gaussian(epsilon, ratio, k=1):
    with mp.workdps(400):
        a = mp.mpf(ratio) * mp.sqrt(k)
        epsilon = mp.mpf(epsilon)
        return mp.ncdf(a / 2 - epsilon / a) - mp.exp(epsilon) * mp.ncdf(-a / 2 - epsilon / a)


def exact_laplace(epsilon, ratio, k):
    """δ by inclusion and exclusion over the steps at the far atom, with digits to survive the cancellation.

    E exp(−wX) = ½[(1 + v) + e^{−r(1+w)}(1 − v)], v = 1/(1+w), and v^m belongs to a sum G_m of m exponentials:
    E(1 − e^{−2(t − G_m)})_+ = 2e^-t Σ_n t^{m+2n+1}/(m+2n+1)!.
    """
    with mp.workdps(60 + math.ceil(1.3 * k)):
        r = mp.mpf(ratio)
        y = (k * r - mp.mpf(epsilon)) / 2
        total = mp.mpf(0)
        for i in range(k + 1):
            t = y - i * r
            if t <= 0:
                break
            series = [mp.sinh(t), mp.cosh(t) - 1]
            power = mp.mpf(1)
            for m in range(2, k + 1):
                power *= t / (m - 1)
                series.append(series[m - 2] - power)
            coefficients = [1]
            for sign in [1] * (k - i) + [-1] * i:
                shifted = [0, *(sign * c for c in coefficients)]
                coefficients = [a + b for a, b in zip([*coefficients, 0], shifted, strict=True)]
            inner = mp.fsum(c * s for c, s in zip(coefficients, series, strict=True))
            total += mp.binomial(k, i) * mp.exp(-r * i - t) * 2 * inner
        return total / mp.mpf(2) ** k


@pytest.mark.parametrize(
    ("ratio", "epsilon", "expected"),
    [(1.0, 1.0, 0.12693673750664394), (0.1, 0.5, 6.856582455838737e-09), (4.0, 10.0, 0.23369880786218616)],
)
def test_gaussian_reference_values(ratio, epsilon, expected):
    assert gaussian_delta(epsilon, ratio) == pytest.approx(expected, rel=1e-11)


def test_gaussian_keeps_its_digits_down_to_1e_300(rng):
    for _ in range(80):
        ratio = 10.0 ** rng.uniform(-8.0, 4.0)
        epsilon = max(0.0, ratio * (rng.uniform(-10.0, 37.0) + ratio / 2.0))
        exact = exact_gaussian(epsilon, ratio)
        if exact > mp.mpf("1e-300"):
            error = float(gaussian_delta(epsilon, ratio) / exact - 1)
            assert error >= 0.0 or gaussian_delta(epsilon, ratio) == 1.0
            assert error <= 1e-11


@pytest.mark.parametrize(("epsilon", "ratio", "k"), [(1.0, 0.01, 10_000), (0.3, 0.001, 10**6), (5.0, 0.7, 3)])
def test_gaussian_answers_add_as_the_root(epsilon, ratio, k):
    exact = float(exact_gaussian(epsilon, ratio, k))
    assert gaussian_delta(epsilon, ratio, k) == pytest.approx(exact, rel=1e-11)
    assert exact > gaussian_delta(epsilon, ratio, k - 1)


def test_a_gaussian_shift_that_is_one_percent_short_would_be_caught():
    assert float(exact_gaussian(1.0, 1.0)) > gaussian_delta(1.0, 0.99)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9, 0.999999])
def test_one_laplace_answer_has_a_closed_form(share):
    for ratio in [1e-9, 0.01, 0.5, 3.0, 50.0]:
        epsilon = share * ratio
        exact = -mp.expm1((mp.mpf(epsilon) - mp.mpf(ratio)) / 2)
        assert laplace_delta(epsilon, ratio) == pytest.approx(float(exact), rel=1e-12)
        assert laplace_delta(ratio, ratio) == 0.0


def test_laplace_equals_the_exact_expansion(rng):
    for _ in range(120):
        k = int(rng.integers(2, 30))
        ratio = 10.0 ** rng.uniform(-4.0, 1.7)
        epsilon = k * ratio * rng.uniform() ** rng.choice([0.1, 1.0, 3.0])
        exact = exact_laplace(epsilon, ratio, k)
        assert 0.0 <= float(laplace_delta(epsilon, ratio, k) / exact - 1) <= 1e-7


@pytest.mark.parametrize(
    ("epsilon", "ratio", "k"),
    [
        (0.05, 0.02, 150),
        (9.0, 0.3, 150),
        (60.0, 1.0, 150),
        (40.0, 0.3, 150),
        (1.0, 0.0101, 100),
        (2.5, 0.05, 100),
    ],
)
def test_laplace_with_many_answers_equals_the_exact_expansion(epsilon, ratio, k):
    exact = exact_laplace(epsilon, ratio, k)
    assert 0.0 <= float(laplace_delta(epsilon, ratio, k) / exact - 1) <= 1e-7


def test_beside_the_atoms_of_the_loss_nothing_is_lost():
    for k, ratio, atom in itertools.product((2, 3, 6), (0.01, 1.5), (0, 2)):
        for epsilon in (math.nextafter((k - atom) * ratio, 0.0), (k - atom) * ratio * (1 - 1e-9)):
            exact = exact_laplace(epsilon, ratio, k)
            assert -1e-15 <= float(laplace_delta(epsilon, ratio, k) / exact - 1) <= 1e-7


def test_a_laplace_shift_that_is_one_percent_short_would_be_caught():
    exact = float(exact_laplace(3.0, 0.5, 20))
    assert exact <= laplace_delta(3.0, 0.5, 20)
    assert exact > laplace_delta(3.0, 0.495, 20)
    assert exact > laplace_delta(3.0, 0.5, 19)


@pytest.mark.parametrize(
    ("ratio", "k", "epsilon"),
    [
        (0.01, 10_000, 1.0),
        (0.01, 10_000, 3.0),
        (0.1, 1000, 10.0),
        (1.0, 20, 12.0),
        (0.001, 10_000, 0.3),
        (2.0, 5, 9.9),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_an_independent_accountant(ratio, k, epsilon):
    from dp_accounting.pld import privacy_loss_distribution

    one = privacy_loss_distribution.from_laplace_mechanism(
        1.0 / ratio, value_discretization_interval=min(1e-3, ratio / 100.0)
    )
    assert laplace_delta(epsilon, ratio, k) == pytest.approx(
        one.self_compose(k).get_delta_for_epsilon(epsilon), rel=1e-3
    )


def test_positive_where_plain_accounting_is_negative():
    found = laplace_delta(9.0, 0.01, 10_000)
    assert 7e-19 < found < 9e-19
    assert found < gaussian_delta(9.0, 0.01, 10_000)


def test_many_small_laplace_answers_are_gaussian():
    assert laplace_delta(1.0, 1e-3, 10**6) == pytest.approx(gaussian_delta(1.0, 1e-3, 10**6), rel=1e-3)


def test_fast_enough():
    for epsilon, ratio in ((9.0, 0.01), (0.3, 0.001), (4000.0, 1.0)):
        start = time.process_time()
        laplace_delta(epsilon, ratio, 10_000)
        assert time.process_time() - start < 1.0


ratios = st.floats(1e-4, 30.0)
counts = st.integers(1, 2000)
epsilons = st.floats(0.0, 60.0)


@given(ratios, ratios, counts, epsilons)
def test_monotone_in_the_ratio(first, second, k, epsilon):
    low, high = sorted((first, second))
    for delta in (gaussian_delta, laplace_delta):
        assert delta(epsilon, low, k) <= delta(epsilon, high, k) * (1 + 1e-7)


@given(ratios, counts, counts, epsilons)
def test_monotone_in_the_number_of_answers(ratio, first, second, epsilon):
    low, high = sorted((first, second))
    for delta in (gaussian_delta, laplace_delta):
        assert delta(epsilon, ratio, low) <= delta(epsilon, ratio, high) * (1 + 1e-7)


@given(ratios, counts, epsilons, epsilons)
def test_monotone_in_epsilon(ratio, k, first, second):
    low, high = sorted((first, second))
    for delta in (gaussian_delta, laplace_delta):
        assert delta(high, ratio, k) <= delta(low, ratio, k) * (1 + 1e-7)


@given(ratios, counts, epsilons)
@example(0.44, 900, 0.0)  # the integral alone would be above by 5e-11
def test_laplace_never_exceeds_randomised_response(ratio, k, epsilon):
    delta = laplace_delta(epsilon, ratio, k)
    # What is positive but below every float is given as the smallest one.
    assert delta in (0.0, 5e-324) or math.log(delta) <= log_composed_delta_pure(ratio, k, epsilon) + 1e-12


def test_extreme_arguments_stay_in_range():
    for ratio, k in itertools.product((5e-324, 1e-300, 1e-12, 1e6, 1e150, 1e308), (1, 2, 3, 10**6)):
        total = min(k * ratio, 1e308)
        for epsilon in (0.0, 1e-300, 1.0, total / 2.0, math.nextafter(total, 0.0)):
            assert 0.0 <= laplace_delta(epsilon, ratio, k) <= 1.0
            assert 0.0 <= gaussian_delta(epsilon, ratio, k) <= 1.0
    assert gaussian_delta(1.0, 0.0) == laplace_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(1.0, 1e-3) > 0.0


@pytest.mark.parametrize("delta", [gaussian_delta, laplace_delta])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((math.nan, 1.0), "epsilon"),
        ((-1.0, 1.0), "epsilon"),
        ((1.0, -1.0), "ratio"),
        ((1.0, math.inf), "ratio"),
        ((1.0, 1.0, 0), "k"),
        ((1.0, 1.0, 1.5), "k"),
        (("1", 1.0), "epsilon"),
    ],
)
def test_bad_arguments_are_named(delta, arguments, name):
    with pytest.raises(InvalidArgument) as caught:
        delta(*arguments)
    assert caught.value.argument == name


def test_more_answers_than_rounding_allows_are_refused():
    assert gaussian_delta(1.0, 1e-9, 10**18) == gaussian_delta(1.0, 1.0)
    with pytest.raises(InvalidArgument) as caught:
        laplace_delta(1.0, 1e-9, 10**18)
    assert caught.value.argument == "k"


@pytest.mark.parametrize("noise", [Gaussian, Laplace])
def test_noise_records_check_their_ratio(noise):
    assert noise(0.5).to_dict() == {"ratio": 0.5}
    for bad in (-1.0, math.nan, "x"):
        with pytest.raises(InvalidArgument) as caught:
            noise(bad)
        assert caught.value.argument == "ratio"


def test_the_laplace_profile_is_what_simulation_shows(rng):
    """The hockey-stick divergence as the probability of a coin, within an exact binomial limit."""
    from scipy.stats import binomtest

    ratio, k, epsilon, trials = 0.5, 10, 2.0, 200_000
    noise = rng.laplace(size=(trials, k))
    real = np.sum(np.abs(noise - ratio) - np.abs(noise), axis=1)
    gain = np.maximum(0.0, -np.expm1(epsilon - real))
    hits = int(np.sum(rng.uniform(size=trials) < gain))
    interval = binomtest(hits, trials).proportion_ci(0.999999, method="exact")
    assert interval.low <= laplace_delta(epsilon, ratio, k) <= interval.high
    assert not interval.low <= laplace_delta(epsilon, 0.7 * ratio, k) <= interval.high
