"""``holdfast plan``: a table for people, data for machines, a picture for both."""

from __future__ import annotations

import json

import pytest

from holdfast.planning import plan


def test_error_from_rows(holdfast, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    status, out, err = holdfast("plan", "--queries", "1000", "--rows", "100000")
    assert (status, err) == (0, "")
    found = plan(queries=1000, confidence=0.95, rows=100_000)
    assert found.headline() in out
    assert "→  transfer-gaussian" in out
    for entry in found.table:
        assert entry.name in out
        assert f"±{entry.error:.4g}" in out
    assert "not valid" in out
    assert "The rows are independent" in out


def test_rows_from_an_error(holdfast):
    status, out, _ = holdfast("plan", "--queries", "1e3", "--error", "0.1", "--surprises", "10")
    assert status == 0
    assert "→  agreed-code" in out
    assert f"{plan(queries=1000, confidence=0.95, error=0.1, surprises=10).best.rows:,}" in out


@pytest.mark.parametrize("columns", ["50", "80", "200"])
def test_the_table_fits_any_terminal(holdfast, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    status, out, _ = holdfast("plan", "--queries", "20", "--rows", "3000", "--error", "0.2")
    assert status == 0
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "questions" in out


def test_json_is_the_same_plan(holdfast):
    arguments = (
        "plan",
        "--queries",
        "50",
        "--rows",
        "20000",
        "--confidence",
        "0.9",
        "--surprises",
        "2",
        "--json",
    )
    status, out, _ = holdfast(*arguments)
    assert status == 0
    assert json.loads(out) == json.loads(
        json.dumps(plan(queries=50, confidence=0.9, rows=20_000, surprises=2).to_dict())
    )


def test_ways_to_several_replicable_means(holdfast):
    status, out, _ = holdfast("plan", "--queries", "1000", "--error", "0.05", "--rho", "0.1")
    assert status == 0
    assert "3,184,467,883 rows, one by one" in " ".join(out.split())
    places = [out.index(name, 200) for name in ("together", "through privacy", "one by one", "fresh rows")]
    assert places == sorted(places)
    status, out, _ = holdfast("plan", "--queries", "10", "--error", "0.05", "--rho", "0.1", "--json")
    assert status == 0
    assert [way["name"] for way in json.loads(out)["ways"]][:2] == ["one by one", "together"]
    status, _, err = holdfast("plan", "--queries", "10", "--rows", "1000", "--rho", "0.1")
    assert status == 2
    assert "--error" in err


def test_a_picture_is_drawn(holdfast, tmp_path):
    status, _, _ = holdfast("plan", "--queries", "20", "--rows", "3000", "--plot", str(tmp_path / "plan.png"))
    assert status == 0
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--queries", "10"], "The --rows option must be"),
        (["--rows", "10"], "--queries"),
        (["--queries", "10", "--rows", "2.5"], "The --rows option must be"),
        (["--queries", "10", "--rows", "100", "--error", "nan"], "The --error option must be"),
        (["--queries", "10", "--rows", "100", "--confidence", "95"], "The --confidence option must be"),
        (["--queries", "10", "--rows", "100", "--surprises", "11"], "The --surprises option must be"),
    ],
)
def test_bad_input_leaves_with_status_two(holdfast, arguments, words):
    status, out, err = holdfast("plan", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())


def test_bad_input_as_json(holdfast):
    status, out, _ = holdfast("plan", "--queries", "10", "--json")
    assert status == 2
    assert json.loads(out)["argument"] == "--rows"
