"""Dependency graphs: how they are read, coloured, bounded and cut."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from dependence_oracles import worst_ratio
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_matrix

from holdfast.dependence import DependencyGraph, Independent
from holdfast.errors import InvalidArgument

VALID = 1 + 1e-12


def cycle(n):
    return [(i, (i + 1) % n) for i in range(n)]


def complete(n):
    return list(itertools.combinations(range(n), 2))


PETERSEN = [*cycle(5), *((i, i + 5) for i in range(5)), *((5 + i, 5 + (i + 2) % 5) for i in range(5))]


def mycielski(n, edges):
    doubled = [(i, n + j) for a, b in edges for i, j in ((a, b), (b, a))]
    return 2 * n + 1, [*edges, *doubled, *((n + i, 2 * n) for i in range(n))]


def chromatic(edges, n):
    return DependencyGraph(edges, n=n).chromatic


@pytest.mark.parametrize("n", [3, 5, 7, 9, 21, 31])
def test_odd_cycles(n):
    found = chromatic(cycle(n), n)
    assert found.method == "exact"
    assert found.value == pytest.approx(2 + 1 / (n // 2), rel=1e-9)


@pytest.mark.parametrize(
    ("edges", "n", "value"),
    [
        (PETERSEN, 10, 2.5),
        (complete(1), 1, 1),
        (complete(2), 2, 2),
        (complete(9), 9, 9),
        (cycle(8), 8, 2),
        ([], 7, 1),
        (mycielski(5, cycle(5))[1], 11, 2.9),
        ([*cycle(5), *((i + 5, j + 5) for i, j in complete(4))], 12, 4),
    ],
)
def test_known_graphs(edges, n, value):
    found = chromatic(edges, n)
    assert (found.value, found.method) == (pytest.approx(value, rel=1e-9), "exact")
    assert found.value >= value * (1 - 1e-15)


def brute_force(n, edges):
    """The linear program over all independent sets, written down without any cleverness."""
    joined = {frozenset(edge) for edge in edges}
    sets = [
        group
        for size in range(1, n + 1)
        for group in itertools.combinations(range(n), size)
        if not any(frozenset(pair) in joined for pair in itertools.combinations(group, 2))
    ]
    cover = np.array([[row in group for group in sets] for row in range(n)], dtype=float)
    return linprog(np.ones(len(sets)), A_ub=-cover, b_ub=-np.ones(n)).fun


def test_random_small_graphs_equal_the_brute_force_program(rng):
    for _ in range(60):
        n = int(rng.integers(2, 9))
        edges = [pair for pair in complete(n) if rng.random() < rng.random()]
        assert chromatic(edges, n).value == pytest.approx(brute_force(n, edges), rel=1e-7)


def test_large_graphs_get_a_safe_bound_and_say_which(rng):
    n = 400
    edges = rng.integers(0, n, size=(6000, 2))
    found = chromatic(edges, n)
    degree = np.bincount(DependencyGraph(edges, n=n).edges.ravel(), minlength=n).max()
    assert found.method == "greedy colouring"
    assert found.value <= degree + 1
    assert sum(found.class_sizes) == n
    # Beyond three million rows and edges nothing is coloured.
    crude = chromatic(edges, 3_000_000)
    assert (crude.value, crude.method, crude.class_sizes) == (degree + 1, "maximum degree + 1", ())


def test_the_bound_is_never_below_the_truth_where_the_program_is_given_up():
    # These cycles have more than 20,000 maximal groups.
    for n in (39, 45, 99):
        found = chromatic(cycle(n), n)
        assert (found.value, found.method) == (3, "greedy colouring")
    # A chain of Petersen graphs is a component of more than 120 rows.
    edges = [(10 * copy + i, 10 * copy + j) for copy in range(13) for i, j in PETERSEN]
    edges += [(10 * copy, 10 * copy + 10) for copy in range(12)]
    found = chromatic(edges, 130)
    assert found.value >= 2.5
    assert found.method == "greedy colouring"


def can_be_parted(near, sizes, row=0, groups=None):
    """Whether the rows can be parted into groups of these sizes in which no two are neighbours."""
    groups = [set() for _ in sizes] if groups is None else groups
    if row == len(near):
        return True
    tried = set()
    for group, size in zip(groups, sizes, strict=True):
        if len(group) == size or group & near[row] or (not group and size in tried):
            continue
        if not group:
            tried.add(size)
        group.add(row)
        if can_be_parted(near, sizes, row + 1, groups):
            return True
        group.remove(row)
    return False


def test_a_colouring_never_joins_neighbours(rng):
    coloured = 0
    for _ in range(150):
        n = int(rng.integers(1, 14))
        share = rng.choice([0.3, 0.6])
        edges = [pair for pair in complete(n) if rng.random() < share]
        near = [{j for edge in edges if i in edge for j in edge if j != i} for i in range(n)]
        sizes = chromatic(edges, n).class_sizes
        assert sum(sizes) == n
        assert can_be_parted(near, sizes)
        coloured += len(sizes) > 2
    assert coloured > 50
    # Of a complete graph between parts, only the parts themselves are groups.
    for _ in range(20):
        parts = sorted(rng.integers(1, 12, rng.integers(2, 5)).tolist())
        ends = np.cumsum(parts)
        owner = rng.permutation(np.searchsorted(ends, np.arange(ends[-1]), side="right"))
        edges = [(i, j) for i, j in complete(int(ends[-1])) if owner[i] != owner[j]]
        assert sorted(chromatic(edges, int(ends[-1])).class_sizes) == parts


def test_a_forest_takes_two_colours_and_many_components_are_quick():
    n = 20_000
    start = time.perf_counter()
    five_cycles = [(5 * block + i, 5 * block + j) for block in range(n // 5) for i, j in cycle(5)]
    assert chromatic(five_cycles, n).value == pytest.approx(2.5, rel=1e-9)
    tree = [(i, (i - 1) // 2) for i in range(1, n)]
    assert chromatic(tree, n).value == 2
    assert time.perf_counter() - start < 10


class Nodes:
    """As little of a graph library's object as is needed."""

    def __init__(self, nodes, edges, call):
        self.nodes = (lambda: nodes) if call else nodes
        self.edges = (lambda: edges) if call else edges


