"""Ratios, differences, spreads and correlations: read off the cells of the rows, with everything that makes
their intervals narrow decided by the training part."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from holdfast.errors import QueryRejected
from holdfast.guard._question import CellQuestion, Part
from holdfast.guard._readings import Measured, Reading
from holdfast.intervals import Interval
from holdfast.statistics import (
    NO_AXIS,
    Bets,
    Cells,
    Evidence,
    Statistic,
    Steps,
    Tails,
    UnitCells,
)
from holdfast.tails import Tail

CELLS = "cells"
"""The name under which a question keeps what the training part showed by cells."""
# Cells along each value: of one value, and of each of two.
_STEPS_OF_ONE, _STEPS_OF_TWO = 64, 32
# The mean of the absolute value of a normal error, in deviations.
_TYPICAL = 0.8
# Values that keep to less than this part of their range are looked at again, in finer steps.
_NARROW = 1 / 16


@dataclass(frozen=True)
class Trained:
    """What the training part shows of a question: its cells, and how finely to divide the protected rows."""

    cells: Cells
    steps: tuple[Steps, Steps]
    looked: int

    @classmethod
    def of(cls, question: CellQuestion, part: Part) -> Trained:
        """Look at the training part; twice, where values keep to a small part of their range."""
        axes, count = question.axes, _count(question)
        steps = wide = even_steps(question)
        cells = question.cells(part, wide)
        if isinstance(cells, UnitCells):
            return cls(cells, steps, part.rows.count)
        if cells.rows > 0 and not (question.statistic and question.statistic.every_value):
            pairs = list(zip(axes, cells.mean, cells.deviations, strict=True))
            first, second = (
                Steps.where_values_are(axis, mean, spread, count) for axis, mean, spread in pairs
            )
            steps = first, second
            if any(spread < _NARROW * axis.width for axis, _, spread in pairs):
                cells = question.cells(part, steps)
        return cls(cells, steps, part.rows.count)

    @property
    def rows(self) -> float:
        """How many training rows enter the question."""
        return self.cells.rows

    def of_chain(self, norm: float) -> Trained:
        """The same of rows that are the states of a stationary chain."""
        return replace(self, cells=replace(self.cells, norm=norm))

    def protected(self, rows: int) -> Cells:
        """What it predicts of so many protected rows."""
        return replace(self.cells.times(rows / max(1, self.looked)), all_rows=rows)

    def another_sample(self, rows: int) -> Cells:
        """What it predicts of so many protected rows, whose means and spreads are as far from its own as
        those of two samples typically are: a box for the mean is then as long as it will be."""
        cells, seen = self.protected(rows), max(2.0, self.cells.rows)
        entering = max(2.0, cells.rows)
        apart = _TYPICAL * math.sqrt(1 / entering + 1 / seen)
        (x, z), (more_x, more_z) = cells.deviations, cells.inflation
        heavy = (spread_of_squares(cells, 0) + spread_of_squares(cells, 1)) / 4
        return cells.moved(
            apart * x * more_x, apart * z * more_z, 1 + apart * max(more_x, more_z) * math.sqrt(heavy)
        )

    def arm_error(self, statistic: Statistic, rows: int) -> float:
        """How well the logarithm of an arm is predicted: by how heavy the tails are, and by how many rows
        enter each group."""
        seen, ratio = self.cells.count, rows / max(1, self.looked)
        if not seen > 1:
            return math.inf
        fewest = min(self.cells.rows_in(group) for group in range(statistic.groups))
        share = (fewest + 1) / (self.looked + 2)
        count_error = math.sqrt((1 - share) / share * (1 / rows + 1 / (self.looked + 1)))
        heavy = statistic.heaviness(self.cells)
        spread_error = math.sqrt(heavy * (1 + 1 / ratio) / seen)
        return math.hypot(count_error / 2, spread_error / 2, statistic.unforeseen)


def spread_of_squares(cells: Cells, axis: int) -> float:
    """The relative variance of the squared distance of a value from its mean, by the means of the cells."""
    around = cells.around(*cells.mean)
    rows = around.sums[:, 0]
    squares = (around.sums[:, 1 + axis] / rows) ** 2
    mean = float(np.sum(rows * squares) / rows.sum())
    return float(np.sum(rows * (squares / mean) ** 2) / rows.sum()) - 1 if mean > 0 else 0.0


def _count(question: CellQuestion) -> int:
    return _STEPS_OF_ONE if question.axes[1] is NO_AXIS else _STEPS_OF_TWO


def even_steps(question: CellQuestion) -> tuple[Steps, Steps]:
    """Steps over the whole of both ranges; one for each value, where the statistic needs every value."""
    count = _count(question)
    if question.statistic is not None and question.statistic.every_value:
        return Steps(0, 0, question.axes[0].units + 1), Steps.over(question.axes[1], 1)
    return Steps.over(question.axes[0], count), Steps.over(question.axes[1], count)


@dataclass(frozen=True)
class ByCells(Reading):
    """A statistic of the rows by their cells. ``trained`` is what the training part predicts them to be (None
    without one), and ``expected`` the arms that follow from it. With a ``layout`` the rows are read unit by
    unit, in that one of the ways in which the part is divided into units. ``norm`` is the operator norm of
    the stationary chain whose states the rows are; 0 otherwise."""

    question: CellQuestion
    statistic: Statistic
    steps: tuple[Steps, Steps]
    trained: Cells | None
    expected: tuple[float, float]
    tail: Callable[[float, float], Tail] | None
    rows: int
    layout: int | None = None
    norm: float = 0.0

    @property
    def theorem(self) -> str:
        if self.layout is not None or self.norm:
            own = "e-values of the groups' means" if self.statistic.conditions else self.statistic.theorem
            return f"{own}, {'for a stationary chain' if self.norm else 'over independent units of rows'}"
        if self.tail is None:
            return self.statistic.theorem
        return "the tail of the dependence model, for each value that the statistic might have"

    @property
    def by_sums(self) -> bool:
        return False

    @property
    def halves(self) -> bool:
        return not self.statistic.two_sided_facts

    def around(self, low: float, high: float) -> Interval:
        return Interval(low - self.expected[0], high + self.expected[1])

    def estimate(self, part: Part) -> float:
        raise TypeError("a statistic by cells is measured with its interval")

    def measured(self, part: Part) -> Measured | None:
        # Whether numpy warns depends on the rows, and a warning would tell of them.
        with np.errstate(all="ignore"):
            return self._measured(part)

    def _measured(self, part: Part) -> Measured | None:
        cells = self.question.cells(part if self.layout is None else part.units[self.layout], self.steps)
        cells = replace(cells, norm=self.norm, all_rows=self.rows)
        value = self.statistic.estimate(cells)
        if not math.isfinite(value):
            return None
        return Measured(
            value, interval_of(self.statistic, cells, self.trained, self.nats, self.tail, self.rows)
        )


def interval_of(
    statistic: Statistic,
    cells: Cells,
    trained: Cells | None,
    nats: float,
    tail: Callable[[float, float], Tail] | None,
    rows: int,
) -> Interval:
    """The interval for a query fixed in advance."""
    evidence: Evidence = Bets(cells, trained) if tail is None else Tails(cells, trained, tail, rows)
    return statistic.interval(evidence, nats)


def require_training(question: CellQuestion, statistic: Statistic) -> None:
    """Refuse a statistic that is centred on the training part where there is none."""
    if statistic.needs_training:
        raise QueryRejected(
            f"{question.text} needs training rows: its interval is narrow only around their means. Give "
            "train=, or leave training_share as it is."
        )
