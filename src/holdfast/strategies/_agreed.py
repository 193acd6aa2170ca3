"""The code guard with agreed numbers: so many questions, and either so many surprises or no guesses at all.

Strategy "agreed-code" checks a guess for every question. "grid-code" has no guesses and uses all rows.
Neither adds noise. Every answer is within one error that is known before the first question. Theory:
``docs/theory/code-guard.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.answers import Left, Preview
from holdfast.coding import Account, Schedule, checked_schedule, grid_schedule, price
from holdfast.dependence import Independent
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected
from holdfast.intervals import Interval
from holdfast.readings import (
    BoundedMean,
    MeanOfDependentRows,
    Part,
    PublicFacts,
    Question,
    Reading,
    Share,
    StatisticQuestion,
    expect,
    look,
    require_values_inside,
)
from holdfast.strategies._left import tail_of_bounded_mean
from holdfast.strategies._strategy import Outcome, Setup
from holdfast.tails import Tail

_FRESH_ROWS = "Questions that were answered before stay free; new ones need a new guard on fresh rows."


@dataclass(frozen=True)
class EvenCells:
    """``count`` cells of equal width over [low, high], and the room for rounding at their edges."""

    low: float
    high: float
    count: int

    @property
    def slack(self) -> float:
        """More than the rounding error of a value in the range."""
        return 1e-15 * (abs(self.low) + abs(self.high))

    @property
    def cell(self) -> float:
        """The width of a cell."""
        return (self.high - self.low) / self.count

    def index(self, value: float) -> int:
        """The cell that holds ``value``."""
        return min(max(math.floor((value - self.low) / self.cell), 0), self.count - 1)

    def edges(self, index: int) -> tuple[float, float]:
        """Both ends of a cell, moved outward by the slack."""
        return self.low + index * self.cell - self.slack, self.low + (index + 1) * self.cell + self.slack


@dataclass(frozen=True)
class PreparedCells:
    """A question at one stage, ready to be read: everything here is public.

    ``guess`` is None if there are no guesses. Otherwise a statistic within ``tolerance`` of it is confirmed.
    """

    question: Question
    reading: Reading
    cells: EvenCells
    guess: float | None
    tolerance: float
    half_width: float
    numbers: dict[str, Any]

    @property
    def worst_price(self) -> float:
        """The price of any cell, and of a failure to read: they all cost the same."""
        return price(self.cells.count)

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book distinguishes this plan from others."""
        return {"guess": self.guess, "cell": self.cells.cell, "cells": self.cells.count}

    def failed(self) -> Outcome:
        """A failure costs as much as any answer."""
        return Outcome(self.worst_price, surprise=True, released=None)

    def interval(self, low: float, high: float) -> Interval:
        """The interval if the statistic lies in [low, high], clipped to the values it can take."""
        question, reading = self.question, self.reading
        if isinstance(reading, Share):
            # A share is a whole number of rows: the outermost counts within, aimed at between two of them.
            low = (math.ceil(max(low, 0.0) * reading.rows - 1e-6) + 0.5) / reading.rows
            high = (math.floor(min(high, 1.0) * reading.rows + 1e-6) - 0.5) / reading.rows
        inside = reading.around(low, high)
        return Interval(
            max(question.low, inside.low - question.resolution),
            min(question.high, inside.high + question.resolution),
        )

    def confirmed(self) -> Interval:
        """The interval of a confirmed guess."""
        if self.guess is None:
            raise AssertionError("only a guess is confirmed")
        reach = self.tolerance + self.cells.slack
        return self.interval(self.guess - reach, self.guess + reach)

    def preview(self) -> Preview:
        """What the question would cost and show."""
        middle = (self.cells.low + self.cells.high) / 2
        around = Interval(middle - self.half_width, middle + self.half_width)
        interval = around if self.guess is None else self.confirmed()
        return Preview(
            query=self.question.record,
            guess=math.nan if self.guess is None else self.guess,
            low=interval.low,
            high=interval.high,
            cell=self.cells.cell,
            if_confirmed=1.0,
            if_surprised=1.0,
            at_most=1.0,
            unit=AgreedCode.unit,
        )

    def read(self, part: Part) -> Outcome:
        """Read the rows once. Only "as guessed" or the cell leaves, and public facts."""
        question, statistic = self.question, self.question.moments(part).mean
        confirmed = self.guess is not None and abs(statistic - self.guess) <= self.tolerance
        if self.guess is not None and confirmed:
            value, interval = self.guess, self.confirmed()
        else:
            edges = self.cells.edges(self.cells.index(statistic))
            value, interval = (edges[0] + edges[1]) / 2, self.interval(*edges)
        return Outcome(
            price=0.0 if confirmed else self.worst_price,
            surprise=self.guess is not None and not confirmed,
            released=question.released(
                value=min(max(value, question.low), question.high),
                interval=interval,
                guess=self.guess,
                confirmed=confirmed or self.guess is None,
                theorem=self.reading.theorem,
                numbers=self.numbers,
            ),
        )


