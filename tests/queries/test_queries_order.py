"""Ordered categories are compared in their order, and only where that order is public."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from holdfast import Guard, queries
from holdfast.engines import open_rows
from holdfast.errors import InvalidArgument, QueryRejected

ORDER = ["small", "medium", "large", "huge"]  # as text: huge, large, medium, small
VALUES = [ORDER[place % 4] if place % 7 else None for place in range(56)]


def tables() -> dict[str, Any]:
    encoded = pa.array([None if value is None else ORDER.index(value) for value in VALUES], pa.int8())
    return {
        "pandas": pd.DataFrame({"size": pd.Categorical(VALUES, categories=ORDER, ordered=True)}),
        "polars": pl.DataFrame({"size": pl.Series(VALUES, dtype=pl.Enum(ORDER))}),
        "arrow": pa.table({"size": pa.DictionaryArray.from_arrays(encoded, pa.array(ORDER), ordered=True)}),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("category", ORDER)
def test_comparisons_follow_the_order(kind: str, op: str, category: str) -> None:
    rows = open_rows(tables()[kind], public_categories=True)
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[op]
    ranks = np.array([ORDER.index(value) for value in VALUES if value is not None])
    for text, expected in (
        (f"size {op} '{category}'", compare(ranks, ORDER.index(category)).sum()),
        (f"'{category}' {op} size", compare(ORDER.index(category), ranks).sum()),
    ):
        checked = queries.share(text, nulls=False).check(rows.schema)
        assert rows.sums(checked).total == expected


def test_an_order_that_is_not_public_is_not_used() -> None:
    schema = open_rows(tables()["pandas"]).schema
    with pytest.raises(QueryRejected, match=r"public_categories=\['size'\]"):
        queries.share("size < 'large'", nulls=False).check(schema)
    with pytest.raises(QueryRejected, match="write a column on one side"):
        queries.share("coalesce(size, 'small') < 'large'").check(schema)
    assert queries.share("size = 'large' or size in ('small')", nulls=False).check(schema)


def test_only_categories_are_compared_with() -> None:
    schema = open_rows(tables()["pandas"], public_categories=["size"]).schema
    with pytest.raises(QueryRejected, match="in order they are small, medium, large, huge"):
        queries.share("size < 'tiny'", nulls=False).check(schema)


def test_plain_text_is_compared_as_text() -> None:
    unordered = pd.DataFrame({"size": pd.Categorical(["b", "a", "c", "a"])})
    rows = open_rows(unordered)
    assert rows.sums(queries.share("size < 'b'").check(rows.schema)).total == 2


def test_the_account_and_the_certificate_say_what_is_public() -> None:
    guard = Guard(tables()["pandas"], public_categories=True)
    assert any("'size'" in assumption for assumption in guard.certificate.assumed)
    assert list(guard.train["size"].cat.categories) == ORDER
    with pytest.raises(InvalidArgument, match="names of columns that declare categories"):
        Guard(tables()["pandas"], public_categories=["colour"])
