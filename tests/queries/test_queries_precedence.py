"""Signs bind as they do in DuckDB: random expressions without parentheses mean the same to both."""

from __future__ import annotations

import random

import duckdb
import pytest
from sqlglot import exp

from holdfast.queries import _reader

SIGNS = ["+", "-", "*", "/", "%", "**", "=", "<>", "<", "<=", ">", ">=", "like", "and", "or", "and", "or"]
VALUES = ["a", "b", "1", "2", "3", "p", "q", "true", "false", "s", "'a'"]
WRAPPED = (exp.Binary, exp.Neg, exp.Not, exp.Between, exp.In, exp.Is, exp.Cast)


@pytest.fixture(scope="module")
def rows():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT a, b, p, q, s "
        "FROM (VALUES (1), (2), (-3), (NULL)) x(a), (VALUES (2), (5), (0)) y(b), "
        "(VALUES (true), (false), (NULL)) z(p), (VALUES (true), (false)) w(q), (VALUES ('a'), ('ab')) v(s)"
    )
    return connection


def text_of(rng):
    """A few values with signs between them, and no parentheses."""
    words = []
    for place in range(rng.randint(1, 4)):
        words += [rng.choice(SIGNS)] if place else []
        words += [rng.choice(["not", "-", "not"])] if rng.random() < 0.2 else []
        words.append(rng.choice(VALUES))
        kind = rng.random()
        first, second = rng.choice(VALUES), rng.choice(VALUES)
        if kind < 0.12:
            words.append(rng.choice(["is null", "is not null"]))
        elif kind < 0.24:
            words.append(f"{rng.choice(['', 'not '])}between {first} and {second}")
        elif kind < 0.30:
            words.append(f"{rng.choice(['', 'not '])}in ({first}, {second})")
    return " ".join(words)


def in_parentheses(tree):
    """What was read, with parentheses around every part."""
    tree = tree.copy()
    for node in reversed(list(tree.walk(bfs=False))):
        if node is not tree and isinstance(node, WRAPPED) and not isinstance(node.parent, exp.Paren):
            node.replace(exp.Paren(this=node.copy()))
    return tree.sql(dialect="duckdb")


def differing(rows, read, seed, count):
    """Texts that mean something else once they were read, of those that DuckDB can compute."""
    rng, computed, found = random.Random(seed), 0, []
    for _ in range(count):
        text = text_of(rng)
        try:
            wanted = rows.execute(f"SELECT {text} FROM t").fetchall()
        except duckdb.Error:
            continue
        computed += 1
        try:
            same = str(rows.execute(f"SELECT {in_parentheses(read(text))} FROM t").fetchall()) == str(wanted)
        except duckdb.Error:
            same = False
        if not same:
            found.append(text)
    assert computed > count / 5
    return found


def test_expressions_mean_what_they_mean_to_duckdb(rows, seed):
    assert differing(rows, _reader.read_tree, seed, 1_500) == []


def test_a_reader_that_binds_otherwise_is_noticed(rows, seed):
    def otherwise(text):
        return _reader.read_tree(text.replace(" * ", " + "))

    assert differing(rows, otherwise, seed, 1_500)
