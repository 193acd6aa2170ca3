"""Rows that stay where they are: nothing is copied, parts are found again, changes are noticed."""

from __future__ import annotations

import json
import math
import os
from contextlib import nullcontext
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import Guard, queries
from holdfast.dependence import MDependent
from holdfast.engines import _in_place, _rows, open_rows, unsealed
from holdfast.engines._in_place import TableWatch
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.ledger import Book


@pytest.fixture
def large(monkeypatch):
    """Every file counts as large."""
    monkeypatch.setattr(_rows, "_MOST_COPIED", 10)


@pytest.fixture
def table(rng):
    return pa.table(
        {
            "id": np.arange(6_000),
            "name": [f"n{i * 7 % 6_000}" for i in range(6_000)],
            "x": rng.normal(size=6_000),
            "k": rng.integers(0, 9, 6_000),
        }
    )


@pytest.fixture
def files(table, tmp_path: Path):
    for part in range(3):
        pq.write_table(table.slice(part * 2_000, 2_000), tmp_path / f"{part}.parquet", row_group_size=700)
    return str(tmp_path / "*.parquet")


def ids(rows):
    with unsealed():
        return set(rows.frame(["id"])["id"].tolist())


def copies(monkeypatch):
    """How many rows are copied by each call that copies any."""
    made: list[int] = []
    store = _rows.store
    monkeypatch.setattr(_rows, "store", lambda t, *rest: made.append(t.num_rows) or store(t, *rest))
    return made


def test_large_files_are_split_by_place_and_not_copied(files, large, monkeypatch):
    made = copies(monkeypatch)
    guard = Guard(files, training_share=0.5)
    seen, kept = guard._setup.training.rows, guard._setup.protected.rows
    assert made == []
    assert ids(seen) | ids(kept) == set(range(6_000))
    assert ids(seen) & ids(kept) == set()
    assert abs(seen.count - 3_000) < 300
    assert (seen.count, kept.count) == (len(ids(seen)), len(ids(kept)))
    again, other = (open_rows(files).split_in_place(0.5, seed) for seed in (0, 1))
    assert ids(again[1]) == ids(kept)
    assert ids(other[1]) != ids(kept)
    assert again[2] != other[2]
    answer = guard.share("x > 0")
    assert answer.low < 0.5 < answer.high
    assert any("place in the files" in line for line in guard.certificate.assumed)
    assert any("do not change there" in line for line in guard.certificate.assumed)


@pytest.mark.parametrize("seed_of_split", [0, 1, 7])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_files_of_many_rows_are_split_by_the_number_of_a_row(files, large, monkeypatch, seed_of_split, share):
    from holdfast.engines import _parts

    monkeypatch.setattr(_parts, "_ROWS_OF_A_FILE", 100)
    seen, kept, _ = open_rows(files).split_in_place(share, seed_of_split)
    assert ids(seen) | ids(kept) == set(range(6_000))
    assert (len(ids(seen)), len(ids(kept))) == (seen.count, kept.count)
    assert abs(seen.count - 6_000 * share) < 400
    assert {i % 2_000 for i in ids(seen)} & {i % 2_000 for i in ids(kept)} == set()


def test_only_a_pilot_of_a_large_training_part_is_copied(table, tmp_path, large, monkeypatch):
    from holdfast.guard import _setup

    pq.write_table(table, tmp_path / "rows.parquet")
    monkeypatch.setattr(_setup, "_PILOT_ROWS", 100)
    made = copies(monkeypatch)
    Guard(str(tmp_path / "rows.parquet"), train=str(tmp_path / "rows.parquet"))
    (copied,) = made  # about so many: which rows are taken follows from a hash of their places
    assert 60 <= copied <= 140


def test_in_place_and_copied_rows_give_the_same_answers(files, table, large, monkeypatch):
    train = table.slice(0, 3_000)
    there = Guard(files, train=train)
    assert there._setup.protected.rows.stays
    monkeypatch.setattr(_rows, "_MOST_COPIED", 10**9)
    here = Guard(files, train=train)
    assert not here._setup.protected.rows.stays
    for line in ("share(x > 0, where = k < 5)", "mean(x * k, -5, 5)", "quantile(x, 0.9)"):
        assert here.ask(line).to_dict()["value"] == there.ask(line).to_dict()["value"]
        assert (here.ask(line).low, here.ask(line).cost) == (there.ask(line).low, there.ask(line).cost)


