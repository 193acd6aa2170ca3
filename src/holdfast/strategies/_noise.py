"""Strategies that add noise: calibrated to concentration, or to one row's influence.

The number k of answers is fixed in advance. Every answer is the statistic plus fresh noise, and its interval
is the certified error around it; all k hold together. A filtered question is answered as a ratio and uses two
answers. Proofs: ``docs/theory/adaptive-validity.md`` and ``docs/theory/transfer.md``.

``holdfast.plan`` uses the noise and the certified error from here too. So a guard keeps what a plan
certifies, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from holdfast import rounding
from holdfast.answers import Preview
from holdfast.coding import Account
from holdfast.dependence import Dependence, Independent
from holdfast.engines import SCALE_BITS
from holdfast.errors import QueryRejected
from holdfast.intervals import Interval, ratio
from holdfast.mechanisms import Noise
from holdfast.readings import Part, Question, StatisticQuestion
from holdfast.stability import (
    TransferError,
    TypicalError,
    transfer_error,
    typical_gaussian_error,
    typical_laplace_error,
)
from holdfast.strategies._fixed import FixedNumber, outcome_of, preview_of
from holdfast.strategies._left import tail_of_bounded_mean
from holdfast.strategies._strategy import Outcome
from holdfast.tails import BoundedDifferences, SubGaussian, Tail

RESOLUTION = 2.0**-SCALE_BITS
"""How far scaling values in [0, 1] to integers can move their mean."""

# The ends of an interval in [0, 1] are rounded to floats.
_ENDS = 2.0**-50
_UNIT = SubGaussian(1.0)


@dataclass(frozen=True)
class Calibrated:
    """Noise for one question (None: it needs no noise), and the certified error of its answer."""

    noise: Noise | None
    error: float

    def add(self, value: float) -> float:
        """The value with fresh noise, from the operating system's randomness."""
        return value if self.noise is None else float(self.noise.add(value))

    def promise(self, planned: float) -> float:
        """The error that can be promised for shares, and for means of values in [0, 1], if this is the noise
        for them. An error of ``planned`` was certified for noise without a grid."""
        return promised_with(max(self.error, planned))


def promised_with(error: float) -> float:
    """An error for means in [0, 1], plus what scaling values to integers and rounding the ends of an interval
    add to it."""
    return rounding.up(error + RESOLUTION + _ENDS)


def typical_plan(kind: str, tail: Tail, k: int, beta: float) -> TypicalError:
    """The least certified error of k answers to queries with this tail, with Laplace or Gaussian noise."""
    if isinstance(tail, (SubGaussian, BoundedDifferences)):
        return _scaled(_unit_plan(kind, k, beta), tail)
    return _LEAST[kind](tail, k, beta)


_LEAST = {"gaussian": typical_gaussian_error, "laplace": typical_laplace_error}


@lru_cache(maxsize=1024)
def _unit_plan(kind: str, k: int, beta: float) -> TypicalError:
    return _LEAST[kind](_UNIT, k, beta)


def _scaled(unit: TypicalError, tail: Tail) -> TypicalError:
    """The same promise for another tail: only the ratio of noise to radius enters it."""
    radius = tail.radius_at(-unit.log_nu)
    scale = rounding.up(unit.scale / unit.radius * radius)
    noise = rounding.up(unit.noise / unit.radius * radius)
    return replace(unit, error=rounding.up(radius + noise), radius=radius, scale=scale, noise=noise)


def typical_noise(plan: TypicalError, tail: Tail) -> Calibrated:
    """The noise for one of the planned answers, to a query with this tail.

    A single answer needs no noise: nothing is chosen after it, so the radius alone is its error.
    """
    radius = tail.radius_at(-plan.log_nu)
    if plan.k == 1:
        return Calibrated(None, radius)
    noise = Noise.hiding(plan.kind, radius, plan.radius / plan.scale)
    return Calibrated(noise, rounding.up(radius + noise.error(plan.b1, answers=plan.k)))


