"""Two parts of the data have the same columns: found out from their schemas, before a row is read."""

from __future__ import annotations

from holdfast.engines import Schema
from holdfast.errors import QueryRejected

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
