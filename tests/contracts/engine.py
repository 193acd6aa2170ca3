"""What every engine must do: a suite to run against rows that live anywhere.

Derive from :class:`EngineContract` in a test module and override the fixture ``make_rows``, which turns a
dict of Python lists into rows of your engine. For a database that ibis speaks to, that is a table with these
columns, in any order of rows that comes back as it went in, opened by ``open_rows``:

    class TestMyDatabase(EngineContract):
        lacking = frozenset({"exp", "ln"})

        @pytest.fixture
        def make_rows(self):
            def make(columns):
                ...  # put the columns into a table "rows"
                return open_rows(connection.table("rows"))

            return make

``lacking`` says what your engine is known not to compute to the last bit; such questions must be refused when
they are checked. Whatever is not named there must come out exactly: the suite compares with plain Python, row
by row, with numbers summed as Python integers, and random questions with the same rows in memory.
"""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contracts.examples import thinned
from contracts.questions import Questions
from holdfast import queries
from holdfast.engines import SCALE_BITS, Sums, open_rows
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.statistics import Axis, Cells, Steps

UNIT = 2**SCALE_BITS

STEPS = [[(5_000_001, 17, 7), (9_000_000, 0, 3)], [(0, 20, 16), (0, 18, 64)], [(0, 24, 1), (0, 24, 1)]]
"""Ways to divide both values into cells: finely in a part of the range, evenly, and not at all."""
MOMENTS = [
    *("0001-01-01", "0099-12-31T23:59:59.999999", "1582-10-10T05:00:00", "1899-12-31T23:00:00"),
    *("1969-12-31T23:59:59.999999", "1970-01-01", "2000-02-29T12:30:00", "2023-12-31T23:59:59"),
    *("2024-01-01", "2024-02-29T08:00:00", "2024-12-30", "9999-12-31T23:59:59.999999"),
]
WRITTEN = [
    "",
    "a",
    "ab",
    "aXb",
    "a%b",
    "a_b",
    "a\\b",
    "a\\",
    "a\nb",
    "éb",
    "𐐀b",
    "A",
    "it's",
    ".*",
    "aab",
    "b",
]
PATTERNS = [
    "%",
    "%%",
    "_",
    "__",
    "a%",
    "%b",
    "_b",
    "a_b",
    "a__b",
    "%a%",
    "a%%b",
    "%\\%",
    "a\\%",
    "a\\_",
    ".%",
    "it's%",
]

Columns = dict[str, list[Any]]
Make = Callable[[Columns], Any]


def people(seed: int, count: int) -> Columns:
    """A table with nulls, NaN, ties, values far outside any bounds, infinities, dates and awkward texts."""
    source = random.Random(seed)
    days = [None, *(datetime.date(year, 1, 1) + datetime.timedelta(59) for year in range(2018, 2026))]
    spread = [None, math.nan, 0.0, 1.0, 1.0, 2.5, -3.0, 1e300, -1e300, math.inf, -math.inf]
    return {
        "x": [source.choice([*spread, source.gauss(0, 5), source.gauss(0, 5)]) for _ in range(count)],
        "y": [round(source.gauss(0, 5), 1) for _ in range(count)],
        "k": [source.randrange(-4, 5) for _ in range(count)],
        "b": [source.choice([True, False, None]) for _ in range(count)],
        "s": [source.choice(["F", "M", "it's", "", None, "É", "12", " -1.5e3"]) for _ in range(count)],
        "d": [source.choice(days) for _ in range(count)],
    }


def arrow(columns: Columns, whole: pa.DataType | None = None) -> pa.Table:
    """The columns as an arrow table; those of whole numbers have 32 bits unless ``whole`` is another type."""
    types = {
        **{"x": pa.float64(), "y": pa.float64(), "k": whole or pa.int32(), "b": pa.bool_()},
        **{"s": pa.string(), "d": pa.date32(), "t": pa.timestamp("us")},
    }
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def units(values: list[float | None], lo: float, hi: float, missing: float) -> list[int]:
    """The whole numbers that stand for the values, by the definition."""
    clipped = [min(max(missing if value is None else value, lo), hi) for value in values]
    return [round((value - lo) * (UNIT / (hi - lo))) for value in clipped]


