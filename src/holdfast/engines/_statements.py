"""Statements as trees of SQL: compiled once, put together as trees, and run with other numbers each time.

A question that looks for a threshold is asked with one number after the other. Its statement has a named
place for each such number. DuckDB is given the numbers beside the statement, which it parses once. Other
databases get them as constants of the tree, each written the way that database reads it exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from holdfast.engines._dialect import builtin

__all__ = ["Statement", "as_query", "in_place_of", "number", "parameter_name", "renamed", "written"]

_MARKER = "holdfast_number"


def number(name: str, *, whole: bool = False) -> Any:
    """A number that a statement is given when it runs: a whole number as it is, any other as a double."""
    import ibis

    if whole:
        return builtin(_MARKER, "string", gives="int64")(ibis.literal(name))
    return builtin(_MARKER, "string", gives="string")(ibis.literal(name)).cast("float64")


def parameter_name(place: int, mark: str = "") -> str:
    """The name of the ``place``-th number that a question compares columns with; ``mark`` tells several
    questions of one statement apart."""
    return f"n{place}_{mark}"


class Statement:
    """A tree of SQL in one dialect, with a place for each number that :func:`number` made.

    ``text`` is the tree with the numbers as parameters, and ``names`` are theirs.
    """

    def __init__(self, tree: Any, dialect: Any) -> None:
        from sqlglot import exp

        self._dialect = dialect
        self._tree = tree.transform(_placeholder)
        self.names = tuple(dict.fromkeys(place.name for place in self._tree.find_all(exp.Placeholder)))

    @cached_property
    def text(self) -> str:
        return written(self._tree, self._dialect)

    def with_numbers(self, numbers: Mapping[str, float]) -> str:
        """The statement as text, with constants in the places."""
        from sqlglot import exp

        def constant(node: Any) -> Any:
            if not isinstance(node, exp.Placeholder):
                return node
            value = numbers[node.name]
            # A float goes through text: a bare 0.1 is a decimal to most databases.
            return exp.Literal.string(repr(value)) if isinstance(value, float) else exp.convert(value)

        return written(self._tree.transform(constant), self._dialect)


def written(tree: Any, dialect: Any) -> str:
    """A tree as text; refused where the dialect has no words for a part of it."""
    from sqlglot import ErrorLevel

    return str(tree.sql(dialect=dialect, copy=False, unsupported_level=ErrorLevel.RAISE))


def _is_marker(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Anonymous) and str(node.this).lower() == _MARKER


def _placeholder(node: Any) -> Any:
    from sqlglot import exp

    return exp.Placeholder(this=node.expressions[0].this) if _is_marker(node) else node


def renamed(tree: Any, name: Callable[[str], str]) -> Any:
    """A copy of a tree whose numbers have other names."""
    from sqlglot import exp

    def changed(node: Any) -> Any:
        if not _is_marker(node):
            return node
        return exp.Anonymous(this=node.this, expressions=[exp.Literal.string(name(node.expressions[0].this))])

    return tree.copy().transform(changed)


def in_place_of(tree: Any, table: str, source: Any) -> Any:
    """A copy of a tree that reads ``source``, a tree too, where it read the table of that name."""
    from sqlglot import exp

    def changed(node: Any) -> Any:
        if not (isinstance(node, exp.Table) and node.name == table):
            return node
        return exp.Subquery(this=source.copy(), alias=node.args.get("alias"))

    return tree.copy().transform(changed)


def as_query(table: Any, query: str) -> None:
    """Let a table of a tree be what a query returns, which is written as it is."""
    from sqlglot import exp

    table.set("this", exp.Var(this=f"({query})"))
