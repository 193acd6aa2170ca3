"""How a question is read off the protected rows: what is measured, and which interval each output stands for.

A reading is made from public facts alone (the question, the number of rows, the training part, the nats of
this step). Everything data-dependent that leaves is in its alphabet: the cell of the statistic and, where the
width of the fixed-query interval depends on the data (a filter's count, a sample variance, the spacing of
order statistics), a width class. Class 0 is the width the training part predicts with room to spare; each
further class is wider, and the last one always suffices. The interval of an output is the union of the
fixed-query intervals over all data with that output.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast import intervals
from holdfast.guard._grid import Grid
from holdfast.guard._question import Part, Question, StatisticQuestion
from holdfast.intervals import Interval
from holdfast.tails import Tail


@dataclass(frozen=True)
class Output:
    """What a question reveals and pays for: the cell of the statistic and the class of the width."""

    cell: int
    width_class: int = 0

    @property
    def confirmed(self) -> bool:
        """Whether it says no more than what was expected."""
        return self.cell == 0 and self.width_class == 0


def _first(conditions: Iterable[bool]) -> int:
    """The place of the first condition that holds; where none does, the last place, which always suffices."""
    known = list(conditions)
    return known.index(True) if True in known else len(known) - 1


@dataclass(frozen=True)
class Reading(ABC):
    """One question at one step, answered at failure probability exp(−nats)."""

    question: Question
    nats: float

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The interval for a fixed query that is used, by name."""

    @property
    def classes(self) -> int:
        """How many width classes there are; 1 where the width is public."""
        return 1

    @abstractmethod
    def interval(self, low: float, high: float, width_class: int) -> Interval:
        """The union of the fixed-query intervals when the statistic lies in [low, high] and the width in this
        class."""

    def widest(self, low: float, high: float) -> Interval:
        """The widest interval of a cell as wide as [low, high] that lies about here, in width class 0."""
        return self.interval(low, high, 0)

    @abstractmethod
    def output(self, part: Part, grid: Grid) -> Output:
        """Read the protected rows. The only place that does."""


@dataclass(frozen=True)
class ShareOfAll(Reading):
    """A share among all protected rows: Clopper–Pearson. The width is public."""

    rows: int
    theorem = "Clopper–Pearson"

    def interval(self, low: float, high: float, width_class: int) -> Interval:
        fewest = math.floor(max(low, 0.0) * self.rows)
        most = math.ceil(min(high, 1.0) * self.rows)
        return intervals.clopper_pearson(fewest, self.rows, self.nats, most=most)

    def widest(self, low: float, high: float) -> Interval:
        """Cells of one width touch numbers of rows that differ by one or two, depending on where they lie."""
        low, high = max(low, 0.0), min(high, 1.0)
        fewest = math.floor(low * self.rows)
        most = min(fewest + math.ceil((high - low) * self.rows) + 1, self.rows)
        return intervals.clopper_pearson(fewest, self.rows, self.nats, most=most)

    def output(self, part: Part, grid: Grid) -> Output:
        return Output(grid.index(self.question.moments(part).mean))


@dataclass(frozen=True)
class _FilteredMean(Reading):
    """A mean among the rows that pass a filter, or all. Class c says: at least ``floors[c]`` rows pass."""

    floors: tuple[int, ...]

    @property
    def classes(self) -> int:
        return len(self.floors)

    def output(self, part: Part, grid: Grid) -> Output:
        moments = self.question.moments(part)
        width_class = _first(moments.rows >= floor for floor in self.floors)
        return Output(grid.index(moments.mean) if moments.rows else 0, width_class)


@dataclass(frozen=True)
class BoundedMean(_FilteredMean):
    """A filtered mean or share of independent rows: binary relative entropy.

    Given which rows pass, those that do are independent draws from the filtered distribution, so the interval
    at their count is valid; at a fixed mean it shrinks as the count grows.
    """

    theorem = "binary relative entropy (Chernoff)"

    def interval(self, low: float, high: float, width_class: int) -> Interval:
        least, greatest = self.question.low, self.question.high
        count = self.floors[width_class]
        if count == 0:
            return Interval(least, greatest)
        low, high = (min(max(end, least), greatest) for end in (low, high))
        return intervals.kl(low, count, self.nats, lo=least, hi=greatest, most=high)


