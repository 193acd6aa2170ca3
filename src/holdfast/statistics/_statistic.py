"""What people ask for beyond shares, means and quantiles, each with an interval for a query fixed in advance.

A statistic is where the mean of a form crosses zero. Some need a second fact besides, such as how far the
true mean is from the training part's; that fact takes a tenth of the error. ``docs/theory/statistics.md``
proves each interval.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast import intervals
from holdfast.intervals import Interval
from holdfast.statistics._cells import Cells
from holdfast.statistics._evidence import Evidence
from holdfast.statistics._product import Form
from holdfast.statistics._units import crossing_of

_LN2 = math.log(2.0)
# How much of the error the second facts of a statistic may take together.
_BESIDES = 0.1

_ONE = (1.0, 0, 0, 0, 0, 0)
_X = (0, 1.0, 0, 0, 0, 0)
_Z = (0, 0, 1.0, 0, 0, 0)
_XX = (0, 0, 0, 1.0, 0, 0)
_XZ = (0, 0, 0, 0, 1.0, 0)
_ZZ = (0, 0, 0, 0, 0, 1.0)


@dataclass(frozen=True)
class Statistic(ABC):
    """A statistic of one or two values of each row, among one or several groups of rows.

    ``conditions`` says whether the proof of its interval takes the groups of the rows as fixed. If rows
    depend on each other, that is not allowed, and another interval is used.
    """

    conditions = False
    two_values = False
    groups = 1
    needs_training = False
    every_value = False  # whether each value needs a cell of its own
    unforeseen = 0.0  # what else the logarithm of its arms deviates by from what training rows predict
    two_sided_facts = False  # whether second facts are shared by both sides of the interval

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The interval for a fixed query, by name."""

    @abstractmethod
    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        """The form whose crossing is the statistic, or nearly, and the cells around the centre it is
        about.

        Args:
            cells: The sums over the protected rows, by cell.
            trained: The same over the training rows. None if there are none.
        """

    @abstractmethod
    def estimate(self, cells: Cells) -> float:
        """The statistic of the rows; NaN where they have none.

        Args:
            cells: The sums over the protected rows, by cell.
        """

    @abstractmethod
    def interval(self, evidence: Evidence, nats: float) -> Interval:
        """The interval for a query fixed in advance: it holds with probability ≥ 1 − exp(−nats).

        Args:
            evidence: What the rows say, with the bets on it.
            nats: ln of one over the probability that the interval may miss.
        """

    def deviation(self, cells: Cells) -> float:
        """About the standard deviation of the estimate from such rows; infinite where they say nothing.

        Args:
            cells: The sums over the protected rows, by cell.
        """
        crossing = crossing_of(*self.form(cells, cells))
        if not (crossing.slope > 0 and math.isfinite(crossing.estimate)):
            return math.inf
        moment = crossing.second_moment(crossing.estimate)
        return math.sqrt(moment * cells.variance_factor / cells.rows) / crossing.slope

    def heaviness(self, cells: Cells) -> float:
        """About the relative variance of a squared term of the form: 1 for flat ones, more for heavy
        tails.

        Args:
            cells: The sums over the protected rows, by cell.
        """
        crossing = crossing_of(*self.form(cells, cells))
        return crossing.heaviness(crossing.estimate) if math.isfinite(crossing.estimate) else math.inf


def _both_sides(evidence: Evidence, form: Form, nats: float) -> Interval:
    level = nats + _LN2
    return Interval(evidence.lower(form, level), evidence.upper(form, level))


def _main(nats: float) -> float:
    """The nats of the main interval where second facts are needed."""
    return nats - math.log1p(-_BESIDES)


def _each_end(nats: float, ends: int) -> float:
    """The level of each of so many one-sided facts that are needed besides."""
    return nats + math.log(ends / _BESIDES)


def _centre(evidence: Evidence) -> tuple[float, float]:
    """Where values are counted from: the training part's means, else the middle of the ranges."""
    trained, axes = evidence.trained, evidence.cells.axes
    if trained is None or not trained.rows > 0:
        return axes[0].middle, axes[1].middle
    return trained.mean


