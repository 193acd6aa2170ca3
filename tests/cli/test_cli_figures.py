"""``holdfast figures``: which are drawn, where to, and how it says no."""

from __future__ import annotations

import json
import sys

import pytest

from holdfast.lab import FigureTable


@pytest.fixture(autouse=True)
def made_up(tmp_path, monkeypatch):
    """Every figure is a table of two groups, written at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def maker(name):
        def figure(folder, *, runs, progress, workers):
            progress(runs, runs)
            rows = (("one", 1, 0.25), ("two", 2, None))
            table = FigureTable(
                name,
                f"About {name}",
                runs,
                ("method", "votes", "share"),
                rows,
                1,
                ("A note.",),
                (f"{name}.csv",),
            )
            table.write(folder)
            return table

        return type(name, (), {name: staticmethod(figure)})

    for name in ("holdout", "series", "correlated", "barriers"):
        monkeypatch.setitem(sys.modules, f"holdfast.lab._{name}", maker(name))
    return tmp_path


def test_tables_are_shown_by_group_and_files_are_named(holdfast, made_up):
    status, out, _ = holdfast("figures", "series", "--runs", "3", "--output", "drawn")
    assert status == 0
    for said in ("About series (3 runs)", "one", "two", "0.25", "–", "A note.", "drawn/series.csv"):
        assert said in out
    assert "holdout" not in out
    assert (made_up / "drawn" / "series.csv").is_file()


def test_without_a_name_all_are_drawn_and_json_is_one_document(holdfast, made_up):
    status, out, _ = holdfast("figures", "--json", "--runs", "2")
    assert status == 0
    tables = json.loads(out)
    assert [table["name"] for table in tables] == ["holdout", "series", "correlated", "barriers"]
    assert tables[0]["rows"] == [["one", 1, 0.25], ["two", 2, None]]
    assert sorted(path.name for path in (made_up / "holdfast-figures").glob("*.csv")) == [
        "barriers.csv",
        "correlated.csv",
        "holdout.csv",
        "series.csv",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "'holdout', 'series', 'correlated', 'barriers'"),
        (["--runs", "0"], "runs"),
        (["--runs", "many"], "many"),
        (["--output", "taken/inside"], "Cannot write to taken/inside"),
    ],
)
def test_bad_input_leaves_with_status_two(holdfast, made_up, arguments, says):
    (made_up / "taken").write_text("a file")
    status, _, err = holdfast("figures", *arguments)
    assert status == 2
    assert says in " ".join(err.split())
    assert not (made_up / "holdfast-figures").exists()


def test_help_names_the_figures(holdfast):
    status, out, _ = holdfast("figures", "--help")
    assert status == 0
    assert "holdout|series|correlated|barriers" in out
