"""Sums and order statistics that are exact: values become whole numbers and are added as whole numbers, in
any order and on any engine; the r-th smallest value is found with ties and all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.checks import whole
from holdfast.engines._dialect import SCALE_BITS, Dialect, Edges, exact
from holdfast.engines._statements import number, parameter_name
from holdfast.records import Record

__all__ = [
    "VALUES",
    "EngineQuery",
    "Shape",
    "Sums",
    "aggregate",
    "check_ranks",
    "clipped",
    "collect",
    "compared_numbers",
    "counted",
    "edge_places",
    "fractions_of",
    "lowered",
    "numbers_of",
    "scaled",
    "shape_of",
    "summed",
    "values_to_rank",
]


# So many rows, each of at most 2**24 units.
_MOST_IN_64_BITS = 2 ** (63 - SCALE_BITS) - 1

VALUES = "@values"
"""The table that stands for the question's own values in the statement around them."""


class EngineQuery(Protocol):
    """What an engine needs to know about a checked query; :class:`holdfast.queries.CheckedQuery` is one."""

    @property
    def kind(self) -> str:
        """The name of the statistic: ``"mean"``, ``"share"``, ``"quantile"``, ``"ratio"``, ..."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the values are clipped."""

    @property
    def other_bounds(self) -> tuple[float, float] | None:
        """Where the second values are clipped; None for one value of each row."""

    @property
    def grouped(self) -> bool:
        """Whether rows are divided into groups."""

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
    def statements(self) -> dict[Any, Any]:
        """What was compiled for this question so far, by table."""

    @property
    def pattern(self) -> Any:
        """The question's expressions without the numbers that columns are compared with; these are its
        ``numbers``, in order."""

    @property
    def nodes(self) -> Mapping[str, Any]:
        """What is computed for each row, by name, in canonical form."""

    @property
    def column(self) -> str | None:
        """The column that the question is the mean of and asks nothing else about; None for other
        questions."""

    @property
    def member(self) -> Any:
        """Of a table's question, that whose groups are the table's, and the number of its own; else None."""

    def values(self, table: Any, schema: Any = None, pattern: Any = None, unit: str | None = None) -> Any:
        """The question on an ibis table with these columns, row by row: its ``value``, null where it has
        none, and ``passes`` where there is a filter; of a pattern, if one is given. With a column that says
        which ``unit`` a row belongs to, that too."""


@dataclass(frozen=True, repr=False)
class Sums(Record):
    """Exact sums over the rows that enter an answer.

    ``total`` is the sum of the whole numbers that stand for the values, each between 0 and ``scale``, and
    ``squares`` the sum of their squares (None unless asked for). The mean in the question's own units is lo +
    (hi - lo) · total / (rows · scale). Of a mean, the squares come with how many values were ``clipped``.
    """

    rows: int
    total: int
    squares: int | None
    scale: int
    clipped: int | None = None


def scaled(value: float, lo: float, hi: float) -> int:
    """The whole number that stands for one value: the same arithmetic as the engine's, step by step."""
    edges = Edges.of(lo, hi)
    below = lo - value
    return 0 if below >= 0 else round(max(below, edges.far) * edges.slope)


@dataclass(frozen=True)
class Shape:
    """What decides the statement around a question's own expressions; a session needs only a few.
    ``computed`` says that the value is more than a column, ``wide`` that 64 bits may not hold the total."""

    kind: str
    filtered: bool
    known: bool
    squares: bool
    computed: bool
    wide: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the statement returns."""
        asked = {
            "passed": self.filtered,
            "known": self.known,
            "total": True,
            "squares": self.squares,
            "outside": self.squares,
        }
        return tuple(name for name, wanted in asked.items() if wanted)


def shape_of(question: EngineQuery, *, squares: bool, count: int) -> Shape:
    known = question.skips or _weight(question) > 0
    mean = question.kind == "mean"
    computed, wide = mean and question.column is None, mean and count > _MOST_IN_64_BITS
    return Shape(question.kind, question.filters, known, squares and mean, computed, wide)


def aggregate(shape: Shape, dialect: Dialect) -> Any:
    """One aggregate over the table ``VALUES``, which stands for the question's own values."""
    import ibis

    kind = "boolean" if shape.kind == "share" else "float64"
    values = ibis.table({"value": kind, "passes": "boolean"}, name=VALUES)
    if shape.filtered:
        values = values.filter(values.passes)
    # What is used several times is computed once, unless that is as cheap as reading it.
    values = values.select(**lowered(values.value, shape, dialect))
    if shape.computed:
        values = dialect.stage(values)
    values = values.select(**clipped(values, shape, dialect))
    values = values.select(**counted(values, shape, dialect))
    if shape.squares:
        values = dialect.stage(values)
    passed = {"passed": values.count()} if shape.filtered else {}
    return values.aggregate(**passed, **summed(values, shape, dialect))