def _distance(evidence: Evidence, axis: int, level: float) -> float:
    """At least |E − centre| of one value: two facts at this level."""
    form = Form.of((_X, _Z)[axis], _ONE)
    low, high = evidence.lower(form, level), evidence.upper(form, level)
    declared, centre = evidence.cells.axes[axis], evidence.cells.centre[axis]
    widest = max(centre - declared.low, declared.high - centre)
    return min(max(-low, high), widest)


@dataclass(frozen=True)
class Mean(Statistic):
    """The mean of a value among the rows that enter; or, of values that are not negative, its ``root``."""

    root: bool = False
    theorem = "e-value of the mean (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        return cells, Form.of((cells.centre[0], 1.0, 0, 0, 0, 0), _ONE)

    def estimate(self, cells: Cells) -> float:
        return self._out(cells.mean[0]) if cells.rows > 0 else math.nan

    def _out(self, mean: float) -> float:
        return math.sqrt(max(0.0, mean)) if self.root else mean

    def deviation(self, cells: Cells) -> float:
        deviation = super().deviation(cells)
        if not self.root:
            return deviation
        return deviation / (2 * max(self.estimate(cells), math.sqrt(deviation), 1e-300))

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        x, _ = _centre(evidence)
        around = _both_sides(evidence.around(x), Form.of(_X, _ONE), nats)
        return Interval(self._out(x + around.low), self._out(x + around.high))


@dataclass(frozen=True)
class Ratio(Statistic):
    """E[u]/E[v], v ≥ 0: revenue a visit, a weighted mean, precision, F1."""

    two_values = True
    theorem = "e-value of the ratio (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        x, z = cells.centre
        return cells, Form.of((x, 1.0, 0, 0, 0, 0), (z, 0, 1.0, 0, 0, 0))

    def estimate(self, cells: Cells) -> float:
        return crossing_of(*self.form(cells, None)).estimate if cells.rows > 0 else math.nan

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        return _both_sides(evidence, self.form(evidence.cells, None)[1], nats)


@dataclass(frozen=True)
class WeightedMean(Statistic):
    """E[w·x]/E[w], w ≥ 0: x is the first value and w the second."""

    two_values = True
    theorem = "e-value of the weighted mean (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        x, z = cells.centre
        return cells, Form.of((x * z, z, x, 0, 1.0, 0), (z, 0, 1.0, 0, 0, 0))

    def estimate(self, cells: Cells) -> float:
        return crossing_of(*self.form(cells, None)).estimate if cells.rows > 0 else math.nan

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        # Counted from the training mean the form is w·(x − a), and a stays small.
        x, z = _centre(evidence)[0], evidence.cells.axes[1].low
        form = Form.of((0, z, 0, 0, 1.0, 0), (z, 0, 1.0, 0, 0, 0))
        around = _both_sides(evidence.around(x, z), form, nats)
        return Interval(x + around.low, x + around.high)


@dataclass(frozen=True)
class Contrast(Statistic):
    """Σ α_g·μ_g over groups of rows, given who belongs to which: a difference of two groups, a mean over
    classes.

    Args:
        weights: The weight of each group.
    """

    weights: tuple[float, ...] = (1.0, -1.0)
    conditions = True
    theorem = "e-value of the contrast, given the groups (product of bets)"

    @property
    def groups(self) -> int:  # type: ignore[override]
        return len(self.weights)

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        u, middle = [], 0.0
        for group, weight in enumerate(self.weights):
            mean = math.nan if trained is None else trained.mean_of(group)
            mean = mean if math.isfinite(mean) else cells.axes[0].middle
            times = weight * cells.rows / max(cells.rows_in(group), 1e-300)
            u.append((times * (cells.centre[0] - mean), times, 0, 0, 0, 0))
            middle += weight * mean
        v = np.array([_ONE] * len(self.weights))
        return cells, Form(np.array(u) + middle * v, v)

    def estimate(self, cells: Cells) -> float:
        means = [cells.mean_of(group) for group in range(len(self.weights))]
        return math.fsum(weight * mean for weight, mean in zip(self.weights, means, strict=True))

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        if not evidence.independent:
            parts = _means_of_groups(evidence, len(self.weights), nats)
            ends = [
                sorted((weight * part.low, weight * part.high))
                for weight, part in zip(self.weights, parts, strict=True)
            ]
            return Interval(math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends))
        if not all(evidence.cells.rows_in(group) > 0 for group in range(self.groups)):
            return Interval(-math.inf, math.inf)
        return _both_sides(evidence, self.form(evidence.cells, evidence.trained)[1], nats)


