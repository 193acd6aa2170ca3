"""The replicable mean: mismatch, accuracy, the exact law of rounding, and a twin with private randomness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replicable_pairs import PAIRS, clearly_above, clearly_below, not_above, pairs_of_counts
from scipy import stats

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, mean, sample_size

PROMISE = {"accuracy": 0.05, "rho": 0.1, "beta": 0.01}

# Values and their probabilities; the fair coin is the worst there is, its mismatch is ρ itself.
LAWS = {
    "fair coin": ([0.0, 1.0], [0.5, 0.5]),
    "eleven grades": (np.linspace(0, 1, 11), np.ones(11)),
    "ties at the middle": ([0.0, 0.5, 1.0], [0.45, 0.1, 0.45]),
    "a rare one": ([0.0, 1.0], [0.99, 0.01]),
}


# The grid follows from the promise alone, so one row shows it.
WIDTH = mean([0.5], tape=Tape("one row"), best_effort=True, **PROMISE).details["width"]


def snap(values, width, offsets):
    """The centre of each value's cell; cells of ``width`` begin at ``offsets``·``width`` + whole widths."""
    return (np.floor(values / width - offsets) + (offsets + 0.5)) * width


def mean_gap(n):
    """How far the means of two samples lie apart in expectation, at most; the fair coin's do."""
    return 1.0 / math.sqrt(math.pi * (n + 0.25))


def rounded_failure(n, width, accuracy):
    """How often a rounded mean is farther off than the accuracy, at most: the formula of the guarantee."""
    near, far = (stats.norm.sf(2.0 * math.sqrt(n) * (accuracy + side * width / 2.0)) for side in (-1, 1))
    return min(1.0, math.sqrt(2.0 * math.pi / n) / width * (near - far)) if width < 2.0 * accuracy else 1.0


def _simulated(law, rng, tape, *, private=False):
    values, chances = (np.asarray(part, dtype=float) for part in LAWS[law])
    needed = sample_size("mean", **PROMISE)
    first, second = (counts @ values / needed for counts in pairs_of_counts(rng, needed, chances))
    offsets = tape.uniforms(PAIRS)
    others = tape.branch("private").uniforms(PAIRS) if private else offsets
    truth = float(values @ chances / chances.sum())
    return snap(first, WIDTH, offsets), snap(second, WIDTH, others), truth


@pytest.mark.parametrize("law", LAWS)
def test_two_samples_at_the_smallest_size_differ_at_most_as_often_as_promised(law, rng, seed):
    first, second, truth = _simulated(law, rng, Tape(seed))
    assert not_above((first != second).sum(), PAIRS, 0.1)
    if law in ("eleven grades", "a rare one"):
        assert clearly_below((first != second).sum(), PAIRS, 0.1)
    assert not_above((np.abs(first - truth) > 0.05).sum(), PAIRS, 0.01)
    own, other, _ = _simulated(law, rng, Tape(seed), private=True)
    assert clearly_above((own != other).sum(), PAIRS, 0.1)


def test_the_simulation_is_the_statistic(rng):
    needed = sample_size("mean", **PROMISE)
    for i in range(20):
        x = rng.random(needed) < 0.3
        tape = Tape(i)
        result = mean(x, tape=tape, **PROMISE)
        simulated = snap(x.mean(), WIDTH, tape.branch("mean").uniforms(1))[0]
        assert result == min(1.0, max(0.0, simulated))
        assert result.rows == needed
        assert result.guarantee.rho == 0.1


