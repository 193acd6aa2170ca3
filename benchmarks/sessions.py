"""Accounts under attack: each answers questions that are given as counts, and NaN once it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from coins import Words
from numpy.typing import NDArray
from peers import GuessAndCheck, Ladder, ParameterFreeLadder, Thresholdout

from holdfast.audit.attacks._answerers import CountedBoard, CountedGuard, CountedShare
from holdfast.coding import Schedule
from holdfast.errors import BudgetSpent
from holdfast.strategies._agreed import EvenCells
from holdfast.tails import Tail

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """Rows and questions; ``stay`` is the probability with which a chain stays where it is, 0 without one."""

    rows: int
    queries: int
    stay: float = 0.0

    @property
    def half(self) -> int:
        """Rows of the training part."""
        return self.rows // 2

    @property
    def protected(self) -> int:
        """Rows that are not in the training part."""
        return self.rows - self.half


@dataclass(frozen=True)
class Seen:
    """Questions as counts: of ``half`` training rows and of the ``rows`` − ``half`` others.

    ``truths`` are their means over the population. ``on_edge`` is where the attacker puts the edge of a cell,
    for methods that take guesses; None: guesses come from the training part. ``lines`` are the rows
    themselves where predictions are compared with each other.
    """

    rows: int
    half: int
    training: Numbers
    protected: Numbers
    truths: Floats
    on_edge: float | None = None
    lines: Words | None = None

    @cached_property
    def shares(self) -> Floats:
        """The share of all rows."""
        return (self.training + self.protected) / self.rows

    @cached_property
    def guesses(self) -> Floats:
        """The share of the training part."""
        return self.training / self.half

    @cached_property
    def values(self) -> Floats:
        """The share of the rows that are not in the training part."""
        return self.protected / (self.rows - self.half)


class Session:
    """One account, attacked once. ``missed`` says that an interval of its own missed; ``widest`` is the
    half-width of the widest one it gave."""

    missed = False
    widest = math.nan

    def __init__(self, answers: Callable[[Seen], Floats] | None = None) -> None:
        self._answers = answers

    def __call__(self, seen: Seen) -> Floats:
        """An answer to every question; NaN after a refusal."""
        if self._answers is None:
            raise NotImplementedError
        return np.clip(self._answers(seen), 0.0, 1.0)


class OneByOne(Session):
    """Answers questions in turn until it refuses."""

    def __init__(self, place: Place) -> None:
        self.place, self.refused = place, False

    def __call__(self, seen: Seen) -> Floats:
        answers = np.full(len(seen.truths), np.nan)
        try:
            for number in range(0 if self.refused else len(answers)):
                answers[number] = min(1.0, max(0.0, self.answer(seen, number)))
        except BudgetSpent:
            self.refused = True
        return answers

    def answer(self, seen: Seen, number: int) -> float:
        """The answer to one question."""
        raise NotImplementedError


class Checked(OneByOne):
    """Guess and Check; guesses from the training part, or such that whether they hold tells a side."""

    def __init__(self, place: Place, width: float, failure: float) -> None:
        super().__init__(place)
        self.check, self.width = GuessAndCheck(place.protected, failure), width

    def answer(self, seen: Seen, number: int) -> float:
        guess = float(seen.guesses[number])
        if seen.on_edge is not None:
            guess = seen.on_edge + self.width - math.sqrt(self.check.nats() / (2 * self.place.protected))
        return self.check.answer(guess, self.width, float(seen.values[number]))


class Compared(OneByOne):
    """Thresholdout, or our reusable holdout, which is the same algorithm with a better promise."""

    def __init__(self, place: Place, holdout: Thresholdout) -> None:
        super().__init__(place)
        self.holdout = holdout

    def answer(self, seen: Seen, number: int) -> float:
        return self.holdout.answer(float(seen.guesses[number]), float(seen.values[number]))


class OnLadder(OneByOne):
    """The Ladder: shows the best accuracy so far."""

    def __init__(self, place: Place, step: float) -> None:
        super().__init__(place)
        self.board = Ladder(step)

    def answer(self, seen: Seen, number: int) -> float:
        return 1 - self.board.take(1 - float(seen.shares[number]))


class OnFreeLadder(OneByOne):
    """The parameter-free Ladder: it compares the predictions of two submissions row by row."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.board = ParameterFreeLadder()
        self.best: Words | None = None

    def answer(self, seen: Seen, number: int) -> float:
        risk = 1 - float(seen.shares[number])
        if risk < self.board.best:
            line, before = seen.lines[number], self.board.best
            differing = 0 if self.best is None else int(np.bitwise_count(line ^ self.best).sum())
            if self.board.take(risk, differing, seen.rows) < before:
                self.best = line.copy()
        return 1 - self.board.best


