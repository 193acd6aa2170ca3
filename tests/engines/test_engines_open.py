"""Opening tables: every kind comes back as it came, what is public is known, what is no table is named."""

from __future__ import annotations

import datetime
import decimal
import os
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from holdfast import queries
from holdfast.engines import open_rows
from holdfast.errors import QueryRejected

HALF = np.array([True, False, True, False])


def frame() -> pd.DataFrame:
    return pd.DataFrame({"x": [1.5, np.nan, 3.0, 4.0], "s": ["a", None, "c", "d"]}, index=[10, 20, 30, 40])


def test_pandas_comes_back_with_its_index_and_types() -> None:
    table = frame().assign(c=pd.Categorical(["u", "v", "u", "v"]), n=pd.array([1, None, 3, 4], dtype="Int64"))
    rows = open_rows(table)
    assert rows.native() is table
    train, protected = rows.split(HALF)
    own = table[HALF].assign(c=pd.Categorical(["u", "u"]))  # not the category of the other rows
    pd.testing.assert_frame_equal(train.native(), own)
    assert protected.frame()["x"].tolist()[1] == 4.0
    assert isinstance(protected.native(), pd.DataFrame)
    assert [column.kind for column in rows.schema.values()] == ["number", "text", "text", "number"]


def test_polars_comes_back() -> None:
    table = pl.DataFrame(
        {"x": [1.0, None, 3.0, 4.0], "c": pl.Series(["u", "v", "u", "v"], dtype=pl.Categorical)}
    )
    train, protected = open_rows(table).split(HALF)
    assert train.native().equals(table.filter(pl.Series(HALF)).with_columns(pl.col("c").cast(pl.String)))
    assert isinstance(protected.native(), pl.DataFrame)
    assert protected.native()["x"].to_list() == [None, 4.0]


def test_arrow_comes_back() -> None:
    table = pa.table({"x": [1, 2, 3, 4], "s": ["a", "b", "c", None]})
    train, protected = open_rows(table).split(HALF)
    assert train.native() == table.filter(pa.array(HALF))
    assert protected.native()["s"].to_pylist() == ["b", None]


def test_a_dict_comes_back() -> None:
    train, protected = open_rows({"x": np.arange(4), "s": ["a", "b", "c", "d"], "t": (1, 2, 3, 4)}).split(
        HALF
    )
    assert {name: list(values) for name, values in train.native().items()} == {
        "x": [0, 2],
        "s": ["a", "c"],
        "t": [1, 3],
    }
    assert {name: list(values) for name, values in protected.native().items()}["x"] == [1, 3]


def test_ibis_comes_back() -> None:
    table = ibis.memtable(pa.table({"x": [0, 1, 2, 3]}))
    train, protected = open_rows(table.mutate(y=table.x * 2)).split(HALF)
    assert isinstance(train.native(), ibis.Table)
    assert train.native().columns == ("x", "y")
    assert protected.sums(queries.share("y >= 4").check(protected.schema)).total == 1


def test_a_file_becomes_a_pandas_frame(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "rows.csv", index=False)
    for source in (tmp_path / "rows.csv", str(tmp_path / "rows.csv"), str(tmp_path / "r*.csv")):
        train, protected = open_rows(source).split(HALF)
        assert isinstance(train.native(), pd.DataFrame)
        assert train.native()["x"].tolist() == [1.5, 3.0]
        assert train.nullable_columns() == set()
        assert protected.nullable_columns() == {"x", "s"}


