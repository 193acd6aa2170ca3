"""The benchmark of scale runs, its rows are what it says, and its slopes are right."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
machine, scale, scale_account, scale_data = (
    importlib.import_module(name) for name in ("machine", "scale", "scale_account", "scale_data")
)


def run(tmp_path, monkeypatch, *arguments: str) -> dict:
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    scale.main(["--folder", str(tmp_path / "rows"), *arguments])
    return json.loads((tmp_path / "results" / "scale.json").read_text(encoding="utf-8"))


def test_a_small_run_measures_what_the_large_one_does(tmp_path, monkeypatch, capfd):
    found = run(
        tmp_path, monkeypatch, "--rows", "1e4", "--repetitions", "1", "--only", "parquet", "questions"
    )
    assert found["parquet"]["rows"] == 10_000
    for question in ("share", "clipped mean"):
        assert found["parquet"][question]["agree"]
        assert found["parquet"][question]["ratio"] > 0
    assert 0 < found["parquet"]["peak GiB"] < 4
    assert found["questions"]["questions"] == 10


@pytest.mark.slow
def test_every_engine_is_measured(tmp_path, monkeypatch, capfd):
    pytest.importorskip("pgserver")
    pytest.importorskip("pyspark")
    sections = ("rows", "postgres", "spark")
    found = run(tmp_path, monkeypatch, "--rows", "1e5", "--repetitions", "1", "--only", *sections)
    assert [line["rows"] for line in found["rows"]["sizes"]] == [1000, 3162, 10_000, 31_623, 100_000]
    for engine in ("postgres", "spark"):
        assert all(found[engine][question]["agree"] for question in ("share", "clipped mean"))
    assert found["spark"]["jobs a question"] == {"share": 1, "clipped mean": 1}


def test_rows_depend_on_their_number_alone_and_follow_one_law(tmp_path):
    pattern = scale_data.write(tmp_path / "a", 5_000)
    written = duckdb.sql(f"SELECT * FROM '{pattern}'").fetchall()
    assert written == duckdb.sql(scale_data.select(0, 5_000)).fetchall()
    assert len(written[0]) == 5
    fresh = scale_data.training(5_000)
    assert fresh.num_rows == 20_000
    (ages, incomes, treated), *_ = duckdb.sql(
        "SELECT avg(age), avg(income), avg(treated::INT) FROM fresh WHERE region < 10"
    ).fetchall()
    assert ages == pytest.approx(53.5, abs=1)
    assert incomes == pytest.approx(40_000, abs=700)
    assert treated == pytest.approx(0.5, abs=0.025)


def test_slopes_find_the_line_that_is_there():
    def at(rows: int) -> dict:
        line = {"guard s": 0.001 + 2e-9 * rows, "plain s": 3e-9 * rows}
        return {"rows": rows, "share": line, "clipped mean": line}

    found = scale.slopes([at(10**power) for power in range(3, 9)])
    assert found["share, plain"]["slope"] == pytest.approx(1.0)
    assert found["share, guard"]["fixed ms"] == pytest.approx(1.0)
    assert found["share, guard"]["ns a row"] == pytest.approx(2.0)
    assert found["share, guard"]["slope"] < 0.6
    assert found["share, guard"]["a slope of 0.9 from"] == 10**7


def test_sizes_are_half_decades():
    assert scale.sizes_up_to(10**8) == [10**5, 316_228, 10**6, 3_162_278, 10**7, 31_622_777, 10**8]
    assert scale.sizes_up_to(10**6)[0] == 1000


KEPT = json.loads((ROOT / "benchmarks" / "results" / "scale.json").read_text(encoding="utf-8"))


def test_the_kept_results_have_every_section_and_keep_what_was_asked():
    assert set(KEPT) >= set(scale.SECTIONS)
    parquet = KEPT["parquet"]
    assert parquet["rows"] == 10**8
    assert parquet["peak GiB"] <= 4
    for question in ("share", "clipped mean"):
        assert parquet[question]["agree"]
    assert [line["rows"] for line in KEPT["rows"]["sizes"]] == scale.sizes_up_to(10**8)
    assert KEPT["questions"]["questions"] == 1000
    assert KEPT["questions"]["ratio of processor time"] < 1.2
    assert KEPT["spark"]["jobs a question"] == {"share": 1, "clipped mean": 1}


def test_shares_and_clipped_means_take_no_longer_than_is_allowed():
    for place in ("parquet", "postgres"):
        for question in ("share", "clipped mean"):
            assert KEPT[place][question]["ratio"] <= scale.ALLOWED


def test_cost_is_a_fixed_part_and_so_much_a_row():
    for question in ("share", "clipped mean"):
        line = KEPT["rows"][f"{question}, guard"]
        assert line["largest relative error of the line"] <= 0.25
        assert line["slope"] <= 1.1


def test_the_guide_shows_what_the_account_costs_as_it_was_kept():
    guide = (ROOT / "docs" / "guides" / "scale.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in guide.splitlines() if "|" in line]
    shown = {(line[0], line[1]): line[2:] for line in cells if len(line) == 4 and line[0].startswith("10")}
    powers = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

    def written(count: int) -> str:
        digits = str(count)
        return f"10{str(len(digits) - 1).translate(powers)}" if digits.strip("0") == "1" else f"{count:,}"

    for line in KEPT["account"]:
        nats, answered = shown[written(line["rows"]), written(line["training rows"])]
        assert float(nats) == pytest.approx(line["nats a question"], abs=0.005)
        expected = f"{line['questions answered']:,}" if line["refused"] else "more than 1,000"
        assert answered == expected


def test_what_the_account_costs_is_computed_as_it_was_kept():
    small = next(line for line in KEPT["account"] if line["rows"] == 10**12 and line["refused"])
    assert scale_account.ask_until_refused(small["rows"], small["training rows"]) == small
