"""How a question is read off the protected rows: which interval it has, and what of it is released.

Every statistic is a procedure with two halves. :meth:`Reading.around` uses public facts only: it gives the
interval that the training part predicts if the statistic lies in a cell. :meth:`Reading.measured` reads the
rows: it gives the estimate and the interval for a query fixed in advance. One rule makes an output of the
two: the cell of the estimate and, if the width depends on the rows, the class of the arms. The interval of an
output contains the measured one, whatever the rows are. The theorem needs nothing else
(``docs/theory/code-guard.md``, "What leaves, and what it costs").
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from holdfast import intervals
from holdfast.coding import WHOLE, ArmClasses, Grid, Output
from holdfast.intervals import Interval
from holdfast.readings._question import Moments, Part, Question, StatisticQuestion
from holdfast.tails import SubGaussian, Tail


@dataclass(frozen=True)
class Measured:
    """What the rows say: the estimate, and its interval for a query fixed in advance."""

    estimate: float
    interval: Interval


@dataclass(frozen=True)
class Reading(ABC):
    """One question at one step, answered at failure probability exp(−nats). ``arms`` are the classes of the
    interval's arms; None if the interval follows from the cell alone."""

    question: Question
    nats: float
    arms: ArmClasses | None

    # Whether it reads sums over all rows. Several questions can share one scan for their sums.
    by_sums: ClassVar[bool] = True

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The name of the interval for a fixed query that is used."""

    @property
    def halves(self) -> bool:
        """Whether each side of the measured interval has half of the error. Otherwise one side may have
        all."""
        return True

    @abstractmethod
    def around(self, low: float, high: float) -> Interval:
        """The interval to expect if the statistic lies in [low, high]. Without classes of arms it is the
        union of the fixed-query intervals of all possible rows with such a statistic."""

    @abstractmethod
    def estimate(self, part: Part) -> float:
        """The statistic of the rows. Reads ``part``."""

    def measured(self, part: Part) -> Measured | None:
        """The statistic of the rows and its interval; None if the rows say nothing. Reads ``part``."""
        value = self.estimate(part)
        return Measured(value, self.around(value, value))

    def interval(self, low: float, high: float, output: Output) -> Interval:
        """The interval that an output stands for, with the cell [low, high]. It is clipped to the values that
        the statistic can take."""
        question = self.question
        if output.whole:
            return Interval(question.low, question.high)
        expected = self.around(low, high)
        bottom, top = expected.low, expected.high
        if self.arms is not None:
            stretch = self.arms.stretch(output.arm)
            lower, upper = _lengths(expected, low, high)
            bottom, top = low - stretch * lower, high + stretch * upper
        return Interval(
            max(question.low, bottom - question.resolution), min(question.high, top + question.resolution)
        )

    def widest(self, low: float, high: float, *, likely: bool = True) -> Interval:
        """The widest interval of a cell as wide as [low, high] near here. Its arms have a length that is
        hardly ever exceeded or, if not ``likely``, the expected length."""
        arm = self.arms.likely if likely and self.arms is not None else 0
        return self.interval(low, high, Output(0, arm))

    def output(self, part: Part, grid: Grid) -> Output:
        """Read the protected rows. No other method does."""
        if self.arms is None:
            return Output(grid.index(self.estimate(part)))
        measured = self.measured(part)
        if measured is None:
            return WHOLE
        cell = grid.index(measured.estimate)
        arm = self._arm(measured, *grid.edges(cell))
        return WHOLE if arm is None else Output(cell, arm)

    def _arm(self, measured: Measured, low: float, high: float) -> int | None:
        """The class of the arms that is released: the smallest class with arms long enough for the measured
        interval. If the arms are a little longer than expected and the cell makes up for that, it is the
        expected class. None if no class is wide enough."""
        assert self.arms is not None
        lower, upper = _lengths(self.around(low, high), low, high)
        inside, middle = measured.interval, measured.estimate
        stretch = max(_times(middle - inside.low, lower), _times(inside.high - middle, upper))
        if stretch > self.arms.stretch(0):
            # The estimate lies inside the cell, so the interval extends beyond it by less than an arm.
            beyond = max(_times(low - inside.low, lower), _times(inside.high - high, upper))
            stretch = max(beyond, self.arms.stretch(0))
        if not math.isfinite(stretch):
            return None
        if stretch == 0:
            return 0  # Tied values have arms of length 0. To release that would cost more than it is worth.
        arm = self.arms.least(stretch)
        return arm if arm <= self.arms.last else None


def _lengths(expected: Interval, low: float, high: float) -> tuple[float, float]:
    """The arms of an expected interval beyond its cell; 0 if the cell is unbounded."""
    lower = low - expected.low if math.isfinite(low) else 0.0
    upper = expected.high - high if math.isfinite(high) else 0.0
    return lower, upper


def _times(needed: float, expected: float) -> float:
    """The needed length of an arm as a multiple of its expected length."""
    if not needed > 0:
        return 0.0
    return needed / expected if expected > 0 else math.inf


@dataclass(frozen=True)
class Share(Reading):
    """A share of the rows, or of those that pass a filter: Clopper–Pearson, given how many pass. ``rows`` is
    the number of those that pass if it is public, else the expected number."""

    rows: int
    theorem = "Clopper–Pearson"

    def around(self, low: float, high: float) -> Interval:
        fewest = math.floor(max(low, 0.0) * self.rows)
        most = math.ceil(min(high, 1.0) * self.rows)
        return intervals.binomial_interval(fewest, most, self.rows, self.nats)

    def widest(self, low: float, high: float, *, likely: bool = True) -> Interval:
        """Cells of one width contain numbers of rows that differ by one or two, depending on where they
        lie."""
        if self.arms is not None:
            return super().widest(low, high, likely=likely)
        low, high = max(low, 0.0), min(high, 1.0)
        fewest = math.floor(low * self.rows)
        most = min(fewest + math.ceil((high - low) * self.rows) + 1, self.rows)
        return intervals.binomial_interval(fewest, most, self.rows, self.nats)

    def estimate(self, part: Part) -> float:
        return self.question.moments(part).mean

    def measured(self, part: Part) -> Measured | None:
        moments = self.question.moments(part)
        if moments.rows == 0:
            return None
        count = round(moments.mean * moments.rows)
        return Measured(moments.mean, intervals.binomial_interval(count, count, moments.rows, self.nats))


@dataclass(frozen=True)
class BoundedMean(Reading):
    """A mean of all rows whose spread is not known beforehand: binary relative entropy. The width is
    public."""

    rows: int
    theorem = "binary relative entropy (Chernoff)"

    def around(self, low: float, high: float) -> Interval:
        bottom, top = self.question.low, self.question.high
        low, high = (min(max(end, bottom), top) for end in (low, high))
        return intervals.kl(low, self.rows, self.nats, lo=bottom, hi=top, most=high)

    def estimate(self, part: Part) -> float:
        return self.question.moments(part).mean


@dataclass(frozen=True)
class MeanByBets(Reading):
    """A mean of the rows, or of those that pass a filter, by an e-value whose ``rates`` the training part
    chose. ``expected`` are the arms that the training part predicts.

    With a filter the e-value is a product over all rows. Rows that do not pass contribute 1. So nothing is
    conditioned on, and the same sums serve.
    """

    rates: tuple[tuple[float, ...], tuple[float, ...]]
    expected: tuple[float, float]
    theorem = "e-value of the mean (bets at one rate)"

    def around(self, low: float, high: float) -> Interval:
        return Interval(low - self.expected[0], high + self.expected[1])

    def estimate(self, part: Part) -> float:
        return self.question.moments(part).mean

    def measured(self, part: Part) -> Measured | None:
        moments = self.question.moments(part, squares=True)
        interval = bets_interval(self.question, moments, self.nats, self.rates)
        return None if interval is None else Measured(moments.mean, interval)


def bets_interval(
    question: Question,
    moments: Moments,
    nats: float,
    rates: tuple[tuple[float, ...], tuple[float, ...]],
) -> Interval | None:
    """The interval of a mean by bets; None where no row passes."""
    if moments.rows == 0:
        return None
    variance = 0.0 if moments.rows == 1 else moments.variance
    mean = min(max(moments.mean, question.low), question.high)
    return intervals.e_mean(
        mean, variance, moments.rows, nats, lo=question.low, hi=question.high, rates=rates
    )


@dataclass(frozen=True)
class MeanOfDependentRows(Reading):
    """A mean, or a filtered mean, of dependent rows: the tail of their model.

    With R the true filtered mean and d the share that passes, (f − R)·1[passes] has mean zero and lies in a
    range of length high − low. So its sample mean d·(v − R) is within the tail's radius r, and |v − R| ≤ r/d.
    ``share`` is the expected d.
    """

    tail: Tail
    rows: int
    share: float = 1.0

    @property
    def theorem(self) -> str:
        return f"{type(self.tail).__name__} tail of the dependence model"

    @property
    def halves(self) -> bool:
        # The possible dependence of blocks is one event, which both sides of a tail by blocks share.
        return isinstance(self.tail, SubGaussian)

    def around(self, low: float, high: float) -> Interval:
        radius = self.tail.radius_at(self.nats) / self.share
        return Interval(low - radius, high + radius)

    def estimate(self, part: Part) -> float:
        return self.question.moments(part).mean

    def measured(self, part: Part) -> Measured | None:
        moments = self.question.moments(part)
        if moments.rows == 0:
            return None
        radius = self.tail.radius_at(self.nats) * self.rows / moments.rows
        return Measured(moments.mean, Interval(moments.mean - radius, moments.mean + radius))


@dataclass(frozen=True)
class ShareOfChain(Reading):
    """A share of all rows of a stationary chain, by its operator norm. The width is public."""

    rows: int
    norm: float
    theorem = "Chernoff bound for stationary chains"

    def around(self, low: float, high: float) -> Interval:
        fewest = math.floor(min(max(low, 0.0), 1.0) * self.rows)
        most = math.ceil(min(max(high, 0.0), 1.0) * self.rows)
        lower = intervals.chain_share(fewest, self.rows, self.nats, norm=self.norm)
        upper = intervals.chain_share(most, self.rows, self.nats, norm=self.norm)
        return Interval(lower.low, upper.high)

    def estimate(self, part: Part) -> float:
        return self.question.moments(part).mean


@dataclass(frozen=True)
class DeclaredTail(Reading):
    """The caller's own statistic with a declared tail. The width is public."""

    question: StatisticQuestion

    @property
    def theorem(self) -> str:
        return f"declared {type(self.question.tail).__name__} tail"

    def around(self, low: float, high: float) -> Interval:
        radius = self.question.tail.radius_at(self.nats)
        return Interval(low - radius, high + radius)

    def estimate(self, part: Part) -> float:
        return self.question.value(part)


