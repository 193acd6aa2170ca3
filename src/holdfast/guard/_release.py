"""What leaves the guard, how the book keeps it, and how an answer is made from the book.

Answers that were given are kept at hand while they are remembered. Older ones are made again from the book.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast import queries
from holdfast.answers import Answer, Certificate
from holdfast.coding import MICRO
from holdfast.errors import BudgetSpent, QueryRejected
from holdfast.guard._hints import not_in_training
from holdfast.guard._question import Question, TableQuestion
from holdfast.guard._session import Released, Session
from holdfast.guard._strategy import Strategy
from holdfast.intervals import Interval
from holdfast.records import amount

_CHECKED = (
    "Each answer's worst-case cost is recorded before the protected rows are read.",
    "Prices are computed without the protected rows. A refusal that depends on them is paid for.",
    "Sums are computed exactly, and intervals are rounded outward.",
)

INTERRUPTED = (
    "A process that was interrupted while it read the protected rows was not interrupted because of their "
    "values. Its question was read again, once, under the reservation that it had."
)
"""What an account assumes in which a question was read again."""

_STATEMENTS = {
    "all": "With probability {} every interval released from this account contains its true value, however "
    "the questions were chosen.",
    "each": "Each interval released from this account contains its true value with probability {}, however "
    "its question was chosen. Nothing is said about several intervals at once.",
}

# So many answers are kept at hand; older ones are read from the book when they are asked for again.
_REMEMBERED = 10_000


def released(
    question: Question,
    *,
    value: float,
    interval: Interval,
    guess: float | None,
    confirmed: bool,
    theorem: str,
    numbers: dict[str, Any],
    more: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that leaves with an answer, as the book keeps it; the rows decide which notes ``more``
    has."""
    notes = [*question.notes]
    if isinstance(question, TableQuestion):
        notes += _clipped(question)
    if question.kind == "quantile" and isinstance(question, TableQuestion) and question.checked.unsaid:
        notes.append("A missing value counts as less than any other.")
    notes += [*more, *_left_out(question), *not_in_training(question)]
    if guess is None and question.guess is not None:
        notes.append("Your guess was not used: this strategy answers without one.")
    return {
        "value": value,
        "low": interval.low if math.isfinite(interval.low) else None,
        "high": interval.high if math.isfinite(interval.high) else None,
        "guess": guess,
        "confirmed": confirmed,
        "readable": isinstance(question, TableQuestion) and question.readable,
        "interval": theorem,
        "numbers": numbers,
        "notes": notes,
    }


def _clipped(question: TableQuestion) -> list[str]:
    """Where values are clipped."""
    query = question.checked.query
    ranges = [query.bounds, query.other_bounds]
    if query.kind in ("share", "quantile", "cdf") or query.bounds is None:
        return []
    missing = f"; a missing one counts as {query.bounds[0]:g}" if question.checked.unsaid else ""
    if query.other_bounds is None:
        return [f"Values outside [{query.bounds[0]:g}, {query.bounds[1]:g}] are clipped{missing}."]
    shown = " and ".join(
        f"{value.text} outside [{ends[0]:g}, {ends[1]:g}]"
        for value, ends in zip(query.values, ranges, strict=True)
        if ends is not None
    )
    return [f"Values of {shown} are clipped{missing}."]


def _left_out(question: Question) -> list[str]:
    """Which rows do not enter."""
    if not isinstance(question, TableQuestion):
        return ["Rows for which the filter is false or null do not enter."] * question.filtered
    query = question.checked.query
    filtered = ["Rows for which the filter is false or null do not enter."] * (query.where is not None)
    return filtered + ["Rows without a value do not enter."] * (query.nulls == "skip")


def not_computed(
    text: str, cost: float, *, closes: bool, unit: str, spent: float, left: float
) -> QueryRejected:
    """The refusal of a question that failed on the protected rows: for a price, or as the last word."""
    if closes:
        rest = (
            "With this strategy a failure is not paid for, so the account is closed now, for everyone: "
            "nothing more is answered. The answers given before keep their intervals. In a new account, on "
            "fresh rows, first try every model and statistic on rows that are not protected."
        )
    else:
        rest = f"That it failed cost {amount(cost, unit)}. Try it on guard.train first."
    return QueryRejected(
        f"{text} could not be computed on the protected rows. What went wrong is not shown, because it may "
        f"depend on them. {rest}",
        asked=cost,
        spent=spent,
        left=left,
        unit=unit,
    )


def too_wide(text: str, error: float | None, *, unit: str, spent: float, left: float) -> BudgetSpent:
    """The refusal of a question whose answer would break the promise; that it would is an answer too."""
    return BudgetSpent(
        f"{text}: the rows do not support an interval within the promised ±{error:g} here. Finding that out "
        "was charged as an answer; asking again costs nothing and says the same.",
        asked=0.0,
        spent=spent,
        left=left,
        unit=unit,
    )


@dataclass(frozen=True)
class Records:
    """Makes answers and certificates from what the book recorded and what the account assumes; the strategy
    says what an answer cost, and in which unit."""

    confidence: float
    strategy: Strategy
    assumptions: tuple[str, ...]
    promise: str = "all"

    def answer(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer that a line of the book stands for; ``asked`` spares reading the line's text, where it
        is the same question in the same words."""
        recorded = released.answer or {}
        query: Any = released.text
        if isinstance(asked, TableQuestion) and asked.readable and asked.text == released.text:
            query = replace(asked.record, guess=None)
        elif recorded["readable"]:
            query = queries.read(released.text)
        return Answer(
            value=recorded["value"],
            low=-math.inf if recorded["low"] is None else recorded["low"],
            high=math.inf if recorded["high"] is None else recorded["high"],
            confidence=self.confidence,
            cost=self.strategy.cost(released.micro_nats / MICRO),
            query=query,
            certificate=self.certificate(recorded["numbers"], interval=recorded["interval"]),
            guess=math.nan if recorded["guess"] is None else recorded["guess"],
            confirmed=recorded["confirmed"],
            notes=tuple(recorded["notes"]),
            receipt=released.receipt,
            unit=self.strategy.unit,
        )

    def certificate(self, numbers: dict[str, Any], *, interval: str = "") -> Certificate:
        """The statement, with these numbers."""
        return Certificate(
            statement=_STATEMENTS[self.promise].format(f"{self.confidence:.6g}"),
            theorem=self.strategy.theorem,
            numbers=numbers,
            checked=_CHECKED,
            assumed=self.assumptions,
            interval=interval,
        )


class Answered:
    """What one account answered; ``too_wide`` makes the refusal of a question whose answer would have broken
    the promise."""

    def __init__(self, session: Session, records: Records, too_wide: Callable[[str], BudgetSpent]) -> None:
        self._session = session
        self._records = records
        self._too_wide = too_wide
        self._at_hand: dict[str, Answer] = {}

    def known(self, question: Question) -> Answer | None:
        """The answer that was given before, if this is the same question."""
        if (answer := self._at_hand.get(question.key)) is not None:
            return answer
        released = self._session.released(question.key)
        return None if released is None else self.settled(released, question)

    def settled(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer, or the same refusal, that a settled question has once and for all."""
        if released.answer is None:
            raise self._too_wide(released.text)
        return self.recall(released, asked)

    def recall(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer a line of the book stands for, made once while it is remembered."""
        answer = self._at_hand.get(released.key)
        if answer is None:
            answer = self._at_hand[released.key] = self._records.answer(released, asked)
            if len(self._at_hand) > _REMEMBERED:
                self._at_hand.pop(next(iter(self._at_hand)), None)
        return answer
