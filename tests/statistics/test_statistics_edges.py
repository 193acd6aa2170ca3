"""Rows that say little: constant columns, one row, no rows, empty groups, and what bets may depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statistics_laws import GROUPS, ONE_VALUE, TWO_VALUES, Law, cells_of, on_line, trained_on

from holdfast import Guard
from holdfast.statistics import (
    Bets,
    Contrast,
    Covariance,
    Lift,
    Mean,
    Ratio,
    Variance,
    WeightedMean,
)

SPREAD = Law(((0.0, 0.25), (0.25, 1.0), (1.0, 0.5)), (0.3, 0.4, 0.3))
CONSTANT = Law(((0.5, 0.25),), (1.0,))
BESIDE = Law(((0.25, 0.5), (0.75, 1.0)), (0.5, 0.5))


def evidence(statistic, law, rows, trained):
    two_values, groups = statistic.two_values, statistic.groups
    cells = cells_of([law] * groups, [rows] * groups, two_values=two_values)
    known = (
        None
        if trained is None
        else trained_on([trained] * groups, [sum(rows)] * groups, two_values=two_values)
    )
    return Bets(cells, known)


@pytest.mark.parametrize(
    "trained", [None, SPREAD, CONSTANT, BESIDE], ids=["none", "spread", "constant", "beside"]
)
@pytest.mark.parametrize(
    "statistic",
    [Mean(), Ratio(), WeightedMean(), Contrast(), Lift(), Variance(), Variance(root=True), Covariance()],
    ids=str,
)
def test_a_constant_column_has_a_short_interval(statistic, trained):
    """Equal rows at 3 nats, also where the training part did not show that they are equal."""
    found = [
        statistic.interval(evidence(statistic, CONSTANT, [rows], trained), 3.0) for rows in (1_000, 16_000)
    ]
    truth = statistic.estimate(
        cells_of([CONSTANT] * statistic.groups, [[9]] * statistic.groups, two_values=True)
    )
    assert all(interval.contains(truth) for interval in found)
    assert found[0].width < 1.0
    # Around a mean that is not the rows' own, a spread stays of the size of the distance.
    if not statistic.needs_training or trained in (None, CONSTANT):
        assert found[1].width < found[0].width / 1.9


@pytest.mark.parametrize("trained", [None, SPREAD, CONSTANT], ids=["none", "spread", "constant"])
@pytest.mark.parametrize("statistic", [*ONE_VALUE, *GROUPS, *TWO_VALUES], ids=str)
def test_nothing_raises_on_few_or_equal_rows(statistic, trained):
    for rows in [0, 1, 2, 50]:
        for law, counts in ((CONSTANT, [rows]), (SPREAD, [rows, 0, rows])):
            found = statistic.interval(evidence(statistic, law, counts, trained), 3.0)
            assert not math.isnan(found.low)
            assert not math.isnan(found.high)
            assert found.low < found.high


@pytest.mark.parametrize("trained", [None, SPREAD], ids=["none", "spread"])
@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.parametrize("statistic", GROUPS, ids=str)
def test_an_empty_group_bounds_nothing(statistic, empty, trained):
    law = on_line((0.25, 0.5), (1.0, 0.5))
    counts = [[0, 0] if group == empty else [9, 5] for group in range(2)]
    known = None if trained is None else trained_on([law, law], [14, 14], two_values=False)
    found = statistic.interval(Bets(cells_of([law, law], counts, two_values=False), known), 3.0)
    assert (found.low, found.high) == (-math.inf, math.inf)


@pytest.mark.parametrize("statistic", [*ONE_VALUE, *TWO_VALUES], ids=str)
def test_bets_do_not_depend_on_the_protected_rows(statistic, monkeypatch):
    """The rates are fixed before the rows are read: other rows of the same number get the same ones."""
    placed = []
    original = Bets._rates
    monkeypatch.setattr(
        Bets, "_rates", lambda self, *given: placed.append(original(self, *given)) or placed[-1]
    )
    law = Law(((0.25, 0.25), (0.5, 0.375), (0.75, 0.75)), (0.3, 0.4, 0.3))
    seen = []
    for counts in ([300, 400, 300], [340, 370, 290]):
        statistic.interval(evidence(statistic, law, counts, law), 3.0)
        seen.append([tuple(rates) for rates in placed])
        placed.clear()
    assert seen[0] == seen[1]
    assert len(seen[0]) >= 2


def test_a_group_that_is_rare_in_training_but_not_in_the_rows_has_an_interval():
    law = on_line((0.0, 0.5), (1.0, 0.5))
    known = cells_of([law, law], [[500, 499], [1, 0]], two_values=False)
    cells = cells_of([law, law], [[300, 300], [200, 200]], two_values=False)
    found = Contrast().interval(Bets(cells, known), 3.0)
    assert found.contains(0.0)
    assert np.isfinite([found.low, found.high]).all()


@pytest.mark.parametrize("statistic", [*ONE_VALUE, *GROUPS, *TWO_VALUES], ids=str)
def test_equal_rows_have_a_deviation(statistic):
    """Nothing, or infinite where equal rows leave the statistic undefined."""
    for rows in [1, 9, 1_000]:
        cells = cells_of([CONSTANT] * statistic.groups, [[rows]] * statistic.groups, two_values=True)
        defined = math.isfinite(statistic.estimate(cells))
        assert statistic.deviation(cells) == (0.0 if defined else math.inf)


def test_a_guard_answers_the_deviation_of_a_constant_column():
    guard = Guard({"x": np.full(3_000, 2.0)})
    answer = guard.ask("std(x, 0, 5)")
    assert answer.low == 0.0 <= answer.value <= answer.high < 1.0
