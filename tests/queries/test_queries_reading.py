"""Texts that differ in numbers are parsed once, and read as if each had been parsed by itself."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import QueryRejected
from holdfast.queries import Expression, _expression
from holdfast.queries._nodes import Call, Literal, canonical, number
from holdfast.queries._reader import MOST_CHARACTERS, read_node, read_tree

NUMBERS = st.one_of(
    st.integers(0, 10**20).map(str),
    st.floats(0, allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [
            "0",
            "00",
            "007",
            "1e5",
            "1E-5",
            "1e400",
            "5e-324",
            "1.",
            ".5",
            "1.5.2",
            "1_000",
            "0x1F",
            "5e",
            "1e+",
        ]
    ),
    st.sampled_from(
        ["-3", "- 3", "--3", "+3", "(3)", "3::int", "3 day", "3d", "'3'", '"3"', "7000001", "1.25e-9"]
    ),
)
FORMS = st.sampled_from(
    [
        "x > {0}",
        "x>{0} and y<={1}",
        "{0} < x or x = {1}",
        "s = 'it''s > {0}' and x <> {1}",
        "s = 'unfinished > {0} and x > {1}",
        '"a > {0}" > {1} and "> 3" = 2',
        "x between {0} and {1} and x >= {0}",
        "x in ({0}, {1}) or y = {1}",
        "round(x, {0}) > {1}",
        "power(x, {0}) >= {1} and x is not null",
        "cast(x as decimal({0}, 2)) = {1}",
        "case when x = {0} then {1} when x > {1} then {0} else y end > {0}",
        "case x when {0} then y > {1} end",
        "not (x >= {0}) or x != {1}",
        "(x > {0}) = (y > {1})",
        "x > {0} between y and z",
        "x + {0} > {1} * 2",
        "least(x > {0}, y) = {1}",
        "x > {0} -- and y > {1}",
        "x /* > {0} */ > {1}",
        "x -> {0} = {1}",
        "x << {0} > {1}",
        "f(x => {0}) > {1}",
        "x[{0}] > {1}",
        "e'\\' > {0}' = s and x > {1}",
        "$$ > {0} $$ = s and x > {1}",
        "x > {0} x > {1}",
        "x is distinct from {0} and x > {1}",
        "interval {0} day > {1}",
        "{0} = {1}",
        "x > {0} collate nocase and y > {1}",
        "coalesce(x, {0}) == {1}",
    ]
)
PIECES = st.lists(
    st.sampled_from(
        ["x", "y", " ", " and ", " or ", "not ", ">", "<", "=", "<=", "(", ")", ",", "'", '"', "-", "."]
    )
    | NUMBERS,
    max_size=14,
).map("".join)


def parsed(text):
    try:
        return read_node(read_tree(text))
    except QueryRejected as refused:
        return str(refused)


def read(text):
    try:
        return _expression.read_text(text)
    except QueryRejected as refused:
        return str(refused)


@given(form=FORMS, numbers=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=3))
@example(form="x > {0} and y <= {1}", numbers=[("1", "2"), ("1.5", "1e400")])
def test_a_text_is_read_as_if_it_had_been_parsed(form, numbers):
    for pair in numbers:  # The later ones find the pattern of the first.
        text = form.format(*pair)
        assert repr(read(text)) == repr(parsed(text))


@given(text=PIECES)
def test_random_pieces_of_text_are_read_as_if_they_had_been_parsed(text):
    assert repr(read(text)) == repr(parsed(text))


def test_a_text_that_is_too_long_is_refused_however_short_its_numbers_could_be():
    text = f"x > 0.{'0' * MOST_CHARACTERS}1"
    assert "characters" in read(text) == parsed(text)


def test_a_number_of_the_text_is_not_mistaken_for_a_placeholder():
    for text in ("x in (7000001, 3) or y > 5", "x in (0.00000000125) or y > 5", "x + 7000001 > 7000001"):
        assert repr(read(text)) == repr(parsed(text))


def test_texts_that_differ_in_numbers_are_parsed_once(monkeypatch):
    _expression._pattern.cache_clear()
    seen, original = [], read_tree
    monkeypatch.setattr(_expression, "read_tree", lambda text: (seen.append(text), original(text))[1])
    for limit in range(50):
        text = f"age > {limit} and (income <= {limit * 1.5e3!r} or sex = 'F')"
        assert Expression.read(text).node == canonical(parsed(text))
    assert len(seen) == 2


def test_texts_of_names_decimals_and_signs_need_no_tokenizer(monkeypatch):
    used, original = [], _expression._tokenizer
    monkeypatch.setattr(_expression, "_tokenizer", lambda: (used.append(1), original())[1])
    for text in ("age > 37", "age >= 1.5e3 and (x<-2 or y <> 7)", "power(x, 2) < 3"):
        assert Expression.read(text).node == canonical(parsed(text))
    assert not used
    for text in ("s = 'a > 3' and x > 4", "x > 3 -- y > 4", "x /* y > 3 */ > 4", '"a > 3" > 4'):
        assert Expression.read(text).node == canonical(parsed(text))
    assert len(used) == 4


def test_the_comparison_notices_a_place_that_is_filled_wrongly(monkeypatch):
    filled = _expression._filled
    monkeypatch.setattr(_expression, "_filled", lambda node, numbers: filled(node, numbers[::-1]))
    assert read("x > 1 and y > 2") != parsed("x > 1 and y > 2")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (number(7_000_001), number(3)),  # a number that depends on another
        (Call("=", (number(1),)), Call("<", (number(1),))),
        (Call("and", (number(1),)), Call("and", (number(1), number(2)))),
        (Literal("text", "7000001"), Literal("text", "1.25e-9")),
        (Literal("boolean", True), number(1)),
    ],
)
def test_trees_that_differ_in_more_are_no_pattern(first, second):
    with pytest.raises(_expression._Differs):
        _expression._with_places(first, second, {(7_000_001.0, 1.25e-9): 0})
