"""Widths for rows that depend keep to their limits, in a small run and in the kept one."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
width = importlib.import_module("correlated_width")

KEPT = json.loads((ROOT / "benchmarks" / "results" / "correlated_width.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("law", width.LAWS)
@pytest.mark.parametrize("kind", ["Mixing", "MarkovChain"])
def test_arms_keep_to_their_limits(kind, law):
    found = width.point(kind, law, 0.5, runs=1)
    assert found["within limit"], found
    # Below the normal radius no interval can hold with this probability.
    assert found["measured"] > 1.0, found


def test_the_kept_run_has_every_point_within_its_limit():
    assert KEPT["beyond their limit"] == []
    assert len(KEPT["points"]) == 2 * len(width.RATES) * len(width.LAWS)
    limited = [point for point in KEPT["points"] if "limit" in point]
    assert len(limited) == 8
    assert all(point["measured"] <= point["limit"] for point in limited)


def test_the_kept_arms_are_those_computed_now():
    place = {"model": "Mixing", "law": "uniform", "rate": 0.5}
    kept = next(point for point in KEPT["points"] if place.items() <= point.items())
    assert width.point(*place.values(), runs=1)["measured"] == pytest.approx(kept["measured"], rel=0.05)
    assert width.panel_once(0)["half-width"] == pytest.approx(KEPT["panel"]["half-width"], rel=0.15)


def test_the_robust_error_is_the_deviation_of_the_mean():
    means = [width.panel(seed)["wage"].mean() for seed in range(200)]
    table = width.panel(0)
    assert np.std(means) == pytest.approx(width.robust_error(table["person"], table["wage"]), rel=0.2)
    # Taken for independent, rows would claim less than half of that.
    assert table["wage"].std() / math.sqrt(len(table["wage"])) < 0.5 * np.std(means)


def test_the_normal_radius_is_that_of_the_long_run_variance():
    rng, rate, rows = np.random.default_rng(2), 0.9, 2000
    means = [width.series(rng, "uniform", rate, rows, states=False).mean() for _ in range(400)]
    z = width.normal_radius(rate, 1.0) * math.sqrt((1 - rate) / (1 + rate) * width.ROWS)
    expected = width.normal_radius(rate, math.sqrt(1 / 12)) / z * math.sqrt(width.ROWS / rows)
    assert np.std(means) == pytest.approx(expected, rel=0.15)