def transfer_noise(plan: TransferError, width: float = 1.0) -> Calibrated:
    """The noise for one of the planned answers, to a mean whose range has this width."""
    noise = Noise.hiding("gaussian", width / plan.n, 1 / (plan.n * plan.sd))
    return Calibrated(noise, rounding.up(width * plan.generalization + noise.error(plan.b1, answers=plan.k)))


def best_transfer_plan(n: int, k: int, beta: float) -> TransferError:
    """The plan of the two transfer theorems with the smaller error."""
    plans = [transfer_error(n, k, beta, method=method) for method in ("information", "jung")]
    return min(plans, key=lambda plan: transfer_noise(plan).error)


@dataclass(frozen=True)
class PreparedNoise:
    """A question and its noise: everything here is public."""

    question: Question
    whole: Calibrated  # for the question as it stands
    unit: Calibrated  # for a share; a filtered mean is made of shares
    error: float | None
    theorem: str
    numbers: dict[str, Any]

    reading = None

    @property
    def answers(self) -> int:
        """How many answers the question uses up."""
        return 2 if self.question.filtered else 1

    @property
    def worst_price(self) -> float:
        """The number of answers it uses up, whatever the outcome."""
        return float(self.answers)

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book distinguishes this plan from others."""
        return {"answers": self.answers, **self.numbers}

    def failed(self) -> Outcome:
        """A failure costs as much as any answer."""
        return Outcome(self.worst_price, surprise=True, released=None)

    def preview(self) -> Preview:
        """What the question would cost and show; a ratio is shown as if all rows passed."""
        return preview_of(self.question, self.half_width, self.answers, error=self.error, failure_closes=True)

    @property
    def half_width(self) -> float:
        """The most that half the answer's interval can measure; with a filter, if all rows pass it."""
        width = self.question.high - self.question.low
        return min(self.whole.error + self._rounding, width / 2) if math.isfinite(width) else self.whole.error

    @property
    def _rounding(self) -> float:
        """What scaling values to integers and rounding the interval's ends to floats can add to the error."""
        question = self.question
        return question.resolution + 2.0**-51 * max(abs(question.low), abs(question.high))

    def read(self, part: Part) -> Outcome:
        """Read the rows once and add fresh noise, from the operating system's randomness."""
        question = self.question
        if isinstance(question, StatisticQuestion):
            value = self.whole.add(question.value(part))
            interval = Interval(value - self.whole.error, value + self.whole.error)
        elif question.filtered:
            value, interval = self._ratio(part)
        else:
            # Noise is added before ``low``. A float as large as ``low`` may have too few digits: then one row
            # could move the sum by more than its influence.
            width = question.high - question.low
            value = question.low + self.whole.add(width * question.moments(part).position)
            reach = self.whole.error + self._rounding
            interval = Interval(value - reach, value + reach)
        return outcome_of(
            question,
            value,
            interval,
            self.answers,
            theorem=self.theorem,
            numbers=self.numbers,
            # The answers show how many rows a filter passes; without a filter the width was agreed to
            # beforehand.
            error=self.error if question.filtered else None,
        )

    def _ratio(self, part: Part) -> tuple[float, Interval]:
        """The filtered mean as E[f·1]/E[1], both noisy, and both within their error at the same time."""
        question, moments = self.question, self.question.moments(part)
        width = question.high - question.low
        share = moments.rows / part.rows.count
        scaled = share * moments.position if moments.rows else 0.0
        top, bottom = self.unit.add(scaled), self.unit.add(share)
        reach = self.unit.error + question.resolution / width
        inside = ratio(
            Interval(top - reach, top + reach), Interval(bottom - self.unit.error, bottom + self.unit.error)
        )
        middle = min(max(top / bottom, inside.low), inside.high) if bottom > 0 else inside.middle
        return question.low + width * middle, Interval(
            question.low + width * inside.low, question.low + width * inside.high
        )


