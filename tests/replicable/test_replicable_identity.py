"""Identity testing: the length of a Gaussian vector against a threshold from the tape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chndtr

from contracts.examples import examples
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, identity_test, sample_size
from limits import PAIRS, lower_limit, upper_limit


def _window(d: int, distance: float, rho: float, beta: float) -> tuple[int, float, float]:
    """The rows that a promise needs, and where the tape's thresholds begin and how far they reach: two
    results show where."""
    promise = {"distance": distance, "rho": rho, "beta": beta}
    rows = sample_size("identity_test", dimension=d, **promise)
    drawn, thresholds = [], []
    for tape in (Tape("first"), Tape("second")):
        result = identity_test(np.zeros((rows, d)), np.zeros(d), np.eye(d), tape=tape, **promise)
        drawn.append(tape.branch("identity test").uniforms(1)[0])
        thresholds.append(result.details["threshold"])
    span = (thresholds[1] - thresholds[0]) / (drawn[1] - drawn[0])
    return rows, thresholds[0] - span * drawn[0], span


def _mean_difference(d: int, noncentrality: float, power: float = 0.5) -> float:
    """E|T^power − T'^power| for two noncentral χ² variables, by integration."""
    centre = math.sqrt(noncentrality + d)
    roots = np.linspace(max(0.0, centre - 10.0), centre + 10.0, 20_001)
    below = chndtr(roots**2, d, noncentrality)
    return float(np.trapezoid(2.0 * below * (1.0 - below), roots ** (2.0 * power)))


@pytest.mark.parametrize("d", [1, 2, 7, 100])
def test_two_lengths_differ_by_at_most_two_over_root_pi(d):
    differences = [_mean_difference(d, x) for x in (0.0, 0.3, 2.0, 10.0, 100.0, 1e4)]
    assert max(differences) <= 2.0 / math.sqrt(math.pi) + 1e-6
    assert max(differences) >= 0.99 * 2.0 / math.sqrt(math.pi)


def test_squared_lengths_do_not_keep_the_bound():
    assert _mean_difference(2, 100.0, power=1.0) > 2.0 / math.sqrt(math.pi)


@pytest.mark.parametrize(
    ("d", "distance", "rho", "beta"), [(1, 0.2, 0.1, 0.05), (10, 0.5, 0.2, 1 / 3), (50, 1.0, 0.05, 0.01)]
)
@pytest.mark.parametrize("share", [0.0, 0.4, 0.7, 0.9, 1.0])
def test_ten_thousand_pairs_at_the_smallest_size(d, distance, rho, beta, share, rng):
    """From the stated mean to ``distance``; in between any verdict will do, but it must be the same."""
    rows, start, span = _window(d, distance, rho, beta)
    assert span == pytest.approx(2.0 / (math.sqrt(math.pi) * rho))
    first, second, third = (
        np.sqrt(rng.noncentral_chisquare(d, rows * (share * distance) ** 2 + 1e-300, PAIRS)) for _ in range(3)
    )
    threshold, private = (start + span * rng.uniform(size=PAIRS) for _ in range(2))
    differ = int(((first <= threshold) != (second <= threshold)).sum())
    assert lower_limit(differ, PAIRS) <= rho
    if share == 0.0:
        assert lower_limit(int((first > threshold).sum()), PAIRS) <= beta
    if share == 1.0:
        assert lower_limit(int((first <= threshold).sum()), PAIRS) <= beta
    if share == 0.7:
        assert lower_limit(int(((first <= threshold) != (third <= private)).sum()), PAIRS) > rho


def test_a_window_of_half_the_span_is_caught(rng):
    _, start, span = _window(3, 1.0, 0.1, 0.05)
    span /= 2.0
    centre = (start + span / 2.0) ** 2
    first, second = (np.sqrt(rng.noncentral_chisquare(3, centre, PAIRS)) for _ in range(2))
    threshold = start + span * rng.uniform(size=PAIRS)
    assert lower_limit(int(((first <= threshold) != (second <= threshold)).sum()), PAIRS) > 0.1