@dataclass(frozen=True)
class Ranks:
    """Which order statistics bound a quantile among ``count`` rows that pass.

    ``tail`` is the tail of a share of all ``rows`` when they depend on each other, and None for independent
    rows.
    """

    level: float
    nats: float
    rows: int
    tail: Tail | None

    def bounds(self, count: int) -> tuple[int, int]:
        """The ranks of the two order statistics; 0 and count + 1 mean infinity."""
        if self.tail is None:
            return intervals.quantile_ranks(count, self.level, self.nats)
        # As in MeanOfDependentRows: (1[x ≤ Q] − level)·1[passes] has mean ≥ 0 and (1[x < Q] −
        # level)·1[passes] mean ≤ 0, so either sample mean is beyond the tail's radius on one side with half
        # of the error each.
        slack = self.tail.radius_at(self.nats + math.log(2)) * self.rows
        place = count * self.level
        return max(0, math.floor(place - slack)), min(count + 1, math.floor(place + slack) + 1)

    def middle(self, count: int) -> int:
        """The rank of the quantile itself."""
        return min(max(1, math.ceil(self.level * count)), count)


@dataclass(frozen=True)
class QuantileOfRows(Reading):
    """A quantile: the order statistics on either side of it. ``expected`` is how far from it they are, as the
    training part predicts."""

    ranks: Ranks
    expected: tuple[float, float]

    @property
    def theorem(self) -> str:
        source = "binomial tails" if self.ranks.tail is None else "the tail of the dependence model"
        return f"order statistics, by {source}"

    def around(self, low: float, high: float) -> Interval:
        return Interval(low - self.expected[0], high + self.expected[1])

    def estimate(self, part: Part) -> float:
        raise TypeError("a quantile is measured with its order statistics")

    def measured(self, part: Part) -> Measured | None:
        def ranks_for(count: int) -> list[int]:
            if count == 0:
                return []
            lower, upper = self.ranks.bounds(count)
            return [max(lower, 1), self.ranks.middle(count), min(upper, count)]

        count, values = self.question.order_statistics(part, ranks_for)
        if count == 0:
            return None
        lower, upper = self.ranks.bounds(count)
        if lower < 1 or upper > count or not all(map(math.isfinite, values)):
            return None
        return Measured(values[1], Interval(values[0], values[2]))
