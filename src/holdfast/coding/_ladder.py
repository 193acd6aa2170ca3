"""The alphabet of a board: "not better than the best by a step", or "better by i steps".

The guess is the best score so far. Everything that does not beat it by a step is one cell, and the cells
above have the width of a step. Most submissions say almost nothing and cost almost nothing; a climber pays
for every step. The Ladder of Blum and Hardt (2015) is the rule that releases these outputs without an account
of what they reveal.
Prices follow from experience alone. Proofs and the enumeration: ``docs/theory/code-guard.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from holdfast.coding._alphabet import Output
from holdfast.coding._experience import Experience
from holdfast.coding._grid import Grid


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
class LadderAlphabet:
    """All outputs of one submission, priced by experience.

    Guarantee: exp(−price) over all outputs, a failure included, sums to at most 1.
    Reference: docs/theory/code-guard.md, "Boards".
    """

    grid: LadderGrid
    experience: Experience

    def price(self, output: Output) -> float:
        """Nats for an output."""
        if output.cell == 0:
            return self.experience.confirmation_price()
        return self.experience.surprise_price(output.cell)

    @property
    def failure_price(self) -> float:
        """Nats for "the labels could not be read"."""
        return self.experience.failure_price()

    nearest_surprise = Output(1)

    def surprises(self, output: Output) -> bool:
        """Whether a submission climbs."""
        return output.cell > 0

    def worst_price(self, others: int = 0) -> float:
        """The dearest output, a failure included, whatever so many ``others`` of its batch reveal before it
        is priced: a climb is dearest if none of them climbed, and "no better" if all of them did."""
        seen = self.experience
        calm = replace(seen, confirmed=seen.confirmed + others)
        stormy = replace(seen, surprised=seen.surprised + others)
        farthest = calm.surprise_price(self.grid.farthest)
        return max(farthest, calm.failure_price(), stormy.confirmation_price())

    def after(self, output: Output | None) -> None:
        """A ladder learns from experience only."""
