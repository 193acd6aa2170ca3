"""Exact sums and order statistics. Values become whole numbers and are added as whole numbers, in any order
and on any engine. The r-th smallest value is exact, also with ties.

Several questions share one statement if that reads less. One statement for many questions is not always
faster: DuckDB computes its columns question by question anyway, and a filter inside an aggregate costs two to
five times as much as in a ``WHERE``. Only the reading of columns and the filter are shared. So questions
share a statement if they have the same filter and read the same columns, at most ``MOST_TOGETHER`` at a time.
Databases of other people read whole rows: there, all questions with the same filter share a statement. On
Spark every statement is a job: there, all questions share one.

Sixteen shares of one column are summed 2 to 3 times as fast together, with one filter 2.5 to 4 times (6 times
in PostgreSQL, 10 in Spark). Clipped means are hardly faster, because their arithmetic takes the time
(``benchmarks/batches.py``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.checks import whole
from holdfast.engines._database import VALUES, DuckDB, Statement, number, parameter_name, renamed
from holdfast.engines._dialect import Dialect, exact
from holdfast.engines._other_dialects import Spark
from holdfast.records import Record

if TYPE_CHECKING:
    from ibis import Table

    from holdfast.engines._rows import Rows
    from holdfast.engines._schema import Schema

__all__ = [
    "MOST_TOGETHER",
    "SCALE_BITS",
    "Edges",
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
    "sums_of_all",
    "values_to_rank",
]


SCALE_BITS = 24
"""A mean's values are rounded to multiples of (hi - lo) / 2**24, halves to even: each is off by at most
(hi - lo) · 2**-25 and a few units in the last place of a float, so the mean of the scaled values is within
(hi - lo) · 3.1e-8 of the mean of the clipped ones."""

# The most rows, of at most 2**24 units each, whose total fits 64 bits.
_MOST_IN_64_BITS = 2 ** (63 - SCALE_BITS) - 1

MOST_TOGETHER = 16
"""The most questions in one statement."""


class Edges(NamedTuple):
    """Numbers, or their places in a statement (:func:`holdfast.engines._sums.edge_places`).

    Values lie between ``lo`` and ``hi``. Counted downwards from ``lo``, they are 0 to ``far``; times
    ``slope``, 0 to 2**24. Up to ``low`` the product is at most a quarter of a unit, so it counts as 0. Above
    ``low`` the product stays far inside the range of floats, which matters because some databases raise
    outside it.
    """

    lo: Any
    low: Any
    hi: Any
    far: Any
    slope: Any

    @classmethod
    def of(cls, lo: float, hi: float) -> Edges:
        width = hi - lo
        quarter = width * 2.0 ** -(SCALE_BITS + 2)
        return cls(lo, lo + quarter, hi, -width, -(2.0**SCALE_BITS) / width)

    def named(self, mark: str) -> dict[str, float]:
        """These numbers by the names that they have in a statement; ``mark`` tells several questions
        apart."""
        return {f"{name}{mark}": value for name, value in self._asdict().items()}


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
        """The number that a row without a value counts as, unless such rows are left out."""

    @property
    def statements(self) -> dict[Any, Any]:
        """The statements compiled for this question so far, by table."""

    @property
    def pattern(self) -> Any:
        """The question's expressions without the numbers that columns are compared with; these are its
        ``numbers``, in order."""

    @property
    def nodes(self) -> Mapping[str, Any]:
        """What is computed for each row, by name, in canonical form."""

    @property
    def column(self) -> str | None:
        """The column, for a question that is only the mean of one column; None for other questions."""

    @property
    def member(self) -> Any:
        """For a question that is one row of a table: the question whose groups are the rows of that table,
        and the number of this question's group. None for other questions."""

    def values(
        self,
        table: Table,
        schema: Schema | None = None,
        *,
        patterned: bool = False,
        unit: str | None = None,
    ) -> Any:
        """The question on an ibis ``table`` with the columns of ``schema``, row by row: its ``value``, null
        where it has none, and ``passes`` if there is a filter. If ``patterned``, with parameters in place of
        the numbers of its pattern. If ``unit`` names a column, that column too."""


