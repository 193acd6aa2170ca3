"""An expression over one row: read once, kept in canonical form.

Texts that differ only in the numbers after a comparison sign are parsed once. An analyst who looks for a
threshold asks ``age > 37``, ``age > 38``, ..., and parsing is the slowest step of reading a question. So a
text is parsed with two sets of numbers in these places. Where the two trees differ in exactly these leaves,
the tree for any other numbers differs in the same leaves. All other texts are parsed as they are, and so are
texts that are refused, because a refusal quotes the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import add
from typing import Any, TypeAlias

from holdfast import engines
from holdfast.errors import QueryRejected
from holdfast.queries._kinds import CONDITIONS
from holdfast.queries._nodes import (
    Call,
    ColumnNode,
    Literal,
    Node,
    canonical,
    is_float,
    number,
    text_of,
    walk,
)
from holdfast.queries._reader import (
    MOST_CHARACTERS,
    read_nodes,
    read_tree,
    reading_dialect,
)
from holdfast.typing import ExpressionLike

__all__ = ["Expression", "ExpressionSource", "read_text"]


# Stands for a number in a text; no question contains it.
_MARK = "\0"
_DECIMAL = frozenset("0123456789.eE+-")
_PLAIN = re.compile(r"[\w\s().,<>=+*/%-]*", re.ASCII)
# A comment, and signs that are more than a comparison.
_LONGER_SIGN = re.compile(r"--|/\*|->|=>|<=>|==|<<|>>|//")
_COMPARED_NUMBER = re.compile(r"[<>=]\s*-?\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w.])", re.ASCII)


def read_text(text: str) -> Node:
    """Return the nodes of a text, as :func:`read_nodes` makes them from its tree."""
    if len(text) <= MOST_CHARACTERS and _MARK not in text:
        marked, numbers = _without_numbers(text)
        pattern = _pattern(marked) if numbers else None
        if pattern is not None:
            return _filled(pattern, numbers)
    return read_nodes(read_tree(text))


def _without_numbers(text: str) -> tuple[str, list[float]]:
    """A text with marks for the numbers that follow a comparison sign, and the numbers. There are no numbers
    if one of them is not a plain decimal that a float can hold."""
    parts, numbers, end = [], [], 0
    for start, stop in _comparison_numbers(text):
        written = text[start:stop]
        value = _decimal(written)
        if not (math.isfinite(value) and is_float(written, value)):
            return text, []
        parts.append(text[end:start])
        numbers.append(value)
        end = stop
    return _MARK.join([*parts, text[end:]]), numbers


@cache
def _tokenizer() -> tuple[Any, type[Exception]]:
    """The tokenizer, and the error that it raises for a text that it cannot read."""
    dialect = reading_dialect()
    from sqlglot import Dialect
    from sqlglot.errors import TokenError

    return Dialect.get_or_raise(dialect).tokenize, TokenError


@cache
def _comparison_tokens() -> tuple[Any, frozenset[Any], Any]:
    from sqlglot.tokens import TokenType

    signs = (TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE)
    return TokenType.NUMBER, frozenset(signs), TokenType.DASH


def _comparison_numbers(text: str) -> list[tuple[int, int]]:
    """The places of the numbers after a comparison sign, with or without one minus. Empty if the text cannot
    be cut into tokens.

    A text of names, plain decimals and signs needs no tokenizer, which takes longer than the rest of the
    reading. In other texts a number may be part of a text, a comment or a longer sign.
    """
    if _PLAIN.fullmatch(text) and not _LONGER_SIGN.search(text):
        return [match.span(1) for match in _COMPARED_NUMBER.finditer(text)]
    tokenize, token_error = _tokenizer()
    number_token, signs, minus = _comparison_tokens()
    try:
        kinds = [(token.token_type, token) for token in tokenize(text)]
    except token_error:
        return []
    chosen = []
    for place, (kind, token) in enumerate(kinds):
        if kind is number_token and place:
            before = place - 2 if kinds[place - 1][0] is minus else place - 1
            if before >= 0 and kinds[before][0] in signs:
                chosen.append((token.start, token.end + 1))
    return chosen


def _decimal(text: str) -> float:
    """The value of a plain decimal; infinite for any other form, such as 1_000 or 5e."""
    try:
        return float(text) if _DECIMAL.issuperset(text) else math.inf
    except ValueError:
        return math.inf


@lru_cache(1_000)
def _pattern(marked: str) -> Node | None:
    """The nodes of a text with places for its numbers; None if other numbers might give another tree."""
    start, *rest = marked.split(_MARK)
    whole = [f"{7_000_001 + place}" for place in range(len(rest))]
    broken = [f"{place + 1}.25e-9" for place in range(len(rest))]
    texts = [start + "".join(map(add, numbers, rest)) for numbers in (whole, broken)]
    pairs = zip(map(float, whole), map(float, broken), strict=True)
    places = {pair: place for place, pair in enumerate(pairs)}
    try:
        first, second = (read_nodes(read_tree(text)) for text in texts)
        return _with_places(first, second, places)
    except (QueryRejected, RecursionError, _Differs):
        return None


class _Differs(Exception):
    """Two trees differ in more than the numbers that were compared with."""


def _with_places(first: Node, second: Node, places: dict[tuple[float, float], int]) -> Node:
    if first == second:
        return first
    if isinstance(first, Call) and isinstance(second, Call):
        if (first.op, len(first.args)) == (second.op, len(second.args)):
            pairs = zip(first.args, second.args, strict=True)
            return Call(first.op, tuple(_with_places(*pair, places) for pair in pairs))
    elif isinstance(first, Literal) and isinstance(second, Literal):
        values = first.value, second.value
        if isinstance(values[0], float) and isinstance(values[1], float) and values in places:
            return Literal("place", float(places[values]))
    raise _Differs


def _filled(node: Node, numbers: list[float]) -> Node:
    if isinstance(node, Call):
        return Call(node.op, tuple(_filled(arg, numbers) for arg in node.args))
    if isinstance(node, Literal) and node.kind == "place" and isinstance(node.value, float):
        return number(numbers[int(node.value)])
    return node


_PLAIN_SELECT = frozenset({"expressions", "from_", "from", "kind", "operation_modifiers"})


@dataclass(frozen=True)
class Expression:
    """A scalar expression over one row, in canonical form: two spellings of one expression are equal.

    ``node`` is the tree of the expression.

    >>> Expression.read("1 < x AND (y<2)") == Expression.read("y < 2 and x > 1")
    True
    >>> str(Expression.read("NOT (x > 1e0)"))
    'x <= 1'
    """

    node: Node

    @classmethod
    def read(
        cls, source: ExpressionSource, *, schema: Mapping[str, engines.Column] | None = None
    ) -> Expression:
        """Read ``source``, which is SQL text or an ibis expression; a deferred one (``_.x * 2``) needs the
        ``schema`` it is about.

        Raises :class:`~holdfast.errors.QueryRejected` for everything that is not on the whitelist, saying
        what to write instead. :meth:`holdfast.queries.Query.check` checks whether the columns exist
        and fit.
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
        return frozenset(node.name for node in walk(self.node) if isinstance(node, ColumnNode))

    @property
    def column(self) -> str | None:
        """The name of the column, if the expression is only a column; otherwise None."""
        return self.node.name if isinstance(self.node, ColumnNode) else None

    @property
    def is_condition(self) -> bool:
        """Whether its form makes it true or false, for all kinds of columns."""
        return isinstance(self.node, Call) and self.node.op in CONDITIONS

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


ExpressionSource: TypeAlias = ExpressionLike | Expression
"""What :meth:`Expression.read` takes."""


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
