"""The whitelist: what is on it reads, and everything else is refused with what to write instead."""

from __future__ import annotations

import random
from typing import Any

import ibis
import pytest
import queries_oracle as oracle
from hypothesis import given
from hypothesis import strategies as st
from ibis import _

from holdfast.engines import Column, Schema
from holdfast.errors import HoldfastError, QueryRejected
from holdfast.queries import Expression, read

SAME = [
    ["x>1 AND y<2", "y < 2 and x > 1", "1 < x and y<2", "((x > 1)) And (2 > y)", "x > 1.0 and not y >= 2"],
    ["x between 1 and 3", "x >= 1 and x <= 3", "1 <= x and 3 >= x", "not (x < 1 or x > 3)"],
    ["not (x > 1)", "x <= 1", "1 >= x", "NOT x > 1e0", "not not x <= 1"],
    ["x <> 1", "x != 1", "not x = 1", "x not in (1)", "x not in (1, 1.0)"],
    ["x in (1, 2)", "x = 2 or x = 1", "x in (2, 1, 1)", "not (x <> 1 and x <> 2)", "not x not in (1, 2)"],
    ["x + y", "y + x", "(x) + (y)", "x - (-y)", "x - -y"],
    ["x * y > 1", "1 < y * x"],
    ["x + 1000", "1e3 + x", "x + 1000.0", "1000 - (-x)", "x - (-1000)", "x + 10 * 100"],
    ["x - 1", "-1 + x", "x + (-1)"],
    ["x + y + z", "(y + x) + z", "z + (x + y)"],
    ["b", "b = true", "true = b", "b <> false", "not (b = false)", "not not b"],
    ["not b", "b = false", "b <> true", "not (b = true)"],
    ["x is not null", "not x is null", "not (x is null)"],
    ["b and x > 1", "b and x > 1 and b", "b and (x > 1 and true)", "(x > 1 and b) or false"],
    ["power(x, 2)", "pow(x, 2)", "x ** 2", "x ^ 2"],
    ["coalesce(x, 0)", "ifnull(x, 0)"],
    ["cast(x as double)", "x::double", "CAST(x AS DOUBLE PRECISION)", "try_cast(x as float)"],
    ["case when x = 1 then 2 else 3 end", "case x when 1 then 2 else 3 end"],
    ["case when x = 1 then 2 end", "case when x = 1 then 2 else null end"],
    ["least(x, y, 1)", "least(1, y, x)", "least(least(y, 1), x)"],
    ["round(x, 2)", "round(x * 100) / 100", "round(100 * x) / 1e2"],
    ["length(s)", "len(s)", "char_length(s)"],
    ['"my col" > 1', '1 < "my col"'],
    ["b is true", "coalesce(b, false)"],
]
DIFFERENT = [
    ("x + (y + z)", "(x + y) + z"),
    ("x * (y * z)", "(x * y) * z"),
    ("x - y", "y - x"),
    ("x / y", "y / x"),
    ("x < y", "y < x"),
    ("x < 1", "x <= 1"),
    ("not b", "b is not true"),
    ("x > 1 or y > 1 and b", "(x > 1 or y > 1) and b"),
    ("x = 1", "x = '1'"),
    ("b = true", "x = 1"),
    ("coalesce(x, y)", "coalesce(y, x)"),
    ("s = 'a'", "s = 'A'"),
    ("X > 1", "x > 1"),
    ("case when b then 1 else 2 end", "case when not b then 2 else 1 end"),
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_one_question_has_one_form(spellings: list[str]) -> None:
    assert len({Expression.read(text) for text in spellings}) == 1
    assert len({Expression.read(text).text for text in spellings}) == 1


def text_of(node: Any) -> str:
    return Expression(node).text


def respelled(node: Any, source: random.Random) -> str:
    """The same tree as somebody else would write it, turned around where that changes nothing."""
    if not hasattr(node, "op"):  # A column or a constant.
        return text_of(node) if source.random() < 0.7 else f"( {text_of(node)})"
    op, args = node.op, [respelled(arg, source) for arg in node.args]
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "!=", "+": "+", "*": "*"}
    if op in turned and len(args) == 2:
        left, right = args
        if source.random() < 0.5:
            return f"({right} {turned[op]} {left})"
        return f"({left} {op} {right})"
    if op in ("and", "or"):
        source.shuffle(args)
        return "(" + f" {op.upper()} ".join([*args, source.choice(args)]) + ")"
    if op in ("least", "greatest"):
        source.shuffle(args)
        return f"{op.upper()}({', '.join(args)})"
    if op in ("is null", "is not null"):
        negated = f"NOT ({args[0]} is {'not ' if op == 'is null' else ''}null)"
        return f"({source.choice([f'{args[0]} {op}', negated])})"
    if op in ("in", "not in"):
        joined = f" {'or' if op == 'in' else 'and'} ".join(
            f"{args[0]} {'=' if op == 'in' else '<>'} {value}" for value in args[1:]
        )
        return f"({source.choice([joined, f'{args[0]} {op} ({chr(44).join(args[1:])})'])})"
    if op in ("-", "/", "%"):
        return f"({args[0]} {op} {args[1]})"
    if op == "not":
        return f"(not {args[0]})"
    if op == "negate":
        return f"(-({args[0]}))"
    return f"({text_of(node)})"


