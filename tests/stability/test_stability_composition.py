"""Optimal composition against brute force over all outputs, mpmath, and small adaptive mechanisms."""

from __future__ import annotations

import itertools
import math
import time
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument
from holdfast.stability import composed_delta, log_composed_delta_pure, optimal_epsilon


def dp(epsilon, delta=0.0):
    return SimpleNamespace(epsilon=epsilon, delta=delta)


def hockey_stick(p, q, epsilon):
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def randomised_response(epsilon, delta):
    """The worst (ε, δ)-private pair: it names the input with probability δ, else answers at random."""
    truth = (1.0 - delta) * math.exp(epsilon) / (1.0 + math.exp(epsilon))
    lie = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return np.array([delta, truth, lie, 0.0]), np.array([0.0, lie, truth, delta])


def product(pairs):
    """All outputs of independent mechanisms: probabilities under either input."""
    p = np.array([1.0])
    q = np.array([1.0])
    for first, second in pairs:
        p = np.outer(p, first).ravel()
        q = np.outer(q, second).ravel()
    return p, q


def exact_pure(step, k, epsilon):
    """The sum over losses above ε in 60 digits; from the largest such count of adverse answers down."""
    with mp.workdps(60):
        step, epsilon = mp.mpf(step), mp.mpf(epsilon)
        adverse = 1 / (1 + mp.exp(step))
        i = int(mp.ceil((k * step - epsilon) / (2 * step))) - 1
        if i < 0:
            return mp.mpf(0)
        term = mp.binomial(k, i) * (1 - adverse) ** (k - i) * adverse**i
        total = mp.mpf(0)
        for count in range(i, -1, -1):
            total += term * -mp.expm1(epsilon - (k - 2 * count) * step)
            ratio = mp.mpf(count) / (k - count + 1) * mp.exp(step)
            term *= ratio
            if ratio < 1 and i - count > 5 and term < total * mp.mpf(10) ** -45:
                break
        return total


@pytest.mark.parametrize(
    ("step", "k", "epsilon", "expected"),
    [(0.1, 50, 2.0, 0.0010213807448414976), (0.5, 10, 3.0, 0.04102841460951593)],
)
def test_reference_values(step, k, epsilon, expected):
    assert composed_delta(dp(step), k, epsilon) == pytest.approx(expected, rel=1e-10)


PAIRS = [(0.3, 0.0, 9), (1.1, 0.0, 7), (0.4, 0.01, 5), (2.0, 0.3, 4)]


@pytest.mark.parametrize(("step", "delta", "k"), PAIRS)
def test_equals_brute_force_over_all_outputs(step, delta, k):
    for share in [0.0, 0.13, 0.5, 0.71, 0.999]:
        epsilon = share * k * step
        pair = randomised_response(step, delta)
        exact = hockey_stick(*product([pair] * k), epsilon)
        found = composed_delta(dp(step, delta), k, epsilon)
        assert found == pytest.approx(exact, rel=1e-11)
        assert found >= exact * (1 - 1e-14)


CASES = [
    (0.1, 50, 2.0),
    (1e-6, 10, 5e-6),
    (0.01, 10_000, 3.0),
    (0.01, 10_000, 15.0),
    (1e-3, 10**6, 0.0),
    (1e-3, 10**6, 5.0),
    (1e-3, 10**6, 36.0),
    (1e-3, 10**6, 37.0001),
    (1e-6, 10**6, 1e-6),
    (1e-6, 10**6, 0.03),
    (1.0, 700, 699.9999),
    (1.0, 700, 699.0),
    (0.3, 1000, 200.0),
    (50.0, 100, 4990.0),
    (700.0, 3, 2099.0),
    (0.5, 4, math.nextafter(2.0, 0.0)),
    (0.1, 3, math.nextafter(0.30000000000000004, 0.0)),
]


@pytest.mark.parametrize(("step", "k", "epsilon"), CASES)
def test_nine_digits_against_mpmath(step, k, epsilon):
    exact = mp.log(exact_pure(step, k, epsilon))
    found = log_composed_delta_pure(step, k, epsilon)
    assert 0.0 <= float(found - exact) <= 1e-11 + 2e-14 * abs(float(exact))
    if exact > -690:
        assert composed_delta(dp(step), k, epsilon) == pytest.approx(float(mp.exp(exact)), rel=1e-10)