def test_every_way_to_write_a_graph_gives_the_same_graph():
    reference = DependencyGraph([(0, 1), (1, 3)], n=5)
    matrix = np.zeros((5, 5))
    matrix[0, 1] = matrix[3, 1] = 1
    same = [
        DependencyGraph([(1, 0), (3, 1), (1, 3), (2, 2)], n=5),
        DependencyGraph(np.array([[0, 1], [1, 3]]), n=5),
        DependencyGraph({0: [1], 1: [0, 3], 2: [], 3: [], 4: ()}),
        DependencyGraph({1: {0, 3}}, n=5),
        DependencyGraph(matrix),
        DependencyGraph(matrix != 0, n=5),
        DependencyGraph(csr_matrix(matrix)),
        DependencyGraph(coo_array(matrix)),
        DependencyGraph(Nodes(range(5), [(0, 1), (1, 3)], call=False)),
        DependencyGraph(Nodes([4, 3, 2, 1, 0], [(0, 1, "key"), (1, 3, "key")], call=True)),
    ]
    for graph in same:
        assert graph == reference
        assert hash(graph) == hash(reference)
    assert DependencyGraph([(0, 2), (1, 3)], n=5) != reference


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("graph", lambda: DependencyGraph([(0, 1)])),
        ("graph", lambda: DependencyGraph([(0, 5)], n=5)),
        ("graph", lambda: DependencyGraph([(-1, 2)], n=5)),
        ("graph", lambda: DependencyGraph([(0, 1, 2)], n=5)),
        ("graph", lambda: DependencyGraph([(0.5, 1.0)], n=5)),
        ("graph", lambda: DependencyGraph([(0, 1), (2,)], n=5)),
        ("graph", lambda: DependencyGraph("ab", n=5)),
        ("graph", lambda: DependencyGraph(None)),
        ("graph", lambda: DependencyGraph({"a": ["b"], "b": []})),
        ("graph", lambda: DependencyGraph({0: [1]})),
        ("graph", lambda: DependencyGraph(np.eye(3), n=4)),
        ("graph", lambda: DependencyGraph(np.full((2, 2), math.nan))),
        ("graph", lambda: DependencyGraph(csr_matrix(np.ones((2, 3))))),
        ("graph", lambda: DependencyGraph(np.zeros((0, 0)))),
        ("n", lambda: DependencyGraph([], n=0)),
        ("graph", lambda: DependencyGraph(Nodes(["x", "y"], [], call=False))),
    ],
)
def test_edges_that_do_not_fit_the_rows_are_refused(argument, bad):
    with pytest.raises(InvalidArgument) as refused:
        bad()
    assert refused.value.argument == argument


def clique_and_rest(clique, rest):
    """A clique of equal fair coins beside independent ones: the law of the mean, and the graph."""
    counts = np.arange(rest + 1)
    weights = np.array([math.comb(rest, k) for k in counts]) * 0.5 ** (rest + 1)
    values = np.concatenate([counts, counts + clique]) / (clique + rest)
    return values, np.concatenate([weights, weights]), DependencyGraph(complete(clique), n=clique + rest)


@pytest.mark.parametrize(("clique", "rest"), [(2, 10), (6, 6), (12, 3), (3, 40), (20, 60)])
def test_jansons_rows_hold_beside_a_clique_of_equal_rows(clique, rest):
    values, weights, graph = clique_and_rest(clique, rest)
    for row in graph.mean_tail(0, 1).rows:
        assert worst_ratio(row.tail, values, weights) <= VALID, row.name


