"""A digest for each row: equal rows have equal ones wherever they are kept, other rows have others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from holdfast.engines import open_rows

KEY = bytes(range(32))


def digests(table, columns=None):
    rows = open_rows(table)
    return rows.row_digests(KEY, columns or rows.columns).tolist()


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    days = pd.Timestamp("1960-02-03") + pd.to_timedelta(rng.integers(0, 20_000, 50), "D")
    return pd.DataFrame(
        {
            "x": rng.normal(size=50),
            "n": rng.integers(-3, 3, 50),
            "flag": rng.random(50) < 0.5,
            "name": rng.choice(["Ann", "", "ä€", "7", "1e3"], 50),
            "day": days,
        }
    )


def _kinds(table, tmp_path):
    csv, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    table.to_csv(csv, index=False)
    types = {"n": "Int64", "flag": "boolean", "name": "category", "x": "Float64"}
    table.astype(types).to_parquet(parquet)
    return {
        "whole numbers as floats": table.astype({"n": float, "flag": int}),
        "nullable types": table.astype(types),
        "objects": table.astype({"name": object}),
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table),
        "arrow in chunks": pa.concat_tables(
            [pa.Table.from_pandas(table[:7]), pa.Table.from_pandas(table[7:])]
        ),
        "dict": {name: table[name].to_numpy() for name in table},
        "parquet": str(parquet),
        "csv": str(csv),
        "texts": table.astype(str),
        "days": pa.Table.from_pandas(table).set_column(
            4, "day", pa.array(table["day"]).cast(pa.timestamp("s")).cast(pa.date32())
        ),
        "columns in another order": table[table.columns[::-1]],
    }


def test_the_kind_of_table_does_not_matter(table, tmp_path):
    known = digests(table)
    assert len(set(known)) == 50
    for name, other in _kinds(table, tmp_path).items():
        assert digests(other) == known, name
    gaps = pd.DataFrame(
        {"n": [1.0, None], "b": [True, None], "d": pd.to_datetime(["1969-12-31 23:59:59.5", None])}
    )
    assert digests(gaps.astype(str)) == digests(gaps)


def test_an_order_of_rows_is_an_order_of_digests(table):
    order, known = np.random.default_rng(1).permutation(50), digests(table)
    assert digests(table.iloc[order]) == [known[place] for place in order]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("x", 1e-300),
        ("x", np.nan),
        ("n", 5),
        ("flag", None),
        ("name", "Anna"),
        ("day", pd.Timestamp("1960-02-04 00:00:01")),
    ],
)
def test_any_other_value_has_another_digest(table, column, value):
    changed = table.astype({"flag": object})
    changed.loc[3, column] = value
    same = [one == other for one, other in zip(digests(changed), digests(table), strict=True)]
    assert same == [place != 3 for place in range(50)]


def test_missing_values_and_zeros_are_one_value_each():
    assert len(set(digests(pa.table({"x": [None, float("nan"), 0.0, -0.0]})))) == 2
    assert digests({"x": np.array([0.0])}) != digests(pa.table({"x": pa.array([None], pa.float64())}))


def test_large_whole_numbers_are_told_apart_and_compared_as_numbers():
    near = [2**53, 2**53 + 1, 2**60, -(2**63), 2**63 - 1]
    assert len(set(digests({"n": np.array(near)}))) == 5
    texts = digests({"n": np.array([str(number) for number in near])})
    assert texts == digests({"n": np.array(near)})
    assert digests({"n": np.array([2.0**60])}) == digests({"n": np.array([2**60])})
    assert len(set(digests({"n": np.array([2**64 - 1, 2**64 - 2, 2**63], dtype=np.uint64)}))) == 3
    assert digests({"n": np.array(["9" * 5_000, "+3"])})[1] == digests({"n": np.array([3])})[0]


def test_another_key_or_other_columns_give_other_digests(table):
    rows = open_rows(table)
    known = set(digests(table))
    assert known.isdisjoint(rows.row_digests(b"another key", rows.columns).tolist())
    assert known.isdisjoint(digests(table, ["x", "n"]))
    assert digests(table.rename(columns={"x": "z"}), ["z"]) != digests(table, ["x"])


def test_columns_that_only_number_the_rows_are_named(rng):
    rows = 90
    table = {
        "running": np.arange(rows) + 1000,
        "in another order": rng.permutation(rows),
        "with gaps": np.sort(rng.permutation(3 * rows)[:rows]),
        "far apart": np.arange(rows) * 5,
        "repeated": np.arange(rows) // 2,
        "real": np.arange(rows) * 1.0,
        "text": np.arange(rows).astype(str),
    }
    assert open_rows(table).numbering() == ("running", "in another order", "with gaps")
    assert open_rows({"real": np.ones(3)}).numbering() == ()
