"""The experiments behind the figures: rows are what they claim to be, and methods do what they say."""

from __future__ import annotations

import csv
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import BudgetSpent, InvalidArgument, MissingExtra
from holdfast.lab import FIGURES, FigureTable, _holdout, _series, draw
from holdfast.lab._analyst import COLUMNS, Bands, PlainHoldout, Sample, analyse

DOCS = Path(__file__).resolve().parents[2] / "docs"


def agreements(sample):
    return np.unpackbits(sample.bits, axis=1, count=sample.rows)


def test_packed_rows_are_the_rows(rng):
    plain = rng.random((7, 45)) < 0.5
    sample = Sample.of(plain)
    assert len(sample) == 45
    assert np.array_equal(sample.shares(), plain.mean(axis=1))
    assert np.array_equal(sample.agreement(3), plain[3])
    signs = np.array([1, -1, 1], dtype=np.int8)
    chosen = np.array([0, 2, 5])
    margin = signs @ (2 * plain[chosen].astype(int) - 1)
    assert np.array_equal(sample.votes(chosen, signs), (np.sign(margin) + 1) / 2)
    even = sample.votes(chosen[:2], signs[:2])
    assert set(np.unique(even)) <= {0.0, 0.5, 1.0}
    assert np.array_equal(sample.votes(chosen[:0], signs[:0]), np.full(45, 0.5))


def test_attributes_are_fair_coins_correlated_within_groups(rng):
    sample = _holdout.draw_sample(rng, rows=4_003, attributes=201, group=5, telling=3)
    bits = 2.0 * agreements(sample) - 1
    assert bits.shape == (201, 4_003)
    assert np.array_equal(sample.shares(), agreements(sample).mean(axis=1))  # no stray bits at the end
    correlation = np.corrcoef(bits[5:200])
    group = np.arange(195) // 5
    same = (group[:, None] == group) & ~np.eye(195, dtype=bool)
    assert correlation[same].mean() == pytest.approx(0.25, abs=0.02)
    assert abs(correlation[group[:, None] != group].mean()) < 0.005
    assert sample.shares()[:3] == pytest.approx(0.53, abs=6 * 0.5 / np.sqrt(4_003))
    assert sample.shares()[3:] == pytest.approx(0.5, abs=6 * 0.5 / np.sqrt(4_003))
    plain = _holdout.draw_sample(rng, rows=800, attributes=100, group=1)
    assert abs(np.corrcoef(agreements(plain))[~np.eye(100, dtype=bool)].mean()) < 0.01


def test_the_published_number_is_reproduced(rng):
    """Dwork et al. 2015: independent attributes, no signal, 500 of 10,000 verified ones: above 63 %."""
    reported, fresh = [], []
    for _ in range(3):
        train, holdout, unseen = (_holdout.draw_sample(rng, group=1) for _ in range(3))
        votes = analyse(
            PlainHoldout(holdout), train, (500,), lambda c, s, unseen=unseen: float(unseen.votes(c, s).mean())
        )
        reported.append(votes[0].reported)
        fresh.append(votes[0].fresh)
    assert np.mean(reported) > 0.625
    assert np.std(reported) < 0.015
    assert np.mean(fresh) == pytest.approx(0.5, abs=0.015)


def test_naive_reuse_overfits_and_both_guards_do_not(seed):
    votes = _holdout.run_once(np.random.default_rng([seed, 1]), 0)
    last = {method: found[-1] for method, found in votes.items()}
    naive = last["naive reuse"]
    assert naive.low > 0.58
    assert naive.held == 0.0
    for method in ("reusable holdout", "code guard"):
        assert abs(last[method].reported - 0.5) < 0.12
        assert last[method].low <= 0.5 <= last[method].high
        assert last[method].held == 1.0
        assert last[method].training > 0.65
    assert last["code guard"].high - last["code guard"].low < 0.5


class Refuses:
    """A holdout that answers a few questions and then no more."""

    def __init__(self, inside, answers):
        self.inside, self.left = inside, answers

    def ask(self, f):
        if self.left == 0:
            raise BudgetSpent("no more")
        self.left -= 1
        return self.inside.ask(f)


def test_after_a_refusal_nothing_is_reported_and_training_continues(rng):
    train, holdout = (_holdout.draw_sample(rng, rows=400, attributes=200) for _ in range(2))
    runs = [
        analyse(Refuses(PlainHoldout(holdout), answers), train, (1, 5, 9), lambda c, s: 0.5, truth=0.5)
        for answers in (0, 12, 10**6)
    ]
    bands = Bands.of(runs)
    assert bands.answered[:, -1].tolist() == [False, False, True]
    assert (bands.training > 0.5).all()
    lines = bands.rows(0.5)
    assert len(lines) == 3
    assert len(lines[0]) == len(COLUMNS)
    assert lines[-1][COLUMNS.index("answered")] == pytest.approx(1 / 3, abs=1e-3)
    silent = Bands.of(runs[:1]).rows(None)
    assert silent[0][COLUMNS.index("reported")] is None