def test_types_of_a_csv_file_are_settled_on_every_line(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("x,y\n" + "1,1\n" * 30_000 + "1.5,late\n", encoding="utf-8")
    rows = open_rows(path)
    assert (rows.schema["x"].kind, rows.schema["y"].kind, rows.count) == ("number", "text", 30_001)
    assert rows.sums(queries.share("y = 'late'").check(rows.schema)).total == 1


def test_a_large_split_of_files_keeps_the_order(tmp_path: Path, rng: np.random.Generator) -> None:
    value, mask = rng.random(300_000), rng.random(300_000) < 0.5
    for part in range(3):
        piece = slice(part * 100_000, (part + 1) * 100_000)
        table = pa.table({"x": value[piece], "n": np.arange(300_000)[piece]})
        pa.parquet.write_table(table, tmp_path / f"{part}.parquet", row_group_size=7_000)
    train, protected = open_rows(str(tmp_path / "*.parquet")).split(mask)
    for rows, chosen in ((train, mask), (protected, ~mask)):
        np.testing.assert_array_equal(rows.frame()["x"], value[chosen])
        np.testing.assert_array_equal(rows.frame()["n"], np.arange(300_000)[chosen])


def test_every_type_has_a_kind() -> None:
    zoned = pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)], pa.timestamp("us", tz="UTC"))
    table = pa.table(
        {
            "int8": pa.array([1], pa.int8()),
            "uint64": pa.array([2**64 - 1], pa.uint64()),
            "float32": pa.array([1.5], pa.float32()),
            "decimal": pa.array([decimal.Decimal("1.25")], pa.decimal128(10, 2)),
            "bool": [True],
            "text": ["a"],
            "large_text": pa.array(["a"], pa.large_string()),
            "category": pa.array(["a"]).dictionary_encode(),
            "date": pa.array([datetime.date(2020, 1, 1)]),
            "moment": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ns")),
            "second": pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("s")),
            "zoned": zoned,
            "list": [[1, 2]],
            "bytes": pa.array([b"a"]),
            "time": pa.array([datetime.time(1)]),
            "nothing": pa.array([None], pa.null()),
        }
    )
    kinds = {name: column.kind for name, column in open_rows(table).schema.items()}
    assert kinds == {
        **dict.fromkeys(("int8", "uint64", "float32", "decimal"), "number"),
        "bool": "boolean",
        **dict.fromkeys(("text", "large_text", "category"), "text"),
        **dict.fromkeys(("date", "moment", "second", "zoned"), "date"),
        **dict.fromkeys(("list", "bytes", "time", "nothing"), "other"),
    }
    rows = open_rows(table)
    for line in (
        "mean(int8 + uint64 / 2e19 + float32 + decimal, 0, 10)",
        "share(bool and text = 'a' and large_text = 'a' and category in ('a', 'b'))",
        "share(date = '2020-01-01' and moment = date and second = '2020-01-01 00:00:00')",
        "share(zoned is not null and list is not null and bytes is not null and time is not null)",
    ):
        found = rows.sums(queries.read(line).check(rows.schema))
        wanted = 1.0 if line.startswith("share") else (1 + 0.9223372036854776 + 1.5 + 1.25) / 10
        assert found.total == round(wanted * found.scale), line


