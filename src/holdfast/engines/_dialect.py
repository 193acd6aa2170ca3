"""How an operation on one row is written: the plain form, which DuckDB computes exactly as documented.

Other databases differ: they raise if arithmetic leaves the range of floats, round halves in another way, or
order texts by language. Each has a dialect of its own that overrides these operations
(``_other_dialects.py``). So a question has the same value, or null, for every row in every database. Dialects
share the functions that ibis does not offer.

Values are of type Any: they are expressions of ibis, or in some places plain numbers. Both are added and
compared with the same operators, and ibis has no type for "either".
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.engines._sums import Edges

__all__ = [
    "NUMBER_TEXT",
    "REMAINDER",
    "Dialect",
    "Portable",
    "away_from_zero",
    "builtin",
    "cases",
    "exact",
    "is_zoned",
    "load_sql",
    "recased",
    "stored_as",
]

# A text that reads as a number: the same on every database, where their own casts differ on '1_000', 'nan' or
# '0x1'. Up to 300 digits on either side of the point, in two halves because some count no further than 255.
_SOME, _MORE = "[0-9]{1,150}[0-9]{0,150}", "[0-9]{0,150}[0-9]{0,150}"
NUMBER_TEXT = rf"^[ \t]*[+-]?({_SOME}(\.{_MORE})?|\.{_SOME})([eE][+-]?[0-9]{{1,3}})?[ \t]*$"
REMAINDER = "% of fractions"
"""What a database lacks that has a remainder of whole numbers only."""

_loading = threading.Lock()
_loaded = False


def load_sql() -> None:
    """Import sqlglot and ibis, which takes longer than opening a guard.

    Call it before a question first imports either. Their modules import each other, so two threads that begin
    with different modules would see half-loaded ones.
    """
    global _loaded
    if _loaded:
        return
    with _loading:
        for name in ("sqlglot", "ibis", "ibis.backends.sql.compilers"):
            importlib.import_module(name)
        _loaded = True


@cache
def builtin(name: str, *types: str, gives: str = "float64") -> Any:
    """A function of the database by its own name. ``builtin("floor")`` gives a float. The floor of ibis is
    cast to an integer, which raises beyond 64 bits."""
    from ibis import udf

    def of_one(first: Any) -> Any: ...

    def of_two(first: Any, second: Any) -> Any: ...

    def of_three(first: Any, second: Any, third: Any) -> Any: ...

    types = types or ("float64",)
    function = (of_one, of_two, of_three)[len(types) - 1]
    return udf.scalar.builtin(function, name=name, signature=(types, gives))


@cache
def _count_if() -> Any:
    from ibis import udf

    def count_if(truth: Any) -> Any: ...

    return udf.agg.builtin(count_if, signature=(("boolean",), "int64"))


def exact(value: float) -> Any:
    """A number as the database's double, to the last bit.

    Through text: a bare 0.1 is a decimal to most databases, and decimals lose digits when they are mixed.
    """
    import ibis

    return ibis.literal(repr(value)).cast("float64")


class Dialect:
    """Scalar operations on ibis expressions, as DuckDB has them.

    ``lacking`` names what this database cannot do as documented, by the word a question uses for it. A
    question that needs it is refused before anything is charged. If ``repeats`` is true, an operation writes
    its arguments several times, so they are first computed in a stage of their own. If ``keeps_nan`` is true,
    NaN passes through arithmetic; otherwise it is null from the start. ``lot`` is the SQL of a fresh number
    for each row, uniform from 0 to 1; None if it is unknown.
    """

    engine = "DuckDB"
    repeats = False
    keeps_nan = True
    lot: str | None = "random()"
    text_type = "VARCHAR"

    def __init__(self) -> None:
        self.lacking: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine})"

    def quoted(self, name: str) -> str:
        """A name as this database writes it."""
        return '"' + name.replace('"', '""') + '"'

    def stage(self, table: Any) -> Any:
        """A table whose columns are computed before the expressions that use them."""
        return table

    def add(self, left: Any, right: Any) -> Any:
        return left + right

    def subtract(self, left: Any, right: Any) -> Any:
        return left - right

    def multiply(self, left: Any, right: Any) -> Any:
        return left * right

    def divide(self, left: Any, right: Any) -> Any:
        """The quotient. The caller has replaced a zero divisor by null."""
        return left / right

    def remainder(self, left: Any, right: Any) -> Any:
        """The remainder, with the sign of the dividend. The caller has replaced a zero divisor by null."""
        return left % right

    def exp(self, value: Any) -> Any:
        return value.exp()

    def ln(self, value: Any) -> Any:
        """The natural logarithm of a positive number or null."""
        return value.ln()

    def power(self, base: Any, exponent: Any) -> Any:
        """The power of arguments for which it is defined, or of null."""
        return base**exponent

    def floor(self, value: Any) -> Any:
        return builtin("floor")(value)

    def round(self, value: Any) -> Any:
        """The nearest whole number, halves away from zero."""
        return builtin("round")(value)

    def lower(self, text: Any) -> Any:
        return text.lower()

    def upper(self, text: Any) -> Any:
        return text.upper()

    def compare_texts(self, compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Compare texts by their code points, in every language."""
        return compare(left, right)

    def number_in(self, text: Any) -> Any:
        """The number that a text reads as, null for any other text."""
        import ibis

        return text.re_search(NUMBER_TEXT).ifelse(text, ibis.null("string")).try_cast("float64")

    def as_number(self, truth: Any) -> Any:
        """A condition as 0 or 1."""
        return truth.cast("float64")

    def moment(self, column: Any, storage: str) -> Any:
        """A column of dates or times as times without a zone, to the microsecond."""
        return column if storage == "timestamp(6)" else column.try_cast("timestamp(6)")

    def constant_moment(self, moment: datetime) -> Any:
        import ibis

        return ibis.literal(moment, type="timestamp(6)")

    def part(self, name: str, moment: Any) -> Any:
        """A part of a time without a zone, as a float: its year (0 is the year before 1), month, day or hour,
        or its ``isodow``, the day of the week: Monday is 1, Sunday is 7. Null for a time that is infinite."""
        return builtin(name, "timestamp(6)", gives="int64")(moment).cast("float64")

    def like(self, text: Any, pattern: str) -> Any:
        """Whether a text fits a pattern. In it, % stands for any characters and _ for one character.
        Everything else, a backslash too, stands for itself."""
        return text.like(pattern)

    def below(self, value: Any, edges: Edges) -> Any:
        """How far a value is below ``lo``; the input of :meth:`clipped`.

        In every database that is accepted, NaN is greater than any number. Counted downwards it is clipped to
        ``lo``, like a row without a value, so it needs no test of its own.
        """
        return edges.lo - value

    def clipped(self, below: Any, edges: Edges) -> Any:
        """How far a clipped value is below ``lo``; 0 for NaN.

        Every branch but the last is a constant, because DuckDB computes such branches much faster.
        """
        return cases((below >= exact(0.0), exact(0.0)), (below <= edges.far, edges.far), else_=below)

    def outside(self, below: Any, clipped: Any, edges: Edges) -> Any:
        """Whether a value lies outside its bounds, from the results of :meth:`below` and :meth:`clipped`;
        false for NaN. The results differ if clipping moved the value: one comparison is faster than two with
        the bounds."""
        return (clipped != below) & ~below.isnan()

    def nearest(self, value: Any) -> Any:
        """The nearest 64-bit whole number, halves to even, of a number below 2**51."""
        return value.cast("int64")

    def count_true(self, truth: Any) -> Any:
        """How many rows meet a condition. DuckDB counts them faster than it adds numbers."""
        return _count_if()(truth)

    def whole_sum(self, value: Any) -> Any:
        """The sum of 64-bit whole numbers below 2**53, however large it is."""
        return value.sum()

    def ranked(self, column: str, fractions: Sequence[float]) -> str:
        """The SQL of the values below which these fractions of a column lie, as an array."""
        listed = ", ".join(f"CAST('{fraction!r}' AS DOUBLE)" for fraction in fractions)
        return f"quantile_disc({column}, [{listed}])"

    def marked(self, key: str, salt: str) -> str:
        """The SQL of the first eight hexadecimal digits of a keyed hash of a column, the same everywhere."""
        return f"substr(md5('{salt}' || coalesce(CAST({key} AS {self.text_type}), '')), 1, 8)"

    def constants(self, rows: Sequence[Sequence[str]]) -> str:
        """The SQL of a query that returns these rows of three constants, as place, a and b."""
        names = [self.quoted(name) for name in ("place", "a", "b")]
        return " UNION ALL ".join(
            "SELECT " + ", ".join(f"{cell} AS {name}" for cell, name in zip(row, names, strict=True))
            for row in rows
        )

    def clean(self, name: str, dtype: Any) -> tuple[str, str]:
        """The SQL of a column of an ibis type as questions see it, and its storage type (empty if it can only
        be tested for null). NaN is null, names and categories are text, decimals are floats, and times with a
        zone are in UTC."""
        column = self.quoted(name)
        if dtype.is_floating():
            storage = "float32" if dtype.nbytes <= 4 else "float64"
            return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END", storage
        if dtype.is_decimal():
            return f"CAST({column} AS DOUBLE)", "float64"
        if dtype.is_uuid() or dtype.is_json():
            return f"CAST({column} AS VARCHAR)", "string"
        if is_zoned(dtype):
            return f"timezone('UTC', {column})", "timestamp(6)"
        return column, stored_as(dtype)


