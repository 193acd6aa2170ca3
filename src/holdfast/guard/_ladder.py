"""The alphabet of a board: "not better than the best by a step", or "better by i steps".

It is the code guard with another grid: the guess is the best score so far, everything that does not beat it
by a step is one cell, and the cells above have the width of a step. Most submissions say almost nothing and
cost almost nothing; a climber pays for every step. The Ladder of Blum and Hardt (2015) is the rule that
releases these outputs without an account of what they reveal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.guard._account import Account
from holdfast.guard._code import PreparedCode
from holdfast.guard._grid import Grid
from holdfast.guard._question import Question
from holdfast.guard._readings import BoundedMean, Reading, ShareOfAll


@dataclass(frozen=True, repr=False)
class LadderGrid(Grid):
    """Steps above the best score so far; ``upward`` says whether more is better.

    Cell 0 holds every value that does not beat ``guess`` by a ``cell``; cell i those that beat it by at least
    i cells and less than i + 1.
    """

    upward: bool

    def index(self, value: float) -> int:
        """The cell that holds ``value``."""
        return min(max(math.floor(self._gain(value) / self.cell), 0), self.farthest)

    def edges(self, index: int) -> tuple[float, float]:
        """Both ends of a cell, moved outward by more than the rounding error of :meth:`index`."""
        slack = 1e-12 * (abs(self.guess) + (index + 1) * self.cell)
        least = -math.inf if index == 0 else index * self.cell - slack
        most = math.inf if index == self.farthest else (index + 1) * self.cell + slack
        low, high = sorted(min(max(self._value(gain), self.low), self.high) for gain in (least, most))
        return low, high

    def middle(self, index: int) -> float:
        """The value an answer shows: the best so far where it is not beaten."""
        return self.guess if index == 0 else self._value((index + 0.5) * self.cell)

    @property
    def farthest(self) -> int:
        """The last cell: the best value there is. At least 1, so that a surprise has a price."""
        return max(1, math.floor(self._gain(self.high if self.upward else self.low) / self.cell))

    def _gain(self, value: float) -> float:
        return value - self.guess if self.upward else self.guess - value

    def _value(self, gain: float) -> float:
        return self.guess + gain if self.upward else self.guess - gain


@dataclass(frozen=True)
class LadderStrategy:
    """How a board prepares a submission: against the best score there is at this moment."""

    rows: int
    step: float
    upward: bool
    best: Callable[[], float]

    theorem = "the code guard on a ladder (docs/theory/code-guard.md)"
    failure_closes = False  # A failure is one of the outputs that have a price.

    def prepare(self, question: Question, account: Account) -> PreparedCode:
        """Everything about a submission but its score, from public facts alone."""
        nats = account.nats()
        reading: Reading = (
            ShareOfAll(question, nats, self.rows)
            if question.binary
            else BoundedMean(question, nats, floors=(self.rows,))
        )
        grid = LadderGrid(question.low, question.high, self.best(), self.step, self.upward)
        return PreparedCode(question, account, reading, grid, None)
