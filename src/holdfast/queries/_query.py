"""The question itself: a frozen record that says everything that is asked and nothing about the data. And the
check that the question fits a schema, which reads no row."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast import engines
from holdfast.checks import choice
from holdfast.engines import REMAINDER, Dialect
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.queries._compile import Compiler
from holdfast.queries._expression import Expression
from holdfast.queries._kinds import PARTIAL, Gap, check_kinds, gap, kind_of, misfit, when_true
from holdfast.queries._nodes import (
    COMPARISONS,
    Call,
    ColumnNode,
    Literal,
    Node,
    Parameter,
    is_exact,
    number,
    show,
    text_of,
    truth,
    walk,
)
from holdfast.records import Record

if TYPE_CHECKING:
    from ibis import Table

__all__ = [
    "KINDS",
    "MOST_OPERATIONS",
    "TRAIN",
    "CheckedQuery",
    "Nulls",
    "Pattern",
    "Query",
    "check",
    "limits",
]


Nulls = float | bool | str | None

KINDS = (
    *("mean", "share", "quantile", "ratio", "difference", "lift", "variance", "std"),
    *("covariance", "correlation", "slope", "cdf", "histogram"),
)
"""What may be asked for."""
TRAIN = "train"
"""Bounds that the training part is to propose."""
_UNBOUNDED = ("share", "quantile", "cdf", "histogram")

MOST_OPERATIONS = 5_000
"""The most operations for one row that a question may take."""
# How many shapes of questions are kept for one table.
_MOST_SHAPES = 1_000
# How often the text of an operation's arguments is written out when the arguments are kept inside its domain.
_COPIES = {
    "ln": 2,
    "sqrt": 2,
    "least": 2,
    "greatest": 2,
    "power": 4,
    "as number": 2,
    "as text": 2,
    "as boolean": 2,
}


@dataclass(frozen=True, repr=False)
class Query(Record):
    """One question about a table; made by the functions of :mod:`holdfast.queries`, or by :func:`read`.

    ``kind`` is the statistic, one of ``KINDS``, and ``q`` the level of a quantile. ``guess`` is the answer
    that you expect. ``expression`` is the value of each row. Some kinds also use an ``other`` value of each
    row. Some compare ``groups`` of rows, each given by a condition; a row is in the first group whose
    condition is true for it. A question ``by`` some columns is one question for each of their values. The
    ``bins`` of a histogram are their number, or their edges.

    ``nulls`` says what a row without a value counts as: a number (for a share True or False), or ``"skip"``
    to leave such rows out. Without it, a question is refused if nulls are to be expected. If a null occurs
    anyway, it counts as the lowest value (``bounds[0]``, False, for a quantile minus infinity). In the filter
    ``where`` a null does not pass. Values outside ``bounds`` are clipped, and ``other`` values outside
    ``other_bounds``; with ``trained_bounds`` the training part proposes both.
    """

    kind: str
    expression: Expression
    bounds: tuple[float, float] | None = None
    q: float | None = None
    where: Expression | None = None
    nulls: Nulls = None
    guess: float | None = None
    other: Expression | None = None
    other_bounds: tuple[float, float] | None = None
    groups: tuple[Expression, ...] = ()
    by: tuple[Expression, ...] = ()
    trained_bounds: bool = False
    bins: int | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            choice(self.kind, "kind", KINDS, of="Query")
        for name in ("expression", "where", "other"):
            part = getattr(self, name)
            if not isinstance(part, Expression) and (name == "expression" or part is not None):
                wanted = "an Expression (queries.mean, share, quantile and read make queries from text)"
                raise InvalidArgument(name, wanted, part, of="Query")
        if self.where is not None and self.where.node == truth(True):
            object.__setattr__(self, "where", None)

    @property
    def is_table(self) -> bool:
        """Whether the answer is a table: one row for each group, or for each bin."""
        return bool(self.by) or self.kind == "histogram"

    @property
    def needs_bounds(self) -> bool:
        """Whether the bounds at which values are clipped are still missing."""
        return self.bounds is None and self.kind not in _UNBOUNDED

    @property
    def is_settled(self) -> bool:
        """Whether the question is complete without the training part: it has its bounds, has no groups, and
        is no table."""
        return not (self.groups or self.needs_bounds or self.is_table)

    @property
    def statistic(self) -> str:
        """What is computed, by name: the kind, or "weighted mean"."""
        return "weighted mean" if self.kind == "mean" and self.other is not None else self.kind

    @property
    def values(self) -> tuple[Expression, ...]:
        """The values of a row that are computed with."""
        return (self.expression,) if self.other is None else (self.expression, self.other)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Every expression of the question."""
        where = () if self.where is None else (self.where,)
        return (*self.values, *self.groups, *where, *self.by)

    @property
    def missing(self) -> float:
        """What a row without a value counts as, unless it is skipped."""
        if isinstance(self.nulls, (bool, int, float)):
            return float(self.nulls)
        if self.kind == "quantile":
            return -math.inf
        return self.bounds[0] if self.bounds else 0.0

    @property
    def text(self) -> str:
        """The question in canonical form, without the guess: what is asked, not what is expected."""
        return f"{self.kind}({', '.join([*self._subject(), *self._options(self.nulls)])})"

    @property
    def key(self) -> str:
        """A key that equal questions share: SHA-256 of the canonical form of everything but the guess."""
        nulls = self.nulls if self.nulls == "skip" else self.missing
        asked = f"{self.kind}({', '.join([*self._subject(), *self._options(nulls)])})"
        return hashlib.sha256(asked.encode()).hexdigest()

    def _subject(self) -> list[str]:
        numbers: tuple[float, ...] = (*(self.bounds or ()), *(self.other_bounds or ()))
        numbers += () if self.q is None else (self.q,)
        numbers += (self.bins,) if isinstance(self.bins, int) else self.bins or ()
        listed = self.values if self.kind != "mean" else (self.expression,)
        return [*(part.text for part in (*listed, *self.groups)), *map(show, numbers)]

    def _options(self, nulls: Nulls) -> list[str]:
        options = ["bounds = train"] if self.trained_bounds else []
        if self.kind == "mean" and self.other is not None:
            options.append(f"weights = {self.other.text}")
        if self.by:
            listed = ", ".join(part.text for part in self.by)
            options.append(f"by = {listed if len(self.by) == 1 else f'({listed})'}")
        if self.where is not None:
            options.append(f"where = {self.where.text}")
        if nulls is not None:
            options.append(f"nulls = {nulls if isinstance(nulls, str) else _constant(nulls)}")
        return options

    def __str__(self) -> str:
        guess = [] if self.guess is None else [f"guess = {show(self.guess)}"]
        return f"{self.kind}({', '.join([*self._subject(), *self._options(self.nulls), *guess])})"

    def check(self, schema: Mapping[str, engines.Column], nullable: Collection[str] = ()) -> CheckedQuery:
        """Check the question against a schema, without touching data; ``nullable`` names columns seen to hold
        nulls.

        Raises :class:`~holdfast.errors.QueryRejected` that says what to write instead: an unknown column, a
        kind that does not fit, a value that may be missing while the question does not say what missing
        values count as.
        """
        return check(self, schema, nullable)