def test_a_twin_that_halves_the_chromatic_number_is_caught():
    values, weights, graph = clique_and_rest(12, 3)
    assert worst_ratio(Independent(15).mean_tail(0, 1), values, weights) > 100
    quarter = DependencyGraph(complete(3), n=15)
    assert worst_ratio(quarter.mean_tail(0, 1), values, weights) > 1
    assert worst_ratio(graph.mean_tail(0, 1), values, weights) <= VALID


def test_jansons_rows_hold_for_rows_made_of_the_edges_of_a_graph():
    """Each edge of a graph carries a coin and a row is 1 if all its edges' coins are: joined rows depend."""
    edges = PETERSEN
    coins = np.array(list(itertools.product((False, True), repeat=len(edges))))
    rows = np.stack([coins[:, [row in e for e in edges]].all(axis=1) for row in range(10)])
    weights = np.full(len(coins), 0.5 ** len(edges))
    for row in DependencyGraph(edges, n=10).mean_tail(0, 1).rows:
        assert worst_ratio(row.tail, rows.mean(axis=0), weights) <= VALID


def test_the_rows_of_the_table_are_their_formulas():
    values = DependencyGraph(cycle(5), n=5).mean_tail(0, 2).rows
    assert values[0].tail.radius(0.05) == pytest.approx(math.sqrt(math.log(40) / 2 * 2.5 * 4 / 5), rel=1e-9)
    groups = DependencyGraph(complete(10), n=1010).mean_tail(0, 1)
    expected = (math.sqrt(1001) + 9) / 1010
    assert groups.best_at(3.0).name == "groups of a colouring"
    assert groups.radius(0.05) == pytest.approx(math.sqrt(math.log(40) / 2) * expected, rel=1e-9)


graphs = st.integers(2, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.sampled_from(complete(n)), max_size=40))
)


@given(graphs, st.floats(0.05, 0.95), st.integers(0, 99))
def test_a_cut_leaves_no_edge_between_the_parts_and_is_found_wherever_there_is_one(graph, share, seed):
    n, edges = graph
    model = DependencyGraph(edges, n=n)
    possible = len(model.edges) < n * (n - 1) // 2
    if not possible:
        with pytest.raises(InvalidArgument, match="train="):
            model.split(share, np.random.default_rng(seed))
        return
    parts = model.split(share, np.random.default_rng(seed))
    assert parts.train.any()
    assert parts.protected.any()
    assert not (parts.train & parts.protected).any()
    for i, j in model.edges:
        assert not (parts.train[i] and parts.protected[j])
        assert not (parts.train[j] and parts.protected[i])
    numbers = np.flatnonzero(parts.protected)
    kept = {(numbers[i], numbers[j]) for i, j in parts.protected_model.edges}
    inside = parts.protected[model.edges].all(axis=1) if len(model.edges) else np.zeros(0, dtype=bool)
    assert kept == {tuple(edge) for edge in model.edges[inside]}
    assert parts.protected_model.n == parts.protected.sum()
    assert parts.bias == 0


def test_cuts_drop_few_rows(rng):
    grid = [(30 * r + c, 30 * r + c + 1) for r in range(30) for c in range(29)]
    grid += [(30 * r + c, 30 * r + 30 + c) for r in range(29) for c in range(30)]
    star = [(0, i) for i in range(1, 100)]
    blocks = [(5 * b + i, 5 * b + j) for b in range(100) for i, j in complete(5)]
    for edges, n, most in ((grid, 900, 45), (star, 100, 1), (blocks, 500, 1), (cycle(200), 200, 2)):
        parts = DependencyGraph(edges, n=n).split(0.5, rng)
        assert parts.dropped <= most
        assert abs(int(parts.train.sum()) - int(parts.protected.sum())) <= most + 5


def test_the_split_states_the_assumption_that_the_tail_does_not_need():
    """Three fair coins, the third the sum of the others: rows that are not joined are independent, yet the
    first two together determine the third, which no edge joins to them."""
    graph = DependencyGraph([(0, 1)], n=3)
    coins = np.array([(a, b, a ^ b) for a in (0, 1) for b in (0, 1)])
    for alone in ((0, 2), (1, 2)):
        assert len({tuple(row) for row in coins[:, alone]}) == 4
    assert len({tuple(row) for row in coins}) == 4
    parts = graph.split(0.5, np.random.default_rng(0))
    extra = set(parts.assumptions) - set(graph.assumptions)
    assert extra == {
        "Two groups of rows with no edge of the given graph between them are independent of each other."
    }


@pytest.mark.slow
def test_a_hundred_thousand_rows_take_seconds(rng):
    n = 100_000
    edges = rng.integers(0, n, size=(300_000, 2))
    start = time.perf_counter()
    graph = DependencyGraph(edges, n=n)
    assert graph.mean_tail(0, 1).radius(0.05) < 0.02
    assert graph.split(0.5, rng).protected.any()
    assert time.perf_counter() - start < 30
