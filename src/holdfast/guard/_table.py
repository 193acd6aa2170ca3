"""The answers to one question about each group of rows, as a table."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import MissingExtra
from holdfast.guard._answer import Answer, Preview
from holdfast.records import Record, framed_html, html_table, interval_words

OTHERS = "all others"
NOT_SEEN = "Not seen in training, not asked."


def group_label(value: Any) -> str:
    """How a table shows a value of its groups: whole numbers as such, and a missing value as null."""
    if value is None:
        return "null"
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


def too_few(preview: Preview) -> str:
    """What a table says of a group that is too small to be asked about."""
    return f"Too few rows (about ±{preview.half_width:.2g}), not asked."


@dataclass(frozen=True, repr=False)
class GroupAnswer(Record):
    """One row of a table: the values of the ``group``, and its ``answer``; None where none was asked for, and
    then ``note`` says why."""

    group: tuple[str, ...]
    answer: Answer | None
    note: str = ""


@dataclass(frozen=True, repr=False)
class Table(Record):
    """A question ``by`` the values of one column or two: an answer for each that the training part shows.

    Guarantee: that of the guard. The questions of a table are asked together, so none pays for what the
    others reveal. The groups, and which of them are too small to ask about, are decided by the training
    part. The last row stands for all values that it does not show.
    """

    query: Any
    by: tuple[str, ...]
    rows: tuple[GroupAnswer, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, group: Any) -> Answer:
        """The answer about one group, by its value, or its two values."""
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

    def to_frame(self) -> Any:
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
