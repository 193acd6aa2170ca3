"""The code guard as methods of the planner: how wide its intervals will be before it starts.

A part of the rows becomes the free training part. The j-th answer is released on cells around the guess, at
−ln β + ln(1/w_j) + (nats spent) nats, where the weights depend on how many questions are planned
(``docs/theory/code-guard.md``). What is spent depends on what the answers reveal. One of the hypotheses of
the guard's prior counts surprises, and prices c confirmations and f surprises the same in every order; the
mixture costs little more. With agreed numbers, the errors are promised in advance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from holdfast import rounding, search
from holdfast.coding import (
    COUNTING_WEIGHT,
    FAILURE_SHARE,
    MICRO,
    ROOMS,
    Account,
    Agreement,
    Schedule,
    Weights,
    best_half_cell,
    cell_entropy,
    checked_schedule,
    forgetting_price,
    grid_schedule,
    guess_deviation,
    honest_deviations,
    lacking,
    largest_tried,
    training_share,
)
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.planning._method import KINDS, MEANS, MOST_ROWS, CertifiedError, Method, Setting
from holdfast.planning._noise import parameters_of
from holdfast.records import Record
from holdfast.strategies import TRAINING_SHARES
from holdfast.tails import Tail
from holdfast.typing import PromiseKind

Floats = npt.NDArray[np.float64]

# The first questions are computed one by one. After them, a few questions stand for all up to the next one.
_ONE_BY_ONE = 24
_PLACES = 60
# What the prior costs beyond the entropy of normal errors, until it has learned that they are.
_LEARNING = 1.0
_WIDER = np.exp(np.linspace(0.0, 4.0, 161))


@dataclass(frozen=True)
class Parts:
    """How many rows are protected and how many set aside, the tail of a mean over the former, and the total
    variation between the two and independent ones."""

    protected: int
    training: int
    tail: Tail
    bias: float


class Code(Method):
    """No noise; every surprise is paid for by later intervals (``docs/theory/code-guard.md``)."""

    name = "code"
    answers: tuple[str, ...] = KINDS
    tolerance = 1e-4

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._parts_by_size: dict[tuple[int, float], Parts] = {}

    def share(self, queries: int) -> float:
        """The share of the rows that is set aside."""
        return training_share(Weights(expect=float(queries)))

    @cached_property
    def _refusal(self) -> str:
        if not self.setting.bounded:
            return "The rows are unbounded: ask with a tail of your own and a guess."
        if self.setting.model is not None:
            try:
                self._parts(self.setting.model.n, 1)
            except InvalidArgument:
                return "Under this model no training part of our own is known to be independent of the rest."
            except NotEnoughRows:
                return ""
        return ""

    def reason(self) -> str:
        """A training part must be independent of the protected rows."""
        return self._refusal

    def unstated(self) -> str:
        """How many guesses may be off decides the width."""
        if self.setting.surprises is not None:
            return ""
        return (
            "This is only a forecast for honest guesses. Say how many answers may be surprises (surprises=…, "
            "--surprises), and it becomes a promise."
        )

    def assumptions(self, rows: int, queries: int) -> tuple[str, ...]:
        """The training part, and the surprises."""
        share = f"{'A quarter' if self.share(queries) == 1 / 4 else 'A third'} of the rows"
        part = f"{share} is a training part, free to look at, that gives the guesses."
        stated = self.setting.surprises
        if stated is None:
            often = "The guesses are as good as those from a fresh sample."
        else:
            often = (
                f"At most {stated:,} of the answers surprise: they are farther from the guess than half a "
                "cell."
            )
        return (*self.setting.assumptions, part, often)

    def _parts(self, rows: int, queries: int) -> Parts:
        share = self.share(queries)
        if (rows, share) not in self._parts_by_size:
            self._parts_by_size[rows, share] = self._split(rows, share)
        return self._parts_by_size[rows, share]

    def _split(self, rows: int, share: float) -> Parts:
        split = self.setting.rows(rows).planned_split(share, self.setting.beta)
        protected_model = split.protected_model
        return Parts(protected_model.n, split.training, protected_model.mean_tail(0.0, 1.0), split.bias)

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The half-width that is promised for the stated surprises, else the one to expect."""
        if self.reason():
            return CertifiedError(self.setting.limit, {})
        try:
            parts = self._parts(rows, queries)
        except NotEnoughRows:
            return CertifiedError(1.0, {})
        if not parts.bias < self.setting.beta:
            return CertifiedError(self.setting.limit, {})
        promised = self._promised(parts, queries, self.setting.beta - parts.bias)
        rows_of = {"protected_rows": parts.protected, "training_rows": parts.training, "bias": parts.bias}
        return CertifiedError(promised.error, {**promised.parameters, **rows_of})

    def _promised(self, parts: Parts, queries: int, beta: float) -> CertifiedError:
        """The promise on these parts."""
        stated = self.setting.surprises
        if stated is None:
            ratio = parts.protected / max(1, parts.training)
            promise = self.setting.promise
            width = expected_width(parts.tail, queries, beta, rows_a_training_row=ratio, promise=promise)
        else:
            width = promised_width(parts.tail, queries, beta, stated, promise=self.setting.promise)
        return CertifiedError(width.error, parameters_of(width))

    def rows_for(self, error: float, queries: int) -> int | None:
        """Training part included."""
        return None if self.reason() else super().rows_for(error, queries)

    def queries_for(self, error: float, rows: int) -> int:
        """How many questions fit, with the stated surprises among them."""
        return 0 if self.reason() else super().queries_for(error, rows)


