"""The kept runs: nobody valid beyond a certificate, naive reuse broken, nothing left unsaid."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
report = importlib.import_module("report")

FOLDER = ROOT / "docs" / "benchmarks"
KEPT, GRID = (
    json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("attacked", "certified")
)


def test_no_valid_method_is_kept_beyond_its_certificate():
    assert KEPT["valid methods beyond their certificate"] == []
    judged = [line for line in KEPT["points"] if line["valid"] and "beyond" in line]
    assert all(line["beyond, at least"] <= KEPT["beta"] for line in judged)
    assert len(judged) >= 500


def test_every_pair_was_run_often_enough_or_a_reason_is_kept():
    for attack in KEPT["attacks"]:
        spared = set(attack["not against"])
        lines = [line for line in KEPT["points"] if line["attack"] == attack["name"]]
        assert {line["method"] for line in lines} | spared == {method["name"] for method in KEPT["methods"]}
        for line in lines:
            if not line["runs"]:
                assert line["why"] == "asked one by one" or line["certified"] >= 0.5
                continue
            asked = line["runs"] * line["queries"]
            few = line["method"] in ("code", "board") and asked > attack["asked one by one, at most"] // 2
            small = line["rows"] * line["queries"] <= 10**7 and not few
            assert line["runs"] >= (100 if small else 20)


def test_naive_reuse_is_kept_failing_by_every_attack_that_seeks_error():
    broken = {
        line["attack"]
        for line in KEPT["points"]
        if line["method"] == "naive reuse" and line["beyond, at least"] > KEPT["beta"]
    }
    assert broken >= {"sign", "linear classifier", "boosting", "fingerprint", "chain"}


def test_the_page_is_made_of_the_kept_numbers():
    written = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert written == report.page(GRID, KEPT), "run `python benchmarks/report.py`"