@dataclass(frozen=True)
class AgreedCode:
    """How a question is prepared for one dataset, by a schedule that was fixed before the first question."""

    setup: Setup
    tail: Tail  # the tail of a mean of values in [0, 1]
    schedule: Schedule
    promised: float | None

    theorem = "the code guard with agreed numbers (docs/theory/code-guard.md)"
    failure_closes = False  # A failure is one of the symbols that are counted.
    unit = "answers"
    book_unit = "nats"  # The book keeps what each answer revealed, for the next interval.
    together = False  # The stage of a question is how many were answered before.
    joins = False

    def spent(self, account: Account) -> float:
        """The number of answers given. The book also keeps what each revealed, in nats, for the next
        interval."""
        return float(account.steps)

    def cost(self, price: float) -> float:
        """Each question uses up one answer, whatever it revealed."""
        return 1.0

    @classmethod
    def of(
        cls, setup: Setup, queries: int, failure: float, surprises: int | None, promised: float | None
    ) -> AgreedCode:
        """The schedule with the least error, or with the promised error if that is larger."""
        rows, training = setup.protected.rows.count, setup.training
        tail = tail_of_bounded_mean(setup.model or Independent(rows), 0.0, 1.0)
        if surprises is None:
            least = grid_schedule(tail, queries, failure)
        else:
            ratio = rows / training.rows.count if training else 1.0
            least = checked_schedule(tail, queries, failure, surprises, ratio)
        if least is None:
            raise InvalidArgument(
                "queries", f"fewer, or no error can be kept with {rows:,} protected rows", queries, of="Guard"
            )
        wider = None
        if promised is not None and least.error < promised < 1.0:
            wider = Schedule.of(tail, promised, least.agreement)
        return cls(setup, tail, wider or least, promised)

    def left(self, account: Account) -> Left:
        """How many answers are left, and how many surprises."""
        agreement = self.schedule.agreement
        answers = agreement.queries - account.steps
        words = f"{answers:,} of {agreement.queries:,} answers"
        if agreement.surprises is None:
            return Left(
                answers,
                words=words,
                confirmed=answers,
                surprises=answers,
                unit=self.unit,
                total=float(agreement.queries),
            )
        stages = max(0, self.schedule.stages - self._stage(account))
        left = answers if stages else 0
        words = f"{words}, and {max(0, stages - 1):,} of {agreement.surprises:,} surprises"
        return Left(
            left,
            words=words,
            confirmed=left,
            surprises=min(left, stages),
            unit=self.unit,
            total=float(agreement.queries),
        )

    def look(self, questions: Sequence[Question]) -> None:
        """Look at the training rows for what preparing these questions needs of them."""
        if self.schedule.agreement.surprises is not None:
            look(questions, self.setup.training, self.setup.pilot)

    def prepare(self, question: Question, account: Account) -> PreparedCells:
        """Decide everything about a question without reading the protected rows, or refuse it."""
        _refuse_others(question)
        self._require(question, account)
        stage, schedule, rows = self._stage(account), self.schedule, self.setup.protected.rows.count
        nats = self._nats(account, stage)
        cells = schedule.cells_at(self.tail, stage, nats)
        if not cells:
            raise self._spent(question, account, "Too much was read at the same time by other processes")
        width = question.high - question.low
        model = self.setup.model
        tail = None if model is None else model.mean_tail(question.low, question.high)
        return PreparedCells(
            question=question,
            reading=_reading(question, nats, rows, tail),
            cells=EvenCells(question.low, question.high, cells),
            guess=self._guess(question, nats, tail),
            tolerance=width * schedule.room(self.tail, nats),
            half_width=width * schedule.error,
            numbers={
                "question": account.steps + 1,
                "answers agreed on": schedule.agreement.queries,
                "surprises agreed on": schedule.agreement.surprises,
                "stage": stage,
                "cells": cells,
                "nats of this interval": nats,
            },
        )

    def _stage(self, account: Account) -> int:
        """The stage after every question that was not confirmed, including readings that were never
        settled."""
        confirmed = 0 if self.schedule.agreement.surprises is None else account.experience.confirmed
        return account.steps - confirmed

    def _nats(self, account: Account, stage: int) -> float:
        """ln(1/δ) of the next question: as planned, or more if other processes are reading.

        Their reservations count as spent, and as moved to the next stage. If one of them is given back, the
        question belongs to an earlier stage, which may have more patterns. So it is read as if it were at any
        of these stages.
        """
        agreement = self.schedule.agreement
        earliest = stage if agreement.surprises is None else account.experience.surprised
        stages = range(earliest, stage + 1)
        return max(self.schedule.nats(stage), *(agreement.nats(at, account.spent) for at in stages))

    def _guess(self, question: Question, nats: float, tail: Tail | None) -> float | None:
        if self.schedule.agreement.surprises is None:
            return None
        setup = self.setup
        public = PublicFacts(nats, setup.protected.rows.count, setup.training, setup.pilot, tail)
        guess = expect(question, public).guess
        require_values_inside(question, setup.training)
        return min(max(guess, question.low), question.high)

    def _require(self, question: Question, account: Account) -> None:
        """Refuse a question that was not agreed on, or that would break the promise. Decided without the
        rows."""
        agreement, reach = self.schedule.agreement, (question.high - question.low) * self.schedule.error
        if account.steps >= agreement.queries:
            raise self._spent(
                question, account, f"The {agreement.queries:,} answers that were agreed on are given"
            )
        if self._stage(account) >= self.schedule.stages:
            raise self._spent(
                question,
                account,
                f"More guesses were off than the {agreement.surprises:,} that were agreed on",
            )
        if self.promised is not None and reach > self.promised:
            raise self._spent(
                question,
                account,
                f"Its answer would be within ±{reach:.4g}, and ±{self.promised:g} was promised",
                advice="An error counts in the units of the question: ask about a narrower range, or open a "
                "guard with a larger error, fewer questions or more rows (holdfast.plan compares them).",
            )

    def _spent(
        self, question: Question, account: Account, reason: str, *, advice: str = _FRESH_ROWS
    ) -> BudgetSpent:
        return BudgetSpent(
            f"{question.text} cannot be answered. {reason}. {advice}",
            asked=1.0,
            spent=self.spent(account),
            left=float(self.left(account)),
            unit=self.unit,
        )


def _reading(question: Question, nats: float, rows: int, tail: Tail | None) -> Reading:
    if tail is not None:
        return MeanOfDependentRows(question, nats, None, tail, rows)
    if question.binary:
        return Share(question, nats, None, rows)
    return BoundedMean(question, nats, None, rows)


def _refuse_others(question: Question) -> None:
    if isinstance(question, StatisticQuestion) or question.kind == "quantile":
        raise QueryRejected(
            "With agreed numbers every answer is the mean of a bounded expression, or a share: the cells are "
            "counted over its range. Ask for shares, share(x <= t), or use strategy='code'."
        )
    if question.filtered:
        raise QueryRejected(
            "With agreed numbers the width of an answer may not depend on how many rows pass a filter. Ask "
            "for the share of rows that pass and the mean of an expression that is 0 elsewhere, or use "
            "strategy='code'."
        )