def test_a_large_csv_file_is_read_once(table, tmp_path, large, monkeypatch):
    table.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    made = copies(monkeypatch)
    guard = Guard(tmp_path / "rows.csv")
    assert made == []
    (tmp_path / "rows.csv").write_text("id\n1\n", encoding="utf-8")
    assert guard.share("x > 0").low > 0.4


def test_rows_that_depend_on_each_other_are_not_split_in_place(files, large):
    with pytest.raises(QueryRejected, match="give a training part with train="):
        Guard(files, dependence=MDependent(6_000, 1))
    assert Guard(files, dependence=MDependent(6_000, 1), training_share=0).rows == 6_000


def test_a_column_named_like_the_row_number_of_a_file_is_not_mistaken_for_it(tmp_path, large):
    pq.write_table(pa.table({"file_row_number": [7] * 100, "x": [1.0] * 100}), tmp_path / "rows.parquet")
    with pytest.raises(QueryRejected, match="split_by"):
        Guard(tmp_path / "rows.parquet")


def change_file(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def grow(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, 5), path.parent / "9.parquet")


@pytest.mark.parametrize("change", [change_file, grow])
def test_files_that_change_are_noticed_before_a_charge(files, large, change):
    guard = Guard(files, training_share=0)
    guard.share("x > 0", guess=0.5)
    spent, steps = guard.spent, guard.certificate.numbers["questions"]
    change(Path(files).parent / "0.parquet")
    with pytest.raises(QueryRejected, match="changed after it was opened") as caught:
        guard.share("x > 1", guess=0.2)
    assert caught.value.spent == guard.spent == spent
    assert guard.certificate.numbers["questions"] == steps
    assert guard.share("x > 0").low > 0.4  # What was answered stays answered.


def test_files_that_changed_have_another_account(files, large, tmp_path):
    book = tmp_path / "book"
    Guard(files, training_share=0, ledger=book).close()
    Guard(files, training_share=0, ledger=book).close()
    path = Path(files).parent / "0.parquet"
    rows = pq.read_table(path).to_pandas()
    rows.loc[0, "x"] = 1e6
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), path)
    with pytest.raises(Exception, match="data differ"):
        Guard(files, training_share=0, ledger=book)


def test_a_file_that_was_copied_may_change(files):
    guard = Guard(files)
    change_file(Path(files).parent / "0.parquet")
    assert guard.share("x > 0").low > 0.4


def test_no_other_file_can_be_read(files, large):
    import duckdb

    (Path(files).parent / "secret.csv").write_text("x\n1\n", encoding="utf-8")
    rows = open_rows(files)
    with pytest.raises(duckdb.PermissionException):
        rows._database.run(f"SELECT * FROM read_csv('{Path(files).parent / 'secret.csv'}')")
    assert rows.sums(queries.share("k >= 0").check(rows.schema)).total == 6_000


def test_a_table_that_grows_is_noticed_before_a_charge(table, to_postgres, postgres_connection, monkeypatch):
    there = to_postgres(table, name="growing")
    guard = Guard(there, training_share=0)
    guard.share("x > 0", guess=0.5)
    postgres_connection.con.execute("INSERT INTO growing VALUES (1, 'a', 0.5, 1)")
    spent = guard.spent
    monkeypatch.setattr(_in_place, "_COUNT_AGAIN", -1.0)
    with pytest.raises(QueryRejected, match="had 6,000 rows and has 6,001"):
        guard.share("x > 1", guess=0.2)
    assert guard.spent == spent


def test_a_table_is_not_counted_for_every_question():
    counted = []
    watch = TableWatch(lambda: counted.append(1) or 7, 7, lambda: True)
    assert [watch.change() for _ in range(100)] == [None] * 100
    assert counted == []


