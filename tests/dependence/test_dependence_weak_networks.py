"""Networks with loops and weak factors: the bound by summing rows out, against linear programs and twins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from contracts.leakage import law_of, supremum
from holdfast.dependence import BayesianNetwork, MarkovNetwork, _network_privacy
from holdfast.dependence._network_privacy import couplings, weak_coupling
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, BayesianDP

TRIANGLE = [(0, 1), (1, 2), (0, 2)]
SQUARE = [(0, 1), (2, 3), (0, 2), (1, 3)]
STAR_WITH_A_LOOP = [(0, 1), (0, 2), (0, 3), (1, 2)]
LADDER = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]


def alike(strength):
    return np.exp(strength * np.array([[1.0, -1.0], [-1.0, 1.0]]))


def ising(edges, strength):
    return MarkovNetwork([(edge, alike(strength)) for edge in edges])


def grid(rows, columns, strength):
    cells = set(itertools.product(range(rows), range(columns)))
    steps = [(cell, (cell[0] + 1, cell[1])) for cell in cells] + [
        (cell, (cell[0], cell[1] + 1)) for cell in cells
    ]
    return ising(sorted(edge for edge in steps if edge[1] in cells), strength)


def random_network(rng, edges, states=2):
    factors = [(edge, np.exp(0.5 * rng.normal(size=(states, states)))) for edge in edges]
    rows = sorted({row for edge in edges for row in edge})
    return MarkovNetwork(factors + [((row,), np.exp(rng.normal(size=states))) for row in rows])


@pytest.mark.parametrize("edges", [TRIANGLE, SQUARE, STAR_WITH_A_LOOP])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_no_mechanism_leaks_more_whatever_is_known(rng, edges, epsilon):
    net = random_network(rng, edges)
    most = supremum(law_of(net), epsilon)
    assert net.bayesian_dp(DP(epsilon), "dobrushin").epsilon >= most * (1 - 1e-7)
    assert net.bayesian_dp(DP(epsilon)).epsilon >= most * (1 - 1e-7)


def test_with_three_states_too(rng):
    net = random_network(rng, TRIANGLE, states=3)
    most = supremum(law_of(net), 0.3)
    assert net.bayesian_dp(DP(0.3), "dobrushin").epsilon >= most * (1 - 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "epsilon"), [(0.1, 0.05), (0.3, 1.0)])
def test_the_optimum_on_a_grid_of_two_by_three(strength, epsilon):
    net = ising(LADDER, strength)
    most = supremum(law_of(net), epsilon)
    bound = net.bayesian_dp(DP(epsilon), "dobrushin").epsilon
    assert most <= bound * (1 + 1e-7)
    assert bound <= (1.001 if strength == 0.1 else 1.13) * most


@pytest.mark.parametrize("edges", [TRIANGLE, SQUARE])
def test_weak_and_private_it_is_within_a_thousandth_of_the_optimum_so_a_smaller_twin_is_caught(edges):
    """A twin with couplings 1 % too small is below what some mechanism leaks."""
    net = ising(edges, 0.1)
    most = supremum(law_of(net), 0.05)
    bound = net.bayesian_dp(DP(0.05), "dobrushin").epsilon
    assert most <= bound <= 1.001 * most
    smaller = {pair: 0.99 * weight for pair, weight in couplings(net._factors, net._cards).items()}
    twin = weak_coupling(smaller, net._graph, net._components)
    assert twin.bayesian_dp(0.05) < most


def test_a_twin_that_forgets_what_a_row_did_when_it_is_summed_out_is_caught(monkeypatch):
    """Summed out, a row couples its neighbours; without that the square's bound is too small."""
    net = ising(SQUARE, 0.3)
    most = supremum(law_of(net), 0.05)
    assert net.bayesian_dp(DP(0.05), "dobrushin").epsilon >= most
    monkeypatch.setattr(
        _network_privacy.np, "outer", lambda first, second: np.zeros((len(first), len(second)))
    )
    assert ising(SQUARE, 0.3).bayesian_dp(DP(0.05), "dobrushin").epsilon < most * (1 - 1e-3)


