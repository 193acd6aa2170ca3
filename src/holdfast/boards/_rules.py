"""How a board judges a submission, and what it releases. A board compares a submission with the best one row
by row, or it compares scores on a ladder of steps.

Row by row, the output is "not shown to be better" or "better by more than i steps". Rows on which both are
right, or both wrong, cancel out, so this sees much smaller gains than two scores side by side. What is shown
is true of new rows too: it is a test at the error probability that the account has for this submission.
Proofs: ``docs/theory/code-guard.md``, "Compared row by row".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.coding import Account, LadderAlphabet, LadderGrid, PromotionAlphabet
from holdfast.errors import InvalidArgument
from holdfast.guard import Preview
from holdfast.intervals import Interval, clopper_pearson, gain_steps
from holdfast.ledger import Book, Receipt
from holdfast.readings import BoundedMean, Part, Question, Reading, Share
from holdfast.records import Record
from holdfast.scoring import ScoreQuestion
from holdfast.strategies import Outcome, PreparedCode

_COMPARISONS = ("paired", "scores")
# More than the rounding error of a bound, in steps.
_SLACK = 1e-9
STEPS = "steps shown"
"""In what is released: by how many steps a submission was shown to be better; None if it was not."""
COMPARED = "compared with"
"""In what is released: the key of the submission it was compared with, or an empty text for the start."""


@dataclass(frozen=True, repr=False)
class Submission(Record):
    """The result of a submission: whether it is better than the best, and an interval for its true score.

    Guarantee: with probability ``confidence`` every interval the board ever released contains its true score,
    and every submission with a ``margin`` is better than the one it was ``compared_with`` by more than that,
    on new rows; whatever was tried in between.

    On a board that compares row by row, ``margin`` is None if the submission was not shown to be better, and
    ``steps`` times the board's step if it was. ``value`` is then the score that it is shown to reach, and the
    interval goes from there to the best score there is. ``compared_with`` is the key of the best submission
    at that time; empty for the board's start. On a board that compares scores both are None: ``steps`` is how
    many steps the score on the live rows is better, 0 for "not better", and the interval is around it.

    ``key`` names the submission and ``by`` the person. The interval goes from ``low`` to ``high``, ``cost``
    is what the account paid, and ``receipt`` shows that the book has it, where the book is signed.
    """

    key: str
    by: str
    value: float
    low: float
    high: float
    steps: int
    confidence: float
    cost: float
    receipt: Receipt | None = field(default=None, repr=False)
    margin: float | None = None
    compared_with: str | None = None

    @property
    def better(self) -> bool:
        """Whether it is better than the best submission before it."""
        return self.margin is not None or (self.compared_with is None and self.steps > 0)


@dataclass(frozen=True, repr=False)
class FinalScore(Record):
    """A score on the sealed part: the plain ``value``, and an interval from ``low`` to ``high`` that holds
    with those of all finalists, with probability ``confidence``.

    ``key`` names the submission and ``by`` the person.
    """

    key: str
    by: str
    value: float
    low: float
    high: float
    confidence: float


def comparison_agreed(compare: str | None, book: Book) -> tuple[str, dict[str, str]]:
    """How submissions are compared, and the term that says so in the book. Books of earlier versions compare
    scores and have no such term."""
    if compare is not None:
        checks.choice(compare, "compare", _COMPARISONS, of="Board")
    opening = book.opening
    agreed = None if opening is None else str(opening.body.get("compare", "scores"))
    if agreed is not None and compare not in (None, agreed):
        raise InvalidArgument("compare", f"{agreed!r}, as when the book was opened", compare, of="Board")
    chosen = compare or agreed or _COMPARISONS[0]
    is_written = opening is None or "compare" in opening.body
    return chosen, {"compare": chosen} if is_written else {}


@dataclass(frozen=True)
class Best:
    """What a submission is compared with: the best submission there is, or the number at which the board
    starts.

    ``bound`` is the least score that it is shown to have (or the largest, where less is better). ``question``
    scores its predictions; None for the start. ``reached`` is how many steps above ``bound`` others of the
    same batch were shown to be; None if there are none. A submission that gets no further learns nothing,
    which keeps a batch cheap.
    """

    key: str
    bound: float
    question: ScoreQuestion | None
    reached: int | None = None


@dataclass(frozen=True)
class PreparedComparison:
    """A submission that is ready to be compared: everything here is public."""

    question: ScoreQuestion
    account: Account
    best: Best
    step: float
    upward: bool

    reading = None

    @property
    def nats(self) -> float:
        """ln(1/δ) for the error probability δ of this comparison."""
        return self.account.nats()

    @property
    def most_steps(self) -> int:
        """The largest number of steps that can be shown."""
        return math.ceil(1 / self.step)

    @property
    def worst_price(self) -> float:
        """The highest price of any output, a failure included, whatever others of its batch reveal before it
        is priced. A gain costs most if none of the others had one, and "not shown" if all of them had."""
        before, others = self.account.experience, self.account.together - 1
        none_gained = PromotionAlphabet(self.most_steps, replace(before, confirmed=before.confirmed + others))
        all_gained = PromotionAlphabet(self.most_steps, replace(before, surprised=before.surprised + others))
        return max(none_gained.worst_price, all_gained.price(None))

    @property
    def _alphabet(self) -> PromotionAlphabet:
        return PromotionAlphabet(self.most_steps, self.account.experience)

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book distinguishes this plan from others."""
        return {COMPARED: self.best.key, "bound": self.best.bound, "nats": self.nats}

    def preview(self) -> Preview:
        """What a comparison would cost and show."""
        return Preview(
            query=self.question.record,
            guess=self.best.bound,
            low=0.0,
            high=1.0,
            cell=self.step,
            if_confirmed=self._alphabet.price(None),
            if_surprised=self._alphabet.price(0),
            at_most=self.worst_price,
        )

    def read(self, part: Part) -> Outcome:
        """Compare on the rows of ``part``. What leaves is the number of steps, and public facts."""
        steps, reached = self._steps(part), self.best.reached
        if steps is not None and reached is not None and steps <= reached:
            steps = None
        # Steps up to those that were reached are never released, so the next one has the price of the first.
        place = steps if steps is None or reached is None else steps - reached - 1
        return Outcome(
            price=self._alphabet.price(place), surprise=steps is not None, released=self._released(steps)
        )

    def failed(self) -> Outcome:
        """What comes of rows that could not be read."""
        return Outcome(price=self._alphabet.failure_price, surprise=True, released=None)

    def _steps(self, part: Part) -> int | None:
        scores = self._values(self.question, part)
        if self.best.question is not None:
            gains = scores - self._values(self.best.question, part)
        elif self.question.binary:
            return self._above_start(int(scores.sum()), len(scores))
        else:
            gains = scores - self.best.bound
        gains = gains if self.upward else -gains
        steps = gain_steps(gains, nats=self.nats, step=self.step, binary=self.question.binary)
        return None if steps is None else min(steps, self.most_steps)

    @staticmethod
    def _values(question: ScoreQuestion, part: Part) -> NDArray[np.float64]:
        return question.values(part).kept().x

    def _above_start(self, right: int, rows: int) -> int | None:
        """The steps from the start to the exact lower bound of a share: one side of an interval with twice
        the error probability."""
        bound = clopper_pearson(right, rows, max(0.0, self.nats - math.log(2))).low
        if not bound > self.best.bound:
            return None
        return min(math.floor((bound - self.best.bound) / self.step), self.most_steps)

    def _released(self, steps: int | None) -> dict[str, Any]:
        gain = 0.0 if steps is None else max(0.0, steps - _SLACK) * self.step
        bound = self.best.bound + gain if self.upward else self.best.bound - gain
        bound = min(max(bound, 0.0), 1.0)
        shown = Interval(0.0, 1.0)
        if steps is not None:
            shown = Interval(bound, 1.0) if self.upward else Interval(0.0, bound)
        return self.question.released(
            value=bound,
            interval=shown,
            guess=self.best.bound,
            confirmed=steps is None,
            theorem="gain over the best submission, row by row",
            numbers={
                "question": self.account.steps + 1,
                **({"asked together": self.account.together} if self.account.together > 1 else {}),
                "nats spent before": self.account.spent,
                "nats of this interval": self.nats,
                "step": self.step,
                STEPS: steps,
                COMPARED: self.best.key,
            },
        )