def test_given_two_means_the_mismatch_is_their_distance_over_the_width():
    needed = sample_size("mean", **PROMISE)
    for share in (0.1, 0.4, 0.9, 1.3):
        first = np.zeros(needed)
        second = np.zeros(needed)
        first[: needed // 2] = 1.0
        second[: needed // 2 + round(share * WIDTH * needed)] = 1.0
        apart = (second.mean() - first.mean()) / WIDTH
        differ = sum(
            mean(first, tape=tape, **PROMISE) != mean(second, tape=tape, **PROMISE)
            for tape in map(Tape, range(150))
        )
        assert stats.binomtest(differ, 150, min(1.0, apart)).pvalue > 1e-6


def test_the_size_is_the_least_and_below_the_agreed_limit():
    assert sample_size("mean", bounds=(0, 1), **PROMISE) == 5847 <= 5900
    for accuracy, rho, beta in ((0.05, 0.1, 0.01), (0.2, 0.3, 0.1), (0.01, 0.02, 1e-6), (0.4, 0.9, 0.5)):
        n = sample_size("mean", accuracy=accuracy, rho=rho, beta=beta)
        fewer = max(1, n - 1)
        assert rounded_failure(n, mean_gap(n) / rho, accuracy) <= beta * (1 + 1e-9)
        assert n == 1 or rounded_failure(fewer, mean_gap(fewer) / rho, accuracy) > beta * (1 - 1e-9)


@given(n=st.integers(1, 6000))
def test_fewer_rows_promise_what_the_formulas_say_of_them(n):
    result = mean([0.5] * n, tape=Tape(1), best_effort=True, **PROMISE)
    assert pytest.approx(mean_gap(5847) / 0.1, rel=1e-12) == WIDTH
    enough = n >= 5847
    promised = 0.1 if enough else min(1.0, mean_gap(n) / WIDTH)
    assert result.guarantee.rho == pytest.approx(promised, rel=1e-12)
    failure = 0.01 if enough else rounded_failure(n, WIDTH, 0.05)
    assert result.beta == pytest.approx(failure, rel=1e-9)


def test_bounds_scale_the_grid_and_the_result(rng):
    needed = sample_size("mean", **PROMISE)
    x = rng.random(needed)
    plain = mean(x, tape=Tape(1), **PROMISE)
    scaled = mean(10 + 4 * x, accuracy=0.2, rho=0.1, beta=0.01, bounds=(10, 14), tape=Tape(1))
    assert float(scaled) == pytest.approx(10 + 4 * float(plain), rel=1e-12)
    assert scaled.details["width"] == pytest.approx(4 * plain.details["width"])


def test_the_order_of_the_rows_and_their_number_do_not_matter(rng):
    needed = sample_size("mean", **PROMISE)
    x = rng.random(2 * needed)
    assert mean(x, tape=Tape(3), **PROMISE) == mean(rng.permutation(x), tape=Tape(3), **PROMISE)
    assert mean(np.ones(needed), tape=Tape(3), **PROMISE) == mean(
        np.ones(3 * needed), tape=Tape(3), **PROMISE
    )
    assert float(mean(np.ones(needed), tape=Tape(3), **PROMISE)) <= 1.0


def test_samples_of_different_sizes_differ_no_more_often(rng, seed):
    needed = sample_size("mean", **PROMISE)
    offsets = Tape(seed).uniforms(PAIRS)
    first = rng.binomial(needed, 0.5, size=PAIRS) / needed
    second = rng.binomial(4 * needed, 0.5, size=PAIRS) / (4 * needed)
    differ = (snap(first, WIDTH, offsets) != snap(second, WIDTH, offsets)).sum()
    assert clearly_below(differ, PAIRS, 0.1)


def test_too_few_rows_are_refused_and_a_best_effort_says_what_it_can_promise(rng, seed):
    x = rng.random(1000) < 0.5
    with pytest.raises(NotEnoughRows) as refused:
        mean(x, tape=Tape(1), **PROMISE)
    assert (refused.value.needed, refused.value.got) == (5847, 1000)
    result = mean(x, tape=Tape(1), best_effort=True, **PROMISE)
    assert 0.2 < result.guarantee.rho < 0.3
    assert result.beta > 0.01
    first, second = rng.binomial(1000, 0.5, size=(2, PAIRS)) / 1000
    offsets = Tape(seed).uniforms(PAIRS)
    differ = (snap(first, WIDTH, offsets) != snap(second, WIDTH, offsets)).sum()
    assert stats.binomtest(int(differ), PAIRS, result.guarantee.rho).pvalue > 1e-6
    with pytest.raises(NotEnoughRows):
        mean([], tape=Tape(1), best_effort=True, **PROMISE)


def test_golden_mean_never_changes():
    result = mean([0, 1, 1] * 2000, tape=Tape("study-7"), **PROMISE)
    assert float(result).hex() == "0x1.591130b51da77p-1"
    assert result.tape == "tape:holdfast-1:study-7"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("accuracy", 0.0),
        ("accuracy", 0.5),
        ("accuracy", math.nan),
        ("rho", 0.0),
        ("rho", 1.0),
        ("rho", math.nan),
        ("beta", 0.0),
        ("beta", "x"),
        ("bounds", (1, 0)),
        ("bounds", (0,)),
        ("bounds", (0, math.inf)),
        ("tape", "study-7"),
        ("x", [0.5, math.nan]),
        ("x", [0.5, 1.5]),
        ("x", ["a"]),
        ("x", [[0.5]]),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    given = {"x": [0.5] * 6000, "tape": Tape(1), "bounds": (0, 1), **PROMISE, argument: value}
    with pytest.raises(InvalidArgument, match=f"'{argument}[^']*' argument of mean"):
        mean(given.pop("x"), **given)
