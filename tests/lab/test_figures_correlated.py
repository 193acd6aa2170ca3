"""The experiment with correlated tuples: the rows follow the models they are given, and methods hold."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from holdfast.dependence import BayesianNetwork, MarkovChain
from holdfast.lab import _correlated, draw
from holdfast.lab._correlated import FAMILY, METHODS, chain_states, model_of, pedigree_states

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def small(monkeypatch):
    """The experiment with few families, a short chain, few attributes and votes."""
    monkeypatch.setattr(_correlated, "FAMILIES", 40)
    monkeypatch.setattr(_correlated, "ROWS", {"chain": 400, "pedigree": 400})
    monkeypatch.setattr(_correlated, "SIZES", (1, 3, 7))
    monkeypatch.setattr(
        _correlated,
        "run_once",
        lambda rng, correlation, run=_correlated.run_once: run(rng, correlation, attributes=60),
    )
    model_of.cache_clear()
    yield
    model_of.cache_clear()


def test_moods_follow_their_chain(rng):
    moods = np.concatenate([chain_states(rng) for _ in range(5)])
    rows = len(moods)
    changed = np.mean(moods[1:] != moods[:-1])
    assert changed == pytest.approx(_correlated.CHANGE, abs=6 * np.sqrt(_correlated.CHANGE / rows))
    assert isinstance(model_of("chain"), MarkovChain)
    assert model_of("chain").transition[0, 1] == pytest.approx(_correlated.CHANGE)
    starts = [chain_states(np.random.default_rng(k))[0] for k in range(200)]
    assert 60 < sum(starts) < 140


def carriers_by_enumeration():
    """How often each two members of a family both carry the allele, from the network's tables."""
    family = BayesianNetwork(
        {node: (parents, table) for node, (parents, table) in model_of("pedigree").model.items() if node < 10}
    )
    law = np.ones((3,) * 10)
    for node, (parents, table) in family.model.items():
        scope = [*parents, node]
        order = sorted(range(len(scope)), key=lambda k: scope[k])
        shape = [3 if row in scope else 1 for row in range(10)]
        law = law * np.transpose(table, order).reshape(shape)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    joint = np.empty((10, 10))
    for first in range(10):
        for second in range(10):
            carrying = law
            for member in {first, second}:
                carrying = np.take(carrying, [1, 2], axis=member)
            joint[first, second] = carrying.sum()
    return joint


def test_carriers_follow_their_network(small, rng, monkeypatch):
    monkeypatch.setattr(_correlated, "FAMILIES", 40_000)
    carriers = pedigree_states(rng).reshape(-1, len(FAMILY)).astype(float)
    assert carriers.mean() == pytest.approx(0.5, abs=0.005)
    expected = carriers_by_enumeration()
    assert np.diag(expected) == pytest.approx(0.5, abs=1e-12)  # half of all people carry it
    assert carriers.T @ carriers / len(carriers) == pytest.approx(expected, abs=0.02)
    assert expected[0, 1] == pytest.approx(0.25)  # the founders are not related
    assert expected[6, 7] > expected[6, 8] > 0.251  # brothers and sisters, cousins


@pytest.mark.parametrize("correlation", ["chain", "pedigree"])
def test_attributes_agree_half_of_the_time_and_their_shares_vary_more_than_independent_ones(
    small, rng, correlation
):
    ways = rng.choice([-1.0, 1.0], 50)
    shares = np.array([_correlated.draw_rows(rng, correlation, ways).shares() for _ in range(200)])
    means = shares.mean(axis=1)
    assert shares.mean() == pytest.approx(0.5, abs=0.01)
    along = (shares - 0.5) @ ways / 50  # all lean with the same states
    alone = 0.5 / np.sqrt(400 * 50)
    assert along.std() > (5 if correlation == "chain" else 2) * alone
    assert means.std() < along.std()


@pytest.mark.parametrize("correlation", ["chain", "pedigree"])
def test_methods_that_know_the_correlation_hold_and_naive_reuse_does_not(small, seed, correlation):
    runs = [_correlated.run_once(np.random.default_rng([seed, k]), correlation) for k in range(3)]
    for method in METHODS[2:]:
        assert all(votes[method][-1].held == 1.0 for votes in runs)
    assert sum(votes[METHODS[0]][-1].held for votes in runs) < 3


def test_a_figure_writes_pictures_and_its_table_from_seeded_runs(small, tmp_path):
    table = draw("correlated", tmp_path, runs=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(table.files)
    assert {row[:2] for row in table.rows} == {
        (rows, method) for rows in ("chain", "pedigree") for method in METHODS
    }
    for file in table.files:
        if file.endswith(".png"):
            assert (tmp_path / file).read_bytes().startswith(b"\x89PNG")
    runs = [_correlated._run(0, 1) for _ in range(2)]
    for method in (METHODS[0], METHODS[2]):
        assert runs[0][method] == runs[1][method]  # seeded


def test_the_numbers_on_the_page_are_those_of_the_table():
    text = (DOCS / "guides" / "correlated-rows.md").read_text(encoding="utf-8")
    with (DOCS / "figures" / "correlated.csv").open(encoding="utf-8", newline="") as file:
        last = [row for row in csv.DictReader(file) if row["votes"] == "101"]
    assert len(last) == 8
    for row in last:
        (line,) = [
            line for line in text.splitlines() if line.startswith(f"| {row['rows']} | {row['method']} |")
        ]
        assert f"{100 * float(row['reported']):.1f} % ({100 * float(row['sd']):.1f})" in line
        assert f"±{float(row['half-width']):.3f}" in line
        assert f"| {float(row['holds']):.0%} | {float(row['all hold']):.0%} |" in line
    held = {(row["rows"], row["method"]): float(row["all hold"]) for row in last}
    for rows in ("chain", "pedigree"):
        assert held[rows, METHODS[0]] < 0.1
        assert min(held[rows, method] for method in METHODS[2:]) >= 0.95
    assert held["chain", METHODS[1]] < 0.85
