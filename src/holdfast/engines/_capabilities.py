"""What a database can do exactly as documented. This is checked before the first question, on constants only.

Databases differ in some operations on numbers and texts: ends of the range of floats, halves, last digits of
logarithms, letters of other languages. The database and DuckDB here compute a list of such operations. If a
result differs in any bit, the database lacks that operation. Without the first few operations no question can
be answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, partial
from itertools import product
from typing import Any

from holdfast.engines._database import Database, DuckDB, as_query
from holdfast.engines._dialect import Dialect, exact
from holdfast.errors import QueryRejected

__all__ = ["probe"]

# Makes an expression from the columns a and b of a table of constants.
Make = Callable[[Dialect, Any, Any], Any]

_ENDS = (0.0, 1.5, -2.5, 1e300, -1e300, 5e-324, 3e-160, 1.7e308, math.inf, -math.inf)
_HALVES = (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 2.0**52 + 1, 1e300, -1e300, -0.3, 3.0)
# Arguments for which implementations differ, though each is right to less than a unit in the last place.
_DIGITS = tuple(math.fmod(0.7390851332151607 * place**3, 50) + 1 / 3 for place in range(1, 60))
_POWERS = (
    *zip(_DIGITS, reversed(_DIGITS), strict=True),
    (0.0, 2.0),
    (-3.0, 3.0),
    (1e200, 2.0),
    (1e200, -2.0),
)
_WHOLE = tuple(product((7.0, -7.0, 2.0**62, 2.0**63, -(2.0**63)), (2.0, -3.0, 1e9)))
_LETTERS = ("Grün", "ÉCOLE", "straße", "İIıi", "ΣΑΣ", "ǅ", "𐐀𐐨", "plain TEXT 1", "ᾳ", "ŉ")
_NUMBERS = ("12", " -1.5e3 ", "1e999", "-1e999", "1e-999", ".5", "5.", "1_000", "nan", "0x1", "1\n", "")
_FITTING = ("", "a", "ab", "aXb", "a%b", "a_b", "a\\b", "a\nb", "éb", "𐐀b", "A", "a%", "\\", "%", ".*")
_PATTERNS = ("%", "_", "a%", "%b", "_b", "a_b", "%\\%", "a\\%", "a\\_", ".%", "a%b%", "__")
_MOMENTS = tuple(
    map(
        datetime.fromisoformat,
        (
            "0001-01-01",
            "1582-10-10T05:00:00",
            "1969-12-31T23:59:59.999999",
            "2024-02-29T12:30:00",
            "9999-12-31",
        ),
    )
)
_WORDS = ("", "a", "B", "é", "z", "Z", "a b", "ab")
_BASIS = "the basis"
_CONSTANTS = "@constants"


def probe(database: Database) -> frozenset[str]:
    """What the database lacks, by the word that questions use. Refused if it lacks a basic operation."""
    expected, computed = _by_duckdb(), _outcomes(database)
    lacking = {word.partition(":")[0] for word in expected if computed.get(word) != expected[word]}
    if _BASIS in lacking:
        raise QueryRejected(
            f"{database.dialect.engine} does not compute with 64-bit floats, nulls and texts as questions "
            "need it; copy the rows to Parquet, or to DuckDB, PostgreSQL or Spark."
        )
    return frozenset(lacking)


@cache
def _by_duckdb() -> dict[str, Any]:
    return _outcomes(DuckDB())


def _outcomes(database: Database) -> dict[str, Any]:
    """The result of every operation. An operation that raises is left out."""
    outcomes = {}
    for word, (constants, makes) in _OPERATIONS.items():
        try:
            outcomes[word] = _computed(database, constants, makes)
        except Exception:
            continue
    return outcomes


def _computed(database: Database, constants: Sequence[Any], makes: Sequence[Make]) -> Any:
    import ibis
    from sqlglot import exp

    pairs = [constant if isinstance(constant, tuple) else (constant, constant) for constant in constants]
    kind = "string" if isinstance(pairs[0][0], str) else "float64"
    table = ibis.table({"place": "int64", "a": kind, "b": kind}, name=_CONSTANTS)
    values = {f"c{i}": make(database.dialect, table.a, table.b) for i, make in enumerate(makes)}
    chosen = table.select(place=table.place, **values) if values else table
    tree = database.tree(chosen)
    for constant_table in list(tree.find_all(exp.Table)):
        as_query(constant_table, _rows(database, pairs, kind))
    statement = database.statement(tree).text
    if not values:
        return _ranked(database, statement, len(pairs))
    rows = database.run(statement)
    return [[_plain(value) for value in row[1:]] for row in sorted(rows, key=lambda row: int(row[0]))]


def _rows(database: Database, pairs: Sequence[tuple[Any, Any]], kind: str) -> str:
    """The constants as a query. All are written with the same cast of a text."""
    import ibis

    cell = database.tree(ibis.literal("").cast(kind).name("a").as_table()).expressions[0].unalias()

    def written(value: Any) -> str:
        return database.cast_text(cell, value if isinstance(value, str) else repr(value))

    cells = [[written(value) for value in pair] for pair in pairs]
    return database.dialect.constants([(str(place), *pair) for place, pair in enumerate(cells)])


def _plain(value: Any) -> Any:
    """A value in the form that is compared: a float as its bits, with only one zero."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value + 0.0).hex()
    return value


