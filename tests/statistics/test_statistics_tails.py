"""Rows that depend on each other: coverage by seeded simulation, exact coverage where groups decide values,
and what the proof needs of a search by tails."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statistics_laws import AXIS, UNITS, Law, truth_of

from holdfast.dependence import Clusters, MarkovChain
from holdfast.intervals import Interval
from holdfast.statistics import (
    NO_AXIS,
    Axis,
    Bets,
    Cells,
    Contrast,
    Correlation,
    Covariance,
    Crossing,
    Lift,
    Mean,
    Ratio,
    Slope,
    Steps,
    Tails,
    Variance,
    WeightedMean,
)
from holdfast.tails import SubGaussian

ERROR = 0.1
STATISTICS = [
    *(Mean(), Variance(), Variance(root=True), Contrast(), Lift(), Ratio(), WeightedMean()),
    *(Covariance(), Slope(), Correlation()),
]


def cells_of(x, z=None, group=None, axes=(AXIS, AXIS)):
    axes = (axes[0], NO_AXIS if z is None else axes[1])
    units = [
        None if values is None else np.rint((values - axis.low) / axis.width * UNITS).astype(np.int64)
        for axis, values in zip(axes, (x, z), strict=True)
    ]
    steps = (Steps.over(axes[0], 32), Steps.over(axes[1], 32))
    return Cells.of_values(axes, steps, *units, group)


def read(statistic, x, z, group, axes=(AXIS, AXIS)):
    """The cells that a statistic is computed from."""
    return cells_of(x, z if statistic.two_values else None, group if statistic.groups > 1 else None, axes)


def a_chain(rng, rows, model):
    """States 0 to 3 of a chain that rarely moves; the values and the group of a row follow from its state."""
    states = np.empty(rows, dtype=np.int64)
    states[0] = rng.integers(0, 4)
    leaps = model.transition.cumsum(axis=1)
    lots = rng.random(rows)
    for place in range(1, rows):
        states[place] = np.searchsorted(leaps[states[place - 1]], lots[place])
    return states


VALUES_X, VALUES_Z = np.array([0.0, 0.25, 0.75, 1.0]), np.array([0.25, 1.0, 0.5, 0.75])
GROUP = np.array([0, 1, 0, 1])


def truth_about(statistic):
    """Of states that are equally likely."""
    groups = [GROUP >= 0] if statistic.groups == 1 else [group == GROUP for group in range(statistic.groups)]
    points = [tuple(zip(VALUES_X[of].tolist(), VALUES_Z[of].tolist(), strict=True)) for of in groups]
    return truth_of(statistic, *(Law(states, (1 / len(states),) * len(states)) for states in points))


def missed(statistic, draw, evidence, runs, seed):
    """How many of so many runs miss."""
    rng = np.random.default_rng(seed)
    truth, count = truth_about(statistic), 0
    for _ in range(runs):
        states = draw(rng)
        cells = read(statistic, VALUES_X[states], VALUES_Z[states], GROUP[states])
        found = statistic.interval(evidence(cells), -math.log(ERROR))
        count += not found.low - 1e-6 <= truth <= found.high + 1e-6
    return count


def at_most(count, runs):
    """Whether so many misses are no proof, at one in a million, of more than the error."""
    return stats.binom.sf(count - 1, runs, ERROR) > 1e-6


ROWS = 900
CHAIN = MarkovChain(np.full((4, 4), 0.025) + 0.9 * np.eye(4), n=ROWS)
CLUSTERS = Clusters([30] * (ROWS // 30))


def from_chain(rng):
    return a_chain(rng, ROWS, CHAIN)


def from_clusters(rng):
    """All rows of a cluster have the same state."""
    return np.repeat(rng.integers(0, 4, len(CLUSTERS.sizes)), CLUSTERS.sizes)


@pytest.mark.parametrize(
    ("model", "draw"), [(CHAIN, from_chain), (CLUSTERS, from_clusters)], ids=["chain", "clusters"]
)
@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_coverage_under_a_model(statistic, model, draw, seed):
    runs = 40
    count = missed(statistic, draw, lambda cells: Tails(cells, None, model.mean_tail, ROWS), runs, seed)
    assert at_most(count, runs)


@pytest.mark.parametrize("draw", [from_chain, from_clusters], ids=["chain", "clusters"])
@pytest.mark.parametrize("statistic", [Mean(), Contrast(), Ratio()], ids=str)
def test_bets_for_independent_rows_are_caught(statistic, draw, seed):
    """The sabotaged twin: the same check with the model left out."""
    trained = read(statistic, VALUES_X, VALUES_Z, GROUP).times(ROWS / 4)
    assert not at_most(missed(statistic, draw, lambda cells: Bets(cells, trained), 100, seed), 100)


# Clusters of 40 rows. A few are all in the first group, with value 1; of any other one row is in the first
# group, with value 0, and the rest are in the second.
SIZE, COUNT = 40, 40
CHANCE = 1 / COUNT


def a_town(large):
    """The cells with so many large clusters."""
    small = COUNT - large
    x = np.repeat([1.0, 0.0, 0.5], [large * SIZE, small, small * (SIZE - 1)])
    return x, np.repeat([0, 0, 1], [large * SIZE, small, small * (SIZE - 1)])


def exact_misses(interval, error):
    """The exact probability that an interval for the difference of both groups misses."""
    first = CHANCE * SIZE / (CHANCE * SIZE + 1 - CHANCE)
    chance = 0.0
    for large in range(COUNT):
        found = interval(*a_town(large), -math.log(error))
        if not found.contains(first - 0.5):
            chance += float(stats.binom.pmf(large, COUNT, CHANCE))
    return chance


def unconditional(x, group, nats):
    model = Clusters([SIZE] * COUNT)
    return Contrast().interval(Tails(cells_of(x, group=group), None, model.mean_tail, len(x)), nats)


def given_the_groups(x, group, nats):
    """The sabotaged twin: the clusters of each group as if its members were fixed beforehand."""
    ends = []
    for own in (0, 1):
        kept = x[group == own]
        large = round(float((x == 1.0).sum()) / SIZE)
        sizes = [SIZE] * large + [1] * (COUNT - large) if own == 0 else [SIZE - 1] * (COUNT - large)
        evidence = Tails(cells_of(kept), None, Clusters(sizes).mean_tail, len(kept))
        ends.append(Mean().interval(evidence, nats + math.log(2)))
    return Interval(ends[0].low - ends[1].high, ends[0].high - ends[1].low)


@pytest.mark.parametrize("error", [0.3, 0.1])
def test_a_difference_of_dependent_rows_does_not_condition(error):
    assert exact_misses(unconditional, error) <= error
    assert exact_misses(given_the_groups, error) > error


@pytest.mark.parametrize("size", [1e-9, 1e9])
@pytest.mark.parametrize("statistic", [Mean(), Contrast(), WeightedMean(), Variance(), Covariance()], ids=str)
def test_an_arm_is_found_whatever_the_unit(statistic, size):
    """Values in other units have the same interval in those units, also close around the training means."""
    rng = np.random.default_rng(5)
    rows = 4_000
    x, z, group = rng.random(rows), 0.5 + 0.5 * rng.random(rows), rng.integers(0, 2, rows)
    tail = Clusters([1] * rows).mean_tail

    def interval(size):
        axes = (Axis(0.0, size, UNITS), Axis(0.0, size, UNITS))
        cells = read(statistic, x * size, z * size, group, axes=axes)
        return statistic.interval(Tails(cells, cells, tail, rows), 3.0)

    power = 2 if statistic in (Variance(), Covariance()) else 1
    plain, found = interval(1.0), interval(size)
    assert math.isfinite(plain.width)
    assert found.width == pytest.approx(plain.width * size**power, rel=0.01)


def test_evidence_holds_all_the_way_down():
    """A tail widens with the range of u − a·v. Where v is rare, evidence at one a does not hold at a smaller
    one. A crossing there would be missed, so nothing is bounded."""
    axes, rows = (Axis(-1.0, 1.0, UNITS), AXIS), 1_000
    x, z = np.full(rows, 0.2), np.zeros(rows)
    z[:20] = 1.0
    tail = Clusters([1] * rows).mean_tail
    evidence = Tails(cells_of(x, z, axes=axes), None, tail, rows)
    form = Ratio().form(evidence.cells, None)[1]
    crossing = Crossing(evidence.cells, form)

    def excess(a):
        least, most = (
            form.least(a, axes, evidence.cells.centre),
            -form.mirrored.least(-a, axes, evidence.cells.centre),
        )
        return crossing.slope * (crossing.estimate - a) - tail(min(least, 0.0), max(most, 0.0)).radius_at(3.0)

    assert excess(0.0) > 0 > excess(-100.0)
    assert evidence.lower(form, 3.0) == -math.inf
    # Where the crossing cannot be that low there is evidence all the way.
    assert 0.0 < evidence.lower(form, 3.0, lowest=-1.0) < crossing.estimate
    common = replace(evidence, cells=cells_of(x, np.ones(rows), axes=axes))
    assert 0.0 < common.lower(Ratio().form(common.cells, None)[1], 3.0) < 0.2


def test_the_tail_is_asked_about_a_range_with_zero():
    """Rows that do not enter count 0, so 0 is in the range of every mean over all rows."""
    asked = []

    def tail(low, high):
        asked.append((low, high))
        return SubGaussian(((high - low) / 2) ** 2 / 100)

    evidence = Tails(cells_of(np.array([0.25, 0.5, 0.75])), None, tail, 100)
    Mean().interval(evidence, 3.0)
    assert asked
    assert all(low <= 0 <= high for low, high in asked)
