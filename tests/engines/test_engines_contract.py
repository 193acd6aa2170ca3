"""DuckDB against the engine contract, for every kind of table a person may bring."""

from __future__ import annotations

from pathlib import Path

import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from contracts.engine import EngineContract, arrow
from holdfast.engines import open_rows


class TestDict(EngineContract):
    @pytest.fixture
    def make_rows(self):
        return lambda columns: open_rows(columns)


class TestPandas(EngineContract):
    @pytest.fixture
    def make_rows(self):
        return lambda columns: open_rows(pd.DataFrame(columns))


class TestPolars(EngineContract):
    @pytest.fixture
    def make_rows(self):
        return lambda columns: open_rows(pl.DataFrame(columns))


class TestArrow(EngineContract):
    @pytest.fixture
    def make_rows(self):
        return lambda columns: open_rows(arrow(columns, pa.int64()))


class TestStored(EngineContract):
    @pytest.fixture
    def make_rows(self):
        return lambda columns: open_rows(arrow(columns, pa.int64())).stored()


class TestIbis(EngineContract):
    @pytest.fixture
    def make_rows(self):
        return lambda columns: open_rows(ibis.memtable(arrow(columns, pa.int64())))


class TestParquet(EngineContract):
    @pytest.fixture
    def make_rows(self, tmp_path: Path):
        def make(columns):
            pa.parquet.write_table(arrow(columns, pa.int64()), tmp_path / "rows.parquet", row_group_size=170)
            return open_rows(tmp_path / "rows.parquet")

        return make


class TestParquetParts(EngineContract):
    @pytest.fixture
    def make_rows(self, tmp_path: Path):
        def make(columns):
            table = arrow(columns, pa.int64())
            size = table.num_rows // 4
            for part in range(4):
                pa.parquet.write_table(table.slice(part * size, size), tmp_path / f"part-{part}.parquet")
            return open_rows(str(tmp_path / "part-*.parquet"))

        return make


class TestCsv(EngineContract):
    @pytest.fixture
    def make_rows(self, tmp_path: Path):
        def make(columns):
            # An empty text in quotes is a text, an empty field is a null.
            pa.csv.write_csv(
                arrow(columns, pa.int64()),
                tmp_path / "rows.csv",
                pa.csv.WriteOptions(quoting_style="all_valid"),
            )
            return open_rows(str(tmp_path / "rows.csv"))

        return make
