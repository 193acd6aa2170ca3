"""Strategies with a number of questions that is fixed in advance, and the oldest of them: sample splitting.

Their account counts answers instead of nats: ``spent`` counts them, and ``left`` says how many remain.
Sample splitting gives every question rows of its own and an ordinary interval at confidence β/k. It needs
independent rows. The other methods are compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast import intervals
from holdfast.answers import Left, Preview, perhaps_too_wide
from holdfast.coding import Account
from holdfast.dependence import Dependence, Independent
from holdfast.errors import BudgetSpent, NotEnoughRows, QueryRejected
from holdfast.intervals import Interval
from holdfast.readings import Part, Question, TableQuestion
from holdfast.strategies._strategy import Outcome


@dataclass(frozen=True)
class FixedNumber:
    """A number of answers agreed on before the first question."""

    queries: int

    unit = book_unit = "answers"
    together = False  # The number of an answer decides how it is given.
    joins = False

    def look(self, questions: Sequence[Question]) -> None:
        """Does nothing: no free rows are needed."""

    def spent(self, account: Account) -> float:
        """The number of answers given."""
        return account.spent

    def cost(self, price: float) -> float:
        """The number of answers that one question used up."""
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
        """Refuse a question whose answer is known to be wider than the promise. Decided without the rows."""
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
    """What an answer will look like. Its width is known; its place is not, so it is shown in the middle.
    There is no guess. With a filter the width is that for all rows; the fewer pass, the wider it becomes."""
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
    """An answer that uses up ``answers``; a refusal if it would break a promised error."""
    clipped = interval.clip(question.low, question.high)
    kept = error is None or clipped.half_width <= error
    return Outcome(
        price=float(answers),
        surprise=False,
        released=question.released(
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


@dataclass(frozen=True)
class PreparedSplit:
    """A question and the rows that are its own: everything here is public."""

    question: Question
    start: int
    rows: int
    nats: float
    error: float | None
    number: int

    worst_price = 1.0
    reading = None

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book distinguishes this plan from others."""
        return {"first row": self.start, "rows": self.rows, "nats": self.nats}

    def failed(self) -> Outcome:
        """A failure uses up an answer."""
        return Outcome(1.0, surprise=True, released=None)

    def preview(self) -> Preview:
        """What the question would cost and show: an interval around the middle is the widest there is."""
        question = self.question
        if not math.isfinite(question.low + question.high):
            return preview_of(question, math.inf, 1, error=self.error)
        width = question.high - question.low
        half_width = width * intervals.kl(0.5, self.rows, self.nats).half_width
        return preview_of(question, half_width, 1, error=self.error)

    @property
    def least_half_width(self) -> float:
        """The least possible half-width: all values at one end of the range, and none filtered out. 0 for
        quantiles, which depend on the values themselves."""
        question = self.question
        if question.kind == "quantile":
            return 0.0
        if question.binary:
            return intervals.clopper_pearson(0, self.rows, self.nats).half_width
        low, high = question.low, question.high
        inside = intervals.of_filtered_mean(low, self.rows, self.nats, lo=low, hi=high)
        return inside.clip(low, high).half_width

    def read(self, part: Part) -> Outcome:
        """Read this question's own rows, once."""
        own = replace(part, rows=part.rows.block(self.start, self.rows), mask=None)
        value, interval, theorem = self._interval(own)
        numbers: dict[str, Any] = {
            "question": self.number,
            "rows of its own": self.rows,
            "nats of this interval": self.nats,
        }
        return outcome_of(
            self.question, value, interval, 1, theorem=theorem, numbers=numbers, error=self.error
        )

    def _interval(self, own: Part) -> tuple[float, Interval, str]:
        question = self.question
        if question.kind == "quantile":
            return self._quantile(own)
        moments = question.moments(own)
        if question.binary and moments.rows:
            successes = round(moments.mean * moments.rows)
            exact = intervals.clopper_pearson(successes, moments.rows, self.nats)
            return moments.mean, exact, "Clopper–Pearson"
        mean = moments.mean if moments.rows else None
        inside = intervals.of_filtered_mean(mean, moments.rows, self.nats, lo=question.low, hi=question.high)
        wide = Interval(inside.low - question.resolution, inside.high + question.resolution)
        return wide.middle if mean is None else mean, wide, "binary relative entropy (Chernoff)"

    def _quantile(self, own: Part) -> tuple[float, Interval, str]:
        level = self.question.level

        def wanted(count: int) -> list[int]:
            lower, upper = intervals.quantile_ranks(count, level, self.nats)
            middle = math.ceil(level * count)
            return [min(max(1, rank), count) for rank in (lower, middle, upper)] if count else []

        count, values = self.question.order_statistics(own, wanted)
        lower, upper = intervals.quantile_ranks(count, level, self.nats)
        low = values[0] if lower >= 1 else -math.inf
        high = values[2] if upper <= count else math.inf
        return values[1] if count else 0.0, Interval(low, high), "order statistics, by binomial tails"


@dataclass(frozen=True)
class Splitting(FixedNumber):
    """``rows`` rows in ``queries`` blocks of equal size, one block a question."""

    rows: int
    nats: float
    promised: float | None

    theorem = "sample splitting: rows of its own for every question, and a union bound"
    failure_closes = False  # A failure reveals something only about rows that no other question reads.

    @classmethod
    def of(cls, queries: int, failure: float, model: Dependence, promised: float | None) -> Splitting:
        """Blocks for ``queries`` questions; each interval fails with probability ``failure``/queries."""
        if not isinstance(model, Independent):
            raise QueryRejected(f"strategy='split' needs independent rows; use 'code' for {model.name}.")
        if model.n < queries:
            raise NotEnoughRows(queries, model.n, what=f"Splitting into {queries:,} parts")
        return cls(queries, model.n // queries, math.log(queries / failure), promised)

    def prepare(self, question: Question, account: Account) -> PreparedSplit:
        """Give the question the next block of rows. The block of a question that failed is not used again."""
        if not isinstance(question, TableQuestion):
            raise QueryRejected(
                "A question with rows of its own is a mean, share or quantile of an expression; for "
                "predictions "
                "and statistics of your own use strategy='code' or a strategy with noise."
            )
        self.require(question, account, 1)
        start = account.steps * self.rows
        prepared = PreparedSplit(question, start, self.rows, self.nats, self.promised, account.steps + 1)
        self.require_within(question, account, prepared.least_half_width, self.promised)
        return prepared