@dataclass(frozen=True, repr=False)
class CodeWidth(Record):
    """How wide the k-th answer of a code guard is, and from what.

    ``error`` = ``half_cell`` + the radius of the fixed-query interval at ``nats``. With stated ``surprises``
    it bounds the half-width of every answer as long as no more questions surprise; without, it is the
    expectation for honest guesses from the training part, ``surprises`` of which are expected to surprise,
    and ``mean`` the average over all k answers.
    """

    k: int
    beta: float
    error: float
    half_cell: float
    nats: float
    surprises: float
    mean: float | None = None


def sequence_price(confirmed: Floats, surprised: Floats) -> Floats:
    """Nats for the pattern of c confirmations and f surprises, in any order: −ln(½·[f = 0] + ½ KT(c, f))."""
    learned = (
        special.gammaln(confirmed + 0.5)
        + special.gammaln(surprised + 0.5)
        - special.gammaln(confirmed + surprised + 1.0)
        - math.log(math.pi)
    )
    never = np.where(surprised == 0, 0.0, -np.inf)
    result: Floats = math.log(2.0) - np.logaddexp(never, learned)
    return result


def place_price(distance: Floats) -> Floats:
    """Nats for how many cells away a surprise lies, one width class."""
    result: Floats = np.log(2.0 * distance * (distance + 1.0)) - math.log1p(-FAILURE_SHARE)
    return result


def promised_width(
    tail: Tail, k: int, beta: float, surprises: int, *, promise: PromiseKind = "all"
) -> CodeWidth:
    """The half-width that no one of k answers exceeds, while at most ``surprises`` of them surprise.

    Guarantee: of the width, for means of values in [0, 1], by the guard's own prices with every surprise as
        far away as the range allows; the intervals hold with probability 1 − ``beta`` in any case. Where room
        for more surprises and a finer grid give a narrower answer, that is taken.
    Assumes: the stated number of surprises. Half a cell is wide enough for k honest guesses to surprise by
        chance no more than max(``beta``, allowed/20) times in expectation. So nearly all that are allowed are
        left for guesses that are really off.
    Reference: ``docs/theory/planning.md``, "The code guard".
    """
    most = k - 1
    stated = min(surprises, most)
    allowed_counts = {stated, *(count for count in ROOMS if stated < count <= most)}
    widths = (_width_for(tail, k, beta, allowed, promise) for allowed in sorted(allowed_counts))
    return min(widths, key=lambda width: width.error)


def _width_for(tail: Tail, k: int, beta: float, room: int, promise: PromiseKind) -> CodeWidth:
    """The narrowest k-th answer with room for this many surprises."""
    base = _base(k, k, beta, promise) - math.log(COUNTING_WEIGHT) + forgetting_price(k)
    half_cells = guess_deviation(tail, base) * honest_deviations(k, beta, room) * _WIDER
    nats = base + _dearest(k, room, np.maximum(1.0, np.floor(0.5 / half_cells + 0.5))) + 1.0 / MICRO
    errors = half_cells + np.array([tail.radius_at(value) for value in nats])
    best = int(np.argmin(errors))
    half_cell, dearest = float(half_cells[best]), rounding.up(float(nats[best]))
    error = rounding.up(half_cell + tail.radius_at(dearest))
    return CodeWidth(k, beta, error, half_cell, dearest, float(room))


def _dearest(k: int, room: int, farthest: Floats) -> Floats:
    """The most that k − 1 questions cost with up to ``room`` surprises, each ``farthest`` cells away.

    The price of a pattern is concave in the number f of surprises and grows with each by the price of its
    place. So it is largest at f = room, or where f/(k−1−f) reaches the exponential of that price.
    """
    place = place_price(farthest)
    turn = np.floor((k - 1) * special.expit(place))
    counts = np.stack([np.full_like(place, float(room)), *(turn + shift for shift in (-2, -1, 0, 1, 2))])
    counts = np.concatenate([np.zeros_like(place)[None, :], np.clip(counts, 0.0, float(room))])
    result: Floats = np.max(sequence_price(k - 1.0 - counts, counts) + counts * place, axis=0)
    return result