def cells_by_hand(
    xs: list[int], zs: list[int] | None, groups: list[int], steps: list[tuple[int, int, int]]
) -> list[tuple[int, ...]]:
    """The cells of rows whose values are whole numbers of units, by the definition."""
    divided: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for x, z, group in zip(xs, zs or [0] * len(xs), groups, strict=True):
        places = [
            min(max(value - start, 0) >> bits, count - 1)
            for value, (start, bits, count) in zip((x, z) if zs else (x,), steps, strict=False)
        ]
        divided.setdefault((group, *places), []).append((x, z))
    return sorted(
        (
            *(key[0], len(cell), sum(x for x, _ in cell), sum(z for _, z in cell)),
            *(sum(x * x for x, _ in cell), sum(x * z for x, z in cell), sum(z * z for _, z in cell)),
            *(min(x for x, _ in cell), max(x for x, _ in cell)),
            *(min(z for _, z in cell), max(z for _, z in cell)),
        )
        for key, cell in divided.items()
    )


def _as_regex(pattern: str) -> str:
    """What a pattern means, for Python."""
    return "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)


def answer_of(rows: Any, line: str) -> Any:
    """What is read off the rows for a question, of any kind."""
    query = queries.read(line)
    checked = query.check(rows.schema)
    if query.kind != "quantile":
        return rows.sums(checked, squares=True)

    def ranks(count: int) -> list[int]:
        return [1, (count + 1) // 2, count, max(1, math.ceil(query.q * count))] if count else []

    return rows.order_statistics(checked, ranks)


class EngineContract:
    """The suite; see the module's description."""

    lacking: frozenset[str] = frozenset()

    @pytest.fixture
    def make_rows(self) -> Make:
        raise NotImplementedError("override make_rows to run the contract on an engine")

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls) -> dict[str, Any]:
        """The rows that most tests ask; nothing changes them, so a class makes them once."""
        return {}

    @pytest.fixture
    def rows(self, make_rows: Make, made: dict[str, Any], seed: int) -> Any:
        if not made:
            made["rows"] = make_rows(people(seed, 1000))
        return made["rows"]

    @pytest.fixture
    def table(self, seed: int) -> Columns:
        """The same rows as they count: NaN is null."""
        raw = people(seed, 1000)
        return {**raw, "x": [None if x is None or math.isnan(x) else x for x in raw["x"]]}

    questions = 40
    """How many random questions are asked."""

    def ask(self, rows: Any, line: str, *, squares: bool = False) -> Sums:
        return rows.sums(queries.read(line).check(rows.schema), squares=squares)

    def test_schema_and_count_are_known(self, rows: Any, table: Columns) -> None:
        assert rows.count == len(rows) == 1000
        assert rows.columns == tuple(table)
        kinds = ["number", "number", "number", "boolean", "text", "date"]
        assert [rows.schema[name].kind for name in table] == kinds

    def test_columns_with_nulls_are_found(self, rows: Any) -> None:
        assert rows.nullable_columns() == {"x", "b", "s", "d"}

    @pytest.mark.parametrize("nulls", [None, "skip", 0.75])
    @pytest.mark.parametrize(("lo", "hi"), [(0.0, 1.0), (-3.0, 7.0), (-1e151, 1e151)])
    def test_means(self, rows: Any, table: Columns, lo: float, hi: float, nulls: Any) -> None:
        query = queries.mean("x", bounds=(lo, hi), where="k > 0", nulls=nulls)
        found = rows.sums(query.check(rows.schema), squares=True)
        values = [x for x, k in zip(table["x"], table["k"], strict=True) if k > 0]
        if nulls == "skip":
            values = [x for x in values if x is not None]
        wanted = units(values, lo, hi, lo if nulls in (None, "skip") else nulls)
        outside = sum(x is not None and not lo <= x <= hi for x in values)
        assert found == Sums(len(values), sum(wanted), sum(unit * unit for unit in wanted), UNIT, outside)

    def test_values_outside_their_bounds_are_counted(self, make_rows: Make) -> None:
        """A value at a bound is inside, however near others lie to it. Rows without a value have none."""
        rows = make_rows({"y": [0.0, 1e-300, -1e-300, 7.0, 7.000001, math.inf, -math.inf, math.nan, None, 3]})
        assert self.ask(rows, "mean(y, 0, 7)", squares=True).clipped == 4
        assert self.ask(rows, "mean(y, 0, 7, nulls = skip)", squares=True).clipped == 4
        assert self.ask(rows, "mean(y + y, 0, 14)", squares=True).clipped == 4
        assert self.ask(rows, "mean(y, 0, 7)").clipped is None
        assert self.ask(rows, "share(y > 3)", squares=True).clipped is None

    def test_a_mean_is_close_to_the_mean_of_the_clipped_values(self, rows: Any, table: Columns) -> None:
        found = self.ask(rows, "mean(y, -3, 4)")
        exact = sum(Fraction(min(max(y, -3.0), 4.0)) for y in table["y"]) / 1000
        mean = -3 + 7 * Fraction(found.total, found.rows * found.scale)
        assert abs(mean - exact) <= 7 * Fraction(1, 2 ** (SCALE_BITS + 1)) * Fraction(1001, 1000)

    def test_halves_go_to_the_even_neighbour(self, make_rows: Make) -> None:
        rows = make_rows({"y": [0.5, 1.5, 2.5, 3.5, 0.25, UNIT - 0.5, -0.5, 0.49999999999999994]})
        found = self.ask(rows, f"mean(y, 0, {UNIT})", squares=True)
        wanted = [0, 2, 2, 4, 0, UNIT, 0, 0]
        assert (found.total, found.squares) == (sum(wanted), sum(unit * unit for unit in wanted))

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

    @pytest.mark.parametrize("word", ["G", "a", "it's", "É", "é", ""])
    def test_text_is_ordered_by_code_points(self, rows: Any, table: Columns, word: str) -> None:
        quoted = word.replace("'", "''")
        found = self.ask(rows, f"share(s < '{quoted}', nulls = false)")
        assert found.total == sum(s is not None and s < word for s in table["s"])

    def test_dates_are_compared(self, rows: Any, table: Columns) -> None:
        known = [d for d in table["d"] if d is not None]
        for line, wanted in {
            "share(d >= '2020-02-29', nulls = skip)": sum(d >= datetime.date(2020, 2, 29) for d in known),
            "share(d > '2020-02-29 12:00:00', nulls = skip)": sum(
                d > datetime.date(2020, 2, 29) for d in known
            ),
            "share(d in ('2021-03-01', '2022-01-01'), nulls = skip)": known.count(datetime.date(2021, 3, 1)),
        }.items():
            assert self.ask(rows, line).total == wanted, line

    def test_parts_of_dates(self, make_rows: Make) -> None:
        """Years of any size, the turn of a year, a leap day, moments before 1970 and a null."""
        moments = [datetime.datetime.fromisoformat(text) for text in MOMENTS]
        rows = make_rows({"t": [*moments, None]})
        meaning = {
            **{part: lambda t, part=part: getattr(t, part) for part in ("year", "month", "day", "hour")},
            "isodow": lambda t: t.isoweekday(),
        }
        for part, of in meaning.items():
            for text in (f"{part}(t)", f"extract({part} from t)"):
                asked = queries.quantile(text, 0.5, nulls="skip").check(rows.schema)
                count, found = rows.order_statistics(asked, lambda count: list(range(1, count + 1)))
                assert (count, found) == (len(moments), tuple(sorted(float(of(t)) for t in moments))), text

    def test_parts_of_days(self, rows: Any, table: Columns) -> None:
        known = [d for d in table["d"] if d is not None]
        for line, wanted in {
            "share(year(d) = 2020, nulls = skip)": sum(d.year == 2020 for d in known),
            "share(month(d) = 2 and day(d) = 29, nulls = skip)": sum(
                (d.month, d.day) == (2, 29) for d in known
            ),
            "share(isodow(d) >= 6, nulls = skip)": sum(d.isoweekday() >= 6 for d in known),
            "share(hour(d) = 0, nulls = skip)": len(known),
        }.items():
            assert self.ask(rows, line).total == wanted, line

    @pytest.mark.parametrize("negated", [False, True])
    def test_patterns_of_texts(self, make_rows: Make, negated: bool) -> None:
        rows = make_rows({"s": [*WRITTEN, None]})
        for pattern in PATTERNS:
            fits = [re.fullmatch(_as_regex(pattern), text, re.DOTALL) is not None for text in WRITTEN]
            quoted, word = pattern.replace("'", "''"), "not like" if negated else "like"
            found = self.ask(rows, f"share(s {word} '{quoted}', nulls = false)")
            assert found.total == sum(fit != negated for fit in fits), pattern

    @pytest.mark.parametrize("share", [0.25, pytest.param(1, marks=pytest.mark.slow)])
    def test_random_questions_have_the_answers_of_rows_in_memory(
        self, rows: Any, table: Columns, seed: int, share: float
    ) -> None:
        """The same integers, to the last one, for the same rows in DuckDB."""
        here, writer = open_rows(people(seed, 1000)), Questions(seed, self.lacking)
        for _ in range(math.ceil(share * self.questions)):
            line = writer.line()
            assert answer_of(rows, line) == answer_of(here, line), line

    def test_missing_operations_are_known(self, rows: Any) -> None:
        assert rows.schema.dialect.lacking == self.lacking

    @pytest.mark.parametrize("name", ["exp", "ln", "power", "%"])
    def test_missing_operations_are_refused_and_nothing_else(self, rows: Any, name: str) -> None:
        call = {"power": "power(y, 0.3)", "%": "y % 2"}.get(name, f"{name}(y)")
        query = queries.mean(f"1 + {call}", bounds=(0, 1), nulls=0)
        if name in self.lacking or (name == "%" and "% of fractions" in self.lacking):
            with pytest.raises(QueryRejected, match=rows.schema.dialect.engine):
                query.check(rows.schema)
        else:
            assert rows.sums(query.check(rows.schema)).rows == 1000

    def test_a_question_is_one_statement(self, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[str] = []
        execute = rows._database._execute
        monkeypatch.setattr(
            rows._database,
            "_execute",
            lambda text, *numbers: seen.append(text) or execute(text, *numbers),
        )
        self.ask(rows, "mean(x * y, 0, 7, where = k > 0, nulls = skip)", squares=True)
        self.ask(rows, "share(b and x > 1, where = s <> 'F', nulls = true)")
        rows.order_statistics(queries.read("quantile(y, 0.5)").check(rows.schema), lambda count: [1, count])
        assert len(seen) == 3

    def test_large_sums_are_exact(self, make_rows: Make) -> None:
        """Squares of 2**24 each, beyond 64-bit integers together."""
        rows = make_rows({"y": [1.0] * 40_000})
        found = self.ask(rows, "mean(y, 0, 1)", squares=True)
        assert (found.total, found.squares) == (40_000 * UNIT, 40_000 * UNIT**2)

    def test_totals_of_more_rows_than_64_bits_hold_are_the_same(
        self, rows: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        line = "mean(x, -3, 7, where = k > 0, nulls = 0.5)"
        found = self.ask(rows, line, squares=True)
        monkeypatch.setattr("holdfast.engines._sums._MOST_IN_64_BITS", 10)
        assert self.ask(rows, line, squares=True) == found

    def cells(self, rows: Any, line: str, steps: list[tuple[int, int, int]]) -> list[tuple[int, ...]]:
        return sorted(rows.cells(queries.read(line).check(rows.schema), steps))

    @pytest.mark.parametrize("steps", thinned([(steps,) for steps in STEPS], 3))
    @pytest.mark.parametrize("nulls", ["", ", nulls = skip"])
    @pytest.mark.parametrize(("lo", "hi"), [(-3.0, 7.0), (-1e59, 1e59)])
    def test_cells_of_one_value(
        self, rows: Any, table: Columns, lo: float, hi: float, nulls: str, steps: Any
    ) -> None:
        found = self.cells(rows, f"variance(x, {lo}, {hi}, where = k > 0{nulls})", steps)
        values = [x for x, k in zip(table["x"], table["k"], strict=True) if k > 0]
        if nulls:
            values = [x for x in values if x is not None]
        whole = units(values, lo, hi, lo)
        assert found == cells_by_hand(whole, None, [0] * len(whole), steps)

    @pytest.mark.parametrize("steps", thinned([(steps,) for steps in STEPS], 3))
    @pytest.mark.parametrize("nulls", ["", ", nulls = skip"])
    def test_cells_of_two_values(self, rows: Any, table: Columns, nulls: str, steps: Any) -> None:
        found = self.cells(rows, f"covariance(y, x, -3, 4, -3, 7{nulls})", steps)
        pairs = [
            pair for pair in zip(table["y"], table["x"], strict=True) if not nulls or pair[1] is not None
        ]
        ys, xs = units([y for y, _ in pairs], -3.0, 4.0, -3.0), units([x for _, x in pairs], -3.0, 7.0, -3.0)
        assert found == cells_by_hand(ys, xs, [0] * len(ys), steps)
        axes = (Axis(-3.0, 4.0, UNIT), Axis(-3.0, 7.0, UNIT))
        here = Cells.of_values(axes, (Steps(*steps[0]), Steps(*steps[1])), np.array(ys), np.array(xs))
        there = Cells.of(axes, found)
        order = np.lexsort([*there.sums.T, there.least[:, 0]]), np.lexsort([*here.sums.T, here.least[:, 0]])
        for name in ("group", "sums", "least", "greatest"):
            assert np.array_equal(getattr(there, name)[order[0]], getattr(here, name)[order[1]])

    @pytest.mark.parametrize("steps", thinned([(steps,) for steps in STEPS], 3))
    def test_cells_of_groups(self, rows: Any, table: Columns, steps: Any) -> None:
        """A row belongs to the first group whose condition holds, and to none where it is unknown."""
        line = "difference(x, k > 1, b, -3, 7, where = y < 3, nulls = skip)"
        found = self.cells(rows, line, steps)
        kept = [
            (x, 0 if k > 1 else 1)
            for x, k, b, y in zip(*(table[name] for name in "xkby"), strict=True)
            if y < 3 and x is not None and (k > 1 or b)
        ]
        whole = units([x for x, _ in kept], -3.0, 7.0, -3.0)
        assert {group for _, group in kept} == {0, 1}
        assert found == cells_by_hand(whole, None, [group for _, group in kept], steps)

    def test_cells_of_weights(self, rows: Any, table: Columns) -> None:
        steps = [(0, 20, 16), (0, 24, 1)]
        found = self.cells(rows, "mean(y, 0, 5, 0, 3, weights = abs(k), where = b)", steps)
        kept = [(y, float(abs(k))) for y, k, b in zip(*(table[name] for name in "ykb"), strict=True) if b]
        ys, ks = units([y for y, _ in kept], 0.0, 5.0, 0.0), units([k for _, k in kept], 0.0, 3.0, 0.0)
        assert found == cells_by_hand(ys, ks, [0] * len(ys), steps)

    def test_cells_of_no_rows(self, rows: Any) -> None:
        steps = [(0, 20, 16), (0, 20, 16)]
        assert self.cells(rows, "variance(x, 0, 1, where = k > 99)", steps) == []
        assert self.cells(rows, "covariance(x, y, 0, 1, 0, 1, where = k > 99)", steps) == []
        assert self.cells(rows, "difference(y, k > 99, k < -99, 0, 1)", steps) == []

    def test_cells_with_large_sums_are_exact(self, make_rows: Make) -> None:
        """Squares and products of 2**24 each, beyond 64-bit integers together."""
        rows = make_rows({"x": [1.0] * 40_000, "y": [1.0] * 39_999 + [0.0]})
        found = self.cells(rows, "covariance(x, y, 0, 1, 0, 1)", [(0, 24, 1), (0, 25, 1)])
        count, most = 40_000, 39_999
        squares = [times * UNIT**2 for times in (count, most, most)]
        assert found == [(0, count, count * UNIT, most * UNIT, *squares, UNIT, UNIT, 0, UNIT)]

    @pytest.mark.parametrize(
        "line", ["variance(x, -3, 2.5, where = k > 0)", "covariance(y, x, -3, 4, -3, 7)"]
    )
    def test_values_outside_their_bounds_are_counted_in_the_same_scan(self, rows: Any, line: str) -> None:
        query = queries.read(line)
        steps = [(0, 20, 16), (0, 20, 16)]
        cells = rows.cells(query.check(rows.schema), steps, count_clipped=True)
        assert sorted(cell[:-1] for cell in cells) == self.cells(rows, line, steps)
        outside = " or ".join(
            f"{value} < {low!r} or {value} > {high!r}"
            for value, (low, high) in zip(query.values, (query.bounds, query.other_bounds), strict=False)
        )
        where = "" if query.where is None else f", where = {query.where.text}"
        counted = self.ask(rows, f"share({outside}{where}, nulls = false)")
        assert counted.total > 0
        assert sum(cell[-1] for cell in cells) == counted.total

    UNIT_LINES = (
        "share(y > 0)",
        "share(b, nulls = skip)",
        "mean(x, -3, 7, where = y < 3, nulls = skip)",
        "covariance(y, x, -3, 4, -3, 7)",
        "difference(x, k > 1, b, -3, 7, nulls = skip)",
    )

    @pytest.mark.parametrize("line", UNIT_LINES)
    @pytest.mark.parametrize("column", ["k", "s"])
    def test_sums_of_units_are_those_of_each_cluster_alone(
        self, make_rows: Make, column: str, line: str
    ) -> None:
        """One scan gives what asking about each cluster by itself gives, for whole numbers and for texts."""
        whole = people(3, 60)
        whole["s"] = [f"cluster {k}'s" for k in whole["k"]]
        rows, here = make_rows(whole), open_rows(whole)
        together = rows.in_clusters(column).unit_sums(queries.read(line).check(rows.schema))
        alone = []
        for k in set(whole["k"]):
            query = queries.read(line)
            own = f"k = {k}" if query.where is None else f"k = {k} and ({query.where.text})"
            asked = replace(query, where=queries.Expression.read(own)).check(here.schema)
            cells = here.cells(asked, [(0, 25, 1), (0, 25, 1)])
            alone += [(*cell[:7], 0, 0, 0, 0) for cell in cells]
        assert len(together) > 5
        assert sorted(together) == sorted(alone)

    def test_sizes_of_clusters(self, rows: Any, table: Columns) -> None:
        sizes = rows.in_clusters("k").unit_sizes()
        times = [table["k"].count(k) for k in set(table["k"])]
        assert sizes.listed == tuple(sorted(times))
        assert (sizes.count, sizes.largest) == (len(times), max(times))

    def test_a_column_that_cannot_name_clusters_is_refused(self, rows: Any) -> None:
        with pytest.raises(QueryRejected, match="There is no column 'who' to name the clusters"):
            rows.in_clusters("who")
        with pytest.raises(QueryRejected, match="'y' is neither text nor whole numbers"):
            rows.in_clusters("y")
        with pytest.raises(QueryRejected, match="rows have no value of 's'"):
            rows.in_clusters("s").unit_sizes()

    def test_no_row_passes(self, rows: Any) -> None:
        assert self.ask(rows, "mean(x, 0, 1, where = k > 99)", squares=True) == Sums(0, 0, 0, UNIT, 0)
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
        for name, text in (
            ("ln", "ln(x)"),
            ("", "sqrt(x)"),
            ("", "x / k"),
            ("", "k % k"),
            ("% of fractions", "x % k"),
            ("power", "power(x, y)"),
            ("exp", "exp(x)"),
            ("", "x * x * x"),
            ("", "x * 1e-300 * 1e-300 / 1e300"),
            ("", "x - x"),
            ("", "cast(s as double)"),
            ("power", "power(k, -1)"),
            ("", "floor(x) + round(x, 3)"),
        ):
            if name in self.lacking:
                continue
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

    def test_a_bad_split_is_refused(self, rows: Any) -> None:
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
        line = "mean(x * y + sqrt(abs(x) + 1), -3, 8, where = k <> 2, nulls = 1)"
        assert len({self.ask(rows, line, squares=True) for _ in range(5)}) == 1

    def test_the_kind_of_question_is_checked(self, rows: Any) -> None:
        with pytest.raises(InvalidArgument, match="question"):
            rows.sums(queries.quantile("y", 0.5).check(rows.schema))
        with pytest.raises(InvalidArgument, match="question"):
            rows.order_statistics(queries.share("b").check(rows.schema), lambda count: [1])
