"""Readings that need more than sums: cells of the rows, and order statistics bounded by bets.

Ratios, differences, spreads and correlations are read off the cells of the rows. The training part decides
everything that makes their intervals narrow. Quantiles of rows in units, or of a chain, are bounded by order
statistics that a product of bets chooses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast import queries, search
from holdfast.engines import SCALE_BITS
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.intervals import Interval
from holdfast.readings._question import CellQuestion, Part, TableQuestion
from holdfast.readings._readings import Measured, Reading
from holdfast.statistics import (
    NO_AXIS,
    Bets,
    Cells,
    Evidence,
    Form,
    Mean,
    Statistic,
    Steps,
    Tails,
    UnitCells,
)
from holdfast.tails import Tail

# Cells along each value, if a statistic has one value, and if it has two.
_STEPS_OF_ONE, _STEPS_OF_TWO = 64, 32
# The mean of the absolute value of a normal error, in deviations.
_TYPICAL = 0.8
# Values within less than this part of their range are looked at again, in finer steps.
_NARROW = 1 / 16


@dataclass(frozen=True)
class Trained:
    """What the training part shows about a question: its cells, and how finely to divide the protected
    rows."""

    cells: Cells
    steps: tuple[Steps, Steps]
    looked: int

    @classmethod
    def of(cls, question: CellQuestion, part: Part) -> Trained:
        """Look at the training part; twice if its values lie in a small part of their range."""
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
        """The same, for rows that are the states of a stationary chain."""
        return replace(self, cells=replace(self.cells, norm=norm))

    def protected(self, rows: int) -> Cells:
        """What it predicts of so many protected rows."""
        return replace(self.cells.times(rows / max(1, self.looked)), all_rows=rows)

    def another_sample(self, rows: int) -> Cells:
        """What it predicts of so many protected rows. Their means and spreads differ from its own, as those
        of two samples typically do. So a box for the mean is as long as it will be for the protected rows."""
        cells, seen = self.protected(rows), max(2.0, self.cells.rows)
        entering = max(2.0, cells.rows)
        apart = _TYPICAL * math.sqrt(1 / entering + 1 / seen)
        (x, z), (more_x, more_z) = cells.deviations, cells.inflation
        heavy = (spread_of_squares(cells, 0) + spread_of_squares(cells, 1)) / 4
        return cells.moved(
            apart * x * more_x, apart * z * more_z, 1 + apart * max(more_x, more_z) * math.sqrt(heavy)
        )

    def arm_error(self, statistic: Statistic, rows: int) -> float:
        """How well the logarithm of an arm is predicted. That depends on how heavy the tails are, and on how
        many rows enter each group."""
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
    """The relative variance of the squared distance of a value from its mean, from the means of the cells."""
    around = cells.around(*cells.mean)
    rows = around.sums[:, 0]
    squares = (around.sums[:, 1 + axis] / rows) ** 2
    mean = float(np.sum(rows * squares) / rows.sum())
    return float(np.sum(rows * (squares / mean) ** 2) / rows.sum()) - 1 if mean > 0 else 0.0


def _count(question: CellQuestion) -> int:
    return _STEPS_OF_ONE if question.axes[1] is NO_AXIS else _STEPS_OF_TWO


def even_steps(question: CellQuestion) -> tuple[Steps, Steps]:
    """Steps over the whole of both ranges; one step for each value if the statistic needs every value."""
    count = _count(question)
    if question.statistic is not None and question.statistic.every_value:
        return Steps(0, 0, question.axes[0].units + 1), Steps.over(question.axes[1], 1)
    return Steps.over(question.axes[0], count), Steps.over(question.axes[1], count)


@dataclass(frozen=True)
class ByCells(Reading):
    """A statistic of the rows by their cells.

    ``trained`` is what the training part predicts them to be (None without one), and ``expected`` the arms
    that follow from it. ``layout`` is one of the ways in which the part is divided into units; with it the
    rows are read unit by unit. ``norm`` is the operator norm of the stationary chain whose states the rows
    are; 0 otherwise."""

    question: CellQuestion
    statistic: Statistic
    steps: tuple[Steps, Steps]
    trained: Cells | None
    expected: tuple[float, float]
    tail: Callable[[float, float], Tail] | None
    rows: int
    layout: int | None = None
    norm: float = 0.0
    by_sums = False

    @property
    def theorem(self) -> str:
        if self.layout is not None or self.norm:
            own = "e-values of the groups' means" if self.statistic.conditions else self.statistic.theorem
            return f"{own}, {'for a stationary chain' if self.norm else 'over independent units of rows'}"
        if self.tail is None:
            return self.statistic.theorem
        return "the tail of the dependence model, for each value that the statistic might have"

    @property
    def halves(self) -> bool:
        return not self.statistic.two_sided_facts

    def around(self, low: float, high: float) -> Interval:
        return Interval(low - self.expected[0], high + self.expected[1])

    def estimate(self, part: Part) -> float:
        raise TypeError("a statistic by cells is measured with its interval")

    def measured(self, part: Part) -> Measured | None:
        # Whether numpy warns depends on the rows, so a warning would reveal something about them.
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
    """Refuse a statistic that is centred on the training part if there is none."""
    if statistic.needs_training:
        raise QueryRejected(
            f"{question.text} needs training rows: its interval is narrow only around their means. Give "
            "train=, or leave training_share as it is."
        )


# So many order statistics are tried on either side of the quantile. The farthest is so many times as far out
# as the training part predicts.
_PLACES, _FARTHEST = 32, 4.0
_LN2 = math.log(2.0)
FARTHER = (1, 2, 4, 8, 16)
"""How many times farther out to look for order statistics, if the nearest are tied with the quantile."""
_TIED = 1 / 8
# A condition is 0 or 1, each in a cell of its own.
HALVES = (Steps(0, SCALE_BITS - 1, 2), Steps(0, 0, 1))
_SHARE = Form.of((0.0, 1.0, 0, 0, 0, 0), (1.0, 0, 0, 0, 0, 0))


@dataclass(frozen=True)
class QuantileByBets(Reading):
    """A quantile of rows in units, read in one ``layout``; or of a stationary chain of a ``norm`` above 0.

    For a fixed t, whether a row is below t is a condition, and its share among the rows that enter is a ratio
    of means. At a t above the quantile that share is at least ``level``. So if a product of bets shows that
    the share at t is less, t is not above the quantile. The product falls in t. From above it is the same,
    with the share of rows that are at most t. So tied values can be ends of the interval themselves.

    ``expected`` are the arms that the training part predicts. ``reach`` says how far from the level the order
    statistics lie that bound the quantile, as a share of the rows that enter. ``trained`` is what the
    training part shows of the rows below its own quantile and of those up to it. With tied values these
    differ.
    """

    question: TableQuestion
    layout: int | None
    norm: float
    expected: tuple[float, float]
    reach: float
    trained: tuple[Cells, Cells]

    @property
    def theorem(self) -> str:
        source = "for a stationary chain" if self.norm else "over independent units of rows"
        return f"order statistics, by a product of bets {source}"

    def around(self, low: float, high: float) -> Interval:
        return Interval(low - self.expected[0], high + self.expected[1])

    def estimate(self, part: Part) -> float:
        raise TypeError("a quantile is measured with its order statistics")

    def measured(self, part: Part) -> Measured | None:
        part = part if self.layout is None else part.units[self.layout]
        level = self.question.level
        steps = [_FARTHEST * self.reach * step / _PLACES for step in range(1, _PLACES + 1)]
        levels = [*(level - step for step in reversed(steps)), level, *(level + step for step in steps)]

        def ranks_for(count: int) -> list[int]:
            return [min(max(1, math.ceil(share * count)), count) for share in levels] if count else []

        count, values = self.question.order_statistics(part, ranks_for)
        if count == 0 or not all(map(math.isfinite, values)):
            return None
        middle = values[_PLACES]
        lower = _last(values[:_PLACES], lambda t: self._shows(part, t, above=False))
        upper = _last(values[:_PLACES:-1], lambda t: self._shows(part, t, above=True))
        if lower is None or upper is None:
            return None
        return Measured(middle, Interval(min(lower, middle), max(upper, middle)))

    def _shows(self, part: Part, t: float, *, above: bool) -> bool:
        """Whether the rows show that the share of rows below t is less than the level. With ``above``: that
        the share of rows up to t is more."""
        cells = share_up_to(self.question, t, "<=" if above else "<").cells(part, HALVES)
        cells = replace(cells, norm=self.norm, all_rows=part.rows.count)
        evidence, nats = Bets(cells, self.trained[above]), self.nats + _LN2
        if above:
            return evidence.lower(_SHARE, nats) > self.question.level
        return evidence.upper(_SHARE, nats) < self.question.level


def _last(places: Sequence[float], shows: Callable[[float], bool]) -> float | None:
    """The last of these places at which ``shows`` is true; then it is true at all places before. None if it
    is not true at the first place."""
    last = search.whole_edge(lambda place: shows(places[place]), -1, len(places))
    return None if last < 0 else places[last]


def share_up_to(question: TableQuestion, t: float, op: str = "<=") -> TableQuestion:
    """The share of rows at most t, or below t, among the rows of a quantile's question."""
    query = question.checked.query
    missing = query.missing <= t if op == "<=" else query.missing < t
    share = queries.share(
        f"({query.expression.text}) {op} {t!r}",
        where=None if query.where is None else query.where.text,
        nulls="skip" if query.nulls == "skip" else missing,
    )
    return TableQuestion.of(share.check(question.checked.schema, frozenset()))