class Portable(Dialect):
    """For unknown databases: some truncate digits after the point where others round."""

    lot = None

    def count_true(self, truth: Any) -> Any:
        return self.as_number(truth).sum()

    def nearest(self, value: Any) -> Any:
        # Such a large number has no digits after the point.
        large = exact(1.5 * 2.0**52)
        return (value + large - large).cast("int64")

    def clean(self, name: str, dtype: Any) -> tuple[str, str]:
        """As for DuckDB, but without times with a zone: their conversion to UTC is unknown."""
        return (self.quoted(name), "") if is_zoned(dtype) else super().clean(name, dtype)


def is_zoned(dtype: Any) -> bool:
    """Whether a column of an ibis type holds times with a zone."""
    return bool(dtype.is_timestamp() and dtype.timezone is not None)


def stored_as(dtype: Any) -> str:
    """The storage type of a column that needs no cleaning; empty if it cannot be used in computations."""
    if dtype.is_boolean() or dtype.is_integer() or dtype.is_date():
        return str(dtype.copy(nullable=True))
    if dtype.is_string():
        return "string"
    if dtype.is_timestamp() and dtype.timezone is None:
        return f"timestamp({6 if dtype.scale is None else dtype.scale})"
    return ""


def cases(*branches: tuple[Any, Any], else_: Any) -> Any:
    import ibis

    return ibis.cases(*branches, else_=else_)


