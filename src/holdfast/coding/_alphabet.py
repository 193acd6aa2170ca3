"""The alphabet of a question: everything it may reveal, each with its price.

An output is a cell of the grid around the guess and, where the width of the interval depends on the rows, a
class of its arms. Two outputs are neither: "the whole range", where the rows say nothing useful, and
"failed", where they could not be read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from holdfast.coding._grid import Grid
from holdfast.coding._learned import MOST_FOR_FAILURE, Learned


@dataclass(frozen=True)
class Output:
    """What a question reveals and pays for: the cell of the statistic and the class of the arms; or that
    nothing less than the ``whole`` range can be said."""

    cell: int = 0
    arm: int = 0
    whole: bool = False


WHOLE = Output(whole=True)


@dataclass(frozen=True)
class ArmClasses:
    """Classes for the arms of an interval around what the training part predicts of them.

    Class s says: neither arm is longer than e^(s·``step``) times its prediction. ``error`` is the predicted
    deviation of the logarithm of an arm. Arms that are a little longer are mostly made up for by the cell.
    """

    error: float
    step: float
    first: int
    last: int

    @classmethod
    def predicted(cls, error: float, longest: float) -> ArmClasses:
        """Classes for arms that are predicted up to a relative ``error``, the widest of them at most
        ``longest`` times the prediction."""
        step = min(max(6 * error, 0.04), _STEP)
        last = 0 if not longest > 1 else math.ceil(math.log(min(longest, 1e9)) / step)
        return cls(error, step, -math.ceil(_NARROWEST / step), min(last, _MOST_CLASSES))

    @property
    def half_cell(self) -> float:
        """Half a class, in predicted deviations."""
        return self.step / (2 * self.error)

    @property
    def farthest(self) -> int:
        """The class that is farthest from the prediction: the dearest there is."""
        return max(-self.first, self.last)

    @property
    def likely(self) -> int:
        """The class that arms are hardly ever longer than."""
        return min(self.least(math.exp(_SURPRISING * self.error)), self.last)

    def least(self, stretch: float) -> int:
        """The least class that allows arms of so many times the prediction; it may be beyond the last."""
        if not stretch > self.stretch(self.first):
            return self.first
        arm = math.ceil(math.log(stretch) / self.step - 1e-9)
        while self.stretch(arm) < stretch:
            arm += 1
        return arm

    def stretch(self, arm: int) -> float:
        """How many times the predicted arms class ``arm`` allows."""
        return math.exp(self.step * arm)


# The next class has arms that are longer by a quarter at most; a hundredth of the prediction is short enough.
_STEP = math.log(1.25)
_NARROWEST = math.log(100)
_MOST_CLASSES = 100
# A statistic so many predicted deviations from its guess is a surprise; one in eighty is by chance.
_SURPRISING = 2.5


@dataclass(frozen=True)
class Alphabet:
    """All outputs of one question, priced by what was learned. ``error`` is the predicted deviation of the
    statistic from the guess; ``arms`` is None where the width of the interval is public.

    Guarantee: exp(−price) over all outputs, a failure included, sums to at most 1.
    Reference: docs/theory/code-guard.md, "The prior".
    """

    grid: Grid
    error: float
    arms: ArmClasses | None
    learned: Learned

    @property
    def half_cell(self) -> float:
        """Half a cell, in predicted deviations of the guess."""
        return self.grid.cell / (2 * self.error)

    def price(self, output: Output) -> float:
        """Nats for an output."""
        learned = self.learned
        if output.whole:
            # A failure has its own part of the first factor.
            return learned.arms.elsewhere_price() - math.log1p(-math.exp(-self.failure_price))
        cell = learned.cells.price(output.cell, self.half_cell)
        return cell if self.arms is None else cell + learned.arms.price(output.arm, self.arms.half_cell)

    @property
    def failure_price(self) -> float:
        """Nats for "the rows could not be read"."""
        return self.learned.cells.elsewhere_price()

    @property
    def nearest_surprise(self) -> Output:
        """The least distance from the guess that is called a surprise."""
        return Output(math.floor(_SURPRISING * self.error / self.grid.cell) + 1)

    def surprises(self, output: Output) -> bool:
        """Whether an output is farther from the guess, or wider, than was to be expected. A word for people:
        prices do not depend on it."""
        longer = self.arms is not None and output.arm > self.arms.likely
        return output.whole or longer or abs(output.cell) >= self.nearest_surprise.cell

    def worst_price(self, others: int = 0) -> float:
        """The dearest output, a failure included, whatever so many ``others`` of its batch reveal before it
        is priced."""
        cells, arms, farthest = self.learned.cells, self.arms, self.grid.farthest
        if others == 0:
            prices = [self.failure_price, cells.dearest_up_to(farthest, self.half_cell)]
            if arms is not None:
                prices[1] += self.learned.arms.dearest_up_to(arms.farthest, arms.half_cell)
                prices.append(self.price(WHOLE))
            return max(prices)
        prices = [cells.dearest(None, 1.0, others), cells.dearest(farthest, self.half_cell, others)]
        if arms is not None:
            prices[1] += self.learned.arms.dearest(arms.farthest, arms.half_cell, others)
            prices.append(self.learned.arms.dearest(None, 1.0, others) + MOST_FOR_FAILURE)
        return max(prices)

    def after(self, output: Output | None) -> Learned:
        """What was learned once an output is released; None is a failure."""
        if output is None:
            return replace(self.learned, cells=self.learned.cells.after(None, self.half_cell))
        if output.whole:
            return replace(self.learned, arms=self.learned.arms.after(None, 1.0))
        cells = self.learned.cells.after(output.cell, self.half_cell)
        if self.arms is None:
            return replace(self.learned, cells=cells)
        arms = self.learned.arms.after(output.arm, self.arms.half_cell)
        return replace(self.learned, cells=cells, arms=arms)
