"""The kept result of the gate's benchmark keeps its claims, and a small run says the same."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
gate_power = importlib.import_module("gate_power")

KEPT = json.loads((ROOT / "benchmarks" / "results" / "gate_power.json").read_text(encoding="utf-8"))


def row(tasks, candidate, expect=None):
    return next(
        row
        for row in KEPT["power"]
        if (row["tasks"], row["candidate"], row["expect"]) == (tasks, candidate, expect)
    )


@pytest.mark.parametrize(
    ("candidate", "expect", "most"),
    [
        (1, None, {100: 0.09, 300: 0.03, 1_000: 0.009}),
        (20, None, {300: 0.09, 1_000: 0.027}),
        (20, 20, {100: 0.18, 300: 0.06, 1_000: 0.018}),
    ],
)
def test_the_kept_gains_are_at_most_those_of_the_issue(candidate, expect, most):
    for tasks, gain in most.items():
        assert row(tasks, candidate, expect)["observed, 0 or 1"] <= gain + 1e-12


def test_the_product_needs_little_more():
    for tasks, gain in {100: 0.12, 300: 0.04, 1_000: 0.012}.items():
        assert row(tasks, 1)["observed, product"] <= gain + 1e-12


def test_the_kept_power_is_that_computed_now():
    assert gate_power.power() == KEPT["power"]
    fifty = KEPT["power at a gain of .05, 300 tasks, 50 candidates, by the share that differ"]
    assert gate_power.fifty_candidates() == pytest.approx(fifty)
    assert {share: round(power, 2) for share, power in fifty.items()} == {"0.06": 0.59, "0.1": 0.22}


def test_the_kept_runs_on_noise():
    noise = KEPT["noise"]
    assert (noise["runs"], noise["candidates"], noise["tasks"]) == (2_000, 300, 300)
    failed = {name: rule["runs with a wrong promotion"] for name, rule in noise["rules"].items()}
    assert failed["Gate"] <= 83
    assert failed["McNemar"] > 0.9 * 2_000
    assert failed["Ladder"] == 2_000
    assert failed["Bonferroni"] <= 100
    assert failed["EvidenceOS"] <= 100
    # What the others cost: EvidenceOS cannot certify the twentieth candidate on 1,000 tasks from a gain that
    # the gate certifies.
    assert row(1_000, 20)["observed, EvidenceOS"] > row(1_000, 20)["observed, 0 or 1"]


def test_a_small_run_says_the_same():
    rules = gate_power.noise(200, candidates=100, seed=5)
    for name in ("Gate", "Bonferroni", "EvidenceOS"):
        failed = rules[name]["runs with a wrong promotion"]
        assert stats.binom.sf(failed - 1, 200, gate_power.ERROR) > 1e-6
    assert rules["McNemar"]["share"] > 0.7
    assert rules["Ladder"]["share"] > 0.95


def test_the_rule_is_that_of_the_real_gate(seed):
    gate_power.follows_the_gate(seed, 25)
    several = [gate_power.follows_the_gate(number, 25, gain=0.3)[1] for number in range(3)]
    assert max(several) > 0
    assert any(compared["promotions"] > 1 for compared in KEPT["compared with the real gate"])


def test_the_agent_climbs_on_noise():
    """Without a gate the score on the tasks rises, though no version is better."""
    promotions = gate_power.climb(gate_power.ladder, 50, 100, seed=3)
    assert promotions.min() >= 1
    assert promotions.mean() > 3
