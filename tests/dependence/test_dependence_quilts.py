"""Quilts of chains, the bounds they give against brute force and against linear programs, and their twins."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.examples import examples
from contracts.leakage import law_of, supremum
from holdfast.dependence import BayesianNetwork, MarkovChain, MarkovNetwork, Quilt, coupling_bdp
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, BayesianDP


def as_network(chain):
    start = chain.stationary if chain.initial is None else chain.initial
    return BayesianNetwork({0: ([], start), **{i: ([i - 1], chain.transition) for i in range(1, chain.n)}})


def random_chain(rng, *, states=None, n=None, zeros=False):
    states = int(rng.integers(2, 4)) if states is None else states
    n = int(rng.integers(1, 7)) if n is None else n
    transition = rng.dirichlet(np.ones(states), states)
    if zeros:
        transition = np.where(rng.random(transition.shape) < 0.3, 0.0, transition)
        transition[:, 0] += transition.sum(axis=1) == 0
        transition /= transition.sum(axis=1, keepdims=True)
        start = rng.dirichlet(np.ones(states)) * (np.arange(states) < rng.integers(1, states + 1))
        return MarkovChain(transition, n, initial=start / start.sum())
    return MarkovChain(transition, n, initial=None if rng.random() < 0.5 else rng.dirichlet(np.ones(states)))


def close(found, expected):
    return found == expected or abs(found - expected) <= 1e-9 * max(1.0, abs(expected))


def test_a_chain_agrees_with_its_network_which_enumerates(seed):
    """Blankets, quilts, influences and both lemmas; stationary or not, with impossible steps or without."""
    for k in range(60):
        rng = np.random.default_rng([seed, k])
        chain = random_chain(rng, zeros=k % 3 == 2)
        net = as_network(chain)
        row = int(rng.integers(chain.n))
        assert chain.blanket(row) == net.blanket(row)
        listed = chain.quilts(row)
        assert set(listed) == set(net.quilts(row))
        for quilt in listed:
            assert close(chain.quilt_influence(quilt), net.quilt_influence(quilt))
        others = [int(r) for r in rng.permutation(chain.n) if r != row]
        cut = int(rng.integers(0, chain.n))
        targets, known = others[:cut], others[cut : cut + int(rng.integers(0, 3))]
        assert close(chain.max_influence(targets, row, known), net.max_influence(targets, row, known))
        for epsilon, method in itertools.product((0.02, 0.4, 3.0), ("quilt", "quilt-paper")):
            bound = chain.bayesian_dp(DP(epsilon), method).epsilon
            assert close(bound, net.bayesian_dp(DP(epsilon), method).epsilon)
            assert chain.required_dp(BayesianDP(bound), method).epsilon == pytest.approx(epsilon, rel=1e-9)
        if net._quilted.blanket_influence < math.inf:
            assert close(chain._quilts.blanket_influence(), net._quilted.blanket_influence)


def formula(chain, epsilon, weight):
    """BDP Lemma 2 over all two-sided quilts, row by row, from the chain's exact influences."""
    worst = 0.0
    for row in range(chain.n):
        worst = max(
            worst,
            min(
                quilt.size * epsilon
                + weight * (chain.max_influence(quilt.quilt, row) if quilt.quilt else 0.0)
                for quilt in chain.quilts(row)
            ),
        )
    return worst


@pytest.mark.parametrize("start", [None, [0.98, 0.02]])
def test_all_rows_at_once_are_the_formula_row_by_row(start):
    chain = MarkovChain([[0.8, 0.2], [0.3, 0.7]], 14, initial=start)
    for epsilon, weight in itertools.product((1e-3, 0.05, 0.6), (2.0, 4.0)):
        name = "quilt" if weight == 2.0 else "quilt-paper"
        assert chain.bayesian_dp(DP(epsilon), name).epsilon == pytest.approx(
            formula(chain, epsilon, weight), rel=1e-9
        )


