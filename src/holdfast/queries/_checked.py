"""A question that fits a schema: its expressions compiled, everything about it decided without reading a
row."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast import engines
from holdfast.engines import REMAINDER, Dialect
from holdfast.errors import QueryRejected
from holdfast.queries._canonical import COMPARISONS
from holdfast.queries._compile import Compiler, dialect_of, expanded_size, is_exact
from holdfast.queries._kinds import check_kinds, kind_of, misfit
from holdfast.queries._nodes import Call, Column, Literal, Node, Parameter, number, text_of, walk
from holdfast.queries._nulls import Gap, gap, when_true

if TYPE_CHECKING:
    from holdfast.queries._query import Query

__all__ = ["MOST_OPERATIONS", "CheckedQuery", "Pattern", "check"]


@dataclass(frozen=True)
class Pattern:
    """The expressions of a question with parameters for the ``numbers`` that columns are compared with."""

    nodes: tuple[tuple[str, Node], ...]
    numbers: tuple[float, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, nodes: Mapping[str, Node], columns: Mapping[str, engines.Column]) -> Pattern:
        """The pattern of named expressions."""
        numbers: list[float] = []
        lifted = tuple((name, _lift(node, columns, numbers)) for name, node in nodes.items())
        return cls(lifted, tuple(numbers))

    def named(self, mark: str = "") -> dict[str, float]:
        """The numbers by the names of their parameters; ``mark`` tells several questions apart."""
        return {
            f"n{place}_{mark}": int(value) if is_exact(value) else value
            for place, value in enumerate(self.numbers)
        }


def _lift(node: Node, columns: Mapping[str, engines.Column], numbers: list[float]) -> Node:
    if not isinstance(node, Call):
        return node
    if node.op in COMPARISONS and any(_is_number_column(arg, columns) for arg in node.args):
        return Call(node.op, tuple(_replaced(arg, numbers) for arg in node.args))
    return Call(node.op, tuple(_lift(arg, columns, numbers) for arg in node.args))


def _is_number_column(node: Node, columns: Mapping[str, engines.Column]) -> bool:
    return isinstance(node, Column) and columns[node.name].kind == "number"


def _replaced(node: Node, numbers: list[float]) -> Node:
    if not (isinstance(node, Literal) and isinstance(node.value, float) and math.isfinite(node.value)):
        return node
    numbers.append(node.value)
    return Parameter(node.kind, 0.0 if is_exact(node.value) else 0.5, len(numbers) - 1)


MOST_OPERATIONS = 5_000


@dataclass(frozen=True)
class CheckedQuery:
    """A query that passed :meth:`~holdfast.queries.Query.check`, ready for an engine.

    ``counts`` tells whether the number of rows that enter the answer depends on the data (a filter, or nulls
    that are skipped); where it is False every row enters. ``statements`` is where engines keep what they
    compiled: one question is put to several parts of the same rows. A ``member`` of a table knows the
    question whose groups are the table's, and which of them it is about: all of them are summed in one scan.
    """

    query: Query
    counts: bool
    columns: Mapping[str, engines.Column] = field(repr=False)
    statements: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    member: tuple[CheckedQuery, int] | None = field(default=None, repr=False, compare=False)

    @property
    def kind(self) -> str:
        """The name of the statistic."""
        return self.query.statistic

    @property
    def bounds(self) -> tuple[float, float]:
        return self.query.bounds or (0.0, 1.0)

    @property
    def other_bounds(self) -> tuple[float, float] | None:
        """Where the second values are clipped; None for a question about one value of each row."""
        return self.query.other_bounds

    @cached_property
    def reads(self) -> frozenset[str]:
        """The columns that the question reads."""
        return frozenset().union(*(part.columns for part in self.query.parts))

    @property
    def grouped(self) -> bool:
        """Whether rows are divided into groups."""
        return bool(self.query.groups)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """What is computed for each row, by name: its ``value``, the ``other`` value, the number of its
        ``group`` and whether it ``passes``."""
        query = self.query
        computed = {"value": self._number(query.expression.node)}
        if query.other is not None:
            computed["other"] = self._number(query.other.node)
        if query.groups:
            pairs = [(part.node, number(float(place))) for place, part in enumerate(query.groups)]
            computed["group"] = Call("case", tuple(node for pair in pairs for node in pair))
        if query.where is not None:
            computed["passes"] = query.where.node
        return computed

    def _number(self, node: Node) -> Node:
        """A condition counts 0 or 1, but in a share, which counts conditions itself."""
        condition = self.kind != "share" and kind_of(node, self.columns) == "boolean"
        return Call("as number", (node,)) if condition else node

    @property
    def filters(self) -> bool:
        """Whether there is a filter."""
        return self.query.where is not None

    @property
    def skips(self) -> bool:
        """Whether rows without a value are left out."""
        return self.query.nulls == "skip"

    @property
    def missing(self) -> float:
        """What a row without a value counts as: what the query says, else the lowest possible value."""
        return self.query.missing

    @cached_property
    def unsaid(self) -> bool:
        """Whether some value may be missing, for all that is known without the rows, and the question does
        not say what that counts as."""
        if self.query.nulls is not None:
            return False
        unknown = frozenset(name for name in self.reads if self.columns[name].nullable is None)
        return _first_gap(self.query, self.columns, unknown) is not None

    @property
    def compared_texts(self) -> tuple[tuple[str, str], ...]:
        """Each column of text with each text that it is tested for equality with, in the question or in its
        filter."""
        where = self.query.where
        parts = [self.query.expression.node, *([] if where is None else [where.node])]
        pairs = (
            (node.args[0].name, other.value)
            for part in parts
            for node in walk(part)
            if isinstance(node, Call) and node.op in ("=", "<>", "in", "not in")
            if isinstance(node.args[0], Column) and self.columns[node.args[0].name].kind == "text"
            for other in node.args[1:]
            if isinstance(other, Literal) and isinstance(other.value, str)
        )
        return tuple(dict.fromkeys(pairs))

    @property
    def column(self) -> str | None:
        """The column that the question is the mean of and asks nothing else about; None for other
        questions."""
        node, where = self.query.expression.node, self.query.where
        alone = where is None or not isinstance(node, Column) or node.name not in where.columns
        alone = alone and self.query.other is None
        return node.name if self.kind == "mean" and isinstance(node, Column) and alone else None

    @cached_property
    def pattern(self) -> Pattern:
        """The question's expressions without the numbers that columns are compared with."""
        return Pattern.of(self.nodes, self.columns)

    def values(
        self,
        table: Any,
        columns: Mapping[str, engines.Column] | None = None,
        pattern: Pattern | None = None,
        unit: str | None = None,
    ) -> Any:
        """The question on an ibis table, row by row: what :attr:`nodes` names. A value is null where a row
        has none; a null does not pass, and is in no group. With a column that says which ``unit`` a row
        belongs to, that column too, under the name ``unit``.

        ``columns`` are the table's where they are stored otherwise than those the question was checked for;
        of a ``pattern``, if one is given.
        """
        nodes = self.nodes if pattern is None else dict(pattern.nodes)
        compiler = Compiler(table, columns or self.columns)
        values = {name: compiler.value(node) for name, node in nodes.items()}
        if unit is not None:
            values["unit"] = compiler.table[unit]
        return compiler.table.select(**values)


