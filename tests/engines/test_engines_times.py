"""Times with a zone are asked about in UTC, wherever the rows live and whatever zone is set there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from holdfast import Guard, queries
from holdfast.engines import open_rows
from holdfast.errors import QueryRejected

# Half an hour apart, over two days in which New York has one hour twice and two in which it lacks one.
STARTS = datetime(2024, 11, 2, 12, tzinfo=UTC), datetime(2024, 3, 9, 12, tzinfo=UTC)
MOMENTS = [start + timedelta(minutes=30 * step) for start in STARTS for step in range(96)]
TABLE = pa.table({"t": pa.array([*MOMENTS, None], pa.timestamp("us", tz="America/New_York"))})
QUESTIONS = {
    "share(t >= '2024-11-03 05:30:00', nulls = false)": lambda t: (
        t >= datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
    ),
    "share(t < '2024-11-03T01:30:00-05:00', nulls = false)": lambda t: (
        t < datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
    ),
    "share(t = '2024-03-10T08:00:00+01:00', nulls = false)": lambda t: (
        t == datetime(2024, 3, 10, 7, tzinfo=UTC)
    ),
    "share(t in ('2024-03-10T07:30:00Z', '2024-11-03'), nulls = false)": lambda t: (
        t in (datetime(2024, 3, 10, 7, 30, tzinfo=UTC), datetime(2024, 11, 3, tzinfo=UTC))
    ),
    "share(hour(t) = 6, nulls = false)": lambda t: t.hour == 6,
    "share(day(t) = 3 and month(t) = 11, nulls = false)": lambda t: (t.month, t.day) == (11, 3),
    "share(isodow(t) = 7, nulls = false)": lambda t: t.isoweekday() == 7,
}


def check_utc(rows):
    assert (rows.schema["t"].kind, rows.schema["t"].zoned) == ("date", True)
    for line, meaning in QUESTIONS.items():
        found = rows.sums(queries.read(line).check(rows.schema))
        assert (found.rows, found.total) == (len(MOMENTS) + 1, sum(map(meaning, MOMENTS))), line


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "ibis", "dict", "parquet", "csv"])
def test_in_memory_and_in_files(kind, tmp_path: Path):
    pa.parquet.write_table(TABLE, tmp_path / "times.parquet")
    TABLE.to_pandas().assign(k=1).to_csv(tmp_path / "times.csv", index=False)
    check_utc(
        open_rows(
            {
                "arrow": TABLE,
                "pandas": TABLE.to_pandas(),
                "polars": pl.from_arrow(TABLE),
                "ibis": ibis.memtable(TABLE),
                "dict": {"t": [*MOMENTS, None]},
                "parquet": tmp_path / "times.parquet",
                "csv": tmp_path / "times.csv",
            }[kind]
        )
    )


def test_in_a_duckdb_of_another_zone():
    connection = ibis.duckdb.connect()
    connection.con.execute("SET TimeZone = 'America/New_York'")
    connection.con.register("source", TABLE)
    connection.con.execute("CREATE TABLE times AS SELECT * FROM source")
    check_utc(open_rows(connection.table("times")))
    connection.disconnect()


def test_in_postgres_of_another_zone(postgres_connection, to_postgres):
    table = to_postgres(TABLE, t="timestamptz")
    postgres_connection.con.execute("SET TIME ZONE 'America/New_York'")
    try:
        check_utc(open_rows(table))
    finally:
        postgres_connection.con.execute("RESET TIME ZONE")


def test_in_spark_of_another_zone(spark):
    session = spark._session
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        counted = [(int(moment.timestamp()) * 1_000_000,) for moment in MOMENTS] + [(None,)]
        frame = session.createDataFrame(counted, "micros bigint")
        frame.selectExpr("timestamp_micros(micros) AS t").createOrReplaceTempView("zoned_times")
        check_utc(open_rows(spark.table("zoned_times")))
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


def test_parts_of_dates_before_christ_and_of_infinite_ones(postgres_connection):
    """PostgreSQL has no year 0, and infinity has a year there; here it has none, as a null."""
    texts = ["'0044-03-15 BC'", "'0001-06-01 BC'", "'0001-01-01'", "'infinity'", "'-infinity'"]
    values = ", ".join(f"({text}::timestamp)" for text in texts)
    postgres_connection.con.execute(f"CREATE TABLE long_ago AS SELECT * FROM (VALUES {values}) AS v(t)")
    connection = ibis.duckdb.connect()
    written = ", ".join(f"({text.replace(' BC', ' (BC)')}::TIMESTAMP)" for text in texts)
    connection.con.execute(f"CREATE TABLE long_ago AS SELECT * FROM (VALUES {written}) AS v(t)")
    for rows in (open_rows(one.table("long_ago")) for one in (postgres_connection, connection)):
        for part, wanted in {"year": (-43, 0, 1), "month": (1, 3, 6), "isodow": (1, 4, 5)}.items():
            asked = queries.quantile(f"{part}(t)", 0.5, nulls="skip").check(rows.schema)
            count, found = rows.order_statistics(asked, lambda count: list(range(1, count + 1)))
            assert (count, found) == (3, wanted), (rows.schema.dialect, part)
    connection.disconnect()


def test_the_training_part_keeps_a_zone(tmp_path: Path):
    pa.parquet.write_table(TABLE, tmp_path / "times.parquet")
    for data in (TABLE.to_pandas(), tmp_path / "times.parquet", pl.from_arrow(TABLE).lazy()):
        guard = Guard(data)
        shown = guard.training_rows()["t"]
        assert isinstance(shown.dtype, pd.DatetimeTZDtype)
        assert set(shown.dropna().dt.tz_convert("UTC")) <= set(MOMENTS)
        assert guard.train.schema["t"].time_zone if hasattr(guard.train, "schema") else guard.train["t"].dt.tz


def test_a_zone_is_compared_with_a_zone():
    table = pa.table({"t": TABLE["t"], "local": TABLE["t"].cast(pa.timestamp("us"))})
    rows = open_rows(table)
    with pytest.raises(QueryRejected, match="'t' has a time zone and 'local' has none"):
        queries.share("t > local").check(rows.schema)
    with pytest.raises(QueryRejected, match="has a time zone and the column has none"):
        queries.share("local > '2024-01-01T00:00:00Z'").check(rows.schema)
    with pytest.raises(QueryRejected, match="is not a date"):
        queries.share("t > '0001-01-01T00:00:00+10:00'").check(rows.schema)
    with pytest.raises(QueryRejected, match="'t' has a time zone in the data and none in the training part"):
        Guard(table, train=table.set_column(0, "t", table["local"]))