def test_a_hundred_thousand_rows_take_seconds():
    for transition, start in (
        ([[0.9, 0.1], [0.2, 0.8]], None),
        ([[0.999, 0.001], [0.001, 0.999]], None),
        ([[0.9, 0.1], [0.2, 0.8]], [1.0, 0.0]),
        (np.random.default_rng(0).dirichlet(np.ones(5), 5), None),
    ):
        chain = MarkovChain(transition, 100_000, initial=start)
        began = time.process_time()
        bound = chain.bayesian_dp(DP(0.01), "quilt").epsilon
        needed = chain.required_dp(BayesianDP(1.0), "quilt").epsilon
        assert time.process_time() - began < 10
        assert 0.01 < bound < 1000
        assert 1e-5 < needed < 1


def test_grouped_rows_and_thinned_distances_cost_little_and_stay_safe():
    """A long chain with another start: rows in groups, distances beyond 128 thinned."""
    chain = MarkovChain([[0.99, 0.01], [0.02, 0.98]], 3000, initial=[1.0, 0.0])
    bound = chain.bayesian_dp(DP(0.001), "quilt").epsilon
    middle = min(
        quilt_bound(chain, 1500, a, b, 0.001) for a in range(100, 340, 12) for b in range(100, 340, 12)
    )
    assert middle * 0.97 <= bound <= 1.05 * middle


def quilt_bound(chain, row, a, b, epsilon):
    left, right = row - a if a is not None else -1, row + b if b is not None else chain.n
    if left < (0 if a is not None else -1) or right > (chain.n - 1 if b is not None else chain.n):
        return math.inf
    quilt = [end for end in (left, right) if 0 <= end < chain.n]
    influence = chain.max_influence(quilt, row) if quilt else 0.0
    return (right - left - 1) * epsilon + 2 * influence


def star(rng):
    kernels = rng.dirichlet(np.ones(2), size=(3, 2))
    return BayesianNetwork(
        {0: ([], rng.dirichlet(np.ones(2))), **{i: ([0], kernels[i - 1]) for i in (1, 2, 3)}}
    )


def collider(rng):
    coins, both = rng.dirichlet(np.ones(2), size=2), rng.dirichlet(np.ones(2), size=(2, 2))
    return BayesianNetwork({0: ([], coins[0]), 1: ([], coins[1]), 2: ([0, 1], both)})


def ring(rng):
    return MarkovNetwork([((i, (i + 1) % 4), np.exp(rng.normal(size=(2, 2)))) for i in range(4)])


METHODS = ("sharp", "quilt", "quilt-paper", "blanket", "blanket-paper", "coupling", "pairs", "group")


@pytest.mark.parametrize(
    ("build", "epsilon"), [(star, 0.1), (star, 2.0), (collider, 0.1), (collider, 2.0), (ring, 0.7)]
)
def test_no_mechanism_on_a_small_network_leaks_more_than_any_method_says(rng, build, epsilon):
    net = build(rng)
    most = supremum(law_of(net), epsilon)
    assert most >= epsilon * (1 - 1e-9)
    for method in (*METHODS, "dobrushin"):
        if method in ("coupling", "pairs") and len(net.edges) >= net.n:
            with pytest.raises(InvalidArgument, match="loop"):
                net.bayesian_dp(DP(epsilon), method)
        else:
            assert net.bayesian_dp(DP(epsilon), method).epsilon >= most * (1 - 1e-7), method


@pytest.mark.parametrize(("states", "n", "epsilon"), [(2, 4, 0.1), (3, 3, 1.5)])
def test_no_mechanism_on_a_chain_leaks_more_than_the_quilts_say(rng, states, n, epsilon):
    chain = random_chain(rng, states=states, n=n)
    most = supremum(law_of(as_network(chain)), epsilon)
    for method in METHODS:
        assert chain.bayesian_dp(DP(epsilon), method).epsilon >= most * (1 - 1e-7), method


@pytest.mark.slow
@pytest.mark.parametrize(("states", "n"), [(2, 5), (2, 6), (3, 4)])
def test_no_mechanism_on_a_longer_chain_leaks_more(rng, states, n):
    chain = random_chain(rng, states=states, n=n)
    most = supremum(law_of(as_network(chain)), 0.3)
    for method in METHODS:
        assert chain.bayesian_dp(DP(0.3), method).epsilon >= most * (1 - 1e-7), method


HIDDEN_MIDDLE = {
    0: ([], [0.5, 0.5]),
    1: ([0], [[0.9, 0.1], [0.1, 0.9]]),
    2: ([1], [[0.999, 0.001], [0.001, 0.999]]),
}