@dataclass(frozen=True)
class ComparisonStrategy:
    """How a board prepares a submission: against the best one.

    ``best`` is that submission. For a batch it is the best before the batch, because none of the batch pays
    for the results of the others.
    """

    step: float
    upward: bool
    best: Callable[[Question, Account], Best]

    theorem = "the code guard, paired with the best submission (docs/theory/code-guard.md)"
    failure_closes = False  # A failure is one of the outputs that have a price.
    book_unit = "nats"
    joins = False

    def look(self, questions: Sequence[Question]) -> None:
        """Nothing is needed of free rows."""

    def prepare(self, question: Question, account: Account) -> PreparedComparison:
        """Everything about a comparison but its outcome, from public facts alone."""
        assert isinstance(question, ScoreQuestion)
        return PreparedComparison(question, account, self.best(question, account), self.step, self.upward)


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
    book_unit = "nats"
    joins = False

    def look(self, questions: Sequence[Question]) -> None:
        """The guess is the best score: nothing is needed of the free rows."""

    def prepare(self, question: Question, account: Account) -> PreparedCode:
        """Everything about a submission but its score, from public facts alone."""
        reading = score_reading(question, account.nats(), self.rows)
        grid = LadderGrid(question.low, question.high, self.best(), self.step, self.upward)
        return PreparedCode(question, account, reading, LadderAlphabet(grid, account.experience), None)
