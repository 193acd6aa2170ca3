"""Sums that are exact: values scaled to whole numbers and added as whole numbers, in any order and on any
engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.engines._builtin import exact
from holdfast.engines._dialect import Dialect
from holdfast.records import Record

__all__ = [
    "SCALE_BITS",
    "VALUES",
    "Question",
    "Shape",
    "Sums",
    "aggregate",
    "collect",
    "fill",
    "scaled",
    "shape_of",
    "units",
]

SCALE_BITS = 24
"""A mean's values are rounded to multiples of (hi - lo) / 2**24, half up: each is off by at most (hi - lo) ·
2**-25 and a few units in the last place of a float, so the mean of the scaled values is within (hi - lo) ·
3.1e-8 of the mean of the clipped ones."""

# Whole numbers up to 2**53 are added exactly by floats, in any order; beyond that many rows the engine adds
# integers.
_EXACT_IN_FLOATS = 2**53


VALUES = "@values"
"""The name that stands for the question's own values in a prepared statement."""


class Question(Protocol):
    """What an engine needs of a checked query; see :class:`holdfast.queries.CheckedQuery`."""

    @property
    def kind(self) -> str:
        """``"mean"``, ``"share"`` or ``"quantile"``."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the values of a mean are clipped."""

    @property
    def reads(self) -> frozenset[str]:
        """The columns that the question reads."""

    @property
    def counts(self) -> bool:
        """Whether the number of rows that enter the answer depends on the data."""

    @property
    def filters(self) -> bool:
        """Whether there is a filter."""

    @property
    def skips(self) -> bool:
        """Whether rows without a value are left out."""

    @property
    def missing(self) -> float:
        """What a row without a value counts as, unless it is left out."""

    @property
    def statements(self) -> dict[Any, str]:
        """What was compiled for this question so far, by table."""

    @property
    def pattern(self) -> Any:
        """The question's expressions without the numbers that columns are compared with; ``fill`` puts the
        numbers into a compiled statement."""

    @property
    def column(self) -> str | None:
        """The column that the question is the mean of and asks nothing else about; None for other
        questions."""

    def values(self, table: Any, columns: Any = None, pattern: Any = None) -> Any:
        """The question on an ibis table with these columns, row by row: its ``value``, null where it has
        none, and ``passes`` where there is a filter; of a pattern, if one is given."""


@dataclass(frozen=True, repr=False)
class Sums(Record):
    """Exact sums over the rows that enter an answer.

    ``total`` is the sum of the whole numbers that stand for the values, each between 0 and ``scale``, and
    ``squares`` the sum of their squares (None unless asked for). The mean in the question's own units is lo +
    (hi - lo) · total / (rows · scale).
    """

    rows: int
    total: int
    squares: int | None
    scale: int


def _factor(lo: float, hi: float) -> float:
    return float(2**SCALE_BITS) / (hi - lo)


def scaled(value: float, lo: float, hi: float) -> int:
    """The whole number that stands for one value: the same arithmetic as the engine's, step by step."""
    if value <= lo:
        return 0
    return 2**SCALE_BITS if value >= hi else math.floor((value - lo) * _factor(lo, hi) + 0.5)


@dataclass(frozen=True)
class Shape:
    """What decides the statement around a question's own expressions; a session needs only a few."""

    kind: str
    filtered: bool
    known: bool
    squares: bool
    wide: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the statement returns."""
        asked = {"passed": self.filtered, "known": self.known, "total": True, "squares": self.squares}
        return tuple(name for name, wanted in asked.items() if wanted)


def shape_of(question: Question, *, squares: bool, count: int) -> Shape:
    known = question.skips or _weight(question) > 0
    wide = count * _scale(question) > _EXACT_IN_FLOATS
    return Shape(question.kind, question.filters, known, squares and question.kind == "mean", wide)


def aggregate(shape: Shape, dialect: Dialect) -> Any:
    """One aggregate over the stand-in table ``VALUES``, with stand-ins for the bounds."""
    import ibis

    kind = "boolean" if shape.kind == "share" else "float64"
    values = ibis.table({"value": kind, "passes": "boolean"}, name=VALUES)
    if shape.filtered:
        values = values.filter(values.passes)
    # What is used several times is computed once.
    if shape.kind == "mean":
        values = dialect.stage(values.select("value"))
    values = values.select(units=units(values.value, shape.kind, dialect))
    if shape.squares:
        values = dialect.stage(values)
    wanted = {
        "passed": values.count(),
        "known": values.units.count(),
        "total": dialect.whole_sum(values.units) if shape.wide else values.units.sum(),
        "squares": dialect.whole_sum(values.units * values.units),
    }
    return values.aggregate(**{name: wanted[name] for name in shape.names})


def units(value: Any, kind: str, dialect: Dialect, mark: str = "") -> Any:
    """The whole number that stands for a value, as a float, null for null and for NaN; ``mark`` tells the
    stand-ins of several questions apart.

    Nearly every value is below ``hi``, and only those that are not are looked at for NaN: a look at every one
    takes a database a tenth of the time of a question.
    """
    import ibis

    if kind == "share":
        return dialect.as_number(value)
    names = ("@low", "@lo", "@hi", "@factor")
    low, lo, hi, factor = (ibis.literal(name + mark).cast("float64") for name in names)
    inside = dialect.floor((value - lo) * factor + exact(0.5))
    most = exact(float(2**SCALE_BITS))
    above = (value >= hi) & ~value.isnan()
    return ibis.cases((value <= low, exact(0.0)), (value < hi, inside), (above, most), else_=None)


def fill(template: str, question: Question, mark: str = "") -> str:
    """The statement with the question's bounds in place of the stand-ins."""
    lo, hi = question.bounds
    # A quarter of a unit above lo is 0 still, and the product for what is above it is far from leaving the
    # range of floats, which some databases refuse to do.
    low = lo + (hi - lo) * 2.0 ** -(SCALE_BITS + 2)
    for name, value in (("@low", low), ("@lo", lo), ("@hi", hi), ("@factor", _factor(lo, hi))):
        template = template.replace(f"'{name}{mark}'", f"'{value!r}'")
    return template


def _scale(question: Question) -> int:
    return 1 if question.kind == "share" else 2**SCALE_BITS


def _weight(question: Question) -> int:
    """The whole number that stands for a row without a value."""
    if question.skips:
        return 0
    return int(question.missing) if question.kind == "share" else scaled(question.missing, *question.bounds)


def collect(question: Question, shape: Shape, row: tuple[Any, ...], *, count: int, squares: bool) -> Sums:
    """The sums from the one row that came back; rows without a value enter as the question says."""
    found = {name: int(value or 0) for name, value in zip(shape.names, row, strict=True)}
    passed = found.get("passed", count)
    known = found.get("known", passed)
    weight = _weight(question)
    total = found["total"] + weight * (passed - known)
    return Sums(
        rows=known if question.skips else passed,
        total=total,
        # The square of 0 or 1 is itself.
        squares=found.get("squares", found["total"]) + weight * weight * (passed - known)
        if squares
        else None,
        scale=_scale(question),
    )