@dataclass(frozen=True)
class Lift(Statistic):
    """μ_first/μ_second − 1 of two groups of rows, given who belongs to which; values are not negative."""

    conditions = True
    groups = 2
    theorem = "e-value of the relative lift, given the groups (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        mean = math.nan if trained is None else trained.mean_of(0)
        mean = mean if math.isfinite(mean) else cells.axes[0].middle
        first, second = (cells.rows / max(cells.rows_in(group), 1e-300) for group in (0, 1))
        x = cells.centre[0]
        u = [(first * (x - mean), first, 0, 0, 0, 0), (second * (mean - x), -second, 0, 0, 0, 0)]
        v = [(0.0,) * 6, (second * x, second, 0, 0, 0, 0)]
        return cells, Form(np.array(u), np.array(v))

    def estimate(self, cells: Cells) -> float:
        first, second = cells.mean_of(0), cells.mean_of(1)
        return first / second - 1 if second > 0 else math.nan

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        if not evidence.independent:
            first, second = _means_of_groups(evidence, 2, nats)
            low = first.low / second.high - 1 if second.high > 0 else -1.0
            return Interval(max(-1.0, low), first.high / second.low - 1 if second.low > 0 else math.inf)
        if not all(evidence.cells.rows_in(group) > 0 for group in range(self.groups)):
            return Interval(-math.inf, math.inf)
        return _both_sides(evidence, self.form(evidence.cells, evidence.trained)[1], nats)


def _means_of_groups(evidence: Evidence, groups: int, nats: float) -> list[Interval]:
    """The mean of each group, each with its part of the error. Nothing is conditioned on who belongs to a
    group: if rows depend on each other, membership may decide the values of other rows."""
    low, high = evidence.cells.axes[0].low, evidence.cells.axes[0].high
    each = [Mean().interval(evidence.only(group), nats + math.log(groups)) for group in range(groups)]
    return [Interval(max(low, interval.low), min(high, interval.high)) for interval in each]


@dataclass(frozen=True)
class Variance(Statistic):
    """Var X, or its root.

    Args:
        root: Whether the standard deviation is meant, the root of the variance.
    """

    root: bool = False
    needs_training = True
    theorem = "e-value of the squared distance, with a box for the mean (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        return cells.around(cells.mean[0]), Form.of(_XX, _ONE)

    def estimate(self, cells: Cells) -> float:
        if not cells.rows > 0:
            return math.nan
        around = cells.around(*cells.mean)
        return self._out(max(0.0, float(around.totals[3] / around.totals[0])))

    def _out(self, variance: float) -> float:
        return math.sqrt(max(0.0, variance)) if self.root else variance

    def deviation(self, cells: Cells) -> float:
        deviation = super().deviation(cells)
        if not (self.root and deviation > 0):
            return deviation
        return deviation / (2 * max(self.estimate(cells), math.sqrt(deviation)))

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        # Var ≤ E(x − m)² needs no box, so the upper side has half of all the error.
        x, z = _centre(evidence)
        evidence, form = evidence.around(x, z), Form.of(_XX, _ONE)
        high = evidence.upper(form, nats + _LN2)
        level = nats + _LN2
        low = evidence.lower(form, _main(level)) - _distance(evidence, 0, _each_end(level, 2)) ** 2
        return Interval(self._out(max(0.0, low)), self._out(high))


@dataclass(frozen=True)
class Covariance(Statistic):
    """E(x − Ex)(z − Ez)."""

    two_values = True
    needs_training = True
    two_sided_facts = True
    theorem = "e-value of the product, with boxes for both means (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        return cells.around(*cells.mean), Form.of(_XZ, _ONE)

    def estimate(self, cells: Cells) -> float:
        if not cells.rows > 0:
            return math.nan
        around = cells.around(*cells.mean)
        return float(around.totals[4] / around.totals[0])

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        evidence, end = evidence.around(*_centre(evidence)), _each_end(nats, 4)
        main = _both_sides(evidence, Form.of(_XZ, _ONE), _main(nats))
        box = _distance(evidence, 0, end) * _distance(evidence, 1, end)
        return Interval(main.low - box, main.high + box)


