"""Sample splitting: every question gets rows of its own, and an ordinary interval at confidence β/k.

The oldest valid method, and the yardstick for the others. Independent rows only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from holdfast import intervals
from holdfast.coding import Account
from holdfast.dependence import Dependence, Independent
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.guard._answer import Preview
from holdfast.guard._fixed import FixedNumber, outcome_of, preview_of
from holdfast.guard._question import Part, Question, TableQuestion
from holdfast.guard._strategy import Outcome
from holdfast.intervals import Interval


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

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book tells this plan from others."""
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
        """What half the interval measures at least: all values at one end of the range, and none filtered
        out. 0 for quantiles, which rest on the values themselves."""
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
    failure_closes = False  # A failure tells about rows that no other question reads.

    @classmethod
    def of(cls, queries: int, failure: float, model: Dependence, promised: float | None) -> Splitting:
        """Blocks for ``queries`` questions; each interval fails with probability ``failure``/queries."""
        if not isinstance(model, Independent):
            raise QueryRejected(f"strategy='split' needs independent rows; use 'code' for {model.name}.")
        if model.n < queries:
            raise NotEnoughRows(queries, model.n, what=f"Splitting into {queries:,} parts")
        return cls(queries, model.n // queries, math.log(queries / failure), promised)

    def prepare(self, question: Question, account: Account) -> PreparedSplit:
        """Give the question the next block of rows. Blocks of questions that failed are not used again."""
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