def test_what_the_source_says_about_nulls() -> None:
    masked = pd.DataFrame(
        {"n": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")}
    )
    plain = pd.DataFrame({"n": [1, 2], "b": [True, False], "x": [1.0, 2.0], "s": ["a", "b"]})
    required = pa.table({"n": [1, 2]}, schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    assert {n: c.nullable for n, c in open_rows(masked).schema.items()} == {"n": True, "b": True}
    assert {n: c.nullable for n, c in open_rows(plain).schema.items()} == {
        "n": False,
        "b": False,
        "x": None,
        "s": None,
    }
    assert open_rows(required).schema["n"].nullable is False
    assert open_rows({"n": np.array([1, 2]), "l": [1, 2]}).schema["n"].nullable is False
    assert open_rows({"n": [1, 2]}).schema["n"].nullable is None
    with pytest.raises(QueryRejected, match="'n'"):
        queries.mean("n", bounds=(0, 1)).check(open_rows(masked).schema)


def test_nan_counts_as_null_in_every_kind(tmp_path: Path) -> None:
    values = np.array([1.0, np.nan, 3.0])
    pa.parquet.write_table(pa.table({"x": values}), tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("x\n1\nnan\n3\n", encoding="utf-8")
    sources = [
        {"x": values},
        {"x": values.astype(np.float32)},
        pd.DataFrame({"x": values}),
        pl.DataFrame({"x": values}),
        pa.table({"x": values}),
        tmp_path / "x.parquet",
        tmp_path / "x.csv",
        ibis.memtable(pa.table({"x": values})),
    ]
    for source in sources:
        rows = open_rows(source)
        assert rows.nullable_columns() == {"x"}, source
        found = rows.sums(queries.share("x > 2", nulls="skip").check(rows.schema))
        assert (found.rows, found.total) == (2, 1), source
        assert rows.stored().nullable_columns() == {"x"}, source


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pd.DataFrame({"x": []}), "no rows"),
        ({"x": []}, "no rows"),
        (pd.DataFrame(index=[1, 2]), "no columns"),
        ({}, "no columns"),
        (pa.table({}), "no columns"),
        ({"x": [1, 2], "y": [1]}, "different lengths"),
        ({"x": np.ones((2, 2))}, "2 dimensions"),
        ({"x": [1, "a"]}, "'x'"),
        ({"x": [object()]}, "'x'"),
        (pd.DataFrame({"x": [1, "a"]}), "'x'"),
        (pd.DataFrame({1: [1]}), "rename the column 1"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "differ at most in case"),
        (pd.DataFrame({"a": [1], "A": [2]}), "differ at most in case"),
        ({"": [1]}, "rename"),
        (pd.Series([1]), "Series"),
        (np.ones((3, 2)), "ndarray"),
        ([1, 2], "list"),
        (None, "NoneType"),
        (42, "int"),
        ("rows.xlsx", "Parquet"),
        ("rows", "Parquet"),
        ("nowhere.csv", "no file 'nowhere.csv'"),
        ("nowhere/*.parquet", "no file"),
        (Path("nowhere.parquet"), "no file"),
    ],
)
def test_an_object_that_is_not_a_table_is_named(data: object, says: str) -> None:
    with pytest.raises(QueryRejected) as caught:
        open_rows(data)
    assert says in str(caught.value)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_csv_file_in_another_encoding_is_distinguished_from_a_broken_one(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "towns.csv"
    path.write_bytes(("town,people\n" + "Besançon,119000\n" * 30).encode(encoding))
    with pytest.raises(QueryRejected, match="not in UTF-8") as caught:
        open_rows(path)
    assert "encoding=" in str(caught.value)
    assert "Besan" not in str(caught.value)
    other = tmp_path / "towns.csv.gz"
    other.write_bytes(path.read_bytes())
    with pytest.raises(QueryRejected, match="Cannot read") as broken:
        open_rows(other)
    assert "UTF-8" not in str(broken.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    (tmp_path / "empty.csv").write_text("x,y\n", encoding="utf-8")
    (tmp_path / "nothing.csv").write_text("", encoding="utf-8")
    with pytest.raises(QueryRejected, match=r"bad\.parquet"):
        open_rows(tmp_path / "bad.parquet")
    for name in ("empty.csv", "nothing.csv"):
        with pytest.raises(QueryRejected):
            open_rows(tmp_path / name)


@pytest.mark.parametrize("name", ["it's.csv", 'a "b".csv', "ünï.csv"])
def test_any_file_name_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x\n1\n2\n", encoding="utf-8")
    assert open_rows(tmp_path / name).count == 2


@pytest.mark.parametrize(
    "name",
    [
        "my col",
        'quo"te',
        "it's",
        "select",
        "part",
        "rows",
        "ünï",
        "a.b",
        "value",
        "passes",
        "t0",
        "@lo",
        "{x}",
    ],
)
def test_any_column_name_can_be_asked_about(name: str) -> None:
    rows = open_rows({name: [1.0, 2.0, 3.0, 4.0], "other": [1, 1, 0, 0]})
    quoted = '"' + name.replace('"', '""') + '"'
    asked = queries.mean(f"{quoted} + 1", bounds=(0, 4), where=f"other = 1 and {quoted} < 9")
    _, protected = rows.split(HALF)
    assert protected.columns == (name, "other")
    assert protected.sums(asked.check(rows.schema)).total == 3 * 2**22
    assert rows.order_statistics(queries.quantile(quoted, 0.5).check(rows.schema), lambda n: [n]) == (
        4,
        (4.0,),
    )


def test_questions_without_a_column_are_answered() -> None:
    rows = open_rows({"x": [1.0, 2.0, 3.0, 4.0]})
    for line, wanted in {
        "mean(1, 0, 2)": (4, 4 * 2**23),
        "share(true)": (4, 4),
        "share(true, where = false)": (0, 0),
        "mean(3, 0, 2, where = 1 > 2)": (0, 0),
    }.items():
        found = rows.sums(queries.read(line).check(rows.schema))
        assert (found.rows, found.total) == wanted, line
    assert rows.order_statistics(queries.quantile("7", 0.5).check(rows.schema), lambda n: [1]) == (4, (7.0,))


def test_a_frame_may_have_only_some_columns() -> None:
    rows = open_rows({"x": [1.0, 2.0], 'a "b"': [3, 4], "c": ["u", "v"]})
    assert rows.frame(['a "b"', "x"]).to_dict("list") == {'a "b"': [3, 4], "x": [1.0, 2.0]}
    assert list(rows.frame().columns) == ["x", 'a "b"', "c"]


def test_a_stored_table_reaches_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("x\n1\n", encoding="utf-8")
    train, protected = open_rows({"x": [1.0, 2.0, 3.0, 4.0]}).split(HALF)
    for rows in (train, protected, open_rows({"x": [1.0]})):
        with pytest.raises(duckdb.PermissionException):
            rows._database.run(f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")


def test_texts_that_look_like_stand_ins_are_safe() -> None:
    rows = open_rows({"s": ["@lo", "@hi", "@factor", "@values"], "x": [1.0, 2.0, 3.0, 4.0]})
    asked = queries.mean(
        "case when s in ('@lo', '@values', '@factor') then x else 0 end", bounds=(0, 8), where="s <> '@hi'"
    )
    assert rows.sums(asked.check(rows.schema)).total == 2**24


def test_the_number_of_threads_does_not_change_an_answer(rng: np.random.Generator) -> None:
    rows = open_rows({"x": rng.normal(size=400_000), "y": rng.normal(size=400_000)}).stored()
    asked = queries.mean("x * y + exp(x)", bounds=(-3, 9), where="y < 1").check(rows.schema)
    found = set()
    for threads in (1, 2, os.cpu_count() or 1):
        rows._database.run(f"SET threads = {threads}")
        found |= {rows.sums(asked, squares=True) for _ in range(3)}
    assert len(found) == 1


def test_order_statistics_are_exact_among_many_ties(rng: np.random.Generator) -> None:
    value = rng.integers(0, 50, 200_000).astype(float)
    rows = open_rows({"x": value}).stored()
    ordered = np.sort(value)
    ranks = [1, 2, 3, 99_999, 100_000, 100_001, 199_999, 200_000, *map(int, rng.integers(1, 200_001, 20))]
    _, found = rows.order_statistics(queries.quantile("x", 0.5).check(rows.schema), lambda count: ranks)
    assert found == tuple(ordered[rank - 1] for rank in ranks)


def test_questions_leave_nothing_behind(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = open_rows({"x": rng.normal(size=100)}).stored()
    monkeypatch.setattr(rows._database, "_trees", {})
    for number in range(200):
        rows.sums(queries.mean(f"x + {number}", bounds=(0, number + 1)).check(rows.schema))
    assert len(rows._database._trees) == 1
    assert len(rows._database.run("SELECT * FROM duckdb_tables()")) == 1
    assert rows._database.run("SELECT count(*) FROM duckdb_views() WHERE NOT internal") == [(0,)]


def test_a_second_table_compiles_no_statement_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.engines._database._TREES", {})
    asked = queries.mean("x", bounds=(0, 1))
    first, second = (open_rows({"x": values}).stored() for values in ([0.25, 0.5], [0.5, 1.0]))
    compiled = []

    def ask(rows):
        tree = rows._database.tree
        monkeypatch.setattr(
            rows._database, "tree", lambda expression: compiled.append(expression) or tree(expression)
        )
        return rows.sums(asked.check(rows.schema)).total

    assert ask(second) == 2 * ask(first)
    # The statement around the question once, the question itself for each table.
    assert len(compiled) == 3


def test_a_lazy_frame_is_collected() -> None:
    lazy = pl.LazyFrame({"x": [1, 2, 3, 4], "s": ["a", "b", None, "a"]}).filter(pl.col("x") > 1)
    rows = open_rows(lazy)
    assert (rows.count, rows.columns) == (3, ("x", "s"))
    assert rows.sums(queries.read("share(s = 'a', nulls = false)").check(rows.schema)).total == 1
    assert isinstance(rows.native(), pl.DataFrame)


def test_what_a_lazy_frame_cannot_compute_is_not_quoted() -> None:
    with pytest.raises(QueryRejected, match="cannot be read") as refused:
        open_rows(pl.LazyFrame({"s": ["7", "hush"]}).select(pl.col("s").cast(pl.Int64)))
    assert "hush" not in str(refused.value)
    assert refused.value.__context__ is None


NULLABLE = {
    "whole": [3, None, -1, 3],
    "real": [0.5, None, 2.0, 8.0],
    "truth": [True, None, False, True],
    "word": ["b", None, "", "abc"],
    "price": [decimal.Decimal("1.10"), None, decimal.Decimal("-0.25"), decimal.Decimal("99.99")],
}


@pytest.mark.parametrize("kind", ["numpy_nullable", "pyarrow", "polars", "arrow"])
def test_nullable_columns_are_asked_about_like_any_other(kind: str) -> None:
    table = pa.table(NULLABLE)
    if kind in ("numpy_nullable", "pyarrow"):
        data = table.to_pandas().convert_dtypes(dtype_backend=kind)
        assert all(
            type(data[name].dtype).__module__.startswith("pandas") for name in ("whole", "truth", "word")
        )
    else:
        data = pl.from_arrow(table) if kind == "polars" else table
    rows = open_rows(data)
    assert [column.kind for column in rows.schema.values()] == [
        "number",
        "number",
        "boolean",
        "text",
        "number",
    ]
    for line, counted in {
        "share(whole = 3, nulls = false)": (4, 2),
        "share(whole is null)": (4, 1),
        "share(real < 2.5, nulls = skip)": (3, 2),
        "share(truth, nulls = skip)": (3, 2),
        "share(not truth, nulls = true)": (4, 2),
        "share(word like '%b%', nulls = skip)": (3, 2),
        "share(price >= 1.1, nulls = skip)": (3, 2),
        "share(price = 99.99, nulls = skip)": (3, 1),
    }.items():
        found = rows.sums(queries.read(line).check(rows.schema))
        assert (found.rows, found.total) == counted, line


def test_parts_are_the_same_whether_or_not_a_digest_was_taken_before() -> None:
    """A digest keeps a small table in memory, and the parts are then cut from there."""
    frame = pd.DataFrame(
        {
            "number": [1.5, np.nan, 3.0, -0.0, 2.0, 7.25],
            "text": ["a", None, "c", "", "e", "f"],
            "flag": [True, False, True, True, False, False],
            "day": pd.to_datetime(
                ["2024-01-01", "2024-02-29", None, "1969-12-31", "2030-06-01", "2000-01-01"]
            ),
        }
    )
    train = np.array([True, False, False, True, False, False])
    protected = np.array([False, True, True, False, False, True])
    joined, digested = open_rows(frame), open_rows(frame)
    digested.content()
    for expected, part in zip(joined.split(train, protected), digested.split(train, protected), strict=True):
        pd.testing.assert_frame_equal(part.frame(), expected.frame())
        assert part.count == expected.count
        assert part.schema == expected.schema
        assert part.content() == expected.content()


def test_a_table_in_memory_is_sealed_like_any_other() -> None:
    rows = open_rows({"x": [1.0, 2.0, 3.0, 4.0]})
    rows.content()
    rows.seal()
    with pytest.raises(Exception, match="clean room"):
        rows.frame()