@dataclass(frozen=True)
class Slope(Statistic):
    """The slope of the first value on the second by least squares, Cov(x, z)/Var z."""

    two_values = True
    needs_training = True
    two_sided_facts = True
    theorem = "e-value of the ratio of moments, with boxes for both means (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        return cells.around(*cells.mean), Form.of(_XZ, _ZZ)

    def estimate(self, cells: Cells) -> float:
        return crossing_of(*self.form(cells, None)).estimate if cells.rows > 0 else math.nan

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        evidence, end = evidence.around(*_centre(evidence)), _each_end(nats, 5)
        line = 0.0 if evidence.trained is None else self.estimate(evidence.trained)
        line = line if math.isfinite(line) else 0.0
        # x less the training part's line.
        residual = Form.of((0, 1.0, -line, 0, 0, 0), _ONE)
        main = _both_sides(evidence, Form.of((0, 0, 0, 0, 1.0, -line), _ZZ), _main(nats))
        box = _distance(evidence, 1, end)
        residual_box = max(-evidence.lower(residual, end), evidence.upper(residual, end))
        variance = evidence.lower(Form.of(_ZZ, _ONE), end) - box**2
        if not variance > 0:
            return Interval(-math.inf, math.inf)
        steepest = max(abs(main.low), abs(main.high))
        margin = box * (residual_box + steepest * box) / variance
        return Interval(line + main.low - margin, line + main.high + margin)


@dataclass(frozen=True)
class Correlation(Statistic):
    """Cov(x, z)/√(Var x·Var z)."""

    two_values = True
    needs_training = True
    unforeseen = 0.12
    two_sided_facts = True
    theorem = "e-value of the product less a share of the squares, with boxes (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        around = cells.around(*cells.mean)
        return around, Form.of(_XZ, _halves(_scale(around)))

    def estimate(self, cells: Cells) -> float:
        if not cells.rows > 0:
            return math.nan
        around = cells.around(*cells.mean).totals
        size = math.sqrt(max(0.0, around[3]) * max(0.0, around[5]))
        return min(max(float(around[4]) / size, -1.0), 1.0) if size > 0 else math.nan

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        x, z = _centre(evidence)
        evidence, end = evidence.around(x, z), _each_end(nats, 7)
        scale = 1.0 if evidence.trained is None else _scale(evidence.trained)
        box_x, box_z = (_distance(evidence, axis, end) for axis in (0, 1))
        facts = box_x, box_z, _unlike(evidence, scale, box_x, box_z, end)
        level = _main(nats) + _LN2
        low = _correlation_above(evidence, scale, facts, level, sign=1.0)
        high = -_correlation_above(evidence, scale, facts, level, sign=-1.0)
        return Interval(max(-1.0, low), min(1.0, high))


def _scale(around: Cells) -> float:
    """σ_x/σ_z of the rows, at which σ_x·σ_z is the mean of σ_x²/s and s·σ_z²."""
    xx, zz = (max(float(around.totals[place]), 1e-300) for place in (3, 5))
    return math.sqrt(xx / zz)


def _halves(scale: float) -> Sequence[float]:
    return (0, 0, 0, 0.5 / scale, 0, 0.5 * scale)


def _unlike(evidence: Evidence, scale: float, box_x: float, box_z: float, end: float) -> float:
    """At least (σ_x/√s − √s·σ_z)²: three facts at this level. With p and q for the two, |p − q| is
    |p² − q²|/(p + q), and (p + q)² is at least p² + q²."""
    difference = Form.of((0, 0, 0, 1 / scale, 0, -scale), _ONE)
    boxes = max(box_x**2 / scale, scale * box_z**2)
    most_apart = max(-evidence.lower(difference, end), evidence.upper(difference, end)) + boxes
    total = Form.of((0, 0, 0, 1 / scale, 0, scale), _ONE)
    least_total = evidence.lower(total, end) - box_x**2 / scale - scale * box_z**2
    return most_apart**2 / least_total if least_total > 0 else math.inf


