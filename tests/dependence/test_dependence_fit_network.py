"""A fitted network: its region, its arrows and its tails against exact ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from holdfast.dependence import BayesianNetwork, FittedNetwork, fit
from holdfast.errors import InvalidArgument, NotEnoughRows

COPY = np.array([[0.85, 0.15], [0.3, 0.7]])


def distance(first, second):
    return float(np.abs(first - second).sum()) / 2


def in_region(model, node, truth):
    """Whether the true table of a child lies in the region of the theory page, from its formula."""
    total_rows = sum(counts[..., 0].size for parents, counts in model.tables.values() if parents)
    _, counts = model.tables[node]
    for row, law in zip(counts.reshape(-1, 2), truth.reshape(-1, 2), strict=True):
        n = int(row.sum())
        if not n:
            continue
        code = math.lgamma(1) - math.lgamma(n + 1) + sum(math.lgamma(c + 0.5) - math.lgamma(0.5) for c in row)
        ratio = code - sum(c * math.log(p) for c, p in zip(row, law, strict=True) if c)
        if ratio > math.log(total_rows / model.failure):
            return False
    return True


@pytest.mark.parametrize("truth", [COPY, np.array([[0.95, 0.05], [0.1, 0.9]]), np.full((2, 2), 0.5)])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_region_misses_a_table_no_more_often_than_it_says(truth, confidence):
    """Exactly, over all tables of counts of 12 families; and the arrow is missed only with the region."""
    families, missed_region, missed_arrow = 12, 0.0, 0.0
    true = distance(truth[0], truth[1])
    for zeros in range(families + 1):
        for a, b in itertools.product(range(zeros + 1), range(families - zeros + 1)):
            ones = families - zeros
            weight = (
                math.comb(families, zeros)
                * 0.5**families
                * math.comb(zeros, a)
                * truth[0, 0] ** a
                * truth[0, 1] ** (zeros - a)
                * math.comb(ones, b)
                * truth[1, 0] ** b
                * truth[1, 1] ** (ones - b)
            )
            counts = [[a, zeros - a], [b, ones - b]]
            model = FittedNetwork({"p": ((), [zeros, ones]), "c": (("p",), counts)}, confidence=confidence)
            held = in_region(model, "c", truth)
            missed_region += weight * (not held)
            missed_arrow += weight * (true > model.influence("p", "c"))
            assert not held or true <= model.influence("p", "c")
    assert missed_arrow <= missed_region <= 1 - confidence


def test_frequencies_taken_as_exact_miss_the_arrow_half_the_time(rng):
    """The twin of the test above."""
    missed = 0
    for _ in range(300):
        parent = rng.integers(0, 2, 200)
        child = (rng.random(200) < COPY[parent, 1]).astype(int)
        shares = [child[parent == value].mean() for value in (0, 1)]
        missed += abs(shares[0] - shares[1]) < distance(*COPY)
    assert missed > 90


def draw(rng, families):
    """Families of a grandmother, a mother and two children, the second with two parents."""
    first = rng.integers(0, 2, families)
    mother = (rng.random(families) < COPY[first, 1]).astype(int)
    child = (rng.random(families) < COPY[mother, 1]).astype(int)
    both = (rng.random(families) < 0.1 + 0.3 * first + 0.5 * child).astype(int)
    return {"first": first, "mother": mother, "child": child, "both": both}


ARROWS = [("first", "mother"), ("mother", "child"), ("first", "both"), ("child", "both")]


def test_no_network_in_the_region_has_a_stronger_arrow(rng):
    model = fit(draw(rng, 800), kind="network", network=ARROWS)
    for node, parents in {"mother": ("first",), "child": ("mother",), "both": ("child", "first")}.items():
        assert model.tables[node][0] == parents
        counts = model.tables[node][1]
        for _ in range(400):
            table = rng.dirichlet([1, 1], counts.shape[:-1]) * 0.2 + 0.8 * counts / counts.sum(
                -1, keepdims=True
            )
            if in_region(model, node, table):
                for axis, parent in enumerate(parents):
                    moved = np.moveaxis(table, axis, 0)
                    strongest = float(np.abs(moved[0] - moved[1]).sum(axis=-1).max()) / 2
                    assert strongest <= model.influence(parent, node)


def test_with_very_many_families_the_bounds_are_those_of_the_network():
    both = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.6, 0.4], [0.2, 0.8]]])
    exact = BayesianNetwork({"a": ([], [0.5, 0.5]), "b": (["a"], COPY), "c": (["a", "b"], both)})
    scale = 10**11
    b_counts = np.round(COPY * scale / 2).astype(np.int64)
    c_counts = np.round(both * b_counts[..., None]).astype(np.int64)
    b_counts = c_counts.sum(axis=2)
    tables = {"a": ((), b_counts.sum(axis=1)), "b": (("a",), b_counts), "c": (("a", "b"), c_counts)}
    model = FittedNetwork(tables).with_rows(3)
    exact_radii = {row.name: row.radius for row in exact.mean_tail_report(0, 1).rows}
    for row in model.mean_tail_report(0, 1).rows:
        assert row.radius == pytest.approx(exact_radii[row.name], rel=1e-3)
        assert row.radius >= exact_radii[row.name] * (1 - 1e-9)
    # Families are independent: four times as many halve the radius.
    four = FittedNetwork(tables).with_rows(12).mean_tail(0, 1).radius(0.05)
    assert four == pytest.approx(model.mean_tail(0, 1).radius(0.05) / 2, rel=1e-9)


def test_the_tail_holds_for_the_true_network():
    """Exactly: the number of ones among 40 families of parent and child."""
    families = 40
    counts = np.round(COPY * 2_000).astype(np.int64)
    tail = FittedNetwork({"p": ((), counts.sum(axis=1)), "c": (("p",), counts)}, 2 * families).mean_tail(0, 1)
    one = np.array([COPY[0, 0], COPY[0, 1] + COPY[1, 0], COPY[1, 1]]) / 2
    law = np.ones(1)
    for _ in range(families):
        law = np.convolve(law, one)
    off = np.abs(np.arange(len(law)) - law @ np.arange(len(law))) / (2 * families)
    for far in np.linspace(0.01, 0.5, 30):
        assert law[off > far].sum() <= 2 * math.exp(-tail.gamma(far)) + 1e-12
    for nu in (0.05, 1e-3):
        assert law[off > tail.radius(nu)].sum() <= nu


def test_structures_of_pgmpy_and_lists_are_the_same(rng):
    base = pytest.importorskip("pgmpy.base")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(draw(rng, 500))[["both", "child", "mother", "first"]]
    model = fit(frame, kind="network", network=base.DAG(ARROWS))
    again = fit(draw(rng, 1) | frame.to_dict("list"), kind="network", network=ARROWS[::-1])
    assert model.fingerprint == again.fingerprint
    assert model == again
    assert set(model.members) == {"first", "mother", "child", "both"}
    assert model.fitted_families == 500
    assert model.failure == pytest.approx(0.002)
    part = fit(frame, kind="network", network=ARROWS[:1], columns=["first", "mother"])
    assert part.members == ("first", "mother")
    assert part.fingerprint != model.fingerprint


def test_whole_families_are_set_aside(rng):
    model = fit(draw(rng, 500), kind="network", network=ARROWS).with_rows(400)
    assert model.families == 100
    parts = model.split(0.3, rng)
    by_family = parts.train.reshape(100, 4)
    assert (by_family.all(axis=1) | ~by_family.any(axis=1)).all()
    assert parts.bias == 0.0
    assert parts.protected_model.n == parts.protected.sum() == 280
    assert parts.protected_model.failure == model.failure
    assert model.fresh().assumptions[-1].startswith("No family has rows in two epochs")
    assert any("charged" in sentence for sentence in model.assumptions)
    assert "500 families" in model.description
    with pytest.raises(NotEnoughRows, match="families"):
        fit(draw(rng, 500), kind="network", network=ARROWS).with_rows(4).split(0.3, rng)


def test_what_a_network_cannot_be_fitted_to_is_named(rng):
    table = draw(rng, 50)
    for arguments, sentence in (
        ({"network": [("first", "nobody")]}, "a structure over the columns"),
        ({"network": [("first", "mother"), ("mother", "first")]}, "without a cycle"),
        ({"network": 3}, "list of arrows"),
        ({"network": None}, "list of arrows"),
        ({"network": ARROWS, "order": 2}, "states or an order"),
        ({"network": ARROWS, "confidence": 0}, "confidence"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            fit(table, kind="network", **arguments)
    with pytest.raises(InvalidArgument, match="left out where a chain"):
        fit(table, columns="first", network=ARROWS)
    with pytest.raises(InvalidArgument, match="bin the columns"):
        fit({"a": np.arange(100), "b": np.arange(100)}, kind="network", network=[("a", "b")])
    with pytest.raises(NotEnoughRows, match="families"):
        fit({"a": [], "b": []}, kind="network", network=[("a", "b")])
    model = fit(table, kind="network", network=ARROWS)
    with pytest.raises(InvalidArgument, match="whole families of 4 rows"):
        model.with_rows(10)
    with pytest.raises(InvalidArgument, match=r"with_rows\(n\)"):
        model.mean_tail(0, 1)
    with pytest.raises(InvalidArgument, match="an arrow from the parent"):
        model.influence("first", "child")


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({}, "a mapping"),
        ({"a": (("b",), [[1, 1], [1, 1]]), "b": ((), [2, 2])}, "stand before it"),
        ({"a": ((), [2, 2]), "b": (("a",), [[1, 1]])}, "counts of 'b'"),
        ({"a": ((), [2.5, 2])}, "counts of 'a'"),
        ({"a": ((), [2, -2])}, "counts of 'a'"),
        ({"a": ((), [2, 2]), "b": ((), [1, 1])}, "each of the 4 families"),
    ],
)
def test_bad_tables_are_refused(tables, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        FittedNetwork(tables)


def test_a_row_that_was_never_seen_may_be_anything():
    counts = np.zeros((2, 2, 2), dtype=np.int64)
    counts[0, 0], counts[1, 1], counts[0, 1] = [400, 100], [100, 400], [300, 200]
    ab = counts.sum(axis=2)
    tables = {"a": ((), ab.sum(axis=1)), "b": (("a",), ab), "c": (("a", "b"), counts)}
    model = FittedNetwork(tables)
    # The laws of c given (0, 0) and given (1, 0) are as far apart as the first one's region allows.
    assert 0.8 < model.influence("a", "c") < 0.9
    assert model.influence("a", "c") > distance(np.array([0.8, 0.2]), np.array([0.0, 1.0]))
