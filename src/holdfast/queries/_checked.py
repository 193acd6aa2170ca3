"""A question that fits a schema: its expressions compiled, everything about it decided without reading a
row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast import engines
from holdfast.engines._dialect import REMAINDER, Dialect
from holdfast.errors import QueryRejected
from holdfast.queries._compile import Compiler, dialect_of, expanded_size
from holdfast.queries._kinds import check_kinds, misfit
from holdfast.queries._nodes import Call, Column, Literal, Node, text_of, walk
from holdfast.queries._nulls import Gap, gap, when_true
from holdfast.queries._pattern import Pattern

if TYPE_CHECKING:
    from holdfast.queries._query import Query

__all__ = ["MOST_OPERATIONS", "CheckedQuery", "check"]

MOST_OPERATIONS = 5_000


@dataclass(frozen=True)
class CheckedQuery:
    """A query that passed :meth:`~holdfast.queries.Query.check`, ready for an engine.

    ``counts`` tells whether the number of rows that enter the answer depends on the data (a filter, or nulls
    that are skipped); where it is False every row enters. ``statements`` is where engines keep what they
    compiled: one question is put to several parts of the same rows.
    """

    query: Query
    counts: bool
    columns: Mapping[str, engines.Column] = field(repr=False)
    statements: dict[Any, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def kind(self) -> str:
        return self.query.kind

    @property
    def bounds(self) -> tuple[float, float]:
        return self.query.bounds or (0.0, 1.0)

    @property
    def reads(self) -> frozenset[str]:
        """The columns that the question reads."""
        where = self.query.where
        return self.query.expression.columns | (where.columns if where is not None else frozenset())

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

    @property
    def unsaid(self) -> bool:
        """Whether some value may be missing, for all that is known without the rows, and the question does
        not say what that counts as."""
        if self.query.nulls is not None:
            return False
        unknown = frozenset(name for name in self.reads if self.columns[name].nullable is None)
        where = self.query.where
        facts = when_true(None if where is None else where.node)
        return gap(self.query.expression.node, self.columns, unknown, facts) is not None

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
        return node.name if self.kind == "mean" and isinstance(node, Column) and alone else None

    @property
    def pattern(self) -> Pattern:
        """The question's expressions without the numbers that columns are compared with."""
        where = self.query.where
        return Pattern.of(self.query.expression.node, None if where is None else where.node, self.columns)

    def values(
        self,
        table: Any,
        columns: Mapping[str, engines.Column] | None = None,
        pattern: Pattern | None = None,
    ) -> Any:
        """The question on an ibis table, row by row: its ``value``, a number or a condition, null where it
        has none, and ``passes`` where there is a filter; a null does not pass.

        ``columns`` are the table's where they are stored otherwise than those the question was checked for;
        of a ``pattern``, if one is given.
        """
        where = self.query.where
        asked = pattern or Pattern(self.query.expression.node, None if where is None else where.node)
        nodes = {"value": asked.value, "passes": asked.where}
        compiler = Compiler(table, columns or self.columns)
        values = {name: compiler.value(node) for name, node in nodes.items() if node is not None}
        return compiler.table.select(**values)


def check(query: Query, columns: Mapping[str, engines.Column], nullable: Collection[str]) -> CheckedQuery:
    """Check names, kinds and nulls; see :meth:`holdfast.queries.Query.check`."""
    wanted = "boolean" if query.kind == "share" else "number"
    node = query.expression.node
    _fits(node, columns, wanted)
    if query.where is not None:
        _fits(query.where.node, columns, "boolean")
    size = expanded_size(node) + (expanded_size(query.where.node) if query.where else 0)
    if size > MOST_OPERATIONS:
        raise QueryRejected(
            f"The question takes {size:,} operations a row and at most {MOST_OPERATIONS:,} are allowed; "
            "put part of it in a column of its own."
        )
    _supported(query, columns)
    facts = when_true(query.where.node if query.where else None)
    found = gap(node, columns, frozenset(nullable), facts)
    if found is not None and query.nulls is None:
        raise QueryRejected(_what_nulls_count_as(query, found))
    return CheckedQuery(query, query.where is not None or query.nulls == "skip", columns)


def _supported(query: Query, columns: Mapping[str, engines.Column]) -> None:
    """Refuse what cannot be computed where the rows live as it is everywhere else."""
    dialect = dialect_of(columns)
    if not dialect.lacking:
        return
    parts = [query.expression.node, *([] if query.where is None else [query.where.node])]
    lacking = [text_of(node) for part in parts for node in walk(part) if _lacks(dialect, node, columns)]
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


def _fits(node: Node, columns: Mapping[str, engines.Column], wanted: str) -> None:
    kind = check_kinds(node, columns)
    if kind != wanted:
        raise misfit(node, node, kind, wanted)


def _what_nulls_count_as(query: Query, found: Gap) -> str:
    what = (
        f"The column {found.column!r} may hold nulls"
        if found.column
        else f"{found.operation!r} may have no value for some rows"
    )
    number = "nulls=False or nulls=True" if query.kind == "share" else "nulls=<a number>"
    if found.column:
        inside = f"coalesce({text_of(Column(found.column))}, ...)"
    else:
        present = text_of(Call("is not null", (query.expression.node,)))
        inside = f"a filter such as where={present!r}"
    return (
        f"{what}, and the question does not say what they count as. "
        f"Write {number}, nulls='skip' to leave such rows out, or {inside}."
    )