def test_a_twin_with_b_for_2b_is_caught():
    """Row 2 is known and nearly says what row 1 is: then row 0 moves row 1's law by almost e^{2b}."""
    net = BayesianNetwork(HIDDEN_MIDDLE)
    epsilon = 8.0
    blanket = net.quilts(0)[0]
    b = net.quilt_influence(blanket)
    assert blanket.quilt == (1,)
    output = np.zeros((2, 2, 2))
    output[...] = math.exp(-2 * epsilon)
    output[:, 0] *= math.exp(epsilon)
    output[0] *= math.exp(epsilon) * (1 - 1e-12)
    table = np.stack([output / 2, 1 - output / 2], axis=-1)
    for row in range(3):
        assert np.ptp(np.log(table), axis=row).max() <= epsilon
    leaked = net.leakage(table)
    assert epsilon + b < leaked <= epsilon + 2 * b
    assert net.bayesian_dp(DP(epsilon), "quilt").epsilon >= leaked


def test_a_twin_without_the_moral_edge_is_caught():
    """A coin is the sum of two others: alone it says nothing of the first, given the sum they are one."""
    total = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]
    net = BayesianNetwork({0: ([], [0.5, 0.5]), 1: ([], [0.5, 0.5]), 2: ([0, 1], total)})
    twin = BayesianNetwork({0: ([], [0.5, 0.5]), 1: ([], [0.5, 0.5]), 2: ([0, 1], total)})
    twin.__dict__["_graph"] = {0: {2}, 1: {2}, 2: {0, 1}}
    ones = np.arange(2.0)
    share = np.exp(0.5 * ones[:, None, None] + 0.5 * ones[:, None] - 2.0) * np.ones((2, 2, 2))
    leaked = net.leakage(np.stack([share, 1 - share], axis=-1))
    assert leaked == pytest.approx(1.0, rel=1e-9)

    def at_row_0(model):
        return min(quilt.size * 0.5 + 2 * model.quilt_influence(quilt) for quilt in model.quilts(0))

    assert net.blanket(0) == (1, 2)
    assert at_row_0(twin) == pytest.approx(0.5)
    assert at_row_0(net) >= leaked * (1 - 1e-12)


@given(
    epsilon=st.floats(1e-4, 2.0),
    weights=st.lists(st.floats(0.3, 1.0), min_size=9, max_size=9),
    states=st.integers(2, 3),
    n=st.integers(2, 8),
)
def test_the_chain_bound_beats_both_forms_of_the_quilt_lemma_where_rows_mix(epsilon, weights, states, n):
    transition = np.array(weights).reshape(3, 3)[:states, :states]
    chain = MarkovChain(transition / transition.sum(axis=1, keepdims=True), n)
    assert chain.cross_ratio >= (0.3 / 1.0) ** 2
    if chain.cross_ratio >= 1 / 9:
        coupling = chain.bayesian_dp(DP(epsilon), "coupling").epsilon
        for method in ("quilt", "quilt-paper", "blanket", "blanket-paper"):
            assert coupling <= chain.bayesian_dp(DP(epsilon), method).epsilon * (1 + 1e-9)


WORST_TWICE = [[0.42, 0.34, 0.24], [0.47, 0.26, 0.27], [0.25, 0.47, 0.28]]


def test_with_three_states_and_a_large_parameter_a_quilt_beats_the_plain_chain_bound():
    """κ ≈ 0.29, ε = 4.5: the worst pair on the left and on the right are not the same."""
    chain = MarkovChain(WORST_TWICE, 7)
    assert chain.cross_ratio > 1 / 9
    quilt = chain.bayesian_dp(DP(4.5), "quilt").epsilon
    assert chain.bayesian_dp(DP(4.5), "coupling").epsilon > 1.05 * quilt
    assert chain.bayesian_dp(DP(4.5), "pairs").epsilon <= quilt
    assert chain.bayesian_dp(DP(4.5)).epsilon <= quilt