@dataclass(frozen=True, repr=False)
class Sums(Record):
    """Exact sums over the rows that enter an answer.

    ``rows`` is how many there are. ``total`` is the sum of the whole numbers that stand for the values, each
    between 0 and ``scale``, and ``squares`` the sum of their squares (None unless asked for). The mean in the
    question's own units is lo + (hi - lo) · total / (rows · scale). Of a mean, the squares come with how many
    values were ``clipped``.
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
    ``present`` says that rows with a value are counted, ``computed`` that the value is more than a column,
    and ``wide`` that 64 bits may not hold the total."""

    kind: str
    filtered: bool
    present: bool
    squares: bool
    computed: bool
    wide: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the statement returns."""
        returned = {
            "passed": self.filtered,
            "present": self.present,
            "total": True,
            "squares": self.squares,
            "outside": self.squares,
        }
        return tuple(name for name, is_returned in returned.items() if is_returned)


def shape_of(question: EngineQuery, *, squares: bool, count: int) -> Shape:
    present = question.skips or _weight(question) > 0
    mean = question.kind == "mean"
    computed, wide = mean and question.column is None, mean and count > _MOST_IN_64_BITS
    return Shape(question.kind, question.filters, present, squares and mean, computed, wide)


def aggregate(shape: Shape, dialect: Dialect) -> Any:
    """One aggregate over the table ``VALUES``, which stands for the question's own values."""
    import ibis

    kind = "boolean" if shape.kind == "share" else "float64"
    values = ibis.table({"value": kind, "passes": "boolean"}, name=VALUES)
    if shape.filtered:
        values = values.filter(values.passes)
    # An expression that is used several times is computed once, unless that is as cheap as reading it.
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
    """How far a mean's value is below ``lo``; for a share, the value itself. If it matters which rows have a
    value, also the value, null for NaN. ``mark`` distinguishes several questions."""
    below, present = value, value
    if shape.kind == "mean":
        below, present = dialect.below(value, edge_places(mark)), value.nullif(exact(math.nan))
    return {f"value{mark}": below, **({f"present{mark}": present} if shape.present else {})}


