"""The theorem of adaptive validity, enumerated on small domains, and its two trade-off curves."""

from __future__ import annotations

import itertools
import math
import time

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from contracts.examples import examples, thinned
from holdfast.errors import InvalidArgument
from holdfast.stability import Gaussian, Laplace, adaptive_failure


def trade_off(real, ideal, p):
    """Neyman and Pearson: the most that an event of probability p under ``ideal`` can have under ``real``."""
    order = np.argsort(-real / np.maximum(ideal, 1e-300), kind="stable")
    cost = np.concatenate(([0.0], np.cumsum(ideal[order])))
    gain = np.concatenate(([0.0], np.cumsum(real[order])))
    return float(np.interp(p, cost, gain))


def power(law, k):
    joint = np.array([1.0])
    for _ in range(k):
        joint = np.outer(joint, law).ravel()
    return joint


def shifted_pair(noise, shift):
    """The laws of N + shift and of N, N on the integers around zero, on one common support."""
    pad = np.zeros(shift)
    return np.concatenate((pad, noise)), np.concatenate((noise, pad))


def binomial_noise(half):
    """Symmetric, log-concave, on {−half, …, half}."""
    return np.array([math.comb(2 * half, i) for i in range(2 * half + 1)]) / 4.0**half


def geometric_noise(scale, half):
    weight = np.exp(-np.abs(np.arange(-half, half + 1)) / scale)
    return weight / weight.sum()


def transcripts(noise, questions):
    """Every adaptive transcript and its probability; ``questions(past)`` is the next true value."""
    half = len(noise) // 2
    found = [((), 1.0)]
    while True:
        longer = []
        for past, mass in found:
            value = questions(past)
            if value is None:
                return found
            longer += [
                ((*past, value + e - half), mass * noise[e]) for e in range(len(noise)) if noise[e] > 0.0
            ]
        found = longer


def worst_event(noise, radius, k):
    """P(E) for the best E with P_ideal(E) = 2^-k: X uniform on {−1, 1}^k, queries ±radius·x_j, guess X.

    The sign of each query depends on the last answer; in the ideal world the answers are pure noise.
    """
    best = {}
    for x in itertools.product((-1, 1), repeat=k):

        def question(past, x=x):
            if len(past) == k:
                return None
            return radius * x[len(past)] * (-1 if past and past[-1] > 0 else 1)

        for answers, mass in transcripts(noise, question):
            best[answers] = max(best.get(answers, 0.0), mass)
    return sum(best.values()) / 2**k


@pytest.mark.parametrize("noise", [binomial_noise(3), binomial_noise(8), geometric_noise(2.0, 9)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_event_beats_the_trade_off_curve_and_a_halved_shift_is_beaten(noise, k):
    exact = worst_event(noise, 2, k)
    real, ideal = shifted_pair(noise, 2)
    assert exact <= trade_off(power(real, k), power(ideal, k), 2.0**-k) + 1e-12
    real, ideal = shifted_pair(noise, 1)
    assert exact > trade_off(power(real, k), power(ideal, k), 2.0**-k) + 1e-3


def worst_miss(noise, radius, groups, k):
    """P(some query misses): k − 1 queries tell where x lies, the last is far off exactly where they point.

    X is uniform on ``groups`` rows; every fixed query misses on at most one of them, so ν = 1/groups.
    """
    spread = np.round(np.linspace(-radius, radius, groups)).astype(int)
    best = {}
    for x in range(groups):

        def question(past, x=x):
            if len(past) == k - 1:
                return None
            return int(spread[(x * (len(past) + 1)) % groups])

        for answers, mass in transcripts(noise, question):
            best[answers] = max(best.get(answers, 0.0), mass)
    return sum(best.values()) / groups


@pytest.mark.parametrize(("groups", "k"), [(5, 2), (9, 2), (9, 3), (25, 3)])
def test_no_analyst_makes_a_query_miss_more_often_than_promised(groups, k):
    noise = binomial_noise(6)
    real, ideal = shifted_pair(noise, 2)
    exact = worst_miss(noise, 2, groups, k)
    promised = trade_off(power(real, k), power(ideal, k), k / groups)
    assert 1.0 / groups < exact <= promised
    assert exact > 1.3 / groups


def sign_attack(keep, k):
    """Guess X in {−1, 1}^k from the signs of k answers; each sign is right with probability ``keep``."""
    return keep**k


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.0])
def test_the_sign_attack_stays_below_and_beats_a_halved_ratio(ratio):
    for k in [1, 2, 4, 8, 12]:
        for noise, keep in (
            (Gaussian, float(mp.ncdf(ratio))),
            (Laplace, 1.0 - math.exp(-ratio) / 2.0),
        ):
            exact = sign_attack(keep, k)
            assert exact <= adaptive_failure(k, 0.0, noise(ratio), event=2.0**-k)
            assert exact > adaptive_failure(k, 0.0, noise(ratio / 2.0), event=2.0**-k)


