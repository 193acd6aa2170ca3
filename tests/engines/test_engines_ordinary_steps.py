"""What people do with their tables before and after they ask, with the versions that the lock names.

Holdfast brings ibis, DuckDB, sqlglot, pandas and pyarrow. If those do not go together, an ordinary step of a
user's fails, and it looks as if Holdfast had broken it.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pytest

from holdfast import Guard

ROOT = Path(__file__).resolve().parents[2]
ROWS = 400
# ibis itself sets an option of pandas that pandas 3.1 calls outdated. Users are not shown this warning.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option:DeprecationWarning")


@pytest.fixture
def people() -> pd.DataFrame:
    source = np.random.default_rng(5)
    return pd.DataFrame(
        {"age": source.integers(18, 90, ROWS), "town": source.choice(["north", "south"], ROWS)}
    )


def test_the_parser_is_the_one_of_the_lock():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = dict(line.partition(";")[0].split("==") for line in lines)
    for package in ("sqlglot", "duckdb", "ibis-framework", "pandas", "polars", "pyarrow"):
        assert metadata.version(package) == locked[package], "run `make test`, which installs the lock"


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "memtable"])
def test_a_table_of_any_kind_is_created_in_duckdb_and_asked(people, kind):
    table = {
        "pandas": lambda: people,
        "polars": lambda: pl.from_pandas(people),
        "arrow": lambda: pl.from_pandas(people).to_arrow(),
        "memtable": lambda: ibis.memtable(people),
    }[kind]()
    created = ibis.duckdb.connect().create_table("people", table)
    assert created.count().execute() == ROWS
    assert Guard(created).share("age > 40").value == pytest.approx((people["age"] > 40).mean(), abs=0.2)


def test_tables_are_replaced_filled_and_dropped(people):
    connection = ibis.duckdb.connect()
    connection.create_table("people", people)
    connection.create_table("people", people.head(10), overwrite=True)
    connection.insert("people", people.tail(5))
    assert connection.table("people").count().execute() == 15
    connection.create_table("passing", people, temp=True)
    connection.create_view("old", connection.table("people").filter(ibis._.age > 60), overwrite=True)
    connection.drop_view("old")
    connection.drop_table("people")
    # ibis 12 lists tables with a call that DuckDB 2 no longer has; raw_sql works with both.
    names = {name for (name,) in connection.raw_sql("show tables").fetchall()}
    assert "passing" in names
    assert "people" not in names


def test_files_are_written_and_read_back(people, tmp_path):
    connection = ibis.duckdb.connect(tmp_path / "people.duckdb")
    table = connection.create_table("people", people)
    table.to_csv(tmp_path / "people.csv")
    table.to_parquet(tmp_path / "people.parquet")
    assert connection.read_csv(tmp_path / "people.csv").count().execute() == ROWS
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "people.parquet"), people, check_dtype=False)
    assert pl.read_csv(tmp_path / "people.csv").shape == (ROWS, 2)
    assert 0 < len(Guard(tmp_path / "people.parquet").train) < ROWS


def test_groups_joins_and_windows_come_out_as_in_pandas(people):
    table = ibis.memtable(people)
    means = table.group_by("town").agg(age=table.age.mean()).order_by("town").to_pandas()
    assert means["age"].tolist() == pytest.approx(people.groupby("town")["age"].mean().tolist())
    joined = table.join(ibis.memtable(means.rename(columns={"age": "usual"})), "town").to_polars()
    assert joined.columns == ["age", "town", "usual"]
    ranked = table.mutate(place=ibis.row_number().over(group_by="town", order_by="age")).to_pandas()
    assert ranked["place"].max() == people["town"].value_counts().max() - 1
    assert people.assign(old=people["age"] > 60).pivot_table(index="town", values="old").shape == (2, 1)
    assert (
        pl.from_pandas(people).lazy().filter(pl.col("age") > 60).collect().height
        == (people["age"] > 60).sum()
    )