@given(
    epsilon=st.floats(1e-4, 20.0),
    weights=st.lists(st.floats(0.02, 1.0), min_size=9, max_size=9),
    states=st.integers(2, 3),
    n=st.integers(1, 8),
    stationary=st.booleans(),
)
def test_by_pairs_the_chain_bound_beats_the_blanket_always_and_quilts_where_rows_mix(
    epsilon, weights, states, n, stationary
):
    transition = np.array(weights).reshape(3, 3)[:states, :states]
    start = None if stationary else np.arange(1, states + 1) / np.arange(1, states + 1).sum()
    chain = MarkovChain(transition / transition.sum(axis=1, keepdims=True), n, initial=start)
    pairs = chain.bayesian_dp(DP(epsilon), "pairs").epsilon
    assert pairs <= chain.bayesian_dp(DP(epsilon), "coupling").epsilon * (1 + 1e-9)
    assert pairs <= chain.bayesian_dp(DP(epsilon), "blanket").epsilon * (1 + 1e-9)
    if chain.cross_ratio >= 1 / 9:
        assert pairs <= chain.bayesian_dp(DP(epsilon), "quilt").epsilon * (1 + 1e-9)
    needed = chain.required_dp(BayesianDP(pairs), "pairs").epsilon
    assert needed == pytest.approx(epsilon, rel=1e-9)


def test_a_twin_that_takes_the_best_pair_is_caught():
    """The pair that moves is the adversary's choice: with the mildest one the promise is broken."""
    chain = MarkovChain(WORST_TWICE, 3)
    most = supremum(law_of(as_network(chain)), 0.5)
    ratios = [
        min(
            chain.transition[a, y]
            * chain.transition[b, z]
            / (chain.transition[b, y] * chain.transition[a, z])
            for y, z in itertools.permutations(range(3), 2)
        )
        for a, b in itertools.combinations(range(3), 2)
    ]
    assert min(ratios) == pytest.approx(chain.cross_ratio)
    assert coupling_bdp(0.5, max(ratios), 3) < most <= chain.bayesian_dp(DP(0.5), "pairs").epsilon


def test_on_two_states_the_chain_bound_wins_at_every_parameter(rng):
    for _ in range(40):
        stay = rng.uniform(0.3, 0.7, 2)
        chain = MarkovChain([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]], int(rng.integers(2, 9)))
        if chain.cross_ratio >= 1 / 9:
            epsilon = float(10 ** rng.uniform(-3, 1.3))
            quilt = chain.bayesian_dp(DP(epsilon), "quilt").epsilon
            assert chain.bayesian_dp(DP(epsilon), "coupling").epsilon <= quilt * (1 + 1e-9)


def test_on_a_path_the_tree_recursion_is_the_chain_bound():
    chain = MarkovChain([[0.8, 0.2], [0.3, 0.7]], 9)
    for epsilon in (0.01, 0.5, 4.0):
        tree = as_network(chain).bayesian_dp(DP(epsilon), "coupling").epsilon
        assert tree == pytest.approx(coupling_bdp(epsilon, chain.cross_ratio, 9), rel=1e-10)
        needed = as_network(chain).required_dp(BayesianDP(epsilon), "coupling").epsilon
        assert needed == pytest.approx(chain.required_dp(BayesianDP(epsilon), "coupling").epsilon, rel=1e-9)


def recursive(kappas, edges, epsilon, node, came_from=None):
    """ε + Σ L over the neighbours of ``node`` but one, L by its formula."""
    total = epsilon
    for other in edges[node]:
        if other != came_from:
            root = math.sqrt(kappas[frozenset((node, other))])
            grown = math.exp(recursive(kappas, edges, epsilon, other, node) / 2)
            total += 2 * math.log((root + grown) / (1 + root * grown))
    return total


def test_the_tree_recursion_is_its_formula_on_random_trees(seed):
    for k in range(40):
        rng = np.random.default_rng([seed, k])
        n = int(rng.integers(2, 9))
        factors, kappas, edges = [((0,), np.ones(2))], {}, {i: [] for i in range(n)}
        for i in range(1, n):
            above = int(rng.integers(i))
            table = np.exp(rng.normal(size=(2, 2)))
            factors += [((i, above), table), ((i,), np.exp(rng.normal(size=2)))]
            odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
            kappas[frozenset((i, above))] = min(odds, 1 / odds)
            edges[i].append(above)
            edges[above].append(i)
        net = MarkovNetwork(factors)
        epsilon = float(10 ** rng.uniform(-2, 0.5))
        expected = max(recursive(kappas, edges, epsilon, i) for i in range(n))
        found = net.bayesian_dp(DP(epsilon), "coupling").epsilon
        assert found == pytest.approx(expected, rel=1e-9)
        assert found <= n * epsilon * (1 + 1e-9)