def log_cross_ratio(law, first, second):
    """The largest over values of both axes and of all others, the plain way."""
    table = np.moveaxis(np.log(law), (first, second), (0, 1))
    values = [range(size) for size in table.shape[:2]]
    return max(
        float((table[a, y] + table[b, z] - table[b, y] - table[a, z]).max())
        for a, b in itertools.product(values[0], repeat=2)
        for y, z in itertools.product(values[1], repeat=2)
    )


def test_couplings_are_the_cross_ratios_of_pairs_given_all_others(seed):
    for k in range(20):
        rng = np.random.default_rng([seed, k, 1])
        factors = [((0, 1, 2), np.exp(rng.normal(size=(2, 3, 2)))), ((1, 0), np.exp(rng.normal(size=(3, 2))))]
        net = MarkovNetwork([*factors, ((2, 3), np.exp(rng.normal(size=(2, 2))))])
        law = law_of(net)
        found = couplings(net._factors, net._cards)
        assert set(found) == {(0, 1), (0, 2), (1, 2), (2, 3)}
        for (first, second), weight in found.items():
            expected = math.tanh(log_cross_ratio(law, first, second) / 4)
            assert expected <= weight <= expected * (1 + 1e-9)


def test_couplings_of_factors_too_large_together_are_bounded_one_by_one(rng, monkeypatch):
    net = MarkovNetwork(
        [((0, 1, 2), np.exp(rng.normal(size=(2, 2, 2)))), ((0, 1, 3), np.exp(rng.normal(size=(2, 2, 2))))]
    )
    exact = couplings(net._factors, net._cards)
    monkeypatch.setattr(_network_privacy, "_MOST_TOGETHER", 8)
    bounded = couplings(net._factors, net._cards)
    assert exact[0, 1] <= bounded[0, 1] < 1
    assert exact[0, 2] == bounded[0, 2]


def test_each_step_bounds_the_coupling_that_is_left_exactly(seed):
    """Sum rows out of the law of a random network one by one and compare every pair that is left."""
    for k in range(30):
        rng = np.random.default_rng([seed, k, 2])
        n = 5
        edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.7]
        edges += [(i, i + 1) for i in range(n - 1) if (i, i + 1) not in edges]
        net = random_network(rng, edges, states=int(rng.integers(2, 4)))
        law = law_of(net)
        bound = _network_privacy._dense(couplings(net._factors, net._cards), range(n))
        for gone in rng.permutation(n)[: n - 2]:
            law = law.sum(axis=gone, keepdims=True)
            through = np.outer(bound[gone], bound[gone])
            bound = (bound + through) / (1 + bound * through)
            bound[gone] = bound[:, gone] = 0
            left = [row for row in range(n) if law.shape[row] > 1]
            for first, second in itertools.combinations(left, 2):
                truth = math.tanh(log_cross_ratio(law, first, second) / 4)
                assert truth <= bound[first, second] * (1 + 1e-9) + 1e-12


def test_on_a_tree_it_is_the_tree_recursion(seed):
    for k in range(10):
        rng = np.random.default_rng([seed, k, 3])
        net = random_network(rng, [(int(rng.integers(i)), i) for i in range(1, 12)])
        own = weak_coupling(couplings(net._factors, net._cards), net._graph, net._components)
        for epsilon in (0.01, 1.0, 30.0):
            expected = net.bayesian_dp(DP(epsilon), "coupling").epsilon
            assert own.bayesian_dp(epsilon) == pytest.approx(expected, rel=1e-9)
            assert net.bayesian_dp(DP(epsilon), "dobrushin").epsilon == expected


@pytest.mark.parametrize(("strength", "epsilon"), [(0.05, 0.01), (0.1, 1.0), (0.3, 0.01)])
def test_a_grid_of_twelve_by_twelve_is_far_below_its_group(strength, epsilon):
    net = grid(12, 12, strength)
    bound = net.bayesian_dp(DP(epsilon), "dobrushin").epsilon
    assert epsilon * (1 + 4 * math.tanh(strength) * 0.9) < bound < 0.1 * 144 * epsilon
    needed = net.required_dp(BayesianDP(bound), "dobrushin").epsilon
    assert needed == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "epsilon"), [(0.05, 0.01), (0.05, 1.0), (0.3, 1.0)])