def test_the_same_question_in_other_words_is_the_same_question(seed: int) -> None:
    for number in range(500):
        writer = oracle.Writer(seed * 11_000_027 + number)
        read_one = Expression.read(writer.condition(writer.source.choice([2, 3, 4]))[0])
        other = respelled(read_one.node, writer.source)
        assert Expression.read(other) == read_one, other


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_questions_stay_apart(one: str, other: str) -> None:
    assert Expression.read(one) != Expression.read(other)
    assert Expression.read(one).text != Expression.read(other).text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(select max(x) from t)", "one row"),
        ("x > (select 1)", "one row"),
        ("x in (select 1)", "not allowed"),
        ("exists (select 1)", "one row"),
        ("sum(x)", "mean"),
        ("avg(x) > 1", "mean"),
        ("count(*)", "share"),
        ("median(x)", "quantile"),
        ("sum(x) over ()", "one row"),
        ("row_number() over ()", "one row"),
        ("random() < 0.5", "asked again"),
        ("uuid()", "allowed are"),
        ("now()", "allowed are"),
        ("current_date", "asked again"),
        ("sleep(1)", "allowed are"),
        ("read_text('/etc/passwd')", "allowed are"),
        ("getenv('HOME')", "allowed are"),
        ("x > ?", "the value itself"),
        ("x > $1", "the value itself"),
        ("*", "name a column"),
        ("t.x > 1", "write x"),
        ("other.t.x", "write x"),
        ("x; y", "one expression"),
        ("x as y", "Cannot read"),
        ("x > 1 and", "Cannot read"),
        ("mean(x", "Cannot read"),
        ("drop table rows", "Cannot read"),
        ("select 1", "Cannot read"),
        ("x = null", "is null"),
        ("x in (1, null)", "is null"),
        ("x in (y, 1)", "list of numbers"),
        ("s ilike 'a%'", "lower(x) like 'a%'"),
        ("ceil(x)", "-floor(-x)"),
        ("x // 2", "floor(x / y)"),
        ("log(x)", "ln(x)"),
        ("if(x > 1, 2, 3)", "case when"),
        ("isnan(x)", "x is null"),
        ("abs(distinct x)", "not allowed"),
        ("x between symmetric 1 and 2", "symmetric"),
        ("floor(x, 2)", "decimals"),
        ("round(x, y)", "whole number"),
        ("round(x, 99)", "whole number"),
        ("cast(x as date)", "t >= '2024-01-01' and t < '2024-01-02'"),
        ("cast(x as blob)", "double, text or boolean"),
        ("cast(x as integer[])", "double, text or boolean"),
        ("x[1]", "not allowed"),
        ("1e999", "too large"),
        ("x = 9007199254740993", "more digits"),
        ("x + 9007199254740993 > y", "read as 9007199254740992"),
        ("x in (1, -9007199254740993)", "column of text"),
        ("x > 5e", "'5e' is not a number"),
        ("", "empty"),
        ("   ", "empty"),
        ("x +" * 9000 + " x", "at most 20,000"),
        ("+".join(["x"] * 200), "deep"),
        ("(" * 2000 + "x" + ")" * 2000, "deep"),
    ],
)
def test_what_is_not_listed_is_refused_with_advice(text: str, says: str) -> None:
    with pytest.raises(QueryRejected) as caught:
        Expression.read(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text", ["x > 9007199254740992", "x > 100000000000000000000", "x > 9007199254740993.5"]
)
def test_numbers_that_floats_hold_or_that_are_not_written_as_whole_are_read(text: str) -> None:
    assert Expression.read(text).text


def test_the_message_for_a_long_sum_suggests_groups_and_groups_are_read() -> None:
    terms = [f"c{place}" for place in range(400)]
    with pytest.raises(QueryRejected, match=r"in groups, \(a \+ b"):
        Expression.read("+".join(terms))
    groups = ("+".join(terms[start : start + 20]) for start in range(0, 400, 20))
    assert len(Expression.read(" + ".join(f"({group})" for group in groups)).columns) == 400


@pytest.mark.parametrize("source", [3, None, ["x"], b"x > 1", object()])
def test_only_text_and_ibis_are_expressions(source: object) -> None:
    with pytest.raises(QueryRejected, match="SQL text or an ibis expression"):
        Expression.read(source)


