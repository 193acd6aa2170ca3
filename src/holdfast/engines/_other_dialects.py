"""How PostgreSQL and Spark compute, where they differ from DuckDB.

PostgreSQL raises an error if arithmetic leaves the range of floats, so no operation gets such arguments. In
Spark, floor and round give integers, times may have a zone, and sums of integers overflow.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from holdfast.engines._dialect import (
    NUMBER_TEXT,
    REMAINDER,
    Dialect,
    away_from_zero,
    builtin,
    cases,
    exact,
    is_zoned,
    recased,
    stored_as,
)

if TYPE_CHECKING:
    from holdfast.engines._sums import Edges

__all__ = [
    "Postgres",
    "Spark",
]


# Between these limits, products and quotients of two numbers stay far from both ends of the range. Beyond
# them, an argument is first multiplied by 2**±600, which is exact.
_LARGE, _SMALL = 2.0**500, 2.0**-500
_DOWN, _UP = 2.0**-600, 2.0**600
# The largest argument whose exponential is finite, and the least for which it is not zero.
_EXP_MOST, _EXP_LEAST = 709.782712893384, -745.1332191019411
# The logarithm of a power decides whether it is in range. Its error is at most about this.
_LOG_SLACK = 2e-12
# Where decimals leave the range of floats: halfway between the largest and the next, and half the least.
_OVER = 2**1024 - 2**970
_UNDER = Fraction(1, 2**1075)
# Dates beyond this one have no time of their own.
_LAST_MOMENT = "294247-01-10"


def _decimal(value: int | Fraction) -> str:
    """A binary fraction in full, as PostgreSQL's numeric reads it."""
    if isinstance(value, int):
        return str(value)
    digits = value.denominator.bit_length() - 1
    return f"0.{value.numerator * 5**digits:0{digits}d}"


