"""Answerers to attack: plain averages, the code guard on counts, and any guard through its own door."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.audit._counted import CountedGuard, CountedShare
from holdfast.audit.attacks._protocol import Answerer, Question, Rows
from holdfast.errors import InvalidArgument
from holdfast.intervals import hoeffding
from holdfast.records import Record
from holdfast.tails import BoundedDifferences, Tail

if TYPE_CHECKING:
    from holdfast.guard import Guard


@dataclass(frozen=True, repr=False)
class Told(Record):
    """An answer with its interval."""

    value: float
    low: float
    high: float


def naive(rows: Rows, *, failure: float | None = None) -> Answerer:
    """Plain averages over the same rows, again and again; with ``failure``, each with a Hoeffding interval
    that takes no notice of the others."""

    def answer(question: Question) -> Any:
        value = float(question(rows).mean())
        if failure is None:
            return value
        interval = hoeffding(value, len(rows), -math.log(failure))
        return Told(value, interval.low, interval.high)

    return answer


class CodeAnswerer:
    """The code guard (theory 2.2) on questions whose values are 0 and 1, thousands of answers in a second.

    Guesses come from ``training`` rows where there are some and the question brings none. ``tail`` is that
    of a mean of values in [0, 1] on these rows where they are not independent. ``cell`` is the width of the
    last cell, which is public; the first question, which nothing chose, finds it out.

    Guarantee: that of ``Guard``, whose code decides everything but how rows are counted.
    Assumes: independent rows, or rows with this ``tail`` (not checkable).
    Reference: theory 2.2.
    """

    def __init__(
        self,
        rows: Rows,
        training: Rows | None = None,
        *,
        failure: float = 0.05,
        tail: Tail | None = None,
        charges: bool = True,
    ) -> None:
        self._rows, self._training = rows, training
        self._guard = CountedGuard(
            len(rows),
            0 if training is None else len(training),
            failure=failure,
            charges=charges,
            tail=tail,
        )
        self.cell = 0.0

    def __call__(self, question: Question) -> Told:
        guess, seen = question.guess, 0
        if self._training is not None:
            seen = _count(question, self._training)
            guess = seen / len(self._training) if guess is None else guess
        guess = 0.5 if guess is None else guess
        share = CountedShare(protected=_count(question, self._rows), training=seen, guess=guess)
        interval, output = self._guard.ask(share)
        self.cell = self._guard.cell
        return Told(min(1.0, max(0.0, guess + output.cell * self.cell)), interval.low, interval.high)


def _count(question: Question, rows: Rows) -> int:
    values = question(rows)
    if not np.isin(values, (0.0, 1.0)).all():
        raise InvalidArgument("question", "one whose values are 0 and 1", values, of="CodeAnswerer")
    return int(values.sum())


def through(guard: Guard, *, tail: Tail | None = None) -> Answerer:
    """A guard as an answerer, with any strategy; its columns are those of the attack's rows, in their order.

    A question that can be written as a condition is asked as ``guard.share``; any other as ``guard.custom``
    on the frame, with ``tail`` (independent rows without it), which not every strategy answers.
    """
    known = BoundedDifferences(1 / guard.rows, guard.rows) if tail is None else tail
    names = list(guard.schema)

    def answer(question: Question) -> Any:
        if question.condition is not None:
            return guard.share(question.condition(names), guess=question.guess)

        def statistic(frame: Any) -> float:
            return float(question(frame.to_numpy()).mean())

        return guard.custom(statistic, tail=known, guess=question.guess)

    return answer