def _constant(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-inf" if value == -math.inf else show(value)


def limits(query: Query) -> tuple[float, float]:
    """The limits of the statistic of ``query`` for any rows."""
    low, high = query.bounds or (-math.inf, math.inf)
    width = high - low
    across = 0.0 if query.other_bounds is None else query.other_bounds[1] - query.other_bounds[0]
    ranges = {
        "mean": (low, high),
        "share": (0.0, 1.0),
        "difference": (-width, width),
        "lift": (-1.0, math.inf),
        "variance": (0.0, (width / 2) ** 2),
        "std": (0.0, width / 2),
        "covariance": (-width * across / 4, width * across / 4),
        "correlation": (-1.0, 1.0),
    }
    if query.kind == "ratio" and query.other_bounds is not None:
        return _quotients((low, high), query.other_bounds)
    return ranges.get(query.kind, (-math.inf, math.inf))


def _quotients(u: tuple[float, float], v: tuple[float, float]) -> tuple[float, float]:
    if v[0] > 0:
        ends = [numerator / denominator for numerator in u for denominator in v]
        return min(ends), max(ends)
    return 0.0 if u[0] >= 0 else -math.inf, 0.0 if u[1] <= 0 else math.inf


def expanded_size(node: Node) -> int:
    """How many operations are sent to the database, at most."""
    if not isinstance(node, Call):
        return 1
    return 1 + _COPIES.get(node.op, 1) * sum(expanded_size(arg) for arg in node.args)


@dataclass(frozen=True)
class Pattern:
    """The expressions of a question with parameters for the ``numbers`` that columns are compared with.

    Questions that differ in these numbers only have equal patterns. A whole number that floats hold exactly
    is an int here.
    """

    nodes: tuple[tuple[str, Node], ...]
    numbers: tuple[float, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, nodes: Mapping[str, Node], columns: Mapping[str, engines.Column]) -> Pattern:
        """The pattern of named expressions."""
        numbers: list[float] = []
        lifted = tuple((name, _lift(node, columns, numbers)) for name, node in nodes.items())
        return cls(lifted, tuple(numbers))


def _lift(node: Node, columns: Mapping[str, engines.Column], numbers: list[float]) -> Node:
    if not isinstance(node, Call):
        return node
    if node.op in COMPARISONS and any(_is_number_column(arg, columns) for arg in node.args):
        return Call(node.op, tuple(_replaced(arg, numbers) for arg in node.args))
    return Call(node.op, tuple(_lift(arg, columns, numbers) for arg in node.args))


def _is_number_column(node: Node, columns: Mapping[str, engines.Column]) -> bool:
    return isinstance(node, ColumnNode) and node.name in columns and columns[node.name].kind == "number"


def _replaced(node: Node, numbers: list[float]) -> Node:
    if not (isinstance(node, Literal) and isinstance(node.value, float) and math.isfinite(node.value)):
        return node
    whole = is_exact(node.value)
    numbers.append(int(node.value) if whole else node.value)
    return Parameter(node.kind, 0.0 if whole else 0.5, len(numbers) - 1)


@dataclass(frozen=True, kw_only=True)
class CheckedQuery:
    """A query that passed :meth:`~holdfast.queries.Query.check`, with everything that an engine needs of it.

    Attributes:
        query: The question.
        schema: The columns that it was checked against.
        kind: The name of the statistic.
        counts: Whether the number of rows that enter the answer depends on the data, because there is a
            filter, or groups, or because nulls are skipped. Where it is False, every row enters.
        bounds: Where values are clipped.
        other_bounds: Where second values are clipped; None for a question about one value of each row.
        missing: What a row without a value counts as, unless such rows are skipped.
        reads: The columns that the question reads.
        column: The column that the question is the mean of, if it uses that column for nothing else.
        filters: Whether there is a filter.
        skips: Whether rows without a value are left out.
        grouped: Whether rows are divided into groups.
        compared_texts: Each column of text with each text that it is tested for equality with, in the
            question or in its filter.
        is_notable: Whether it compares texts, or reads a column that may lack values or whose times have a
            zone: then the training part may have something to say about it.
        nodes: What is computed for each row, by name: its ``value``, the ``other`` value, the number of its
            ``group`` and whether it ``passes``.
        pattern: The same without the numbers that columns are compared with.
        statements: Where engines keep what they compiled: one question is put to several parts of the rows.
        member: For a question that is one row of a table: the question whose groups are the rows of that
            table, and the number of this one's group. One scan sums all of them.
    """

    query: Query
    schema: engines.Schema = field(repr=False)
    kind: str = field(repr=False, compare=False)
    counts: bool
    bounds: tuple[float, float] = field(repr=False, compare=False)
    other_bounds: tuple[float, float] | None = field(repr=False, compare=False)
    missing: float = field(repr=False, compare=False)
    reads: frozenset[str] = field(repr=False, compare=False)
    column: str | None = field(repr=False, compare=False)
    filters: bool = field(repr=False, compare=False)
    skips: bool = field(repr=False, compare=False)
    grouped: bool = field(repr=False, compare=False)
    compared_texts: tuple[tuple[str, str], ...] = field(repr=False, compare=False)
    is_notable: bool = field(repr=False, compare=False)
    nodes: Mapping[str, Node] = field(repr=False, compare=False)
    pattern: Pattern = field(repr=False, compare=False)
    statements: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    member: tuple[CheckedQuery, int] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def nulls_unspecified(self) -> bool:
        """Whether the schema allows a missing value and the question does not say what one counts as."""
        if self.query.nulls is not None:
            return False
        columns = self.schema.columns
        unknown = frozenset(name for name in self.reads if columns[name].nullable is None)
        return _first_gap(self.query, columns, unknown) is not None

    def values(
        self,
        table: Table,
        schema: engines.Schema | None = None,
        *,
        patterned: bool = False,
        unit: str | None = None,
    ) -> Any:
        """The question on an ibis table, row by row: what :attr:`nodes` names. A value is null where a row
        has none; a null does not pass, and is in no group.

        Args:
            table: The ibis table.
            schema: The columns of the table, where their storage types differ from those that the question
                was checked against.
            patterned: Whether to put parameters in place of the numbers of :attr:`pattern`.
            unit: A column that says which unit a row belongs to; it is returned too, under the name ``unit``.
        """
        nodes = dict(self.pattern.nodes) if patterned else self.nodes
        compiler = Compiler(table, schema or self.schema)
        values = {name: compiler.value(node) for name, node in nodes.items()}
        if unit is not None:
            values["unit"] = compiler.table[unit]
        return compiler.table.select(**values)


@dataclass(frozen=True)
class _Facts:
    """The results of a check that do not depend on the numbers that columns are compared with; see
    :class:`CheckedQuery`. ``conditions`` names the values that are conditions and count 0 or 1."""

    reads: frozenset[str]
    column: str | None
    compared_texts: tuple[tuple[str, str], ...]
    is_notable: bool
    conditions: frozenset[str]


def check(query: Query, schema: Mapping[str, engines.Column], nullable: Collection[str]) -> CheckedQuery:
    """Check names, kinds and nulls; see :meth:`holdfast.queries.Query.check`.

    The results for one question hold for all questions that differ only in the numbers that columns are
    compared with. The exception is an operation without a result for some numbers: there the numbers decide.
    """
    schema = schema if isinstance(schema, engines.Schema) else engines.Schema(schema)
    nodes = _nodes_of(query)
    pattern = Pattern.of(nodes, schema.columns)
    shape = query.kind, query.nulls, query.by, pattern, frozenset(nullable)
    facts = schema.facts.get(shape)
    if facts is None:
        facts = _facts_of(query, schema, frozenset(nullable))
        if not any(
            isinstance(part, Call) and part.op in PARTIAL for node in nodes.values() for part in walk(node)
        ):
            if len(schema.facts) >= _MOST_SHAPES:
                schema.facts.clear()
            schema.facts[shape] = facts
    if facts.conditions:
        nodes = {name: _counted(name, node, facts) for name, node in nodes.items()}
        lifted = tuple((name, _counted(name, node, facts)) for name, node in pattern.nodes)
        pattern = Pattern(lifted, pattern.numbers)
    filters, skips, grouped = query.where is not None, query.nulls == "skip", bool(query.groups)
    return CheckedQuery(
        query=query,
        schema=schema,
        kind=query.statistic,
        counts=filters or skips or grouped,
        bounds=query.bounds or (0.0, 1.0),
        other_bounds=query.other_bounds,
        missing=query.missing,
        reads=facts.reads,
        column=facts.column,
        filters=filters,
        skips=skips,
        grouped=grouped,
        compared_texts=facts.compared_texts,
        is_notable=facts.is_notable,
        nodes=nodes,
        pattern=pattern,
    )


def _facts_of(query: Query, schema: engines.Schema, nullable: frozenset[str]) -> _Facts:
    """The results of the check. The question is refused if it does not fit."""
    columns, parts = schema.columns, query.parts
    for value in query.values:
        kinds = {"share": ("boolean",), "mean": ("number",), "quantile": ("number",)}
        _fits(value.node, columns, kinds.get(query.kind, ("number", "boolean")))
    for condition in (*query.groups, *([query.where] if query.where else [])):
        _fits(condition.node, columns, ("boolean",))
    size = sum(expanded_size(part.node) for part in parts)
    if size > MOST_OPERATIONS:
        raise QueryRejected(
            f"The question takes {size:,} operations a row and at most {MOST_OPERATIONS:,} are allowed; "
            "put part of it in a column of its own."
        )
    _supported(query, schema)
    gap_found = _first_gap(query, columns, nullable)
    if gap_found is not None and query.nulls is None:
        raise QueryRejected(_what_nulls_count_as(query, gap_found))
    values = {"value": query.expression} | ({} if query.other is None else {"other": query.other})
    reads = frozenset().union(*(part.columns for part in parts))
    compared_texts = _compared_texts(query, columns)
    return _Facts(
        reads=reads,
        column=_mean_column(query),
        compared_texts=compared_texts,
        is_notable=bool(compared_texts) or any(name in nullable or columns[name].zoned for name in reads),
        conditions=frozenset(
            name
            for name, value in values.items()
            if query.kind != "share" and kind_of(value.node, columns) == "boolean"
        ),
    )


def _nodes_of(query: Query) -> dict[str, Node]:
    """The expressions of each row by name. Conditions are left as they are."""
    computed = {"value": query.expression.node}
    if query.other is not None:
        computed["other"] = query.other.node
    if query.groups:
        pairs = [(part.node, number(float(place))) for place, part in enumerate(query.groups)]
        computed["group"] = Call("case", tuple(node for pair in pairs for node in pair))
    if query.where is not None:
        computed["passes"] = query.where.node
    return computed


def _counted(name: str, node: Node, facts: _Facts) -> Node:
    """A condition counts 0 or 1, except in a share, which counts conditions itself."""
    return Call("as number", (node,)) if name in facts.conditions else node


def _mean_column(query: Query) -> str | None:
    """The column that a question is the mean of, if it uses that column for nothing else."""
    node, where = query.expression.node, query.where
    if query.statistic != "mean" or not isinstance(node, ColumnNode):
        return None
    return node.name if where is None or node.name not in where.columns else None


def _compared_texts(query: Query, columns: Mapping[str, engines.Column]) -> tuple[tuple[str, str], ...]:
    """Each column of text with each text that it is tested for equality with."""
    parts = [query.expression.node, *([] if query.where is None else [query.where.node])]
    pairs = (
        (node.args[0].name, other.value)
        for part in parts
        for node in walk(part)
        if isinstance(node, Call) and node.op in ("=", "<>", "in", "not in")
        if isinstance(node.args[0], ColumnNode) and columns[node.args[0].name].kind == "text"
        for other in node.args[1:]
        if isinstance(other, Literal) and isinstance(other.value, str)
    )
    return tuple(dict.fromkeys(pairs))


def _first_gap(query: Query, columns: Mapping[str, engines.Column], nullable: frozenset[str]) -> Gap | None:
    """Why a value of the question may be missing; None if no value can be missing."""
    facts = when_true(query.where.node if query.where else None)
    gaps = (gap(value.node, columns, nullable, facts) for value in query.values)
    return next((reason for reason in gaps if reason is not None), None)


def _supported(query: Query, schema: engines.Schema) -> None:
    """Refuse a question that the database of the rows cannot compute exactly as all others do."""
    dialect, columns = schema.dialect, schema.columns
    if not dialect.lacking:
        return
    lacking = [
        text_of(node) for part in query.parts for node in walk(part.node) if _lacks(dialect, node, columns)
    ]
    if query.kind in dialect.lacking:
        lacking.append(query.kind)
    if lacking:
        raise QueryRejected(
            f"{lacking[0]!r} is not computed on {dialect.engine} exactly as it is elsewhere; ask without "
            "it, put it in a column of its own, or copy the rows to Parquet."
        )


def _lacks(dialect: Dialect, node: Node, columns: Mapping[str, engines.Column]) -> bool:
    if not isinstance(node, Call):
        return False
    if (
        node.op == "%"
        and REMAINDER in dialect.lacking
        and not all(_is_whole(arg, columns) for arg in node.args)
    ):
        return True
    return node.op.removeprefix("not ") in dialect.lacking


def _is_whole(node: Node, columns: Mapping[str, engines.Column]) -> bool:
    """Whether it is a column of integers, or an integer below 2**63."""
    if isinstance(node, Literal):
        return isinstance(node.value, float) and node.value.is_integer() and abs(node.value) < 2.0**63
    return isinstance(node, ColumnNode) and columns[node.name].whole


def _fits(node: Node, columns: Mapping[str, engines.Column], wanted: Sequence[str]) -> None:
    kind = check_kinds(node, columns)
    if kind not in wanted:
        raise misfit(node, node, kind, wanted[0], columns)


def _what_nulls_count_as(query: Query, reason: Gap) -> str:
    what = (
        f"The column {reason.column!r} may hold nulls"
        if reason.column
        else f"{reason.operation!r} may have no value for some rows"
    )
    kinds = {
        "share": "nulls=False or nulls=True, ",
        "mean": "nulls=<a number>, ",
        "quantile": "nulls=<a number>, ",
    }
    counts_as = kinds.get(query.kind, "") if query.other is None else ""
    if reason.column:
        inside = f"coalesce({text_of(ColumnNode(reason.column))}, ...)"
    else:
        present = text_of(Call("is not null", (query.expression.node,)))
        inside = f"a filter such as where={present!r}"
    return (
        f"{what}, and the question does not say what they count as. "
        f"Write {counts_as}nulls='skip' to leave such rows out, or {inside}."
    )
