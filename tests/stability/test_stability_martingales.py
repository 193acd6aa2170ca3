"""Azuma, Hoeffding's lemma and the Pólya urn, each against exact enumeration, with the errata of L5 shown."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from holdfast.errors import InvalidArgument
from holdfast.stability import (
    azuma,
    azuma_intervals,
    azuma_with_drift,
    expected_loss,
    hoeffding_lemma,
    polya_lengths,
    polya_tail,
    polya_variance,
)


def walk_tail(increments, t):
    """P(sum ≥ t) of independent increments, each a list of (value, probability), by enumeration."""
    total = 0.0
    for path in itertools.product(*increments):
        if math.fsum(value for value, _ in path) >= t - 1e-12:
            total += math.prod(mass for _, mass in path)
    return total


def fair(size):
    return [(-size, 0.5), (size, 0.5)]


def lopsided(length, share):
    """Mean zero, on two points ``length`` apart."""
    return [(-length * share, 1.0 - share), (length * (1.0 - share), share)]


def test_closed_forms():
    assert azuma(3.0, [1.0, 2.0]) == pytest.approx(math.exp(-9.0 / 10.0), rel=1e-12)
    assert azuma_intervals(3.0, [1.0, 2.0]) == pytest.approx(math.exp(-18.0 / 5.0), rel=1e-12)
    assert azuma_with_drift(12.0, k=4, bound=2.0, drift=1.0) == pytest.approx(math.exp(-2.0), rel=1e-12)
    assert azuma_intervals(1.5, [2.0, 4.0]) == pytest.approx(azuma(1.5, [1.0, 2.0]), rel=1e-12)


@pytest.mark.parametrize("steps", [[1.0] * 10, [3.0, 1.0, 1.0, 0.5, 0.25], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
def test_azuma_holds_for_every_random_walk(steps):
    for t in sorted({*itertools.accumulate(steps), *(sum(steps) * x / 20 for x in range(1, 21))}):
        assert walk_tail([fair(s) for s in steps], t) <= azuma(t, steps)


def test_a_doubled_exponent_would_be_caught():
    steps = [1.0] * 10
    assert any(walk_tail([fair(s) for s in steps], t) > azuma(t, steps) ** 2 for t in (2.0, 4.0, 6.0))


def test_intervals_hold_for_lopsided_steps_and_half_the_length_does_not(rng):
    broken = 0
    for _ in range(40):
        lengths = rng.uniform(0.2, 2.0, 8)
        increments = [lopsided(c, s) for c, s in zip(lengths, rng.uniform(0.05, 0.95, 8), strict=True)]
        for t in rng.uniform(0.1, lengths.sum(), 4):
            exact = walk_tail(increments, t)
            assert exact <= azuma_intervals(t, lengths)
            broken += exact > azuma_intervals(t, lengths / 2.0)
    assert broken > 0


def drifting_tail(k, drift, total):
    """P(sum ≥ total) of k steps ±1, each up as often as the drift allows."""
    up = (1.0 + drift) / 2.0
    return math.fsum(
        math.comb(k, i) * up**i * (1 - up) ** (k - i) for i in range(k + 1) if 2 * i - k >= total
    )


@pytest.mark.parametrize(("k", "drift"), [(10, 0.2), (40, 0.5), (40, -0.3), (7, 0.0)])
def test_drift_is_paid_for_and_forgetting_it_would_be_caught(k, drift):
    for total in range(-k, k + 1):
        assert drifting_tail(k, drift, total) <= azuma_with_drift(total, k=k, bound=1.0, drift=drift)
    assert azuma_with_drift(k * drift, k=k, bound=1.0, drift=drift) == 1.0
    if drift == 0.5:
        assert drifting_tail(k, drift, 20) > azuma_with_drift(20, k=k, bound=1.0)


@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.lists(st.floats(0.0, 10.0), min_size=1, max_size=20))
def test_azuma_is_monotone(first, second, steps):
    low, high = sorted((first, second))
    for bound in (azuma, azuma_intervals):
        assert bound(high, steps) <= bound(low, steps)
        assert bound(low, steps) <= bound(low, [*steps, 1.0]) * (1 + 1e-12)
        assert 0.0 <= bound(high, steps) <= 1.0


def test_azuma_at_the_ends():
    assert azuma(0.0, [0.0]) == 1.0
    assert azuma(1.0, [0.0, 0.0]) == 0.0
    assert 0.0 < azuma(1e200, [1.0]) < 1e-300
    assert azuma(1.0, [1e200] * 3) == 1.0
    assert azuma(1.0, [1e-200]) > 0.0
    assert azuma(2.0, np.ones(100_000)) == pytest.approx(math.exp(-4.0 / 200_000.0), rel=1e-12)


def log_moment(points, rate):
    return math.log(math.fsum(mass * math.exp(rate * value) for value, mass in points))


def test_hoeffding_lemma_on_two_points_and_its_constant_is_least(rng):
    tight = 0.0
    for _ in range(500):
        low = rng.uniform(-2.0, 0.0)
        high = low + rng.uniform(0.1, 3.0)
        share = rng.uniform()
        points = [(low, 1.0 - share), (high, share)]
        mean = low + share * (high - low)
        rate = rng.uniform(-5.0, 5.0)
        exact = log_moment(points, rate)
        bound = hoeffding_lemma(rate, low, high, mean)
        assert exact <= bound + 1e-12
        tight = max(tight, (exact - rate * mean) / (rate * (high - low)) ** 2)
        assert (
            log_moment(points, abs(rate))
            <= hoeffding_lemma(abs(rate), low, high, mean + 0.1, known="above") + 1e-12
        )
    assert 0.9 / 8.0 < tight <= 1.0 / 8.0


def test_erratum_hoeffding_lemma_with_a_bound_on_the_mean_needs_a_rate_of_at_least_zero():
    rate, low, high, mean = -1.0, -1.0, 1.0, 1.0
    printed = rate * mean + rate**2 * (high - low) ** 2 / 8.0
    assert log_moment([(-1.0, 1.0)], rate) > printed
    with pytest.raises(InvalidArgument) as caught:
        hoeffding_lemma(rate, low, high, mean, known="above")
    assert caught.value.argument == "rate"
    assert "L5 theorem 2" in str(caught.value)


def randomised_response(epsilon):
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    return np.array([truth, 1.0 - truth]), np.array([1.0 - truth, truth])


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0])
def test_expected_loss_is_attained_by_randomised_response(epsilon):
    p, q = randomised_response(epsilon)
    assert float(np.sum(p * np.log(p / q))) == pytest.approx(expected_loss(epsilon), rel=1e-9)
    assert expected_loss(epsilon) <= expected_loss(epsilon, method="paper") == pytest.approx(2 * epsilon**2)


def test_no_private_pair_loses_more(rng):
    for _ in range(200):
        epsilon = rng.uniform(0.05, 3.0)
        q = rng.dirichlet(np.ones(4))
        ratio = np.exp(rng.uniform(-epsilon / 2, epsilon / 2, 4))
        p = q * ratio / np.sum(q * ratio)
        worst = float(np.max(np.abs(np.log(p / q))))
        loss = float(np.sum(p * np.log(p / q)))
        assert worst <= epsilon + 1e-12
        assert loss <= expected_loss(worst) + 1e-15


def urn_law(red, blue, draws):
    """P(S = s) for s = 0..draws, step by step."""
    law = np.array([1.0])
    for done in range(draws):
        counts = np.arange(done + 1)
        chance = (red + counts) / (red + blue + done)
        law = np.concatenate((law * (1 - chance), [0.0])) + np.concatenate(([0.0], law * chance))
    return law


@pytest.mark.parametrize(("red", "blue", "draws"), [(1, 1, 10), (3, 5, 25), (50, 50, 200), (2, 98, 60)])
def test_polya_variance_is_exact(red, blue, draws):
    law = urn_law(red, blue, draws)
    counts = np.arange(draws + 1)
    mean = float(law @ counts)
    assert mean == pytest.approx(draws * red / (red + blue), rel=1e-10)
    assert float(law @ (counts - mean) ** 2) == pytest.approx(polya_variance(red, blue, draws), rel=1e-10)
    assert law == pytest.approx(betabinom(draws, red, blue).pmf(counts), abs=1e-10)


@pytest.mark.parametrize(("red", "blue", "draws"), [(1, 1, 30), (5, 5, 40), (50, 50, 100), (10, 90, 80)])
def test_polya_tail_holds(red, blue, draws):
    law = urn_law(red, blue, draws)
    mean = draws * red / (red + blue)
    for count in range(math.ceil(mean), draws + 1):
        assert float(law[count:].sum()) <= polya_tail(max(0.0, count - mean - 1e-9), red, blue, draws)


def test_polya_steps_are_martingale_differences():
    """F after ℓ draws takes two values, this far apart, whose mean is F before."""
    red, blue, draws = 3, 4, 9
    balls = red + blue
    lengths = polya_lengths(red, blue, draws)

    def forecast(drawn, seen):
        return seen + (draws - drawn) * (red + seen) / (balls + drawn)

    for drawn in range(1, draws + 1):
        for seen in range(drawn):
            up, down = forecast(drawn, seen + 1), forecast(drawn, seen)
            chance = (red + seen) / (balls + drawn - 1)
            assert up - down == pytest.approx(lengths[drawn - 1], rel=1e-12)
            assert chance * up + (1 - chance) * down == pytest.approx(forecast(drawn - 1, seen), rel=1e-12)


def test_per_step_lengths_beat_the_largest_for_all():
    t, red, blue, draws = 30.0, 20, 20, 100
    largest = 2.0 + draws / (red + blue)
    assert polya_tail(t, red, blue, draws) < azuma(t, [largest] * draws) ** 2


def test_erratum_the_urn_does_not_stay_within_root_k_plus_k_over_n():
    red = blue = 5000
    draws = 10**6
    balls = red + blue
    deviation = math.sqrt(polya_variance(red, blue, draws))
    assert deviation > 4.0 * (math.sqrt(draws) + draws / balls)
    assert deviation < math.sqrt(draws + draws**2 / balls)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: azuma(-1.0, [1.0]), "t"),
        (lambda: azuma(math.nan, [1.0]), "t"),
        (lambda: azuma(1.0, []), "steps"),
        (lambda: azuma(1.0, [1.0, -1.0]), "steps[1]"),
        (lambda: azuma(1.0, 3.0), "steps"),
        (lambda: azuma_intervals(1.0, [math.inf]), "lengths[0]"),
        (lambda: azuma_with_drift(1.0, k=0, bound=1.0), "k"),
        (lambda: azuma_with_drift(1.0, k=2, bound=0.0), "bound"),
        (lambda: azuma_with_drift(1.0, k=2, bound=1.0, drift=-2.0), "drift"),
        (lambda: hoeffding_lemma(1.0, 1.0, 0.0, 0.5), "high"),
        (lambda: hoeffding_lemma(1.0, 0.0, 1.0, 2.0), "mean"),
        (lambda: hoeffding_lemma(1.0, 0.0, 1.0, 0.5, known="maybe"), "known"),
        (lambda: expected_loss(-1.0), "epsilon"),
        (lambda: expected_loss(1.0, method="best"), "method"),
        (lambda: polya_variance(0, 1, 1), "red"),
        (lambda: polya_tail(1.0, 1, 1, 1.5), "draws"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.argument == name
