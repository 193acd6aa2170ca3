"""Arms of statistics keep to their targets, in a small run and in the kept one."""

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
width = importlib.import_module("statistics_width")

KEPT = json.loads((ROOT / "benchmarks" / "results" / "statistics_width.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("nats", width.NATS)
@pytest.mark.parametrize("question", width.QUESTIONS)
def test_arms_keep_to_their_targets(question, nats):
    judged = 0
    for law in width.LAWS:
        if width.target(question, law, 10**4, nats) is None:
            continue
        found = width.point(question, law, 10**4, nats, runs=1)
        assert found["within target"], found
        # Far below the normal radius no interval of independent rows can hold: it would not be one.
        assert found["arm"] > 0.95, found
        judged += 1
    assert judged == (1 if "correlation" in question else 2 if question == "slope" else 5)


@pytest.mark.parametrize("law", ["uniform", "normal"])
@pytest.mark.parametrize("question", width.QUESTIONS)
def test_the_deviation_is_that_of_estimates(question, law):
    """σ/√n is the standard deviation of the estimate over many samples."""
    statistic, draw = width.QUESTIONS[question]
    rng, rows, estimates = np.random.default_rng(1), 400, []
    for _ in range(300):
        sample = draw(width.LAWS[law], rng, rows)
        estimates.append(statistic.estimate(width.cells_of(sample, width.steps_of(sample))))
    expected = width.deviation(question, draw(width.LAWS[law], rng, 10**5)) / math.sqrt(rows)
    assert np.std(estimates) == pytest.approx(expected, rel=0.2)


def test_every_place_beyond_its_target_is_named():
    beyond = [point for point in KEPT["points"] if point.get("within target") is False]
    assert KEPT["beyond their target"] == beyond == []
    assert len(KEPT["points"]) == len(width.QUESTIONS) * len(width.LAWS) * len(width.ROWS) * len(width.NATS)


def test_the_kept_arms_are_those_computed_now():
    place = {"question": "slope", "law": "uniform", "rows": 10**3, "nats": 4.0}
    kept = next(point for point in KEPT["points"] if place.items() <= point.items())
    found = width.point(*place.values(), KEPT["runs"])
    assert found["arm"] == pytest.approx(kept["arm"], rel=1e-3)
