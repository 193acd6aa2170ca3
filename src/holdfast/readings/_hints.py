"""Hints that cost nothing: what the training part shows to be wrong with a question, before it is charged.

A misspelt text and a range that clips every value are refused with what to write instead. What may be meant,
a filter that no training row passes among it, is told as a note on the preview and on the answer. All of it
is decided from the training rows and from public facts; no protected row is read. Whoever brings a guess of
their own says that the question is meant as it is, and is not refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from holdfast.engines import Rows
from holdfast.errors import QueryRejected
from holdfast.readings._question import Part, Question, TableQuestion

# A column with more different texts than this is one of names or ids, where nobody knows what is misspelt.
_MOST_TEXTS = 10_000
# How alike two texts are, from 0 to 1, for one to be taken for the other misspelt ("Adelei" for "Adelaide").
_ALIKE = 0.7
# Of a long list so many texts are looked at.
_MOST_MISSING = 20
_NAMED = 3

# Training rows that repeat: how often on average, among how many at least, and which share of rows may have a
# twin by chance. Most copies of a training row are protected, so a few among the training rows say enough.
_OFTEN, _FEW, _BY_CHANCE = 1.2, 100, 0.05
_REPEATED = (
    "Rows repeat: of {:,} training rows {:,} are different. Equal rows are taken for draws of their own. If "
    "they are copies, or several rows about one person, the intervals are too narrow: leave the copies out, "
    "or say dependence=Clusters(...)."
)

_MEANT = "If it is meant, ask with a guess of your own: guess=..."


class Hints:
    """What is looked up in the training part for all questions of a guard: each column at most once."""

    def __init__(self, training: Part | None, pilot: Part | None, nullable: frozenset[str]) -> None:
        self._training = training
        self._nullable = nullable
        # The pilot is small, and shows most texts there are.
        self._parts = [part for part in (pilot, training) if part is not None]
        self._texts: dict[tuple[int, str], frozenset[str] | None] = {}
        self._empty: frozenset[str] | None = None

    def heeded(self, question: TableQuestion, answered: Callable[[str], object | None]) -> TableQuestion:
        """The question with notes about it; raises :class:`~holdfast.errors.QueryRejected` for a text that is
        a near miss. ``answered`` tells by its key whether a question was answered before, which is never
        refused."""
        notes = [*self._missing_texts(question, answered), *self._columns(question)]
        return replace(question, notes=(*question.notes, *notes)) if notes else question

    def _columns(self, question: TableQuestion) -> Iterator[str]:
        """What is to be known about the columns that the question reads."""
        columns = question.checked.schema.columns
        reads = sorted(question.checked.reads)
        if self._training is not None and self._nullable.intersection(reads):
            if self._empty is None:
                try:
                    self._empty = self._training.rows.empty_columns(sorted(self._nullable))
                except QueryRejected:
                    self._empty = frozenset()
            for name in reads:
                if name in self._empty:
                    yield f"The column {name!r} has no value in any training row."
        zoned = [name for name in reads if columns[name].zoned]
        if zoned:
            yield f"Times in {', '.join(map(repr, zoned))} are taken in UTC."

    def _missing_texts(
        self, question: TableQuestion, answered: Callable[[str], object | None]
    ) -> Iterator[str]:
        """Texts that a column is compared with and that no training row has there."""
        missing = []
        for name, text in question.checked.compared_texts:
            order = question.checked.schema.columns[name].order
            if text in (order or ()) or not self._lacks(name, text):
                continue
            missing.append((name, text))
            if len(missing) == _MOST_MISSING:
                break
        if question.guess is None and missing and answered(question.key) is None:
            for name, text in missing:
                near = self._nearest(name, text)
                if near is not None:
                    raise QueryRejected(
                        f"No training row has {text!r} in the column {name!r}. Did you mean {near!r}? "
                        f"{_MEANT}"
                    )
        for name, text in missing[:_NAMED]:
            yield f"No training row has {text!r} in the column {name!r}."

    def _lacks(self, column: str, text: str) -> bool:
        """Whether no training row has the text; False where there are too many to tell."""
        for part in self._parts:
            texts = self._texts_of(part, column)
            if texts is None or text in texts:
                return False
        return bool(self._parts)

    def _texts_of(self, part: Part, column: str) -> frozenset[str] | None:
        key = id(part), column
        if key not in self._texts:
            try:
                self._texts[key] = part.rows.texts(column, most=_MOST_TEXTS)
            except QueryRejected:  # It takes longer than a question may; a hint is not worth that.
                self._texts[key] = None
        return self._texts[key]

    def _nearest(self, column: str, text: str) -> str | None:
        """The training part's text that this one may be a misspelling of. Codes that differ in a digit are
        different codes."""
        assert self._training is not None
        texts = self._texts_of(self._training, column) or frozenset()
        digits = re.findall(r"\d", text)
        alike = {seen.strip().casefold(): seen for seen in sorted(texts) if re.findall(r"\d", seen) == digits}
        near = difflib.get_close_matches(text.strip().casefold(), list(alike), n=1, cutoff=_ALIKE)
        return alike[near[0]] if near else None


def require_values_inside(question: Question, training: Part | None) -> None:
    """Refuse a mean whose range clips every training value, so that each row would count the same.

    The question was put to the training rows before; those are looked at once more where all of them ended
    up at one end of the range.
    """
    if training is None or question.guess is not None or not isinstance(question, TableQuestion):
        return
    moments = question.seen.get((training.rows, True)) if question.kind == "mean" else None
    if moments is None or not moments.rows or moments.position not in (0.0, 1.0):
        return
    if "quantile" in training.rows.schema.dialect.lacking:
        return
    count, (least, greatest) = question.order_statistics(training, lambda count: [1, count])
    low, high = question.low, question.high
    if not (greatest < low or least > high):
        return
    side, end = ("below", low) if greatest < low else ("above", high)
    raise QueryRejected(
        f"{question.text}: all {count:,} training values lie {side} {end:g}, from {least:g} to {greatest:g}, "
        f"so each would be clipped to {end:g}. Give bounds that contain most values. "
        f"{_MEANT}"
    )


def not_in_training(question: Question) -> tuple[str, ...]:
    """A note where no training row that was looked at for the question enters it."""
    if not isinstance(question, TableQuestion) or not question.filtered:
        return ()
    looked = [rows.count for (rows, _), moments in question.seen.items() if moments.rows == 0]
    if not looked:
        return ()
    return (
        f"None of {max(looked):,} training rows enters this question: none passes the filter, or has a "
        "value. They say nothing about it.",
    )


def repeated_rows(rows: Rows) -> tuple[str, ...]:
    """What is assumed where many training rows occur several times, and chance does not explain it: with
    columns independent of each other, fewer than one row in twenty would have a twin."""
    different = rows.different_rows() if rows.count >= _FEW else None
    if different is None or rows.count < _OFTEN * different:
        return ()
    twins = float(rows.count)
    for name, column in rows.schema.items():
        if column.kind != "other":
            twins *= rows.agreement(name)
        if twins < _BY_CHANCE:
            return (_REPEATED.format(rows.count, different),)
    return ()
