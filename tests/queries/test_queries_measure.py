"""Texts are measured before they are parsed, and reading one takes a time in proportion to its tokens."""

from __future__ import annotations

import contextlib
import time

import pytest
import sqlglot

from holdfast.errors import QueryRejected
from holdfast.queries import Expression, read


def nested(before, inner, after):
    return lambda size: before * (size // len(before + after)) + inner + after * (size // len(before + after))


def repeated(part, end="x"):
    return lambda size: part * (size // len(part)) + end


FAMILIES = {
    "brackets": lambda size: "age" + "[1]" * (size // 3),
    "slices": lambda size: "age" + "[1:2]" * (size // 5),
    "terms with brackets": repeated("(x[1]) + "),
    "lists": nested("[", "1", "]"),
    "structs": nested("{a: ", "1", "}"),
    "parentheses": nested("(", "x", ")"),
    "open parentheses": repeated("("),
    "casts": nested("cast(", "x", " as double)"),
    "short casts": lambda size: "x" + "::double" * (size // 8),
    "negations": repeated("not "),
    "minus": repeated("- "),
    "tildes": repeated("~"),
    "cases": nested("case when x > 1 then ", "1", " end"),
    "cases of cases": nested("case ", "x", " when 1 then 2 end"),
    "open cases": repeated("case "),
    "branches": lambda size: "case " + "when x > 1 then 2 " * (size // 18) + "end",
    "betweens": nested("case when ", "x > 1", " then x else y end between x and y"),
    "between": repeated("x between 1 and "),
    "lists of numbers": lambda size: f"x in ({', '.join(map(str, range(size // 6)))})",
    "alternatives": lambda size: " or ".join(f"x = {place}" for place in range(size // 12)),
    "sums": repeated("x + "),
    "powers": repeated("x ** "),
    "calls": nested("f(", "x", ")"),
    "lambdas": repeated("(x) -> "),
    "arrows": lambda size: "x" + "->y" * (size // 3),
    "dots": repeated("x."),
    "subqueries": nested("(select ", "1", ")"),
    "types": lambda size: "x::" + "struct(a " * (size // 10) + "int" + ")" * (size // 10),
    "long names": lambda size: "x" * size,
    "quoted names": lambda size: '"' + "x" * size + '"',
    "quotes": lambda size: "'" * size,
    "texts": repeated("'a' "),
    "comments": lambda size: "x " + "/* a */" * (size // 7),
    "nested comments": lambda size: "x " + "/*" * (size // 4) + "*/" * (size // 4),
    "letters": lambda size: "é" * size,
    "signs": lambda size: "😀" * (size // 2),
    "spaces": lambda size: "x" + " " * size + "x",
    "parameters": repeated("? "),
    "semicolons": repeated("x;"),
    "digits": lambda size: "1" * size,
}
SIZE = 9_000


def seconds(text, read_text=Expression.read):
    """CPU time of this thread for reading a text, whether it is allowed or not; other work does not count."""
    best = float("inf")
    for _ in range(2):
        started = time.thread_time()
        with contextlib.suppress(QueryRejected, sqlglot.ParseError, RecursionError):
            read_text(text)
        best = min(best, time.thread_time() - started)
    return best


# Families that are refused or read in one pass take up to six times as long, by the noise of a busy machine.
# A text that reaches a parser that goes back takes more than a hundred times as long.
MUCH_LONGER = 25


@pytest.fixture(scope="module")
def honest_seconds():
    """What an honest text of the same length takes: a list of alternatives."""
    Expression.read("x > 1 or y = 2")
    return seconds(" or ".join(f"y{place} = {place}" for place in range(SIZE // 14)))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_of_texts_takes_much_longer_than_an_honest_text(family, honest_seconds):
    assert seconds(FAMILIES[family](SIZE)) <= MUCH_LONGER * honest_seconds


def test_the_parser_alone_would_take_much_longer(honest_seconds):
    """The twin: the parser by itself."""

    def parse(text):
        return sqlglot.parse_one(text, dialect="duckdb", into=sqlglot.exp.Condition)

    assert seconds(FAMILIES["brackets"](SIZE // 6), parse) > MUCH_LONGER * honest_seconds


def test_a_question_with_much_space_is_read_at_once(honest_seconds):
    started = time.thread_time()
    with pytest.raises(QueryRejected):
        read("share(x)" + " " * SIZE + "x")
    assert time.thread_time() - started <= honest_seconds


def test_limits_are_where_they_are_said_to_be():
    Expression.read("- " * 80 + "x")
    Expression.read("not " * 80 + "b")
    Expression.read("x" * 20_000)
    Expression.read("s = '" + "[" * 100 + "'")  # What is in quotes is a text.
    for text, limit in (
        # What is small enough is given to the parser, and that one cannot read these.
        ("x x " + "(" * 80 + ")" * 80, "Cannot read the expression"),
        ("x x " + "case " * 80, "Cannot read the expression"),
        ("x x " + "," * 9_998, "Cannot read the expression"),
        ("x x " + "(" * 81 + ")" * 81, "more than 80 deep"),
        ("x x " + "case " * 81, "more than 80 deep"),
        ("not " * 81 + "b", "more than 80 deep"),
        ("- " * 81 + "x", "more than 80 deep"),
        ("x x " + "," * 9_999, "at most 10,000 are read"),
        ("x" * 20_001, "at most 20,000 are read"),
        ("x" + "[1]" * 5, "not allowed in an expression"),
    ):
        with pytest.raises(QueryRejected, match=limit):
            Expression.read(text)


def test_a_tree_that_doubles_is_refused():
    text = FAMILIES["betweens"](1_000)
    with pytest.raises(QueryRejected, match="parts once every between"):
        Expression.read(text)
