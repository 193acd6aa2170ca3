"""Tables of the caller's own are read by connections to one DuckDB, and none of them sees another's."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import weakref

import duckdb
import pyarrow as pa
import pytest

from holdfast import queries
from holdfast.engines import _database, open_rows
from holdfast.engines._database import DuckDB


def total(rows) -> int:
    return rows.sums(queries.mean("x", bounds=(0, 1)).check(rows.schema)).total


def test_tables_that_are_open_together_are_told_apart():
    first, second = open_rows({"x": [0.0, 0.25]}), open_rows({"x": [0.5, 1.0, 1.0], "name": ["a", "b", "c"]})
    assert (first.columns, first.count) == (("x",), 2)
    assert (second.columns, second.count) == (("x", "name"), 3)
    assert total(second) == 10 * total(first) > 0
    assert first.frame().x.tolist() == [0.0, 0.25]


def test_no_connection_reads_what_was_lent_to_another():
    owner, other = DuckDB.shared(), DuckDB.shared()
    owner.lend("secret", pa.table({"x": [1]}))
    owner.define("also secret", 'SELECT * FROM "secret"')
    assert owner.run('SELECT x FROM "also secret"') == [(1,)]
    for name in ('"secret"', '"also secret"', 'temp.main."secret"', 'memory.main."also secret"'):
        with pytest.raises(duckdb.CatalogException):
            other.run(f"SELECT * FROM {name}")
    assert other.run("SELECT count(*) FROM duckdb_views() WHERE NOT internal") == [(0,)]


def test_no_file_can_be_reached(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("x\n1\n")
    database = DuckDB.shared()
    with pytest.raises(duckdb.PermissionException):
        database.run(f"SELECT * FROM read_csv('{path}')")
    with pytest.raises(duckdb.Error, match="external access"):
        database.run("SET enable_external_access = true")


def test_a_database_that_broke_is_replaced(monkeypatch):
    monkeypatch.setattr(_database, "_SHARED", {})
    open_rows({"x": [0.5]})
    (broken,) = _database._SHARED.values()
    broken.close()
    assert total(open_rows({"x": [0.5, 1.0]})) > 0
    assert list(_database._SHARED.values()) != [broken]


def test_a_table_that_is_not_needed_any_more_is_let_go():
    table = pa.table({"x": [0.5, 1.0]})
    gone = weakref.ref(table)
    rows = open_rows(table)
    del table, rows
    gc.collect()
    assert gone() is None


def test_threads_open_tables_at_once():
    totals: dict[int, int] = {}

    def read(place: int) -> None:
        totals[place] = total(open_rows({"x": [place / 16] * 3}))

    threads = [threading.Thread(target=read, args=(place,)) for place in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == {place: place * totals[1] for place in range(1, 9)}


def _put_total(queue) -> None:
    queue.put(total(open_rows({"x": [0.25, 0.5]})))


def test_a_forked_process_has_a_database_of_its_own():
    expected = total(open_rows({"x": [0.25, 0.5]}))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=_put_total, args=(queue,))
    process.start()
    process.join(60)
    try:
        assert process.exitcode == 0
        assert queue.get() == expected
    finally:
        process.kill()
