"""What strategies share for which the number of questions is fixed in advance: each answer uses up one of
them.

Their account is kept in answers instead of nats: ``spent`` counts them, and ``left`` says how many remain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.coding import Account
from holdfast.errors import BudgetSpent
from holdfast.guard._answer import Left, Preview, perhaps_too_wide
from holdfast.guard._question import Question
from holdfast.guard._release import released
from holdfast.guard._strategy import Outcome
from holdfast.intervals import Interval


@dataclass(frozen=True)
class FixedNumber:
    """A number of answers agreed on before the first question."""

    queries: int

    unit = "answers"
    together = False  # The number of an answer decides how it is given.
    joins = False

    def look(self, questions: Sequence[Question]) -> None:
        """Nothing is needed of the free rows."""

    def spent(self, account: Account) -> float:
        """The answers that were given."""
        return account.spent

    def cost(self, price: float) -> float:
        """The answers that one question used up."""
        return price

    def require(self, question: Question, account: Account, answers: int) -> None:
        """Refuse a question that needs more answers than are left. Decided without the rows."""
        left = self.queries - account.spent
        if answers > left:
            raise BudgetSpent(
                f"{question.text} needs {answers} of the {self.queries:,} answers that were agreed on, and "
                f"{left:,.0f} are left. Questions that were answered before stay free; new ones need a new "
                "guard on fresh rows, or strategy='code', which fixes no number.",
                asked=float(answers),
                spent=account.spent,
                left=left,
                unit=self.unit,
            )

    def require_within(
        self, question: Question, account: Account, half_width: float, promised: float | None
    ) -> None:
        """Refuse a question whose answer is known to be wider than was promised. Decided without the rows."""
        if promised is not None and not half_width <= promised:
            raise BudgetSpent(
                f"{question.text} cannot be answered: its answer would be within ±{half_width:.4g}, and "
                f"±{promised:g} was promised. Nothing was charged. An error counts in the units of the "
                "question: ask about a narrower range, or open a guard with a larger error, fewer questions "
                "or more rows (holdfast.plan compares them).",
                asked=1.0,
                spent=account.spent,
                left=self.queries - account.spent,
                unit=self.unit,
            )

    def left(self, account: Account) -> Left:
        """How many answers are left."""
        left = int(self.queries - account.spent)
        words = f"{left:,} of {self.queries:,} answers"
        return Left(
            left, words=words, confirmed=left, surprises=left, unit=self.unit, total=float(self.queries)
        )


def preview_of(
    question: Question,
    half_width: float,
    answers: int,
    *,
    error: float | None,
    failure_closes: bool = False,
) -> Preview:
    """What an answer will look like: its width is known, its place is not; it is shown in the middle, and
    there is no guess. With a filter the width is that for all rows, and wider the fewer pass."""
    notes = []
    if question.filtered:
        notes.append("The width is that for all rows: the fewer pass the filter, the wider it is.")
    if error is not None and (question.filtered or half_width > error):
        notes.append(perhaps_too_wide(error))
    middle = (question.low + question.high) / 2 if math.isfinite(question.low + question.high) else 0.0
    price = float(answers)
    return Preview(
        query=question.record,
        guess=math.nan,
        low=middle - half_width,
        high=middle + half_width,
        if_confirmed=price,
        if_surprised=price,
        at_most=price,
        unit=FixedNumber.unit,
        why=" ".join(notes),
        failure_closes=failure_closes,
    )


def outcome_of(
    question: Question,
    value: float,
    interval: Interval,
    answers: int,
    *,
    theorem: str,
    numbers: dict[str, Any],
    error: float | None,
) -> Outcome:
    """An answer that uses up ``answers``; nothing leaves where it would break a promised error."""
    clipped = interval.clip(question.low, question.high)
    kept = error is None or clipped.half_width <= error
    return Outcome(
        price=float(answers),
        surprise=False,
        released=released(
            question,
            value=min(max(value, clipped.low), clipped.high),
            interval=clipped,
            guess=None,
            confirmed=True,
            theorem=theorem,
            numbers=numbers,
        )
        if kept
        else None,
    )