def _ranked(database: Database, values: str, count: int) -> Any:
    fractions = [(rank - 0.5) / count for rank in range(1, count + 1)]
    ranked = database.dialect.ranked(database.dialect.quoted("a"), fractions)
    ((ordered,),) = database.run(f"SELECT {ranked} FROM ({values}) AS ranked")
    return [_plain(value) for value in ordered]


def _nan_as_null(make: Make) -> Make:
    """The same operation with NaN turned into null, as in questions."""
    return lambda dialect, a, b: (
        make(dialect, a, b).nullif(exact(math.nan)) if dialect.keeps_nan else make(dialect, a, b)
    )


def _truth(value: Any) -> Any:
    """A condition: true for 1, false for 0, null for -1."""
    return value.nullif(exact(-1.0)) == exact(1.0)


def _least(dialect: Dialect, a: Any, b: Any) -> Any:
    import ibis

    return ibis.least(a, b)


def _fits(pattern: str, dialect: Dialect, a: Any, b: Any) -> Any:
    return dialect.as_number(dialect.like(a, pattern))


def _part(name: str, moment: datetime, dialect: Dialect, a: Any, b: Any) -> Any:
    return dialect.part(name, dialect.constant_moment(moment))


_OPERATIONS: dict[str, tuple[Sequence[Any], Sequence[Make]]] = {
    f"{_BASIS}: numbers": (
        (*zip(_ENDS, (*_ENDS[3:], *_ENDS[:3]), strict=True), (1.7e308, 1.7e308), (-1e-200, 1e-200)),
        (
            _nan_as_null(lambda dialect, a, b: dialect.add(a, b)),
            _nan_as_null(lambda dialect, a, b: dialect.subtract(a, b)),
            _nan_as_null(lambda dialect, a, b: dialect.multiply(a, b)),
            _nan_as_null(lambda dialect, a, b: dialect.divide(a, b.nullif(exact(0.0)))),
            _least,
            lambda dialect, a, b: dialect.as_number(a < b),
            lambda dialect, a, b: dialect.as_number(a == b.abs()),
        ),
    ),
    f"{_BASIS}: whole numbers": (
        tuple(value for value in _HALVES if abs(value) < 2.0**51),
        (lambda dialect, a, b: dialect.nearest(a),),
    ),
    f"{_BASIS}: NaN": (
        (math.nan, 3.0),
        (
            lambda dialect, a, b: dialect.as_number(exact(1.0) - a >= exact(-1.0)),
            lambda dialect, a, b: a.nullif(exact(math.nan)),
        ),
    ),
    f"{_BASIS}: conditions": (
        tuple(product((1.0, 0.0, -1.0), repeat=2)),
        (
            lambda dialect, a, b: dialect.as_number(_truth(a) & _truth(b)),
            lambda dialect, a, b: dialect.as_number(_truth(a) | ~_truth(b)),
            lambda dialect, a, b: dialect.as_number(_truth(a).isnull()),
        ),
    ),
    f"{_BASIS}: texts": (
        tuple(product(_WORDS, repeat=2)),
        (
            lambda dialect, a, b: dialect.as_number(dialect.compare_texts(lambda x, y: x < y, a, b)),
            lambda dialect, a, b: dialect.as_number(a == b),
            lambda dialect, a, b: dialect.as_number(a.isin(["é", "Z"])),
        ),
    ),
    "quantile": (_ENDS, ()),
    "sqrt": (_DIGITS, (lambda dialect, a, b: a.sqrt(),)),
    "exp": ((*_DIGITS, 709.79, -745.2, -800.0), (lambda dialect, a, b: dialect.exp(a),)),
    "ln": ((*_DIGITS, 1e-310, math.inf), (lambda dialect, a, b: dialect.ln(a),)),
    "power": (_POWERS, (lambda dialect, a, b: dialect.power(a, b),)),
    "floor": (_HALVES, (lambda dialect, a, b: dialect.floor(a),)),
    "round": (_HALVES, (lambda dialect, a, b: dialect.round(a),)),
    "%": (_WHOLE, (lambda dialect, a, b: dialect.remainder(a, b),)),
    "length": (_LETTERS, (lambda dialect, a, b: a.length().cast("float64"),)),
    "lower": (_LETTERS, (lambda dialect, a, b: dialect.lower(a),)),
    "upper": (_LETTERS, (lambda dialect, a, b: dialect.upper(a),)),
    "like": (_FITTING, tuple(partial(_fits, pattern) for pattern in _PATTERNS)),
    **{
        name: ((0.0,), tuple(partial(_part, name, moment) for moment in _MOMENTS))
        for name in ("year", "month", "day", "hour", "isodow")
    },
    "as number": (_NUMBERS, (lambda dialect, a, b: dialect.number_in(a),)),
}