def clipped(values: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """The result of :func:`lowered` for a mean, clipped, beside the unclipped; for a share the condition."""
    value, present = values[f"value{mark}"], f"present{mark}"
    columns = {f"value{mark}": value, **({present: values[present]} if shape.present else {})}
    if shape.kind == "mean":
        columns[f"clipped{mark}"] = dialect.clipped(value, edge_places(mark))
    return columns


def counted(values: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """The whole number for the result of :func:`clipped`, null or 0 for a row without a value. If squares are
    wanted, also whether the value was outside its bounds. For a share, the condition itself."""
    value, present = values[f"value{mark}"], f"present{mark}"
    columns = {present: values[present]} if shape.present else {}
    if shape.kind == "share":
        return {f"units{mark}": value, **columns}
    edges, inside = edge_places(mark), values[f"clipped{mark}"]
    if shape.squares:
        columns[f"outside{mark}"] = dialect.outside(value, inside, edges)
    return {f"units{mark}": dialect.nearest(inside * edges.slope), **columns}


def summed(values: Any, shape: Shape, dialect: Dialect, mark: str = "") -> dict[str, Any]:
    """The sums of the results of :func:`counted` over all rows, by the names of :attr:`Shape.names`."""
    units = values[f"units{mark}"]
    present = {f"present{mark}": values[f"present{mark}"].count()} if shape.present else {}
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
    return {**present, f"total{mark}": total, **squares}


def numbers_of(question: EngineQuery, mark: str = "") -> dict[str, float]:
    """The numbers that the statement of a question gets, by name."""
    return {**compared_numbers(question, mark), **Edges.of(*question.bounds).named(mark)}


def compared_numbers(question: EngineQuery, mark: str = "") -> dict[str, float]:
    """The numbers that the question compares columns with, by their names in the statement."""
    return {parameter_name(place, mark): value for place, value in enumerate(question.pattern.numbers)}


def edge_places(mark: str) -> Edges:
    """The places of a question's edges in a statement; ``mark`` distinguishes several questions."""
    return Edges(*(number(f"{name}{mark}") for name in Edges._fields))


def _scale(question: EngineQuery) -> int:
    return 1 if question.kind == "share" else 2**SCALE_BITS


def _weight(question: EngineQuery) -> int:
    """The whole number that stands for a row without a value."""
    if question.skips:
        return 0
    return int(question.missing) if question.kind == "share" else scaled(question.missing, *question.bounds)


def collect(question: EngineQuery, shape: Shape, row: tuple[Any, ...], *, count: int, squares: bool) -> Sums:
    """The sums from the one returned row. Rows without a value enter as the question says."""
    sums = {name: int(value or 0) for name, value in zip(shape.names, row, strict=True)}
    passed = sums.get("passed", count)
    present = sums.get("present", passed)
    weight = _weight(question)
    total = sums["total"] + weight * (passed - present)
    return Sums(
        rows=present if question.skips else passed,
        total=total,
        # The square of 0 or 1 is itself.
        squares=sums.get("squares", sums["total"]) + weight * weight * (passed - present)
        if squares
        else None,
        scale=_scale(question),
        clipped=sums.get("outside"),
    )


def values_to_rank(values: Any, question: EngineQuery) -> Any:
    """The values of a question that are ranked, as an ibis table of one column."""
    import ibis

    if question.filters:
        values = values.filter(values.passes)
    value = values.value if question.skips else ibis.coalesce(values.value, exact(question.missing))
    return values.select(value=value)


def fractions_of(ranks: Sequence[int], rows: int) -> list[float]:
    """The fraction of ``rows`` values below each rank, from 1. It is halfway between two ranks, so no
    rounding of rank / rows can reach the next rank."""
    return [(rank - 0.5) / rows for rank in ranks]


def check_ranks(ranks: Sequence[int], rows: int) -> list[int]:
    return [whole(rank, f"ranks[{i}]", at_most=rows, of="order_statistics") for i, rank in enumerate(ranks)]


@dataclass(frozen=True, eq=False)
class _OwnExpressions:
    """A question's own expressions, taken from the tree that computes them row by row."""

    value: Any
    passes: Any | None
    source: Any

    @classmethod
    def of(cls, tree: Any) -> _OwnExpressions | None:
        """None for a tree of several stages."""
        from sqlglot import exp

        source = tree.find(exp.From)
        named = {part.alias_or_name: part.unalias() for part in tree.expressions}
        plain_parts = {"expressions", source.key, source.arg_key}
        further_parts = {key for key, part in tree.args.items() if part} - plain_parts
        if (
            further_parts
            or not isinstance(source.this, exp.Table)
            or not {"value"} <= set(named) <= {"value", "passes"}
        ):
            return None
        return cls(named["value"], named.get("passes"), source)


@dataclass(frozen=True)
class _Summed:
    """A question in its place among the others."""

    place: int
    question: EngineQuery
    squares: bool
    shape: Shape
    side: _OwnExpressions | None


def sums_of_all(rows: Rows, questions: Sequence[EngineQuery], squares: Sequence[bool]) -> list[Sums]:
    """The exact sums over ``rows`` of several checked ``questions``, in few statements. The integers are the
    same as for each question alone. ``squares`` says for each question whether sums of squares are wanted
    too."""
    rows.require_readable()
    sums = _sums_of_tables(rows, questions)
    if len(questions) == 1 and not sums:
        return [rows.sums(questions[0], squares=squares[0])]
    others = [place for place in range(len(questions)) if place not in sums]
    for group in _groups(rows, questions, squares, others):
        if len(group) == 1:
            (alone,) = group
            sums[alone.place] = rows.sums(alone.question, squares=alone.squares)
        else:
            sums |= _together(rows, group)
    return [sums[place] for place in range(len(questions))]


def _sums_of_tables(rows: Rows, questions: Sequence[EngineQuery]) -> dict[int, Sums]:
    """The sums of questions that are rows of a table, each table by one scan."""
    tables: dict[int, list[int]] = {}
    for place, question in enumerate(questions):
        if question.member is not None:
            tables.setdefault(id(question.member[0]), []).append(place)
    sums = {}
    for places in tables.values():
        cells = {cell[0]: cell for cell in rows.cells(questions[places[0]].member[0], [(0, 0, 1)])}
        for place in places:
            question = questions[place]
            _, count, total, _, squares, *_ = cells.get(question.member[1], (0,) * 11)
            scale = 2**SCALE_BITS
            if question.kind == "share":
                scale, total = 1, total >> SCALE_BITS
                squares = total
            sums[place] = Sums(count, total, squares, scale)
    return sums


def _groups(
    rows: Rows,
    questions: Sequence[EngineQuery],
    squares: Sequence[bool],
    places: Sequence[int] | None = None,
) -> list[list[_Summed]]:
    """The questions at ``places`` in groups that can share a statement, in the order of the first question of
    each group."""
    groups: dict[Hashable, list[_Summed]] = {}
    for place in range(len(questions)) if places is None else places:
        question, with_squares = questions[place], squares[place]
        shape = shape_of(question, squares=with_squares, count=rows.count)
        side = _OwnExpressions.of(rows.values_tree(question))
        key: Hashable = place
        if side is not None:
            columns = question.reads if isinstance(rows._database, DuckDB) else None
            passes = None if isinstance(rows._database.dialect, Spark) else question.nodes.get("passes")
            key = (passes, rows.read_by(question), columns)
        groups.setdefault(key, []).append(_Summed(place, question, with_squares, shape, side))
    return [
        group[start : start + MOST_TOGETHER]
        for group in groups.values()
        for start in range(0, len(group), MOST_TOGETHER)
    ]


def _together(rows: Rows, group: list[_Summed]) -> dict[int, Sums]:
    database, shapes = rows._database, tuple(member.shape for member in group)
    shared = len({member.question.nodes.get("passes") for member in group}) == 1
    patterns = tuple(member.question.pattern for member in group)
    statement: Statement = rows.compiled(
        (patterns, shapes, shared),
        lambda: database.around(
            _values(
                [member.side for member in group if member.side is not None],
                shared,
            ),
            (shapes, shared),
            lambda: _aggregate(shapes, shared, database.dialect),
        ),
    )
    numbers: dict[str, float] = {}
    for mark, member in enumerate(group):
        numbers |= numbers_of(member.question, str(mark))
    (row,) = database.ask(statement, numbers)
    named = dict(zip(_names(shapes, shared), row, strict=True))
    return {
        member.place: collect(
            member.question,
            member.shape,
            tuple(named[_name(name, mark, shared)] for name in member.shape.names),
            count=rows.count,
            squares=member.squares,
        )
        for mark, member in enumerate(group)
    }


def _values(sides: list[_OwnExpressions], shared: bool) -> Any:
    """The questions' expressions side by side. If each has its own filter, its value is null for rows that do
    not pass."""
    from sqlglot import exp

    listed = []
    for mark, side in enumerate(sides):
        value, passes = (
            None if part is None else renamed(part, lambda name, mark=mark: f"{name}{mark}")  # type: ignore[misc]
            for part in (side.value, side.passes)
        )
        own = value if shared or passes is None else exp.Case().when(passes, value)
        listed.append(exp.alias_(own, f"value{mark}", quoted=True))
        if passes is not None and not (shared and mark):
            listed.append(exp.alias_(passes, _name("passes", mark, shared), quoted=True))
    return exp.select(*listed).from_(sides[0].source.this.copy())


def _name(name: str, mark: int, shared: bool) -> str:
    """The name of a column. A shared filter has one column for all questions."""
    return name if shared and name in ("passes", "passed") else f"{name}{mark}"


def _names(shapes: tuple[Shape, ...], shared: bool) -> list[str]:
    named = (_name(name, mark, shared) for mark, shape in enumerate(shapes) for name in shape.names)
    return list(dict.fromkeys(named))


def _aggregate(shapes: tuple[Shape, ...], shared: bool, dialect: Dialect) -> Any:
    """One aggregate over the table ``VALUES``, with a value for each question."""
    import ibis

    kinds = {
        f"value{mark}": "boolean" if shape.kind == "share" else "float64" for mark, shape in enumerate(shapes)
    }
    passes = {_name("passes", mark, shared): "boolean" for mark, shape in enumerate(shapes) if shape.filtered}
    values = ibis.table({**kinds, **passes}, name=VALUES)
    if shared and passes:
        values, passes = values.filter(values.passes), {}
    # An expression that is used several times is computed once, unless that is as cheap as reading it.
    below = (lowered(values[f"value{mark}"], shape, dialect, str(mark)) for mark, shape in enumerate(shapes))
    values = values.select(*passes, **_merged(below))
    if any(shape.computed for shape in shapes):
        values = dialect.stage(values)
    inside = (clipped(values, shape, dialect, str(mark)) for mark, shape in enumerate(shapes))
    values = values.select(*passes, **_merged(inside))
    units = (counted(values, shape, dialect, str(mark)) for mark, shape in enumerate(shapes))
    values = values.select(*passes, **_merged(units))
    if any(shape.squares for shape in shapes):
        values = dialect.stage(values)
    totals = _merged(summed(values, shape, dialect, str(mark)) for mark, shape in enumerate(shapes))
    totals |= {f"passed{name.removeprefix('passes')}": values[name].sum() for name in passes}
    totals["passed"] = values.count()
    return values.aggregate(**{name: totals[name] for name in _names(shapes, shared)})


def _merged(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}