@pytest.mark.parametrize(
    ("k", "nu", "ratio", "expected"),
    [(100, 1e-20, 0.5, 8.588158179838406e-05), (10, 1e-8, 1.0, 0.0208220187588397)],
)
def test_gaussian_reference_values(k, nu, ratio, expected):
    assert adaptive_failure(k, nu, Gaussian(ratio)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("k", "nu", "ratio", "event"),
    [
        (1, 1e-300, 0.1, 0.0),
        (10**6, 1e-300, 0.03, 0.0),
        (100, 1e-4, 0.2, 0.3),
        (7, 0.01, 3.0, 0.0),
        (10**6, 1e-290, 1e-5, 0.0),
    ],
)
def test_gaussian_curve_against_mpmath(k, nu, ratio, event):
    with mp.workdps(400):
        p = mp.mpf(event) + k * mp.mpf(nu)
        score = mp.findroot(
            lambda x: mp.log(mp.ncdf(x) / p), -mp.sqrt(max(-2 * mp.log(p), mp.mpf("0.1"))), tol=1e-60
        )
        exact = mp.ncdf(score + mp.sqrt(k) * mp.mpf(ratio))
        assert 0.0 <= float(adaptive_failure(k, nu, Gaussian(ratio), event=event) / exact - 1) <= 1e-10