def pair_ratio(table, a, b):
    """min over y, z of t(a,y)t(b,z)/(t(b,y)t(a,z)), the plain way."""
    return min(
        table[a, y] * table[b, z] / (table[b, y] * table[a, z])
        for y, z in itertools.product(range(table.shape[1]), repeat=2)
    )


def by_pairs(tables, edges, epsilon, node, a, b, came_from=None):
    """Σ L(node→v)(a,b) over the neighbours of ``node`` but one, by its formula."""
    total = 0.0
    for other in edges[node]:
        if other != came_from:
            table = tables[node, other]
            beyond = max(
                by_pairs(tables, edges, epsilon, other, y, z, node)
                for y, z in itertools.product(range(table.shape[1]), repeat=2)
            )
            root, grown = math.sqrt(pair_ratio(table, a, b)), math.exp((epsilon + beyond) / 2)
            total += 2 * math.log((root + grown) / (1 + root * grown))
    return total


def test_the_tree_bound_by_pairs_is_its_formula_on_random_trees(seed):
    for k in range(15):
        rng = np.random.default_rng([seed, k, 3])
        n = int(rng.integers(2, 6))
        cards = rng.integers(2, 4, n)
        factors, tables, edges = [((0,), np.ones(cards[0]))], {}, {i: [] for i in range(n)}
        for i in range(1, n):
            above = int(rng.integers(i))
            table = np.exp(rng.normal(size=(cards[i], cards[above])))
            factors.append(((i, above), table))
            tables[i, above], tables[above, i] = table, table.T
            edges[i].append(above)
            edges[above].append(i)
        epsilon = float(10 ** rng.uniform(-2, 0.5))
        expected = epsilon + max(
            by_pairs(tables, edges, epsilon, i, a, b)
            for i in range(n)
            for a, b in itertools.combinations(range(cards[i]), 2)
        )
        net = MarkovNetwork(factors)
        assert net.bayesian_dp(DP(epsilon), "pairs").epsilon == pytest.approx(expected, rel=1e-9)
        assert expected <= net.bayesian_dp(DP(epsilon), "coupling").epsilon * (1 + 1e-9)


