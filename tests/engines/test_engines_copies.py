"""The training part holds nothing of the other rows: not in values, types, metadata, buffers or pickles."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from holdfast import Guard
from holdfast.engines import open_rows

SECRET = "Ms Smith, protected"
ROWS = 12
TRAIN = np.arange(ROWS) % 3 == 0


def texts(secret: str = SECRET) -> list[str | None]:
    """Short texts in training rows, a long one in all others."""
    own = ["zoe", "ann", None, "bea"]
    return [own[place // 3] if TRAIN[place] else secret for place in range(ROWS)]


def nested(values: list[str | None]) -> list[list[str] | None]:
    return [None if value is None else [value, value] for value in values]


def pandas_table(secret: str = SECRET) -> pd.DataFrame:
    values = texts(secret)
    return pd.DataFrame(
        {
            "number": np.arange(ROWS) % 5,
            "nullable": pd.array([None if value == secret else 1 for value in values], dtype="Int64"),
            "text": values,
            "python text": pd.array(values, dtype=pd.StringDtype("python")),
            "arrow text": pd.array(values, dtype=pd.ArrowDtype(pa.string())),
            "arrow dictionary": pd.array(
                pa.array(values).dictionary_encode(),
                dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())),
            ),
            "category": pd.Categorical(values),
            "ordered": pd.Categorical(values, categories=["zoe", secret, "ann", "bea"], ordered=True),
            "moment": pd.date_range("2020-01-01", periods=ROWS, tz="Europe/Berlin"),
            "span": pd.to_timedelta(np.arange(ROWS), unit="h"),
            "month": pd.period_range("2020-01", periods=ROWS, freq="M"),
        }
    )


def arrow_table(secret: str = SECRET) -> pa.Table:
    values = texts(secret)
    dictionary = pa.dictionary(pa.int8(), pa.string())
    table = pa.table(
        {
            "number": pa.array([None if value == secret else 1 for value in values], pa.int64()),
            "text": values,
            "view": pa.array(values).cast(pa.string_view()),
            "dictionary": pa.array(values).dictionary_encode(),
            "ordered": pa.DictionaryArray.from_arrays(
                pa.array(values).dictionary_encode().indices,
                pa.array(values).dictionary_encode().dictionary,
                ordered=True,
            ),
            "list": nested(values),
            "list view": pa.array(nested(values), pa.list_view(pa.string())),
            "list of dictionary": pa.array(nested(values), pa.list_(dictionary)),
            "struct": pa.array([{"name": value} for value in values]),
        }
    )
    return table.replace_schema_metadata({"pandas": secret})


def polars_table(secret: str = SECRET) -> pl.DataFrame:
    values = texts(secret)
    return pl.DataFrame(
        {
            "number": range(ROWS),
            "text": values,
            "category": pl.Series(values, dtype=pl.Categorical),
            "enum": pl.Series(values, dtype=pl.Enum(["zoe", secret, "ann", "bea"])),
            "list": nested(values),
            "list of category": pl.Series(nested(values), dtype=pl.List(pl.Categorical)),
            "struct": [{"name": value} for value in values],
        }
    )


def dict_table(secret: str = SECRET) -> dict[str, Any]:
    values = texts(secret)
    return {
        "list": [value or "" for value in values],
        "missing": [value if value == secret else "own" for value in values],
        "none": [None if value == secret else 1 for value in values],
        "array": np.array([value or "" for value in values]),
        "objects": np.array(values, dtype=object),
        "nested": nested(values),
    }


def ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def polars_ipc(table: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    table.write_ipc(file)
    return file.getvalue()


def sizes(table: pa.Table) -> list[int | None]:
    """The sizes of all buffers: a bitmap of nulls is there or not."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return [None if buffer is None else buffer.size for chunk in chunks for buffer in chunk.buffers()]


TABLES = [pandas_table, arrow_table, polars_table, dict_table]


def train_of(table: Any) -> Any:
    return open_rows(table).split(TRAIN)[0].native()


@pytest.mark.parametrize("make", TABLES)
def test_no_byte_of_a_protected_text_is_in_the_training_part(make: Any) -> None:
    train = train_of(make())
    written = [pickle.dumps(train)]
    if isinstance(train, pa.Table):
        written.append(ipc(train))
        assert train.schema.metadata is None
    if isinstance(train, pl.DataFrame):
        written.append(polars_ipc(train))
    assert all(SECRET.encode() not in content for content in written)
    assert any(b"zoe" in content for content in written)


@pytest.mark.parametrize("make", TABLES)
def test_other_protected_values_give_the_same_training_part_to_the_byte(make: Any) -> None:
    for other in ("x", "a much longer protected text than the first one, " * 3):
        first, second = train_of(make()), train_of(make(other))
        assert pickle.dumps(first) == pickle.dumps(second)
        if isinstance(first, pa.Table):
            assert ipc(first) == ipc(second)
            assert sizes(first) == sizes(second)
        if isinstance(first, pl.DataFrame):
            assert polars_ipc(first) == polars_ipc(second)
            assert [first[name].flags for name in first.columns] == [
                second[name].flags for name in second.columns
            ]


def masked(table: Any) -> Any:
    """What the training part must not be: a mask of the caller's object."""
    if isinstance(table, dict):
        return {name: np.asarray(values)[TRAIN] for name, values in table.items() if name != "nested"}
    if isinstance(table, pa.Table):
        return table.drop(["view", "list view"]).filter(pa.array(TRAIN))
    return table[TRAIN] if isinstance(table, pd.DataFrame) else table.filter(pl.Series(TRAIN))


