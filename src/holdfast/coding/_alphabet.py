"""What an answer may say: the grid it is released on, and the alphabet of outputs, each with its price.

The grid has cells of one width around the guess, chosen from public facts only. An output is a cell of the
grid and, if the width of the interval depends on the rows, a class of its arms. Two outputs are neither:
"the whole range", if the rows say nothing useful, and "failed", if they could not be read.

How wide a cell is depends on how many questions are expected. A wide cell makes this interval wider. A narrow
one reveals more, and all later intervals pay for that. The rule assumes that K questions are to come and
makes the last of them narrowest. It decides how narrow answers are, and never whether they are valid.
Measured by ``benchmarks/guard_width.py``. Proofs and the enumeration: ``docs/theory/code-guard.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from holdfast.coding._account import MICRO, MOST_FOR_FAILURE, Account, Learned
from holdfast.records import Record

_MOST_CELLS = 10**9
_COMING_PER_ASKED = 3.0
_HALF_CELLS = np.geomspace(0.02, 8.0, 120)  # in predicted deviations of the guess's error
PRECISE_NATS = 3.0
"""The expected cost of a question that is asked with ``precise=True``."""


@dataclass(frozen=True)
class Output:
    """What a question reveals and pays for: the cell of the statistic and the class of the arms. Or that only
    the ``whole`` range is certain.

    Args:
        cell: The number of the cell: 0 around the guess, negative below it.
        arm: The class of the arms: how long they are, compared with their prediction.
    """

    cell: int = 0
    arm: int = 0
    whole: bool = False


WHOLE = Output(whole=True)


@dataclass(frozen=True)
class ArmClasses:
    """Classes for the arms of an interval around what the training part predicts of them.

    Class s says: neither arm is longer than e^(s·``step``) times its prediction. ``error`` is the predicted
    deviation of the logarithm of an arm. The cell usually makes up for arms that are slightly longer.

    Args:
        first: The class of the shortest arms.
        last: The class of the longest arms.
    """

    error: float
    step: float
    first: int
    last: int

    @classmethod
    def predicted(cls, error: float, longest: float) -> ArmClasses:
        """Classes for arms that are predicted up to a relative ``error``. The widest class has arms of at
        most ``longest`` times the prediction."""
        step = min(max(6 * error, 0.04), _STEP)
        last = 0 if not longest > 1 else math.ceil(math.log(min(longest, 1e9)) / step)
        return cls(error, step, -math.ceil(_NARROWEST / step), min(last, _MOST_CLASSES))

    @property
    def half_cell(self) -> float:
        """Half a class, in predicted deviations."""
        return self.step / (2 * self.error)

    @property
    def farthest(self) -> int:
        """The class that is farthest from the prediction: the most expensive one."""
        return max(-self.first, self.last)

    @property
    def likely(self) -> int:
        """The class that arms rarely exceed."""
        return min(self.least(math.exp(_SURPRISING * self.error)), self.last)

    def least(self, stretch: float) -> int:
        """The least class that allows arms of so many times the prediction. It may be beyond the last class.

        Args:
            stretch: How many times longer than predicted the arms are.
        """
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
# A statistic so many predicted deviations from its guess is a surprise; one in eighty is a surprise by
# chance.
_SURPRISING = 2.5


@dataclass(frozen=True)
class Alphabet:
    """All outputs of one question, priced by what was learned. ``error`` is the predicted deviation of the
    statistic from the guess. ``arms`` is None if the width of the interval is public.

    Guarantee: exp(−price) over all outputs, a failure included, sums to at most 1.
    Reference: docs/theory/code-guard.md, "The prior".

    Args:
        grid: The cells around the guess.
        learned: What the account learned so far.
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
        """Nats for an output.

        Args:
            output: What a question revealed: its cell, and the class of the arms.
        """
        learned = self.learned
        if output.whole:
            # A failure has a part of its own in the first factor.
            return learned.arms.elsewhere_price() - math.log1p(-math.exp(-self.failure_price))
        cell = learned.cells.price(output.cell, self.half_cell)
        return cell if self.arms is None else cell + learned.arms.price(output.arm, self.arms.half_cell)

    @property
    def failure_price(self) -> float:
        """Nats for "the rows could not be read"."""
        return self.learned.cells.elsewhere_price()

    @property
    def nearest_surprise(self) -> Output:
        """The least distance from the guess that counts as a surprise."""
        return Output(math.floor(_SURPRISING * self.error / self.grid.cell) + 1)

    def surprises(self, output: Output) -> bool:
        """Whether an output is farther from the guess, or wider, than expected. This is only shown to people:
        prices do not depend on it.

        Args:
            output: What a question revealed: its cell, and the class of the arms.
        """
        longer = self.arms is not None and output.arm > self.arms.likely
        return output.whole or longer or abs(output.cell) >= self.nearest_surprise.cell

    def worst_price(self, others: int = 0) -> float:
        """The highest price of any output, a failure included, whatever so many ``others`` of its batch
        reveal before it is priced."""
        cells, arms, farthest = self.learned.cells, self.arms, self.grid.farthest
        if others == 0:
            prices = [self.failure_price, cells.highest_price_up_to(farthest, self.half_cell)]
            if arms is not None:
                prices[1] += self.learned.arms.highest_price_up_to(arms.farthest, arms.half_cell)
                prices.append(self.price(WHOLE))
            return max(prices)
        prices = [
            cells.highest_price(None, 1.0, others),
            cells.highest_price(farthest, self.half_cell, others),
        ]
        if arms is not None:
            prices[1] += self.learned.arms.highest_price(arms.farthest, arms.half_cell, others)
            prices.append(self.learned.arms.highest_price(None, 1.0, others) + MOST_FOR_FAILURE)
        return max(prices)

    def after(self, output: Output | None) -> Learned:
        """What is learned from a released output; None is a failure.

        Args:
            output: What a question revealed: its cell, and the class of the arms.
        """
        if output is None:
            return replace(self.learned, cells=self.learned.cells.after(None, self.half_cell))
        if output.whole:
            return replace(self.learned, arms=self.learned.arms.after(None, 1.0))
        cells = self.learned.cells.after(output.cell, self.half_cell)
        if self.arms is None:
            return replace(self.learned, cells=cells)
        arms = self.learned.arms.after(output.arm, self.arms.half_cell)
        return replace(self.learned, cells=cells, arms=arms)