def lowered(value: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """How far a mean's value is below ``lo`` (of a share the value itself) and, where it matters which rows
    have one, the value, null for NaN; ``mark`` tells several questions apart."""
    below, known = value, value
    if shape.kind == "mean":
        below, known = dialect.below(value, edge_places(mark)), value.nullif(exact(math.nan))
    return {f"value{mark}": below, **({f"known{mark}": known} if shape.known else {})}


def clipped(values: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """What :func:`lowered` made of a mean's value, clipped, beside what it was; of a share the condition."""
    value, known = values[f"value{mark}"], f"known{mark}"
    kept = {f"value{mark}": value, **({known: values[known]} if shape.known else {})}
    if shape.kind == "mean":
        kept[f"clipped{mark}"] = dialect.clipped(value, edge_places(mark))
    return kept


def counted(values: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """The whole number that stands for what :func:`clipped` made of a value, null or 0 for none, and where
    squares are wanted whether the value was outside its bounds; of a share the condition itself."""
    value, known = values[f"value{mark}"], f"known{mark}"
    kept = {known: values[known]} if shape.known else {}
    if shape.kind == "share":
        return {f"units{mark}": value, **kept}
    edges, inside = edge_places(mark), values[f"clipped{mark}"]
    if shape.squares:
        kept[f"outside{mark}"] = dialect.outside(value, inside, edges)
    return {f"units{mark}": dialect.nearest(inside * edges.slope), **kept}


def summed(values: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """The sums over what :func:`counted` made of all rows, by the names of :attr:`Shape.names`."""
    units = values[f"units{mark}"]
    known = {f"known{mark}": values[f"known{mark}"].count()} if shape.known else {}
    if shape.kind == "share":
        total = dialect.count_true(units)
    else:
        total = dialect.whole_sum(units) if shape.wide else units.sum()
    squares = {}
    if shape.squares:
        squares = {
            f"squares{mark}": dialect.whole_sum(units * units),
            f"outside{mark}": dialect.count_true(values[f"outside{mark}"]),
        }
    return {**known, f"total{mark}": total, **squares}


def numbers_of(question: EngineQuery, mark: str = "") -> dict[str, float]:
    """The numbers that the statement of a question is given, by name."""
    return {**compared_numbers(question, mark), **Edges.of(*question.bounds).named(mark)}


def compared_numbers(question: EngineQuery, mark: str = "") -> dict[str, float]:
    """The numbers that the question compares columns with, by their names in the statement."""
    return {parameter_name(place, mark): value for place, value in enumerate(question.pattern.numbers)}


def edge_places(mark: str) -> Edges:
    """The places of a question's edges in a statement; ``mark`` tells several questions apart."""
    return Edges(*(number(f"{name}{mark}") for name in Edges._fields))


def _scale(question: EngineQuery) -> int:
    return 1 if question.kind == "share" else 2**SCALE_BITS


def _weight(question: EngineQuery) -> int:
    """The whole number that stands for a row without a value."""
    if question.skips:
        return 0
    return int(question.missing) if question.kind == "share" else scaled(question.missing, *question.bounds)


def collect(question: EngineQuery, shape: Shape, row: tuple[Any, ...], *, count: int, squares: bool) -> Sums:
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
        clipped=found.get("outside"),
    )


def values_to_rank(values: Any, question: EngineQuery) -> Any:
    """Of a question's values those that are ranked, as an ibis table of one column."""
    import ibis

    if question.filters:
        values = values.filter(values.passes)
    value = values.value if question.skips else ibis.coalesce(values.value, exact(question.missing))
    return values.select(value=value)


def fractions_of(ranks: Sequence[int], rows: int) -> list[float]:
    """What is left below each rank, from 1, among ``rows`` values: halfway between two ranks, so that no
    rounding of rank / rows can reach the neighbour."""
    return [(rank - 0.5) / rows for rank in ranks]


def check_ranks(ranks: Sequence[int], rows: int) -> list[int]:
    return [whole(rank, f"ranks[{i}]", at_most=rows, of="order_statistics") for i, rank in enumerate(ranks)]
