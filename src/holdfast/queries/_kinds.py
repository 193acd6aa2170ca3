"""The check of an expression before any row is read: the kind of its value, and whether a value can be
missing.

There are five kinds, and the schema alone decides them. Whether an expression can be null or undefined
follows from the schema and from what the training rows showed. That check uses facts such as ``x is not
null``, ``x > 0`` or ``y <> 0``. A fact comes from an earlier branch of a case, another part of an and, or the
filter. The expression inside is checked under it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast import engines
from holdfast.errors import QueryRejected
from holdfast.queries._nodes import PARTS, Call, ColumnNode, Literal, Node, text_of

__all__ = [
    "CONDITIONS",
    "NOTHING",
    "PARTIAL",
    "Facts",
    "Gap",
    "check_kinds",
    "gap",
    "is_whole",
    "kind_of",
    "limits",
    "misfit",
    "moment_of",
    "order_in",
    "when_true",
]


_NUMERIC = frozenset(("+", "-", "*", "/", "%", "negate", "abs", "least", "greatest")) | {
    *("floor", "round", "ln", "exp", "sqrt", "power")
}
_ORDERED = frozenset(("<", "<=", ">", ">="))
_COMPARED = _ORDERED | {"=", "<>", "in", "not in"}
_LIKE = frozenset(("like", "not like"))
CONDITIONS = _COMPARED | _LIKE | {"and", "or", "not", "is null", "is not null", "as boolean"}
"""The operations whose result is true or false."""
PARTIAL = frozenset(("/", "%", "ln", "sqrt", "power"))
"""The operations that have no result for some numbers."""
_RESULT = {
    **dict.fromkeys(_NUMERIC | {"length", "as number", "as whole", *PARTS}, "number"),
    **dict.fromkeys(CONDITIONS, "boolean"),
    **dict.fromkeys(("lower", "upper", "as text"), "text"),
}
_WANTED = {
    "number": "a number",
    "boolean": "a condition",
    "text": "text",
    "date": "a date",
    "other": "something else",
}
_HELP = {
    ("text", "number"): "write cast({0} as double) or length({0})",
    ("text", "boolean"): "compare it: {0} = 'a'",
    ("number", "boolean"): "compare it: {0} <> 0",
    ("number", "text"): "compare numbers with numbers: {0} = 1",
    ("boolean", "number"): "write cast({0} as double), or ask for share({0})",
    ("boolean", "text"): "write case when {0} then 'yes' else 'no' end",
    (
        "date",
        "number",
    ): "compare it: {0} >= '2020-01-01'; or take a part of it: year({0}), month({0}), hour({0})",
    ("date", "boolean"): "compare it: {0} >= '2020-01-01'",
    ("date", "text"): "compare it: {0} >= '2020-01-01'",
}
_LITERAL_HELP = {
    ("text", "number"): "write the number without quotes",
    ("number", "text"): "write the text in single quotes",
    ("number", "boolean"): "write true or false",
    ("number", "date"): "write a date, like '2020-01-31'",
}

Columns = Mapping[str, "engines.Column"]

_TESTED = _COMPARED | _LIKE
_ON_NUMBERS = _NUMERIC | {"length"}
_STRICT = _TESTED | _ON_NUMBERS | {"lower", "upper", *PARTS}
_EVERYTHING = (-math.inf, math.inf)
Limits = tuple[float, float]


def kind_of(node: Node, columns: Columns) -> str:
    """The kind of a checked expression's value."""
    if isinstance(node, ColumnNode):
        return columns[node.name].kind
    if isinstance(node, Literal):
        return node.kind
    if node.op == "case":
        return next(
            (kind for kind in (kind_of(v, columns) for v in _results(node)) if kind != "null"), "null"
        )
    if node.op == "coalesce":
        return kind_of(node.args[0], columns)
    return _RESULT[node.op]


def is_whole(node: Node, columns: Columns) -> bool:
    """Whether the value is a whole number by type, so that turning it into an integer changes nothing."""
    if isinstance(node, ColumnNode):
        return columns[node.name].whole
    if isinstance(node, Literal):
        return isinstance(node.value, float) and node.value.is_integer()
    return node.op in ("length", "floor", "round", "as whole", *PARTS)


