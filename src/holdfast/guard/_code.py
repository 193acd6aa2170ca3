"""The code guard (theory 2.2): no noise, any fixed-query interval, pay for surprises only.

A question is prepared from public facts alone: the guess, the reading, the grid, and the price of every possible output.
Then the rows are read once, the output is looked up on the grid, and its interval is released. The output is all that leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from holdfast.dependence import Dependence
from holdfast.errors import BudgetSpent
from holdfast.guard._account import Account
from holdfast.guard._expectation import expect
from holdfast.guard._grid import Grid, best_half_cell
from holdfast.guard._left import Capacity
from holdfast.guard._prior import Failure, Surprise
from holdfast.guard._question import Part, Question
from holdfast.guard._readings import Output, Reading
from holdfast.intervals import Interval

THEOREM = "the code guard (docs/theory/code-guard.md)"

# The promise is checked on the cells next to the guess; should a farther one be too wide, that refusal is paid for.
_NEAR = (-2, 0, 2)


@dataclass(frozen=True)
class Prepared:
    """A question at one step, ready to be read: everything here is public."""

    question: Question
    account: Account
    reading: Reading
    grid: Grid

    def interval(self, output: Output) -> Interval:
        """The interval an output stands for, clipped to the values the statistic can take."""
        low, high = self.grid.edges(output.cell)
        question = self.question
        inside = self.reading.interval(max(low, question.low), min(high, question.high), output.width_class)
        return Interval(
            max(question.low, inside.low - question.resolution), min(question.high, inside.high + question.resolution)
        )

    def value(self, output: Output) -> float:
        """The value an answer shows: the middle of the cell, kept within the range."""
        return min(max(self.grid.middle(output.cell), self.question.low), self.question.high)

    def surprise(self, output: Output) -> Surprise | None:
        """The output as the prior knows it; None for the confirmation."""
        if output.confirmed:
            return None
        return Surprise(output.cell, output.width_class, self.reading.classes)

    def price(self, output: Output) -> float:
        """What an output costs, in nats."""
        return self.account.price(self.surprise(output))

    @property
    def worst_price(self) -> float:
        """The dearest output of the whole alphabet, a failure included."""
        dearest = Surprise(self.grid.farthest, self.reading.classes - 1, self.reading.classes)
        return max(self.account.price(dearest), self.account.price(Failure()), self.account.price(None))


@dataclass(frozen=True)
class CodeStrategy:
    """How the code guard prepares a question for one dataset."""

    rows: int
    training: Part | None
    pilot: Part | None
    model: Dependence | None
    error: float | None

    @cached_property
    def capacity(self) -> Capacity | None:
        """How many nats the promised error allows; None where none was promised."""
        return None if self.error is None else Capacity.of(self.error, self.rows, self.model)

    def prepare(self, question: Question, account: Account) -> Prepared:
        """Decide everything about a question without reading the protected rows.

        Raises :class:`BudgetSpent` where even a confirmed guess would be wider than the promised error.
        """
        tail = None
        if self.model is not None and question.kind in ("mean", "share", "quantile"):
            bounds = (0.0, 1.0) if question.kind == "quantile" else (question.low, question.high)
            tail = self.model.mean_tail(*bounds)
        expected = expect(
            question, account.nats(), rows=self.rows, training=self.training, pilot=self.pilot, tail=tail
        )
        radius = expected.reading.interval(expected.guess, expected.guess, 0).half_width
        if self.error is None:
            half_cell = best_half_cell(account, expected.guess_error, radius)
        else:
            half_cell = self.error - radius - question.resolution
            if not half_cell > 0:
                raise self._spent(account, question)
        prepared = self._on_grid(question, account, expected.reading, expected.guess, half_cell)
        return prepared if self.error is None else self._keep_promise(prepared, half_cell)

    def _on_grid(
        self, question: Question, account: Account, reading: Reading, guess: float, half_cell: float
    ) -> Prepared:
        grid = Grid.over(question.low, question.high, guess=guess, cell=2 * half_cell)
        return Prepared(question, account, reading, grid)

    def _keep_promise(self, prepared: Prepared, widest: float) -> Prepared:
        """The widest cell, up to a thousandth, for which the guess and the cells near it keep the promise."""

        def keeps(candidate: Prepared) -> bool:
            grid = candidate.grid
            near = (Output(min(max(cell, grid.first), grid.last)) for cell in _NEAR)
            return all(candidate.interval(output).half_width <= self.error for output in near)

        if keeps(prepared):
            return prepared
        low, high = 0.0, widest
        best = None
        for _ in range(10):
            middle = (low + high) / 2
            candidate = self._on_grid(
                prepared.question, prepared.account, prepared.reading, prepared.grid.guess, middle
            )
            if keeps(candidate):
                low, best = middle, candidate
            else:
                high = middle
        if best is None:
            raise self._spent(prepared.account, prepared.question)
        return best

    def _spent(self, account: Account, question: Question) -> BudgetSpent:
        asked = account.price(None)
        left = self.capacity.left(account) if self.capacity else None
        return BudgetSpent(
            f"{question.text} cannot be answered within the promised ±{self.error:g} any more: even a confirmed guess would be "
            f"wider ({account.spent:.3g} nats spent over {account.steps} questions, {left:.3g} left for a share). "
            "Questions that were answered before stay free; new ones need a wider promise or fresh rows.",
            asked=asked,
            spent=account.spent,
            left=left,
        )
