"""Which columns go together: those of two parts of the data, and those that a model of the rows describes."""

from __future__ import annotations

from holdfast.engines import Schema
from holdfast.errors import QueryRejected
from holdfast.guard._question import Question

_KIND = {
    "number": "a number",
    "boolean": "true or false",
    "text": "text",
    "date": "a date",
    "other": "of a kind that cannot be computed with",
}


def require_columns(part: Schema, name: str, wanted: Schema, of: str) -> None:
    """Refuse a part that lacks a column of another, or has one of another kind there."""
    for column, expected in wanted.items():
        if column not in part:
            raise QueryRejected(f"Column {column!r} of {of} is not in {name}; both need the same columns.")
        if expected.kind not in (found := part[column].kind, "other"):
            raise QueryRejected(
                f"The column {column!r} is {_KIND[expected.kind]} in {of} and {_KIND[found]} in {name}; both "
                "need columns of the same kinds."
            )
        if expected.kind == "date" and expected.zoned != part[column].zoned:
            with_zone, without = (of, name) if expected.zoned else (name, of)
            raise QueryRejected(
                f"The column {column!r} has a time zone in {with_zone} and none in {without}; both need one, "
                "or neither."
            )


def require_described(question: Question, columns: frozenset[str], model: str) -> None:
    """Refuse a question about columns that the model of the rows says nothing about."""
    described = ", ".join(map(repr, sorted(columns)))
    if question.reads is None:
        raise QueryRejected(
            f"The {model} describes {described} only, and {question.text} may read any column. Fit the model "
            "to be scored on a table with named columns, so that it says which it reads."
        )
    others = sorted(question.reads - columns)
    if others:
        raise QueryRejected(
            f"The {model} describes {described}, and {question.text} reads {', '.join(map(repr, others))} "
            "too: what is assumed of the one says nothing about the other. Use a model of all columns that "
            "you ask about: dependence.fit(train, columns=[...]), or Mixing(rate=...) for the whole table."
        )