def _correlation_above(
    evidence: Evidence, scale: float, facts: tuple[float, float, float], level: float, *, sign: float
) -> float:
    """A number below sign·ρ. One form gives negative numbers. If it shows that sign·ρ is not negative,
    another form gives positive ones. So a wrong claim of either kind is the same event."""
    box_x, box_z, unlike = facts
    halves, product = np.array([_halves(scale)]), sign * np.array([_XZ])
    box = box_x * box_z
    apart = box_x**2 / scale + scale * box_z**2
    if not math.isfinite(unlike):
        return -1.0
    # −b < sign·ρ where E[sign·xz + b·halves] is more than what is hidden: it grows with b.
    negative = evidence.lower(Form(product, halves), level, offset=(unlike + apart) / 2 + box, lowest=-1.0)
    if not negative >= 0:
        return negative
    return max(0.0, evidence.lower(Form(product, halves), level, offset=box, lowest=0.0))


@dataclass(frozen=True)
class RSquared(Statistic):
    """1 − E(y − p)²/Var y of a target y, the first value, and its prediction p, the second."""

    two_values = True
    needs_training = True
    theorem = "e-value of the explained share, with a box for the mean (product of bets)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        middle = cells.mean[0]
        return cells.around(middle, middle), Form.of((0, 0, 0, 0, 2.0, -1.0), _XX)

    def estimate(self, cells: Cells) -> float:
        return crossing_of(*self.form(cells, None)).estimate if cells.rows > 0 else math.nan

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        middle = _centre(evidence)[0]
        evidence, level = evidence.around(middle, middle), nats + _LN2
        form = Form.of((0, 0, 0, 0, 2.0, -1.0), _XX)
        expected = -1.0 if evidence.trained is None else self.estimate(evidence.trained)
        lowest = min(-1.0, 3 * expected) if math.isfinite(expected) else -1.0
        box = _distance(evidence, 0, _each_end(level, 2))
        low = evidence.lower(form, _main(level), offset=(1 - lowest) * box**2, lowest=lowest)
        # R² < b needs no box: E(y − m)² is at least the variance.
        return Interval(low, min(1.0, evidence.upper(form, level)))


@dataclass(frozen=True)
class AUC(Statistic):
    """How often a positive row has a larger score than a negative one, ties counting half: group 1 has the
    positive rows, group 0 the negative ones.

    Rows are paired off at random in min(n₁, n₀) pairs that do not share a row. The score is the average over
    all ways to do so, so by Hoeffding's argument the interval of as many independent pairs holds for it.
    """

    conditions = True
    groups = 2
    every_value = True
    theorem = "binary relative entropy at the smaller class (Hoeffding 1963, U-statistics)"

    def form(self, cells: Cells, trained: Cells | None) -> tuple[Cells, Form]:
        return cells, Form.of(_X, _ONE)

    def estimate(self, cells: Cells) -> float:
        negative, positive = cells.rows_in(0), cells.rows_in(1)
        if not (negative > 0 and positive > 0):
            return math.nan
        scores, place = np.unique(cells.least[:, 0], return_inverse=True)
        counts = [
            np.bincount(place[cells.group == group], cells.sums[cells.group == group, 0], len(scores))
            for group in (0, 1)
        ]
        below = np.concatenate([[0.0], np.cumsum(counts[0])[:-1]])
        return float(np.sum(counts[1] * (below + counts[0] / 2)) / (negative * positive))

    def deviation(self, cells: Cells) -> float:
        value, fewest = self.estimate(cells), min(cells.rows_in(0), cells.rows_in(1))
        if not math.isfinite(value):
            return math.inf
        share = (value * fewest + 1) / (fewest + 2)
        return math.sqrt(share * (1 - share) / fewest)

    def heaviness(self, cells: Cells) -> float:
        return 0.0

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        if not evidence.independent:
            return Interval(0.0, 1.0)
        cells = evidence.cells
        fewest = int(min(cells.rows_in(0), cells.rows_in(1)))
        return intervals.kl(self.estimate(cells), max(1, fewest), nats)
