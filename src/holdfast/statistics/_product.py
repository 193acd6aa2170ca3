"""Where the mean of u − a·v crosses zero, by a product of bets that the sums of cells bound from below.

Let v ≥ 0 and let θ be where E[u − θv] = 0. For a rate λ that is fixed before the rows are seen,
E(a) = Π(1 + λ(u_i − a·v_i)) has expectation at most 1 at a = θ and falls in a. So every a with E(a) ≥ 1/δ
lies below θ, except with probability δ. For the states of a stationary chain the factors are
(1 + y)/(1 + νy), y = λ(u_i − a·v_i), with ν the operator norm of the chain (``docs/theory/intervals.md``).
``docs/theory/statistics.md`` has the proof. It also proves the bound from cells: inside a cell the logarithm
is expanded around the cell's mean, and what the expansion leaves out is replaced by less than it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast import search
from holdfast.intervals import best_stake
from holdfast.statistics._cells import ONE, XX, XZ, ZZ, Axis, Cells, Floats, X, Z

# More than the rounding errors of the few operations behind each number, relative to what is added up.
_ROUNDING = 1e-12
# The same for sums of squares that were moved to another centre, relative to their largest size before.
_HIDDEN = 1e-14
# An arm is found up to a thousandth of itself, to the safe side.
_NEAR = 1e-3
_GROWTH = 1.25
_MOST_STEPS = 60


@dataclass(frozen=True)
class Form:
    """u − a·v as polynomials of degree two in both values, one row of coefficients for each group; their
    order is 1, x, z, x², xz, z², the values less the centre of the cells.

    Args:
        u: The coefficients of u for 1, x, z, x², xz, z².
        v: The coefficients of v for 1, x, z, x², xz, z².
    """

    u: Floats
    v: Floats

    @classmethod
    def of(cls, u: Sequence[float], v: Sequence[float]) -> Form:
        """The same form for every group; there is one.

        Args:
            u: The coefficients of u for 1, x, z, x², xz, z².
            v: The coefficients of v for 1, x, z, x², xz, z².
        """
        return cls(np.array([u], dtype=np.float64), np.array([v], dtype=np.float64))

    @property
    def mirrored(self) -> Form:
        """The form that crosses zero at −θ."""
        return Form(-self.u, self.v)

    def at(self, a: float) -> Floats:
        """The coefficients of u − a·v.

        Args:
            a: A value that the statistic could have, in its own units.
        """
        return np.asarray(self.u - a * self.v)

    def least(self, a: float, axes: tuple[Axis, Axis], centre: tuple[float, float]) -> float:
        """The least that u − a·v can be by the declared ranges.

        Args:
            a: A value that the statistic could have, in its own units.
            axes: The declared ranges of both values.
            centre: Where values are measured from, on each axis.
        """
        (x_low, x_high), (z_low, z_high) = (
            (axis.low - middle, axis.high - middle) for axis, middle in zip(axes, centre, strict=True)
        )
        return min(_least_of(row, x_low, x_high, z_low, z_high) for row in self.at(a).tolist())


def _least_of(row: Sequence[float], x_low: float, x_high: float, z_low: float, z_high: float) -> float:
    """The least value of a polynomial of degree two on a rectangle: at a corner, or where it is level."""
    count, x, z, xx, xz, zz = row

    def value(at_x: float, at_z: float) -> float:
        return count + at_x * (x + xx * at_x + xz * at_z) + at_z * (z + zz * at_z)

    places = [(at_x, at_z) for at_x in (x_low, x_high) for at_z in (z_low, z_high)]
    if xx > 0:
        places += [(-(x + xz * at_z) / (2 * xx), at_z) for at_z in (z_low, z_high)]
    if zz > 0:
        places += [(at_x, -(z + xz * at_x) / (2 * zz)) for at_x in (x_low, x_high)]
    determinant = 4 * xx * zz - xz * xz
    if determinant > 0:
        places.append(((xz * z - 2 * zz * x) / determinant, (xz * x - 2 * xx * z) / determinant))
    inside = [(p, q) for p, q in places if x_low <= p <= x_high and z_low <= q <= z_high]
    return min(value(p, q) for p, q in inside)


@dataclass(frozen=True)
class _Linear:
    """A number for each cell that is linear in a: ``start`` − a·``slope``."""

    start: Floats
    slope: Floats

    def at(self, a: float) -> Floats:
        return np.asarray(self.start - a * self.slope)


@dataclass(frozen=True)
class Crossing:
    """The rows' evidence about where the mean of a form crosses ``offset``; ``cells`` are its rows.

    Args:
        form: u and v, whose quotient of means is looked for.
    """

    cells: Cells
    form: Form
    offset: float = 0.0

    @property
    def estimate(self) -> float:
        """Where the mean of the rows crosses it; NaN if it crosses nowhere."""
        u, v = self._mean_u_and_v
        return (u - self.offset) / v if v > 0 else math.nan

    @cached_property
    def _mean_u_and_v(self) -> tuple[float, float]:
        rows = self.cells.rows
        if not rows > 0:
            return math.nan, math.nan
        u, v = (
            float(np.einsum("ij,ij->", self.cells.sums, side[self.cells.group])) / rows
            for side in (self.form.u, self.form.v)
        )
        return u, v

    def second_moment(self, a: float) -> float:
        """The mean over the rows of (u − a·v − offset)², up to what cells hide of it.

        Args:
            a: A value that the statistic could have, in its own units.
        """
        mean, variance = self._mean.at(a) - self.offset, self._variance(a)
        rows = self.cells.sums[:, ONE]
        return float(np.sum(rows * mean**2 + variance) / rows.sum())

    def heaviness(self, a: float) -> float:
        """The relative variance of (u − ``a``·v − offset)² over the rows, by the means of the cells."""
        rows, squares = self.cells.sums[:, ONE], (self._mean.at(a) - self.offset) ** 2
        mean = float(np.sum(rows * squares) / rows.sum())
        return float(np.sum(rows * (squares / mean) ** 2) / rows.sum()) - 1 if mean > 0 else 1.0

    @property
    def slope(self) -> float:
        """The mean of v over the rows."""
        return self._mean_u_and_v[1]

    def least(self, a: float) -> float:
        """The least that u − a·v − offset can be by the declared ranges.

        Args:
            a: A value that the statistic could have, in its own units.
        """
        return self.form.least(a, self.cells.axes, self.cells.centre) - self.offset

    def log_product(self, a: float, rate: float) -> float:
        """A lower bound on Σ ln(1 + rate·(u − a·v − offset)); −∞ where the declared ranges allow a factor
        below zero.

        Args:
            a: A value that the statistic could have, in its own units.
            rate: How much is bet on each row, above 0; any rate is valid, a good one is narrow.
        """
        least = self.least(a)
        if not rate * least > -1 + 1e-9:
            return -math.inf
        rows, mean = self.cells.sums[:, ONE], 1 + rate * (self._mean.at(a) - self.offset)
        variance, drop = self._within(a) if self._rigid is None else self._rigid
        # Not more than the declared ranges allow, and not less than nothing.
        reach = np.clip(np.minimum(rate * drop, mean - (1 + rate * least)) / mean, 0.0, 1.0)
        spread = rate**2 * variance / mean**2
        gain, loss = rows * np.log(mean), kappa(reach) * spread
        if self.cells.norm:
            # A factor of a chain is (1 + y)/(1 + νy). By Jensen's inequality −ln(1 + νy), summed over a cell,
            # is at least what it is at the cell's mean.
            gain -= rows * np.log1p(self.cells.norm * (mean - 1))
        return float(
            gain.sum() - loss.sum() - _ROUNDING * (np.abs(gain).sum() + loss.sum() + rows.sum() * 1e-2)
        )

    @cached_property
    def _corners(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The middle of each cell's rectangle, and half of its sides."""
        low, high = self.cells.least, self.cells.greatest
        middle, half = (low + high) / 2, (high - low) / 2
        return middle[:, 0], middle[:, 1], half[:, 0], half[:, 1]

    def _each(self, of: Callable[[Floats], Floats]) -> _Linear:
        """A number for each cell that is linear in the coefficients."""
        group = self.cells.group
        return _Linear(of(self.form.u[group]), of(self.form.v[group]))

    @cached_property
    def _mean(self) -> _Linear:
        """The mean of the form in each cell."""
        means = self.cells.sums / self.cells.sums[:, :1]
        return self._each(lambda row: np.einsum("ij,ij->i", means, row))

    @cached_property
    def _middle(self) -> _Linear:
        x, z, _, _ = self._corners
        powers = np.stack([np.ones_like(x), x, z, x * x, x * z, z * z], axis=1)
        return self._each(lambda row: np.einsum("ij,ij->i", powers, row))

    @cached_property
    def _gradient(self) -> tuple[_Linear, _Linear]:
        x, z, _, _ = self._corners
        return (
            self._each(lambda row: row[:, X] + 2 * row[:, XX] * x + row[:, XZ] * z),
            self._each(lambda row: row[:, Z] + row[:, XZ] * x + 2 * row[:, ZZ] * z),
        )

    @cached_property
    def _central(self) -> tuple[Floats, Floats, Floats]:
        """Σ(x − x̄)², Σ(x − x̄)(z − z̄) and Σ(z − z̄)² of each cell, not below what rounding hides."""
        sums = self.cells.sums
        rows, x, z = sums[:, ONE], sums[:, X], sums[:, Z]
        _, _, half_x, half_z = self._corners
        # The sums were added up from the lower ends of the ranges, and are exact to so much of that.
        low = np.array([axis.low for axis in self.cells.axes]) - self.cells.centre
        hidden = _HIDDEN * rows * np.maximum(self.cells.greatest - low, 0.0).T ** 2
        xx = np.clip(sums[:, XX] - x * x / rows + hidden[0], 0.0, rows * half_x**2)
        zz = np.clip(sums[:, ZZ] - z * z / rows + hidden[1], 0.0, rows * half_z**2)
        most = np.sqrt(xx * zz)
        return xx, np.clip(sums[:, XZ] - x * z / rows, -most, most), zz

    def _rest(self, a: float) -> tuple[Floats, Floats]:
        """The range of what is left of the form in each cell once its tangent is taken off."""
        _, _, half_x, half_z = self._corners
        row = self.form.at(a)[self.cells.group]
        across = np.abs(row[:, XZ]) * half_x * half_z
        squares = ((row[:, XX], half_x**2), (row[:, ZZ], half_z**2))
        low = sum((np.minimum(by, 0.0) * size for by, size in squares), -across)
        high = sum((np.maximum(by, 0.0) * size for by, size in squares), across)
        return low, high

    @cached_property
    def _rigid(self) -> tuple[Floats, Floats] | None:
        """What :meth:`_within` returns for every a, where v is constant: all values of a cell move alike."""
        return None if self.form.v[:, 1:].any() else self._within(0.0)

    def _within(self, a: float) -> tuple[Floats, Floats]:
        """At least Σ(y − ȳ)² in each cell, and at least how far its lowest value is below its mean."""
        return self._variance(a), self._mean.at(a) - self._lowest(a)

    def _lowest(self, a: float) -> Floats:
        """The least that the form can be in each cell."""
        _, _, half_x, half_z = self._corners
        by_x, by_z = (side.at(a) for side in self._gradient)
        lowest = self._middle.at(a) - np.abs(by_x) * half_x - np.abs(by_z) * half_z + self._rest(a)[0]
        return np.minimum(lowest, self._mean.at(a))

    def _variance(self, a: float) -> Floats:
        """At least Σ(y − ȳ)² in each cell: that of the tangent, and what the rest can add to it."""
        by_x, by_z = (side.at(a) for side in self._gradient)
        xx, xz, zz = self._central
        tangent = np.maximum(by_x**2 * xx + 2 * by_x * by_z * xz + by_z**2 * zz, 0.0)
        low, high = self._rest(a)
        rows = self.cells.sums[:, ONE]
        return np.asarray((np.sqrt(tangent) + np.sqrt(rows) * (high - low) / 2) ** 2)