def test_a_grid_of_twelve_by_twelve_is_below_its_quilts_and_sharp_takes_it(strength, epsilon):
    net = grid(12, 12, strength)
    bound = net.bayesian_dp(DP(epsilon), "dobrushin").epsilon
    assert net.bayesian_dp(DP(epsilon)).epsilon == bound
    assert bound < 0.9 * net.bayesian_dp(DP(epsilon), "quilt").epsilon


def test_a_grid_of_five_by_five_is_below_its_quilts_and_sharp_takes_it():
    net = grid(5, 5, 0.1)
    bound = net.bayesian_dp(DP(0.1), "dobrushin").epsilon
    assert net.bayesian_dp(DP(0.1)).epsilon == bound
    assert bound < 0.2 * net.bayesian_dp(DP(0.1), "quilt").epsilon


def test_large_grids_have_dobrushins_multiple_and_never_less_than_summing_out(monkeypatch):
    epsilon = 0.01
    small = grid(8, 8, 0.15)
    exact = small.bayesian_dp(DP(epsilon), "dobrushin").epsilon
    monkeypatch.setattr(_network_privacy, "_MOST_ROWS", 1)
    large = grid(8, 8, 0.15).bayesian_dp(DP(epsilon), "dobrushin").epsilon
    assert exact < large < epsilon / (1 - 4 * math.tanh(0.15))
    wide = grid(40, 40, 0.1).bayesian_dp(DP(epsilon)).epsilon
    assert 0.99 * epsilon / (1 - 4 * math.tanh(0.1)) < wide <= epsilon / (1 - 4 * math.tanh(0.1)) * (1 + 1e-6)


def test_what_is_too_strong_or_impossible_is_refused(monkeypatch):
    with pytest.raises(InvalidArgument, match="never vanish"):
        MarkovNetwork([(edge, [[1.0, 0.0], [1.0, 1.0]]) for edge in TRIANGLE]).bayesian_dp(
            DP(0.1), "dobrushin"
        )
    strong = grid(8, 8, 0.6)
    assert strong.bayesian_dp(DP(0.1), "dobrushin").epsilon <= 6.4 * (1 + 1e-9)
    monkeypatch.setattr(_network_privacy, "_MOST_ROWS", 1)
    with pytest.raises(InvalidArgument, match="weak ones"):
        grid(8, 8, 0.6).bayesian_dp(DP(0.1), "dobrushin")
    assert grid(8, 8, 0.6).bayesian_dp(DP(0.1)).epsilon <= 6.4 * (1 + 1e-9)
    ring = [((i, (i + 1) % 9), alike(math.atanh(0.5))) for i in range(9)]
    with pytest.raises(InvalidArgument, match="weak ones"):
        MarkovNetwork(ring).bayesian_dp(DP(0.1), "dobrushin")


def test_too_many_updates_fall_back_on_the_multiple(monkeypatch):
    monkeypatch.setattr(_network_privacy, "_MOST_UPDATES", 100)
    assert weak_coupling({}, {0: set()}, [[0]]).bayesian_dp(0.3) == pytest.approx(0.3)
    net = grid(5, 5, 0.1)
    assert net._weak.eliminated == ()
    assert 1.0 < net._weak.factor < 1 / (1 - 4 * math.tanh(0.1))


def test_components_count_apart():
    net = ising([*TRIANGLE, (3, 4)], 0.2)
    triangle = ising(TRIANGLE, 0.2)
    assert net.bayesian_dp(DP(0.2), "dobrushin") == triangle.bayesian_dp(DP(0.2), "dobrushin")


def test_a_bayesian_network_with_a_common_child(rng):
    both = rng.dirichlet([5.0, 5.0], size=(2, 2))
    net = BayesianNetwork({0: ([], [0.5, 0.5]), 1: ([], [0.4, 0.6]), 2: ([0, 1], both)})
    most = supremum(law_of(net), 0.4)
    assert net.bayesian_dp(DP(0.4), "dobrushin").epsilon >= most * (1 - 1e-7)
