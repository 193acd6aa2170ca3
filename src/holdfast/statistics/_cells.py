"""Rows by cells: what a database is asked for once, and every statistic here is computed from.

The rows that enter a question are divided by group and by where their values lie. Of each cell the count, the
sums of the values and of their products, and the least and greatest values are read, as whole numbers. Every
engine gives the same numbers. The sum of any smooth function of the values follows from them, up to a very
small rest. An example is the logarithm of a product of bets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The terms of a form in two values, in the order of their coefficients.
ONE, X, Z, XX, XZ, ZZ = range(6)


class CellSums(NamedTuple):
    """One cell as it is read: whole numbers, each value counted in units from 0 to ``Axis.units``. Where a
    question has one value, the second is 0 everywhere."""

    group: int
    rows: int
    x: int
    z: int
    xx: int
    xz: int
    zz: int
    least_x: int
    greatest_x: int
    least_z: int
    greatest_z: int


class Axis(NamedTuple):
    """The declared range of one value, and into how many units it is divided."""

    low: float
    high: float
    units: int

    @property
    def width(self) -> float:
        """How long the range is."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2


NO_AXIS = Axis(0.0, 0.0, 1)


class Steps(NamedTuple):
    """How the units of an axis are divided into cells: a ``number`` of steps of 2**``bits`` units from
    ``start`` on. The first and the last reach to the ends of the range."""

    start: int
    bits: int
    number: int

    @classmethod
    def between(cls, axis: Axis, low: float, high: float, count: int) -> Steps:
        """At most so many steps over a part of the range.

        Args:
            axis: The declared range of the values.
            low: Where the first step begins, in the units of the values.
            high: Where the last step ends, in the units of the values.
            count: How many steps the range is cut into, at least 1.
        """
        unit = axis.width / axis.units if axis.width > 0 else 1.0
        first, last = (min(max((end - axis.low) / unit, 0.0), float(axis.units)) for end in (low, high))
        return cls(int(first), max(0, math.ceil(math.log2(max(1.0, (last - first) / count)))), count)

    @classmethod
    def over(cls, axis: Axis, count: int) -> Steps:
        """Steps over the whole range.

        Args:
            axis: The declared range of the values.
            count: How many steps the range is cut into, at least 1.
        """
        return cls.between(axis, axis.low, axis.high, count)

    @classmethod
    def where_values_are(cls, axis: Axis, mean: float, deviation: float, count: int) -> Steps:
        """Steps over the values within five standard deviations of the mean; both are those of the training
        rows.

        Args:
            axis: The declared range of the values.
            mean: The mean of the training rows.
            deviation: The standard deviation that is expected.
            count: How many steps the range is cut into, at least 1.
        """
        reach = _DEVIATIONS * deviation
        return cls.between(axis, mean - reach, mean + reach, count)

    def place(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The step that each number of units belongs to.

        Args:
            units: Values in the axis's units.
        """
        return np.asarray(np.minimum(np.maximum(units - self.start, 0) >> self.bits, self.number - 1))


_DEVIATIONS = 5


def whole_sums(where: NDArray[np.int64], term: NDArray[np.int64], places: int) -> list[int]:
    """The sums of whole numbers below 2**48 at each place, exactly: in two halves that floats can hold."""
    high, low = (np.bincount(where, weights=part, minlength=places) for part in (term >> 24, term % 2**24))
    return [(int(above) << 24) + int(below) for above, below in zip(high, low, strict=True)]


@dataclass(frozen=True)
class Cells:
    """The rows of a question by cells, in the question's own units around ``centre``.

    ``sums`` has for each cell the sums of 1, x, z, x², xz and z², where x and z are values less their centre;
    ``least`` and ``greatest`` have the extreme values of both. ``axes`` are the declared ranges. ``norm`` is
    the operator norm of the stationary chain whose states the rows are; 0 stands for independent rows.
    ``all_rows`` is the number of rows that were read, also of those that do not enter. It is public, and the
    number of rows that enter is not. It is 0 if nothing needs it.

    Args:
        group: The number of the group of each cell.
    """

    axes: tuple[Axis, Axis]
    group: NDArray[np.int64]
    sums: Floats
    least: Floats
    greatest: Floats
    centre: tuple[float, float]
    norm: float = field(default=0.0, kw_only=True)
    all_rows: int = field(default=0, kw_only=True)

    @classmethod
    def of(cls, axes: tuple[Axis, Axis], read: Iterable[Sequence[int]]) -> Cells:
        """The cells that were read, around the lower ends of their ranges.

        Args:
            read: Lines of whole numbers as an engine returns them.
        """
        table = np.array([[float(number) for number in cell] for cell in read], dtype=np.float64)
        table = table.reshape(-1, len(CellSums._fields))
        width_x, width_z = (axis.width / axis.units for axis in axes)
        sizes = np.array([1.0, width_x, width_z, width_x**2, width_x * width_z, width_z**2])
        return cls(
            axes,
            table[:, 0].astype(np.int64),
            table[:, 1:7] * sizes,
            table[:, [7, 9]] * [width_x, width_z],
            table[:, [8, 10]] * [width_x, width_z],
            (axes[0].low, axes[1].low),
        )

    @classmethod
    def of_values(
        cls,
        axes: tuple[Axis, Axis],
        steps: tuple[Steps, Steps],
        x: NDArray[np.int64],
        z: NDArray[np.int64] | None = None,
        group: NDArray[np.int64] | None = None,
    ) -> Cells:
        """The cells of rows whose values, in units, are at hand.

        Args:
            steps: The steps of both axes.
            x: The first value of each row, in units.
            z: The second value of each row, in units.
            group: The group of each row.
        """
        z, group = (np.zeros_like(x) if column is None else column for column in (z, group))
        key = (group * steps[0].number + steps[0].place(x)) * steps[1].number + steps[1].place(z)
        keys, where = np.unique(key, return_inverse=True)
        least, greatest = np.empty((len(keys), 2)), np.empty((len(keys), 2))
        for axis, values in enumerate((x, z)):
            least[:, axis], greatest[:, axis] = np.inf, -np.inf
            np.minimum.at(least[:, axis], where, values)
            np.maximum.at(greatest[:, axis], where, values)
        terms = (np.ones_like(x), x, z, x * x, x * z, z * z)
        sums = [whole_sums(where, term, len(keys)) for term in terms]
        groups = keys // (steps[0].number * steps[1].number)
        ends = (least[:, 0], greatest[:, 0], least[:, 1], greatest[:, 1])
        return cls.of(axes, list(zip(groups, *sums, *ends, strict=True)))

    def around(self, x: float, z: float = 0.0) -> Cells:
        """The same rows, with values counted from another centre.

        Args:
            x: The centre of the first value.
            z: The centre of the second value.
        """
        by_x, by_z = x - self.centre[0], z - self.centre[1]
        count, sum_x, sum_z, xx, xz, zz = self.sums.T
        moved = np.stack(
            [
                count,
                sum_x - by_x * count,
                sum_z - by_z * count,
                xx - 2 * by_x * sum_x + by_x**2 * count,
                xz - by_x * sum_z - by_z * sum_x + by_x * by_z * count,
                zz - 2 * by_z * sum_z + by_z**2 * count,
            ],
            axis=1,
        )
        by = np.array([by_x, by_z])
        return replace(self, sums=moved, least=self.least - by, greatest=self.greatest - by, centre=(x, z))

    def moved(self, x: float, z: float, stretch: float) -> Cells:
        """The rows as another sample of the same law might have them: values are moved, after the first value
        was stretched around its mean.

        Args:
            x: How far the first value moves.
            z: How far the second value moves.
            stretch: By which factor the first value is stretched around its mean.
        """
        around = self.around(*self.mean)
        powers = np.array([1.0, stretch, 1.0, stretch**2, stretch, 1.0])
        sides = np.array([stretch, 1.0])
        at_old_centre = replace(
            around,
            sums=around.sums * powers,
            least=around.least * sides,
            greatest=around.greatest * sides,
            centre=(around.centre[0] + x, around.centre[1] + z),
        )
        return at_old_centre.around(*self.centre)

    def times(self, factor: float) -> Cells:
        """``factor`` times as many rows with the same distribution: what a small part predicts for a large
        one.

        Args:
            factor: How many times as many rows.
        """
        return replace(self, sums=self.sums * factor)

    @property
    def rows(self) -> float:
        """How many rows there are."""
        return float(self.sums[:, ONE].sum())

    @property
    def variance_factor(self) -> float:
        """How many times larger the variance of a mean can be than that of independent terms with the same
        second moments."""
        return (1 + self.norm) / (1 - self.norm)

    @property
    def count(self) -> float:
        """How many independent terms there are: rows here, units of rows in :class:`UnitCells`."""
        return self.rows / self.variance_factor

    @property
    def independent(self) -> bool:
        """Whether the rows themselves are independent: they are no states of a chain, and not in units."""
        return not self.norm

    @property
    def inflation(self) -> tuple[float, float]:
        """How many times larger the deviation of each value's mean is than that of independent rows."""
        return math.sqrt(self.variance_factor), math.sqrt(self.variance_factor)

    def rows_in(self, group: int) -> float:
        """How many rows a group has.

        Args:
            group: The number of the group.
        """
        return float(self.sums[self.group == group, ONE].sum())

    @cached_property
    def totals(self) -> Floats:
        """The sums over all rows."""
        return np.asarray(self.sums.sum(axis=0))

    def totals_of(self, group: int) -> Floats:
        """The sums over the rows of one group.

        Args:
            group: The number of the group.
        """
        return np.asarray(self.sums[self.group == group].sum(axis=0))

    @property
    def mean(self) -> tuple[float, float]:
        """The mean of both values, in the question's units."""
        rows = self.totals[ONE]
        x, z = (centre + total / rows for centre, total in zip(self.centre, self.totals[[X, Z]], strict=True))
        return float(x), float(z)

    def only(self, group: int) -> Cells:
        """The rows of one group.

        Args:
            group: The number of the group.
        """
        in_group = self.group == group
        return replace(
            self,
            group=np.zeros(int(in_group.sum()), dtype=np.int64),
            sums=self.sums[in_group],
            least=self.least[in_group],
            greatest=self.greatest[in_group],
        )

    @property
    def deviations(self) -> tuple[float, float]:
        """The standard deviations of both values."""
        around = self.around(*self.mean).totals
        x, z = (math.sqrt(max(0.0, float(around[place] / around[ONE]))) for place in (XX, ZZ))
        return x, z

    def mean_of(self, group: int) -> float:
        """The mean of the first value in one group, in the question's units; NaN where it has no rows.

        Args:
            group: The number of the group.
        """
        totals = self.totals_of(group)
        return float(self.centre[0] + totals[X] / totals[ONE]) if totals[ONE] else float("nan")