def kappa(share: NDArray[np.float64]) -> Floats:
    """κ(v) = (−ln(1 − v) − v)/v², rounded up: the least number with ln(1 + y) ≥ y − κ(v)y² for all y ≥ −v."""
    small = share < 1e-3
    safe = np.where(small, 0.5, np.minimum(share, 1 - 1e-15))
    large = (-np.log1p(-safe) - safe) / safe**2 * (1 + 1e-9)
    return np.where(small, (0.5 + share / 3 + share**2 / 4 + share**3 / 2) * (1 + _ROUNDING), large)


def best_rate(distance: float, moment: float, rows: float, level: float, norm: float = 0.0) -> float:
    """The rate λ with the least level/((1 − ν)·λ·rows) + κ(λ·distance)·λ·moment: about the arm it leads to; κ
    is that of factors (1 + y)/(1 + νy), for a chain of norm ν."""
    return best_stake(level * distance**2 / (rows * moment), norm, relative=1e-4) / distance


class Product(Protocol):
    """Evidence about a crossing, as a product of bets: over single rows or over units of them."""

    @property
    def cells(self) -> Cells:
        """The rows or units."""

    @property
    def estimate(self) -> float:
        """Where the mean of the rows crosses; NaN if it crosses nowhere."""

    @property
    def slope(self) -> float:
        """The mean of v over the rows."""

    def log_product(self, a: float, rate: float) -> float:
        """A lower bound on the logarithm of the product at ``a``."""