def test_a_table_of_a_database_is_split_by_a_key(table, to_postgres, monkeypatch):
    there = to_postgres(table)
    with pytest.raises(QueryRejected, match="split_by="):
        Guard(there)
    made = copies(monkeypatch)
    guard = Guard(there, split_by="name")
    assert made == []
    seen, kept = guard._setup.training.rows, guard._setup.protected.rows
    assert seen.count + kept.count == 6_000
    assert 2_000 < kept.count < 4_000
    assert "name" not in guard.schema
    with pytest.raises(QueryRejected, match="no column 'name'"):
        guard.share("name = 'n1'")
    assert any("decided by the column 'name'" in line for line in guard.certificate.assumed)
    # Who has which part is the same wherever the rows live.
    assert ids(seen) & ids(kept) == set()
    here = Guard(table, split_by="name")
    assert ids(here._setup.protected.rows) == ids(kept)
    assert ids(Guard(there, split_by="name", split_seed=1)._setup.protected.rows) != ids(kept)


def test_a_key_of_whole_numbers_splits_row_by_row(table, to_postgres):
    guard = Guard(to_postgres(table), split_by="id", training_share=0.25)
    assert abs(guard.rows - 4_500) < 200
    assert guard.share("x > 0").low > 0.4


@pytest.mark.parametrize(
    ("key", "says"), [("x", "neither text nor whole"), ("nothing", "no column 'nothing'"), (3, "split_by")]
)
def test_a_key_that_cannot_be_one_is_refused(table, key, says):
    with pytest.raises((QueryRejected, InvalidArgument), match=says):
        Guard(table, split_by=key)


def test_a_key_without_a_split_is_refused(table):
    for options in ({"train": table}, {"training_share": 0}):
        with pytest.raises(InvalidArgument, match="split_by"):
            Guard(table, split_by="id", **options)


def test_rows_without_an_order_have_no_blocks_and_take_no_list_of_predictions(table, to_postgres):
    there = to_postgres(table)
    with pytest.raises(QueryRejected, match="strategy='split'"):
        Guard(there, strategy="split", queries=3)
    with pytest.raises(QueryRejected, match="no order"):
        Guard(there, training_share=0).score(np.ones(6_000), target="k")


def test_a_table_is_opened_by_its_address_and_no_password_is_shown(table, to_postgres, postgres, tmp_path):
    to_postgres(table, name="Trips of ann")
    address = postgres.replace("postgres:@", "postgres:hunter2@")
    assert address != postgres
    guard = Guard(f"{address}#Trips of ann", training_share=0, ledger=tmp_path / "book")
    answer = guard.share("x > 0", guess=0.5)
    book = Book(tmp_path / "book")
    told = [repr(guard), str(guard.certificate), str(answer), json.dumps([e.body for e in book.events()])]
    told += [repr(guard._setup.protected.rows), repr(guard._setup.facts), *guard._setup.assumptions]
    book.close()
    guard.close()
    for wrong in (f"{address}#nothing", address, "postgres://ann:hunter2@localhost:1/town#trips"):
        with pytest.raises(QueryRejected) as caught:
            open_rows(wrong)
        told.append(str(caught.value))
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "hunter2" not in " ".join(told)
    assert "#trips" in told[-1]


def test_a_schema_may_be_named(table, to_postgres, postgres, postgres_connection):
    postgres_connection.con.execute("CREATE SCHEMA town; CREATE TABLE town.trips AS SELECT 1.5::float8 AS x")
    assert open_rows(f"{postgres}#town.trips").count == 1


@pytest.mark.parametrize("text", ["postgres://db.example/town", "duckdb:///tmp/none.db"])
def test_an_address_without_a_table_asks_for_one(text):
    with pytest.raises(QueryRejected, match="say which table"):
        open_rows(text)


def test_what_is_stored_as_what(to_postgres, postgres_connection):
    postgres_connection.con.execute(
        "CREATE TABLE kinds AS SELECT 1::smallint AS small, 1.5::real AS single, 'NaN'::numeric AS free, "
        "1e300::numeric * 1e300 AS huge, 1.25::numeric(10, 2) AS price, 'a '::char(3) AS fixed, "
        "'2020-01-01 12:00'::timestamp AS moment, now() AS zoned, 'infinity'::date AS always, "
        "'5000000-01-01'::date AS late, '{1}'::int[] AS list, gen_random_uuid() AS id"
    )
    rows = open_rows(postgres_connection.table("kinds"))
    assert {name: column.kind for name, column in rows.schema.items()} == {
        **dict.fromkeys(("small", "single", "free", "huge", "price"), "number"),
        **dict.fromkeys(("fixed", "id"), "text"),
        **dict.fromkeys(("moment", "always", "late"), "date"),
        **{"zoned": "date", "list": "other"},
    }
    for condition in (
        "small = 1 and single = 1.5 and price = 1.25 and fixed = 'a' and length(id) = 36",
        "free is null and huge > 1e308 and huge - huge is null",
        "moment > '2020-01-01' and moment < '2020-01-01 12:00:01' and zoned is not null and list is not null",
        "always is null or always > '2020-01-01'",
        "late > '2020-01-01' is null",
    ):
        asked = queries.share(condition, nulls=False).check(rows.schema)
        assert rows.sums(asked).total == 1, condition


