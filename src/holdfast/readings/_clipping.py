"""Whether more values were clipped than the training part predicts: one bit, priced like any output.

Values outside the bounds of a question are clipped. The training part shows which share of them to expect.
From that follows a share that samples of the same distribution hardly ever exceed. The answer says whether
the protected rows exceed it. That is paid for: almost nothing if they do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from holdfast import queries
from holdfast.intervals import clopper_pearson
from holdfast.queries import Expression, Query
from holdfast.readings._question import Moments, Part, Question, TableQuestion

# The assumed probability that more is clipped than predicted. A smaller number would make most answers
# cheaper, but all of them reserve the highest price.
_SUPPOSED = 1 / 100
# The predicted share is exceeded about so rarely: once in 8,000 for the training part, and at four deviations
# of the protected rows.
_NATS, _DEVIATIONS = 9.0, 4.0


@dataclass(frozen=True)
class Clipping:
    """The share of rows whose values lie outside their bounds, and the training part.

    ``parts`` are the questions that count them: a mean, whose sums count them too, or shares that add up to
    the share of clipped rows. A scan by cells counts them under ``key``.
    """

    parts: tuple[TableQuestion, ...]
    training: Part
    bounds: str
    key: str = ""

    @cached_property
    def _in_training(self) -> Moments:
        return self._share_in(self.training)

    def _share_in(self, part: Part) -> Moments:
        """How many rows enter, and which share of them is clipped. Reads ``part``."""
        counted = part.moments.get(self.key)
        if counted is not None:
            return counted
        each = [question.moments(part, squares=not question.binary) for question in self.parts]
        rows = each[0].rows
        if each[0].clipped is not None:
            return Moments(rows, each[0].clipped / rows if rows else math.nan, math.nan)
        return Moments(rows, math.fsum(moments.mean for moments in each), math.nan)

    @property
    def rows(self) -> int:
        """How many training rows enter."""
        return self._in_training.rows

    @cached_property
    def _predicted(self) -> float:
        """A share that is hardly ever exceeded in the long run, by what the training part shows."""
        return clopper_pearson(round(self._in_training.mean * self.rows), self.rows, _NATS).high

    def most(self, rows: int) -> float:
        """The share that hardly any sample of so many protected rows exceeds, with two digits."""
        entering = max(1.0, rows * self.rows / self.training.rows.count)
        share = self._predicted + _DEVIATIONS * math.sqrt(self._predicted / entering)
        unit = 10.0 ** (math.floor(math.log10(share)) - 1)
        return min(1.0, math.ceil(share / unit) * unit)

    def beyond(self, part: Part) -> bool:
        """Whether more is clipped than predicted. Reads ``part``."""
        moments = self._share_in(part)
        return moments.rows > 0 and moments.mean > self.most(part.rows.count)

    @staticmethod
    def price(beyond: bool) -> float:
        """Nats for either bit. Guarantee: exp(−price) sums to 1 over both."""
        return -math.log(_SUPPOSED) if beyond else -math.log1p(-_SUPPOSED)

    def note(self, rows: int) -> str:
        """The note of an answer if more was clipped than predicted."""
        return (
            f"More than {100 * self.most(rows):.2g} % of the values lie outside {self.bounds} and were "
            "clipped. The training part predicts fewer. The interval is about clipped values: ask with wider "
            "bounds to count the others as they are."
        )


def clipping_of(question: Question, training: Part | None) -> Clipping | None:
    """What the answer says about a question's clipped values. None if the training part predicts nothing, or
    if nothing can be clipped."""
    clipping = possible_clipping(question, training)
    return clipping if clipping is not None and clipping.rows else None


def possible_clipping(question: Question, training: Part | None) -> Clipping | None:
    """As :func:`clipping_of`, before the training rows are looked at: they may predict nothing. None if the
    caller gives a guess, because then the question is meant as it is. None also for the rows of a table: the
    one scan that reads them does not count clipped values."""
    if training is None or not isinstance(question, TableQuestion) or question.guess is not None:
        return None
    if training.rows not in question.facts.clipping:
        parts = _counting_questions(question)
        if not parts:
            return None
        query = question.checked.query
        bounds = " and ".join(f"[{low:g}, {high:g}]" for _, low, high in _ranges(question, query))
        question.facts.clipping[training.rows] = Clipping(parts, training, bounds, f"{question.key} clipped")
    return question.facts.clipping[training.rows]


def questions_counting_clipped(question: Question) -> list[TableQuestion]:
    """The questions that count the clipped values of a question, so that one scan can read them all."""
    if not isinstance(question, TableQuestion):
        return []
    return [part for clipping in question.facts.clipping.values() for part in clipping.parts]


def keys_counted_by_cells(question: Question) -> tuple[str, ...]:
    """The keys of the shares of clipped values that a scan by cells can count. It cannot count them if rows
    without a value are left out of it."""
    if not isinstance(question, TableQuestion) or question.checked.skips:
        return ()
    return tuple(clipping.key for clipping in question.facts.clipping.values())


def _counting_questions(question: TableQuestion) -> tuple[TableQuestion, ...]:
    """The questions that count clipped values: for a mean the mean itself. For other statistics of one value,
    the share of values below their range and the share above it. For two values, the share of rows that have
    one outside its range. Empty if nothing can be clipped."""
    query, checked = question.checked.query, question.checked
    ranges = _ranges(question, query)
    if not ranges or not question.readable or checked.member is not None:
        return ()
    if question.kind == "mean":
        return (question,)
    # A database counts the values below and those above separately faster than both at once.
    ends = [
        condition
        for value, low, high in ranges
        for condition in (f"({value.text}) < {low!r}", f"({value.text}) > {high!r}")
    ]
    where = None if query.where is None else query.where.text
    shares = (
        queries.share(condition, where=where, nulls=False)
        for condition in (ends if len(ranges) == 1 else [" or ".join(ends)])
    )
    return tuple(
        TableQuestion.of(share.check(checked.schema, frozenset(checked.schema.columns))) for share in shares
    )


def _ranges(question: TableQuestion, query: Query) -> list[tuple[Expression, float, float]]:
    """The values that can be clipped, each with its range. Conditions cannot be clipped."""
    if query.kind in ("share", "quantile", "cdf"):
        return []
    columns = question.checked.schema.columns
    return [
        (value, *ends)
        for value, ends in zip(query.values, (query.bounds, query.other_bounds), strict=False)
        if ends is not None
        and not value.is_condition
        and not (value.column in columns and columns[str(value.column)].kind == "boolean")
    ]
