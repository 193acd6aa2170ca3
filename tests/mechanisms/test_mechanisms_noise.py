"""Noise on a grid: what goes in, where the answer lies, and how far from the truth it is."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mechanisms_oracles import on_grid, upper_tail
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.mechanisms import Noise, gaussian, laplace

MECHANISMS = {"laplace": laplace, "gaussian": gaussian}
kinds = st.sampled_from(sorted(MECHANISMS))
values = st.floats(min_value=-1e300, max_value=1e300)
scales = st.floats(min_value=1e-280, max_value=1e280)


@given(kinds, values, scales)
@example("laplace", 5e-324, 1.0)
@example("gaussian", 1e300, 1e-280)
@example("laplace", -1e300, 1e280)
@example("gaussian", 2.2250738585072014e-308, 1e-280)
@example("laplace", 0.1, 0.1)
def test_every_answer_lies_on_the_grid_of_the_scale(kind, value, scale):
    noise = Noise.of(kind, scale)
    answer = MECHANISMS[kind](value, scale)
    assert math.isfinite(answer)
    assert on_grid(answer, noise.grid)
    assert on_grid(noise.scale, noise.grid)
    assert Fraction(scale) <= Fraction(noise.scale) <= Fraction(scale) * (1 + Fraction(1, 2**40))
    assert 2**40 <= noise.steps <= 2**41


@given(kinds, st.lists(values, min_size=1, max_size=5), scales, st.integers(0, 2**32))
def test_an_answer_is_the_exact_sum_rounded_once(kind, numbers, scale, seed):
    noise = Noise.of(kind, scale)
    answers = noise.add(np.array(numbers), simulation=True, seed=seed)
    # The same coins with nothing to hide show the noise itself: whole steps, few enough for a float.
    drawn = noise.add(np.zeros(len(numbers)), simulation=True, seed=seed)
    grid = Fraction(noise.grid)
    for number, noise_alone, answer in zip(numbers, drawn, answers, strict=True):
        steps = Fraction(float(noise_alone)) / grid
        assert steps.denominator == 1
        exact = (round(Fraction(number) / grid) + int(steps)) * grid
        assert answer == float(exact)
        if abs(exact) < 2**53 * grid:
            assert Fraction(float(answer)) == exact


@given(kinds, scales, st.lists(values, min_size=2, max_size=2))
def test_the_grid_says_nothing_about_the_value(kind, scale, pair):
    # Every answer is a multiple of one grid step more than 2^-41 of the scale, whatever the value.
    grid = Noise.of(kind, scale).grid
    assert 2.0**-41 < grid / scale <= 2.0**-40
    assert all(on_grid(answer, grid) for answer in MECHANISMS[kind](pair, scale))


def test_ordinary_float_noise_would_fail_the_grid_test(rng):
    noise = Noise.of("laplace", 0.1)
    naive = 0.1 + rng.laplace(scale=0.1, size=100)
    assert not all(on_grid(answer, noise.grid) for answer in naive)


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        math.inf,
        -math.inf,
        1.1e300,
        -sys.float_info.max,
        [0.0, math.nan],
        [[1.0], [2.0, 3.0]],
        10**400,
        "1",
        None,
        True,
        1j,
        [None],
        np.array(["a"]),
        np.datetime64("2020-01-01"),
    ],
)
def test_a_bad_value_is_refused_before_noise_is_drawn_and_not_repeated(mechanism, bad):
    with pytest.raises(InvalidArgument, match="value") as caught:
        mechanism(bad, 1.0)
    assert "not shown" in str(caught.value)
    assert "1.1e+300" not in str(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 5e-324, 1e-281, 1e281, "1", None, True])
def test_a_bad_scale_is_refused_by_its_own_name(mechanism, bad):
    with pytest.raises(InvalidArgument, match=r"\[1e-280, 1e280\]") as refusal:
        mechanism(0.0, bad)
    assert refusal.value.argument == {"laplace": "scale", "gaussian": "sd"}[mechanism.__name__]
    assert f"of {mechanism.__name__} must be" in str(refusal.value)


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_numbers_give_numbers_and_arrays_give_arrays(mechanism):
    for number in (3, 3.0, np.float32(3.0), np.int64(3), np.array(3.0)):
        assert type(mechanism(number, 0.1)) is float
    for shape in ((4,), (2, 3), (0,)):
        answer = mechanism(np.zeros(shape), 0.1)
        assert isinstance(answer, np.ndarray)
        assert (answer.shape, answer.dtype) == (shape, np.float64)
    assert isinstance(mechanism([1, 2, 3], 0.1), np.ndarray)


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_a_seed_works_only_in_a_simulation(mechanism, seed):
    numbers = np.arange(5.0)
    first = mechanism(numbers, 1.0, simulation=True, seed=seed)
    assert (first == mechanism(numbers, 1.0, simulation=True, seed=seed)).all()
    assert (first != mechanism(numbers, 1.0, simulation=True, seed=seed + 1)).all()
    generator = np.random.default_rng(seed)
    assert (first == mechanism(numbers, 1.0, simulation=True, seed=generator)).all()
    assert (first != mechanism(numbers, 1.0, simulation=True, seed=generator)).all()
    for wrong in (
        {"seed": seed},
        {"seed": generator},
        {"simulation": True},
        {"simulation": True, "seed": -1},
    ):
        with pytest.raises(InvalidArgument, match="seed"):
            mechanism(numbers, 1.0, **wrong)
    with pytest.raises(InvalidArgument, match="simulation"):
        mechanism(numbers, 1.0, simulation=1, seed=seed)


@pytest.mark.parametrize(
    ("kind", "scale", "grid", "named"),
    [
        ("cauchy", 1.0, 0.5, "kind"),
        ("laplace", 1.0, 0.3, "grid"),
        ("laplace", 1.0, 0.0, "grid"),
        ("laplace", 1.0, 2.0, "scale"),
        ("laplace", 1.25, 0.5, "scale"),
        ("laplace", 1.0, 2.0**-43, "scale"),
        ("laplace", math.nan, 0.5, "scale"),
        ("laplace", 1.0, math.nan, "grid"),
    ],
)
def test_noise_that_does_not_fit_its_grid_is_refused(kind, scale, grid, named):
    with pytest.raises(InvalidArgument) as caught:
        Noise(kind, scale, grid)
    assert caught.value.argument == named


def test_noise_is_a_plain_record():
    noise = Noise("gaussian", 1.5, 0.5)
    assert noise.steps == 3
    assert json.loads(json.dumps(noise.to_dict())) == {"kind": "gaussian", "scale": 1.5, "grid": 0.5}


@given(kinds, st.floats(1e-6, 0.999), st.integers(1, 10**6), st.integers(1, 64))
def test_the_error_bound_holds_exactly_and_is_tight(kind, beta, answers, steps):
    # |K| ≤ m except with chance P(|N| > m + ½); the value's own rounding adds half a step.
    noise = Noise(kind, steps / 8, 1 / 8)
    bound = noise.error(beta, answers=answers)

    def fails(limit: float) -> float:
        within = math.floor(limit * 8 - 0.5)
        outside = 2.0 * float(upper_tail(np.array((within + 0.5) / steps), kind)) if within >= 0 else 1.0
        return -math.expm1(answers * math.log1p(-outside)) if outside < 1.0 else 1.0

    assert fails(bound) <= beta * (1 + 1e-9)
    if bound > 3 / 8:
        assert fails(bound - 3 / 8) > beta


@pytest.mark.parametrize(
    ("kind", "printed"), [("laplace", math.log), ("gaussian", lambda x: math.sqrt(2 * math.log(x)))]
)
def test_the_error_bound_is_never_above_the_printed_one_with_a_union_bound(kind, printed):
    noise = Noise.of(kind, 2.0)
    for beta in (0.3, 0.05, 1e-6):
        for answers in (1, 7, 1000):
            assert noise.error(beta, answers=answers) <= 2.0 * printed(answers / beta) * (1 + 1e-9)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_the_error_bound_holds_in_simulation_and_its_half_does_not(kind, seed):
    noise, beta, runs = Noise.of(kind, 0.3), 0.05, 4000
    answers = noise.add(np.full((runs, 5), 0.77), simulation=True, seed=seed)
    far = np.abs(answers - 0.77).max(axis=1)
    missed = int((far > noise.error(beta, answers=5)).sum())
    assert stats.binomtest(missed, runs, beta, alternative="greater").pvalue > 1e-6
    halved = int((far > noise.error(beta, answers=5) / 2).sum())
    assert stats.binomtest(halved, runs, beta, alternative="greater").pvalue < 1e-6


@given(kinds, st.floats(0, 1e6), st.integers(1, 10**6), scales)
def test_the_ratio_covers_the_shift_and_the_rounding(kind, share, dimensions, scale):
    noise = Noise.of(kind, scale)
    shift = share * scale if math.isfinite(share * scale) else scale
    rounding_part = dimensions if kind == "laplace" else math.sqrt(dimensions)
    least = Fraction(shift) + Fraction(rounding_part) * Fraction(noise.grid)
    assert Fraction(noise.ratio(shift, dimensions=dimensions)) >= least / Fraction(noise.scale)
    assert noise.ratio(shift, dimensions=dimensions) <= float(
        (Fraction(shift) + (rounding_part + 1) * Fraction(noise.grid)) / Fraction(noise.scale)
    ) * (1 + 1e-12)


@given(
    kinds,
    st.floats(1e-100, 1e100),
    st.floats(1e-6, 1e6),
    st.integers(1, 1000),
    st.sampled_from([1, 4, 20, 40]),
)
def test_hiding_is_the_narrowest_noise_that_covers_the_ratio(kind, shift, ratio, dimensions, resolution):
    noise = Noise.hiding(kind, shift, ratio, dimensions=dimensions, resolution=resolution)
    added = dimensions if kind == "laplace" else math.isqrt(dimensions - 1) + 1
    moved = Fraction(shift) + added * Fraction(noise.grid)
    assert moved <= Fraction(ratio) * Fraction(noise.scale)
    assert noise.steps == 1 or moved > Fraction(ratio) * (Fraction(noise.scale) - Fraction(noise.grid))


def test_hiding_says_what_it_cannot_resolve():
    with pytest.raises(InvalidArgument, match="ratio"):
        Noise.hiding("laplace", 1.0, 1e-9, dimensions=10**6)
    assert Noise.hiding("gaussian", 1.0, 1e-9, dimensions=10**6).steps < 2**42
    for bad in (
        {"shift": 0.0},
        {"ratio": 0.0},
        {"dimensions": 0},
        {"shift": 1e200, "ratio": 1e-200},
        {"resolution": 41},
    ):
        with pytest.raises(InvalidArgument):
            Noise.hiding("laplace", **{"shift": 1.0, "ratio": 1.0, **bad})
