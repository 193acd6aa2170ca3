"""Pairs of tables that agree on the training rows, the schema and the number of rows, and whose protected
rows differ in ways that no question of the session is about.

Every table has the columns ``x`` (a digit) and ``y`` (0 or 1), and a column ``s`` of the kind under test. A
value of ``s`` belongs to one of two classes, "plain" and "odd", and questions only ask which. In a protected
row both tables have a value of the same class, drawn from pools of their own; in a training row they have the
same value.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

ROWS = 240
SHARE, SEED = 1 / 3, 0

Columns = dict[str, list[Any]]


def training_mask(rows: int = ROWS, share: float = SHARE, seed: int = SEED) -> np.ndarray:
    """Which rows become the training part: a function of their number, the share and the seed."""
    from holdfast.dependence import Independent

    return Independent(rows).split(share, np.random.default_rng(seed), 0.05).train


@dataclass(frozen=True)
class Values:
    """The values of ``s``: ``plain`` ones, two pools of ``odd`` ones, a strategy for more of those, and the
    questions that see the class of a value only."""

    plain: Sequence[Any]
    first: Sequence[Any]
    second: Sequence[Any]
    more: st.SearchStrategy[Any]
    questions: tuple[str, ...]

    def pools(self) -> st.SearchStrategy[tuple[list[Any], list[Any]]]:
        """Two pools of odd values."""
        pool = st.lists(self.more, min_size=1, max_size=8)
        return st.tuples(pool, pool)


def make_pair(
    values: Values,
    first: Sequence[Any] | None = None,
    second: Sequence[Any] | None = None,
    *,
    seed: int = 0,
    training: np.ndarray | None = None,
    moved: bool = True,
) -> tuple[Columns, Columns]:
    """Two tables, as columns of plain values.

    The odd values of protected rows come from ``first`` in one table and from ``second`` in the other; those
    of training rows are the first two of ``first``. With ``moved`` the protected rows of the second table
    stand in another order.
    """
    rng = np.random.default_rng(seed)
    mask = training_mask() if training is None else training
    x, y = rng.integers(0, 10, len(mask)).tolist(), rng.integers(0, 2, len(mask)).tolist()
    odd = rng.random(len(mask)) < 0.4
    pools = [values.first if first is None else first, values.second if second is None else second]
    seen = pools[0][:2]
    tables = []
    drawn = rng.integers(0, 2**31, len(mask)).tolist()
    for pool in pools:
        s = []
        for place, train in enumerate(mask):
            choices = (seen if train else pool) if odd[place] else values.plain
            s.append(choices[drawn[place] % len(choices)])
        tables.append({"x": list(x), "y": list(y), "s": s})
    if moved:
        places = np.arange(len(mask))
        places[~mask] = rng.permutation(places[~mask])
        tables[1] = {name: [column[place] for place in places] for name, column in tables[1].items()}
    return tables[0], tables[1]


# Longer than what polars keeps beside a text's length, and longer still.
_SOME, _LONG = "longer than twelve", "Ms Smith, HIV+, 12 Abbey Road, " * 3
_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=60).filter(
    lambda text: text not in ("a", "b")
)
_ODD_TEXT = ["HIV", _SOME, _LONG, "", "ß🜁", "'; --", "nan"], ["c", "d"]

TEXT = Values(["a"], *_ODD_TEXT, _TEXT, ("share(s = 'a')", "share(x > 3, where = s = 'a')"))
GAPPED_TEXT = Values(
    ["a", "a", None],
    ["HIV", _SOME, _LONG, ""],
    ["c", None, "ß"],
    st.none() | _TEXT,
    ("share(s = 'a', nulls = false)",),
)
DECLARED = replace(TEXT, more=st.sampled_from([*_ODD_TEXT[0], *_ODD_TEXT[1]]))
# A category that a training row has, and many that none has: 300 need codes of two bytes.
CATEGORIES = Values(["a"], [f"protected {n}" for n in range(300)], ["c"], _TEXT, TEXT.questions)
NUMBERS = Values(
    [1.0, 2.5],
    [10.0, 12345.678901, 1e300, 2.0**53, float("inf")],
    [11.0, 17.0],
    st.floats(10, allow_nan=False),
    ("share(s > 5)", "mean(s, 0, 10)", "quantile(s, 0.25)"),
)
GAPPED_NUMBERS = Values(
    [1.0, 2.5, 2.5, None],
    [10.0, None, 1e300],
    [None, None, float("nan")],
    st.none(),
    ("share(s < 5, nulls = false)", "mean(x, 0, 9)"),
)
# No training row has a gap; in the second table protected rows have, which count as the lowest value.
HIDDEN_GAPS = Values(
    [5.0, 7.0],
    [0.0, -3.0],
    [None],
    st.none() | st.floats(-1e300, 0),
    ("mean(s, 0, 10)", "share(s > 1)", "quantile(s, 0.9)"),
)
WHOLE = Values(
    [1, 2],
    [10, 2**52, 999],
    [11],
    st.integers(10, 2**52),
    ("share(s > 5)", "mean(s, 0, 10)", "quantile(s, 0.25)"),
)
LARGE = replace(WHOLE, first=[10, 11, 2**64 - 1, 2**63], more=st.integers(10, 2**64 - 1))
# For types that can hold nulls, a question says what they count as.
MASKED = replace(WHOLE, questions=("share(s > 5, nulls = false)", "mean(s, 0, 10, nulls = 0)"))
SMALL = Values([1, 2], [10, 127, 99], [11], st.integers(10, 127), ("share(s > 5)", "mean(s, 0, 10)"))
_DAY = dt.datetime(2020, 1, 1)
MOMENTS = Values(
    [_DAY],
    [dt.datetime(2021, 1, 1), dt.datetime(2261, 1, 1, 3, 4, 5, 678901), dt.datetime(1999, 12, 31)],
    [dt.datetime(2021, 1, 2)],
    st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2260, 1, 1)).filter(lambda moment: moment != _DAY),
    ("share(s is null)", "mean(x, 0, 9)"),
)
SPANS = Values(
    [dt.timedelta(1)],
    [dt.timedelta(2), dt.timedelta(40_000, 1, 1)],
    [dt.timedelta(3)],
    st.timedeltas(dt.timedelta(0), dt.timedelta(50_000)),
    ("share(s is null)",),
)
TRUTHS = Values([True], [False], [False], st.just(False), ("share(s)", "share(x > 3, where = s)"))
MASKED_TRUTHS = replace(TRUTHS, questions=("share(s, nulls = false)",))
LISTS = Values(
    [["a"]],
    [["HIV", "b", "c"], [_SOME], [_LONG], []],
    [["c"], ["d", "d"]],
    st.lists(_TEXT, max_size=4),
    ("share(s is null)", "mean(x, 0, 9)"),
)
RECORDS = Values(
    [{"name": "a"}],
    [{"name": "HIV"}, {"name": _SOME}, {"name": _LONG}],
    [{"name": "c"}],
    st.builds(lambda name: {"name": name}, _TEXT),
    LISTS.questions,
)
BYTES = Values([b"a"], [b"HIV", b"\xff\x00", b"0" * 99], [b"c"], st.binary(max_size=40), LISTS.questions)
DECIMALS = Values(
    [decimal.Decimal("1.50")],
    [decimal.Decimal("99.25"), decimal.Decimal("12345.00")],
    [decimal.Decimal("11.75")],
    st.decimals(10, 99999, places=2),
    ("share(s > 5)", "mean(s, 0, 10)"),
)


JSON = Values(['"a"'], ['{"HIV": 1}', "[1, 2, 3]"], ["{}"], st.just("{}"), LISTS.questions)


@dataclass(frozen=True)
class Kind:
    """A kind of column: its values, the library whose table it stands in, and how it is built of values."""

    library: str
    name: str
    values: Values
    column: Callable[[list[Any]], Any]

    def __repr__(self) -> str:
        return f"{self.library} {self.name}"

    def build(self, columns: Columns) -> Any:
        """A table with this one column besides ``x`` and ``y``."""
        return TABLES[self.library]({"x": columns["x"], "y": columns["y"], "s": self.column(columns["s"])})


@dataclass(frozen=True)
class Shape:
    """A kind of table in which the values stand somewhere else than in a column."""

    name: str
    values: Values
    build: Callable[[Columns], Any]

    def __repr__(self) -> str:
        return self.name


TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "dict": lambda columns: columns | {name: np.array(columns[name]) for name in ("x", "y")},
}


@dataclass(frozen=True)
class Wide:
    """A table of a library with a column of every kind it has: ``s0``, ``s1`` and so on."""

    library: str

    @property
    def kinds(self) -> list[Kind]:
        return [kind for kind in KINDS if kind.library == self.library]

    @property
    def questions(self) -> tuple[str, ...]:
        """A question about each of the columns."""
        return tuple(
            re.sub(r"\bs\b", f"s{number}", kind.values.questions[0]) for number, kind in enumerate(self.kinds)
        )

    def build(self, which: int) -> Any:
        """The first or the second table of the pair."""
        columns: dict[str, Any] = {}
        for number, kind in enumerate(self.kinds):
            values = make_pair(kind.values)[which]
            columns |= {"x": values["x"], "y": values["y"], f"s{number}": kind.column(values["s"])}
        return TABLES[self.library](columns)


def _pandas(dtype: Any) -> Callable[[list[Any]], pd.Series]:
    return lambda values: pd.Series(values, dtype=dtype)


def _polars(dtype: Any) -> Callable[[list[Any]], pl.Series]:
    return lambda values: pl.Series(values, dtype=dtype)


def _arrow(dtype: pa.DataType) -> Callable[[list[Any]], pa.Array]:
    return lambda values: pa.array(values, dtype)


def _lists_of_words(values: list[Any]) -> pa.Array:
    lists = pa.array(values, pa.list_(pa.string()))
    return pa.ListArray.from_arrays(lists.offsets, lists.values.dictionary_encode())


def _records_of_words(values: list[Any]) -> pa.Array:
    words = pa.array([value["name"] for value in values]).dictionary_encode()
    return pa.StructArray.from_arrays([words], ["name"])


def _without_nan(values: list[Any]) -> list[Any]:
    return [None if value != value else value for value in values]


_WORDS = pa.dictionary(pa.int32(), pa.string())

KINDS = [
    Kind("pandas", "float64", NUMBERS, _pandas("float64")),
    Kind("pandas", "float64 with gaps", GAPPED_NUMBERS, _pandas("float64")),
    Kind("pandas", "float64 with hidden gaps", HIDDEN_GAPS, _pandas("float64")),
    Kind("pandas", "float32", SMALL, _pandas("float32")),
    Kind("pandas", "int64", WHOLE, _pandas("int64")),
    Kind("pandas", "int8", SMALL, _pandas("int8")),
    Kind("pandas", "uint64", LARGE, _pandas("uint64")),
    Kind("pandas", "Int64", MASKED, _pandas("Int64")),
    Kind("pandas", "Float64 with gaps", GAPPED_NUMBERS, lambda s: pd.array(_without_nan(s), "Float64")),
    Kind("pandas", "bool", TRUTHS, _pandas("bool")),
    Kind("pandas", "boolean", MASKED_TRUTHS, _pandas("boolean")),
    Kind("pandas", "object", TEXT, _pandas("object")),
    Kind("pandas", "object with gaps", GAPPED_TEXT, _pandas("object")),
    Kind("pandas", "str", TEXT, _pandas("str")),
    Kind("pandas", "str with gaps", GAPPED_TEXT, _pandas("str")),
    Kind("pandas", "string[python]", TEXT, _pandas("string[python]")),
    Kind("pandas", "string[pyarrow]", TEXT, _pandas("string[pyarrow]")),
    Kind("pandas", "arrow dictionary", CATEGORIES, _pandas(pd.ArrowDtype(_WORDS))),
    Kind("pandas", "category", CATEGORIES, _pandas("category")),
    Kind("pandas", "category with gaps", GAPPED_TEXT, _pandas("category")),
    Kind("pandas", "category of numbers", WHOLE, _pandas("category")),
    Kind("pandas", "ordered category", CATEGORIES, lambda s: pd.Categorical(s, sorted(set(s)), ordered=True)),
    Kind("pandas", "datetime", MOMENTS, _pandas("datetime64[ns]")),
    Kind(
        "pandas",
        "datetime with zone",
        MOMENTS,
        lambda s: pd.DatetimeIndex(s, dtype="M8[us]").tz_localize("UTC"),
    ),
    Kind("pandas", "timedelta", SPANS, _pandas("timedelta64[us]")),
    Kind("pandas", "period", MOMENTS, lambda s: pd.PeriodIndex(s, freq="D").array),
    Kind("pandas", "lists", LISTS, _pandas("object")),
    Kind("pandas", "records", RECORDS, _pandas("object")),
    Kind("pandas", "bytes", BYTES, _pandas("object")),
    Kind("pandas", "decimals", DECIMALS, _pandas("object")),
    Kind("polars", "String", TEXT, _polars(pl.String)),
    Kind("polars", "String with gaps", GAPPED_TEXT, _polars(pl.String)),
    Kind("polars", "Float64 with gaps", GAPPED_NUMBERS, _polars(pl.Float64)),
    Kind("polars", "Float64 with hidden gaps", HIDDEN_GAPS, _polars(pl.Float64)),
    Kind("polars", "Int64", WHOLE, _polars(pl.Int64)),
    Kind("polars", "Categorical", CATEGORIES, _polars(pl.Categorical)),
    Kind("polars", "Categorical of its own", CATEGORIES, _polars(pl.Categorical(pl.Categories("words")))),
    Kind("polars", "Enum", DECLARED, _polars(pl.Enum(["a", *_ODD_TEXT[0], *_ODD_TEXT[1]]))),
    Kind("polars", "List", LISTS, _polars(pl.List(pl.String))),
    Kind("polars", "List of Categorical", LISTS, _polars(pl.List(pl.Categorical))),
    Kind("polars", "Struct", RECORDS, _polars(pl.Struct({"name": pl.String}))),
    Kind("polars", "Binary", BYTES, _polars(pl.Binary)),
    Kind("polars", "Datetime", MOMENTS, _polars(pl.Datetime("us"))),
    Kind("polars", "Datetime with zone", MOMENTS, _polars(pl.Datetime("us", "UTC"))),
    Kind("polars", "Duration", SPANS, _polars(pl.Duration("us"))),
    Kind("polars", "Decimal", DECIMALS, _polars(pl.Decimal(10, 2))),
    Kind("pyarrow", "string", TEXT, _arrow(pa.string())),
    Kind("pyarrow", "string with gaps", GAPPED_TEXT, _arrow(pa.string())),
    Kind("pyarrow", "large_string", TEXT, _arrow(pa.large_string())),
    Kind("pyarrow", "double with gaps", GAPPED_NUMBERS, _arrow(pa.float64())),
    Kind("pyarrow", "double with hidden gaps", HIDDEN_GAPS, _arrow(pa.float64())),
    Kind("pyarrow", "dictionary", CATEGORIES, _arrow(_WORDS)),
    Kind("pyarrow", "ordered dictionary", TEXT, _arrow(pa.dictionary(pa.int8(), pa.string(), ordered=True))),
    Kind("pyarrow", "list", LISTS, _arrow(pa.list_(pa.string()))),
    Kind("pyarrow", "list_view", LISTS, _arrow(pa.list_view(pa.string()))),
    Kind("pyarrow", "list of dictionary", LISTS, _lists_of_words),
    Kind("pyarrow", "struct of dictionary", RECORDS, _records_of_words),
    Kind("pyarrow", "binary", BYTES, _arrow(pa.binary())),
    Kind("pyarrow", "json", JSON, lambda s: pa.ExtensionArray.from_storage(pa.json_(), pa.array(s))),
    Kind("pyarrow", "timestamp", MOMENTS, _arrow(pa.timestamp("us"))),
    Kind("pyarrow", "duration", SPANS, _arrow(pa.duration("us"))),
    Kind("pyarrow", "decimal", DECIMALS, _arrow(pa.decimal128(10, 2))),
    Kind("dict", "of lists", TEXT, list),
    Kind("dict", "of lists with gaps", GAPPED_TEXT, list),
    Kind("dict", "of numbers with gaps", GAPPED_NUMBERS, list),
    Kind("dict", "of numbers with hidden gaps", HIDDEN_GAPS, list),
    Kind("dict", "of texts", TEXT, np.array),
    Kind("dict", "of objects", GAPPED_TEXT, lambda s: np.array(s, dtype=object)),
    Kind("dict", "of floats", NUMBERS, np.array),
    Kind("dict", "of Series", CATEGORIES, _pandas("category")),
]


def _indexed(columns: Columns, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame({"x": columns["x"], "y": columns["y"], "s": "a"}, index=index)


def _with_attrs(columns: Columns) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    frame.attrs["longest"] = max(columns["s"], key=len)
    return frame


def _with_metadata(columns: Columns) -> pa.Table:
    metadata = {"longest": max(columns["s"], key=len), "values": str(len(set(columns["s"])))}
    table = pa.table(columns).replace_schema_metadata(metadata)
    return table.cast(table.schema.set(2, table.schema.field("s").with_metadata(metadata)))


SHAPES = [
    Shape("pandas Index", TEXT, lambda c: _indexed(c, pd.Index(c["s"], name="who"))),
    Shape("pandas CategoricalIndex", CATEGORIES, lambda c: _indexed(c, pd.CategoricalIndex(c["s"]))),
    Shape("pandas MultiIndex", TEXT, lambda c: _indexed(c, pd.MultiIndex.from_arrays([c["s"], c["y"]]))),
    Shape("pandas attrs", TEXT, _with_attrs),
    Shape(
        "pyarrow pandas metadata",
        CATEGORIES,
        lambda c: pa.Table.from_pandas(pd.DataFrame(c).astype({"s": "category"})),
    ),
    Shape("pyarrow metadata", TEXT, _with_metadata),
    Shape(
        "pyarrow chunks",
        TEXT,
        lambda c: pa.concat_tables([pa.table(c).slice(0, 100), pa.table(c).slice(100)]),
    ),
]
