"""Strategies that add noise: calibrated to concentration (theory 2.1), or to one row's influence (theory 6).

The number k of answers is fixed in advance. Every answer is the statistic plus fresh noise, and its interval
is the certified error around it; all k hold together. A filtered question is answered as a ratio and uses two
answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast.dependence import Dependence, Independent
from holdfast.errors import QueryRejected
from holdfast.guard._account import Account
from holdfast.guard._answer import Preview
from holdfast.guard._fixed import FixedNumber, outcome_of, preview_of
from holdfast.guard._model_tails import tail_of_bounded_mean
from holdfast.guard._question import Part, Question, StatisticQuestion
from holdfast.guard._strategy import Outcome
from holdfast.intervals import Interval, ratio
from holdfast.mechanisms import Noise
from holdfast.stability import (
    TransferError,
    TypicalError,
    transfer_error,
    typical_gaussian_error,
    typical_laplace_error,
)
from holdfast.tails import Tail


@dataclass(frozen=True)
class Calibrated:
    """Noise for one question, and the certified error of its answer."""

    noise: Noise
    error: float


@dataclass(frozen=True)
class PreparedNoise:
    """A question and its noise: everything here is public."""

    question: Question
    whole: Calibrated  # for the question as it stands
    unit: Calibrated  # for a share, which a ratio is made of
    error: float | None
    theorem: str
    numbers: dict[str, Any]

    @property
    def answers(self) -> int:
        """How many answers the question uses up."""
        return 2 if self.question.filtered else 1

    @property
    def worst_price(self) -> float:
        """The answers it uses up, whatever comes out."""
        return float(self.answers)

    failure_price = worst_price

    def preview(self) -> Preview:
        """What the question would cost and show; a ratio is shown as if all rows passed."""
        return preview_of(self.question, self.whole.error, self.answers, failure_closes=True)

    def read(self, part: Part) -> Outcome:
        """Read the rows once and add fresh noise, from the operating system's randomness."""
        question = self.question
        if isinstance(question, StatisticQuestion):
            value = self.whole.noise.add(question.value(part))
            interval = Interval(value - self.whole.error, value + self.whole.error)
        elif question.filtered:
            value, interval = self._ratio(part)
        else:
            value = self.whole.noise.add(question.moments(part).mean)
            reach = self.whole.error + question.resolution
            interval = Interval(value - reach, value + reach)
        return outcome_of(
            question,
            value,
            interval,
            self.answers,
            theorem=self.theorem,
            numbers=self.numbers,
            error=self.error,
        )

    def _ratio(self, part: Part) -> tuple[float, Interval]:
        """The filtered mean as E[f·1]/E[1], both noisy and both within their error at once."""
        question, moments = self.question, self.question.moments(part)
        width = question.high - question.low
        share = moments.rows / part.rows.count
        scaled = share * (moments.mean - question.low) / width if moments.rows else 0.0
        top, bottom = self.unit.noise.add(scaled), self.unit.noise.add(share)
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
    """Laplace or Gaussian noise calibrated to how far a fixed query can be from its mean; any dependence."""

    model: Dependence
    kind: str
    plan: TypicalError
    promised: float | None

    failure_closes = True  # A failure would be an answer without noise.

    @classmethod
    def of(
        cls, kind: str, queries: int, failure: float, model: Dependence, promised: float | None
    ) -> TypicalNoise:
        """The least certified error for ``queries`` answers about means in [0, 1] under the model."""
        least = {"gaussian": typical_gaussian_error, "laplace": typical_laplace_error}[kind]
        tail = tail_of_bounded_mean(model, 0.0, 1.0)
        return cls(queries, model, kind, least(tail, queries, failure), promised)

    @property
    def theorem(self) -> str:
        """The theorem on certificates."""
        return "adaptive validity with noise calibrated to concentration (docs/theory/adaptive-validity.md)"

    def prepare(self, question: Question, account: Account) -> PreparedNoise:
        """Choose the noise without reading the rows: only the tail of the question decides it."""
        _refuse_quantiles(question)
        tail = question.tail if isinstance(question, StatisticQuestion) else None
        prepared = PreparedNoise(
            question=question,
            whole=self._calibrated(tail or self.model.mean_tail(question.low, question.high)),
            unit=self._calibrated(self.model.mean_tail(0.0, 1.0)),
            error=self.promised,
            theorem=f"{self.kind} noise",
            numbers={
                "question": account.steps + 1,
                "answers agreed on": self.queries,
                "tail of a fixed query": math.exp(self.plan.log_nu),
                "failure of the noise": self.plan.b1,
                "failure of adaptivity": self.plan.b2,
            },
        )
        self.require(question, account, prepared.answers)
        return prepared

    def _calibrated(self, tail: Tail) -> Calibrated:
        radius = tail.radius_at(-self.plan.log_nu)
        if self.queries == 1:
            # One answer needs no noise: nothing was chosen after it. The plan's radius alone is its error.
            noise = Noise.of(self.kind, radius * 2.0**-30)
        else:
            noise = Noise.hiding(self.kind, radius, self.plan.radius / self.plan.scale)
        return Calibrated(noise, radius + noise.error(self.plan.b1, answers=self.queries))


@dataclass(frozen=True)
class TransferNoise(FixedNumber):
    """Gaussian noise calibrated to one row's influence; independent rows and bounded values only."""

    plan: TransferError
    promised: float | None

    failure_closes = True  # A failure would be an answer without noise.

    @classmethod
    def of(cls, queries: int, failure: float, model: Dependence, promised: float | None) -> TransferNoise:
        """The better of the two transfer theorems for ``queries`` answers about means in [0, 1]."""
        if not isinstance(model, Independent):
            raise QueryRejected(
                "strategy='transfer-gaussian' needs independent rows; use 'typical-gaussian' or 'code' for "
                f"{model.name}."
            )
        plans = [
            transfer_error(model.n, queries, failure, method=method) for method in ("information", "jung")
        ]
        return cls(queries, min(plans, key=lambda plan: plan.error), promised)

    @property
    def theorem(self) -> str:
        """The theorem on certificates."""
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
            whole=self._calibrated(question.high - question.low),
            unit=self._calibrated(1.0),
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
        return prepared

    def _calibrated(self, width: float) -> Calibrated:
        influence = width / self.plan.n
        noise = Noise.hiding("gaussian", influence, 1 / (self.plan.n * self.plan.sd))
        return Calibrated(
            noise, width * self.plan.generalization + noise.error(self.plan.b1, answers=self.queries)
        )


def _refuse_quantiles(question: Question) -> None:
    if question.kind == "quantile":
        raise QueryRejected(
            "Strategies with noise answer means and shares. Ask for shares, share(x <= t), or use "
            "strategy='code'."
        )