def test_the_logarithm_is_right_far_below_the_smallest_float():
    exact = mp.log(exact_pure(0.01, 10**5, 500.0))
    assert exact < -10_000
    assert float(log_composed_delta_pure(0.01, 10**5, 500.0) - exact) == pytest.approx(0.0, abs=1e-9)
    assert 0.0 < composed_delta(dp(0.01), 10**5, 500.0) < 1e-320


def test_small_delta_is_not_lost_beside_one():
    assert composed_delta(dp(1e-3, 1e-300), 10**6, 60.0) == pytest.approx(1e-294, rel=1e-9)
    assert composed_delta(dp(0.2, 1.0), 3, 0.1) == 1.0
    assert composed_delta(dp(0.0, 0.25), 2, 0.0) == pytest.approx(1 - 0.75**2, rel=1e-12)


def test_zero_from_the_basic_bound_on():
    assert composed_delta(dp(0.1), 3, 0.30000000000000004) == 0.0
    assert composed_delta(dp(0.5), 4, 2.0) == 0.0
    assert composed_delta(dp(0.0), 10, 0.0) == 0.0
    assert log_composed_delta_pure(0.5, 4, 2.0) == -math.inf


def random_private_pair(rng, epsilon, outcomes):
    """A random pair of laws that is purely ε-private: likelihood ratios in [e^-ε, e^ε], then balanced."""
    q = rng.dirichlet(np.ones(outcomes))
    signs = rng.uniform(-1.0, 1.0, outcomes)
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2.0
        ratio = np.exp(epsilon * np.clip(signs + middle, -1.0, 1.0))
        low, high = (middle, high) if np.sum(q * ratio) < 1.0 else (low, middle)
    p = q * ratio
    return p / p.sum(), q


def smallest_delta(pair, epsilon):
    p, q = pair
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def adaptive_composition(rng, mechanisms, k):
    """Both laws of the transcript of a random analyst, whose next mechanism depends on all outputs."""
    p, q = np.array([1.0]), np.array([1.0])
    for _ in range(k):
        chosen = [mechanisms[rng.integers(len(mechanisms))] for _ in p]
        p = np.concatenate([mass * pair[0] for mass, pair in zip(p, chosen, strict=True)])
        q = np.concatenate([mass * pair[1] for mass, pair in zip(q, chosen, strict=True)])
    return p, q


def test_adaptive_composition_of_small_mechanisms_never_exceeds_the_bound(rng):
    for _ in range(40):
        epsilon = rng.uniform(0.05, 1.5)
        mechanisms = [random_private_pair(rng, rng.uniform(0.2, 1.0) * 1.6, 3) for _ in range(4)]
        mechanisms += [randomised_response(epsilon, 0.0)]
        delta = max(smallest_delta(pair, epsilon) for pair in mechanisms)
        k = int(rng.integers(2, 6))
        p, q = adaptive_composition(rng, mechanisms, k)
        for total in rng.uniform(0.0, k * epsilon, 5):
            bound = composed_delta(dp(epsilon, delta), k, total)
            assert smallest_delta((p, q), total) <= bound * (1 + 1e-9) + 1e-15


def test_a_bound_for_half_the_steps_would_be_caught():
    pair = randomised_response(0.4, 0.01)
    exact = hockey_stick(*product([pair] * 6), 1.0)
    assert exact <= composed_delta(dp(0.4, 0.01), 6, 1.0)
    assert exact > composed_delta(dp(0.4, 0.01), 3, 1.0)
    assert exact > composed_delta(dp(0.4, 0.0), 6, 1.0)
    assert exact > composed_delta(dp(0.39, 0.01), 6, 1.0)


@pytest.mark.parametrize(
    ("step", "k", "slack"),
    [
        (0.1, 50, 1e-6),
        (0.01, 100, 1e-9),
        (1e-3, 10**6, 1e-200),
        (1e-3, 10**6, 0.3),
        (1.0, 10, 1e-3),
        (1e-9, 10**6, 1e-12),
        (0.5, 1, 0.1),
        (0.5, 2, 0.01),
        (2.0, 7, 1e-40),
        (0.02, 999, 0.05),
    ],
)
def test_optimal_epsilon_is_safe_and_tight(step, k, slack):
    found = optimal_epsilon(step, k, slack)
    assert exact_pure(step, k, found) <= slack
    assert exact_pure(step, k, found - 1e-8 * step) > slack * (1 - 1e-12)
    assert 0.0 <= found <= k * step


