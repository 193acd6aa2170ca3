"""Whether more values were clipped than the training part predicts: one bit, priced like any output.

Values outside the bounds of a question are clipped. The training part shows which share of them to expect,
and so a share that hardly any sample of the same distribution exceeds. Whether the protected rows exceed it
is told with the answer, and paid for: almost nothing where they do not.
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
"""The name under which a question keeps its clipping."""
# How likely it is supposed to be that more is clipped than predicted. A smaller number would make most
# answers cheaper, but the dearest price is reserved for all of them.
_SUPPOSED = 1 / 100
# The predicted share is exceeded about as rarely: once in 8,000 for the training part, and four deviations of
# the protected rows.
_NATS, _DEVIATIONS = 9.0, 4.0


@dataclass(frozen=True)
class Clipping:
    """The share of rows whose values lie outside their bounds, and the training part.

    ``parts`` are the questions that count them: a mean, whose sums count them too, or shares that add up to
    it. A scan by cells counts them under ``key``.
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
        """The share that hardly any sample of so many protected rows exceeds, in two digits."""
        entering = max(1.0, rows * self.rows / self.training.rows.count)
        share = self._predicted + _DEVIATIONS * math.sqrt(self._predicted / entering)
        unit = 10.0 ** (math.floor(math.log10(share)) - 1)
        return min(1.0, math.ceil(share / unit) * unit)

    def beyond(self, part: Part) -> bool:
        """Whether more than that is clipped. Reads ``part``."""
        moments = self._share_in(part)
        return moments.rows > 0 and moments.mean > self.most(part.rows.count)

    @staticmethod
    def price(beyond: bool) -> float:
        """Nats for either bit. Guarantee: exp(−price) of both sums to 1."""
        return -math.log(_SUPPOSED) if beyond else -math.log1p(-_SUPPOSED)

    def note(self, rows: int) -> str:
        """What an answer says where more was clipped."""
        return (
            f"More than {100 * self.most(rows):.2g} % of the values lie outside {self.bounds} and were "
            "clipped. The training part predicts fewer. The interval is about clipped values: ask with wider "
            "bounds to count the others as they are."
        )


def clipping_of(question: Question, training: Part | None) -> Clipping | None:
    """What is to be told of a question's clipped values; None where the training part predicts nothing, or
    nothing can be clipped."""
    kept = kept_clipping(question, training)
    return kept if kept is not None and kept.rows else None


def kept_clipping(question: Question, training: Part | None) -> Clipping | None:
    """The same before the training rows are looked at. None for whoever brings a guess, and so means the
    question as it is; and for the rows of a table, which are read in one scan that does not count what is
    clipped."""
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
    """The questions that count what is clipped of a question, so that one scan can read them all."""
    if not isinstance(question, TableQuestion):
        return []
    return [part for kept in _kept(question) for part in kept.parts]


def _kept(question: TableQuestion) -> list[Clipping]:
    return [kept for kept in question.seen.values() if isinstance(kept, Clipping)]


def counted_by_cells(question: Question) -> tuple[str, ...]:
    """The keys of those that a scan by cells can count: not where rows without a value are left out of it."""
    if not isinstance(question, TableQuestion) or question.checked.skips:
        return ()
    return tuple(kept.key for kept in _kept(question))


def _counting(question: TableQuestion) -> tuple[TableQuestion, ...]:
    """A mean itself; of other statistics the share of values below their range and that of values above it,
    and of two values the share of rows with one outside. Empty where nothing can be clipped."""
    query, checked = question.checked.query, question.checked
    ranges = _ranges(question, query)
    if not ranges or not question.readable or checked.member is not None:
        return ()
    if question.kind == "mean":
        return (question,)
    # A database counts the values below and those above faster than those outside.
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
    """The values that can be clipped, each with its range: conditions cannot."""
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
