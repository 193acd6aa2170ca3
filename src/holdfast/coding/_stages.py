"""Agreed numbers: what the code guard can promise if the number of questions is fixed in advance.

Every question is answered at a *stage*. With guesses, the stage is how many questions have surprised so far;
without, it is how many were answered. Few symbols move an account to the next stage: a cell of an even grid
over the range, or that the rows could not be read. So the ways to reach a stage can be counted, and no prior
is needed: the union bound covers exactly the possible transcripts. Under a promised error early stages are
read at small nats, so their cells are wide and few. Proofs: ``docs/theory/code-guard.md``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from holdfast import search
from holdfast.coding._account import MICRO
from holdfast.records import Record
from holdfast.tails import Tail

# Values enter means as whole multiples of 2⁻²⁴ of their range; twice that is set aside from every promised
# error.
RESERVE = 2.0**-23
ROOMS = tuple(round(1.5**power) for power in range(52))
_CHANCE = 0.05  # of the surprises that are allowed, the share that honest guesses may use up
_LEAST_DEVIATIONS = 0.3
_MOST_CELLS = 1e6
_MOST_CHECKED = 1000  # with more surprises than this, answers without guesses are better
_FINENESS = 1e-7
_BARELY = 1e-12

# A run in plain numbers: its first stage, its stages, nats and cells, and the cost of one stage.
_Stretch = tuple[int, int, float, int, float]


def honest_deviations(queries: int, failure: float, surprises: int) -> float:
    """The half-cell, in standard deviations of a guess's error, at which honest guesses surprise by chance at
    most max(``failure``, surprises/20) times in expectation.

    Args:
        queries: How many questions there are.
        surprises: How many guesses may be off.
    """
    from scipy import special

    by_chance = max(failure, _CHANCE * surprises) / queries
    return max(_LEAST_DEVIATIONS, float(-special.ndtri(min(0.5, by_chance / 2.0))))


def guess_deviation(tail: Tail, nats: float, rows_a_training_row: float = 1.0) -> float:
    """The deviation of statistic − guess, if both were normal with this tail's radius at these nats, and if
    the guess came from a training part with one row for so many protected ones.

    Args:
        tail: The tail of a mean of values in [0, 1].
        nats: ln of one over the error probability of a question, at least 0.
        rows_a_training_row: How many protected rows there are for each training row.
    """
    return tail.radius_at(nats) * math.sqrt((1.0 + rows_a_training_row) / (2.0 * (nats + math.log(2.0))))


def price(cells: int) -> float:
    """Nats for one of so many cells, or for a failure to read: all of them are equally likely.

    Args:
        cells: How many cells there are.
    """
    return math.log(cells + 1)


@dataclass(frozen=True, repr=False)
class Agreement(Record):
    """What is agreed before the first question: the number of questions, the probability that may fail, and
    how many guesses may be off (None: there are no guesses, and every answer is a cell).

    Args:
        queries: How many questions there are.
        failure: The probability with which any interval of the account may miss.
        surprises: How many guesses may be off. None: there are no guesses.
    """

    queries: int
    failure: float
    surprises: int | None = None

    @property
    def stages(self) -> int:
        """How many stages there are at which a question is answered."""
        return self.queries if self.surprises is None else min(self.surprises, self.queries - 1) + 1

    def nats(self, stage: int, spent: float) -> float:
        """ln(1/δ) of a question at a stage, after so many nats were spent on the way to it. One
        thousand-millionth more covers the rounding of sums of logarithms.

        Args:
            stage: How many surprises there were before, or how many answers if there are no guesses.
            spent: Nats that were spent so far.
        """
        patterns = 0.0
        if self.surprises is not None:
            patterns = sum(math.log((self.queries - earlier) / (earlier + 1)) for earlier in range(stage + 1))
        return math.log(self.stages) - math.log(self.failure) + patterns + spent + 1e-9


@dataclass(frozen=True, repr=False)
class Run(Record):
    """``stages`` consecutive stages with the same number of ``cells``, the first of them read at ``nats``."""

    first: int
    stages: int
    nats: float
    cells: int

    @property
    def step(self) -> float:
        """The cost of moving from one of these stages to the next."""
        return _step(self.cells)


def runs(tail: Tail, error: float, agreement: Agreement) -> Iterator[Run]:
    """The stages of an agreement under a promised ``error`` in [0, 1], each with the fewest cells that keep
    it. There are fewer stages than agreed if the error does not last.

    Guarantee: at stage s questions are read at δ_s = β/(S·W_s·Π_{l<s} M_l) or less. S is the number of stages
    and M_l the number of symbols that lead on from stage l. W_s is C(k, s+1) with guesses and 1 without. Half
    a cell and the radius at δ_s are together at most ``error``.
    Reference: docs/theory/code-guard.md, "Agreed numbers".

    Args:
        tail: The tail of a mean of values in [0, 1].
        agreement: What was agreed on before the first question.
    """
    for first, stages, nats, cells, _ in _stretches(tail, error, agreement):
        yield Run(first, stages, nats, cells)


def _stretches(tail: Tail, error: float, agreement: Agreement) -> Iterator[_Stretch]:
    """The same as plain numbers, because a search goes through them many times."""
    return (
        _in_cells(tail, error, agreement) if agreement.surprises is None else _guessed(tail, error, agreement)
    )


def _in_cells(tail: Tail, error: float, agreement: Agreement) -> Iterator[_Stretch]:
    room, all_stages = error - RESERVE, agreement.stages
    stage, nats = 0, agreement.nats(0, 0.0)
    cells = _fewest_cells(room - tail.radius_at(nats))
    while cells and stage < all_stages:
        step, stages = _step(cells), 1
        onward = nats + step
        next_cells = _fewest_cells(room - tail.radius_at(onward)) if stage + 1 < all_stages else 0
        if next_cells == cells:
            limit = max(nats, tail.gamma(room - 0.5 / cells))
            stages = min(math.floor((limit - nats) / step) + 1, all_stages - stage)
            onward = nats + stages * step
            next_cells = _fewest_cells(room - tail.radius_at(onward)) if stage + stages < all_stages else 0
        yield stage, stages, nats, cells, step
        stage, nats, cells = stage + stages, onward, next_cells


def _guessed(tail: Tail, error: float, agreement: Agreement) -> Iterator[_Stretch]:
    room = error - RESERVE
    nats = agreement.nats(0, 0.0)
    limit, cells = -math.inf, 0
    for stage in range(agreement.stages):
        if stage:
            nats += math.log((agreement.queries - stage) / (stage + 1))
        if nats > limit:
            cells = _fewest_cells(room - tail.radius_at(nats))
            if not cells:
                return
            limit = max(nats, tail.gamma(room - 0.5 / cells))
        step = _step(cells)
        yield stage, 1, nats, cells, step
        nats += step


def _step(cells: int) -> float:
    """The cost of moving on from a stage: its cells and a failure to read are equally likely. One micro-nat
    is added for rounding up."""
    return price(cells) + 1.0 / MICRO


def _fewest_cells(half_width: float) -> int:
    """The fewest even cells of [0, 1] with at most this half-width; 0 if that takes too many."""
    return math.ceil(0.5 / half_width) if 2.0 * half_width * _MOST_CELLS > 1.0 else 0


@dataclass(frozen=True, repr=False)
class Schedule(Record):
    """The stages of an agreement under a promised error of means of values in [0, 1].

    Args:
        agreement: What was agreed on before the first question.
        error: The half-width that every answer is promised, in [0, 1].
        runs: Stages in a row with the same number of cells, from the first on.
    """

    agreement: Agreement
    error: float
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, tail: Tail, error: float, agreement: Agreement) -> Schedule | None:
        """The schedule; None if the error does not last.

        Args:
            tail: The tail of a mean of values in [0, 1].
            error: The half-width that every answer is promised, in [0, 1].
            agreement: What was agreed on before the first question.
        """
        schedule = cls(agreement, error, tuple(runs(tail, error, agreement)))
        return schedule if schedule.stages == agreement.stages else None

    @property
    def stages(self) -> int:
        """How many stages it lasts."""
        return self.runs[-1].first + self.runs[-1].stages if self.runs else 0

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        return tuple(run.first for run in self.runs)

    def nats(self, stage: int) -> float:
        """ln(1/δ) of questions at a stage.

        Args:
            stage: How many surprises there were before, or how many answers if there are no guesses.
        """
        run = self._run(stage)
        return run.nats + (stage - run.first) * run.step

    def cells(self, stage: int) -> int:
        """The number of cells at a stage.

        Args:
            stage: How many surprises there were before, or how many answers if there are no guesses.
        """
        return self._run(stage).cells

    def cells_at(self, tail: Tail, stage: int, nats: float) -> int:
        """The number of cells at a stage that was reached for so many nats: as planned, or more if other
        processes were reading at the same time and it cost more. 0 if the error cannot be kept.

        Args:
            tail: The tail of a mean of values in [0, 1].
            stage: How many surprises there were before, or how many answers if there are no guesses.
            nats: ln of one over the error probability of a question, at least 0.
        """
        if nats <= self.nats(stage):
            return self.cells(stage)
        return _fewest_cells(self.room(tail, nats))

    def _run(self, stage: int) -> Run:
        return self.runs[bisect_right(self._firsts, stage) - 1]

    def tolerance(self, tail: Tail, stage: int) -> float:
        """How far a guess may be off at a stage, in [0, 1], and still be confirmed within the error.

        Args:
            tail: The tail of a mean of values in [0, 1].
            stage: How many surprises there were before, or how many answers if there are no guesses.
        """
        return self.room(tail, self.nats(stage))

    def room(self, tail: Tail, nats: float) -> float:
        """What the error leaves besides the radius at so many nats: half a cell, or the error of a guess.

        Args:
            tail: The tail of a mean of values in [0, 1].
            nats: ln of one over the error probability of a question, at least 0.
        """
        return self.error - RESERVE - tail.radius_at(nats)


def lacking(tail: Tail, error: float, agreement: Agreement, least: float = 0.0) -> float:
    """About how much too small an error is to last: at most 0 if it lasts, and above 0 if not. The half-cell
    at the last stage, the narrowest, is at least ``least``. An error that lasts still lasts if it is larger,
    or if there are more rows.

    Args:
        tail: The tail of a mean of values in [0, 1].
        error: The half-width that every answer is promised, in [0, 1].
        agreement: What was agreed on before the first question.
    """
    no_stages = (0, 0, agreement.nats(0, 0.0), 1, _step(1))
    first, stages, nats, _, step = deque(chain([no_stages], _stretches(tail, error, agreement)), maxlen=1)[0]
    half_cell = error - RESERVE - tail.radius_at(nats + (agreement.stages - 1 - first) * step)
    missing = max(least, 0.5 / _MOST_CELLS) - half_cell
    lasts = first + stages == agreement.stages and half_cell >= least
    return min(missing, 0.0) if lasts else max(missing, _BARELY)


def least_error(
    tail: Tail,
    agreement: Agreement,
    *,
    least: float = 0.0,
    below: float = 1.0,
    near: float | None = None,
) -> float | None:
    """The least error in [0, 1] that lasts, up to 10⁻⁷ of it; None if no error below the limit ``below``
    lasts. ``near`` is an error that is thought to last, just barely. It does not change the result; it makes
    the search faster.

    Args:
        tail: The tail of a mean of values in [0, 1].
        agreement: What was agreed on before the first question.
        least: The least half-width of a cell.
    """
    low, high = least, below
    failing, lasting = -math.inf, math.inf

    def lasts(error: float) -> bool:
        nonlocal failing, lasting
        if failing < error < lasting:
            if lacking(tail, error, agreement, least) <= 0.0:
                lasting = error
            else:
                failing = error
        return error >= lasting

    if near is not None and lasts(near):
        beyond = _FINENESS * near
        while beyond < near and lasts(near - beyond):
            beyond *= 16.0
    if not low < high or not lasts(high):
        return None
    return search.edge(lasts, high, low, relative=_FINENESS)


def largest_tried(error: float) -> float:
    """The error that decides whether :func:`least_error` returns at most ``error``, a number in (0, 1): the
    largest that the search tries up to ``error``. The least error is at most ``error`` if and only if this
    one lasts."""
    return search.edge(lambda tried: tried <= error, 0.0, 1.0, relative=_FINENESS)


def grid_schedule(tail: Tail, queries: int, failure: float, *, near: float | None = None) -> Schedule | None:
    """The least error without guesses: every answer is a cell.

    Guarantee: all k intervals hold with probability 1 − ``failure`` and none has a larger half-width.
    Reference: docs/theory/code-guard.md, "Agreed numbers".

    Args:
        tail: The tail of a mean of values in [0, 1].
        queries: How many questions there are.
        near: An error that is thought to last. It only saves time.
    """
    agreement = Agreement(queries, failure)
    error = least_error(tail, agreement, near=near)
    return None if error is None else Schedule.of(tail, error, agreement)


def checked_schedule(
    tail: Tail, queries: int, failure: float, surprises: int, rows_a_training_row: float = 1.0
) -> Schedule | None:
    """The least error with guesses, at most ``surprises`` of which are off. If room for more surprises and a
    narrower cell give a smaller error, they are taken.

    Guarantee: all intervals hold with probability 1 − ``failure`` and none has a larger half-width; no
        question is refused before more guesses were off than were agreed on.
    Assumes: nothing for the intervals. Cells are wide enough for honest guesses (:func:`honest_deviations`).
    Reference: docs/theory/code-guard.md, "Agreed numbers".

    Args:
        tail: The tail of a mean of values in [0, 1].
        queries: How many questions there are.
        rows_a_training_row: How many protected rows there are for each training row.
    """
    deviation = guess_deviation(tail, math.log(queries / failure), rows_a_training_row)
    fewest, best = min(surprises, queries - 1), None
    for allowed in (fewest, *(more for more in ROOMS if fewest < more < queries)):
        if allowed > _MOST_CHECKED:
            break
        agreement = Agreement(queries, failure, allowed)
        least = deviation * honest_deviations(queries, failure, allowed)
        below = 1.0 if best is None else best[0] * (1.0 - _FINENESS)
        error = least_error(tail, agreement, least=least, below=below)
        best = best if error is None else (error, agreement)
    return None if best is None else Schedule.of(tail, *best)
