"""One way to write a question: rewritings that change neither a value nor a null, in floating point and in
SQL's logic.

Sums and products of two operands are sorted, but never regrouped: addition of floats is not associative. A
comparison is null exactly when one of its sides is, and NaN counts as null, so ``not (x > 1)`` is ``x <= 1``
in every case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from holdfast.queries._nodes import Call, Literal, Node, number, text_of, truth

__all__ = ["COMPARISONS", "canonical"]

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