def lower_end(crossing: Product, level: float, rates: Sequence[float], lowest: float = -math.inf) -> float:
    """The largest a with ``level`` nats of evidence that θ lies above it, as far as the search goes; −∞ if
    there is no such a down to ``lowest``. With several rates their average is the evidence."""
    middle = crossing.estimate
    if not math.isfinite(middle):
        return -math.inf

    def evidence(radius: float) -> float:
        logs = [crossing.log_product(middle - radius, rate) for rate in rates]
        largest = max(logs)
        if len(logs) == 1 or largest == -math.inf:
            return largest
        return largest + math.log(math.fsum(math.exp(log - largest) for log in logs) / len(logs)) - _ROUNDING

    # A product is at most exp((1 − ν)·rate·rows·slope·radius), so no smaller radius has the evidence.
    start = level / ((1 - crossing.cells.norm) * max(rates) * crossing.cells.rows * crossing.slope)
    radius = least_radius(lambda r: evidence(r) - level, start, middle - lowest)
    return -math.inf if radius is None else middle - radius


def least_radius(excess: Callable[[float], float], start: float, most: float) -> float | None:
    """The least radius, up to a thousandth of it, at which ``excess`` is not negative; None if it is negative
    up to ``most``."""
    first = max(start, 1e-12 * abs(most) if math.isfinite(most) else 1e-300)
    # The excess may be positive on a short stretch only, so the tries grow slowly, and not without end.
    farthest = min(most, first * _GROWTH**_MOST_STEPS)
    return search.least_root(excess, start=first, most=farthest, growth=_GROWTH, relative=_NEAR)
