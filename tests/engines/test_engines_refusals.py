"""A table that cannot be opened is refused by column and kind; no error, nor the error behind it, quotes a
value."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from holdfast import Guard
from holdfast.engines import open_rows
from holdfast.errors import HoldfastError, QueryRejected

SECRET = "Ms Smith, HIV+"
BROKEN = b"a\xffMs Smith, HIV+b"


def with_last(last: Any, other: Any) -> list[Any]:
    return [other] * 40 + [last]


def broken_texts() -> pa.Array:
    """Texts of which one is not valid UTF-8."""
    offsets = np.array([0, 1, len(BROKEN) - 1, len(BROKEN)], dtype=np.int32)
    broken = pa.StringArray.from_buffers(3, pa.py_buffer(offsets.tobytes()), pa.py_buffer(BROKEN))
    return pa.concat_arrays([broken, pa.array(["fine"] * 40)])


TABLES: dict[str, Any] = {
    "text among numbers": {"age": [1] * 9, "name": with_last(SECRET, 1)[-9:]},
    "text among numbers, pandas": pd.DataFrame({"name": pd.Series(with_last(SECRET, 1), dtype=object)}),
    "surrogates": {"name": with_last(SECRET + "\udc80", "ann")},
    "whole number beyond 64 bits": {"name": with_last(2**63 + 1, 1)},
    "whole number beyond 64 bits, pandas": pd.DataFrame(
        {"name": pd.Series(with_last(2**70, 1), dtype=object)}
    ),
    "huge decimal": {"name": with_last(decimal.Decimal("9" * 60), decimal.Decimal(1))},
    "long time span": pd.DataFrame({"name": np.array(with_last(2**60, 1)).astype("m8[s]")}),
    "mixed lists": {"name": with_last([SECRET], [1])},
    "broken text": pa.table({"name": broken_texts()}),
}


def everything_said(error: BaseException | None) -> str:
    """The words of an error and of every error that is reached from it."""
    words: list[str] = []
    while error is not None:
        words += [str(error), repr(error), *getattr(error, "__notes__", [])]
        error = error.__cause__ or error.__context__
    return "\n".join(words)


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("options", [{}, {"training_share": 0}], ids=["split", "whole"])
def test_errors_name_the_column_and_the_kind(case: str, options: dict[str, Any]) -> None:
    with pytest.raises(QueryRejected, match="The column 'name'") as refused:
        Guard(TABLES[case], **options)
    said = everything_said(refused.value)
    assert "Smith" not in said
    assert not any(digits in said for digits in ("9223372036854775809", "1180591620717411303424", "9999"))
    assert refused.value.__context__ is None


def test_a_parquet_file_with_broken_text_is_refused_by_column(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(pa.table({"age": [1] * 43, "name": broken_texts()}), path)
    with pytest.raises(QueryRejected, match="The column 'name' cannot be stored") as refused:
        Guard(str(path))
    assert "Smith" not in everything_said(refused.value)


@pytest.mark.parametrize(
    "content",
    [
        b"age,name\n" + b"1,ann\n" * 40 + b"2,Ms Smith" + b", HIV+" * 500_000 + b"\n",
        b"age,name\n" + b"1,ann\n" * 40 + b"2,\xff\xfeMs Smith, HIV+\n",
    ],
    ids=["long line", "other encoding"],
)
def test_a_csv_error_keeps_no_line_of_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    with pytest.raises(QueryRejected) as refused:
        Guard(str(path))
    assert "Smith" not in everything_said(refused.value)
    assert refused.value.__context__ is None


def test_a_csv_line_that_fits_no_column_is_not_quoted(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "people.csv"
    # One line has a comma more.
    path.write_text("age,name\n" + "1,ann\n" * 5_000 + f"2,{SECRET}\n" + "1,ann\n" * 50)
    with pytest.raises(duckdb.Error, match="Smith"):  # The twin: the engine's own error quotes it.
        duckdb.read_csv(str(path), columns={"age": "INT", "name": "VARCHAR"}).fetchall()
    with pytest.raises(QueryRejected, match="as CSV: its lines do not have the same columns") as refused:
        open_rows(str(path))
    assert "Smith" not in everything_said(refused.value)


def test_an_error_that_was_not_foreseen_quotes_nothing_either() -> None:
    class Fails(dict[str, Any]):
        def items(self) -> Any:
            try:
                raise ValueError(SECRET)
            except ValueError as error:
                raise RuntimeError(SECRET) from error

        __iter__ = keys = items

    class Refuses(dict[str, Any]):
        def items(self) -> Any:
            try:
                raise ValueError(SECRET)
            except ValueError:
                raise QueryRejected("The column 'name' is not good.") from None

        __iter__ = keys = items

    for table in (Fails(x=[1.0]), Refuses(x=[1.0])):
        with pytest.raises(HoldfastError) as refused:
            open_rows(table)
        assert SECRET not in everything_said(refused.value)
    # The twin: what the second table raises by itself still carries the value.
    with pytest.raises(QueryRejected, match="'name' is not good") as leaking:
        open_rows.__wrapped__(Refuses(x=[1.0]))  # type: ignore[attr-defined]
    assert SECRET in everything_said(leaking.value)


def test_a_database_that_cannot_compute_its_view_quotes_no_row(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "town.duckdb"
    with duckdb.connect(str(path)) as town:
        town.execute("CREATE TABLE people AS SELECT '1' AS age FROM range(99)")
        town.execute(f"INSERT INTO people VALUES ('{SECRET}')")
        town.execute("CREATE VIEW ages AS SELECT age::INT AS age FROM people WHERE age::INT > 0")
    with pytest.raises(QueryRejected, match="cannot be read") as refused:
        Guard(f"duckdb://{path}#ages")
    assert "Smith" not in everything_said(refused.value)
    with pytest.raises(QueryRejected, match=r"Cannot open .*nobody"):
        Guard(f"duckdb://{path}#nobody")
