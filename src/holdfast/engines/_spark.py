"""Spark's dialect: its floor and round give integers, times may have a zone, sums of integers overflow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdfast.engines._dialect import (
    NUMBER_TEXT,
    Dialect,
    away_from_zero,
    builtin,
    cases,
    exact,
    is_zoned,
    recased,
    stored_as,
)

__all__ = ["Spark"]


class Spark(Dialect):
    engine = "Spark"
    lot = "rand()"
    text_type = "STRING"

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def floor(self, value: Any) -> Any:
        nearest = builtin("rint")(value)
        return cases((nearest > value, nearest - exact(1.0)), else_=nearest)

    def round(self, value: Any) -> Any:
        return away_from_zero(self.floor, value)

    def lower(self, text: Any) -> Any:
        return recased("lower", text)

    def upper(self, text: Any) -> Any:
        return recased("upper", text)

    def number_in(self, text: Any) -> Any:
        import ibis

        # A dollar sign would let a line break follow.
        reads = text.re_search(NUMBER_TEXT.removesuffix("$") + r"\z")
        return reads.ifelse(text, ibis.null("string")).try_cast("float64")

    def moment(self, column: Any, storage: str) -> Any:
        if storage != "date":
            return column
        return builtin("to_timestamp_ntz", "date", gives="timestamp(6)")(column)

    def constant_moment(self, moment: datetime) -> Any:
        import ibis

        written = ibis.literal(moment.isoformat(sep=" ", timespec="microseconds"))
        return builtin("to_timestamp_ntz", "string", gives="timestamp(6)")(written)

    def part(self, name: str, moment: Any) -> Any:
        """The days of the week are counted from 0 here."""
        if name == "isodow":
            return builtin("weekday", "timestamp(6)", gives="int32")(moment).cast("float64") + exact(1.0)
        return builtin(name, "timestamp(6)", gives="int32")(moment).cast("float64")

    def like(self, text: Any, pattern: str) -> Any:
        """A backslash takes its meaning from the character after it, unless it is written twice."""
        return text.like(pattern.replace("\\", "\\\\"))

    def nearest(self, value: Any) -> Any:
        return builtin("rint")(value).cast("int64")

    def count_true(self, truth: Any) -> Any:
        return self.as_number(truth).sum()

    def whole_sum(self, value: Any) -> Any:
        """By its binary digits, 18 at a time, which 64 bits hold the sums of for 2**45 rows: to add decimals
        takes Spark five times as long as all the rest of a question."""
        digits = 18
        high, middle, low = (
            ((value >> place * digits) & (2**digits - 1)).sum().cast("decimal(38, 0)") for place in (2, 1, 0)
        )
        return (high * 2**digits + middle) * 2**digits + low

    def ranked(self, column: str, fractions: Sequence[float]) -> str:
        listed = ", ".join(f"CAST('{fraction!r}' AS DOUBLE)" for fraction in fractions)
        return f"percentile_disc(array({listed})) WITHIN GROUP (ORDER BY {column})"

    def constants(self, rows: Sequence[Sequence[str]]) -> str:
        """A list of values, which takes no job; a union takes a task for every row."""
        return (
            "SELECT * FROM VALUES " + ", ".join(f"({', '.join(row)})" for row in rows) + " AS t(place, a, b)"
        )

    def clean(self, name: str, dtype: Any) -> tuple[str, str]:
        """As for DuckDB. What a clock in the session's zone showed does not tell the moment in the hour that
        comes twice a year, so a time with a zone is counted in microseconds."""
        column = self.quoted(name)
        if is_zoned(dtype):
            seconds = f"CAST(unix_micros({column}) * 0.000001BD AS DECIMAL(18, 6))"
            return f"TIMESTAMP_NTZ'1970-01-01' + make_dt_interval(0, 0, 0, {seconds})", "timestamp(6)"
        if dtype.is_timestamp():
            return f"to_timestamp_ntz({column})", "timestamp(6)"
        if dtype.is_floating() or dtype.is_decimal():
            return super().clean(name, dtype)
        return column, stored_as(dtype)