def test_optimal_epsilon_at_the_ends():
    assert optimal_epsilon(0.1, 3, 0.0) == pytest.approx(0.3, rel=1e-15)
    assert optimal_epsilon(0.1, 3, 0.0) >= 0.3
    assert optimal_epsilon(0.1, 3, 1.0) == 0.0
    assert optimal_epsilon(0.0, 3, 0.0) == 0.0
    assert optimal_epsilon(1e-9, 10**6, 1e-4) == 0.0
    assert optimal_epsilon(3.0, 5, 1e-200) == 15.0


steps = st.floats(1e-6, 3.0)
counts = st.integers(1, 3000)


@given(steps, steps, counts, st.floats(0.0, 50.0))
def test_monotone_in_the_step(first, second, k, epsilon):
    low, high = sorted((first, second))
    assert composed_delta(dp(low), k, epsilon) <= composed_delta(dp(high), k, epsilon) * (1 + 1e-9)


@given(steps, counts, counts, st.floats(0.0, 50.0))
def test_monotone_in_the_number_of_steps(step, first, second, epsilon):
    low, high = sorted((first, second))
    assert composed_delta(dp(step), low, epsilon) <= composed_delta(dp(step), high, epsilon) * (1 + 1e-9)


@given(steps, counts, st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_monotone_in_epsilon_and_delta(step, k, first, second, one, other):
    low, high = sorted((first, second))
    assert composed_delta(dp(step, one), k, high) <= composed_delta(dp(step, one), k, low) * (1 + 1e-9)
    small, large = sorted((one, other))
    assert composed_delta(dp(step, small), k, low) <= composed_delta(dp(step, large), k, low) * (1 + 1e-9)


@given(steps, counts, st.floats(1e-200, 1.0), st.floats(1e-200, 1.0))
def test_optimal_epsilon_is_monotone_and_inverts_delta(step, k, first, second):
    low, high = sorted((first, second))
    assert optimal_epsilon(step, k, high) <= optimal_epsilon(step, k, low) * (1 + 1e-9)
    assert composed_delta(dp(step), k, optimal_epsilon(step, k, low)) <= low * (1 + 1e-9)


@given(steps, st.floats(0.0, 1.0), st.floats(0.0, 3.0))
def test_one_step_is_the_step_itself(step, delta, epsilon):
    found = composed_delta(dp(step, delta), 1, epsilon)
    one = hockey_stick(*randomised_response(step, delta), epsilon)
    assert found == pytest.approx(one, rel=1e-9, abs=1e-15)
    assert composed_delta(dp(step, delta), 1, step) == pytest.approx(delta, rel=1e-9, abs=1e-300)


def test_fast_enough():
    start = time.process_time()
    composed_delta(dp(0.01, 1e-9), 10_000, 3.0)
    assert time.process_time() - start < 1.0
    start = time.process_time()
    optimal_epsilon(1e-3, 10**6, 1e-200)
    assert time.process_time() - start < 0.2


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: composed_delta(dp(math.nan), 3, 0.1), "dp.epsilon"),
        (lambda: composed_delta(dp(-0.1), 3, 0.1), "dp.epsilon"),
        (lambda: composed_delta(dp(0.1, 1.5), 3, 0.1), "dp.delta"),
        (lambda: composed_delta("dp(0.1)", 3, 0.1), "dp.epsilon"),
        (lambda: composed_delta(dp(0.1), 0, 0.1), "k"),
        (lambda: composed_delta(dp(0.1), 10**13, 0.1), "k"),
        (lambda: composed_delta(dp(0.1), 2.5, 0.1), "k"),
        (lambda: composed_delta(dp(0.1), 2, -1.0), "epsilon"),
        (lambda: composed_delta(dp(0.1), 2, math.inf), "epsilon"),
        (lambda: log_composed_delta_pure("0.1", 2, 1.0), "epsilon_step"),
        (lambda: optimal_epsilon(0.1, 2, 1.1), "slack"),
        (lambda: optimal_epsilon(0.1, True, 0.1), "k"),
    ],
)
def test_bad_arguments_are_named(call, argument):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.argument == argument
    assert "Kairouz" in str(caught.value)


def test_extreme_arguments_stay_finite():
    epsilons = (0.0, 1e-300, 700.0, 1e308)
    for step, k, epsilon in itertools.product((5e-324, 1e-100, 1e308), (1, 2, 10**6), epsilons):
        assert 0.0 <= composed_delta(dp(step), k, epsilon) <= 1.0