def test_the_sunspots_are_all_there():
    sun = _series.Sunspots.load()
    assert len(sun.numbers) == 3_120
    assert sun.numbers[[0, 2, -1]].tolist() == [58.0, 70.0, 0.8]
    assert sun.years[0] == pytest.approx(1749 + 0.5 / 12)
    assert sun.active.mean() == pytest.approx(0.5, abs=0.01)
    assert (sun.active[1:] == sun.active[:-1]).mean() > 0.85  # the sun keeps its mood


def test_quarterly_coins_agree_half_of_the_time_and_vary_more_than_independent_months(rng):
    active = _series.Sunspots.load().active[:1_560]
    shares = _series.draw_coins(rng, active, coins=4_000).shares()
    assert shares.mean() == pytest.approx(0.5, abs=0.002)
    assert shares.std() > 1.4 * 0.5 / np.sqrt(1_560)


def test_methods_that_know_the_quarters_hold(seed):
    votes = _series.run_once(np.random.default_rng([seed, 2]), _series.Sunspots.load().active)
    assert votes["naive reuse"][-1].held == 0.0
    assert votes["naive reuse"][-1].low > 0.55
    for method in ("reusable holdout, quarters", "code guard, quarters"):
        assert votes[method][-1].held == 1.0


@pytest.fixture
def small(monkeypatch):
    """Both experiments, small."""
    plain = _holdout.draw_sample
    monkeypatch.setattr(_holdout, "SIZES", (0, 3, 7))
    monkeypatch.setattr(_series, "SIZES", (1, 3))
    monkeypatch.setattr(
        _holdout,
        "run_once",
        lambda rng, telling, run=_holdout.run_once: run(
            rng, telling, lambda rng, telling: plain(rng, rows=400, attributes=300, telling=telling)
        ),
    )


@pytest.mark.parametrize("name", ["holdout", pytest.param("series", marks=pytest.mark.slow)])
def test_a_figure_writes_pictures_and_the_table_it_returns(small, tmp_path, name):
    seen = []
    table = draw(name, tmp_path, runs=2, progress=lambda done, total: seen.append((done, total)))
    total = 4 if name == "holdout" else 2
    assert seen == [(done, total) for done in range(total + 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(table.files)
    for file in table.files:
        if file.endswith(".png"):
            assert (tmp_path / file).read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert tuple(lines[0]) == table.columns
    assert len(lines) == len(table.rows) + 1
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) == table.to_dict()
    with ThreadPoolExecutor(2) as workers:
        again = draw(name, tmp_path, runs=2, workers=workers)
    names = [row[: table.groups] for row in table.rows]
    naive = [row for row, group in zip(table.rows, names, strict=True) if group[-1] == "naive reuse"]
    assert naive == [row for row in again.rows if row[table.groups - 1] == "naive reuse"]
    assert (table.runs, len(repr(table)) < 100) == (2, True)


def test_figures_are_looked_up_by_name_and_only_then_imported(tmp_path, monkeypatch):
    assert FIGURES["barriers"] == "holdfast.lab._barriers"

    class Made:
        @staticmethod
        def barriers(folder, *, runs, progress, workers):
            progress(runs, runs)
            return FigureTable("barriers", "made up", runs, ("a",), ((1,),))

    monkeypatch.setitem(sys.modules, "holdfast.lab._barriers", Made)
    assert draw("barriers", tmp_path, runs=3).rows == ((1,),)
    with pytest.raises(InvalidArgument, match="'holdout', 'series', 'correlated', 'barriers'"):
        draw("nothing", tmp_path, runs=3)
    with pytest.raises(InvalidArgument, match="runs"):
        draw("series", tmp_path, runs=0)
    with pytest.raises(InvalidArgument, match="workers"):
        draw("series", tmp_path, runs=1, workers=0)


def test_without_matplotlib_the_extra_is_named(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"holdfast-guard\[plots\]"):
        draw("series", tmp_path, runs=1)


@pytest.mark.parametrize(
    ("name", "page", "votes"),
    [("holdout", "theory/reusable-holdout.md", "500"), ("series", "guides/correlated-rows.md", "49")],
)
def test_the_numbers_on_the_page_are_those_of_the_table(name, page, votes):
    """The page shows the last size of each method; the table beside the pictures has all of them."""
    text = (DOCS / page).read_text(encoding="utf-8")
    with (DOCS / "figures" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        last = [row for row in csv.DictReader(file) if row["votes"] == votes]
    assert len(last) >= 4
    for row in last:
        group = " | ".join(row[column] for column in ("labels", "method") if column in row)
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {group} |")]
        reported = f"{100 * float(row['reported']):.1f} % ({100 * float(row['sd']):.1f})"
        assert reported in line
        assert f"±{float(row['half-width']):.3f}" in line
        assert f"| {float(row['holds']):.0%} |" in line


@pytest.mark.slow
def test_the_figure_of_the_holdout_says_what_the_documents_say(tmp_path):
    table = draw("holdout", tmp_path, runs=50)
    columns = {name: place for place, name in enumerate(table.columns)}
    last = {row[:2]: row for row in table.rows if row[columns["votes"]] == 500}
    naive = last["no signal", "naive reuse"]
    assert naive[columns["reported"]] > 0.62
    assert naive[columns["sd"]] < 0.008
    for method in ("reusable holdout", "code guard"):
        assert last["no signal", method][columns["all hold"]] >= 0.95
        assert abs(last["no signal", method][columns["reported"]] - 0.5) < 0.05
