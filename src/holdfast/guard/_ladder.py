"""How a board prepares a submission: the code guard on a ladder of steps above the best score so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.coding import Account, LadderAlphabet, LadderGrid
from holdfast.guard._code import PreparedCode
from holdfast.guard._question import Question
from holdfast.guard._readings import BoundedMean, Reading, Share


def score_reading(question: Question, nats: float, rows: int) -> Reading:
    """How a score of all rows is read: as a share, or as a mean of bounded values."""
    if question.binary:
        return Share(question, nats, None, rows)
    return BoundedMean(question, nats, None, rows)


@dataclass(frozen=True)
class LadderStrategy:
    """How a board prepares a submission: against the best score there is at this moment."""

    rows: int
    step: float
    upward: bool
    best: Callable[[], float]

    theorem = "the code guard on a ladder (docs/theory/code-guard.md)"
    failure_closes = False  # A failure is one of the outputs that have a price.
    joins = False

    def look(self, questions: Sequence[Question]) -> None:
        """The guess is the best score: nothing is needed of the free rows."""

    def prepare(self, question: Question, account: Account) -> PreparedCode:
        """Everything about a submission but its score, from public facts alone."""
        reading = score_reading(question, account.nats(), self.rows)
        grid = LadderGrid(question.low, question.high, self.best(), self.step, self.upward)
        return PreparedCode(question, account, reading, LadderAlphabet(grid, account.experience), None)
