"""What every engine must do: a suite to run against rows that live anywhere.

Derive from :class:`EngineContract` in a test module and override the fixture ``make_rows``, which turns a
dict of Python lists into rows of your engine:

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def make_rows(self):
            return lambda columns: my_engine.open(columns)

The suite compares with plain Python, row by row; numbers are summed as Python integers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from holdfast import queries
from holdfast.engines import SCALE_BITS, Sums
from holdfast.errors import InvalidArgument, QueryRejected

UNIT = 2**SCALE_BITS

Columns = dict[str, list[Any]]
Make = Callable[[Columns], Any]


def people(seed: int, count: int) -> Columns:
    """A table with nulls, NaN, ties, values far outside any bounds, infinities and texts that need quotes."""
    source = random.Random(seed)
    spread = [None, math.nan, 0.0, 1.0, 1.0, 2.5, -3.0, 1e300, -1e300, math.inf, -math.inf]
    return {
        "x": [source.choice([*spread, source.gauss(0, 5), source.gauss(0, 5)]) for _ in range(count)],
        "y": [round(source.gauss(0, 5), 1) for _ in range(count)],
        "k": [source.randrange(-4, 5) for _ in range(count)],
        "b": [source.choice([True, False, None]) for _ in range(count)],
        "s": [source.choice(["F", "M", "it's", "", None]) for _ in range(count)],
    }


def units(values: list[float | None], lo: float, hi: float, missing: float) -> list[int]:
    """The whole numbers that stand for the values, by the definition."""
    clipped = [min(max(missing if value is None else value, lo), hi) for value in values]
    return [math.floor((value - lo) * (UNIT / (hi - lo)) + 0.5) for value in clipped]


class EngineContract:
    """The suite; see the module's description."""

    @pytest.fixture
    def make_rows(self) -> Make:
        raise NotImplementedError("override make_rows to run the contract on an engine")

    @pytest.fixture
    def rows(self, make_rows: Make, seed: int) -> Any:
        return make_rows(people(seed, 1000))

    @pytest.fixture
    def table(self, seed: int) -> Columns:
        """The same rows as they count: NaN is null."""
        raw = people(seed, 1000)
        return {**raw, "x": [None if x is None or math.isnan(x) else x for x in raw["x"]]}

    def ask(self, rows: Any, line: str, *, squares: bool = False) -> Sums:
        return rows.sums(queries.read(line).check(rows.schema), squares=squares)

    def test_schema_and_count_are_known(self, rows: Any, table: Columns) -> None:
        assert rows.count == len(rows) == 1000
        assert rows.columns == tuple(table)
        assert [rows.schema[name].kind for name in table] == ["number", "number", "number", "boolean", "text"]

    def test_columns_with_nulls_are_found(self, rows: Any) -> None:
        assert rows.nullable_columns() == {"x", "b", "s"}

    @pytest.mark.parametrize("nulls", [None, "skip", 0.75])
    @pytest.mark.parametrize(("lo", "hi"), [(0.0, 1.0), (-3.0, 7.0), (-1e299, 1e299)])
    def test_means(self, rows: Any, table: Columns, lo: float, hi: float, nulls: Any) -> None:
        query = queries.mean("x", bounds=(lo, hi), where="k > 0", nulls=nulls)
        found = rows.sums(query.check(rows.schema), squares=True)
        values = [x for x, k in zip(table["x"], table["k"], strict=True) if k > 0]
        if nulls == "skip":
            values = [x for x in values if x is not None]
        wanted = units(values, lo, hi, lo if nulls in (None, "skip") else nulls)
        assert found == Sums(len(values), sum(wanted), sum(unit * unit for unit in wanted), UNIT)

    def test_a_mean_is_close_to_the_mean_of_the_clipped_values(self, rows: Any, table: Columns) -> None:
        found = self.ask(rows, "mean(y, -3, 4)")
        exact = sum(Fraction(min(max(y, -3.0), 4.0)) for y in table["y"]) / 1000
        mean = -3 + 7 * Fraction(found.total, found.rows * found.scale)
        assert abs(mean - exact) <= 7 * Fraction(1, 2 ** (SCALE_BITS + 1)) * Fraction(1001, 1000)

    @pytest.mark.parametrize(("nulls", "counted"), [("false", 0), ("true", 1), ("skip", None)])
    def test_shares(self, rows: Any, table: Columns, nulls: str, counted: int | None) -> None:
        found = self.ask(rows, f"share(b, where = y > 0, nulls = {nulls})", squares=True)
        values = [b for b, y in zip(table["b"], table["y"], strict=True) if y > 0]
        known = [counted if b is None else int(b) for b in values if b is not None or counted is not None]
        assert found == Sums(len(known), sum(known), sum(known), 1)

    def test_a_null_does_not_pass_the_filter(self, rows: Any, table: Columns) -> None:
        assert self.ask(rows, "share(true, where = b)").rows == table["b"].count(True)
        assert self.ask(rows, "share(true, where = not b)").rows == table["b"].count(False)

    def test_text_is_compared_exactly(self, rows: Any, table: Columns) -> None:
        assert self.ask(rows, "share(s = 'it''s', nulls = false)").total == table["s"].count("it's")
        assert self.ask(rows, "share(s in ('f', 'F', ''), nulls = false)").total == sum(
            s in ("F", "") for s in table["s"]
        )

    def test_no_row_passes(self, rows: Any) -> None:
        assert self.ask(rows, "mean(x, 0, 1, where = k > 99)", squares=True) == Sums(0, 0, 0, UNIT)
        assert self.ask(rows, "share(b, where = k > 99, nulls = skip)") == Sums(0, 0, None, 1)

    @pytest.mark.parametrize("line", ["quantile(y, 0.5)", "quantile(x, 0.5)", "quantile(x, 0.5, nulls=skip)"])
    @pytest.mark.parametrize("where", ["", ", where = k > 0"])
    def test_order_statistics(self, rows: Any, table: Columns, line: str, where: str) -> None:
        query = queries.read(line[:-1] + where + ")")
        name = next(iter(query.expression.columns))
        values = [v for v, k in zip(table[name], table["k"], strict=True) if not where or k > 0]
        if query.nulls == "skip":
            values = [v for v in values if v is not None]
        ordered = sorted(-math.inf if v is None else v for v in values)
        ranks = [1, len(ordered), len(ordered) // 2, *range(1, len(ordered), 37)]
        seen: list[int] = []
        count, found = rows.order_statistics(
            query.check(rows.schema), lambda number: seen.append(number) or ranks
        )
        assert (count, seen) == (len(ordered), [len(ordered)])
        assert found == tuple(ordered[rank - 1] for rank in ranks)

    def test_order_statistics_of_no_rows(self, rows: Any) -> None:
        asked = queries.read("quantile(y, 0.5, where = k > 99)").check(rows.schema)
        assert rows.order_statistics(asked, lambda count: []) == (0, ())

    @pytest.mark.parametrize("rank", [0, -1, 1001, 1.5])
    def test_ranks_that_do_not_exist_are_refused(self, rows: Any, rank: Any) -> None:
        with pytest.raises(InvalidArgument, match="ranks"):
            rows.order_statistics(queries.quantile("y", 0.5).check(rows.schema), lambda count: [rank])

    def test_nothing_raises_on_awkward_values(self, rows: Any) -> None:
        for text in (
            "ln(x)",
            "sqrt(x)",
            "x / k",
            "x % k",
            "power(x, y)",
            "exp(x)",
            "x * x * x",
            "x - x",
            "cast(s as double)",
            "power(k, -1)",
            "floor(x) + round(x, 3)",
        ):
            asked = queries.mean(text, bounds=(-1, 1), nulls=0).check(rows.schema)
            assert 0 <= rows.sums(asked).total <= 1000 * UNIT
        assert self.ask(rows, "mean(x - x, -1, 1, nulls = 0)").total == 1000 * UNIT // 2

    def test_a_split_takes_every_row_once_and_keeps_the_order(
        self, rows: Any, table: Columns, rng: Any
    ) -> None:
        mask = rng.random(1000) < 0.4
        train, protected = rows.split(mask)
        for part, chosen in ((train, mask), (protected, ~mask)):
            frame = part.frame()
            assert part.count == chosen.sum() == len(frame)
            assert part.schema == rows.schema
            assert frame["y"].tolist() == [y for y, keep in zip(table["y"], chosen, strict=True) if keep]
            assert frame["k"].tolist() == [k for k, keep in zip(table["k"], chosen, strict=True) if keep]
        whole, one, other = (self.ask(part, "mean(x, -5, 5)").total for part in (rows, train, protected))
        assert whole == one + other

    def test_a_split_may_drop_rows(self, rows: Any, table: Columns) -> None:
        index = np.arange(1000)
        train, protected = rows.split(index < 300, index >= 350)
        assert (train.count, protected.count) == (300, 650)
        assert protected.frame()["y"].tolist() == table["y"][350:]

    def test_a_split_that_is_none_is_refused(self, rows: Any) -> None:
        everything = np.ones(1000, dtype=bool)
        for mask in (everything, ~everything):
            with pytest.raises(QueryRejected, match="no rows"):
                rows.split(mask)
        for bad in (everything[:-1], everything.astype(int), "mask"):
            with pytest.raises(InvalidArgument, match="train"):
                rows.split(bad)
        with pytest.raises(InvalidArgument, match="protected"):
            rows.split(np.arange(1000) < 5, everything)

    def test_a_split_part_can_be_split_again(self, rows: Any, table: Columns) -> None:
        _, rest = rows.split(np.arange(1000) < 100)
        first, second = rest.split(np.arange(900) < 100)
        assert first.frame()["y"].tolist() == table["y"][100:200]
        assert second.frame()["y"].tolist() == table["y"][200:]
        assert rest.frame()["y"].tolist() == table["y"][100:]

    def test_the_answer_is_the_same_every_time(self, rows: Any) -> None:
        line = "mean(x * y + ln(abs(x) + 1), -3, 8, where = k <> 2, nulls = 1)"
        assert len({self.ask(rows, line, squares=True) for _ in range(5)}) == 1

    def test_the_kind_of_question_is_checked(self, rows: Any) -> None:
        with pytest.raises(InvalidArgument, match="question"):
            rows.sums(queries.quantile("y", 0.5).check(rows.schema))
        with pytest.raises(InvalidArgument, match="question"):
            rows.order_statistics(queries.share("b").check(rows.schema), lambda count: [1])
