"""Networks as they are given: plain tables, pgmpy models, orders of rows, and every kind of bad input."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

from holdfast.dependence import BayesianNetwork, LaplaceAnswer, MarkovNetwork, _network_privacy
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, BayesianDP

COIN = [0.5, 0.5]
STEP = [[0.9, 0.1], [0.3, 0.7]]
BOTH = [[[0.9, 0.1], [0.8, 0.2]], [[0.4, 0.6], [0.2, 0.8]]]
ALARM = {"burglar": ([], [0.9, 0.1]), "quake": ([], [0.8, 0.2]), "alarm": (["burglar", "quake"], BOTH)}


def test_a_bayesian_network_from_tables():
    net = BayesianNetwork(ALARM)
    assert net.nodes == ("burglar", "quake", "alarm")
    assert net.states == {"burglar": 2, "quake": 2, "alarm": 2}
    assert net.edges == (("burglar", "quake"), ("burglar", "alarm"), ("quake", "alarm"))
    assert net.blanket("burglar") == ("quake", "alarm")
    assert net.parents["alarm"] == ("burglar", "quake")
    assert net.max_influence("quake", "burglar") < 1e-12
    given = [[0.8 * 0.9, 0.2 * 0.8], [0.8 * 0.4, 0.2 * 0.2]]
    ratios = [math.log((given[0][q] / sum(given[0])) / (given[1][q] / sum(given[1]))) for q in (0, 1)]
    unheard = max(abs(r) for r in ratios)
    assert net.max_influence("quake", "burglar", "alarm") >= unheard - 1e-12
    assert repr(net) == "BayesianNetwork(n=3, edges=3)"
    assert net.to_dict()["name"] == "Bayesian network"
    assert net == BayesianNetwork(ALARM)
    assert net != BayesianNetwork({**ALARM, "quake": ([], [0.7, 0.3])})
    assert hash(net) == hash(BayesianNetwork(ALARM))
    assert pickle.loads(pickle.dumps(net)) == net


def test_rows_stand_in_the_order_of_the_nodes():
    numbered = BayesianNetwork({1: ([0], STEP), 0: ([], COIN), 2: ([1], STEP)})
    assert numbered.nodes == (0, 1, 2)
    named = BayesianNetwork({"b": (["a"], STEP), "a": ([], COIN)})
    assert named.nodes == ("b", "a")
    other = BayesianNetwork({"b": (["a"], STEP), "a": ([], COIN)}, nodes=["a", "b"])
    assert other.nodes == ("a", "b")
    table = np.zeros((2, 2, 2))
    table[0], table[1] = [0.6, 0.4], [0.4, 0.6]
    assert other.leakage(table) == pytest.approx(math.log(1.5), rel=1e-9)
    assert named.leakage(table) == pytest.approx(math.log(1.5), rel=1e-9)
    last_first = LaplaceAnswer(lambda rows: 2.0 * rows[0] + rows[1], 1.0)
    first_last = LaplaceAnswer(lambda rows: 2.0 * rows[1] + rows[0], 1.0)
    assert other.leakage(last_first) == pytest.approx(named.leakage(first_last), rel=1e-12)
    assert named.protected_only().nodes == ("b", "a")


def test_factors_need_no_scale_and_no_order():
    one = MarkovNetwork([(("x", "y"), [[2.0, 1.0], [1.0, 3.0]]), (("y", "z"), [[1.0, 4.0], [2.0, 1.0]])])
    two = MarkovNetwork(
        [(("z", "y"), [[1e200, 2e200], [4e200, 1e200]]), (("x", "y"), [[2e-9, 1e-9], [1e-9, 3e-9]])],
        nodes=("x", "y", "z"),
    )
    assert one.nodes == two.nodes
    for targets, node in ((["x"], "z"), (["x", "z"], "y"), (["y"], "x")):
        assert one.max_influence(targets, node) == pytest.approx(two.max_influence(targets, node), rel=1e-9)


def test_influence_survives_numbers_that_underflow():
    """Sixty rows of factors near e^{-400}: the product is far below the smallest float."""
    steep = [[1e-170, 3e-170], [2e-170, 1e-170]]
    path = MarkovNetwork([((i, i + 1), steep) for i in range(60)])
    mild = MarkovNetwork([((i, i + 1), [[1.0, 3.0], [2.0, 1.0]]) for i in range(60)])
    assert path.max_influence([32], 30) == pytest.approx(mild.max_influence([32], 30), rel=1e-9)


def test_pgmpy_networks_are_read(rng):
    models = pytest.importorskip("pgmpy.models")
    factors = pytest.importorskip("pgmpy.factors.discrete")
    cards = {"A": 2, "B": 3, "C": 2}
    tables = {
        "A": rng.dirichlet(np.ones(2)),
        "B": rng.dirichlet(np.ones(3)),
        "C": rng.dirichlet(np.ones(2), size=(2, 3)),
    }
    model = models.DiscreteBayesianNetwork([("A", "C"), ("B", "C")])
    model.add_cpds(
        factors.TabularCPD("A", 2, tables["A"].reshape(2, 1)),
        factors.TabularCPD("B", 3, tables["B"].reshape(3, 1)),
        factors.TabularCPD("C", 2, tables["C"].reshape(6, 2).T, evidence=["A", "B"], evidence_card=[2, 3]),
    )
    read = BayesianNetwork(model, nodes=("A", "B", "C"))
    plain = BayesianNetwork({"A": ([], tables["A"]), "B": ([], tables["B"]), "C": (["A", "B"], tables["C"])})
    assert read.states == cards
    assert read == plain
    assert read.max_influence(["A"], "B", ["C"]) == plain.max_influence(["A"], "B", ["C"])

    network = models.DiscreteMarkovNetwork([("A", "B"), ("B", "C")])
    ab, bc = np.exp(rng.normal(size=(2, 3))), np.exp(rng.normal(size=(3, 2)))
    network.add_factors(
        factors.DiscreteFactor(["A", "B"], [2, 3], ab), factors.DiscreteFactor(["B", "C"], [3, 2], bc)
    )
    read = MarkovNetwork(network)
    plain = MarkovNetwork([(("A", "B"), ab), (("B", "C"), bc)])
    assert read.nodes == plain.nodes == ("A", "B", "C")
    assert read.blanket("B") == ("A", "C")
    assert read.max_influence(["C"], "A") == pytest.approx(plain.max_influence(["C"], "A"), rel=1e-12)

    inference = pytest.importorskip("pgmpy.inference").VariableElimination(model)
    law = inference.query(["A", "B", "C"], show_progress=False)
    values = {
        data: law.get_value(**dict(zip("ABC", data, strict=True)))
        for data in itertools.product((0, 1), (0, 1, 2), (0, 1))
    }
    given = {
        (a, c): sum(values[a, b, c] for b in range(3))
        / sum(values[a, b, x] for b in range(3) for x in (0, 1))
        for a in (0, 1)
        for c in (0, 1)
    }
    expected = max(abs(math.log(given[0, c] / given[1, c])) for c in (0, 1))
    bayes = BayesianNetwork(model)
    assert bayes.max_influence(["C"], "A") == pytest.approx(expected, rel=1e-9)


def test_a_pgmpy_network_without_its_tables_is_refused():
    models = pytest.importorskip("pgmpy.models")
    with pytest.raises(InvalidArgument, match="node 'A' has none"):
        BayesianNetwork(models.DiscreteBayesianNetwork([("A", "B")]))
    with pytest.raises(InvalidArgument, match="has none"):
        MarkovNetwork(models.DiscreteMarkovNetwork([("A", "B")]))


BAD_BAYESIAN = [
    ({}, "mapping"),
    (None, "mapping"),
    ([("a", COIN)], "mapping"),
    ({"a": COIN + COIN}, "node 'a'"),
    ({"a": ("bc", COIN)}, "list of nodes"),
    ({"a": ([["b"]], STEP)}, "list of nodes"),
    ({"a": (["z"], STEP)}, "unknown parent 'z'"),
    ({"a": (["b"], STEP), "b": (["a"], STEP)}, "cycle"),
    ({"a": (["a"], STEP)}, "'a' → 'a'"),
    ({"a": (["c"], STEP), "b": (["a"], STEP), "c": (["b"], STEP), "d": ([], COIN)}, "cycle"),
    ({"a": ([], [0.5, 0.6])}, "sum to 1.1"),
    ({"a": ([], COIN), "b": (["a"], [[0.5, 0.5], [0.5, 0.4]])}, r"node 'b' given \{'a': 1\} sum to 0.9"),
    ({"a": ([], [1.5, -0.5])}, "none negative"),
    ({"a": ([], [math.nan, 1.0])}, "finite"),
    ({"a": ([], "half")}, "finite"),
    ({"a": ([], [])}, "finite"),
    ({"a": ([], COIN), "b": (["a"], COIN)}, "axes"),
    ({"a": ([], [0.2, 0.3, 0.5]), "b": (["a"], STEP)}, "axes"),
    ({"a": ([], COIN), "b": (["a", "a"], BOTH)}, "each parent once"),
]


@pytest.mark.parametrize(("model", "words"), BAD_BAYESIAN)
def test_bad_bayesian_networks_are_refused(model, words):
    with pytest.raises(InvalidArgument, match=words):
        BayesianNetwork(model)


def test_a_cycle_is_named_in_the_direction_of_its_arrows():
    model = {"a": (["c"], STEP), "b": (["a"], STEP), "c": (["b"], STEP)}
    with pytest.raises(InvalidArgument) as caught:
        BayesianNetwork(model)
    arrows = caught.value.expected.split("(")[1].rstrip(")").split(" → ")
    for cause, effect in itertools.pairwise(arrows):
        assert cause.strip("'") in model[effect.strip("'")][0]


BAD_MARKOV = [
    ([], "at least one factor"),
    ("factors", "list of factors"),
    ({"a": COIN}, "list of factors"),
    ([("a",)], "factor 0"),
    ([("ab", STEP)], "list of nodes"),
    ([((), 1.0)], "at least one node"),
    ([([["a"]], COIN)], "list of nodes"),
    ([(("a", "b"), COIN)], "one axis for each node"),
    ([(("a", "a"), STEP)], "one axis for each node"),
    ([(("a",), [1.0, -1.0])], "none negative"),
    ([(("a",), [1.0, math.inf])], "finite"),
    ([(("a",), [0.0, 0.0])], "some possible dataset"),
    ([(("a",), [1.0, 0.0]), (("a",), [0.0, 1.0])], "partition function is zero"),
    ([(("a",), [1.0, 1.0]), (("a", "b"), [[1.0, 1.0]] * 3)], "as many states"),
]


@pytest.mark.parametrize(("model", "words"), BAD_MARKOV)
def test_bad_markov_networks_are_refused(model, words):
    with pytest.raises(InvalidArgument, match=words):
        MarkovNetwork(model)


NET = BayesianNetwork(ALARM)


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("i", lambda: NET.blanket("thief")),
        ("i", lambda: NET.blanket(["burglar"])),
        ("i", lambda: NET.quilts(0)),
        ("targets", lambda: NET.max_influence("thief", "alarm")),
        ("targets", lambda: NET.max_influence(["alarm"], "alarm")),
        ("targets", lambda: NET.max_influence(["quake"], "alarm", given=["quake"])),
        ("targets", lambda: NET.max_influence(["quake", "quake"], "alarm")),
        ("given", lambda: NET.max_influence(["quake"], "alarm", given=3)),
        ("quilt", lambda: NET.quilt_influence("alarm")),
        ("dp", lambda: NET.bayesian_dp(0.1)),
        ("dp", lambda: NET.bayesian_dp(DP(0.1, 1e-9))),
        ("method", lambda: NET.bayesian_dp(DP(0.1), "spectral")),
        ("method", lambda: NET.bayesian_dp(DP(0.1), "coupling")),
        ("bdp", lambda: NET.required_dp(DP(0.1))),
        ("method", lambda: NET.required_dp(BayesianDP(0.1), None)),
        ("hi", lambda: NET.mean_tail(1, 0)),
        ("differences", lambda: NET.difference_tail([1.0])),
        ("nodes", lambda: BayesianNetwork(ALARM, nodes=["alarm"])),
        ("nodes", lambda: BayesianNetwork(ALARM, nodes="abc")),
        ("nodes", lambda: BayesianNetwork(ALARM, nodes=["alarm", "alarm", "quake"])),
    ],
)
def test_bad_arguments_are_refused(argument, bad):
    with pytest.raises(InvalidArgument) as refused:
        bad()
    assert refused.value.argument == argument


def grid(side):
    alike = [[2.0, 1.0], [1.0, 2.0]]
    across = [(((r, c), (r, c + 1)), alike) for r in range(side) for c in range(side - 1)]
    down = [(((r, c), (r + 1, c)), alike) for r in range(side - 1) for c in range(side)]
    return MarkovNetwork(across + down)


def test_what_would_be_too_large_is_said_before_it_starts():
    wide = grid(40)
    with pytest.raises(InvalidArgument, match="at most 16,777,216 numbers"):
        wide.max_influence([(0, 1)], (20, 20))
    with pytest.raises(InvalidArgument, match="numbers in one table"):
        wide.leakage(LaplaceAnswer(sum, 1.0))
    with pytest.raises(InvalidArgument, match="65,536 quilts"):
        grid(6).quilts((0, 0))
    with pytest.raises(InvalidArgument, match=f"Got {2**20} instead"):
        MarkovNetwork([((i,), COIN) for i in range(21)]).quilts(0, redundant=True)
    star = MarkovNetwork([((0, i), STEP) for i in range(1, 31)])
    with pytest.raises(InvalidArgument, match=f"Got {2**30} instead"):
        star.quilts(0)
    with pytest.raises(InvalidArgument, match="65,536 quilts"):
        MarkovNetwork([((i, (i + 1) % 600), STEP) for i in range(600)]).quilts(0)
    wheel = MarkovNetwork(
        [((0, i), STEP) for i in range(1, 3000)] + [((i, i % 2999 + 1), STEP) for i in range(1, 3000)]
    )
    with pytest.raises(InvalidArgument, match="smaller"):
        wheel.bayesian_dp(DP(0.1), "blanket")
    with pytest.raises(InvalidArgument, match="smaller components"):
        wide.bayesian_dp(DP(0.1), "blanket")
    assert wide.bayesian_dp(DP(0.1)).epsilon == pytest.approx(160.0)


def test_larger_networks_count_their_nearest_quilts():
    """Six by six: not all quilts, but the near ones, and never worse than the blanket or the group."""
    net = grid(6)
    for epsilon in (0.01, 1.0, 10.0):
        sharp = net.bayesian_dp(DP(epsilon)).epsilon
        assert sharp <= net.bayesian_dp(DP(epsilon), "blanket").epsilon
        assert sharp <= net.bayesian_dp(DP(epsilon), "group").epsilon
    assert net.bayesian_dp(DP(10.0)).epsilon < 40


def test_a_large_tree_has_its_recursion():
    rng = np.random.default_rng(0)
    tree = BayesianNetwork(
        {0: ([], COIN), **{i: ([int(rng.integers(i))], [[0.6, 0.4], [0.45, 0.55]]) for i in range(1, 800)}}
    )
    bound = tree.bayesian_dp(DP(0.01), "coupling").epsilon
    assert 0.01 < bound < 0.1
    assert tree.bayesian_dp(DP(0.01)).epsilon <= bound
    copies = BayesianNetwork(
        {0: ([], COIN), **{i: ([i - 1], [[1.0, 0.0], [0.5, 0.5]]) for i in range(1, 800)}}
    )
    assert copies.bayesian_dp(DP(0.01), "coupling").epsilon == pytest.approx(8.0)
    assert tree.bayesian_dp(DP(5.0), "blanket").epsilon < 30


def random_tree(rng, n):
    return BayesianNetwork(
        {0: ([], COIN), **{i: ([int(rng.integers(i))], rng.dirichlet([3.0, 3.0], 2)) for i in range(1, n)}}
    )


def test_ten_thousand_rows_of_a_tree_take_few_passes_of_few_levels(monkeypatch):
    """Each level is one call, each row is in one level, and the inverse needs few passes."""
    tree = random_tree(np.random.default_rng(0), 10_000)
    messages = tree._forest._pair_messages
    assert len(messages.levels) < 40
    assert sum(len(level.row_counts) for level in messages.levels) == 9_999
    assert messages.row_size == 10_000
    assert messages.edge_size == 9_999
    calls = []
    carried = _network_privacy.carried_by_pairs
    monkeypatch.setattr(_network_privacy, "carried_by_pairs", lambda *a: calls.append(1) or carried(*a))
    bound = tree.bayesian_dp(DP(0.01), "pairs").epsilon
    assert len(calls) == 2 * len(messages.levels)
    needed = tree.required_dp(BayesianDP(bound), "pairs").epsilon
    assert needed == pytest.approx(0.01, rel=1e-9)
    assert tree.bayesian_dp(DP(needed), "pairs").epsilon <= bound
    assert len(calls) <= 2 * len(messages.levels) * 25


def test_a_path_is_cut_from_both_ends_and_a_star_in_one_level():
    path = MarkovNetwork([((i, i + 1), STEP) for i in range(999)])
    assert len(path._forest._plain_messages.levels) == 500
    star = MarkovNetwork([((0, i), STEP) for i in range(1, 1000)])
    assert len(star._forest._plain_messages.levels) == 1
    alone = MarkovNetwork([((i,), COIN) for i in range(3)])
    assert alone.bayesian_dp(DP(0.3), "pairs").epsilon == pytest.approx(0.3)


@pytest.mark.parametrize("states", [2, 3])
def test_blankets_of_trees_are_those_of_their_joint_law(seed, states):
    """Neighbours are independent given a row, so their influences add up for each pair of its values."""
    for k in range(20):
        rng = np.random.default_rng([seed, k, 7])
        n = int(rng.integers(2, 7))
        factors = [((0,), np.ones(states))]
        for i in range(1, n):
            table = np.exp(rng.normal(size=(states, states)))
            if k % 4 == 3:
                table[rng.random(table.shape) < 0.2] = 0.0
                table[0] += 0.01
            factors.append(((int(rng.integers(i)), i), table))
        net = MarkovNetwork(factors)
        for row in range(n):
            found = net._forest.blanket_influences[row]
            expected = net.max_influence(net.blanket(row), row)
            assert found == expected or found == pytest.approx(expected, rel=1e-9)


def test_where_the_caller_gives_the_training_part_nothing_is_computed_again():
    tree = random_tree(np.random.default_rng(1), 60)
    bound, tail = tree.bayesian_dp(DP(0.1)), tree.mean_tail(0, 1)
    same = tree.protected_only()
    assert same._forest is tree._forest
    assert (same.bayesian_dp(DP(0.1)), same.mean_tail(0, 1)) == (bound, tail)
    assert same.fingerprint == tree.fingerprint
    assert same.assumptions[:-1] == tree.assumptions
    assert "training part" in same.assumptions[-1]
    assert same != tree


def test_a_star_of_thousands_of_rows_has_its_blanket():
    star = MarkovNetwork([((0, i), STEP) for i in range(1, 3000)])
    pair = MarkovNetwork([((0, 1), STEP)])
    expected = 2999 * pair.max_influence([1], 0)
    assert star.bayesian_dp(DP(0.1), "blanket").epsilon == pytest.approx(0.1 + 2 * expected, rel=1e-9)
    assert star.bayesian_dp(DP(0.1)).epsilon <= 300 * (1 + 1e-12)
