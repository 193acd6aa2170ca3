"""The alphabets of boards and gates: what somebody who climbs says, and what every step costs.

The alphabet of a board says "not better than the best by a step", or "better by i steps". The guess is the
best score so far. Everything that does not beat it by a step is one cell, and the cells above have the width
of a step. Most submissions say almost nothing and cost almost nothing; somebody who climbs pays for every
step. The Ladder of Blum and Hardt (2015) is the rule that releases these outputs without an account of what
they reveal. Prices follow from experience alone. Proofs and the enumeration: ``docs/theory/code-guard.md``.

:class:`PromotionAlphabet` is what a gate may say: "not shown to be better", or "better by at least i steps".
Most candidates are not shown to be better, and that costs almost nothing: the prior counts how often a
candidate was promoted so far. A promotion by i steps costs about 2 ln(i + 1) nats more. Proof that the prices
are valid: ``docs/theory/gate.md``, "What leaves, and what it costs".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from holdfast.coding._account import FAILURE_SHARE, Experience
from holdfast.coding._alphabet import Grid, Output


@dataclass(frozen=True, repr=False)
class LadderGrid(Grid):
    """Steps above the best score so far; ``upward`` says whether more is better.

    Cell 0 holds every value that does not beat ``guess`` by a ``cell``. Cell i holds those that beat it by at
    least i cells and less than i + 1.

    Args:
        low: The lower end of the range.
        high: The upper end of the range.
    """

    upward: bool

    def index(self, value: float) -> int:
        """The cell that holds ``value``."""
        return min(max(math.floor(self._gain(value) / self.cell), 0), self.farthest)

    def edges(self, index: int) -> tuple[float, float]:
        """Both ends of a cell, moved outward by more than the rounding error of :meth:`index`.

        Args:
            index: The number of the cell: 0 around the guess, negative below it.
        """
        slack = 1e-12 * (abs(self.guess) + (index + 1) * self.cell)
        least = -math.inf if index == 0 else index * self.cell - slack
        most = math.inf if index == self.farthest else (index + 1) * self.cell + slack
        low, high = sorted(min(max(self._value(gain), self.low), self.high) for gain in (least, most))
        return low, high

    def middle(self, index: int) -> float:
        """The value an answer shows: the best so far if it is not beaten.

        Args:
            index: The number of the cell: 0 around the guess, negative below it.
        """
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

    Args:
        grid: The cells around the guess.
        experience: How many guesses were confirmed so far, and how many surprised.
    """

    grid: LadderGrid
    experience: Experience

    def price(self, output: Output) -> float:
        """Nats for an output.

        Args:
            output: What a question revealed: its cell, and the class of the arms.
        """
        if output.cell == 0:
            return self.experience.confirmation_price()
        return self.experience.surprise_price(output.cell)

    @property
    def failure_price(self) -> float:
        """Nats for "the labels could not be read"."""
        return self.experience.failure_price()

    nearest_surprise = Output(1)

    def surprises(self, output: Output) -> bool:
        """Whether a submission climbs.

        Args:
            output: What a question revealed: its cell, and the class of the arms.
        """
        return output.cell > 0

    def worst_price(self, others: int = 0) -> float:
        """The highest price of any output, a failure included, whatever so many ``others`` of its batch
        reveal before it is priced. A climb costs most if none of them climbed, and "no better" if all of them
        did."""
        before = self.experience
        none_climbed = replace(before, confirmed=before.confirmed + others)
        all_climbed = replace(before, surprised=before.surprised + others)
        farthest = none_climbed.surprise_price(self.grid.farthest)
        return max(farthest, none_climbed.failure_price(), all_climbed.confirmation_price())

    def after(self, output: Output | None) -> None:
        """A ladder learns from experience only.

        Args:
            output: What a question revealed: its cell, and the class of the arms.
        """


@dataclass(frozen=True)
class PromotionAlphabet:
    """All outputs of one submission to a gate, priced by experience.

    Guarantee: exp(−price) over all outputs, a failure included, sums to at most 1.
    Reference: docs/theory/gate.md, "What leaves, and what it costs".

    Args:
        most_steps: the largest number of steps that a verdict can state.
        experience: how many earlier submissions were promoted, and how many were not.

    >>> prices = PromotionAlphabet(50, Experience(confirmed=19))
    >>> round(prices.price(None), 3), round(prices.price(0), 2)
    (0.003, 6.57)
    """

    most_steps: int
    experience: Experience

    def price(self, steps: int | None) -> float:
        """Nats for "better by at least ``steps`` steps"; None stands for "not shown"."""
        if steps is None:
            return self.experience.confirmation_price()
        share = (1 - FAILURE_SHARE) / ((steps + 1) * (steps + 2))
        return -math.log(self.experience.surprise_probability() * share)

    @property
    def failure_price(self) -> float:
        """Nats for "the scores could not be compared"."""
        return self.experience.failure_price()

    @property
    def worst_price(self) -> float:
        """The highest price of any output, a failure included."""
        return max(self.price(self.most_steps), self.price(None), self.failure_price)
