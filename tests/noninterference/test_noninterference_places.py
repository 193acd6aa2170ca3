"""Tables that are read where they are: files and databases show nothing of the protected rows either."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from compared_sessions import account_session, table_session
from observe import assert_same, observe
from pairs import GAPPED_TEXT, ROWS, SEED, TEXT, make_pair

from holdfast import Guard

QUESTIONS = ("share(s = 'a')", "mean(x, 0, 9)", "quantile(x, 0.5)", "share(x > 3, where = s = 'a')")


def _brought(name: str) -> str:
    Path("brought").mkdir(exist_ok=True)
    return f"brought/{name}"


def csv(columns):
    pd.DataFrame(columns).to_csv(_brought("people.csv"), index=False)
    return "brought/people.csv"


def compressed_csv(columns):
    pd.DataFrame(columns).to_csv(_brought("people.csv.gz"), index=False)
    return "brought/people.csv.gz"


def parquet(columns):
    pd.DataFrame(columns).to_parquet(_brought("people.parquet"), index=False)
    return "brought/people.parquet"


def parquet_of_categories(columns):
    frame = pd.DataFrame(columns).astype({"s": "category"})
    frame.to_parquet(_brought("people.parquet"), index=False)
    return "brought/people.parquet"


def parquet_in_groups(columns):
    """With statistics of every row group, and metadata."""
    table = pa.table(columns).replace_schema_metadata({"longest": max(columns["s"], key=len)})
    pyarrow.parquet.write_table(table, _brought("people.parquet"), row_group_size=50)
    return "brought/people.parquet"


def several_files(columns):
    frame = pd.DataFrame(columns)
    frame[:100].to_parquet(_brought("part-1.parquet"), index=False)
    frame[100:].to_parquet(_brought("part-2.parquet"), index=False)
    return "brought/part-*.parquet"


def memtable(columns):
    return ibis.memtable(pa.table(columns))


FILES = [
    csv,
    parquet_in_groups,
    *(
        pytest.param(make, marks=pytest.mark.slow)
        for make in (compressed_csv, parquet, parquet_of_categories, several_files, memtable)
    ),
]
files = pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)


@files
def test_a_file_shows_nothing_of_its_protected_rows(make):
    tables = make_pair(TEXT)
    assert_same(*(observe(table_session(partial(make, t), QUESTIONS)) for t in tables))


def test_a_missing_value_among_protected_rows_of_a_file_is_not_revealed():
    tables = make_pair(GAPPED_TEXT)
    questions = ("share(s = 'a', nulls = false)",)
    assert_same(*(observe(table_session(partial(csv, t), questions)) for t in tables))


def _numbered(columns):
    """With a key to split by, which is the same in both tables."""
    return pd.DataFrame({"id": range(ROWS), **columns})


def in_duckdb(connection, columns):
    """A table of a DuckDB connection that belongs to somebody else."""
    connection.con.register("brought", pa.table({"id": range(ROWS), **columns}))
    connection.con.execute("CREATE OR REPLACE TABLE people AS SELECT * FROM brought")
    connection.con.unregister("brought")
    return connection.table("people")


def in_postgres(connection, columns):
    """A table of a PostgreSQL server."""
    execute = connection.con.execute
    execute("DROP TABLE IF EXISTS people")
    execute("CREATE TABLE people (id bigint, x bigint, y bigint, s text)")
    with connection.con.cursor() as cursor, cursor.copy("COPY people FROM STDIN") as copy:
        for row in _numbered(columns).astype(object).itertuples(index=False):
            copy.write_row(row)
    connection.con.commit()
    return connection.table("people")


@pytest.fixture(params=["duckdb", "postgres", "files"])
def place(request, monkeypatch, tmp_path):
    """How a table is put into its place, and the options of a guard on it."""
    if request.param == "files":
        monkeypatch.setattr("holdfast.engines._rows._MOST_COPIED", 0)
        monkeypatch.chdir(tmp_path)
        yield lambda columns: parquet(_numbered(columns)), {}
        return
    in_memory = request.param == "duckdb"
    connection = ibis.duckdb.connect() if in_memory else ibis.connect(request.getfixturevalue("postgres"))
    yield partial(in_duckdb if in_memory else in_postgres, connection), {"split_by": "id"}
    connection.disconnect()


def _kept_apart(make, **options) -> np.ndarray:
    """Which rows become the training part there: it goes by a key or a place."""
    numbers = {"x": list(range(ROWS)), "y": [0] * ROWS, "s": ["a"] * ROWS}
    train = Guard(make(numbers), split_seed=SEED, **options).training_rows()
    return np.isin(np.arange(ROWS), train["x"])


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_a_table_that_stays_where_it_is_shows_nothing_either(place):
    make, options = place
    tables = make_pair(TEXT, training=_kept_apart(make, **options))
    assert_same(*(observe(account_session(partial(make, t), QUESTIONS, **options)) for t in tables))
