"""How large an expression may be: its text before it is parsed, and its tree before it is worked on.

A parser may take a time that grows with the square of the text, or faster. So the text is measured first, by
one pass of a lexer that takes the same time for every character, and what is too long, nests too deep, or has
signs that no allowed expression has, never reaches the parser.
"""

from __future__ import annotations

import re

from holdfast.errors import QueryRejected
from holdfast.queries._nodes import Node, children

__all__ = [
    "MOST_CHARACTERS",
    "MOST_DEEP",
    "MOST_NODES",
    "MOST_TOKENS",
    "measure",
    "require_few_nodes",
    "too_deep",
]

MOST_CHARACTERS = 20_000
MOST_TOKENS = 10_000
MOST_DEEP = 80
MOST_NODES = 5_000
# No allowed expression has one; the parser says what to write instead of a few of them.
_MOST_ODD = 4
_MOST_DOTS = 8

# Every repetition is possessive: the lexer never goes back.
_TOKEN = re.compile(
    r"""
    \s++
    | '(?:[^']|'')*+'?+             # a text; one that does not end goes on to the end
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
