"""Tails of means on networks: every step against exact conditional laws, every row against the exact tail."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import beta as beta_law

from holdfast import Guard
from holdfast.dependence import BayesianNetwork, Clusters, Independent, MarkovChain, MarkovNetwork
from holdfast.dependence._network_base import _all_others, _in_order, along_arrows
from holdfast.errors import InvalidArgument

STICKY = np.array([[0.85, 0.15], [0.2, 0.8]])


def random_network(rng):
    n = int(rng.integers(3, 7))
    if rng.random() < 0.5:
        model = {}
        for node in range(n):
            parents = [int(p) for p in rng.permutation(node)[: rng.integers(0, min(node, 2) + 1)]]
            model[node] = (parents, rng.dirichlet(np.full(2, 2.0), size=[2] * len(parents) or None))
        return BayesianNetwork(model)
    factors = [((node,), np.exp(0.5 * rng.normal(size=2))) for node in range(n)]
    pairs = rng.permutation(list(itertools.combinations(range(n), 2)))[: rng.integers(1, n + 1)]
    factors += [((int(a), int(b)), np.exp(0.3 * rng.normal(size=(2, 2)))) for a, b in pairs]
    return MarkovNetwork(factors)


def law_of(net):
    """The joint law of the plain form, factor by factor."""
    law = np.ones([net.states[node] for node in net.nodes])
    entries = net.model.items() if isinstance(net, BayesianNetwork) else net.model
    for entry in entries:
        scope, table = entry if isinstance(net, MarkovNetwork) else ((*entry[1][0], entry[0]), entry[1][1])
        order = sorted(range(len(scope)), key=lambda k: scope[k])
        shape = [law.shape[r] if r in scope else 1 for r in range(law.ndim)]
        law = law * np.transpose(table, order).reshape(shape)
    return law / law.sum()


def largest_steps(law, order):
    """For each step of the order, the largest Σ_j TV between the later rows' laws given two values of the
    row: by how much n times the mean of a function with values in [0, 1] can move."""
    n = law.ndim
    law = np.transpose(law, order)
    found = np.zeros(n)
    for i in range(n):
        for before in itertools.product(*(range(law.shape[r]) for r in range(i))):
            part = law[before]
            given = [part[v] / part[v].sum() for v in range(part.shape[0]) if part[v].sum() > 0]
            for a, b in itertools.combinations(given, 2):
                total = 1.0
                for j in range(n - i - 1):
                    rest = tuple(k for k in range(n - i - 1) if k != j)
                    total += np.abs(a.sum(axis=rest) - b.sum(axis=rest)).sum() / 2
                found[order[i]] = max(found[order[i]], total)
    return found


def test_no_step_moves_the_expectation_farther_than_each_row_says(seed):
    ratios = []
    for k in range(60):
        net = random_network(np.random.default_rng([seed, k]))
        law = law_of(net)
        for name, _, spread in net._spreads(np.ones(net.n)):
            if name == "independent components":
                continue
            order = list(net._arrows()[0]) if "arrows" in name else list(range(net.n))
            exact = largest_steps(law, order)
            assert (spread >= exact * (1 - 1e-12)).all(), name
            ratios.append((exact / spread).max())
    assert max(ratios) > 0.999
    assert len(ratios) > 60


def test_a_twin_that_forgets_the_grandchildren_is_caught():
    net = BayesianNetwork({0: ([], [0.5, 0.5]), **{i: ([i - 1], STICKY) for i in range(1, 6)}})
    exact = largest_steps(law_of(net), range(6))
    order, children = net._arrows()
    right = along_arrows(order, children, net._components, np.ones(6))
    forgetful = 1 + np.array([sum(theta for _, theta in children[i]) for i in range(6)])
    assert (right >= exact * (1 - 1e-12)).all()
    assert (forgetful < exact * 0.999).any()


def test_comparison_sums_what_it_says(rng):
    """The rows after each, by their own inverse; and for large components all others, by theirs."""
    size = 12
    matrix = rng.uniform(0, 0.12, (size, size)) * (rng.random((size, size)) < 0.6)
    np.fill_diagonal(matrix, 0.0)
    entries = {(j, k): matrix[j, k] for j, k in np.argwhere(matrix > 0)}
    c = rng.uniform(0.5, 2, size)
    later = [
        c[i]
        + c[i + 1 :] @ np.linalg.solve(np.eye(size - i - 1) - matrix[i + 1 :, i + 1 :], matrix[i + 1 :, i])
        for i in range(size)
    ]
    everything = np.linalg.solve(np.eye(size) - matrix.T, c)
    np.testing.assert_allclose(_in_order(entries, c), later, rtol=1e-9)
    np.testing.assert_allclose(_all_others(entries, c), everything, rtol=2e-3)
    assert (_all_others(entries, c) >= everything).all()
    strong = {pair: 20 * value for pair, value in entries.items()}
    assert _all_others(strong, c) is None
    assert _in_order(strong, c) is None


def exact_exceedance(law, values, distance):
    """P(|mean − E| > distance) for f(x_i) = values[i][x_i]."""
    n = law.ndim
    mean = sum(np.asarray(values[i]).reshape([-1 if r == i else 1 for r in range(n)]) for i in range(n)) / n
    centre = (law * mean).sum()
    return law[np.broadcast_to(np.abs(mean - centre) > distance, law.shape)].sum()


def test_no_row_is_below_the_exact_law(seed):
    for k in range(25):
        rng = np.random.default_rng([seed, k, 1])
        net = random_network(rng)
        law = law_of(net)
        for _ in range(4):
            values = rng.integers(0, 2, size=(net.n, 2)).astype(float)
            for row in net._rows(0.0, 1.0):
                for distance in np.arange(0.02, 1.0, 0.07):
                    bound = math.exp(-row.tail.gamma(distance))
                    assert exact_exceedance(law, values, distance) <= bound * (1 + 1e-12), row.name


def test_the_tail_of_independent_rows_is_false_on_a_sticky_path():
    n = 14
    net = BayesianNetwork(
        {0: ([], [0.5, 0.5]), **{i: ([i - 1], [[0.95, 0.05], [0.05, 0.95]]) for i in range(1, n)}}
    )
    law = law_of(net)
    values = [[0.0, 1.0]] * n
    exact = exact_exceedance(law, values, 0.45)
    assert math.exp(-net.mean_tail(0, 1).gamma(0.45)) >= exact
    assert math.exp(-Independent(n).mean_tail(0, 1).gamma(0.45)) < exact


def names(net):
    return {row.name for row in net._rows(0.0, 1.0)}


def test_which_rows_apply():
    path = {0: ([], [0.5, 0.5]), **{i: ([i - 1], STICKY) for i in range(1, 9)}}
    assert names(BayesianNetwork(path)) == {
        "independent components",
        "contraction along the arrows",
        "influence of single rows",
    }
    hard = MarkovNetwork([((i, (i + 1) % 5), [[1.0, 1.0], [1.0, 0.0]]) for i in range(5)])
    assert names(hard) == {"independent components"}
    shared = {f"z{i}": ([], [0.5, 0.5]) for i in range(9)}
    for i in range(8):
        shared[f"x{i}"] = ([f"z{i}", f"z{i + 1}"], [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]])
    moving = BayesianNetwork(shared)
    assert "fractional chromatic number" in names(moving)
    assert any(row.chosen and row.theorem for row in moving.mean_tail_report(0, 1).rows)


def test_components_are_clusters_and_loose_rows_are_independent():
    pairs = MarkovNetwork([((2 * i, 2 * i + 1), [[1.0, 0.0], [0.0, 1.0]]) for i in range(50)])
    expected = Clusters([2] * 50).mean_tail(0, 1).radius(0.05)
    assert pairs.mean_tail(0, 1).radius(0.05) == pytest.approx(expected, rel=1e-9)
    loose = MarkovNetwork([((i,), [0.3, 0.7]) for i in range(64)])
    assert loose.mean_tail(0, 1).radius(0.05) == pytest.approx(
        Independent(64).mean_tail(0, 1).radius(0.05), rel=1e-6
    )
    assert pairs.difference_tail(0.01).sigma == pytest.approx(Clusters([2] * 50).difference_tail(0.01).sigma)


def test_a_path_contracts_like_its_chain():
    """θ = 0.65 for one step; the chain knows the powers of its matrix, which here are the powers of θ."""
    n = 200
    net = BayesianNetwork({0: ([], [0.5, 0.5]), **{i: ([i - 1], STICKY) for i in range(1, n)}})
    chain = MarkovChain(STICKY, n, initial=[0.5, 0.5])
    from_arrows = next(row for row in net._rows(0.0, 1.0) if "arrows" in row.name)
    from_chain = next(row for row in chain._rows(0.0, 1.0) if "Dobrushin" in row.name)
    assert from_arrows.tail.radius(0.05) == pytest.approx(from_chain.tail.radius(0.05), rel=1e-6)


def test_large_networks_are_quick_and_a_large_loop_uses_all_other_rows():
    weak = [[1.1, 1.0], [1.0, 1.1]]
    ring = MarkovNetwork([((i, (i + 1) % 2000), weak) for i in range(2000)])
    rows = {row.name: row.tail.radius(0.05) for row in ring._rows(0.0, 1.0)}
    theta = 1.21 / 2.21 - 0.5
    slower = Independent(2000).mean_tail(0, 1).radius(0.05) / (1 - 2 * theta)
    assert slower <= rows["influence of single rows"] <= 1.002 * slower
    assert ring.mean_tail(0, 1).radius(0.05) == min(rows.values())


def test_the_mean_of_a_simulated_network_stays_within_its_radius(rng):
    n, trials = 300, 2000
    parent = [int(rng.integers(i)) for i in range(1, n)]
    net = BayesianNetwork({0: ([], [0.5, 0.5]), **{i: ([parent[i - 1]], STICKY) for i in range(1, n)}})
    state = np.zeros((trials, n), dtype=int)
    state[:, 0] = rng.random(trials) < 0.5
    expected = np.zeros(n)
    expected[0] = 0.5
    for i in range(1, n):
        above = parent[i - 1]
        state[:, i] = rng.random(trials) < STICKY[state[:, above], 1]
        expected[i] = (1 - expected[above]) * STICKY[0, 1] + expected[above] * STICKY[1, 1]
    off = np.abs(state.mean(axis=1) - expected.mean())
    missed = int((off > net.mean_tail(0, 1).radius(0.05)).sum())
    assert beta_law.ppf(0.001, max(missed, 1), trials - missed + 1) <= 0.05
    naive = int((off > Independent(n).mean_tail(0, 1).radius(0.05)).sum())
    assert beta_law.ppf(0.001, naive, trials - naive + 1) > 0.05


def families(count, size):
    """Each family: a parent and its children."""
    model = {}
    for k in range(count):
        head = k * size
        model[head] = ([], [0.5, 0.5])
        model |= {head + j: ([head], STICKY) for j in range(1, size)}
    return BayesianNetwork(model)


def test_whole_components_are_set_aside(rng):
    net = families(30, 3)
    parts = net.split(0.4, rng)
    train = parts.train.reshape(30, 3)
    assert (train.all(axis=1) | ~train.any(axis=1)).all()
    assert train[:, 0].sum() == 12
    assert parts.bias == 0
    assert parts.protected_model.n == 54
    kept = np.flatnonzero(~parts.train)
    assert parts.protected_model.nodes == tuple(kept)
    assert parts.protected_model.mean_tail(0, 1).radius(0.05) > net.mean_tail(0, 1).radius(0.05)


def test_rows_without_a_common_root_are_set_aside_in_one_component(rng):
    model = {f"z{i}": ([], [0.5, 0.5]) for i in range(11)}
    for i in range(10):
        model[f"x{i}"] = ([f"z{i}", f"z{i + 1}"], [[[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.1, 0.9]]])
    net = BayesianNetwork(model)
    parts = net.split(0.5, rng)
    roots = {node: {node, *net.parents[node]} for node in net.nodes}
    seen = [roots[node] for node, taken in zip(net.nodes, parts.train, strict=True) if taken]
    kept = [roots[node] for node, taken in zip(net.nodes, parts.protected, strict=True) if taken]
    assert seen
    assert kept
    assert not set().union(*seen) & set().union(*kept)
    assert parts.bias == 0


def test_a_connected_network_has_no_rule_of_its_own(rng):
    ring = MarkovNetwork([((i, (i + 1) % 5), [[2.0, 1.0], [1.0, 2.0]]) for i in range(5)])
    with pytest.raises(InvalidArgument, match="train="):
        ring.split(0.5, rng)
    tree = BayesianNetwork({0: ([], [0.5, 0.5]), 1: ([0], STICKY), 2: ([0], STICKY)})
    with pytest.raises(InvalidArgument, match="train="):
        tree.split(0.5, rng)
    with pytest.raises(InvalidArgument, match="share"):
        tree.split(1.5, rng)


def test_the_guard_takes_a_network_and_lists_it(rng):
    net = families(200, 3)
    x = np.repeat(rng.random(200) < 0.5, 3).astype(float)
    guard = Guard({"x": x}, dependence=net)
    answer = guard.mean("x", bounds=(0, 1))
    assert 0 <= answer.low <= answer.value <= answer.high <= 1
    assert any("Bayesian network" in line for line in guard.certificate.assumed)
    free = Guard({"x": x}, dependence=Clusters([3] * 200)).mean("x", bounds=(0, 1))
    assert answer.high - answer.low < free.high - free.low
    given = Guard({"x": x}, train={"x": x[:30]}, dependence=net)
    assert any("supplied by the caller" in line for line in given.certificate.assumed)
    ring = MarkovNetwork([((i, (i + 1) % 600), [[2.0, 1.0], [1.0, 2.0]]) for i in range(600)])
    with pytest.raises(InvalidArgument, match="train="):
        Guard({"x": x}, dependence=ring)
    assert Guard({"x": x}, train={"x": x[:30]}, dependence=ring).share("x > 0.5").high <= 1