PIECES = [
    *(
        "x",
        "y",
        "1",
        "1e3",
        "'a'",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "%",
        "and",
        "or",
        "not",
        "case",
        "when",
        "then",
    ),
    *(
        "else",
        "end",
        "in",
        "between",
        "is",
        "null",
        "true",
        ",",
        "<",
        ">=",
        "=",
        "abs(",
        "round(",
        "cast(",
        "as",
    ),
    *(
        "double",
        "select",
        "from",
        "over",
        "::",
        "[",
        "]",
        "{",
        "}",
        '"q"',
        "?",
        "$1",
        ":a",
        "--",
        "/*",
        "*/",
        ";",
    ),
    *(
        "\\",
        "`",
        "é",
        "||",
        "->",
        "=>",
        "interval",
        "date",
        "extract(",
        "if(",
        "exists",
        "any(",
        "distinct",
        "~",
    ),
    *(
        "filter",
        "ignore",
        "nulls",
        "collate",
        "like",
        "^",
        "**",
        "!",
        "@",
        "0x1",
        "1e999",
        "least(",
        "coalesce(",
    ),
    *("count(*)", "x.y", "try_cast(", "unnest(", "row(", "window", "union", "order", "by", "limit", "isnull"),
    *(
        "notnull",
        "similar",
        "to",
        "symmetric",
        "unknown",
        "div",
        "mod",
        "xor",
        "rlike",
        "escape",
        "'",
        '"',
        "$$",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.booleans())
def test_no_text_raises_anything_else(pieces: list[str], spaced: bool) -> None:
    check_text((" " if spaced else "").join(pieces))


@given(st.text(max_size=40))
def test_no_characters_raise_anything_else(text: str) -> None:
    check_text(text)


def check_text(text: str) -> None:
    for reader in (Expression.read, read, lambda inside: read(f"share({inside})")):
        try:
            found = reader(text)
        except HoldfastError:
            continue
        assert (Expression.read if isinstance(found, Expression) else read)(str(found)) == found


@pytest.mark.slow
def test_many_texts_raise_nothing_else(seed: int) -> None:
    source = random.Random(seed)
    for _number in range(20_000):
        check_text(source.choice([" ", ""]).join(source.choices(PIECES, k=source.randrange(1, 12))))


SCHEMA = Schema(
    {
        "x": Column("number", "float64"),
        "k": Column("number", "int64"),
        "s": Column("text", "string"),
        "b": Column("boolean", "boolean"),
        "my col": Column("number"),
        "select": Column("number"),
    }
)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (_.x * 2, "x * 2"),
        (_.x + _.k, "k + x"),
        ((_.x > 1) & ~_.b, "not b and x > 1"),
        (_["my col"] / 2, '"my col" / 2'),
        (_["select"] - 1, '"select" - 1'),
        (_.x.between(1, 3), "x <= 3 and x >= 1"),
        (_.s.upper().isin(["A", "B"]), "upper(s) in ('A', 'B')"),
        (_.s.length(), "length(s)"),
        (_.x.fill_null(0), "coalesce(x, 0)"),
        (_.x.isnull(), "x is null"),
        (_.b.ifelse(_.x, 0), "case when b then x else 0 end"),
        (_.x.ln() + _.x.exp() - _.x.sqrt() * _.x.abs() ** 2, "exp(x) + ln(x) - power(abs(x), 2) * sqrt(x)"),
        (_.k.cast("float64"), "cast(k as double)"),
        ((_.x > 1).cast("int64"), "cast(x > 1 as bigint)"),
    ],
)
def test_ibis_expressions_read_as_text_does(expression: object, text: str) -> None:
    assert Expression.read(expression, schema=SCHEMA).text == text
    assert Expression.read(text).text == text


def test_a_bound_ibis_expression_needs_no_schema() -> None:
    table = ibis.table({"x": "float64"}, name="anything")
    assert Expression.read(table.x > 1) == Expression.read("x > 1")


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table.x.mean(),
        lambda table: table.x.sum().over(),
        lambda table: table.filter(table.x > 1).x,
        lambda table: table,
        lambda table: table.x.log2(),
        lambda table: ibis.random() * table.x,
        lambda table: table.x.cumsum(),
        lambda table: table.x.isin(ibis.table({"y": "float64"}, name="other").y),
    ],
)
def test_ibis_expressions_are_held_to_the_same_list(make) -> None:
    with pytest.raises(QueryRejected):
        Expression.read(make(ibis.table({"x": "float64"}, name="rows")))


def test_a_deferred_expression_needs_a_schema_that_has_its_columns() -> None:
    with pytest.raises(QueryRejected, match="schema="):
        Expression.read(_.x * 2)
    with pytest.raises(QueryRejected, match="nope"):
        Expression.read(_.nope * 2, schema=SCHEMA)
    with pytest.raises(QueryRejected):
        Expression.read(_.s * 2.5, schema=SCHEMA)


def test_columns_are_named() -> None:
    assert Expression.read('x + "my col" > abs(x)').columns == {"x", "my col"}
