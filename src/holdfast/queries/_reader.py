"""From SQL text to a tree: a lexer measures, sqlglot parses, a whitelist decides.

A parser may take a time that grows with the square of the text, or faster. So the text is measured first, by
one pass of a lexer that takes the same time for every character. A text that is too long, nests too deep, or
has signs that no allowed expression has, never reaches the parser.

Everything that is not on the whitelist is refused. So an expression depends only on one row: no subquery, no
aggregate, no window, no parameter, no volatile or unlisted function.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, ClassVar

from holdfast.engines import load_sql
from holdfast.errors import QueryRejected
from holdfast.queries._nodes import (
    PARTS,
    Call,
    ColumnNode,
    Literal,
    Node,
    canonical,
    children,
    is_float,
    number,
    truth,
)

__all__ = [
    "ALLOWED",
    "MOST_CHARACTERS",
    "MOST_DEEP",
    "MOST_NODES",
    "MOST_TOKENS",
    "measure",
    "read_node",
    "read_nodes",
    "read_tree",
    "reading_dialect",
    "require_few_nodes",
    "too_deep",
]


MOST_CHARACTERS = 20_000
MOST_TOKENS = 10_000
MOST_DEEP = 80
MOST_NODES = 5_000
# No allowed expression has these. For a few of them the parser says what to write instead.
_MOST_ODD = 4
_MOST_DOTS = 8

# Every repetition is possessive: the lexer never goes back.
_TOKEN = re.compile(
    r"""
    \s++
    | '(?:[^']|'')*+'?+             # a text; without a closing quote, all of the rest
    | "(?:[^"]|"")*+"?+             # a name in quotes
    | --[^\n]*+                     # a comment
    | /\*(?:[^*]|\*(?!/))*+(?:\*/)?+
    | (?P<number>\d[\w.]*+)
    | (?P<word>\w++)
    | (?P<odd>[\[{;?]|->)
    | (?P<dot>[.])
    | (?P<power>\*\*)
    | (?P<open>[(])
    | (?P<close>[)])
    | (?P<sign>[-+~])
    | .
    """,
    re.VERBOSE | re.DOTALL,
)

ALLOWED = (
    "columns, numbers, 'text', true and false, + - * / %, comparisons, and, or, not, between, in (a list), "
    "like, is null, case, coalesce, abs, least, greatest, floor, round, ln, exp, sqrt, power, length, lower, "
    "upper, year, month, day, hour, isodow and cast"
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BINARY = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "Pow": "power",
}
_UNARY = {
    "Not": "not",
    "Neg": "negate",
    "Abs": "abs",
    "Floor": "floor",
    "Ln": "ln",
    "Exp": "exp",
    "Sqrt": "sqrt",
    "Length": "length",
    "Lower": "lower",
    "Upper": "upper",
    "Year": "year",
    "Month": "month",
    "Day": "day",
    "DayOfMonth": "day",
    "Hour": "hour",
    "DayOfWeekIso": "isodow",
}
_MANY = {"Least": "least", "Greatest": "greatest", "Coalesce": "coalesce"}
_CAST_TO = {
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL", "BIGDECIMAL"), "as number"),
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT", "UBIGINT"), "as whole"
    ),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), "as text"),
    "BOOLEAN": "as boolean",
}
_MOMENTS = frozenset(("DATE", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "DATETIME"))
# Marks that sqlglot adds while it parses. They do not change the value of an allowed node.
_HARMLESS = frozenset({"ignore_nulls", "typed", "safe", "nested", "big_int"})
_FROM_WHICH_DAY = (
    "databases count the days of the week from different days: write isodow(t), Monday is 1, Sunday is 7"
)
_WHOLE_DAYS = "compare with both ends: t >= '2024-01-01' and t < '2024-01-02'"
_INSTEAD = {
    "Log": "write ln(x), or ln(x) / ln(10)",
    "Ceil": "write -floor(-x)",
    "IntDiv": "write floor(x / y)",
    "ILike": "write lower(x) like 'a%'",
    "Escape": "in a pattern % stands for any characters, _ for one, and everything else for itself",
    "SimilarTo": "write x like 'a%' or x like 'b%'",
    "RegexpLike": "write x like 'a%' or x like 'b%'",
    "Glob": "write x like 'a%'",
    "StartsWith": "write x like 'a%'",
    "EndsWith": "write x like '%a'",
    "Contains": "write x like '%a%'",
    "DayOfWeek": _FROM_WHICH_DAY,
    "Dayname": _FROM_WHICH_DAY,
    "Quarter": "write floor((month(t) + 2) / 3)",
    "Date": _WHOLE_DAYS,
    "TsOrDsToDate": _WHOLE_DAYS,
    "TimestampTrunc": _WHOLE_DAYS,
    "DateTrunc": _WHOLE_DAYS,
    "AtTimeZone": "a time with a zone is asked about in UTC, any other as it is",
    "CurrentDate": "an answer must not change when it is asked again: write the date, '2024-01-31'",
    "CurrentTimestamp": "an answer must not change when it is asked again: write the date, '2024-01-31'",
    "If": "write case when ... then ... else ... end",
    "Nullif": "write case when x <> 0 then x end",
    "Sign": "write case when x > 0 then 1 when x < 0 then -1 else 0 end",
    "IsNan": "NaN counts as null: write x is null",
    "NullSafeEQ": "write x = y or (x is null and y is null)",
    "Placeholder": "write the value itself instead of a parameter",
    "Parameter": "write the value itself instead of a parameter",
    "Star": "name a column",
    "Rand": "an answer must not change when it is asked again",
    "Avg": "ask for mean(...) of a plain expression of one row",
    "Count": "ask for share(...) of a condition on one row",
    "Sum": "ask for mean(...) of a plain expression of one row",
    "Median": "ask for quantile(..., 0.5) of a plain expression of one row",
    "Window": "an expression sees one row; put the window's value in a column first",
    "Subquery": "an expression sees one row; put the subquery's value in a column first",
    "Exists": "an expression sees one row; put the subquery's value in a column first",
    "DPipe": "compare the columns one by one",
    "Block": "write one expression, without a semicolon",
}


def measure(text: str) -> None:
    """Refuse a text that is too large to be parsed; takes a time in proportion to its length.

    >>> measure("age > 40 and income < 5e4")
    """
    if len(text) > MOST_CHARACTERS:
        raise QueryRejected(
            f"The expression has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read; "
            "put part of it in a column of its own."
        )
    tokens = depth = prefixes = odd = dots = powers = 0
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup, token[0]
        if word.isspace():
            continue
        tokens += 1
        odd += kind == "odd"
        dots = dots + 1 if kind == "dot" else dots * (kind == "word")
        if odd > _MOST_ODD or dots > _MOST_DOTS:
            raise QueryRejected(
                "[, {, ;, ?, -> and names of many parts are not allowed in an expression; write a list in "
                "parentheses, x in (1, 2), and put part of a nested value in a column of its own."
            )
        name = word.lower() if kind == "word" else ""
        depth += (kind == "open" or name == "case") - (kind == "close" or name == "end")
        prefixes = prefixes + 1 if kind == "sign" or name == "not" else 0
        powers += kind == "power"
        if max(depth, prefixes, powers) > MOST_DEEP:
            raise too_deep()
    if tokens > MOST_TOKENS:
        raise QueryRejected(
            f"The expression has {tokens:,} words and signs and at most {MOST_TOKENS:,} are read; put part "
            "of it in a column of its own."
        )


def too_deep() -> QueryRejected:
    """The refusal of an expression that nests too deep."""
    return QueryRejected(
        f"The expression nests more than {MOST_DEEP} deep, as a sum of more terms does; add them in groups, "
        "(a + b + ...) + (c + d + ...), or put part of it in a column of its own."
    )


def require_few_nodes(node: Node) -> Node:
    """The tree, if it is not too large: ``x between a and b`` has x twice, and nested ones double each
    time."""
    count, nodes = 0, [node]
    while nodes:
        count += 1
        nodes.extend(children(nodes.pop()))
        if count + len(nodes) > MOST_NODES:
            raise QueryRejected(
                f"The expression has more than {MOST_NODES:,} parts once every between and case is written "
                "out; put part of it in a column of its own."
            )
    return node


def _refuse(what: str, instead: str) -> QueryRejected:
    return QueryRejected(f"{what} is not allowed in an expression; {instead}.")


@cache
def reading_dialect() -> Any:
    """DuckDB's dialect of sqlglot, in which signs bind as they do in DuckDB.

    sqlglot before 30.18 reads ``a - b % c`` as ``(a - b) % c``, and ``a > b is null`` as ``a > (b is null)``:
    other questions than those that were asked.
    """
    load_sql()
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.tokens import TokenType

    sums = {token: node for token, node in DuckDB.Parser.TERM.items() if token is not TokenType.MOD}

    ranges = {token: how for token, how in DuckDB.Parser.RANGE_PARSERS.items() if token is not TokenType.IS}

    class AsDuckDB(DuckDB.Parser):  # type: ignore[misc]
        TERM: ClassVar[Any] = sums
        FACTOR: ClassVar[Any] = {**DuckDB.Parser.FACTOR, TokenType.MOD: exp.Mod}
        RANGE_PARSERS: ClassVar[Any] = ranges

        def _parse_equality(self) -> Any:
            compared, signs = super()._parse_equality(), {**self.EQUALITY, **self.COMPARISON}
            while True:
                if self._match(TokenType.IS):
                    compared = self._parse_is(compared)
                elif self._match_set(signs):
                    sign = signs[self._prev.token_type]
                    compared = self.expression(sign(this=compared, expression=self._parse_range()))
                else:
                    return compared

    class HoldfastReading(DuckDB):  # type: ignore[misc]
        Parser = AsDuckDB

    return HoldfastReading


def read_tree(text: str) -> Any:
    """Parse ``text`` as one scalar expression with sqlglot; the tree is not yet checked."""
    measure(text)
    dialect = reading_dialect()
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        return sqlglot.parse_one(text, dialect=dialect, into=exp.Condition)
    except SqlglotError as error:
        details = (getattr(error, "errors", None) or [{}])[0]
        near = str(details.get("highlight") or "").strip()
        place = f" near {near!r}" if near else ""
        raise QueryRejected(
            f"Cannot read the expression {text!r}{place}. Write one SQL expression over one row, such as "
            "age > 40 and income < 5e4; names with spaces, or that are words of SQL, go in double quotes, "
            "text in single quotes."
        ) from None
    except RecursionError:
        raise too_deep() from None


def read_nodes(tree: Any) -> Node:
    """Turn a sqlglot tree into nodes, refusing everything that is not on the whitelist, and too many of
    them."""
    return require_few_nodes(read_node(tree))


def read_node(tree: Any, *, deep: int = 0) -> Node:
    """Turn a sqlglot tree into nodes, refusing everything that is not on the whitelist."""
    if deep > MOST_DEEP:
        raise too_deep()
    name = type(tree).__name__
    reader = _readers().get(name)
    if reader is None:
        word = str(tree.this).lower() if name == "Anonymous" else ""
        instead = _FROM_WHICH_DAY if word in ("weekday", "dow") else _INSTEAD.get(name)
        raise _refuse(_describe(tree, name), instead or f"allowed are {ALLOWED}")
    node: Node = reader(tree, deep)
    return node


def _describe(tree: Any, name: str) -> str:
    from sqlglot import ErrorLevel

    try:
        written = tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
    except (ValueError, AttributeError, RecursionError):
        written = name
    return repr(written if len(written) <= 60 else written[:57] + "...")


def _only(tree: Any, *expected: str) -> None:
    """Refuse a node with parts that its reader does not read (DISTINCT, ORDER BY, SYMMETRIC, ...)."""
    for key, value in tree.args.items():
        if value and key not in expected and key not in _HARMLESS:
            raise _refuse(f"{key} in {_describe(tree, type(tree).__name__)}", f"allowed are {ALLOWED}")


def _column(tree: Any, deep: int) -> Node:
    if tree.args.get("table") is not None:
        written = tree.sql(dialect="duckdb")
        raise _refuse(f"The qualified name {written}", f"there is one table: write {tree.name}")
    _only(tree, "this")
    if type(tree.this).__name__ != "Identifier":
        raise _refuse(_describe(tree, "Column"), _INSTEAD.get(type(tree.this).__name__, "name a column"))
    return ColumnNode(str(tree.this.this))


def _literal(tree: Any, deep: int) -> Node:
    if tree.args.get("is_string"):
        return Literal("text", str(tree.this))
    try:
        value = float(tree.this)
    except ValueError:
        raise QueryRejected(f"{tree.this!r} is not a number; write one such as 5 or 2.5e3.") from None
    if not math.isfinite(value):
        raise QueryRejected(f"The number {tree.this} is too large; write one below 1.7e308.")
    if not is_float(tree.this, value):
        raise QueryRejected(
            f"The number {tree.this} has more digits than a 64-bit float holds: it would be read as "
            f"{value:.0f}. Whole numbers up to 2**53 are exact; give longer ids as a column of text."
        )
    return number(value)


def _boolean(tree: Any, deep: int) -> Node:
    return truth(bool(tree.this))


def _null(tree: Any, deep: int) -> Node:
    raise QueryRejected(
        "A bare null compares with nothing; write x is null, or coalesce(x, 0) for what nulls count as."
    )


def _paren(tree: Any, deep: int) -> Node:
    _only(tree, "this")
    return read_node(tree.this, deep=deep + 1)


def _unary(tree: Any, deep: int) -> Node:
    _only(tree, "this")
    return Call(_UNARY[type(tree).__name__], (read_node(tree.this, deep=deep + 1),))


def _binary(tree: Any, deep: int) -> Node:
    _only(tree, "this", "expression")
    left, right = (read_node(part, deep=deep + 1) for part in (tree.this, tree.expression))
    return Call(_BINARY[type(tree).__name__], (left, right))


def _connected(tree: Any, deep: int) -> Node:
    """One flat node for a chain of and / or of any length. Sqlglot nests such a chain to the left."""
    kind, parts = type(tree), []
    while isinstance(tree, kind):
        _only(tree, "this", "expression")
        parts.append(tree.expression)
        tree = tree.this
    nodes = tuple(read_node(part, deep=deep + 1) for part in (tree, *reversed(parts)))
    return Call(kind.__name__.lower(), nodes)


def _many(tree: Any, deep: int) -> Node:
    _only(tree, "this", "expressions")
    args = tuple(read_node(part, deep=deep + 1) for part in (tree.this, *tree.expressions))
    return Call(_MANY[type(tree).__name__], args)


def _between(tree: Any, deep: int) -> Node:
    _only(tree, "this", "low", "high")
    value, low, high = (read_node(tree.args[part], deep=deep + 1) for part in ("this", "low", "high"))
    return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))


def _is(tree: Any, deep: int) -> Node:
    _only(tree, "this", "expression")
    value = read_node(tree.this, deep=deep + 1)
    against = type(tree.expression).__name__
    if against == "Null":
        return Call("is null", (value,))
    if against == "Boolean":
        wanted = bool(tree.expression.this)
        certain = Call("coalesce", (value, truth(not wanted)))
        return certain if wanted else Call("not", (certain,))
    raise _refuse(_describe(tree, "Is"), "write x is null, or x = y")


def _in(tree: Any, deep: int) -> Node:
    _only(tree, "this", "expressions")
    listed = tuple(canonical(read_node(part, deep=deep + 1)) for part in tree.expressions)
    if not listed or not all(isinstance(part, Literal) for part in listed):
        raise _refuse(
            _describe(tree, "In"), "in takes a list of numbers or texts: write x in (1, 2), or x = y or x = z"
        )
    return Call("in", (read_node(tree.this, deep=deep + 1), *listed))


def _like(tree: Any, deep: int) -> Node:
    """``x not like 'a%'`` is a negation, or a like that says so: versions of sqlglot differ."""
    _only(tree, "this", "expression", "negate")
    pattern = tree.expression
    if type(pattern).__name__ != "Literal" or not pattern.args.get("is_string"):
        raise _refuse(_describe(tree, "Like"), "like takes one pattern in single quotes: write x like 'a%'")
    test = Call("like", (read_node(tree.this, deep=deep + 1), Literal("text", str(pattern.this))))
    return Call("not", (test,)) if tree.args.get("negate") else test


def _extract(tree: Any, deep: int) -> Node:
    _only(tree, "this", "expression")
    part = str(tree.this.name).lower()
    if part not in PARTS:
        instead = f"the parts of a date are {', '.join(PARTS)}"
        raise _refuse(_describe(tree, "Extract"), _FROM_WHICH_DAY if "dow" in part else instead)
    return Call(part, (read_node(tree.expression, deep=deep + 1),))


def _case(tree: Any, deep: int) -> Node:
    _only(tree, "this", "ifs", "default")
    subject = None if tree.args.get("this") is None else read_node(tree.args["this"], deep=deep + 1)
    args: list[Node] = []
    for branch in tree.args["ifs"]:
        _only(branch, "this", "true")
        condition = read_node(branch.this, deep=deep + 1)
        if subject is not None:
            condition = Call("=", (subject, condition))
        args += [condition, _result(branch.args["true"], deep)]
    if tree.args.get("default") is not None:
        args.append(_result(tree.args["default"], deep))
    return Call("case", tuple(args))


def _result(tree: Any, deep: int) -> Node:
    """The value of a case branch, the one place where null may be written."""
    return Literal("null", None) if type(tree).__name__ == "Null" else read_node(tree, deep=deep + 1)


def _round(tree: Any, deep: int) -> Node:
    """``round(x, 2)`` is round(100 x) / 100, and ``round(x, -3)`` is 1000 round(x / 1000), whatever the
    engine does."""
    _only(tree, "this", "decimals")
    value = read_node(tree.this, deep=deep + 1)
    if tree.args.get("decimals") is None:
        return Call("round", (value,))
    sign, digits = 1, tree.args["decimals"]
    if type(digits).__name__ == "Neg":
        sign, digits = -1, digits.this
    if type(digits).__name__ != "Literal" or not str(digits.this).isdigit() or int(digits.this) > 15:
        raise QueryRejected("The digits of round(x, digits) must be a whole number from -15 to 15.")
    if int(digits.this) == 0:
        return Call("round", (value,))
    unit = number(10.0 ** int(digits.this))
    inner, outer = ("*", "/") if sign > 0 else ("/", "*")
    return Call(outer, (Call("round", (Call(inner, (value, unit)),)), unit))


def _cast(tree: Any, deep: int) -> Node:
    _only(tree, "this", "to")
    to = tree.args["to"]
    wanted = to.this.name if hasattr(to.this, "name") else str(to.this)
    if wanted in _MOMENTS:
        return _moment(tree, wanted)
    op = _CAST_TO.get(wanted)
    if op is None:
        raise _refuse(f"A cast to {to.sql(dialect='duckdb')}", "cast to double, text or boolean")
    return Call(op, (read_node(tree.this, deep=deep + 1),))


def _moment(tree: Any, wanted: str) -> Node:
    """``date '2024-01-31'`` is the text in quotes, which says the same wherever a date is compared."""
    inside = tree.this
    if type(inside).__name__ != "Literal" or not inside.args.get("is_string"):
        raise _refuse(_describe(tree, "Cast"), _WHOLE_DAYS)
    text = str(inside.this)
    if wanted == "DATE" and not _DAY.fullmatch(text):
        raise QueryRejected(f"{text!r} is not a date; write it like '2020-01-31'.")
    return Literal("text", text)


@cache
def _readers() -> dict[str, Any]:
    return {
        "Column": _column,
        "Literal": _literal,
        "Boolean": _boolean,
        "Null": _null,
        "Paren": _paren,
        "And": _connected,
        "Or": _connected,
        "Between": _between,
        "Is": _is,
        "In": _in,
        "Like": _like,
        "Extract": _extract,
        "Case": _case,
        "Round": _round,
        "Cast": _cast,
        "TryCast": _cast,
        **dict.fromkeys(_UNARY, _unary),
        **dict.fromkeys(_BINARY, _binary),
        **dict.fromkeys(_MANY, _many),
    }
