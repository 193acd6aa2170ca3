"""Rows that stay where they are against the engine contract: DuckDB's own files, PostgreSQL, Spark."""

from __future__ import annotations

import itertools
from pathlib import Path

import ibis
import pytest
from sqlglot import exp

from contracts.engine import EngineContract, arrow
from holdfast.engines import open_rows
from holdfast.engines._capabilities import probe
from holdfast.engines._dialect import Portable
from holdfast.engines._in_place import BorrowedDuckDB
from holdfast.errors import QueryRejected

NAMES = (f"trips_{number}" for number in itertools.count())


def put(connection, columns):
    name, source = next(NAMES), arrow(columns)
    connection.con.register("source", source)
    connection.con.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
    connection.con.unregister("source")
    return connection.table(name)


class TestDuckDBInMemory(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def make_rows(cls):
        connection = ibis.duckdb.connect()
        yield lambda columns: open_rows(put(connection, columns))
        connection.disconnect()


class TestDuckDBFile(EngineContract):
    @pytest.fixture
    def make_rows(self, tmp_path: Path):
        def make(columns):
            connection = ibis.duckdb.connect(tmp_path / "town.db")
            name = put(connection, columns).get_name()
            connection.disconnect()
            return open_rows(f"duckdb://{tmp_path / 'town.db'}#{name}")

        return make


class TestADatabaseThatIsNotKnown(EngineContract):
    """DuckDB spoken to in the dialect for those that nothing is known of."""

    @pytest.fixture(scope="class")
    @classmethod
    def make_rows(cls):
        connection = ibis.duckdb.connect()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BorrowedDuckDB, "kind", Portable)
            yield lambda columns: open_rows(put(connection, columns))
        connection.disconnect()


class TestPostgres(EngineContract):
    lacking = frozenset({"% of fractions"})
    questions = 120

    @pytest.fixture
    def make_rows(self, to_postgres):
        return lambda columns: open_rows(to_postgres(arrow(columns)))


class TestSpark(EngineContract):
    """Java's logarithms and exponentials differ from C's in the last digit now and then."""

    lacking = frozenset({"exp", "ln", "power"})
    questions = 25

    @pytest.fixture
    def make_rows(self, to_spark):
        return lambda columns: open_rows(to_spark(arrow(columns)))


def test_a_database_without_floats_as_they_are_is_refused(tmp_path: Path):
    connection = ibis.sqlite.connect(tmp_path / "rows.db")
    connection.con.execute("CREATE TABLE trips AS SELECT 1.5 AS x")
    with pytest.raises(QueryRejected, match="sqlite does not compute"):
        open_rows(connection.table("trips"))
    connection.disconnect()


def test_a_database_that_cuts_digits_off_is_refused_unless_it_is_spoken_to_with_care(monkeypatch):
    class Cutting(BorrowedDuckDB):
        """Whole numbers are cut off behind the point, as in many databases."""

        def tree(self, expression):
            return super().tree(expression).transform(cut)

    def cut(node):
        if isinstance(node, exp.Cast) and node.to.is_type("bigint"):
            node.set("this", exp.Anonymous(this="trunc", expressions=[node.this]))
        return node

    connection = ibis.duckdb.connect()
    with pytest.raises(QueryRejected, match="does not compute"):
        probe(Cutting(connection))
    monkeypatch.setattr(Cutting, "kind", Portable)
    assert probe(Cutting(connection)) == frozenset()
    connection.disconnect()