def _results(case: Call) -> tuple[Node, ...]:
    return (*case.args[1::2], case.args[-1]) if len(case.args) % 2 else case.args[1::2]


def check_kinds(node: Node, columns: Columns) -> str:
    """Return the kind of ``node``; raise :class:`QueryRejected` for an unknown column or a kind that does not
    fit."""
    if isinstance(node, ColumnNode):
        return _known(node.name, columns)
    if isinstance(node, Literal):
        return node.kind
    kinds = [check_kinds(arg, columns) for arg in node.args]
    op = node.op
    if op in _NUMERIC:
        _all(node, kinds, "number", columns)
    elif op in ("and", "or", "not"):
        _all(node, kinds, "boolean", columns)
    elif op in ("length", "lower", "upper") or op in _LIKE:
        _all(node, kinds, "text", columns)
    elif op in PARTS:
        _all(node, kinds, "date", columns)
    elif op in _COMPARED:
        _check_comparison(node, kinds, columns)
        if op in _ORDERED:
            _check_order(node, columns)
    elif op == "case":
        conditions = slice(0, len(kinds) // 2 * 2, 2)
        _all(node, kinds[conditions], "boolean", columns, node.args[conditions])
        _check_alike(node, _results(node), columns)
    elif op == "coalesce":
        _check_alike(node, node.args, columns)
    elif op.startswith("as "):
        _check_cast(node, kinds[0], columns)
    return kind_of(node, columns)


def _known(name: str, columns: Columns) -> str:
    if name in columns:
        return columns[name].kind
    same = {column.lower(): column for column in columns}
    near = same.get(name.lower()) or next(
        iter(difflib.get_close_matches(name, list(columns), n=1, cutoff=0.5)), None
    )
    hint = f" Did you mean {near!r}?" if near else ""
    if near is None and name[:1].isalpha() and len(columns) > 0:
        hint = " Text goes in single quotes."
    shown = ", ".join(list(columns)[:20]) + (f" and {len(columns) - 20} more" if len(columns) > 20 else "")
    raise QueryRejected(f"There is no column {name!r}.{hint} The columns are: {shown}.")


def misfit(node: Node, inside: Node, kind: str, wanted: str, columns: Columns) -> QueryRejected:
    """The refusal of ``node``, because ``inside`` needs another kind: what it is, and what to write
    instead."""
    written = text_of(node)
    where = "" if node == inside else f" in {text_of(inside)!r}"
    name = f"Column {written!r}" if isinstance(node, ColumnNode) else repr(written)
    if kind == "other":
        return QueryRejected(
            f"{name} has a type that Holdfast cannot compute with, such as a duration or a list, and "
            f"{_WANTED[wanted]} is needed{where}. Turn it into a number, text or a date before you open the "
            "table."
        )
    if isinstance(node, Literal) and (kind, wanted) in _LITERAL_HELP:
        advice = _LITERAL_HELP[kind, wanted]
    else:
        advice = _HELP.get((kind, wanted), f"write {_WANTED[wanted]}").format(written)
    return QueryRejected(
        f"{name} is {_in_words(node, kind, columns)} where {_WANTED[wanted]} is needed{where}; {advice}."
    )


def _in_words(node: Node, kind: str, columns: Columns) -> str:
    """What ``node`` is, in words. For a column of dates, the words name its type."""
    if kind == "date" and isinstance(node, ColumnNode):
        column = columns[node.name]
        if column.zoned:
            return "a timezone-aware timestamp (read in UTC)"
        if column.storage.startswith("timestamp"):
            return "a timestamp"
    return _WANTED.get(kind, kind)


def _all(
    node: Call, kinds: list[str], wanted: str, columns: Columns, args: tuple[Node, ...] | None = None
) -> None:
    for arg, kind in zip(args or node.args, kinds, strict=True):
        if kind != wanted:
            raise misfit(arg, node, kind, wanted, columns)


def _check_comparison(node: Call, kinds: list[str], columns: Columns) -> None:
    first = kinds[0]
    if first == "text" and isinstance(node.args[0], Literal) and "date" in kinds:
        first = "date"
    if first == "other":
        raise misfit(node.args[0], node, "other", "number", columns)
    if first == "boolean" and node.op in _ORDERED:
        raise misfit(node.args[0], node, "boolean", "number", columns)
    for arg, kind in zip(node.args, kinds, strict=True):
        if first == "date" and kind == "text" and isinstance(arg, Literal):
            _check_date(str(arg.value), node, columns)
        elif kind != first:
            raise misfit(arg, node, kind, first, columns)
    if first == "date":
        _check_zones(node, columns)


def order_in(node: Call, columns: Columns) -> tuple[str, ...] | None:
    """The order of categories for a comparison; None if the two sides are compared as text."""
    orders = [_order(arg, columns) for arg in node.args]
    return next((order for order in orders if order is not None), None)


def _order(node: Node, columns: Columns) -> tuple[str, ...] | None:
    """The order of the categories that an expression takes its values from."""
    if isinstance(node, ColumnNode):
        return columns[node.name].order
    if isinstance(node, Call) and node.op in ("case", "coalesce"):
        values = _results(node) if node.op == "case" else node.args
        return next((order for value in values if (order := _order(value, columns)) is not None), None)
    return None


def _check_order(node: Call, columns: Columns) -> None:
    """Refuse comparisons of ordered categories if their order is not public, or the other side is none of
    the categories."""
    order = order_in(node, columns)
    if order is None:
        return
    column = next((arg for arg in node.args if isinstance(arg, ColumnNode)), None)
    literal = next((arg for arg in node.args if isinstance(arg, Literal)), None)
    if column is None or literal is None:
        raise QueryRejected(
            f"{text_of(node)!r} compares ordered categories; write a column on one side and one of its "
            "categories on the other."
        )
    if not order:
        raise QueryRejected(
            f"The column {column.name!r} has ordered categories, and their order is not public, so "
            f"{text_of(node)!r} has no meaning. Open the table with "
            f"Guard(..., public_categories=[{column.name!r}]), or compare with = or in (...)."
        )
    if literal.value not in order:
        raise QueryRejected(
            f"{text_of(literal)} is not a category of the column {column.name!r}; in order they are "
            f"{', '.join(order[:20])}{' and more' if len(order) > 20 else ''}."
        )


def moment_of(text: str) -> datetime:
    """The time that a text stands for, without a zone: in UTC where the text says one."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _check_zones(node: Call, columns: Columns) -> None:
    """Refuse comparisons of times with a zone, which are in UTC, and times without one: their time in UTC is
    unknown."""
    dates = {columns[arg.name].zoned: arg.name for arg in node.args if isinstance(arg, ColumnNode)}
    if len(dates) > 1:
        raise QueryRejected(
            f"{dates[True]!r} has a time zone and {dates[False]!r} has none, so {text_of(node)!r} has no "
            "meaning; compare each with a date, or give both a zone before opening the table."
        )


def _check_date(text: str, node: Call, columns: Columns) -> None:
    try:
        moment_of(text)
        zone = datetime.fromisoformat(text).tzinfo
    except (ValueError, OverflowError):
        raise QueryRejected(
            f"{text!r} in {text_of(node)!r} is not a date; write it like '2020-01-31'."
        ) from None
    zoned = any(isinstance(arg, ColumnNode) and columns[arg.name].zoned for arg in node.args)
    if zone is not None and not zoned:
        raise QueryRejected(
            f"{text!r} has a time zone and the column has none; write it like '2020-01-31 12:00:00'."
        )


def _check_alike(node: Call, values: tuple[Node, ...], columns: Columns) -> None:
    kinds = [kind_of(value, columns) for value in values]
    first = next((kind for kind in kinds if kind != "null"), None)
    if first is None:
        raise QueryRejected(f"{text_of(node)!r} is null for every row; give at least one branch a value.")
    for value, kind in zip(values, kinds, strict=True):
        if kind in ("date", "other"):
            raise misfit(value, node, kind, "number", columns)
        if kind not in (first, "null"):
            raise misfit(value, node, kind, first, columns)


def _check_cast(node: Call, kind: str, columns: Columns) -> None:
    arg = node.args[0]
    if kind in ("date", "other"):
        raise misfit(arg, node, kind, "number", columns)
    if node.op == "as whole" and kind != "boolean" and not is_whole(arg, columns):
        written = text_of(arg)
        number = f"cast({written} as double)" if kind == "text" else written
        raise QueryRejected(
            "A cast to a whole number rounds differently on every database; "
            f"write floor({number}) or round({number})."
        )
    if (
        node.op == "as text"
        and kind == "number"
        and not (isinstance(arg, ColumnNode) and columns[arg.name].whole)
    ):
        raise QueryRejected(
            f"{text_of(arg)!r} is a number, and its digits differ between databases; "
            "compare numbers with numbers."
        )


@dataclass(frozen=True)
class Facts:
    """Facts about a row: nodes that are not null, nodes that are not zero, and limits on nodes."""

    present: frozenset[Node] = frozenset()
    nonzero: frozenset[Node] = frozenset()
    limits: Mapping[Node, Limits] = field(default_factory=dict)

    def and_also(self, other: Facts) -> Facts:
        limits = dict(self.limits)
        for node, (low, high) in other.limits.items():
            own = limits.get(node, _EVERYTHING)
            limits[node] = max(low, own[0]), min(high, own[1])
        return Facts(self.present | other.present, self.nonzero | other.nonzero, limits)


NOTHING = Facts()


@dataclass(frozen=True)
class Gap:
    """Why an expression may have no value: the ``column`` that may be null, or the ``operation`` without a
    result."""

    column: str = ""
    operation: str = ""


def when_true(condition: Node | None) -> Facts:
    """The facts about a row for which the condition is true."""
    if not isinstance(condition, Call):
        return Facts(frozenset([condition])) if isinstance(condition, ColumnNode) else NOTHING
    op, args = condition.op, condition.args
    if op == "and":
        together = NOTHING
        for arg in args:
            together = together.and_also(when_true(arg))
        return together
    if op in ("is not null", "not"):
        return Facts(_read_strictly(args[0]))
    if op not in _TESTED:
        return NOTHING
    facts = Facts(frozenset().union(*(_read_strictly(arg) for arg in args)))
    if len(args) == 2 and isinstance(args[1], Literal) and isinstance(args[1].value, float):
        facts = facts.and_also(_against(op, args[0], args[1].value))
    return facts


def when_not_true(condition: Node) -> Facts:
    """The facts about a row for which the condition is false or null. Only a test for null gives facts."""
    if isinstance(condition, Call) and condition.op == "is null":
        return Facts(_read_strictly(condition.args[0]))
    if isinstance(condition, Call) and condition.op == "or":
        facts = NOTHING
        for arg in condition.args:
            facts = facts.and_also(when_not_true(arg))
        return facts
    return NOTHING


def _read_strictly(node: Node) -> frozenset[Node]:
    """The node and every part of it that must have a value for the node to have one."""
    nodes = {node}
    if isinstance(node, Call) and node.op in _STRICT:
        nodes = nodes.union(*(_read_strictly(arg) for arg in node.args))
    return frozenset(nodes)


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
    given = facts.limits.get(node, _EVERYTHING)
    return max(own[0], given[0]), min(own[1], given[1])


def _own_limits(node: Node, columns: Mapping[str, engines.Column], facts: Facts) -> Limits:
    if isinstance(node, ColumnNode):
        return columns[node.name].limits
    if isinstance(node, Literal):
        return (node.value, node.value) if isinstance(node.value, float) else _EVERYTHING
    if node.op in PARTS:
        return PARTS[node.op]
    if node.op not in _ON_NUMBERS and node.op != "as whole":
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
    if isinstance(node, ColumnNode):
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
        reason = gap(arg, columns, nullable, facts)
        if reason:
            return reason
    return Gap(operation=text_of(node)) if _may_be_undefined(node, columns, facts) else None


def _from_null_tests(node: Call) -> Facts:
    """Parts of an and (or) that test for null are never null themselves; if one is false (true), it alone
    decides."""
    facts = NOTHING
    for arg in node.args:
        if isinstance(arg, Call) and arg.op in ("is null", "is not null"):
            facts = facts.and_also(when_true(arg) if node.op == "and" else when_not_true(arg))
    return facts


def _case_gap(
    node: Call, columns: Mapping[str, engines.Column], nullable: frozenset[str], facts: Facts
) -> Gap | None:
    for i in range(0, len(node.args) - 1, 2):
        reason = gap(node.args[i + 1], columns, nullable, facts.and_also(when_true(node.args[i])))
        if reason:
            return reason
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
