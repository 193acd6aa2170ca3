"""Units of rows: what is independent where single rows are not.

A unit's part in a form u − a·v is the sum over its rows, and the units' sums are independent. So a product of
bets has one factor for each unit, 1 + λ·Σ(u − a·v), and everything said of independent rows holds of units
(``docs/theory/dependence.md``, "Units").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.statistics._cells import ONE, XX, ZZ, Axis, Cells, Floats, X, Z, whole_sums
from holdfast.statistics._product import Crossing, Form

# More than the rounding errors of the few operations behind each number, relative to what is added up.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class UnitCells(Cells):
    """The rows of a question by units: each entry has the sums of one unit (of one group of its rows).

    No unit has more than ``largest`` rows, those included that do not enter the question. Each entry stands
    for ``copies`` units: 1 where the rows were read, other numbers where a prediction is made of them.

    Args:
        group: The number of the group of each cell.
    """

    largest: int = 1
    copies: float = 1.0

    @classmethod
    def of_units(
        cls, axes: tuple[Axis, Axis], read: Iterable[Sequence[int]], largest: int, all_rows: int
    ) -> UnitCells:
        """The sums that were read unit by unit, around the lower ends of their ranges.

        Args:
            read: Lines of whole numbers as an engine returns them.
        """
        # Databases give units in any order, and sums of floats must not depend on it.
        cells = Cells.of(axes, sorted(map(tuple, read)))
        sums = cells.axes, cells.group, cells.sums, cells.least, cells.greatest, cells.centre
        return cls(*sums, largest, all_rows=all_rows)

    @classmethod
    def of_unit_values(
        cls,
        axes: tuple[Axis, Axis],
        largest: int,
        all_rows: int,
        unit: NDArray[np.int64],
        x: NDArray[np.int64],
        z: NDArray[np.int64] | None = None,
        group: NDArray[np.int64] | None = None,
    ) -> UnitCells:
        """The units of rows whose values, in whole numbers of the axes' units, are at hand.

        Args:
            unit: The number of the unit of each row.
            x: The first value of each row, in units of its axis.
            z: The second value of each row.
            group: The group of each row.
        """
        z, group = (np.zeros_like(x) if column is None else column for column in (z, group))
        keys, place = np.unique(np.stack([group, unit], axis=1), axis=0, return_inverse=True)
        terms = (np.ones_like(x), x, z, x * x, x * z, z * z)
        sums = [whole_sums(place.ravel(), term, len(keys)) for term in terms]
        nothing = [0] * len(keys)
        read = zip(keys[:, 0].tolist(), *sums, nothing, nothing, nothing, nothing, strict=True)
        return cls.of_units(axes, list(read), largest, all_rows)

    def times(self, factor: float) -> UnitCells:
        return replace(self, copies=self.copies * factor)

    @property
    def rows(self) -> float:
        return self.copies * super().rows

    def rows_in(self, group: int) -> float:
        return self.copies * super().rows_in(group)

    @property
    def count(self) -> float:
        return self.copies * len(self.sums)

    @cached_property
    def totals(self) -> Floats:
        return np.asarray(self.copies * self.sums.sum(axis=0))

    def totals_of(self, group: int) -> Floats:
        return np.asarray(self.copies * self.sums[self.group == group].sum(axis=0))

    @property
    def independent(self) -> bool:
        return False

    @property
    def inflation(self) -> tuple[float, float]:
        around = self.around(*self.mean)
        first, second = (
            max(1.0, float(np.sum(around.sums[:, linear] ** 2) / around.sums[:, square].sum()))
            if around.sums[:, square].sum() > 0
            else 1.0
            for linear, square in ((X, XX), (Z, ZZ))
        )
        return math.sqrt(first), math.sqrt(second)


@dataclass(frozen=True)
class UnitCrossing:
    """The units' evidence about where the mean of a form crosses ``offset``.

    It has what :class:`Crossing` has for single rows, and means are over rows here too.
    """

    cells: UnitCells
    form: Form
    offset: float = 0.0

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """Each unit's sums of u − offset and of v."""
        u = self.form.u.copy()
        u[:, ONE] -= self.offset
        group = self.cells.group
        return (
            np.einsum("ij,ij->i", self.cells.sums, u[group]),
            np.einsum("ij,ij->i", self.cells.sums, self.form.v[group]),
        )

    @cached_property
    def _sizes(self) -> float:
        """How large the numbers are that were added up: rounding errors are relative to them."""
        sizes = np.abs(self.form.u) + np.abs(self.form.v)
        sizes[:, ONE] += abs(self.offset)
        return float(np.einsum("ij,ij->", np.abs(self.cells.sums), sizes[self.cells.group]))

    @property
    def estimate(self) -> float:
        """Where the mean of the rows crosses it; NaN if it crosses nowhere."""
        u, v = self._parts
        total = float(v.sum())
        return float(u.sum()) / total if total > 0 else math.nan

    @property
    def slope(self) -> float:
        """The mean of v over the rows."""
        rows = self.cells.rows
        return self.cells.copies * float(self._parts[1].sum()) / rows if rows > 0 else math.nan

    def _at(self, a: float) -> Floats:
        u, v = self._parts
        return np.asarray(u - a * v)

    def second_moment(self, a: float) -> float:
        """The sum over units of (u − a·v − offset)², divided by the number of rows."""
        return self.cells.copies * float(np.sum(self._at(a) ** 2)) / self.cells.rows

    def heaviness(self, a: float) -> float:
        """The relative variance of (u − a·v − offset)² over the units."""
        squares = self._at(a) ** 2
        mean = float(squares.mean()) if len(squares) else 0.0
        return float(np.mean((squares / mean) ** 2)) - 1 if mean > 0 else 1.0

    def least(self, a: float) -> float:
        """The least that one unit's sum of u − a·v − offset can be by the declared ranges."""
        row = self.form.least(a, self.cells.axes, self.cells.centre) - self.offset
        return self.cells.largest * min(0.0, row)

    def log_product(self, a: float, rate: float) -> float:
        """A lower bound on Σ ln(1 + rate·(u − a·v − offset)) over the units; −∞ where the declared ranges
        allow a factor below zero."""
        if not rate * self.least(a) > -1 + 1e-9:
            return -math.inf
        with np.errstate(invalid="ignore", divide="ignore"):
            gains = np.log1p(rate * self._at(a))
        hidden = float(np.abs(gains).sum()) + rate * self._sizes * max(1.0, abs(a)) * 1e-2
        return self.cells.copies * (float(gains.sum()) - _ROUNDING * hidden)


def crossing_of(cells: Cells, form: Form, offset: float = 0.0) -> Crossing | UnitCrossing:
    """What cells or units say about where the mean of a form crosses ``offset``.

    Args:
        cells: The sums over the protected rows, by cell.
        form: u and v, whose quotient of means is looked for.
    """
    if isinstance(cells, UnitCells):
        return UnitCrossing(cells, form, offset)
    return Crossing(cells, form, offset)