@dataclass(frozen=True)
class ExpectedQuantile:
    """What is expected of a quantile in units: its guess, the deviation of the error of the guess, how well
    the logarithm of an arm is known, and its reading, which has no classes of arms yet."""

    guess: float
    error: float
    arm_error: float
    reading: QuantileByBets


def expected_quantile(
    question: TableQuestion,
    nats: float,
    rows: int,
    training: Part | None,
    layout: int | None,
    norm: float = 0.0,
) -> ExpectedQuantile:
    """What the training part, in units or as a chain, predicts of a quantile of so many protected rows."""
    if training is None:
        raise QueryRejected(
            f"{question.text} needs training rows where rows are not independent: leave training_share as it "
            "is, or give train=."
        )
    (middle,) = _order(question, training, [question.level])
    ratio = rows / max(1, training.rows.count)
    below, upto = (
        replace(
            share_up_to(question, middle, op).cells(training, HALVES).times(ratio), norm=norm, all_rows=rows
        )
        for op in ("<", "<=")
    )
    reach = max(Mean().interval(Bets(cells, cells), nats).half_width for cells in (below, upto))
    if not 0 < reach < min(question.level, 1 - question.level):
        raise NotEnoughRows(
            math.ceil(2 * rows * reach / min(question.level, 1 - question.level)) if reach < 1 else 4 * rows,
            rows,
            what=f"The {question.level:g}-quantile at this step",
        )
    levels = [question.level + side * factor * reach for side in (-1, 1) for factor in FARTHER]
    values = _order(question, training, levels)
    guess = middle if question.guess is None else question.guess
    least = 2.0**-40 * max(1.0, abs(guess))
    arms = spacing(middle, values[: len(FARTHER)], values[len(FARTHER) :])
    expected = max(arms[0], least), max(arms[1], least)
    behind = 1.0 if question.guess is not None else 1 + 1 / ratio
    error = sum(expected) / 2 / math.sqrt(2 * (nats + _LN2)) * math.sqrt(1 + behind)
    between = max(1.0, 2 * reach * upto.count)
    reading = QuantileByBets(question, nats, None, layout, norm, expected, reach, (below, upto))
    return ExpectedQuantile(guess, error, math.sqrt((1 + 1 / ratio) / between), reading)


def spacing(middle: float, below: Sequence[float], above: Sequence[float]) -> tuple[float, float]:
    """How far the nearest order statistics below and above a quantile are from it. If they are tied with it,
    a part of the way to the nearest ones farther out that are not."""
    lower, upper = (
        lengths[0] or _TIED * next((length for length in lengths if length > 0), 0.0)
        for lengths in ([middle - value for value in below], [value - middle for value in above])
    )
    return lower, upper


def _order(question: TableQuestion, training: Part, levels: Sequence[float]) -> list[float]:
    """The values of the training rows at these levels."""
    _, values = question.order_statistics(
        training,
        lambda count: [min(max(1, math.ceil(level * count)), count) for level in levels] if count else [],
    )
    if not values or not all(map(math.isfinite, values)):
        raise QueryRejected(f"No training row has a finite value for {question.text}.")
    return [float(value) for value in values]
