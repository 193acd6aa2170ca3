"""Texts are measured before they are parsed, and reading one takes a time in proportion to its tokens."""

from __future__ import annotations

import contextlib
import time

import pytest

from holdfast.errors import QueryRejected
from holdfast.queries import Expression, _reader, read
from holdfast.queries._reader import MOST_CHARACTERS, MOST_DEEP, MOST_TOKENS, measure


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


def seconds(text):
    """CPU time of this thread for reading a text, whether it is allowed or not; other work does not count."""
    best = float("inf")
    for _ in range(2):
        started = time.thread_time()
        with contextlib.suppress(QueryRejected):
            Expression.read(text)
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


def test_without_the_measure_a_family_would(honest_seconds, monkeypatch):
    monkeypatch.setattr(_reader, "measure", lambda text: None)
    assert seconds(FAMILIES["brackets"](SIZE // 6)) > MUCH_LONGER * honest_seconds


def test_a_question_with_much_space_is_read_at_once(honest_seconds):
    started = time.thread_time()
    with pytest.raises(QueryRejected):
        read("share(x)" + " " * SIZE + "x")
    assert time.thread_time() - started <= honest_seconds


def test_limits_are_where_they_are_said_to_be():
    measure("(" * MOST_DEEP + "x" + ")" * MOST_DEEP)
    measure(" ".join("x" * MOST_TOKENS))
    measure("x" * MOST_CHARACTERS)
    measure("'" + "[" * 100 + "'")  # What is in quotes is a text.
    for text in (
        "(" * (MOST_DEEP + 1) + "x" + ")" * (MOST_DEEP + 1),
        "case " * (MOST_DEEP + 1),
        "not " * (MOST_DEEP + 1),
        "- " * (MOST_DEEP + 1),
        " ".join("x" * (MOST_TOKENS + 1)),
        "x" * (MOST_CHARACTERS + 1),
        "x" + "[1]" * 5,
    ):
        with pytest.raises(QueryRejected):
            measure(text)


def test_a_tree_that_doubles_is_refused():
    text = FAMILIES["betweens"](1_000)
    with pytest.raises(QueryRejected, match="parts once every between"):
        Expression.read(text)
