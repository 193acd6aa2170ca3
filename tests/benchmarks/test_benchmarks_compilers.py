"""The kept rows and times of the compilers are those of the code, and the claimed speed was measured."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PAGE = (BENCHMARKS.parent / "docs" / "theory" / "reductions-more.md").read_text(encoding="utf-8")


def kept(name):
    return json.loads((BENCHMARKS / "results" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def compiler_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "compiler_rows", raising=False)
    return importlib.import_module("compiler_rows")


def test_the_kept_rows_are_those_of_the_compilers(compiler_rows, monkeypatch):
    table = kept("compiler_rows")["subsets"]
    for outcomes, row in table.items():
        shown = [f"{row[name]:,}" for name in ("agnostic before", "agnostic now", "agnostic at least")]
        assert f"| {int(outcomes):,} | {' | '.join(shown)} |" in PAGE
        assert row["agnostic at least"] < row["agnostic now"] <= row["agnostic before"]
        assert row["smaller delta now"] <= row["smaller delta before"]
    few = {name: compiler_rows.BEFORE_SUBSETS[name] for name in (2, 10_000)}
    monkeypatch.setattr(compiler_rows, "BEFORE_SUBSETS", few)
    assert compiler_rows.compared_subsets() == {name: table[name] for name in ("2", "10000")}


def test_without_subsets_the_rows_are_those_from_before(compiler_rows, monkeypatch):
    """Not only remembered: the plan without subsets still asks for them."""
    monkeypatch.setattr("holdfast.reductions._mismatch._MOST_IN_BATCHES", 1)
    many = compiler_rows.learner(1000)
    assert compiler_rows.agnostic_rows(many) == compiler_rows.BEFORE_SUBSETS[1000][0]


def test_laws_by_counts_were_at_least_ten_times_faster():
    assert all(row["times faster"] >= 10 for row in kept("law_speed")["seconds"].values())