def test_the_users_own_duckdb_is_read_in_place_and_left_as_it_was(table, tmp_path):
    connection = ibis.duckdb.connect(tmp_path / "town.db")
    connection.con.register("source", table)
    connection.con.execute("CREATE TABLE trips AS SELECT * FROM source")
    trips = connection.table("trips")
    guard = Guard(trips.filter(trips.k > 2), training_share=0)
    assert guard.rows == int((np.asarray(table["k"]) > 2).sum())
    assert guard.share("k > 2", guess=1).value == 1
    assert connection.con.execute("SELECT name FROM (SHOW TABLES)").fetchall() == [("source",), ("trips",)]
    assert guard._setup.protected.rows.stays
    assert isinstance(Guard(trips).train, ibis.Table)  # A small table may be copied, and keeps its order.
    connection.disconnect()


NAN = [
    "mean(v, 0, 10)",
    "mean(v, 0, 10, nulls = 5)",
    "mean(v, 0, 10, nulls = skip)",
    "mean(0 - v, -9, 0, nulls = skip)",
    "share(v > 1.5, nulls = skip)",
]


def sums_of(data: object) -> list[object]:
    rows = open_rows(data)
    return [rows.sums(queries.read(line).check(rows.schema), squares=True) for line in NAN]


def test_nan_in_files_is_found_where_their_statistics_say_nothing_of_it(tmp_path, monkeypatch):
    values = [1.0, 2.0, math.nan, 3.0, None, math.nan]
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"v": pa.array(values, pa.float64())}), path)
    connection = ibis.duckdb.connect()
    connection.con.execute("SET disabled_optimizers = 'top_n'")
    read = connection.read_parquet(path)
    assert sums_of(read) == sums_of(str(path)) == sums_of({"v": values})
    ((kept,),) = connection.con.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    assert kept == "top_n"
    # The sabotaged twin believes the statistics.
    monkeypatch.setattr(_in_place, "_without_statistics", lambda connection: nullcontext())
    with pytest.raises(duckdb.ConversionException):
        sums_of(read)


def test_some_rows_of_a_database_are_a_random_part(table, to_postgres):
    """By the key that they were split by, the same ones again; without one, by lot."""
    there = to_postgres(table.sort_by("k"))
    training = Guard(there, split_by="name", training_share=0.5)._setup.training.rows
    some = training.some(0.2)
    assert ids(some) <= ids(training)
    assert ids(some) == ids(training.some(0.2))
    for part in (some, open_rows(there).some(0.1)):
        assert 450 < part.count < 750
        assert abs(part.frame()["k"].mean() - 4) < 0.5


def test_rows_in_a_database_are_compared_where_they_are_few(rng, to_postgres, monkeypatch):
    """A small table of a database is read once for it; a large one is not, and the certificate says so."""
    rows = 300
    table = pa.table({"x": rng.random(rows), "n": rng.integers(0, 9, rows), "y": rng.integers(0, 2, rows)})
    fresh = pa.table({"x": rng.random(rows), "n": rng.integers(0, 9, rows), "y": rng.integers(0, 2, rows)})
    guard = Guard(to_postgres(table), training_share=0)
    guard.close_account()
    copy = table.take(rng.permutation(rows)[:200])
    for again in (copy, to_postgres(copy)):
        with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
            guard.next_epoch(again)
    assert "not compared" not in str(guard.next_epoch(to_postgres(fresh), ledger=Book()).certificate)
    monkeypatch.setattr("holdfast.engines._rows._MOST_COPIED", 10)
    large = Guard(to_postgres(table), training_share=0)
    later = large.next_epoch(to_postgres(copy))
    assert "not compared with those of epoch 1" in str(later.certificate)
