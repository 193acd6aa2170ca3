"""The figure of the barriers: what it measures is right, and the slopes come out with their intervals."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from holdfast.barriers import droplet
from holdfast.barriers._marginals import rounded_means
from holdfast.intervals import clopper_pearson
from holdfast.lab import _barriers, draw
from holdfast.lab._barriers import column_means, excess, mismatch, rows_needed, width_for
from holdfast.replicable import Tape
from holdfast.stability import DP, Replicability


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(_barriers, "COLUMNS", (32, 128, 512))
    monkeypatch.setattr(_barriers, "TRIALS", 60)


def test_the_table_and_the_pictures_are_written(small, tmp_path):
    seen = []
    table = draw("barriers", tmp_path, runs=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(table.files)
    assert len(table.rows) == 2 * 4 * 3
    with (tmp_path / "barriers.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        assert float(line["low"]) <= float(line["rows"]) <= float(line["high"])
        assert float(line["rows"]) < int(line["proven"])
        if line["too few"]:
            assert int(line["too few"]) < float(line["rows"])
    assert json.loads((tmp_path / "barriers.json").read_text(encoding="utf-8"))["runs"] == 2
    assert any("droplets over private" in note for note in table.notes)


def test_one_run_has_no_interval(small, tmp_path, monkeypatch):
    monkeypatch.setattr(_barriers, "TRIALS", 20)
    table = draw("barriers", tmp_path, runs=1)
    assert all(row[4] is None and row[5] is None for row in table.rows)


def assert_slopes(found, tolerance):
    """½ for privacy, 1 for droplets, 2 for a grid, hardly any for plain means; a quadratic gap."""
    for problem, low_private in (("marginals", 0.45), ("signs", 0.3)):
        private = _barriers.slopes(found[problem, "private"])
        replicable = _barriers.slopes(found[problem, "droplets"])
        assert low_private < private.mean() < 0.6
        assert 0.75 - tolerance < replicable.mean() < 1.15 + tolerance
        assert 1.7 < _barriers.slopes(found[problem, "grid"]).mean() < 2.05
        assert -0.6 < _barriers.slopes(found[problem, "plain"]).mean() < 0.25
        low, high = _barriers.interval(_barriers.gap(found, problem))
        assert low > 1.5 - tolerance
        assert high < 3.0 + tolerance


def test_slopes_show_the_quadratic_gap(small):
    assert_slopes(_barriers.measure(6, lambda done, total: None), tolerance=0.3)


@pytest.mark.slow
def test_slopes_show_the_quadratic_gap_at_full_size():
    found = _barriers.measure(12, lambda done, total: None)
    assert_slopes(found, tolerance=0.0)
    for name, slope, reach in (("private", 0.53, 0.03), ("droplets", 1.05, 0.08), ("grid", 2.0, 0.02)):
        low, high = _barriers.interval(_barriers.slopes(found["marginals", name]))
        assert slope - reach < low < high < slope + reach


def test_the_grid_mismatch_is_that_of_the_algorithm(seed):
    rng = np.random.default_rng(seed)
    one, two = (column_means(rng, 1500, 6, 400, 0.2) for _ in range(2))
    width = 1.5
    expected = mismatch(one - two, width)
    differ = sum(
        not np.array_equal(*(rounded_means(m[k], width, "rounding", Tape(f"{seed}-{k}")) for m in (one, two)))
        for k in range(1500)
    )
    inside = clopper_pearson(differ, 1500, 9.0)
    assert inside.low <= expected <= inside.high


def test_the_droplet_mismatch_is_that_of_the_algorithm(seed):
    rng = np.random.default_rng(seed)
    pairs, d, width = 1500, 5, 1.0
    apart = rng.standard_normal((pairs, d)) * 0.04
    tangents = np.tan(np.pi * _barriers._droplet_errors(rng, apart.shape))
    expected = mismatch(apart, width, tangents)
    differ = sum(
        not np.array_equal(droplet(np.zeros(d), width, tape), droplet(shift, width, tape))
        for shift, tape in ((apart[k], Tape(f"{seed}-{k}")) for k in range(pairs))
    )
    inside = clopper_pearson(differ, pairs, 9.0)
    assert inside.low <= 1.1 * expected
    assert inside.high >= 0.8 * expected


@pytest.mark.parametrize("method", ["rounding", "droplets"])
def test_the_width_gives_the_mismatch_it_is_asked_for(method, seed):
    rng = np.random.default_rng(seed)
    apart = rng.standard_normal((400, 50)) * 0.01
    width = width_for(apart, 0.1, method, np.random.default_rng(seed))
    tangents = None
    if method == "droplets":
        tangents = np.tan(np.pi * _barriers._droplet_errors(np.random.default_rng(seed), apart.shape))
    assert mismatch(apart, width, tangents) == pytest.approx(0.1, rel=1e-3)
    assert mismatch(apart, width / 2.0, tangents) > 0.15


@pytest.mark.parametrize("stability", [None, DP(1.0, 1e-6), Replicability(0.1)])
@pytest.mark.parametrize("problem", ["marginals", "signs"])
def test_at_the_rows_found_the_error_is_the_accuracy(problem, stability, seed):
    rows = rows_needed(problem, stability, "rounding", 100, trials=400, seed=[seed, 1])
    found = excess(problem, stability, "rounding", 100, round(rows), 4000, [seed, 2])
    assert found == pytest.approx(1.0, abs=0.12)
    assert excess(problem, stability, "rounding", 100, round(rows / 3), 1000, [seed, 3]) > 1.2


def test_a_slope_is_recovered():
    logs = 1.5 * np.log(_barriers.COLUMNS)[None, :] + np.array([[0.0], [2.0]])
    assert _barriers.slopes(logs) == pytest.approx([1.5, 1.5])
