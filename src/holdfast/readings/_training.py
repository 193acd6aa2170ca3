"""What the training part says about a question, before anything is charged: ranges, groups and hints.

The training part shows the range of a question's values, the two groups of a column, and the rows of a table.
A misspelt text, or a range that clips every value, is refused with a proposal of what to write. What may be
intended, such as a filter that no training row passes, becomes a note on the preview and on the answer. All
of it is decided from the training rows and from public facts; no protected row is read. A caller who gives a
guess says that the question is meant as it is, and is not refused.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast import queries
from holdfast.answers import Preview, group_label
from holdfast.engines import Rows, Schema
from holdfast.errors import QueryRejected
from holdfast.queries import Expression, Query, quoted_name, quoted_value
from holdfast.readings._question import Part, Question, TableQuestion

# A table has at most so many groups.
MOST_GROUPS = 100
# A proposed range adds this part of the range of the training values at either end.
_ROOM = 0.25

OTHERS = "all others"
NOT_SEEN = "Not asked: not in the training rows."

# A column with more different texts than this has names or ids: nobody can see which of them is misspelt.
_MOST_TEXTS = 10_000
# From this likeness on, from 0 to 1, a text counts as a misspelling of another ("Adelei", "Adelaide").
_ALIKE = 0.7
# At most so many texts of a long list are looked at.
_MOST_MISSING = 20
_NAMED = 3

# Training rows that repeat: how often on average, among how many at least, and which share of rows may have
# an equal row by chance. Most copies of a training row are protected, so a few in the training part say
# enough.
_OFTEN, _FEW, _BY_CHANCE = 1.2, 100, 0.05
_REPEATED = (
    "Rows repeat: of {:,} training rows {:,} are different. Equal rows are counted as separate draws. If "
    "they are copies, or several rows about one person, the intervals are too narrow: leave the copies out, "
    "or say dependence=Clusters(...)."
)

_IF_RIGHT = "If the question is right, ask with a guess of your own: guess=..."


class Hints:
    """What is looked up in the training part for all questions of a guard; each column at most once."""

    def __init__(self, training: Part | None, pilot: Part | None, nullable: frozenset[str]) -> None:
        self._training = training
        self._nullable = nullable
        # The pilot is small, and has most texts that occur.
        self._parts = [part for part in (pilot, training) if part is not None]
        self._texts: dict[tuple[int, str], frozenset[str] | None] = {}
        self._empty: frozenset[str] | None = None

    def with_hints(self, question: TableQuestion, answered: Callable[[str], object | None]) -> TableQuestion:
        """The question with notes about it. Raises :class:`~holdfast.errors.QueryRejected` for a text that is
        a near miss. ``answered`` says for a key whether that question was answered before: such a question is
        never refused."""
        notes = [*self._missing_texts(question, answered), *self._columns(question)]
        return replace(question, notes=(*question.notes, *notes)) if notes else question

    def _columns(self, question: TableQuestion) -> Iterator[str]:
        """Notes about the columns that the question reads."""
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
        """Texts that a column is compared with, but that no training row has there."""
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
                        f"{_IF_RIGHT}"
                    )
        for name, text in missing[:_NAMED]:
            yield f"No training row has {text!r} in the column {name!r}."

    def _lacks(self, column: str, text: str) -> bool:
        """Whether no training row has the text; False if there are too many texts to tell."""
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
            except QueryRejected:  # It takes longer than a question may. The answer matters more than a hint.
                self._texts[key] = None
        return self._texts[key]

    def _nearest(self, column: str, text: str) -> str | None:
        """The training part's text that this text may be a misspelling of. Codes that differ in a digit are
        different codes."""
        assert self._training is not None
        texts = self._texts_of(self._training, column) or frozenset()
        digits = re.findall(r"\d", text)
        candidates = {
            known_text.strip().casefold(): known_text
            for known_text in sorted(texts)
            if re.findall(r"\d", known_text) == digits
        }
        near = difflib.get_close_matches(text.strip().casefold(), list(candidates), n=1, cutoff=_ALIKE)
        return candidates[near[0]] if near else None


def require_values_inside(question: Question, training: Part | None) -> None:
    """Refuse a mean whose range clips every training value, so that each row would count the same.

    The question was put to the training rows before. They are looked at once more only if all of them lay at
    one end of the range.
    """
    if training is None or question.guess is not None or not isinstance(question, TableQuestion):
        return
    moments = question.facts.moments.get((training.rows, True)) if question.kind == "mean" else None
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
        f"{_IF_RIGHT}"
    )


def repeated_rows(rows: Rows) -> tuple[str, ...]:
    """The assumption to state if many training rows occur several times, and chance does not explain it. If
    columns were independent of each other, fewer than one row in twenty would have an equal row."""
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


def resolved(query: Query, schema: Schema, training: Rows | None, nullable: frozenset[str]) -> Query:
    """The question with its ranges and its groups, as the training part shows them."""
    if query.kind == "histogram":
        raise QueryRejected(f"{query} is a table, one row for each bin. Ask for it with guard.table(...).")
    if query.by:
        raise QueryRejected(
            f"{query} is a table, one question for each value of {', '.join(map(str, query.by))}. Ask for it "
            "with guard.table(...), or with by= on share, mean, quantile and difference."
        )
    query = with_ranges(query, schema, training, nullable)
    if len(query.groups) == 1:
        return replace(query, groups=_two_groups(query, _required(training, "a column as groups")))
    if len(query.groups) == 2 and training is not None:
        _require_apart(query, training, nullable)
    return query


def _require_apart(query: Query, training: Rows, nullable: frozenset[str]) -> None:
    """Refuse two groups that have training rows in common."""
    first, second = query.groups
    both = queries.share(f"({first.text}) and ({second.text})", nulls=False)
    shared = training.sums(both.check(training.schema, nullable)).total
    if shared:
        raise QueryRejected(
            f"The groups of the {query.kind} overlap: {shared:,} training rows are in both {first.text!r} "
            f"and {second.text!r}. Write conditions of which at most one holds, as in ({second.text}) and "
            f"not ({first.text})."
        )


def with_ranges(query: Query, schema: Schema, training: Rows | None, nullable: frozenset[str]) -> Query:
    """The question with the ranges of its values filled in."""
    if not query.needs_bounds:
        return query
    column = query.expression.column
    if column in schema and schema[str(column)].kind == "boolean":
        return replace(query, bounds=(0.0, 1.0))
    if not query.trained_bounds:
        raise queries.unbounded(query.kind, [value.text for value in query.values])
    proposed = _proposed(query, _required(training, "bounds='train'"), nullable)
    return replace(query, trained_bounds=False, **proposed)


def _required(training: Rows | None, what: str) -> Rows:
    if training is None:
        raise QueryRejected(f"There are no training rows that {what} could be read from: write it out.")
    return training


def _proposed(query: Query, training: Rows, nullable: frozenset[str]) -> dict[str, Any]:
    first, *others = (range_of(value, training, nullable) for value in query.values)
    return {"bounds": first, **({"other_bounds": others[0]} if others else {})}


def range_of(value: Expression, training: Rows, nullable: frozenset[str]) -> tuple[float, float]:
    """A range with room around the values of the training part, rounded outward to two digits."""
    if value.is_condition:
        return 0.0, 1.0
    ranked = queries.quantile(value, 0.5, nulls="skip").check(training.schema, nullable)
    count, ends = training.order_statistics(ranked, lambda rows: [1, rows] if rows else [])
    if not count or not all(map(math.isfinite, ends)):
        raise QueryRejected(
            f"No training row has a finite value of {value}: write the bounds out, as in bounds=(0, 100)."
        )
    least, greatest = ends
    margin = _ROOM * (greatest - least) or max(1.0, abs(greatest))
    unit = 10.0 ** (math.floor(math.log10(greatest - least + 2 * margin)) - 1)
    low, high = math.floor((least - margin) / unit) * unit, math.ceil((greatest + margin) / unit) * unit
    # If no value was seen below zero, we assume that there is none; the same above zero.
    return (0.0 if least >= 0 > low else low), (0.0 if greatest <= 0 < high else high)


def _two_groups(query: Query, training: Rows) -> tuple[Expression, ...]:
    (column,) = query.groups
    listed = _values_of([column], training, f"the groups of the {query.kind}")
    values = [value for (value,) in listed if value is not None]
    if len(values) != 2:
        shown = ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")
        raise QueryRejected(
            f"The groups of a {query.kind} are two conditions, or a column with two values. {column} has "
            f"{len(values)} in the training part ({shown}): write them out, as in {column} = ..., {column} "
            "= ..."
        )
    earlier, later = (_is(column, value) for value in values)
    return Expression.read(later), Expression.read(earlier)


def questions_of_groups(query: Query, training: Rows | None) -> list[tuple[tuple[str, ...], Query]]:
    """The questions of a table, each with its values: those that the training part shows, and all others."""
    rows = _required(training, "the groups of a table")
    groups = _values_of(query.by, rows, "the groups of a table")
    if len(groups) > MOST_GROUPS:
        raise QueryRejected(
            f"{', '.join(map(str, query.by))} has {len(groups):,} values in the training part, and a table "
            f"has at most {MOST_GROUPS}: ask by something coarser, or about some of them."
        )
    questions = []
    for values in groups:
        conditions = [_is(column, value) for column, value in zip(query.by, values, strict=True)]
        questions.append((tuple(map(group_label, values)), _among(query, " and ".join(conditions))))
    return questions


def question_of_all_groups(query: Query, members: Sequence[Query]) -> Query | None:
    """One question about all groups of a table, so that one scan reads them. None if each group has to be
    read by itself."""
    if query.statistic not in ("share", "mean"):
        return None
    own = [member.where for member in members if member.where is not None]
    return Query(
        kind="difference",
        expression=query.expression,
        bounds=query.bounds or (0.0, 1.0),
        where=query.where,
        nulls=query.nulls,
        groups=tuple(own),
    )


def _among(query: Query, condition: str) -> Query:
    where = condition if query.where is None else f"({query.where.text}) and {condition}"
    return replace(query, by=(), where=Expression.read(where))


def _values_of(by: Sequence[Expression], training: Rows, what: str) -> list[tuple[Any, ...]]:
    """The values of one or two columns in the training part, in their order. Public categories have their own
    order. Rows without a value are a group of their own, the last one, with None as its value."""
    names = [part.column for part in by]
    unknown = [str(part) for part, name in zip(by, names, strict=True) if name not in training.schema]
    if unknown:
        raise QueryRejected(
            f"{unknown[0]} is no column, and {what} are the values of columns. There are "
            f"{', '.join(training.schema)}."
        )
    columns = [str(name) for name in names]
    wrong = [name for name in columns if training.schema[name].kind not in ("text", "boolean", "number")]
    if wrong:
        raise QueryRejected(
            f"The column {wrong[0]!r} is of kind {training.schema[wrong[0]].kind}: {what} are the values of "
            "texts, numbers or booleans."
        )
    frame = training.frame(columns)[columns].drop_duplicates()
    rows = {tuple(_plain(value) for value in row) for row in frame.itertuples(index=False)}
    orders = [training.schema[name].order for name in columns]
    return sorted(rows, key=lambda row: [_place(*pair) for pair in zip(row, orders, strict=True)])


def _plain(value: Any) -> Any:
    import pandas

    if pandas.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _place(value: Any, order: Sequence[str] | None) -> tuple[bool, Any]:
    """Where a value stands among the others of its column."""
    if value is None:
        return True, 0
    return False, order.index(value) if order is not None and value in order else value


def _is(column: Expression, value: Any) -> str:
    """The condition that a column equals a value."""
    name = quoted_name(str(column.column))
    if value is None:
        return f"{name} is null"
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} = {quoted_value(value)}"


def too_few(preview: Preview) -> str:
    """The note of a table for a group that is too small to be asked about."""
    return f"Too few rows (about ±{preview.half_width:.2g}), not asked."