@pytest.mark.parametrize("make", TABLES)
def test_a_mask_of_the_table_is_caught(make: Any) -> None:
    first, second = masked(make()), masked(make("x" * 100))
    assert pickle.dumps(first) != pickle.dumps(second)


@pytest.mark.parametrize(
    "index",
    [
        pd.MultiIndex.from_arrays([texts(), range(ROWS)], names=["name", "place"]),
        pd.CategoricalIndex(texts()),
        pd.Index(texts(), name="name"),
        pd.RangeIndex(100, 100 + ROWS),
        pd.date_range("2020-01-01", periods=ROWS),
    ],
    ids=lambda index: type(index).__name__,
)
def test_an_index_keeps_its_values_and_no_level_of_other_rows(index: pd.Index[Any]) -> None:
    table = pd.DataFrame({"x": range(ROWS)}, index=index)
    train = train_of(table)
    assert train.index.tolist() == table.index[TRAIN].tolist() or train.index.hasnans
    assert list(train.index.names) == list(index.names)
    assert SECRET.encode() not in pickle.dumps(train)


def test_values_and_types_come_back_as_they_were() -> None:
    table = pandas_table()
    train = train_of(table)
    for name in table.columns:
        assert train[name].astype(object).where(train[name].notna(), None).tolist() == (
            table[name][TRAIN].astype(object).where(table[name][TRAIN].notna(), None).tolist()
        )
    changed = {name for name in table.columns if train[name].dtype != table[name].dtype}
    assert changed == {"category", "ordered"}


def test_objects_stay_objects_and_each_row_has_a_copy_of_its_own() -> None:
    texts, lists = ["a", None, "b", "1.5"] * (ROWS // 4), [[place] for place in range(ROWS)]
    columns = {"texts": texts, "lists": lists, "letters": ["x"] * ROWS}
    table = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    table.index = pd.Index([f"row {place}" for place in range(ROWS)], dtype=object)
    train = train_of(table)
    assert set(train.dtypes.astype(str)) == {"object"} == {str(train.index.dtype)}
    pd.testing.assert_frame_equal(train, table[TRAIN])
    train["lists"].iloc[0].append("changed")
    assert table["lists"].tolist() == [[place] for place in range(ROWS)]


def test_frames_keep_no_way_back_to_the_table() -> None:
    table = pandas_table()
    table.attrs["note"] = SECRET
    train = train_of(table)
    train.loc[:, "number"] = -1
    assert table["number"].min() == 0
    assert not train.attrs
    views = np.arange(float(ROWS * 2)).reshape(ROWS, 2)
    cells = pd.Series([views[place] for place in range(ROWS)], dtype=object)
    assert all(cell.base is None for cell in train_of(pd.DataFrame({"cells": cells}))["cells"])


@pytest.mark.parametrize("make", [pandas_table, polars_table, arrow_table])
def test_categories_are_public_where_the_caller_says_so(make: Any) -> None:
    name = "enum" if make is polars_table else "ordered"
    train = open_rows(make(), public_categories=[name]).split(TRAIN)[0].native()
    assert SECRET.encode() in pickle.dumps(train)
    rest = train.drop([name]) if isinstance(train, (pa.Table, pl.DataFrame)) else train.drop(columns=name)
    assert SECRET.encode() not in pickle.dumps(rest)


def test_categories_that_no_training_row_has_cannot_be_found() -> None:
    """Rare codes in 400 rows: the training part listed those of the protected rows, and to ask for them gave
    a share near 1 where the truth is tiny."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 10**9, 400).astype(str)
    guard = Guard(pd.DataFrame({"code": pd.Categorical(codes)}))
    listed = set(guard.train["code"].cat.categories)
    assert listed == set(guard.train["code"])
    unseen = sorted(listed - set(guard.train["code"].astype(str)))
    assert unseen == []
    # The twin: what a mask lists finds nearly every protected row.
    mask = ~np.isin(codes, list(listed))
    leaked = sorted(set(pd.DataFrame({"code": pd.Categorical(codes)})[~mask]["code"].cat.categories) - listed)
    answer = guard.share(f"code in ({', '.join(repr(code) for code in leaked)})", guess=0.0)
    assert answer.low > 0.9


def test_arrow_types_come_back_as_they_were() -> None:
    table, train = arrow_table(), train_of(arrow_table())
    kept = [row for row, chosen in zip(table.to_pylist(), TRAIN, strict=True) if chosen]
    assert train.to_pylist() == kept
    changed = {name for name in table.column_names if train[name].type != table[name].type}
    assert changed == {"ordered"}  # the order of categories is not public


@pytest.mark.parametrize("as_frame", [True, False])
def test_keys_of_dicts_are_values_and_stay_with_their_rows(as_frame: bool) -> None:
    """Arrow makes one struct of all dicts, with the keys of protected rows in every training row."""
    cells = [{"name": "a"} if TRAIN[place] else {"name": "a", SECRET: 1} for place in range(ROWS)]
    table = {"x": list(range(ROWS)), "cell": cells, "cells": [[cell] for cell in cells]}
    rows = open_rows(pd.DataFrame(table) if as_frame else table)
    train, _ = rows.split(TRAIN)
    assert rows.schema["cell"].kind == "text"
    assert SECRET not in repr(train.frame().to_dict())
    assert train.frame()["cell"].iloc[0] == '{"name": "a"}'
    assert train.native()["cell"][0] == {"name": "a"}