@dataclass(frozen=True)
class MeanOfDependentRows(_FilteredMean):
    """A mean, or a filtered mean, of dependent rows: the tail of their model.

    With R the true filtered mean and d the share that passes, (f − R)·1[passes] has mean zero and lies in a
    range of length high − low, so its sample mean d·(v − R) is within the tail's radius r, and |v − R| ≤ r/d.
    """

    tail: Tail
    rows: int

    @property
    def theorem(self) -> str:
        return f"{type(self.tail).__name__} tail of the dependence model"

    def interval(self, low: float, high: float, width_class: int) -> Interval:
        count = self.floors[width_class]
        if count == 0:
            return Interval(self.question.low, self.question.high)
        radius = self.tail.radius_at(self.nats) * self.rows / count
        return Interval(low - radius, high + radius)


@dataclass(frozen=True)
class _WithinRadius(Reading):
    """An interval whose radius depends on the data. Class c says: it is at most ``radii[c]``."""

    radii: tuple[float, ...]

    @property
    def classes(self) -> int:
        return len(self.radii)

    def interval(self, low: float, high: float, width_class: int) -> Interval:
        radius = self.radii[width_class]
        return Interval(low - radius, high + radius)


@dataclass(frozen=True)
class LowVarianceMean(_WithinRadius):
    """A mean of values that vary little: empirical Bernstein. Class c says: its radius is at most
    ``radii[c]``."""

    theorem = "empirical Bernstein (Maurer and Pontil)"

    def output(self, part: Part, grid: Grid) -> Output:
        moments = self.question.moments(part, squares=True)
        if moments.rows < 2:
            return Output(0, self.classes - 1)
        width = self.question.high - self.question.low
        radius = intervals.empirical_bernstein_radius(moments.variance, moments.rows, self.nats, width=width)
        return Output(grid.index(moments.mean), _first(radius <= limit for limit in self.radii))


@dataclass(frozen=True)
class DeclaredTail(Reading):
    """A statistic of the caller's own with a declared tail. The width is public."""

    question: StatisticQuestion

    @property
    def theorem(self) -> str:
        return f"declared {type(self.question.tail).__name__} tail"

    def interval(self, low: float, high: float, width_class: int) -> Interval:
        radius = self.question.tail.radius_at(self.nats)
        return Interval(low - radius, high + radius)

    def output(self, part: Part, grid: Grid) -> Output:
        return Output(grid.index(self.question.value(part)))


@dataclass(frozen=True)
class QuantileOfRows(_WithinRadius):
    """A quantile: the order statistics on either side of it. Class c says: both lie within ``radii[c]`` of
    the cell.

    ``tail`` is the tail of a share of all ``rows`` when they depend on each other, and None for independent
    rows.
    """

    rows: int
    tail: Tail | None

    @property
    def theorem(self) -> str:
        source = "binomial tails" if self.tail is None else "the tail of the dependence model"
        return f"order statistics, by {source}"

    def ranks(self, count: int) -> tuple[int, int]:
        """The ranks of the two order statistics when ``count`` rows pass the filter; 0 and count + 1 mean
        infinity."""
        if self.tail is None:
            return intervals.quantile_ranks(count, self.question.level, self.nats)
        # As in MeanOfDependentRows: (1[x ≤ Q] − level)·1[passes] has mean ≥ 0 and (1[x < Q] −
        # level)·1[passes] mean ≤ 0, so either sample mean is beyond the tail's radius on one side with half
        # of the error each.
        slack = self.tail.radius_at(self.nats + math.log(2)) * self.rows
        place = count * self.question.level
        return max(0, math.floor(place - slack)), min(count + 1, math.floor(place + slack) + 1)

    def output(self, part: Part, grid: Grid) -> Output:
        def wanted(count: int) -> list[int]:
            if count == 0:
                return []
            lower, upper = self.ranks(count)
            middle = min(max(1, math.ceil(self.question.level * count)), count)
            return [max(lower, 1), middle, min(upper, count)]

        count, values = self.question.order_statistics(part, wanted)
        if count == 0:
            return Output(0, self.classes - 1)
        lower, upper = self.ranks(count)
        cell = grid.index(values[1])
        low, high = grid.edges(cell)
        excess = max(low - values[0], values[2] - high) if lower >= 1 and upper <= count else math.inf
        width_class = _first(excess <= radius for radius in self.radii)
        # Where nothing bounds the interval it says the same for every cell, and one of them is enough.
        return Output(0 if math.isinf(self.radii[width_class]) else cell, width_class)