def test_the_function_on_rows(rng):
    promise = {"distance": 1.0, "rho": 0.2, "beta": 0.1}
    rows = sample_size("identity_test", dimension=2, **promise)
    factor = np.array([[2.0, 0.0], [1.0, 0.5]])
    covariance = factor @ factor.T
    wrong = differ = 0
    for i in range(600):
        offset = factor @ [1.0, 0.0] * (i % 2)
        x, y = (rng.normal(size=(rows + 3, 2)) @ factor.T + [3.0, 4.0] + offset for _ in range(2))
        first, second = (identity_test(z, [3.0, 4.0], covariance, tape=Tape(i), **promise) for z in (x, y))
        differ += first != second
        wrong += bool(first) != (i % 2 == 0)
    assert lower_limit(differ, 600) <= 0.2
    assert lower_limit(wrong, 600) <= 0.1
    assert first.rows == rows
    assert (first.details["statistic"] <= first.details["threshold"]) == first.value


def test_one_coordinate_takes_plain_numbers(rng):
    rows = sample_size("identity_test", distance=1.0, rho=0.2)
    assert (
        identity_test(rng.normal(5.0, 2.0, rows), 5.0, 4.0, distance=1.0, rho=0.2, tape=Tape("t")).rows
        == rows
    )


def test_sizes():
    sizes = [sample_size("identity_test", distance=0.2, rho=0.1, dimension=d) for d in (1, 10, 100, 1000)]
    assert sizes == [3_172, 4_409, 8_013, 19_273]
    # √d and 1/ρ² add up; SIS's bound multiplies them.
    wide, narrow = (
        sample_size("identity_test", distance=0.1, rho=rho, dimension=10_000) for rho in (0.1, 0.05)
    )
    assert narrow < 2.3 * wide


@examples(25)
@given(st.floats(0.05, 1.0), st.floats(0.02, 0.4), st.floats(0.01, 0.4), st.integers(1, 50))
def test_a_weaker_promise_never_needs_more_rows(distance, rho, beta, dimension):
    rows = sample_size("identity_test", distance=distance, rho=rho, beta=beta, dimension=dimension)
    for name, factor in (("distance", 1.1), ("rho", 1.2), ("beta", 1.2)):
        promise = {"distance": distance, "rho": rho, "beta": beta}
        promise[name] *= factor
        assert sample_size("identity_test", dimension=dimension, **promise) <= rows


def test_too_few_rows_and_best_effort(rng):
    promise = {"distance": 0.5, "rho": 0.1, "beta": 0.05}
    x = rng.normal(size=(200, 2))
    with pytest.raises(NotEnoughRows):
        identity_test(x, [0, 0], np.eye(2), tape=Tape("t"), **promise)
    weaker = identity_test(x, [0, 0], np.eye(2), tape=Tape("t"), best_effort=True, **promise)
    assert 0.1 < weaker.guarantee.rho < 1.0
    assert weaker.beta == 0.05
    assert sample_size("identity_test", dimension=2, distance=0.5, rho=weaker.guarantee.rho, beta=0.05) <= 200
    none = identity_test(x[:1], [0, 0], np.eye(2), tape=Tape("t"), best_effort=True, **promise)
    assert none.guarantee.rho == 1.0
    assert 0.05 < none.beta <= 1.0


@pytest.mark.parametrize(
    ("argument", "change", "mean", "covariance"),
    [
        ("mean", {}, [0.0], np.eye(2)),
        ("mean", {}, [0.0, math.nan], np.eye(2)),
        ("covariance", {}, [0.0, 0.0], np.eye(3)),
        ("covariance", {}, [0.0, 0.0], [[1.0, 0.5], [0.2, 1.0]]),
        ("covariance", {}, [0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
        ("distance", {"distance": 0.0}, [0.0, 0.0], np.eye(2)),
        ("rho", {"rho": 0.0}, [0.0, 0.0], np.eye(2)),
        ("beta", {"beta": math.nan}, [0.0, 0.0], np.eye(2)),
        ("tape", {"tape": "t"}, [0.0, 0.0], np.eye(2)),
    ],
)
def test_bad_arguments(argument, change, mean, covariance):
    arguments = {"distance": 0.5, "rho": 0.1, "tape": Tape("t"), "best_effort": True, **change}
    with pytest.raises(InvalidArgument) as refused:
        identity_test(np.eye(2), mean, covariance, **arguments)
    assert refused.value.argument == argument


def test_measured_mismatch_is_near_the_bound_in_the_middle(rng):
    rho = 0.1
    rows, start, span = _window(5, 0.2, rho, 0.05)
    middle = (start + span / 2.0) ** 2
    first, second = (np.sqrt(rng.noncentral_chisquare(5, middle, PAIRS)) for _ in range(2))
    threshold = start + span * rng.uniform(size=PAIRS)
    differ = int(((first <= threshold) != (second <= threshold)).sum())
    assert rows > 0
    assert upper_limit(differ, PAIRS) >= 0.9 * rho
