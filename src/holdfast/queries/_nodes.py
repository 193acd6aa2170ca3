"""The tree of an expression: three kinds of node, the one way each is written as text, and the one tree for
every way to write an expression.

The rewritings of :func:`canonical` change neither a value nor a null, in floating point and in SQL's logic.
Sums and products of two operands are sorted, but never regrouped: addition of floats is not associative. A
comparison is null exactly when one of its sides is, and NaN counts as null, so ``not (x > 1)`` is ``x <= 1``
in every case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

__all__ = [
    "COMPARISONS",
    "LARGEST_EXACT",
    "PARTS",
    "Call",
    "ColumnNode",
    "Literal",
    "Node",
    "Parameter",
    "canonical",
    "children",
    "is_exact",
    "is_float",
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

LARGEST_EXACT = 2.0**53
"""Floats hold every whole number below this one, and its neighbours."""

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
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {
    **{"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"},
    **{"in": "not in", "not in": "in", "is null": "is not null", "is not null": "is null"},
    **{"like": "not like", "not like": "like"},
}
_FOLDED: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.nan,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True, slots=True)
class ColumnNode:
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


Node = ColumnNode | Literal | Call


def number(value: float) -> Literal:
    """A number; minus zero is zero."""
    return Literal("number", float(value) + 0.0)


def is_exact(value: object) -> bool:
    """Whether it is a whole number that floats hold exactly, with both its neighbours."""
    return isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_EXACT


def is_float(text: str, value: float) -> bool:
    """Whether a whole number that is written out in digits is ``value`` and no other."""
    return not text.isdecimal() or int(text) == int(value)


def truth(value: bool) -> Literal:
    return Literal("boolean", value)


def children(node: Node) -> tuple[Node, ...]:
    return node.args if isinstance(node, Call) else ()


def walk(node: Node) -> list[Node]:
    """Every node of the tree, parents first."""
    nodes = [node]
    for item in nodes:
        nodes.extend(children(item))
    return nodes


@cache
def _keywords() -> frozenset[str]:
    from sqlglot.dialects.duckdb import DuckDB

    return frozenset(DuckDB.Tokenizer.KEYWORDS) | frozenset(DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS)


def _name(name: str) -> str:
    if _PLAIN_NAME.match(name) and name.upper() not in _keywords():
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_name(name: str) -> str:
    """The ``name`` of a column as it is written in an expression."""
    return _name(name)


def quoted_value(value: float | str) -> str:
    """A ``value``, a number or a text, as it is written in an expression."""
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
    if isinstance(node, ColumnNode):
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


def _order(node: Node) -> tuple[bool, str]:
    """Literals come last, everything else by its text."""
    return isinstance(node, Literal), text_of(node)


def _is_number(node: Node) -> bool:
    return isinstance(node, Literal) and node.kind == "number"


def _value(node: Node) -> float:
    return node.value if isinstance(node, Literal) and isinstance(node.value, float) else math.nan


def canonical(node: Node) -> Node:
    """The one tree that stands for every way of writing this expression."""
    if not isinstance(node, Call):
        return node
    args = tuple(canonical(arg) for arg in node.args)
    op = node.op
    if op in _FOLDED:
        return _arithmetic(op, *args)
    if op in COMPARISONS:
        return _comparison(op, *args)
    if op in ("and", "or"):
        return _connection(op, args)
    if op in ("in", "not in"):
        return _membership(op, args[0], args[1:])
    if op in ("like", "not like"):
        return _pattern(op, *args)
    if op == "not":
        return _negation(args[0])
    if op == "negate":
        return _minus(args[0])
    if op in ("least", "greatest"):
        flat = [
            part for arg in args for part in (arg.args if isinstance(arg, Call) and arg.op == op else (arg,))
        ]
        parts = tuple(sorted(set(flat), key=_order))
        return parts[0] if len(parts) == 1 else Call(op, parts)
    if op in ("is null", "is not null"):
        return _null_test(op, args[0])
    if op == "coalesce" and len(args) == 1:
        return args[0]
    if op == "case" and len(args) % 2 and args[-1] == Literal("null", None):
        return Call(op, args[:-1])
    if _is_number(args[0]) and (op == "as number" or (op == "as whole" and _value(args[0]).is_integer())):
        return args[0]
    return Call(op, args)


def _null_test(op: str, arg: Node) -> Node:
    if isinstance(arg, Literal):
        return truth(op == "is not null")
    return Call(op, arg.args) if isinstance(arg, Call) and arg.op == "not" else Call(op, (arg,))


def _minus(arg: Node) -> Node:
    if _is_number(arg):
        return number(-_value(arg))
    if isinstance(arg, Call) and arg.op == "negate":
        return arg.args[0]
    return Call("negate", (arg,))


def _arithmetic(op: str, left: Node, right: Node) -> Node:
    if _is_number(left) and _is_number(right):
        folded = _FOLDED[op](_value(left), _value(right))
        if math.isfinite(folded):
            return number(folded)
    if op in "+-":
        rewritten = _signs(op, left, right)
        if rewritten is not None:
            return rewritten
    if op in "+*":
        # A chain comes first, so that it prints without parentheses.
        left, right = sorted(
            (left, right), key=lambda node: (not (isinstance(node, Call) and node.op == op), *_order(node))
        )
    return Call(op, (left, right))


def _signs(op: str, left: Node, right: Node) -> Node | None:
    """Take minus signs out of a sum or difference; rounding is symmetric, so the value stays the same to the
    last bit."""
    plus_left, plus_right = _without_sign(left), _without_sign(right)
    if plus_right is not None and (op == "-" or plus_left is None):
        return _arithmetic("+" if op == "-" else "-", left, plus_right)
    if plus_left is None:
        return None
    if op == "+" and plus_right is None:
        return _arithmetic("-", right, plus_left)
    return _minus(_arithmetic("+", plus_left, right if plus_right is None else plus_right))


def _without_sign(node: Node) -> Node | None:
    if isinstance(node, Call) and node.op == "negate":
        return node.args[0]
    if _is_number(node) and _value(node) < 0:
        return number(-_value(node))
    return None


def _comparison(op: str, left: Node, right: Node) -> Node:
    if _order(right) < _order(left):
        left, right, op = right, left, _FLIPPED[op]
    elif left == right:
        op = min(op, _FLIPPED[op])
    if _is_number(left) and _is_number(right):
        return truth(COMPARISONS[op](_value(left), _value(right)))
    if op in ("=", "<>") and isinstance(right, Literal) and isinstance(right.value, bool):
        return left if right.value == (op == "=") else _negation(left)
    if op in ("=", "<>") and isinstance(left, Call) and left.op == "not":
        return _comparison(_OPPOSITE[op], left.args[0], right)
    if op in ("=", "<>") and isinstance(right, Call) and right.op == "not":
        return _comparison(_OPPOSITE[op], left, right.args[0])
    return Call(op, (left, right))


def _membership(op: str, value: Node, listed: tuple[Node, ...]) -> Node:
    parts = tuple(sorted(set(listed), key=_order))
    if _is_number(value) and all(map(_is_number, parts)):
        return truth((value in parts) == (op == "in"))
    if len(parts) == 1:
        return _comparison("=" if op == "in" else "<>", value, parts[0])
    return Call(op, (value, *parts))


def _pattern(op: str, value: Node, pattern: Node) -> Node:
    """A pattern without a wildcard is a text; one with several % in a row has one of them."""
    text = str(pattern.value) if isinstance(pattern, Literal) else ""
    if "%" not in text and "_" not in text:
        return _comparison("=" if op == "like" else "<>", value, pattern)
    return Call(op, (value, Literal("text", re.sub("%+", "%", text))))


def _negation(arg: Node) -> Node:
    if isinstance(arg, Literal) and isinstance(arg.value, bool):
        return truth(not arg.value)
    if not isinstance(arg, Call):
        return Call("not", (arg,))
    if arg.op in COMPARISONS:
        return _comparison(_OPPOSITE[arg.op], *arg.args)
    if arg.op in _OPPOSITE:
        return Call(_OPPOSITE[arg.op], arg.args)
    if arg.op in ("and", "or"):
        return _connection("or" if arg.op == "and" else "and", tuple(_negation(part) for part in arg.args))
    return arg.args[0] if arg.op == "not" else Call("not", (arg,))


def _connection(op: str, args: tuple[Node, ...]) -> Node:
    """Flatten, merge the tests of one value against a list, drop repetitions and neutral parts, sort."""
    decisive, neutral = truth(op == "or"), truth(op == "and")
    flat = [part for arg in args for part in (arg.args if isinstance(arg, Call) and arg.op == op else (arg,))]
    if decisive in flat:
        return decisive
    equal, among = ("=", "in") if op == "or" else ("<>", "not in")
    lists: dict[Node, list[Node]] = {}
    parts: set[Node] = set()
    for part in flat:
        if isinstance(part, Call) and (
            part.op == among or (part.op == equal and isinstance(part.args[1], Literal))
        ):
            lists.setdefault(part.args[0], []).extend(part.args[1:])
        elif part != neutral:
            parts.add(part)
    parts |= {_membership(among, value, tuple(listed)) for value, listed in lists.items()}
    ordered = tuple(sorted(parts, key=_order))
    if not ordered:
        return neutral
    return ordered[0] if len(ordered) == 1 else Call(op, ordered)