@dataclass(frozen=True, repr=False)
class Grid(Record):
    """Cell m covers [guess + (m − ½) cell, guess + (m + ½) cell); the first and the last reach to the ends of
    [low, high].

    The range may be infinite. Then cells are numbered up to 10⁹ cells from the guess.

    Args:
        low: The lower end of the range.
        high: The upper end of the range.
        guess: The guess of the statistic, the middle of cell 0.
        cell: The width of a cell, in the units of the statistic; above 0.
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
        """Both ends of a cell, moved outward by more than the rounding error of :meth:`index`.

        Args:
            index: The number of the cell: 0 around the guess, negative below it.
        """
        slack = 1e-12 * (abs(self.guess) + (abs(index) + 1) * self.cell)
        low = self.guess + (index - 0.5) * self.cell
        return (
            self.low if index == self.first else low - slack,
            self.high if index == self.last else low + self.cell + slack,
        )

    def middle(self, index: int) -> float:
        """The value an answer shows for a cell.

        Args:
            index: The number of the cell: 0 around the guess, negative below it.
        """
        return self.guess + index * self.cell

    @property
    def farthest(self) -> int:
        """The distance, in cells, of the farthest cell from the guess. No cell is more expensive."""
        return max(abs(self.first), abs(self.last), 1)


def cell_entropy(half_cell: float) -> float:
    """Nats that the cell of a normal error reveals on average, on cells of this half-width.

    Args:
        half_cell: Half the width of a cell, in predicted deviations.
    """
    from scipy import special

    far = math.ceil(6 / half_cell) + 1
    places = np.arange(-far, far + 1)
    reached = special.erfc((2 * places - 1) * half_cell / math.sqrt(2)) / 2
    probabilities = -np.diff(np.append(reached, 0.0))
    return float(-np.sum(special.xlogy(probabilities, probabilities)))


@cache
def _entropies() -> np.ndarray:
    """The entropy of each half-cell that is tried. Computed on first use: scipy.special is slow to import."""
    return np.array([cell_entropy(half_cell) for half_cell in _HALF_CELLS])


def after_expected(account: Account, error: float, arm: float, questions: int) -> Account:
    """A forecast of the account after so many more questions with this predicted ``error`` and ``arm``, if
    their guesses are as good as expected.

    Args:
        account: The account when the question is asked; it is not changed.
        questions: How many more questions are to be asked, at least 0.
    """
    start, spent = account.nats(), account.spent
    for step in range(account.steps, account.steps + questions):
        later = replace(account, steps=step, micro_nats=round(spent * MICRO), together=1)
        half_cell = best_half_cell(later, error, arm * math.sqrt(later.nats() / start))
        spent += float(np.interp(half_cell / error, _HALF_CELLS, _entropies()))
    return replace(account, steps=account.steps + questions, micro_nats=round(spent * MICRO))


def coming_questions(asked: int, expect: float | None) -> float:
    """How many questions to assume after the next one. ``asked`` questions came before it.

    Args:
        expect: About how many questions the account will have. None: not stated.
    """
    step = asked + 1
    if expect is None:
        return _COMING_PER_ASKED * step
    return max((expect - step) / 1.5, 0.75 * step)


def best_half_cell(account: Account, error: float, arm: float, *, nats: float | None = None) -> float:
    """Half of a cell.

    ``error`` is the predicted deviation of statistic − guess. ``arm`` is the predicted half-width of the
    fixed-query interval at the account's nats. ``nats`` is the average cost that the caller accepts, if that
    is more than the rule would spend.

    Guarantee: none is needed; any cell is valid.
    Reference: docs/theory/code-guard.md, "The cell".

    Args:
        account: The account when the question is asked; it is not changed.
    """
    if nats is not None:
        affordable = int(np.argmax(nats >= _entropies()))
        return float(_HALF_CELLS[affordable]) * error
    coming = coming_questions(account.steps, account.weights.expect)
    level = account.nats()
    growth = max(
        0.0,
        account.weights.nats(account.steps + 1 + math.ceil(coming)) - account.weights.nats(account.steps + 1),
    )
    widths = _HALF_CELLS * error + arm * np.sqrt((level + growth + coming * _entropies()) / level)
    return float(_HALF_CELLS[int(widths.argmin())]) * error