class Postgres(Dialect):
    engine = "PostgreSQL"
    repeats = True
    keeps_nan = False

    def __init__(self) -> None:
        super().__init__()
        self.lacking = frozenset({REMAINDER})
        self._fence = secrets.randbits(60) + 2**60

    def stage(self, table: Any) -> Any:
        """A table whose columns are computed once. PostgreSQL repeats a subquery's expressions wherever they
        are used, unless the subquery has an offset."""
        return table.limit(None, offset=self._fence)

    def fence(self, tree: Any) -> None:
        """Set the offsets of a tree that :meth:`stage` made to 0. Ibis would leave out an offset of 0."""
        from sqlglot import exp

        for offset in tree.find_all(exp.Offset):
            if offset.expression == exp.convert(self._fence):
                offset.set("expression", exp.Literal.string("0"))

    def add(self, left: Any, right: Any) -> Any:
        huge, matters = exact(2.0**1023), exact(2.0**900)
        half = left * exact(0.5) + right * exact(0.5)
        return cases(
            ((left.abs() < huge) & (right.abs() < huge), left + right),
            # One of them is too small to matter.
            ((left.abs() < matters) | (right.abs() < matters), left + right),
            (half.abs() < huge, left + right),
            ((left > 0) & (right > 0), exact(math.inf)),
            ((left < 0) & (right < 0), exact(-math.inf)),
            else_=half.nullif(exact(math.nan)),
        )

    def subtract(self, left: Any, right: Any) -> Any:
        return self.add(left, -right)

    def multiply(self, left: Any, right: Any) -> Any:
        return _within_range(lambda a, b: a * b, left, right, large=_is_large, small=_is_small)

    def divide(self, left: Any, right: Any) -> Any:
        # Dividing by a small number is the same as multiplying by a large one.
        return _within_range(lambda a, b: a / b, left, right, large=_is_small, small=_is_large)

    def remainder(self, left: Any, right: Any) -> Any:
        """The remainder, computed with whole numbers, because PostgreSQL has it only for them."""
        remainder = builtin("mod", "decimal", "decimal", gives="decimal")(_integer(left), _integer(right))
        return remainder.cast("float64")

    def exp(self, value: Any) -> Any:
        return cases(
            (value > exact(_EXP_MOST), exact(math.inf)),
            (value < exact(_EXP_LEAST), exact(0.0)),
            else_=value.exp(),
        )

    def power(self, base: Any, exponent: Any) -> Any:
        plain = base**exponent
        size = exponent.abs()
        clipped_exponent = cases(
            (exponent > exact(1e300), exact(1e300)),
            (exponent < exact(-1e300), exact(-1e300)),
            else_=exponent,
        )
        logarithm = clipped_exponent * base.abs().ln()
        half = exponent * exact(0.5)
        odd = (size < exact(2.0**53)) & (self.floor(half) != half)
        return cases(
            ((base == 0) | (base.abs() == exact(math.inf)) | (size == exact(math.inf)), plain),
            (size < exact(1e-10), plain),
            (
                logarithm > exact(_EXP_MOST - _LOG_SLACK),
                cases(((base < 0) & odd, exact(-math.inf)), else_=exact(math.inf)),
            ),
            (logarithm < exact(_EXP_LEAST + _LOG_SLACK), exact(0.0)),
            else_=plain,
        )

    def round(self, value: Any) -> Any:
        return away_from_zero(self.floor, value)

    def lower(self, text: Any) -> Any:
        return recased("lower", text)

    def upper(self, text: Any) -> Any:
        return recased("upper", text)

    def compare_texts(self, compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Compare texts by bytes: ``bttext_pattern_cmp`` does not depend on the language."""
        order = builtin("bttext_pattern_cmp", "string", "string", gives="int32")
        return compare(order(left, right), 0)

    def number_in(self, text: Any) -> Any:
        import ibis

        number = text.re_search(NUMBER_TEXT).ifelse(text, ibis.null("string")).cast("decimal")
        over, under = (ibis.literal(_decimal(edge)).cast("decimal") for edge in (_OVER, _UNDER))
        return cases(
            (number >= over, exact(math.inf)),
            (number <= -over, exact(-math.inf)),
            (number.abs() <= under, exact(0.0)),
            else_=number.cast("float64"),
        )

    def as_number(self, truth: Any) -> Any:
        return cases((truth, exact(1.0)), (~truth, exact(0.0)), else_=None)

    def count_true(self, truth: Any) -> Any:
        return self.as_number(truth).sum()

    def below(self, value: Any, edges: Edges) -> Any:
        """The value as it is, because PostgreSQL computes an expression again for each use."""
        return value

    def clipped(self, below: Any, edges: Edges) -> Any:
        """Most values need two comparisons. Only the others are compared with NaN."""
        value = cases(
            (below <= edges.low, edges.lo),
            (below < edges.hi, below),
            (below < exact(math.nan), edges.hi),
            else_=edges.lo,
        )
        return edges.lo - value

    def outside(self, below: Any, clipped: Any, edges: Edges) -> Any:
        return (below < edges.lo) | ((below > edges.hi) & (below < exact(math.nan)))

    def moment(self, column: Any, storage: str) -> Any:
        if storage != "date":
            return column
        import ibis

        last, never = (ibis.literal(text).cast("date") for text in (_LAST_MOMENT, "infinity"))
        has_one = (column < last) | (column == never)
        return has_one.ifelse(column, ibis.null("date")).cast("timestamp(6)")

    def part(self, name: str, moment: Any) -> Any:
        """Infinite times have some parts here, and there is no year 0: the year before 1 is -1."""
        import ibis

        number = builtin("date_part", "string", "timestamp(6)")(ibis.literal(name), moment)
        finite = builtin("isfinite", "timestamp(6)", gives="boolean")(moment)
        if name == "year":
            number = cases((number < 0, number + exact(1.0)), else_=number)
        return cases((finite, number), else_=None)

    def like(self, text: Any, pattern: str) -> Any:
        """A backslash takes its meaning from the character after it, unless it is written twice."""
        return text.like(pattern.replace("\\", "\\\\"))

    def ranked(self, column: str, fractions: Sequence[float]) -> str:
        listed = ", ".join(f"'{fraction!r}'::float8" for fraction in fractions)
        return f"percentile_disc(ARRAY[{listed}]) WITHIN GROUP (ORDER BY {column})"

    def marked(self, key: str, salt: str) -> str:
        return super().marked(key, salt) + ' COLLATE "C"'

    def clean(self, name: str, dtype: Any) -> tuple[str, str]:
        column = self.quoted(name)
        if dtype.is_floating():
            storage = "float32" if dtype.nbytes <= 4 else "float64"
            return f"NULLIF({column}, 'NaN')", storage
        if dtype.is_decimal():
            return _float(column, dtype.precision), "float64"
        if dtype.is_string() or dtype.is_uuid() or dtype.is_json():
            return f'CAST({column} AS TEXT) COLLATE "C"', "string"
        if is_zoned(dtype):
            return f"{column} AT TIME ZONE 'UTC'", "timestamp(6)"
        return column, stored_as(dtype)


def _is_large(value: Any) -> Any:
    return value.abs() > exact(_LARGE)


def _is_small(value: Any) -> Any:
    return value.abs() < exact(_SMALL)


def _within_range(
    apply: Callable[[Any, Any], Any],
    left: Any,
    right: Any,
    *,
    large: Callable[[Any], Any],
    small: Callable[[Any], Any],
) -> Any:
    """A product or quotient. It is infinite or zero if it leaves the range, and null for 0 · ∞ and ∞ / ∞.

    ``large`` and ``small`` say which right arguments make the result larger or smaller. Arguments are
    multiplied by 2**±600 towards 1. If the result with these arguments shows that the real result is in
    range, the real result is computed.
    """
    middle = left.abs().between(exact(_SMALL), exact(_LARGE)) & right.abs().between(
        exact(_SMALL), exact(_LARGE)
    )
    infinite = (left.abs() == exact(math.inf)) | (right.abs() == exact(math.inf))
    moved = apply(*(_moved(value) for value in (left, right)))
    grows, shrinks = (_is_large(left), large(right)), (_is_small(left), small(right))
    opposite = (grows[0] & shrinks[1]) | (shrinks[0] & grows[1])
    most = cases(
        (opposite, exact(math.inf)),
        (grows[0] & grows[1], exact(2.0 ** (1024 - 1200))),
        (grows[0] | grows[1], exact(2.0 ** (1024 - 600))),
        else_=exact(math.inf),
    )
    least = cases(
        (opposite, exact(0.0)),
        (shrinks[0] & shrinks[1], exact(2.0 ** (1200 - 1075))),
        (shrinks[0] | shrinks[1], exact(2.0 ** (600 - 1075))),
        else_=exact(0.0),
    )
    return cases(
        (middle, apply(left, right)),
        ((left == 0) | (right == 0) | infinite, apply(left, right).nullif(exact(math.nan))),
        (moved >= most, exact(math.inf)),
        (moved <= -most, exact(-math.inf)),
        (moved.abs() <= least, exact(0.0)),
        else_=apply(left, right),
    )


def _moved(value: Any) -> Any:
    return cases(
        (_is_large(value), value * exact(_DOWN)), (_is_small(value), value * exact(_UP)), else_=value
    )


def _integer(value: Any) -> Any:
    """A whole float below 2**63, or that itself, as a numeric."""
    import ibis

    return cases(
        (value < exact(2.0**63), value.cast("int64").cast("decimal")),
        (value >= exact(2.0**63), ibis.literal(str(2**63)).cast("decimal")),
        else_=None,
    )


def _float(column: str, precision: int | None) -> str:
    """A numeric as a float. A numeric without a limit may be NaN, infinite or out of range."""
    if precision is not None and precision <= 300:
        return f"CAST({column} AS DOUBLE PRECISION)"
    over, under = _decimal(_OVER), _decimal(_UNDER)
    return (
        f"CASE WHEN {column} = 'NaN' THEN NULL "
        f"WHEN {column} >= {over} THEN CAST('inf' AS DOUBLE PRECISION) "
        f"WHEN {column} <= -{over} THEN CAST('-inf' AS DOUBLE PRECISION) "
        f"WHEN abs({column}) <= {under} THEN 0 ELSE CAST({column} AS DOUBLE PRECISION) END"
    )


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

        # A dollar sign would accept a line break at the end.
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
        """The sum by binary digits, 18 at a time, so that 64 bits hold the sums of 2**45 rows. Adding
        decimals takes Spark five times as long as the rest of a question."""
        digits = 18
        high, middle, low = (
            ((value >> place * digits) & (2**digits - 1)).sum().cast("decimal(38, 0)") for place in (2, 1, 0)
        )
        return (high * 2**digits + middle) * 2**digits + low

    def ranked(self, column: str, fractions: Sequence[float]) -> str:
        listed = ", ".join(f"CAST('{fraction!r}' AS DOUBLE)" for fraction in fractions)
        return f"percentile_disc(array({listed})) WITHIN GROUP (ORDER BY {column})"

    def constants(self, rows: Sequence[Sequence[str]]) -> str:
        """A list of values. It needs no job, but a union needs a task for every row."""
        return (
            "SELECT * FROM VALUES " + ", ".join(f"({', '.join(row)})" for row in rows) + " AS t(place, a, b)"
        )

    def clean(self, name: str, dtype: Any) -> tuple[str, str]:
        """As for DuckDB, but a time with a zone is counted in microseconds. The local time is not unique in
        the hour that comes twice a year."""
        column = self.quoted(name)
        if is_zoned(dtype):
            seconds = f"CAST(unix_micros({column}) * 0.000001BD AS DECIMAL(18, 6))"
            return f"TIMESTAMP_NTZ'1970-01-01' + make_dt_interval(0, 0, 0, {seconds})", "timestamp(6)"
        if dtype.is_timestamp():
            return f"to_timestamp_ntz({column})", "timestamp(6)"
        if dtype.is_floating() or dtype.is_decimal():
            return super().clean(name, dtype)
        return column, stored_as(dtype)
