"""Units of rows: the exact probability to miss, by every sample of clusters from small laws, and twins."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from statistics_laws import AXIS, UNITS, samples_of, truth_of

from contracts.examples import thinned
from holdfast import queries
from holdfast.engines import open_rows
from holdfast.readings import Part, TableQuestion
from holdfast.statistics import (
    NO_AXIS,
    Bets,
    Cells,
    Contrast,
    Correlation,
    Covariance,
    Form,
    Lift,
    Mean,
    Ratio,
    Slope,
    Steps,
    UnitCells,
    Variance,
    WeightedMean,
    crossing_of,
)

STEPS = Steps.over(AXIS, 64), Steps.over(AXIS, 64)


@dataclass(frozen=True)
class Row:
    """A row of a cluster: its values and its group; ``enters`` is whether the filter lets it through."""

    x: float
    z: float = 1.0
    group: int = 0
    enters: bool = True


@dataclass(frozen=True)
class ClusterLaw:
    """A cluster is one of a few kinds, each a tuple of rows, with these probabilities."""

    name: str
    kinds: tuple[tuple[Row, ...], ...]
    weights: tuple[float, ...]

    @property
    def largest(self) -> int:
        return max(len(kind) for kind in self.kinds)

    def mean(self, of):
        """The mean of a function of x and z over the rows that enter."""
        sums = [
            math.fsum(
                weight * each(row.x, row.z)
                for weight, kind in zip(self.weights, self.kinds, strict=True)
                for row in kind
                if row.enters
            )
            for each in (of, lambda x, z: 1.0)
        ]
        return sums[0] / sums[1]

    def truth_of(self, statistic):
        """The statistic of the rows of the population of clusters, from its definition."""
        if statistic.groups == 1:
            return truth_of(statistic, self)
        return truth_of(statistic, *map(self.only, range(statistic.groups)))

    def only(self, group):
        """The same clusters without the rows of other groups."""
        kinds = tuple(tuple(row for row in kind if row.group == group) for kind in self.kinds)
        return replace(self, kinds=kinds)


def cells_of(law, counts, *, two_values=False, largest=None):
    """The units of a sample: so many clusters of each kind."""
    clusters = [kind for kind, often in zip(law.kinds, counts, strict=True) for _ in range(int(often))]
    rows = [(place, row) for place, kind in enumerate(clusters) for row in kind if row.enters]
    unit, x, z, group = (
        np.array(column, dtype=np.int64).reshape(-1)
        for column in (
            [place for place, _ in rows],
            [round(row.x * UNITS) for _, row in rows],
            [round(row.z * UNITS) for _, row in rows],
            [row.group for _, row in rows],
        )
    )
    axes = (AXIS, AXIS if two_values else NO_AXIS)
    z = z if two_values else np.zeros_like(z)
    return UnitCells.of_unit_values(
        axes, largest or law.largest, sum(len(kind) for kind in clusters), unit, x, z, group
    )


def rows_of(law, counts, *, two_values=False):
    """The same sample with every row taken for independent."""
    rows = [
        row for kind, often in zip(law.kinds, counts, strict=True) for row in kind * int(often) if row.enters
    ]
    x, z, group = (
        np.array([round(value * times) for value in column], dtype=np.int64)
        for column, times in (
            ([row.x for row in rows], UNITS),
            ([row.z for row in rows], UNITS),
            ([row.group for row in rows], 1),
        )
    )
    axes = (AXIS, AXIS if two_values else NO_AXIS)
    steps = STEPS if two_values else (STEPS[0], Steps.over(NO_AXIS, 1))
    return Cells.of_values(axes, steps, x, z if two_values else None, group)


def trained_on(law, weights, clusters, *, two_values, made=cells_of):
    """What forty training clusters with these frequencies predict of so many clusters."""
    counts = [round(40 * weight) for weight in weights]
    return made(law, counts, two_values=two_values).times(clusters / sum(counts))


def misses(statistic, law, clusters, nats, kind, *, made=cells_of):
    """The exact probabilities that the lower end is above the truth, and that the upper end is below it.
    ``kind`` says what training part there is, or the frequencies of its clusters."""
    two_values = statistic.two_values
    weights = {"right": law.weights, "off": law.weights[::-1], "none": None}.get(kind, kind)
    trained = (
        None if weights is None else trained_on(law, weights, clusters, two_values=two_values, made=made)
    )
    truth = law.truth_of(statistic)
    slack = 1e-6 * max(1.0, abs(truth))
    above = below = 0.0
    for chance, counts in samples_of(law, clusters):
        cells = made(law, counts, two_values=two_values)
        if not cells.rows > 0:
            continue  # The guard tells the whole range there.
        with np.errstate(all="ignore"):
            ends = statistic.interval(Bets(cells, trained), nats)
        above += chance * (ends.low > truth + slack)
        below += chance * (ends.high < truth - slack)
    return above, below


def rows(*values, **options):
    return tuple(Row(value, **options) for value in values)


EQUAL = ClusterLaw("equal rows", (rows(0, 0, 0), rows(1, 1, 1)), (0.5, 0.5))
RARE = ClusterLaw("rare clusters", (rows(0, 0), rows(1, 1)), (0.95, 0.05))
OPPOSITE = ClusterLaw("opposite rows", (rows(0, 1), rows(0, 0), rows(1, 1)), (0.8, 0.1, 0.1))
BY_SIZE = ClusterLaw("the size decides", (rows(0), rows(1, 1, 1), rows(0, 0.5)), (0.6, 0.3, 0.1))
FILTERED = ClusterLaw(
    "the value decides who enters",
    (
        (Row(1.0), Row(0.0, enters=False), Row(0.0, enters=False)),
        rows(0, 0, 0),
        rows(1, enters=False),
    ),
    (0.4, 0.3, 0.3),
)
PAIRS = ClusterLaw(
    "two values",
    ((Row(0.125, 0.25), Row(0.25, 0.5)), (Row(1.0, 0.75),), (Row(0.5, 1.0), Row(0.75, 0.25))),
    (0.5, 0.3, 0.2),
)
# A cluster has one row of one group and six of the other, and a row has value 1 where it is the only one.
DECIDED = ClusterLaw(
    "the group decides the value",
    (
        (Row(1.0), *rows(*[0] * 6, group=1)),
        (*rows(*[0] * 6), Row(1.0, group=1)),
    ),
    (0.5, 0.5),
)
# One row of the first group with value 1, or three with value ½; and others of the second group.
BALANCED = ClusterLaw(
    "the group decides the value, around ¼",
    ((Row(1.0), *rows(0.5, 0.5, 0.5, group=1)), (*rows(0.5, 0.5, 0.5), Row(0.5, group=1))),
    (0.5, 0.5),
)
# All rows of a cluster are in one group, and have one value.
TOGETHER = ClusterLaw(
    "a cluster is in one group",
    tuple(rows(*[x] * 6, group=group) for group in (0, 1) for x in (0.0, 1.0)),
    (0.25, 0.25, 0.25, 0.25),
)

ONE_VALUE = [EQUAL, RARE, OPPOSITE, BY_SIZE, FILTERED]
TRAININGS = [("right", 0.5), ("right", 0.1), ("right", 1e-3), ("off", 0.1), ("none", 0.1), ("off", 1e-2)]


def how_many(law):
    """So many clusters that every sample can be looked at."""
    return 120 if len(law.kinds) == 2 else 12


@pytest.mark.parametrize(
    ("law", "statistic", "training"), thinned(itertools.product(ONE_VALUE, [Mean()], TRAININGS), 4)
)
def test_each_side_of_a_mean_over_clusters_misses_at_most_half_as_often(law, statistic, training):
    kind, error = training
    above, below = misses(statistic, law, how_many(law), -math.log(error), kind)
    assert max(above, below) <= error / 2


@pytest.mark.parametrize(
    ("statistic", "training"),
    thinned(
        itertools.product(
            [Ratio(), WeightedMean(), Covariance(), Slope(), Correlation()],
            [one for one in TRAININGS if one[0] != "none"],
        ),
        5,
    ),
)
def test_two_values_of_rows_in_clusters(statistic, training):
    kind, error = training
    assert sum(misses(statistic, PAIRS, 12, -math.log(error), kind)) <= error


@pytest.mark.parametrize(
    ("law", "statistic", "training"),
    thinned(itertools.product([DECIDED, BALANCED, TOGETHER], [Contrast(), Lift()], TRAININGS), 6),
)
def test_groups_of_rows_in_clusters(law, statistic, training):
    kind, error = training
    clusters = 8 if law is TOGETHER else 120
    assert sum(misses(statistic, law, clusters, -math.log(error), kind)) <= error


@pytest.mark.parametrize("kind", ["right", "off"])
@pytest.mark.parametrize("law", [BY_SIZE, OPPOSITE], ids=lambda law: law.name)
def test_the_variance_of_rows_in_clusters(law, kind):
    assert sum(misses(Variance(), law, 12, -math.log(0.1), kind)) <= 0.1


def test_clusters_of_given_sizes_need_not_be_alike():
    """Three sizes, each with a law of its own: the answer is about the average over these clusters."""
    laws = [
        ClusterLaw("", (rows(*[0] * m), rows(*[1] * m)), (1 - p, p))
        for m, p in ((1, 0.9), (2, 0.5), (3, 0.1))
    ]
    truth = (1 * 0.9 + 2 * 0.5 + 3 * 0.1) / 6
    every = ClusterLaw("", tuple(kind for law in laws for kind in law.kinds), (1 / 6,) * 6)
    error, each = 0.2, 7
    trained = trained_on(every, every.weights, 3 * each, two_values=False)
    above = below = 0.0
    for parts in itertools.product(*(samples_of(law, each) for law in laws)):
        chance = math.prod(chance for chance, _ in parts)
        cells = cells_of(every, [often for _, counts in parts for often in counts])
        ends = Mean().interval(Bets(cells, trained), -math.log(error))
        above += chance * (ends.low > truth + 1e-6)
        below += chance * (ends.high < truth - 1e-6)
    assert 0 < max(above, below) <= error / 2


def test_the_error_is_not_left_unused():
    """The check could tell: some samples miss."""
    assert sum(misses(Mean(), EQUAL, 120, -math.log(0.1), "right")) > 0.01


def test_rows_treated_as_independent_are_caught():
    law = ClusterLaw("", (rows(*[0] * 8), rows(*[1] * 8)), (0.5, 0.5))
    assert sum(misses(Mean(), law, 60, -math.log(0.05), "right")) <= 0.05
    assert sum(misses(Mean(), law, 60, -math.log(0.05), "right", made=rows_of)) > 5 * 0.05


def test_a_largest_cluster_that_is_too_small_is_caught():
    """Factors below zero take back what others claim; where no such cluster is in the sample nothing does."""
    law, trained = ClusterLaw("", (rows(0, 0, 0), rows(1, 1, 1)), (0.05, 0.95)), (0.0, 1.0)
    clusters, nats = 40, -math.log(0.05)
    assert sum(misses(Mean(), law, clusters, nats, trained)) <= 0.05

    def made(law, counts, *, two_values):
        return cells_of(law, counts, two_values=two_values, largest=1)

    assert misses(Mean(), law, clusters, nats, trained, made=made)[0] > 4 * 0.05 / 2


def test_a_bet_stakes_no_more_than_the_largest_cluster_allows():
    """The product is no evidence at all where a cluster of the largest size could make a factor negative."""
    cells = cells_of(EQUAL, [3, 9])
    form = Form.of((0, 1.0, 0, 0, 0, 0), (1.0, 0, 0, 0, 0, 0))
    crossing = crossing_of(cells, form)
    assert crossing.least(0.5) == -1.5
    assert math.isfinite(crossing.log_product(0.5, 0.999 / 1.5))
    assert crossing.log_product(0.5, 1.0 / 1.5) == -math.inf
    assert crossing_of(replace(cells, largest=4), form).log_product(0.5, 0.999 / 1.5) == -math.inf
    assert 0 < Bets(cells, None).lower(form, 1.0) < crossing.estimate


def test_a_contrast_given_the_memberships_is_caught():
    """Rows of a cluster are not independent given their groups: the twin misses tens of times too often."""
    error = 1e-3
    assert sum(misses(Contrast(), DECIDED, 120, -math.log(error), "right")) <= error
    assert sum(misses(Contrast(), DECIDED, 120, -math.log(error), "right", made=rows_of)) > 20 * error


def test_a_contrast_of_clusters_given_the_memberships_is_caught():
    """One factor for each cluster is not enough. Around a training mean of ¼ both kinds of cluster have the
    same sum over their rows of the first group. So given the memberships nothing varies, and any bet that
    the ranges allow claims too much; but the mean of the group varies with the memberships."""
    clusters, error, mean = 2_000, 0.05, 0.25
    truth = BALANCED.truth_of(Contrast())
    missed = 0.0
    for chance, (one, three) in samples_of(BALANCED, clusters):
        times = 4 * clusters / (one + 3 * three)  # n/n₁
        sums = np.array([times * (1.0 - mean), times * 3 * (0.5 - mean)]) - 4 * (truth - (mean - 0.5))
        rate = 0.9 / (4 * (times * mean + truth - (mean - 0.5)))
        missed += chance * (float(np.array([one, three]) @ np.log1p(rate * sums)) >= math.log(2 / error))
    assert missed > error
    assert sum(misses(Contrast(), BALANCED, 120, -math.log(error), "right")) <= error


# Values are multiples of 1/8 of their range, which whole numbers of units hold exactly.
QUESTIONS = {
    "share(x > 0.5)": (lambda f: f.x > 0.5, None, None),
    "share(x > 0.5, where = g = 1)": (lambda f: f.x > 0.5, None, lambda f: f.g == 1),
    "mean(x, 0, 1)": (lambda f: f.x, None, None),
    "mean(x, 0, 1, where = z < 0.7)": (lambda f: f.x, None, lambda f: f.z < 0.7),
    "mean(y, 0, 1, nulls = skip)": (lambda f: f.y, None, lambda f: f.y.notna()),
    "share(y > 0.5, nulls = skip)": (lambda f: f.y > 0.5, None, lambda f: f.y.notna()),
    "ratio(x, z, 0, 1, 0, 1)": (lambda f: f.x, lambda f: f.z, None),
    "ratio(x, z, 0, 1, 0, 1, where = g = 0)": (lambda f: f.x, lambda f: f.z, lambda f: f.g == 0),
    "covariance(x, y, 0, 1, 0, 1, nulls = skip)": (lambda f: f.x, lambda f: f.y, lambda f: f.y.notna()),
    "difference(x, g = 1, g = 0, 0, 1)": (lambda f: f.x, None, lambda f: f.g < 2),
    "difference(x, g = 1, g = 0, 0, 1, where = z < 0.7)": (
        lambda f: f.x,
        None,
        lambda f: (f.g < 2) & (f.z < 0.7),
    ),
}


@pytest.mark.parametrize("line", QUESTIONS)
def test_units_read_by_sql_are_those_of_the_values(rng, line):
    pandas = pytest.importorskip("pandas")
    count = 400
    frame = pandas.DataFrame(
        {
            "id": rng.integers(0, 60, count),
            "x": rng.integers(0, 9, count) / 8,
            "z": rng.integers(0, 9, count) / 8,
            "y": np.where(rng.random(count) < 0.3, np.nan, rng.integers(0, 9, count) / 8),
            "g": rng.integers(0, 3, count),
        }
    )
    clustered = open_rows(frame).settled().in_clusters("id")
    question = TableQuestion.of(queries.read(line).check(clustered.schema, frozenset({"y"})))
    largest = int(frame["id"].value_counts().max())
    part = Part(clustered, training=True, data_rows=count, largest=largest)
    read = question.cells(part, STEPS)
    first, second, entering = QUESTIONS[line]
    kept = frame if entering is None else frame[entering(frame)]
    x, z = (
        None if of is None else np.asarray(np.round(of(kept).to_numpy(float) * UNITS), dtype=np.int64)
        for of in (first, second)
    )
    group = None if "difference" not in line else (kept["g"] == 0).to_numpy(np.int64)
    axes = (AXIS, NO_AXIS if second is None else AXIS)
    codes = kept["id"].to_numpy(np.int64)
    own = UnitCells.of_unit_values(axes, largest, count, codes, x, z, group)
    assert read.axes == own.axes
    assert (read.group == own.group).all()
    assert (read.sums == own.sums).all()
    assert (read.largest, read.all_rows, read.copies) == (largest, count, 1.0)


@pytest.mark.parametrize("line", QUESTIONS)
def test_units_that_stand_one_after_the_other_are_those_of_a_column(rng, line):
    pandas = pytest.importorskip("pandas")
    codes = np.sort(rng.integers(0, 60, 400))
    values = {name: rng.integers(0, 9, 400) / 8 for name in "xzy"}
    frame = pandas.DataFrame({"id": codes, "g": rng.integers(0, 3, 400), **values})
    stored = open_rows(frame).settled()
    question = queries.read(line).check(stored.schema, frozenset())
    named = stored.in_clusters("id").unit_sums(question)
    numbered = stored.in_numbered_units(codes).unit_sums(question)
    assert sorted(map(tuple, named)) == sorted(map(tuple, numbered))
