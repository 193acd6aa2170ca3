"""Compiled expressions on PostgreSQL against the oracle: equal to the last bit, null for null, and nothing
ever raised."""

from __future__ import annotations

import random
from typing import Any

import pytest
import queries_oracle as oracle

from holdfast import queries
from holdfast.engines import Rows, open_rows

COLUMNS = "x float8, y float8, z float8, i int8, k int2, b boolean, s text, t text"


def opened(connection: Any, name: str, rows: list[oracle.Row]) -> Rows:
    names = [column.split()[0] for column in COLUMNS.split(", ")]
    connection.con.execute(f"CREATE TABLE {name} ({COLUMNS})")
    with connection.con.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[column] for column in names])
    return open_rows(connection.table(name))


def drawn(seed: int) -> tuple[queries.Query, oracle.Meaning]:
    writer = oracle.Writer(seed)
    deep = writer.source.choice([1, 2, 3, 4])
    if writer.source.random() < 0.5:
        text, meaning = writer.number(deep)
        return queries.mean(text, bounds=(0, 1), nulls=0), meaning
    text, meaning = writer.condition(deep)
    return queries.share(text, nulls=False), meaning


def compare(rows: Rows, table: list[oracle.Row], seed: int, count: int) -> int:
    """How many of the expressions can be asked, all of which have the oracle's values."""
    asked = 0
    for number in range(count):
        query, meaning = drawn(seed * 1_000_003 + number)
        if "%" in query.text:
            continue  # PostgreSQL has a remainder of whole numbers only.
        asked += 1
        values = query.check(rows.schema).values(rows._table(rows.columns), rows.schema)
        found = [value for (value,) in rows._database.run(rows._database.compile(values))]
        wanted = [meaning(row) for row in table]
        assert [(type(v), v) for v in found] == [(type(v), v) for v in wanted], query.text
    return asked


def test_expressions_on_postgres_agree_with_the_oracle(postgres_connection, seed: int) -> None:
    table = oracle.rows(random.Random(seed), 300)
    assert compare(opened(postgres_connection, f"oracle_{seed}", table), table, seed, 120) > 90


@pytest.mark.slow
def test_many_expressions_on_postgres_agree_with_the_oracle(postgres_connection, seed: int) -> None:
    table = oracle.rows(random.Random(1000 + seed), 300)
    assert compare(opened(postgres_connection, f"many_{seed}", table), table, 1000 + seed, 2000) > 1500