def away_from_zero(floor: Callable[[Any], Any], value: Any) -> Any:
    """The nearest whole number, halves away from zero, made of a floor; every step is exact."""
    size = value.abs()
    whole = floor(size)
    nearest = cases((size - whole >= exact(0.5), whole + exact(1.0)), else_=whole)
    return cases((size >= exact(2.0**52), value), (value >= exact(0.0), nearest), else_=-nearest)


@cache
def _letters(name: str) -> tuple[str, str]:
    """The letters that DuckDB's ``lower`` or ``upper`` changes, and what it changes each of them to."""
    import duckdb

    with duckdb.connect() as database:
        pairs = database.execute(
            f"SELECT chr(i::INTEGER) AS old, {name}(old) AS new FROM range(1, 1114112) AS t(i) "
            "WHERE NOT (i >= 55296 AND i < 57344) AND old <> new ORDER BY i"
        ).fetchall()
    return "".join(old for old, _ in pairs), "".join(new for _, new in pairs)


def recased(name: str, text: Any) -> Any:
    """Text in upper or lower case, letter by letter and the same in every language. The database converts
    plain text itself; other letters come from a table."""
    import ibis

    size = builtin("octet_length", "string", gives="int32")(text)
    old, new = (ibis.literal(letters) for letters in _letters(name))
    translated = builtin("translate", "string", "string", "string", gives="string")(text, old, new)
    return cases((size == text.length(), builtin(name, "string", gives="string")(text)), else_=translated)