def test_a_tree_with_impossible_values_ignores_them():
    """The third state never occurs, so its zeros do not count."""
    step = np.array([[0.7, 0.3, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    net = BayesianNetwork({0: ([], [0.5, 0.5, 0.0]), 1: ([0], step), 2: ([1], step)})
    chain = MarkovChain(step[:2, :2], 3, initial=[0.5, 0.5])
    found = net.bayesian_dp(DP(0.2), "coupling").epsilon
    assert found == pytest.approx(chain.bayesian_dp(DP(0.2), "coupling").epsilon, rel=1e-9)


@examples(25)
@given(
    epsilon=st.floats(1e-5, 5),
    stay=st.floats(0.02, 0.98),
    other=st.floats(0.02, 0.98),
    n=st.integers(1, 10**5),
    start=st.sampled_from([None, [0.5, 0.5], [1.0, 0.0]]),
)
def test_sharp_is_never_beaten_on_a_chain(epsilon, stay, other, n, start):
    chain = MarkovChain([[stay, 1 - stay], [1 - other, other]], n, initial=start)
    sharp, needed = chain.bayesian_dp(DP(epsilon)).epsilon, chain.required_dp(BayesianDP(epsilon)).epsilon
    for method in (*METHODS, "spectral"):
        assert sharp <= chain.bayesian_dp(DP(epsilon), method).epsilon
        assert needed >= chain.required_dp(BayesianDP(epsilon), method).epsilon
    bound = chain.bayesian_dp(DP(epsilon), "quilt").epsilon
    assert chain.required_dp(BayesianDP(bound), "quilt").epsilon == pytest.approx(epsilon, rel=1e-9)
    assert bound <= chain.bayesian_dp(DP(epsilon * 1.5), "quilt").epsilon


@pytest.mark.parametrize(
    "model",
    [
        MarkovChain([[0.8, 0.2], [0.3, 0.7]], 4),
        BayesianNetwork(
            {i: ([i - 1], [[0.8, 0.2], [0.3, 0.7]]) if i else ([], [0.6, 0.4]) for i in range(4)}
        ),
        MarkovNetwork([((i, i + 1), [[0.8, 0.2], [0.3, 0.7]]) for i in range(3)]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_chains_and_networks_call_a_row_i(model):
    assert model.blanket(i=1) == model.blanket(1) == (0, 2)
    assert model.quilts(i=1) == model.quilts(1)
    assert model.max_influence(targets=[0], i=1, given=()) == model.max_influence([0], 1)
    assert model.max_influence(targets=[3], i=1, given=[2]) <= 1e-12
    for refused in (lambda: model.blanket(9), lambda: model.quilts(9), lambda: model.max_influence([0], 9)):
        with pytest.raises(InvalidArgument) as refusal:
            refused()
        assert refusal.value.argument == "i"


def test_bad_rows_and_quilts_are_refused():
    chain = MarkovChain([[0.8, 0.2], [0.3, 0.7]], 10)
    for argument, bad in (
        ("i", lambda: chain.blanket(10)),
        ("i", lambda: chain.blanket(-1)),
        ("i", lambda: chain.quilts("a")),
        ("targets", lambda: chain.max_influence([3], 3)),
        ("targets", lambda: chain.max_influence([2], 3, given=[2])),
        ("targets", lambda: chain.max_influence([2, 2], 3)),
        ("targets", lambda: chain.max_influence([11], 3)),
        ("quilt", lambda: chain.quilt_influence((1, 2))),
        ("method", lambda: chain.bayesian_dp(DP(0.1), "quilts")),
    ):
        with pytest.raises(InvalidArgument) as refused:
            bad()
        assert refused.value.argument == argument
    with pytest.raises(InvalidArgument, match="Got 25005000 instead"):
        MarkovChain([[0.8, 0.2], [0.3, 0.7]], 10_000).quilts(5000)
    assert chain.max_influence([], 3) == 0
    assert chain.quilts(3)[0] == Quilt(3, (2, 4), (), (0, 1, 5, 6, 7, 8, 9))


@pytest.mark.parametrize("n", [7, 40, pytest.param(5000, marks=pytest.mark.slow)])
def test_chains_that_turn_or_end_have_finite_bounds(n):
    """A chain with a period, from one value; one that is caught; one whose first value soon is too rare."""
    turn = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    lazy_turn = [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    caught = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7]]
    for transition, start in itertools.product(
        (turn, lazy_turn, caught), ([1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.2, 0.3, 0.5])
    ):
        chain = MarkovChain(transition, n, initial=start)
        for method in ("quilt", "quilt-paper", "coupling", "pairs", "sharp"):
            bound = chain.bayesian_dp(DP(0.1), method).epsilon
            assert 0.1 * (1 - 1e-9) <= bound <= 0.1 * n * (1 + 1e-9)
            assert 0.1 / n * (1 - 1e-9) <= chain.required_dp(BayesianDP(0.1), method).epsilon <= 0.1
        if n == 7:
            net = as_network(chain)
            assert close(
                chain.bayesian_dp(DP(0.1), "quilt").epsilon, net.bayesian_dp(DP(0.1), "quilt").epsilon
            )


def test_what_a_lemma_cannot_say_is_refused_in_words():
    turning = MarkovChain([[0.0, 1.0], [1.0, 0.0]], 5)
    with pytest.raises(InvalidArgument, match="rules out"):
        turning.bayesian_dp(DP(0.1), "blanket")
    assert turning.bayesian_dp(DP(0.1), "quilt").epsilon == pytest.approx(0.5)
    apart = MarkovChain([[1.0, 0.0], [0.0, 1.0]], 5)
    with pytest.raises(InvalidArgument, match="initial"):
        apart.bayesian_dp(DP(0.1), "quilt")
    assert apart.bayesian_dp(DP(0.1)).epsilon == pytest.approx(0.5)
    sticky = MarkovChain([[0.9, 0.1], [0.1, 0.9]], 5)
    assert sticky.required_dp(BayesianDP(0.1), "blanket").epsilon == 0
