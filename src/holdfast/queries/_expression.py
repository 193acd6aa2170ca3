"""An expression over one row: read once, kept in canonical form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast import engines
from holdfast.errors import QueryRejected
from holdfast.queries._canonical import canonical
from holdfast.queries._kinds import CONDITIONS
from holdfast.queries._nodes import Call, Column, Node, text_of, walk
from holdfast.queries._reader import read_nodes, reading_dialect
from holdfast.queries._reading import read_text

__all__ = ["Expression"]

_PLAIN_SELECT = frozenset({"expressions", "from_", "from", "kind", "operation_modifiers"})


@dataclass(frozen=True)
class Expression:
    """A scalar expression over one row, in canonical form: two spellings of one expression are equal.

    >>> Expression.read("1 < x AND (y<2)") == Expression.read("y < 2 and x > 1")
    True
    >>> str(Expression.read("NOT (x > 1e0)"))
    'x <= 1'
    """

    node: Node

    @classmethod
    def read(cls, source: Any, *, schema: Mapping[str, engines.Column] | None = None) -> Expression:
        """Read SQL text or an ibis expression; a deferred one (``_.x * 2``) needs the ``schema`` it is about.

        Raises :class:`~holdfast.errors.QueryRejected` for everything that is not on the whitelist, saying
        what to write instead. Whether the columns exist and fit is for :meth:`holdfast.queries.Query.check`
        to say.
        """
        if isinstance(source, Expression):
            return source
        if isinstance(source, str):
            if not source.strip():
                raise QueryRejected("The expression is empty; write one such as age > 40.")
        elif type(source).__module__.partition(".")[0] != "ibis":
            raise QueryRejected(
                f"An expression is SQL text or an ibis expression, not {type(source).__name__}; "
                "write it as text, such as 'age > 40'."
            )
        try:
            node = read_text(source) if isinstance(source, str) else read_nodes(_from_ibis(source, schema))
            return cls(canonical(node))
        except RecursionError:
            raise QueryRejected(
                "The expression nests too deep; put part of it in a column of its own."
            ) from None

    @cached_property
    def text(self) -> str:
        """The canonical text, which reads back as the same expression."""
        return text_of(self.node)

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the expression reads."""
        return frozenset(node.name for node in walk(self.node) if isinstance(node, Column))

    @property
    def column(self) -> str | None:
        """The name of the column that the expression is and nothing else; None for others."""
        return self.node.name if isinstance(self.node, Column) else None

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false by its form, whatever the columns are."""
        return isinstance(self.node, Call) and self.node.op in CONDITIONS

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _from_ibis(source: Any, schema: Mapping[str, engines.Column] | None) -> Any:
    """The sqlglot tree of an ibis expression, read back from the SQL that ibis writes for it."""
    import ibis
    import sqlglot
    from ibis.common.exceptions import IbisError
    from sqlglot import exp

    if isinstance(source, ibis.Deferred):
        if not isinstance(schema, engines.Schema):
            raise QueryRejected(
                "A deferred ibis expression needs the table's columns; give schema=, or write SQL text."
            )
        try:
            source = source.resolve(ibis.table(schema.to_ibis(), name="rows"))
        except (AttributeError, TypeError, IbisError) as error:
            raise QueryRejected(f"ibis cannot make this expression on the table: {error}") from None
    if not isinstance(source, ibis.Value):
        raise QueryRejected(
            f"An expression is one column of ibis, not {type(source).__name__}; write table.x * 2."
        )
    try:
        written = str(ibis.to_sql(source.name("value"), dialect="duckdb"))
        select = sqlglot.parse_one(written, dialect=reading_dialect())
    except IbisError as error:
        raise QueryRejected(f"ibis cannot write this expression as SQL: {error}") from None
    extra = [key for key, value in select.args.items() if value and key not in _PLAIN_SELECT]
    if extra or len(select.expressions) != 1 or len(list(select.find_all(exp.Select))) != 1:
        raise QueryRejected(
            "The ibis expression does more than compute one value from one row; "
            "leave filters, joins and windows out and say where= instead."
        )
    value = select.expressions[0].unalias()
    for column in value.find_all(exp.Column):
        column.set("table", None)
    return value
