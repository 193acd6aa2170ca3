"""Questions about groups: what the training part decides about a question, and the table of the answers.

The training part says the range of a question's values, the two groups of a column, and the rows of a
table. All of it is free, and decided before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast import queries
from holdfast.answers import Preview, group_label
from holdfast.engines import Rows, Schema
from holdfast.errors import QueryRejected
from holdfast.queries import Expression, Query, quoted_name, quoted_value

# A table has so many groups at most.
MOST_GROUPS = 100
# A proposed range has so much of the training values' range added at either end.
_ROOM = 0.25

OTHERS = "all others"
NOT_SEEN = "Not seen in training, not asked."


def resolved(query: Query, schema: Schema, training: Rows | None, nullable: frozenset[str]) -> Query:
    """The question with its ranges and its groups in place, both as the training part shows them."""
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
    """Refuse two groups that share training rows."""
    first, second = query.groups
    both = queries.share(f"({first.text}) and ({second.text})", nulls=False)
    shared = training.sums(both.check(training.schema, nullable)).total
    if shared:
        raise QueryRejected(
            f"The groups of the {query.kind} overlap: {shared:,} training rows are in both {first.text!r} "
            "and "
            f"{second.text!r}. Write conditions of which at most one holds, as in ({second.text}) and not "
            f"({first.text})."
        )


def with_ranges(query: Query, schema: Schema, training: Rows | None, nullable: frozenset[str]) -> Query:
    """The question with the ranges of its values in place."""
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
    least, most = ends
    room = _ROOM * (most - least) or max(1.0, abs(most))
    unit = 10.0 ** (math.floor(math.log10(most - least + 2 * room)) - 1)
    low, high = math.floor((least - room) / unit) * unit, math.ceil((most + room) / unit) * unit
    # Values that are not negative by what was seen are taken to be so.
    return (0.0 if least >= 0 > low else low), (0.0 if most <= 0 < high else high)


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


def members(query: Query, training: Rows | None) -> list[tuple[tuple[str, ...], Query]]:
    """The questions of a table, each with the values it is about: those that the training part shows, and all
    others."""
    rows = _required(training, "the groups of a table")
    groups = _values_of(query.by, rows, "the groups of a table")
    if len(groups) > MOST_GROUPS:
        raise QueryRejected(
            f"{', '.join(map(str, query.by))} has {len(groups):,} values in the training part, and a table "
            "has "
            f"at most {MOST_GROUPS}: ask by something coarser, or about some of them."
        )
    found = []
    for values in groups:
        conditions = [_is(column, value) for column, value in zip(query.by, values, strict=True)]
        found.append((tuple(map(group_label, values)), _among(query, " and ".join(conditions))))
    return found


def by_groups(query: Query, members: Sequence[Query]) -> Query | None:
    """The question whose groups are those of a table, all of which one scan reads; None where each group has
    to be read by itself."""
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
    """The values of one or two columns in the training part, in their order: that of the categories where it
    is public. Rows without a value are a group of their own, the last one, with None as its value."""
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
    """The condition that a column has a value."""
    name = quoted_name(str(column.column))
    if value is None:
        return f"{name} is null"
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} = {quoted_value(value)}"


def too_few(preview: Preview) -> str:
    """What a table says of a group that is too small to be asked about."""
    return f"Too few rows (about ±{preview.half_width:.2g}), not asked."
