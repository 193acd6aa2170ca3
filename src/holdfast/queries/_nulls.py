"""Which expressions can be null or undefined, decided from the schema and from what the training rows showed.

Facts travel with the analysis: where ``x is not null``, ``x > 0`` or ``y <> 0`` is known to hold (an earlier
branch of a case, another part of an and, the filter), the expression inside is judged under it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast import engines
from holdfast.queries._kinds import kind_of
from holdfast.queries._nodes import PARTS, Call, Column, Literal, Node, text_of

__all__ = ["NOTHING", "Facts", "Gap", "gap", "limits", "when_true"]

_COMPARED = frozenset(("=", "<>", "<", "<=", ">", ">=", "in", "not in", "like", "not like"))
_ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "negate", "abs", "least", "greatest")) | {
    *("floor", "round", "ln", "exp", "sqrt", "power", "length")
}
_STRICT = _COMPARED | _ARITHMETIC | {"lower", "upper", *PARTS}
_EVERYTHING = (-math.inf, math.inf)

Limits = tuple[float, float]


@dataclass(frozen=True)
class Facts:
    """What is known of a row: nodes that are not null, nodes that are not zero, and limits on nodes."""

    present: frozenset[Node] = frozenset()
    nonzero: frozenset[Node] = frozenset()
    limits: Mapping[Node, Limits] = field(default_factory=dict)

    def and_also(self, other: Facts) -> Facts:
        limits = dict(self.limits)
        for node, (low, high) in other.limits.items():
            known = limits.get(node, _EVERYTHING)
            limits[node] = max(low, known[0]), min(high, known[1])
        return Facts(self.present | other.present, self.nonzero | other.nonzero, limits)


NOTHING = Facts()


@dataclass(frozen=True)
class Gap:
    """Why an expression may have no value: the ``column`` that may be null, or the ``operation`` without a
    result."""

    column: str = ""
    operation: str = ""


def when_true(condition: Node | None) -> Facts:
    """What a row satisfies if the condition is true of it."""
    if not isinstance(condition, Call):
        return Facts(frozenset([condition])) if isinstance(condition, Column) else NOTHING
    op, args = condition.op, condition.args
    if op == "and":
        known = NOTHING
        for arg in args:
            known = known.and_also(when_true(arg))
        return known
    if op in ("is not null", "not"):
        return Facts(_read_strictly(args[0]))
    if op not in _COMPARED:
        return NOTHING
    facts = Facts(frozenset().union(*(_read_strictly(arg) for arg in args)))
    if len(args) == 2 and isinstance(args[1], Literal) and isinstance(args[1].value, float):
        facts = facts.and_also(_against(op, args[0], args[1].value))
    return facts


def when_not_true(condition: Node) -> Facts:
    """What a row satisfies if the condition is false or null; only a test for null tells anything then."""
    if isinstance(condition, Call) and condition.op == "is null":
        return Facts(_read_strictly(condition.args[0]))
    if isinstance(condition, Call) and condition.op == "or":
        known = NOTHING
        for arg in condition.args:
            known = known.and_also(when_not_true(arg))
        return known
    return NOTHING


def _read_strictly(node: Node) -> frozenset[Node]:
    """The node and every part of it that must have a value for the node to have one."""
    found = {node}
    if isinstance(node, Call) and node.op in _STRICT:
        found = found.union(*(_read_strictly(arg) for arg in node.args))
    return frozenset(found)


def _against(op: str, node: Node, value: float) -> Facts:
    if op == "<>":
        return Facts(nonzero=frozenset([node]) if value == 0 else frozenset())
    low = {"=": value, ">=": value, ">": math.nextafter(value, math.inf)}.get(op, -math.inf)
    high = {"=": value, "<=": value, "<": math.nextafter(value, -math.inf)}.get(op, math.inf)
    return Facts(limits={node: (low, high)})


def limits(node: Node, columns: Mapping[str, engines.Column], facts: Facts = NOTHING) -> Limits:
    """The least and the greatest value that a number can take. Sound in floating point: rounding is
    monotone."""
    own = _own_limits(node, columns, facts)
    known = facts.limits.get(node, _EVERYTHING)
    return max(own[0], known[0]), min(own[1], known[1])


def _own_limits(node: Node, columns: Mapping[str, engines.Column], facts: Facts) -> Limits:
    if isinstance(node, Column):
        return columns[node.name].limits
    if isinstance(node, Literal):
        return (node.value, node.value) if isinstance(node.value, float) else _EVERYTHING
    if node.op in PARTS:
        return PARTS[node.op]
    if node.op not in _ARITHMETIC and node.op != "as whole":
        return (
            (0.0, 1.0)
            if node.op == "as number" and kind_of(node.args[0], columns) == "boolean"
            else _EVERYTHING
        )
    if node.op == "length":
        return 0.0, float(2**32)
    parts = [limits(arg, columns, facts) for arg in node.args]
    low, high = parts[0]
    match node.op:
        case "+":
            return _clean(low + parts[1][0], high + parts[1][1])
        case "-":
            return _clean(low - parts[1][1], high - parts[1][0])
        case "*":
            corners = [a * b for a in parts[0] for b in parts[1]]
            return _EVERYTHING if any(map(math.isnan, corners)) else (min(corners), max(corners))
        case "/" if parts[1][0] == parts[1][1] != 0 and math.isfinite(parts[1][0]):
            corners = [a / parts[1][0] for a in parts[0]]
            return min(corners), max(corners)
        case "negate":
            return -high, -low
        case "abs":
            return max(0.0, low, -high), max(-low, high)
        case "least":
            return min(p[0] for p in parts), min(p[1] for p in parts)
        case "greatest":
            return max(p[0] for p in parts), max(p[1] for p in parts)
        case "floor" | "round":
            return _stepped(low), _stepped(high) + 1.0
        case "sqrt":
            return math.sqrt(max(low, 0.0)), math.inf
        case "exp":
            return (1.0, math.inf) if low >= 0 else (0.0, math.inf)
        case "as whole":
            return low, high
    return _EVERYTHING


def _clean(low: float, high: float) -> Limits:
    return -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high


def _stepped(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def gap(
    node: Node, columns: Mapping[str, engines.Column], nullable: frozenset[str], facts: Facts = NOTHING
) -> Gap | None:
    """The first reason why the expression may have no value under the facts, or None if it always has one."""
    if node in facts.present or isinstance(node, Literal):
        return Gap(operation="a branch that says null") if node == Literal("null", None) else None
    if isinstance(node, Column):
        missing = node.name in nullable or columns[node.name].nullable
        return Gap(column=node.name) if missing else None
    op, args = node.op, node.args
    if op in ("is null", "is not null"):
        return None
    if op == "coalesce":
        gaps = [gap(arg, columns, nullable, facts) for arg in args]
        return gaps[0] if all(gaps) else None
    if op == "case":
        return _case_gap(node, columns, nullable, facts)
    if op in ("and", "or"):
        facts = facts.and_also(_from_null_tests(node))
    for arg in args:
        found = gap(arg, columns, nullable, facts)
        if found:
            return found
    return Gap(operation=text_of(node)) if _may_be_undefined(node, columns, facts) else None


def _from_null_tests(node: Call) -> Facts:
    """Parts of an and (or) that test for null are never null themselves; if one is false (true), it alone
    decides."""
    known = NOTHING
    for arg in node.args:
        if isinstance(arg, Call) and arg.op in ("is null", "is not null"):
            known = known.and_also(when_true(arg) if node.op == "and" else when_not_true(arg))
    return known


def _case_gap(
    node: Call, columns: Mapping[str, engines.Column], nullable: frozenset[str], facts: Facts
) -> Gap | None:
    for i in range(0, len(node.args) - 1, 2):
        found = gap(node.args[i + 1], columns, nullable, facts.and_also(when_true(node.args[i])))
        if found:
            return found
        facts = facts.and_also(when_not_true(node.args[i]))
    if len(node.args) % 2 == 0:
        return Gap(operation=f"{text_of(node)} without else")
    return gap(node.args[-1], columns, nullable, facts)


def _may_be_undefined(node: Call, columns: Mapping[str, engines.Column], facts: Facts) -> bool:
    op, args = node.op, node.args
    if op in ("as number", "as boolean"):
        return kind_of(args[0], columns) == "text"
    if op in ("/", "%"):
        low, high = limits(args[1], columns, facts)
        return low <= 0 <= high and args[1] not in facts.nonzero
    if op == "ln":
        return limits(args[0], columns, facts)[0] <= 0
    if op == "sqrt":
        return limits(args[0], columns, facts)[0] < 0
    if op == "power":
        base, exponent = (limits(arg, columns, facts)[0] for arg in args)
        whole = (
            isinstance(args[1], Literal) and isinstance(args[1].value, float) and args[1].value.is_integer()
        )
        return not (base > 0 or (exponent >= 0 and (base >= 0 or whole)))
    return False
