"""The grid says what its parts say, names every place where a peer is ahead, and runs from a checkout."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import holdfast
from holdfast.cli import main
from holdfast.strategies import TRAINING_SHARES, choose_strategy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
certified = importlib.import_module("certified")

KEPT = json.loads((ROOT / "docs" / "benchmarks" / "certified.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("place", [(10**4, 1000, "no surprise"), (10**5, 100, "any surprises")])
def test_the_kept_numbers_are_those_computed_now(place):
    kept = next(p for p in KEPT["points"] if (p["rows"], p["queries"], p["promise"]) == place)
    found = certified.point(*place)
    assert found["error"] == pytest.approx(kept["error"], rel=1e-6)
    assert found["peers"] == pytest.approx(kept["peers"], rel=1e-6)
    assert found["limit"] < found["error"] <= found["peer error"]


def test_every_place_where_a_peer_is_ahead_is_named():
    ahead = [p for p in KEPT["points"] if p["error"] > p["peer error"] + certified.SLACK]
    named = [(p["promise"], p["rows"], p["queries"]) for p in KEPT["behind a peer"]]
    assert [(p["promise"], p["rows"], p["queries"]) for p in ahead] == named
    assert len(KEPT["points"]) == 72


def test_our_best_error_is_at_most_the_best_peers_everywhere():
    assert KEPT["behind a peer"] == []
    for place in KEPT["points"]:
        assert place["error"] <= place["peer error"] + certified.SLACK
        assert place["ratio"] == pytest.approx(place["error"] / place["peer error"], rel=1e-6)
    ties = [place for place in KEPT["points"] if place["ratio"] > 1 - 1e-6]
    assert all(place["queries"] == 1 or place["error"] == certified.NOTHING for place in ties)


@pytest.mark.parametrize("promise", certified.PROMISES)
def test_the_errors_of_the_grid_are_those_a_guard_keeps(promise):
    """The strategy that a guard makes of the same rows, questions and surprises has the kept error."""
    stated = certified.PROMISES[promise]
    seen = 0
    for place in KEPT["points"]:
        rows, queries = place["rows"], place["queries"]
        if place["promise"] != promise or place["best"] not in ("agreed-code", "grid-code"):
            continue
        training = round(TRAINING_SHARES.get(place["best"], 0.0) * rows)
        setup = SimpleNamespace(protected=_part(rows - training), training=_part(training), model=None)
        surprises = None if place["best"] == "grid-code" else min(stated, queries)
        strategy = choose_strategy(
            place["best"],
            setup,
            failure=certified.BETA,
            error=None,
            queries=queries,
            surprises=surprises,
        )
        assert min(strategy.schedule.error, certified.NOTHING) == pytest.approx(place["error"], rel=1e-6)
        seen += 1
    assert seen > 1


def _part(rows):
    return SimpleNamespace(rows=SimpleNamespace(count=rows)) if rows else None


def test_on_chains_ours_is_at_most_the_one_theorem_there_is():
    for line in KEPT["chains"]:
        assert line["error"] <= line["Kontorovich et al."]


def test_without_a_checkout_it_says_so_kindly(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(holdfast, "__file__", str(tmp_path / "a" / "b" / "holdfast" / "__init__.py"))
    with pytest.raises(SystemExit) as left:
        main(["bench"])
    assert left.value.code == 2
    assert "clone the repository" in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
