"""Many answers in one record: a table by groups, and a curve of a whole distribution."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import queries
from holdfast.answers._answer import Answer, question_from
from holdfast.errors import MissingExtra
from holdfast.intervals import Interval
from holdfast.records import Record, framed_html, html_table, interval_words

if TYPE_CHECKING:
    import pandas


def group_label(value: Any) -> str:
    """How a table shows a value of its groups: whole numbers as such, and a missing value as null."""
    if value is None:
        return "null"
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


@dataclass(frozen=True, repr=False)
class GroupAnswer(Record):
    """One row of a table: the values of the ``group``, and its ``answer``. If none was asked for it is None,
    and ``note`` says why."""

    group: tuple[str, ...]
    answer: Answer | None
    note: str = ""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GroupAnswer:
        """The row that a table wrote, from ``values``. Entries that this version does not know
        are ignored."""
        answer = values["answer"]
        return cls._from_plain(values, answer=None if answer is None else Answer.from_dict(answer))


@dataclass(frozen=True, repr=False)
class Table(Record):
    """The question ``query`` ``by`` the values of one column or two: ``rows`` has an answer for each value
    that the training part shows.

    Guarantee: that of the guard. The questions of a table are asked together, so none pays for what the
    others reveal. The groups, and which of them are too small to ask about, are decided by the training
    part. The last row stands for all other values.
    """

    query: queries.Query | str
    by: tuple[str, ...]
    rows: tuple[GroupAnswer, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, group: Any) -> Answer:
        """The answer about one group, by its value, or by its two values."""
        listed = group if isinstance(group, tuple) else (group,)
        wanted = tuple(map(group_label, listed))
        answer = next((row.answer for row in self.rows if row.group == wanted), None)
        if answer is None:
            raise KeyError(group)
        return answer

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers, in order."""
        return tuple(row.answer for row in self.rows if row.answer is not None)

    def to_frame(self) -> pandas.DataFrame:
        """The table as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", what="table.to_frame()") from None
        return pandas.DataFrame([self._row(row) for row in self.rows])

    def _row(self, row: GroupAnswer) -> dict[str, Any]:
        answer = row.answer
        return {
            **dict(zip(self.by, row.group, strict=False)),
            "value": None if answer is None else answer.value,
            "low": None if answer is None else answer.low,
            "high": None if answer is None else answer.high,
            "note": row.note,
        }

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values, the question as text."""
        return {
            "query": str(self.query),
            "by": list(self.by),
            "rows": [
                {
                    "group": list(row.group),
                    "answer": None if row.answer is None else row.answer.to_dict(),
                    "note": row.note,
                }
                for row in self.rows
            ],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Table:
        """The table that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        rows = tuple(map(GroupAnswer.from_dict, values["rows"]))
        return cls._from_plain(values, query=question_from(values["query"]), rows=rows)

    def _shown(self) -> list[list[str]]:
        shown = []
        for row in self.rows:
            group = [*row.group, *[""] * (len(self.by) - len(row.group))]
            answer = row.answer
            if answer is None:
                shown.append([*group, "-", row.note])
            else:
                shown.append([*group, *interval_words(answer.value, answer.low, answer.high)])
        return shown

    def __repr__(self) -> str:
        cells = [[*self.by, "value", "interval"], *self._shown()]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
        lines = ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in cells]
        return "\n".join([str(self.query), *lines])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        heads = (*self.by, "value", "interval")
        rows = ([html.escape(cell) for cell in row] for row in self._shown())
        return framed_html(html_table(heads, rows, caption=str(self.query)))


@dataclass(frozen=True, repr=False)
class Curve(Record):
    """The distribution of a value. For each of ``points``, the share of rows at or below it lies between
    ``low`` and ``high``. ``value`` has the shares of the training part, and ``answer`` how far those of the
    protected rows are from them.

    Guarantee: that of the guard; all points hold together. Between two neighbouring points the share lies
    between the lower end at the first and the upper end at the second.
    """

    answer: Answer
    points: tuple[float, ...] = field(repr=False)
    value: tuple[float, ...] = field(repr=False)
    low: tuple[float, ...] = field(repr=False)
    high: tuple[float, ...] = field(repr=False)

    @classmethod
    def of(cls, answer: Answer, points: tuple[float, ...], trained: tuple[float, ...]) -> Curve:
        """The curve that an answer stands for. The answer says how far the shares at ``points`` are from
        those of the training part, ``trained``."""
        low, high = (
            tuple(min(max(share + end, 0.0), 1.0) for share in trained) for end in (answer.low, answer.high)
        )
        return cls(answer, points, trained, low, high)

    def at(self, t: float) -> Interval:
        """The share of rows that is at most ``t``."""
        before = [low for point, low in zip(self.points, self.low, strict=True) if point <= t]
        after = [high for point, high in zip(self.points, self.high, strict=True) if point >= t]
        return Interval(before[-1] if before else 0.0, after[0] if after else 1.0)

    def histogram(self, bins: int | Sequence[float] = 10) -> Table:
        """The share of rows in each bin, read off the curve at no cost. ``bins`` is their number, over what
        the training part shows, or their edges."""
        asked = self.answer.query
        assert not isinstance(asked, str)  # A curve always has a question in the query language.
        query = queries.histogram(asked.expression, bins, where=asked.where, nulls=asked.nulls)
        edges = _edges_of(query.bins or 10, self.points)
        ends = [self.at(edge) for edge in edges]
        rows = []
        for place in range(len(edges) - 1):
            below, above = ends[place], ends[place + 1]
            low, high = max(0.0, above.low - below.high), max(0.0, above.high - below.low)
            value = (low + high) / 2
            answer = replace(self.answer, value=value, low=low, high=high, cost=0.0, guess=math.nan)
            rows.append(GroupAnswer((f"({edges[place]:g}, {edges[place + 1]:g}]",), answer))
        return Table(query, ("between",), tuple(rows))

    def to_frame(self) -> pandas.DataFrame:
        """The curve as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", what="curve.to_frame()") from None
        return pandas.DataFrame(
            {"at most": self.points, "value": self.value, "low": self.low, "high": self.high}
        )

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain values."""
        return {
            "answer": self.answer.to_dict(),
            "points": list(self.points),
            "value": list(self.value),
            "low": list(self.low),
            "high": list(self.high),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Curve:
        """The curve that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        return cls._from_plain(values, answer=Answer.from_dict(values["answer"]))

    def __repr__(self) -> str:
        return f"{self.answer.query}: {len(self.points)} points, each ±{self.answer.half_width:.3g}"


def _edges_of(bins: int | tuple[float, ...], points: Sequence[float]) -> list[float]:
    """The edges of a histogram: as they are given, or so many bins over what the training part shows."""
    if isinstance(bins, int):
        return [float(edge) for edge in np.linspace(points[0], points[-1], bins + 1)]
    return list(bins)