class Coded(OneByOne):
    """The code guard's own account. On a chain, whose ``tail`` it is given, it protects all rows and is
    brought every guess."""

    def __init__(self, place: Place, failure: float, tail: Tail | None = None) -> None:
        super().__init__(place)
        self.missed, self.widest, self.chain = False, 0.0, tail is not None
        parts = (place.rows, 0) if self.chain else (place.protected, place.half)
        self.guard = CountedGuard(*parts, failure=failure, tail=tail)

    def answer(self, seen: Seen, number: int) -> float:
        training, protected = int(seen.training[number]), int(seen.protected[number])
        guess = 0.5 if self.chain else None
        if seen.on_edge is not None:
            cell = 0.0 if math.isnan(self.guard.cell) else self.guard.cell
            guess = min(1.0, seen.on_edge + cell / 2)
        share = CountedShare(
            protected=training + protected if self.chain else protected,
            training=0 if self.chain else training,
            guess=guess,
        )
        prepared, output = self.guard.reveal(share)
        low, high = prepared.grid.edges(output.cell)
        truth = float(seen.truths[number])
        # An interval holds its cell: most need no computing.
        if number == len(seen.truths) - 1 or not low <= truth <= high:
            interval = prepared.interval(output)
            self.missed |= not interval.contains(truth)
            self.widest = max(self.widest, interval.half_width)
        return prepared.grid.middle(output.cell)


class Agreed(OneByOne):
    """The code guard with agreed numbers, by its own schedule: "as guessed", or a cell and the next stage."""

    def __init__(self, place: Place, schedule: Schedule, tail: Tail) -> None:
        super().__init__(place)
        self.schedule, self.tail, self.stage = schedule, tail, 0

    def answer(self, seen: Seen, number: int) -> float:
        if self.stage >= self.schedule.stages:
            raise BudgetSpent("More guesses were off than were agreed on.")
        tolerance = self.schedule.tolerance(self.tail, self.stage)
        value = float(seen.shares[number] if self.place.stay else seen.values[number])
        guess = 0.5 if self.place.stay else float(seen.guesses[number])
        if seen.on_edge is not None:
            guess = min(1.0, seen.on_edge + tolerance)
        if abs(value - guess) <= tolerance:
            return guess
        answer = middle(value, self.schedule.cells(self.stage))
        self.stage += 1
        return answer


class InCells(OneByOne):
    """The code guard with agreed numbers and no guesses: every answer is a cell, of all rows."""

    def __init__(self, place: Place, schedule: Schedule) -> None:
        super().__init__(place)
        self.schedule, self.stage = schedule, 0

    def answer(self, seen: Seen, number: int) -> float:
        answer = middle(float(seen.shares[number]), self.schedule.cells(self.stage))
        self.stage += 1
        return answer


def middle(value: float, count: int) -> float:
    """The middle of the cell of a value in [0, 1]."""
    cells = EvenCells(0.0, 1.0, count)
    return sum(cells.edges(cells.index(value))) / 2


class Climbed(OneByOne):
    """Our board, which shows the best so far and an interval for every submission."""

    def __init__(self, place: Place, failure: float) -> None:
        super().__init__(place)
        self.missed, self.widest = False, 0.0
        self.board = CountedBoard(place.rows, failure, start=0.5)

    def answer(self, seen: Seen, number: int) -> float:
        correct = int(seen.training[number] + seen.protected[number])
        interval, better = self.board.submit(correct)
        self.missed |= not interval.contains(float(seen.truths[number]))
        if better:
            self.widest = max(self.widest, interval.half_width)
        return self.board.best
