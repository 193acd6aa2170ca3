"""The grid an answer is released on: cells of one width around the guess, chosen from public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from holdfast.records import Record

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