@dataclass(frozen=True)
class TypicalNoise(FixedNumber):
    """Laplace or Gaussian noise calibrated to the tail of a fixed query; any dependence."""

    model: Dependence
    kind: str
    plan: TypicalError
    promised: float | None

    failure_closes = True  # A failure would be an answer without noise.

    @classmethod
    def of(
        cls, kind: str, queries: int, failure: float, model: Dependence, promised: float | None
    ) -> TypicalNoise:
        """The least certified error for ``queries`` answers to the widest question for which the model has a
        tail."""
        # The tail of the widest question that the model answers: a share, or the mean of the rows.
        return cls(queries, model, kind, typical_plan(kind, model.mean_tail(), queries, failure), promised)

    @property
    def theorem(self) -> str:
        """The theorem that certificates name."""
        return "adaptive validity with noise calibrated to concentration (docs/theory/adaptive-validity.md)"

    def prepare(self, question: Question, account: Account) -> PreparedNoise:
        """Choose the noise without reading the rows: only the tail of the question decides it."""
        _refuse_quantiles(question)
        if isinstance(question, StatisticQuestion):
            tail = unit = question.tail
        else:
            tail = tail_of_bounded_mean(self.model, question.low, question.high)
            unit = self.model.mean_tail(0.0, 1.0)
        prepared = PreparedNoise(
            question=question,
            whole=typical_noise(self.plan, tail),
            unit=typical_noise(self.plan, unit),
            error=self.promised,
            theorem=f"{self.kind} noise" if self.queries > 1 else "the tail of a single question",
            numbers={
                "question": account.steps + 1,
                "answers agreed on": self.queries,
                "tail of a fixed query": math.exp(self.plan.log_nu),
                "failure of the noise": self.plan.b1,
                "failure of adaptivity": self.plan.b2,
            },
        )
        self.require(question, account, prepared.answers)
        self.require_within(question, account, prepared.half_width, self.promised)
        return prepared


@dataclass(frozen=True)
class TransferNoise(FixedNumber):
    """Gaussian noise calibrated to one row's influence; independent rows and bounded values only."""

    plan: TransferError
    promised: float | None

    failure_closes = True  # A failure would be an answer without noise.

    @classmethod
    def of(cls, queries: int, failure: float, model: Dependence, promised: float | None) -> TransferNoise:
        """The better of the two transfer theorems for ``queries`` answers to means in [0, 1]."""
        if not isinstance(model, Independent):
            raise QueryRejected(
                "strategy='transfer-gaussian' needs independent rows; use 'typical-gaussian' or 'code' for "
                f"{model.name}."
            )
        return cls(queries, best_transfer_plan(model.n, queries, failure), promised)

    @property
    def theorem(self) -> str:
        """The theorem that certificates name."""
        return f"transfer for independent rows, {self.plan.method} (docs/theory/transfer.md)"

    def prepare(self, question: Question, account: Account) -> PreparedNoise:
        """Choose the noise without reading the rows: only the range of the question decides it."""
        _refuse_quantiles(question)
        if isinstance(question, StatisticQuestion):
            raise QueryRejected(
                "A statistic with a declared tail needs strategy='typical-gaussian', "
                "'typical-laplace' or 'code'."
            )
        prepared = PreparedNoise(
            question=question,
            whole=transfer_noise(self.plan, question.high - question.low),
            unit=transfer_noise(self.plan),
            error=self.promised,
            theorem="Gaussian noise",
            numbers={
                "question": account.steps + 1,
                "answers agreed on": self.queries,
                "failure of the noise": self.plan.b1,
                "failure of adaptivity": self.plan.b2,
            },
        )
        self.require(question, account, prepared.answers)
        self.require_within(question, account, prepared.half_width, self.promised)
        return prepared


def _refuse_quantiles(question: Question) -> None:
    if question.kind == "quantile":
        raise QueryRejected(
            "Strategies with noise answer means and shares. Ask for shares, share(x <= t), or use "
            "strategy='code'."
        )
