"""The grid an answer is released on: cells of one width around the guess, chosen from public facts only.

A wide cell makes the interval wider now; a narrow one makes surprises more frequent, and each surprise makes
every later interval wider. The rule weighs the two for the questions that are still to come: it supposes that
three times as many questions follow as were asked so far, at least thirty, and takes the half-cell that makes
the last of them narrowest. Under a promised error the interval may be as wide as the promise, so the widest
cell that keeps the promise reveals the least. Measured by ``benchmarks/guard_width.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfc

from holdfast.guard._account import Account, weight_nats
from holdfast.guard._prior import Surprise
from holdfast.records import Record

_HALF_CELLS = np.linspace(0.3, 10.0, 98)  # in standard deviations of the guess's error
_OUTSIDE = erfc(_HALF_CELLS / math.sqrt(2))  # how often a normal error of the guess leaves the cell
_LEAST_COMING = 30
_COMING_PER_ASKED = 3
_MOST_CELLS = 10**9


@dataclass(frozen=True, repr=False)
class Grid(Record):
    """Cell m covers [guess + (m − ½) cell, guess + (m + ½) cell); the first and the last reach to the ends of
    [low, high].

    The range may be infinite: then the cells are told apart up to a thousand million cells from the guess.
    """

    low: float
    high: float
    guess: float
    cell: float

    @cached_property
    def first(self) -> int:
        """The cell of the least possible value."""
        return self._cell_of(self.low)

    @cached_property
    def last(self) -> int:
        """The cell of the greatest possible value."""
        return self._cell_of(self.high)

    def _cell_of(self, value: float) -> int:
        position = (value - self.guess) / self.cell + 0.5
        return math.floor(min(max(position, -_MOST_CELLS), _MOST_CELLS))

    def index(self, value: float) -> int:
        """The cell that holds ``value``."""
        return min(max(self._cell_of(value), self.first), self.last)

    def edges(self, index: int) -> tuple[float, float]:
        """Both ends of a cell, moved outward by more than the rounding error of :meth:`index`."""
        slack = 1e-12 * (abs(self.guess) + (abs(index) + 1) * self.cell)
        low = self.guess + (index - 0.5) * self.cell
        return (
            self.low if index == self.first else low - slack,
            self.high if index == self.last else low + self.cell + slack,
        )

    def middle(self, index: int) -> float:
        """The value an answer shows for a cell."""
        return self.guess + index * self.cell

    @property
    def farthest(self) -> int:
        """The distance, in cells, of the farthest cell from the guess: the dearest location there is."""
        return max(abs(self.first), abs(self.last), 1)


def best_half_cell(account: Account, guess_error: float, radius: float) -> float:
    """The half-cell that makes the last of the coming questions narrowest.

    ``guess_error`` is the standard deviation of statistic − guess, ``radius`` the half-width of the
    fixed-query interval for the next question; it grows like the square root of the nats.
    """
    coming = max(_LEAST_COMING, _COMING_PER_ASKED * account.steps)
    nats = account.nats() + math.log(2)
    growth = weight_nats(account.steps + 1 + coming) - weight_nats(account.steps + 1)
    surprise = account.price(Surprise(cell=1))
    at_the_end = nats + growth / 2 + coming * _OUTSIDE * surprise
    widths = _HALF_CELLS * guess_error + radius * np.sqrt(at_the_end / nats)
    return float(_HALF_CELLS[int(np.argmin(widths))]) * guess_error
