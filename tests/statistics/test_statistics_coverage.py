"""The exact probability that an interval misses the truth, by every sample of small laws."""

from __future__ import annotations

import itertools
import math

import pytest
from statistics_laws import (
    FINE,
    GROUPS,
    ONE_CELL,
    ONE_VALUE,
    TWO_VALUES,
    Law,
    misses,
    on_line,
    trained_on,
)

from contracts.examples import thinned
from holdfast.statistics import Contrast, Lift, Mean, Ratio, RSquared, Variance, WeightedMean

TRAININGS = [
    *((kind, error) for kind in ("right", "off") for error in (0.5, 1e-2, 1e-6)),
    ("none", 1e-2),
]
"""Kinds of training part, and errors."""
HALVES = (Mean, Ratio, WeightedMean, Contrast, Lift, Variance, RSquared)
"""Statistics that promise half of the error on each side."""

COIN = on_line((0.0, 0.5), (1.0, 0.5))
RARE = on_line((0.0, 0.97), (1.0, 0.03))
LOW = on_line((0.25, 0.26), (1.0, 0.74))
THREE = on_line((0.0, 0.3), (0.25, 0.5), (1.0, 0.2))

RISING = Law(((0.125, 0.25), (1.0, 0.875)), (0.7, 0.3))
FALLING = Law(((0.0, 0.75), (0.5, 0.25)), (0.5, 0.5))
TOGETHER = Law(((0.125, 0.25), (0.5, 0.5), (1.0, 0.875)), (0.3, 0.4, 0.3))
OPPOSITE = Law(((0.0, 1.0), (0.5, 0.25), (1.0, 0.5)), (0.4, 0.3, 0.3))
SKEWED = Law(((0.0, 0.125), (1.0, 0.125), (0.5, 1.0)), (0.6, 0.3, 0.1))


def training(kind, laws, rows, **options):
    """None, a training part with the laws' frequencies, or one whose frequencies are far off."""
    if kind == "none":
        return None
    laws = laws if kind == "right" else [Law(law.points, law.weights[::-1]) for law in laws]
    return trained_on(laws, rows, **options)


def check(statistic, laws, rows, kind, error, steps=FINE):
    """The share of the error that is used."""
    options = {"two_values": statistic.two_values, "steps": steps}
    trained = training(kind, laws, rows, **options)
    above, below = misses(statistic, laws, rows, -math.log(error), trained, **options)
    assert above + below <= error
    if isinstance(statistic, HALVES):
        assert max(above, below) <= error / 2
    return (above + below) / error


def cases(*parts, trainings=TRAININGS):
    """All combinations, every second one with all rows in one cell."""
    every = itertools.product(*parts, trainings)
    return [(*first, *trained, (FINE, ONE_CELL)[place % 2]) for place, (*first, trained) in enumerate(every)]


@pytest.mark.parametrize(
    ("law", "statistic", "kind", "error", "steps"), thinned(cases([COIN, RARE, LOW], ONE_VALUE), 4)
)
def test_one_value(law, statistic, kind, error, steps):
    check(statistic, [law], [200], kind, error, steps)


@pytest.mark.parametrize(
    ("law", "statistic", "kind", "error", "steps"), thinned(cases([RISING, FALLING], TWO_VALUES), 4)
)
def test_two_values(law, statistic, kind, error, steps):
    check(statistic, [law], [200], kind, error, steps)


@pytest.mark.parametrize(
    ("statistic", "rows", "kind", "error", "steps"), thinned(cases(GROUPS, [(12, 9), (2, 30), (1, 1)]), 4)
)
def test_groups(statistic, rows, kind, error, steps):
    laws = [on_line((0.0, 0.4), (1.0, 0.6)), on_line((0.25, 0.7), (1.0, 0.3))]
    check(statistic, laws, rows, kind, error, steps)


@pytest.mark.parametrize(
    ("law", "statistic", "kind", "error", "steps"),
    thinned(cases([TOGETHER, OPPOSITE, SKEWED], TWO_VALUES, trainings=[("right", 0.5), ("off", 0.1)]), 12),
)
def test_two_values_at_three_points(law, statistic, kind, error, steps):
    check(statistic, [law], [20], kind, error, steps)


@pytest.mark.parametrize(("statistic", "kind", "error", "steps"), thinned(cases(ONE_VALUE), 7))
def test_one_value_at_three_points(statistic, kind, error, steps):
    check(statistic, [THREE], [20], kind, error, steps)


@pytest.mark.parametrize("statistic", [Mean(), WeightedMean()], ids=str)
def test_the_error_is_not_left_unused(statistic):
    """The check could tell: some samples miss."""
    assert check(statistic, [RISING if statistic.two_values else COIN], [200], "right", 0.1) > 0.1