def binned_laplace(ratio, edges):
    """A Laplace answer seen through bins, with and without the shift; binning can only lower the curve."""

    def cumulative(x):
        return np.where(x < 0.0, 0.5 * np.exp(np.minimum(x, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(x, 0.0)))

    laws = [np.diff(np.concatenate(([0.0], cumulative(edges - shift), [1.0]))) for shift in (ratio, 0.0)]
    return laws[0], laws[1]


@pytest.mark.parametrize(
    ("ratio", "k", "p"),
    thinned(itertools.product([0.1, 1.0, 4.0], [1, 2, 3], [1e-9, 1e-3, 0.1, 0.45, 0.8]), 4),
)
def test_laplace_curve_against_neyman_and_pearson(ratio, k, p):
    edges = np.linspace(0.0, ratio, {1: 20_000, 2: 1200, 3: 120}[k])
    real, ideal = binned_laplace(ratio, edges)
    below = trade_off(power(real, k), power(ideal, k), p)
    found = adaptive_failure(k, 0.0, Laplace(ratio), event=p)
    assert below * (1 - 1e-9) <= found <= below * (1 + 1e-3)
    if k < 3:
        assert found > trade_off(*[power(law, k) for law in binned_laplace(1.01 * ratio, edges)], p) * 0.9
        short = adaptive_failure(k, 0.0, Laplace(0.9 * ratio), event=p)
        assert short < below


def test_laplace_curve_from_the_exact_profile():
    """T(p) is the least e^ε p + δ(ε): with 4 answers, δ in closed form on the top piece."""
    k, ratio = 4, 2.0
    with mp.workdps(40):

        def delta(epsilon):
            t = (k * ratio - epsilon) / 2
            series = [mp.sinh(t), mp.cosh(t) - 1]
            for m in range(2, k + 1):
                series.append(series[m - 2] - t ** (m - 1) / mp.factorial(m - 1))
            return 2 * mp.exp(-t) * mp.fsum(mp.binomial(k, m) * series[m] for m in range(k + 1)) / 2**k

        for p in (1e-6, 1e-5, 1e-4):
            grid = [mp.mpf(k * ratio) - 4 + mp.mpf(i) / 100 for i in range(401)]
            exact = min(mp.exp(epsilon) * p + delta(epsilon) for epsilon in grid)
            assert adaptive_failure(k, 0.0, Laplace(ratio), event=p) == pytest.approx(float(exact), rel=1e-4)


def test_laplace_curve_is_attained_by_the_likelihood_ratio(rng):
    """Simulated: the event that the loss exceeds a level has real probability T of its ideal probability."""
    k, ratio, trials = 20, 0.4, 100_000
    noise = rng.laplace(size=(trials, k))
    real = np.sum(np.abs(noise + ratio) - np.abs(noise), axis=1)
    ideal = np.sum(np.abs(noise) - np.abs(noise - ratio), axis=1)
    level = 2.0
    p = binomtest(int(np.sum(ideal > level)), trials).proportion_ci(0.999999, method="exact")
    t = binomtest(int(np.sum(real > level)), trials).proportion_ci(0.999999, method="exact")
    assert t.low <= adaptive_failure(k, 0.0, Laplace(ratio), event=p.high)
    assert t.high >= adaptive_failure(k, 0.0, Laplace(ratio), event=p.low)
    assert t.low > adaptive_failure(k, 0.0, Laplace(0.7 * ratio), event=p.high)


def test_union_bound_when_the_noise_drowns_everything():
    for noise in (Gaussian, Laplace):
        assert adaptive_failure(10, 1e-3, noise(0.0)) == pytest.approx(1e-2, rel=1e-12)
        assert adaptive_failure(10, 1e-3, noise(1e-12)) == pytest.approx(1e-2, rel=1e-10)
        assert adaptive_failure(10, 0.0, noise(1.0)) == 0.0
        assert adaptive_failure(10, 0.1, noise(1.0)) == 1.0
        assert adaptive_failure(10**6, 1e-300, noise(1e4)) == 1.0


@pytest.mark.parametrize(
    ("k", "ratio"),
    thinned(
        itertools.product([1, 2, 3, 100, 10**6], [5e-324, 1e-100, 1e-12, 1e-5, 0.01, 1.0, 40.0, 1e10, 1e308]),
        4,
    ),
)
def test_logs_all_the_way(k, ratio):
    for noise in (Gaussian(ratio), Laplace(ratio)):
        values = [adaptive_failure(k, nu, noise) for nu in (0.0, 1e-300, 1e-100, 1e-20, 0.3 / k, 0.8 / k)]
        assert values == sorted(values)
        assert values[0] >= 0.0
        assert values[-1] <= 1.0


def test_fast_enough():
    for k, ratio, nu in ((10_000, 0.01, 1e-30), (10_000, 0.001, 1e-300), (10**6, 1e-3, 1e-300)):
        start = time.process_time()
        adaptive_failure(k, nu, Laplace(ratio))
        assert time.process_time() - start < 1.0


noises = st.sampled_from([Gaussian, Laplace])
ratios = st.floats(1e-3, 10.0)
counts = st.integers(1, 300)
tails = st.floats(1e-12, 1e-3)


@examples(30)
@given(noises, ratios, counts, tails, tails)
def test_monotone_in_nu_and_event(noise, ratio, k, first, second):
    low, high = sorted((first, second))
    assert adaptive_failure(k, low, noise(ratio)) <= adaptive_failure(k, high, noise(ratio)) * (1 + 1e-7)
    one = adaptive_failure(k, low, noise(ratio), event=low)
    assert one <= adaptive_failure(k, low, noise(ratio), event=high) * (1 + 1e-7)
    assert one >= low + k * low


@examples(30)
@given(noises, ratios, counts, counts, tails)
def test_monotone_in_k(noise, ratio, first, second, nu):
    low, high = sorted((first, second))
    assert adaptive_failure(low, nu, noise(ratio)) <= adaptive_failure(high, nu, noise(ratio)) * (1 + 1e-7)


@examples(30)
@given(noises, ratios, ratios, counts, tails)
def test_monotone_in_the_ratio(noise, first, second, k, nu):
    low, high = sorted((first, second))
    assert adaptive_failure(k, nu, noise(low)) <= adaptive_failure(k, nu, noise(high)) * (1 + 1e-7)


@examples(30)
@given(ratios, counts, tails)
def test_pure_privacy_bounds_the_laplace_curve(ratio, k, nu):
    found = adaptive_failure(k, nu, Laplace(ratio))
    assert math.log(found) <= math.log(k * nu) + k * ratio + 1e-9


@pytest.mark.parametrize(
    ("arguments", "event", "name"),
    [
        ((0, 0.1, Gaussian(1.0)), 0.0, "k"),
        ((2, -0.1, Gaussian(1.0)), 0.0, "nu"),
        ((2, math.nan, Gaussian(1.0)), 0.0, "nu"),
        ((2, 1.1, Gaussian(1.0)), 0.0, "nu"),
        ((2, 0.1, 1.0), 0.0, "noise"),
        ((2, 0.1, Gaussian(1.0)), 1.5, "event"),
    ],
)
def test_bad_arguments_are_named(arguments, event, name):
    with pytest.raises(InvalidArgument) as caught:
        adaptive_failure(*arguments, event=event)
    assert caught.value.argument == name
    assert "docs/theory/adaptive-validity.md" in str(caught.value)
