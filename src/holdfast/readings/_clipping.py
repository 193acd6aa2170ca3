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

CLIPPED = "clipped"
"""The key under which a question keeps its clipping."""
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
    def _seen(self) -> Moments:
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
        return self._seen.rows

    @cached_property
    def _predicted(self) -> float:
        """A share that is hardly ever exceeded in the long run, by what the training part shows."""
        return clopper_pearson(round(self._seen.mean * self.rows), self.rows, _NATS).high

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
    kept = kept_clipping(question, training)
    return kept if kept is not None and kept.rows else None


def kept_clipping(question: Question, training: Part | None) -> Clipping | None:
    """The same before the training rows are looked at. None if the caller gives a guess, and so means the
    question as it is. None also for the rows of a table: they are read in one scan that does not count
    clipped values."""
    if training is None or not isinstance(question, TableQuestion) or question.guess is not None:
        return None
    key = training.rows, CLIPPED
    if key not in question.seen:
        parts = _counting(question)
        if not parts:
            return None
        query = question.checked.query
        shown = " and ".join(f"[{low:g}, {high:g}]" for _, low, high in _ranges(question, query))
        question.seen[key] = Clipping(parts, training, shown, f"{question.key} {CLIPPED}")
    kept: Clipping = question.seen[key]
    return kept


def counting_clipped(question: Question) -> list[TableQuestion]:
    """The questions that count the clipped values of a question, so that one scan can read them all."""
    if not isinstance(question, TableQuestion):
        return []
    return [part for kept in _kept(question) for part in kept.parts]


def _kept(question: TableQuestion) -> list[Clipping]:
    return [kept for kept in question.seen.values() if isinstance(kept, Clipping)]


def counted_by_cells(question: Question) -> tuple[str, ...]:
    """The keys of those that a scan by cells can count: not if rows without a value are left out of it."""
    if not isinstance(question, TableQuestion) or question.checked.skips:
        return ()
    return tuple(kept.key for kept in _kept(question))


def _counting(question: TableQuestion) -> tuple[TableQuestion, ...]:
    """For a mean the mean itself. For other statistics the share of values below their range and the share
    above it; for two values the share of rows with one outside. Empty if nothing can be clipped."""
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