def expected_width(
    tail: Tail,
    k: int,
    beta: float,
    *,
    rows_a_training_row: float = 1.0,
    promise: PromiseKind = "all",
    expecting: bool = True,
) -> CodeWidth:
    """The half-width to be expected of the k-th answer where guesses come from a training part that has one
    row for so many protected ones, and, if ``expecting``, the guard expects k questions.

    Guarantee: none of the width: a forecast. The intervals keep their ``promise`` in any case.
    Assumes: the statistic less the guess is normal, as when the guess comes from a fresh sample.
    Reference: ``docs/theory/planning.md``, "The code guard".
    """
    account = Account(beta, weights=Weights(promise, float(k) if expecting else None))
    places = np.unique(
        np.concatenate([np.arange(1, min(k, _ONE_BY_ONE) + 1), np.geomspace(1, k, _PLACES).round()])
    ).astype(int)
    spent, widths, last_cell_and_nats = 0.0, [], (0.0, 0.0)
    for place, following in zip(places, [*places[1:], k + 1], strict=True):
        account_then = replace(account, steps=int(place) - 1, micro_nats=math.ceil(spent * MICRO))
        nats = account_then.nats() + (_LEARNING if place > 1 else 0.0)
        radius = tail.radius_at(nats)
        deviation = guess_deviation(tail, nats, rows_a_training_row)
        half_cell = best_half_cell(account_then, deviation, radius)
        widths.append(half_cell + radius)
        last_cell_and_nats = half_cell, nats
        spent += (following - place) * cell_entropy(half_cell / deviation)
    return CodeWidth(
        k=k,
        beta=beta,
        error=rounding.up(widths[-1]),
        half_cell=last_cell_and_nats[0],
        nats=rounding.up(last_cell_and_nats[1]),
        surprises=float(k * special.erfc(last_cell_and_nats[0] / (math.sqrt(2.0) * deviation))),
        mean=float(np.average(widths, weights=np.diff([*places, k + 1]))),
    )


def _base(step: int, expect: int, beta: float, promise: PromiseKind) -> float:
    """ln(1/δ) of the question at this step, before anything is spent."""
    return -math.log(beta) + Weights(promise, float(expect)).nats(step)


class AgreedCodeMethod(Code):
    """Guesses are checked. How many questions there are, and how many guesses may be off, is fixed in
    advance."""

    name = "agreed-code"
    answers = (MEANS,)

    def share(self, queries: int) -> float:
        """The share of the rows that is set aside."""
        return TRAINING_SHARES[self.name]

    def _promised(self, parts: Parts, queries: int, beta: float) -> CertifiedError:
        """Without stated surprises, what honest guesses need."""
        stated = self.setting.surprises or 0
        ratio = parts.protected / parts.training
        return self._of(checked_schedule(parts.tail, queries, beta, stated, ratio), parts.tail)

    def _of(self, schedule: Schedule | None, tail: Tail) -> CertifiedError:
        if schedule is None:
            return CertifiedError(self.setting.limit, {})
        return CertifiedError(
            schedule.error, {**_numbers(schedule, tail), "surprises": schedule.agreement.surprises}
        )


class GridCode(Method):
    """Every answer is one of few cells, on all rows; no guesses."""

    name = "grid-code"
    own_assumptions = ("The number of questions is fixed.",)
    tolerance = 1e-4

    def reason(self) -> str:
        """Cells are counted over a range."""
        return "" if self.setting.bounded else "The rows are unbounded: no range has finitely many cells."

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The least error that lasts for so many questions, with the cells of each."""
        return self._promised(rows, queries, None)

    def keeping(self, error: float, rows: int, queries: int) -> CertifiedError:
        """The same; the search starts at ``error``, which these rows just allow."""
        return self._promised(rows, queries, error)

    def _promised(self, rows: int, queries: int, near: float | None) -> CertifiedError:
        if self.reason():
            return CertifiedError(self.setting.limit, {})
        tail = self.setting.tail(rows)
        schedule = grid_schedule(tail, queries, self.setting.beta, near=near)
        if schedule is None:
            return CertifiedError(self.setting.limit, {})
        return CertifiedError(schedule.error, _numbers(schedule, tail))

    def rows_for(self, error: float, queries: int) -> int | None:
        """None if the rows are unbounded. The search asks whether one error lasts, which is faster than
        computing the least error for each number of rows."""
        if self.reason():
            return None
        if not (self.setting.normal_like and error < 1.0):
            return super().rows_for(error, queries)
        tried, agreement = largest_tried(error), Agreement(queries, self.setting.beta)
        return search.whole_root(
            lambda n: error + lacking(self.setting.tail(n), tried, agreement),
            error,
            start=max(1, round(10.0 / error**2)),
            growth=-0.5,
            most=MOST_ROWS,
        )

    def queries_for(self, error: float, rows: int) -> int:
        """0 if the rows are unbounded."""
        return 0 if self.reason() else super().queries_for(error, rows)


def _numbers(schedule: Schedule, tail: Tail) -> dict[str, object]:
    """``cells`` are pairs (number of cells, number of consecutive stages with it)."""
    last = schedule.stages - 1
    return {
        "k": schedule.agreement.queries,
        "beta": schedule.agreement.failure,
        "cells": [(run.cells, run.stages) for run in schedule.runs],
        "half_cell": schedule.tolerance(tail, last),
        "nats": schedule.nats(last),
    }