def check(query: Query, columns: Mapping[str, engines.Column], nullable: Collection[str]) -> CheckedQuery:
    """Check names, kinds and nulls; see :meth:`holdfast.queries.Query.check`."""
    for value in query.values:
        kinds = {"share": ("boolean",), "mean": ("number",), "quantile": ("number",)}
        _fits(value.node, columns, kinds.get(query.kind, ("number", "boolean")))
    for condition in (*query.groups, *([query.where] if query.where else [])):
        _fits(condition.node, columns, ("boolean",))
    size = sum(expanded_size(part.node) for part in query.parts)
    if size > MOST_OPERATIONS:
        raise QueryRejected(
            f"The question takes {size:,} operations a row and at most {MOST_OPERATIONS:,} are allowed; "
            "put part of it in a column of its own."
        )
    _supported(query, columns)
    found = _first_gap(query, columns, frozenset(nullable))
    if found is not None and query.nulls is None:
        raise QueryRejected(_what_nulls_count_as(query, found))
    counts = query.where is not None or query.nulls == "skip" or bool(query.groups)
    return CheckedQuery(query, counts, columns)


def _first_gap(query: Query, columns: Mapping[str, engines.Column], nullable: frozenset[str]) -> Gap | None:
    """Why a value of the question may be missing; None where none can be."""
    facts = when_true(query.where.node if query.where else None)
    gaps = (gap(value.node, columns, nullable, facts) for value in query.values)
    return next((found for found in gaps if found is not None), None)


def _supported(query: Query, columns: Mapping[str, engines.Column]) -> None:
    """Refuse what cannot be computed where the rows live as it is everywhere else."""
    dialect = dialect_of(columns)
    if not dialect.lacking:
        return
    lacking = [
        text_of(node) for part in query.parts for node in walk(part.node) if _lacks(dialect, node, columns)
    ]
    if query.kind in dialect.lacking:
        lacking.append(query.kind)
    if lacking:
        raise QueryRejected(
            f"{lacking[0]!r} does not come out on {dialect.engine} exactly as it does elsewhere; ask without "
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
    return isinstance(node, Column) and columns[node.name].whole


def _fits(node: Node, columns: Mapping[str, engines.Column], wanted: Sequence[str]) -> None:
    kind = check_kinds(node, columns)
    if kind not in wanted:
        raise misfit(node, node, kind, wanted[0], columns)


def _what_nulls_count_as(query: Query, found: Gap) -> str:
    what = (
        f"The column {found.column!r} may hold nulls"
        if found.column
        else f"{found.operation!r} may have no value for some rows"
    )
    kinds = {
        "share": "nulls=False or nulls=True, ",
        "mean": "nulls=<a number>, ",
        "quantile": "nulls=<a number>, ",
    }
    counts_as = kinds.get(query.kind, "") if query.other is None else ""
    if found.column:
        inside = f"coalesce({text_of(Column(found.column))}, ...)"
    else:
        present = text_of(Call("is not null", (query.expression.node,)))
        inside = f"a filter such as where={present!r}"
    return (
        f"{what}, and the question does not say what they count as. "
        f"Write {counts_as}nulls='skip' to leave such rows out, or {inside}."
    )
