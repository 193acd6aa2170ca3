"""Typically stable answers: the noise on the grid has the stability that the release claims, exactly."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms_oracles import rounded_law, shifted
from scipy import stats
from scipy.optimize import brentq

from enumeration import hockey_stick
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import Noise, Release, typical_gaussian, typical_laplace, widest_ratio
from holdfast.stability import TwoSampleStability, TypicalStability, gaussian_delta, laplace_delta
from holdfast.tails import BoundedDifferences, Custom, SubExponential, SubGaussian

TAIL = SubGaussian(1.0)


def moves(shift: float, grid: float) -> int:
    """The most grid steps by which the rounding of two numbers ``shift`` apart can differ, by trying."""
    places = np.arange(0.0, 4.0 * grid, grid / 64)
    return int(
        max(np.abs(np.rint((places + d) / grid) - np.rint(places / grid)).max() for d in (shift, -shift))
    )


@pytest.mark.parametrize("shift", [0.3, 1.0, 1.1, 5.7])
def test_coarse_laplace_noise_is_exactly_as_stable_as_claimed(shift):
    for resolution, eta in product([0, 1, 2, 3], [0.1, 0.7, 2.5]):
        noise = Noise.hiding("laplace", shift, eta, resolution=resolution)
        law = rounded_law(noise.steps, 45 * noise.steps, "laplace")
        steps = moves(shift, noise.grid)
        for moved in range(1, steps + 1):
            p, q = shifted(law, moved)
            assert max(hockey_stick(p, q, eta), hockey_stick(q, p, eta)) <= 1e-13
        # The same noise calibrated without the grid step breaks the claim wherever rounding can add one.
        careless = math.ceil(Fraction(shift) / Fraction(noise.grid) / Fraction(eta))
        if steps > eta * careless:
            p, q = shifted(rounded_law(careless, 45 * careless, "laplace"), steps)
            assert hockey_stick(p, q, eta) > 1e-4


@pytest.mark.parametrize(("eta", "tau"), [(0.1, 0.01), (1.0, 1e-3), (4.0, 0.2), (0.0, 0.1)])
def test_coarse_gaussian_noise_is_exactly_as_stable_as_claimed(eta, tau):
    for resolution, shift in product([0, 1, 3], [0.3, 1.1]):
        noise = Noise.hiding("gaussian", shift, widest_ratio(eta, tau), resolution=resolution)
        law = rounded_law(noise.steps, 12 * noise.steps, "gaussian")
        steps = moves(shift, noise.grid)
        for moved in range(1, steps + 1):
            p, q = shifted(law, moved)
            assert max(hockey_stick(p, q, eta), hockey_stick(q, p, eta)) <= tau + 1e-14
        careless = math.ceil(shift / widest_ratio(eta, tau) / noise.grid)
        if steps / careless > 1.05 * widest_ratio(eta, tau):
            p, q = shifted(rounded_law(careless, 12 * careless, "gaussian"), steps)
            assert hockey_stick(p, q, eta) > tau


def test_the_careless_twins_are_caught_somewhere():
    grid = Noise.hiding("laplace", 1.1, 0.7, resolution=1).grid
    assert moves(1.1, grid) > 0.7 * math.ceil(1.1 / grid / 0.7)
    ratio = widest_ratio(1.0, 1e-3)
    grid = Noise.hiding("gaussian", 1.1, ratio, resolution=1).grid
    assert moves(1.1, grid) / math.ceil(1.1 / ratio / grid) > 1.05 * ratio


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("moved", [1, 3])
def test_rounded_noise_has_no_more_than_the_profile_of_continuous_noise(kind, steps, moved):
    profile = laplace_delta if kind == "laplace" else gaussian_delta
    p, q = shifted(rounded_law(steps, 40 * steps, kind), moved)
    for epsilon in np.linspace(0.0, 4.0, 33):
        assert hockey_stick(p, q, epsilon) <= profile(epsilon, moved / steps) + 1e-13


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_that_is_discrete_from_the_start_has_more(kind):
    # Why continuous noise is rounded: weights e^{-|k|/t}, or e^{-k²/2t²}, on the integers exceed the profile.
    t = 1.0
    k = np.arange(-60, 61)
    law = np.exp(-np.abs(k) / t) if kind == "laplace" else np.exp(-((k / t) ** 2) / 2)
    p, q = shifted(law / law.sum(), 1)
    profile = laplace_delta if kind == "laplace" else gaussian_delta
    assert any(hockey_stick(p, q, e) > 1.02 * profile(e, 1 / t) for e in np.linspace(0.0, 2.0, 21))


@pytest.mark.parametrize("form", ["oracle", "two-sample"])
@pytest.mark.parametrize("p", [0.5, 0.3])
def test_typical_laplace_on_coins_by_enumeration(form, p):
    # The mean of n coins: add up the data on which the noise does not hide the distance.
    n, eta, nu = 12, 0.8, 0.2
    release = typical_laplace(0.5, BoundedDifferences.of_mean(0, 1, n), eta, nu, form=form)
    law = stats.binom.pmf(np.arange(n + 1), n, p)
    cell = np.rint(np.arange(n + 1) / n / release.noise.grid)

    def bad(steps: float) -> float:
        if form == "oracle":
            apart = np.abs(cell - np.rint(p / release.noise.grid))
            return float(law @ (apart > eta * steps))
        return float(law @ (np.abs(cell[:, None] - cell[None, :]) > eta * steps) @ law)

    assert bad(release.noise.steps) <= nu
    assert bad(release.noise.steps / 4) > nu


@pytest.mark.parametrize("dimensions", [2, 16])
@pytest.mark.parametrize(("kind", "order"), [("laplace", 1), ("gaussian", 2)])
def test_vectors_move_no_farther_than_the_calibration_allows(kind, order, dimensions, rng):
    shift, ratio = 1.0, 0.6
    noise = Noise.hiding(kind, shift, ratio, dimensions=dimensions, resolution=0)
    directions = np.concatenate((np.ones((1, dimensions)), rng.normal(size=(300, dimensions))))
    directions *= shift / np.linalg.norm(directions, ord=order, axis=1, keepdims=True)
    starts = np.linspace(0, noise.grid, 65)[:, None, None]
    apart = np.rint((starts + directions) / noise.grid) - np.rint(starts / noise.grid)
    worst = np.linalg.norm(apart, ord=order, axis=2).max()
    assert worst <= ratio * noise.steps
    if dimensions == 16:
        # One dimension's allowance would not do.
        assert worst > ratio * Noise.hiding(kind, shift, ratio, resolution=0).steps


@given(
    st.floats(1e-3, 20.0),
    st.floats(1e-12, 0.5),
    st.sampled_from([SubGaussian(0.3), SubExponential(1.0, 2.0)]),
)
def test_typical_laplace_takes_the_printed_scale(eta, nu, tail):
    oracle = typical_laplace(0.0, tail, eta, nu)
    assert oracle.noise.scale == pytest.approx(tail.radius(nu) / eta, rel=1e-8)
    assert oracle.stability == TypicalStability(eta, 0.0, nu)
    pair = typical_laplace(0.0, tail, eta, nu, form="two-sample")
    assert pair.noise.scale == pytest.approx(2 * tail.radius(nu / 2) / eta, rel=1e-8)
    assert pair.stability == TwoSampleStability(eta, 0.0, nu)
    assert oracle.noise.ratio(tail.radius(nu)) <= eta * (1 + 1e-12)


@given(st.floats(0.0, 30.0), st.floats(1e-12, 0.9))
def test_the_sharp_calibration_is_the_smallest_valid_one(eta, tau):
    ratio = widest_ratio(eta, tau)
    assert gaussian_delta(eta, ratio) <= tau
    assert gaussian_delta(eta, ratio * (1 + 3e-9)) > tau


@pytest.mark.parametrize(("eta", "tau"), [(0.1, 1e-5), (1.0, 1e-5), (10.0, 1e-5), (0.5, 0.1)])
def test_the_sharp_calibration_by_another_route(eta, tau):
    def excess(a: float) -> float:
        return (
            stats.norm.cdf(a / 2 - eta / a) - math.exp(eta) * stats.norm.cdf(-a / 2 - eta / a) - tau
        ) / tau

    release = typical_gaussian(0.0, TAIL, eta, tau, 0.01)
    assert release.noise.scale == pytest.approx(
        TAIL.radius(0.01) / brentq(excess, 1e-2, 20.0, xtol=1e-13), rel=1e-6
    )


@given(st.floats(0.01, 20.0), st.floats(1e-9, 0.5), st.floats(1.01, 3.0))
def test_more_permission_means_less_noise(eta, tau, factor):
    base = typical_gaussian(0.0, TAIL, eta, tau, 1e-3).noise.scale
    assert typical_gaussian(0.0, TAIL, eta * factor, tau, 1e-3).noise.scale < base
    assert typical_gaussian(0.0, TAIL, eta, min(0.9, tau * factor), 1e-3).noise.scale < base
    assert typical_gaussian(0.0, TAIL, eta, tau, 1e-3 * factor).noise.scale < base
    assert (
        typical_laplace(0.0, TAIL, eta * factor, 1e-3).noise.scale
        < typical_laplace(0.0, TAIL, eta, 1e-3).noise.scale
    )


def test_the_printed_gaussian_mechanism_where_it_holds_and_where_it_does_not():
    radius = TAIL.radius(1e-3)
    for eta, tau in ((0.1, 1e-5), (1.0, 1e-5), (8.7, 1e-5), (6.2, 0.1)):
        paper = typical_gaussian(0.0, TAIL, eta, tau, 1e-3, method="paper").noise
        assert paper.scale == pytest.approx(radius * math.sqrt(2 * math.log(1.5 / tau)) / eta, rel=1e-8)
        assert gaussian_delta(eta, paper.ratio(radius)) <= tau
        assert typical_gaussian(0.0, TAIL, eta, tau, 1e-3).noise.scale < paper.scale
    for eta, tau in ((10.0, 1e-5), (8.9, 1e-5), (6.4, 0.1)):
        with pytest.raises(InvalidArgument, match=r"'eta'.*'sharp'"):
            typical_gaussian(0.0, TAIL, eta, tau, 1e-3, method="paper")
        sharp = typical_gaussian(0.0, TAIL, eta, tau, 1e-3).noise
        assert gaussian_delta(eta, sharp.ratio(radius) / (1 + 1e-12)) <= tau
        assert sharp.scale > radius * math.sqrt(2 * math.log(1.5 / tau)) / eta


@pytest.mark.parametrize("dimensions", [1, 3, 1000])
def test_a_release_knows_its_error(dimensions, seed):
    value = np.linspace(-3.0, 3.0, dimensions)
    beta, runs = 0.1, 300
    missed = halved = 0
    for run in range(runs):
        release = typical_gaussian(value, TAIL, 1.0, 1e-3, 1e-3, simulation=True, seed=1000 * seed + run)
        far = np.abs(release.value - value).max()
        missed += far > release.error(beta)
        halved += far > release.error(beta) / 2
    assert stats.binomtest(missed, runs, beta, alternative="greater").pvalue > 1e-6
    assert stats.binomtest(halved, runs, beta, alternative="greater").pvalue < 1e-6


def test_the_error_of_a_far_value_counts_the_spacing_of_floats():
    tail = SubGaussian(1e-9)
    release = typical_laplace(1e12 + 0.3, tail, 1.0, 0.1)
    assert release.error(0.5) >= np.spacing(1e12)
    assert abs(release.value - (1e12 + 0.3)) <= release.error(1e-12)
    near = typical_laplace(1.0, tail, 1.0, 0.1)
    assert near.error(0.5) < 1e-8


def test_a_release_is_a_record_that_says_whether_it_was_simulated():
    real = typical_laplace([1.0, 2.0], TAIL, 0.5, 1e-3)
    seeded = typical_laplace(1.0, TAIL, 0.5, 1e-3, simulation=True, seed=1)
    assert (real.simulated, seeded.simulated) == (False, True)
    assert seeded.value == typical_laplace(1.0, TAIL, 0.5, 1e-3, simulation=True, seed=1).value
    assert float(seeded) == seeded.value
    with pytest.raises(InvalidArgument, match="seed"):
        typical_gaussian(1.0, TAIL, 0.5, 1e-3, 1e-3, seed=1)
    with pytest.raises(AttributeError):
        seeded.value = 0.0
    with pytest.raises(ValueError, match="read-only"):
        real.value[0] = 0.0
    written = json.loads(json.dumps(real.to_dict()))
    assert written["value"] == real.value.tolist()
    assert written["stability"] == {"eta": 0.5, "tau": 0.0, "nu": 1e-3}
    assert "simulated" in repr(seeded)
    assert isinstance(real, Release)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"eta": 0.0, "method": "paper"}, "eta"),
        ({"eta": -1.0}, "eta"),
        ({"eta": math.nan}, "eta"),
        ({"tau": 0.0}, "tau"),
        ({"tau": 1.0}, "tau"),
        ({"nu": 0.0}, "nu"),
        ({"nu": 1.0}, "nu"),
        ({"tail": 0.5}, "tail"),
        ({"tail": Custom(lambda a: 0.0)}, "tail"),
        ({"tail": SubGaussian(1e-290)}, "tail"),
        ({"value": math.nan}, "value"),
        ({"value": []}, "value"),
        ({"method": "best"}, "method"),
    ],
)
def test_bad_arguments_are_named(change, named):
    good = {"value": 0.0, "tail": TAIL, "eta": 0.5, "tau": 1e-3, "nu": 1e-3}
    with pytest.raises(InvalidArgument) as caught:
        typical_gaussian(**{**good, **change})
    assert caught.value.argument == named
    if named not in ("tau", "method"):
        good.pop("tau")
        change.pop("method", None)
        with pytest.raises(InvalidArgument) as caught:
            typical_laplace(**{**good, **change})
        assert caught.value.argument == named
    with pytest.raises(InvalidArgument, match="form"):
        typical_laplace(0.0, TAIL, 0.5, 1e-3, form="both")


@pytest.mark.parametrize("method", ["sharp", "paper"])
@pytest.mark.parametrize(("eta", "tau", "nu"), [(0.5, 1e-3, 0.05), (1.0, 1e-2, 0.2)])
def test_two_gaussian_answers_are_close_for_almost_all_pairs(method, eta, tau, nu):
    # The mean of n fair coins, all pairs of samples by their sums.
    n = 60
    tail = BoundedDifferences(1.0 / n, n)
    pair = typical_gaussian(0.5, tail, eta, tau, nu, method=method, form="two-sample")
    assert pair.stability == TwoSampleStability(eta, tau, nu)
    law = stats.binom.pmf(np.arange(n + 1), n, 0.5)
    shifts = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) / n

    def bad(scale):
        close = {shift: gaussian_delta(eta, shift / scale) <= tau for shift in np.unique(shifts)}
        far = np.vectorize(close.__getitem__)(shifts)
        return float(law @ ~far @ law)

    assert bad(pair.noise.scale) <= nu
    # The noise of the oracle form covers α, and two samples may be 2α apart.
    oracle = typical_gaussian(0.5, tail, eta, tau, nu, method=method)
    assert gaussian_delta(eta, 2.0 * tail.radius(nu / 2.0) / oracle.noise.scale) > tau
    assert gaussian_delta(eta, 2.0 * tail.radius(nu / 2.0) / pair.noise.scale) <= tau
    # TS1 Theorem 4.4, up to the 1.5 under its logarithm.
    printed = 4.0 * tail.radius(nu / 2.0) * math.sqrt(math.log(1.5 / tau) * math.log(2.0 / 0.05)) / eta
    assert pair.error(0.05) <= printed
