"""Correlated normal and Laplace noise: exact laws, meeting as often as promised, and the lattice."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from contracts.examples import thinned
from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape, correlated_laplace, correlated_normal
from holdfast.replicable._correlated import _code, _first_hit, density

LOWEST = 1e-6


def _draws(draw, centre, tapes):
    return np.array([draw(centre, 1.0, tape) for tape in tapes])


def _tapes(seed, count, name="pairs"):
    return [Tape(seed).branch(name).branch(i) for i in range(count)]


def _normal_total_variation(distance):
    return 2.0 * stats.norm.cdf(distance / 2.0) - 1.0


def _normal_collision(distance, d):
    """E (1 − T)/(1 + T) over the shared radius, T the share of one ball outside the other."""
    radii = np.sqrt(stats.chi2.ppf((np.arange(20_000) + 0.5) / 20_000, d + 2))
    overlap = special.betainc((d + 1) / 2, 0.5, np.maximum(0.0, 1.0 - (distance / (2.0 * radii)) ** 2))
    return float(np.mean(overlap / (2.0 - overlap)))


def test_lattice_points_are_far_enough_apart_for_the_ball():
    for d in range(2, 21):
        code = _code(d)
        weights = code.sum(axis=1)
        assert sorted(set(weights.tolist()) - {0.0, 8.0, 12.0, 16.0}) == []
        assert len(np.unique(code, axis=0)) == len(code)
        sums = (code[:, None, :] + code[None, :, :]) % 2
        assert {tuple(row) for row in sums.reshape(-1, d)[:: max(1, len(code) // 16)]} <= {
            tuple(row) for row in code
        }
        assert 0.003 < density(d) < 0.79


@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_hit_is_the_lattice_point_that_enumeration_finds(d, rng):
    near = [p for p in itertools.product((-4, -2, 0, 2, 4), repeat=d) if sum(p) % 4 == 0]
    near = np.array(near, dtype=float)
    for _ in range(300):
        shifts = 4.0 * rng.random((1, d)) - 2.0
        inside = near[((near + shifts) ** 2).sum(axis=1) < 2.0]
        assert len(inside) <= 1
        hit = _first_hit(np.zeros(d), shifts)
        assert (hit is None) == (len(inside) == 0)
        assert hit is None or np.array_equal(hit[0], inside[0])


@pytest.mark.parametrize("d", [5, 8, 12, 16])
def test_the_lattice_hits_as_often_as_its_density_says(d, rng):
    trials = 2000
    hits = sum(_first_hit(np.zeros(d), 4.0 * rng.random((1, d))) is not None for _ in range(trials))
    assert stats.binomtest(hits, trials, density(d)).pvalue > LOWEST


@pytest.mark.parametrize(
    ("d", "count"),
    thinned([(1, 2000), (2, 1500), (8, 1000), (3, 1000), (20, 250), (11, 1000)], 2),
)
def test_normal_draws_have_their_law(d, count, seed):
    centre = np.linspace(-3.0, 40.0, d)
    away = _draws(correlated_normal, centre, _tapes(seed, count, "law")) - centre
    assert stats.kstest(away.ravel(), "norm").pvalue > LOWEST
    assert stats.kstest(away.sum(axis=1) / math.sqrt(d), "norm").pvalue > LOWEST
    assert stats.kstest((away**2).sum(axis=1), "chi2", args=(d,)).pvalue > LOWEST
    if count >= 1000:
        assert stats.kstest(1.3 * away.ravel() + 0.1, "norm").pvalue < 1e-3


@pytest.mark.parametrize(("d", "count"), [(1, 2000), (2, 1000), (7, 1000), (8, 1000), (20, 250)])
def test_laplace_draws_have_their_law(d, count, seed):
    centre = np.linspace(-3.0, 40.0, d)
    away = _draws(correlated_laplace, centre, _tapes(seed, count, "law")) - centre
    assert stats.kstest(away.ravel(), "laplace").pvalue > LOWEST
    assert stats.kstest(np.abs(away).sum(axis=1), "gamma", args=(d,)).pvalue > LOWEST
    assert d > 8 or stats.kstest(1.3 * away.ravel() + 0.15, "laplace").pvalue < 1e-3


def _met(draw, first, second, seed, count, *, private=False):
    tapes = _tapes(seed, count)
    others = _tapes(seed, count, "private") if private else tapes
    return int((_draws(draw, first, tapes) == _draws(draw, second, others)).all(axis=1).sum())


@pytest.mark.parametrize(
    ("d", "distance", "count"),
    thinned(
        [
            (1, 0.2, 1500),
            (1, 1.5, 1500),
            (2, 0.7, 1000),
            (4, 0.3, 1000),
            (8, 0.2, 1000),
            (16, 0.5, 600),
            (20, 0.3, 200),
        ],
        2,
    ),
)
def test_normals_meet_as_often_as_promised(d, distance, count, seed, rng):
    direction = rng.standard_normal(d)
    first = 3.0 * rng.standard_normal(d)
    second = first + distance * direction / np.linalg.norm(direction)
    met = _met(correlated_normal, first, second, seed, count)
    apart = _normal_total_variation(distance)
    promised = (1.0 - apart) / (1.0 + apart)
    assert stats.binomtest(met, count, 1.0 - apart, "greater").pvalue > LOWEST  # no coupling does better
    if d == 1:
        assert stats.binomtest(met, count, 1.0 - apart).pvalue > LOWEST
    else:
        layers = _normal_collision(distance, d)
        assert promised <= layers <= 1.0 - apart
        assert stats.binomtest(met, count, layers, "less").pvalue > LOWEST
    if d >= 8:
        assert stats.binomtest(met, count, layers).pvalue > LOWEST
    assert _met(correlated_normal, first, second, seed, min(count, 300), private=True) == 0


@pytest.mark.parametrize("d", [1, 3, 7])
def test_laplaces_meet_exactly_as_often_as_the_coordinates_say(d, seed):
    shifts = np.array([0.3, -0.1, 0.2, 0.0, 0.4, 0.1, -0.2])[:d]
    count = 1500
    met = _met(correlated_laplace, np.zeros(d), shifts, seed, count)
    assert stats.binomtest(met, count, math.exp(-np.abs(shifts).sum() / 2.0)).pvalue > LOWEST
    assert _met(correlated_laplace, np.zeros(d), shifts, seed, 300, private=True) == 0


@pytest.mark.parametrize(("d", "count"), [(8, 1500), (11, 800), (20, 200)])
def test_laplaces_in_many_dimensions_meet_as_often_as_the_mixture_says(d, count, seed, rng):
    shift = np.full(d, 0.5 / math.sqrt(d))
    variances = 2.0 * rng.exponential(size=(2000, d))
    distances = np.sqrt((shift**2 / variances).sum(axis=1))
    apart = _normal_total_variation(distances)
    promised = float(np.mean((1.0 - apart) / (1.0 + apart)))
    met = _met(correlated_laplace, np.zeros(d), shift, seed, count)
    assert stats.binomtest(met, count, promised - 0.02, "less").pvalue > LOWEST
    coordinates = math.exp(-np.abs(shift).sum() / 2.0)
    assert d < 20 or met / count > coordinates + 0.1  # coordinate by coordinate they would meet less often


def test_spread_and_shape_follow_the_mean():
    tape = Tape("shape")
    assert correlated_normal(1.0, 2.0, tape).shape == ()
    assert correlated_laplace([1.0], [2.0], tape).shape == (1,)
    wide = correlated_normal(np.zeros(6), np.full(6, 3.0), tape)
    assert np.array_equal(wide, 3.0 * correlated_normal(np.zeros(6), 1.0, tape))
    assert np.array_equal(wide, correlated_normal(np.zeros(6), 3.0, tape))


def test_golden_draws_never_change():
    tape = Tape("study-7")
    assert [x.hex() for x in correlated_normal([0.0, 1.0, 2.0], 1.0, tape).tolist()] == [
        "0x1.4991d9f3875cap-1",
        "0x1.546a6fd1511e9p+0",
        "0x1.1fa8434541685p+0",
    ]
    assert [x.hex() for x in correlated_laplace([0.0, 1.0], 1.0, tape).tolist()] == [
        "-0x1.4390b8b45af9ap-1",
        "-0x1.f87beff040834p-3",
    ]
    assert float(correlated_normal(0.0, 1.0, tape)).hex() == "-0x1.ad78343292fb5p-1"


@pytest.mark.parametrize("draw", [correlated_normal, correlated_laplace])
@pytest.mark.parametrize(
    ("centre", "spread"),
    [
        (math.nan, 1.0),
        ([0.0, math.inf], 1.0),
        (np.zeros(21), 1.0),
        ([], 1.0),
        (np.zeros((2, 2)), 1.0),
        ("a", 1.0),
        (1e30, 1.0),
        (0.0, 0.0),
        (0.0, -1.0),
        (0.0, math.nan),
        (0.0, math.inf),
        ([0.0, 0.0], [1.0, 1.0, 1.0]),
        (0.0, "b"),
    ],
)
def test_bad_arguments_are_refused(draw, centre, spread):
    with pytest.raises(InvalidArgument, match=f"argument of {draw.__name__}"):
        draw(centre, spread, Tape("a"))


def test_a_seed_is_not_a_tape():
    with pytest.raises(InvalidArgument, match="'tape'"):
        correlated_normal(0.0, 1.0, "study-7")
