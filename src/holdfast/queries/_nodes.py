"""The tree of an expression: three kinds of node, and the one way each is written as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

__all__ = [
    "PARTS",
    "Call",
    "Column",
    "Literal",
    "Node",
    "Parameter",
    "children",
    "number",
    "show",
    "text_of",
    "truth",
    "walk",
]

PARTS: dict[str, tuple[float, float]] = {
    "year": (-290_308.0, 294_247.0),
    "month": (1.0, 12.0),
    "day": (1.0, 31.0),
    "hour": (0.0, 23.0),
    "isodow": (1.0, 7.0),
}
"""The parts of a date that can be asked about, with the least and the greatest value of each. ``isodow`` is
the day of the week: Monday is 1 and Sunday is 7."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the row."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; ``kind`` keeps 1 and true apart, which Python takes for equal."""

    kind: str
    value: float | str | bool | None


@dataclass(frozen=True, slots=True)
class Parameter(Literal):
    """A number that a statement is given when it runs. Its ``value`` is 0 where the number is a whole one
    that floats hold exactly, and 0.5 elsewhere: nothing else about it shows in the statement."""

    place: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on other nodes. A case holds condition, value, condition, value, ..., and its else
    last."""

    op: str
    args: tuple[Node, ...]


Node = Column | Literal | Call


def number(value: float) -> Literal:
    """A number; minus zero is zero."""
    return Literal("number", float(value) + 0.0)


def truth(value: bool) -> Literal:
    return Literal("boolean", value)


def children(node: Node) -> tuple[Node, ...]:
    return node.args if isinstance(node, Call) else ()


def walk(node: Node) -> list[Node]:
    """Every node of the tree, parents first."""
    found = [node]
    for item in found:
        found.extend(children(item))
    return found


_LEVEL = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "is null", "is not null", "in", "not in"), 4),
    **dict.fromkeys(("like", "not like"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
    "negate": 5,
}
_CASTS = {"as number": "double", "as whole": "bigint", "as text": "text", "as boolean": "boolean"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@cache
def _keywords() -> frozenset[str]:
    from sqlglot.dialects.duckdb import DuckDB

    return frozenset(DuckDB.Tokenizer.KEYWORDS) | frozenset(DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS)


def _name(name: str) -> str:
    if _PLAIN_NAME.match(name) and name.upper() not in _keywords():
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_name(name: str) -> str:
    """A column's name as it is written in an expression."""
    return _name(name)


def quoted_value(value: float | str) -> str:
    """A number or a text as it is written in an expression."""
    return _literal(Literal("text", value) if isinstance(value, str) else number(float(value)))


def show(value: float) -> str:
    """A number as text that reads back as the same number: ``1000``, ``0.1``, ``1e+300``."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _literal(literal: Literal) -> str:
    if isinstance(literal.value, str):
        return "'" + literal.value.replace("'", "''") + "'"
    if literal.value is None or isinstance(literal.value, bool):
        return {None: "null", True: "true", False: "false"}[literal.value]
    return show(literal.value)


def _operand(node: Node, level: int) -> str:
    """The text of an operand, in parentheses unless it binds tighter than ``level``."""
    text = text_of(node)
    own = _LEVEL.get(node.op, 9) if isinstance(node, Call) else 5 if text.startswith("-") else 9
    return text if own > level else f"({text})"


def _case(args: tuple[Node, ...]) -> str:
    pairs = [f"when {text_of(args[i])} then {text_of(args[i + 1])}" for i in range(0, len(args) - 1, 2)]
    other = [f"else {text_of(args[-1])}"] if len(args) % 2 else []
    return " ".join(["case", *pairs, *other, "end"])


def text_of(node: Node) -> str:
    """The expression as SQL text with no more parentheses than it needs; reading it gives the same tree."""
    if isinstance(node, Column):
        return _name(node.name)
    if isinstance(node, Literal):
        return _literal(node)
    op, args = node.op, node.args
    level = _LEVEL.get(op, 9)
    if op in ("and", "or"):
        return f" {op} ".join(_operand(arg, level) for arg in args)
    if op == "not":
        return f"not {_operand(args[0], level)}"
    if op == "negate":
        return f"-{_operand(args[0], 8)}"
    if op in ("is null", "is not null"):
        return f"{_operand(args[0], level)} {op}"
    if op in ("in", "not in"):
        return f"{_operand(args[0], level)} {op} ({', '.join(text_of(arg) for arg in args[1:])})"
    if level == 4:
        return f"{_operand(args[0], 4)} {op} {_operand(args[1], 4)}"
    if level < 9:
        return f"{_operand(args[0], level - 1)} {op} {_operand(args[1], level)}"
    if op == "case":
        return _case(args)
    if op in _CASTS:
        return f"cast({text_of(args[0])} as {_CASTS[op]})"
    return f"{op}({', '.join(text_of(arg) for arg in args)})"
