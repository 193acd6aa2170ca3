"""The type checker: five kinds, decided from the schema alone, before any row is read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import UTC, datetime

from holdfast import engines
from holdfast.errors import QueryRejected
from holdfast.queries._nodes import PARTS, Call, Column, Literal, Node, text_of

__all__ = ["CONDITIONS", "check_kinds", "is_whole", "kind_of", "misfit", "moment_of", "order_in"]

_NUMERIC = frozenset(("+", "-", "*", "/", "%", "negate", "abs", "least", "greatest")) | {
    *("floor", "round", "ln", "exp", "sqrt", "power")
}
_ORDERED = frozenset(("<", "<=", ">", ">="))
_COMPARED = _ORDERED | {"=", "<>", "in", "not in"}
_LIKE = frozenset(("like", "not like"))
CONDITIONS = _COMPARED | _LIKE | {"and", "or", "not", "is null", "is not null", "as boolean"}
"""The operations whose result is true or false."""
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


def kind_of(node: Node, columns: Columns) -> str:
    """The kind of a checked expression's value."""
    if isinstance(node, Column):
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
    if isinstance(node, Column):
        return columns[node.name].whole
    if isinstance(node, Literal):
        return isinstance(node.value, float) and node.value.is_integer()
    return node.op in ("length", "floor", "round", "as whole", *PARTS)


def _results(case: Call) -> tuple[Node, ...]:
    return (*case.args[1::2], case.args[-1]) if len(case.args) % 2 else case.args[1::2]


def check_kinds(node: Node, columns: Columns) -> str:
    """Return the kind of ``node``; raise :class:`QueryRejected` for an unknown column or a kind that does not
    fit."""
    if isinstance(node, Column):
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
    """The refusal of ``node``, which is of one kind where ``inside`` needs another: what it is, and what to
    write instead."""
    written = text_of(node)
    where = "" if node == inside else f" in {text_of(inside)!r}"
    name = f"Column {written!r}" if isinstance(node, Column) else repr(written)
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
    """What ``node`` is. Of a date in a column, its type says more."""
    if kind == "date" and isinstance(node, Column):
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
    """The order of categories by which the two sides of a comparison are compared; None: as text."""
    orders = [_order(arg, columns) for arg in node.args]
    return next((order for order in orders if order is not None), None)


def _order(node: Node, columns: Columns) -> tuple[str, ...] | None:
    """The order of the categories that an expression takes its values from."""
    if isinstance(node, Column):
        return columns[node.name].order
    if isinstance(node, Call) and node.op in ("case", "coalesce"):
        values = _results(node) if node.op == "case" else node.args
        return next((order for value in values if (order := _order(value, columns)) is not None), None)
    return None


def _check_order(node: Call, columns: Columns) -> None:
    """Ordered categories are compared in their order, which has to be public, with one of them."""
    order = order_in(node, columns)
    if order is None:
        return
    column = next((arg for arg in node.args if isinstance(arg, Column)), None)
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
    """Times with a zone are compared in UTC; of a time without one nobody knows what it is there."""
    dates = {columns[arg.name].zoned: arg.name for arg in node.args if isinstance(arg, Column)}
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
    zoned = any(isinstance(arg, Column) and columns[arg.name].zoned for arg in node.args)
    if zone is not None and not zoned:
        raise QueryRejected(
            f"{text!r} has a time zone and the column has none; write it like '2020-01-31 12:00:00'."
        )


def _check_alike(node: Call, values: tuple[Node, ...], columns: Columns) -> None:
    kinds = [kind_of(value, columns) for value in values]
    first = next((kind for kind in kinds if kind != "null"), None)
    if first is None:
        raise QueryRejected(f"{text_of(node)!r} is null whatever the row; give at least one branch a value.")
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
        and not (isinstance(arg, Column) and columns[arg.name].whole)
    ):
        raise QueryRejected(
            f"{text_of(arg)!r} is a number, and its digits differ between databases; "
            "compare numbers with numbers."
        )
