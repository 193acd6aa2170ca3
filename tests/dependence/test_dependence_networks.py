"""Networks against brute force written here: influence, blankets, quilts, leakage, the lemmas' promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from holdfast.dependence import BayesianNetwork, MarkovChain, MarkovNetwork
from holdfast.stability import DP, BayesianDP

EPSILON = 0.3


def some_states(rng, n):
    """Two or three states; where there are many rows, mostly two."""
    return 2 + (rng.random(n) < (0.5 if n < 6 else 0.2))


def random_bayesian(rng, *, zeros=False, most=7):
    """A random order, up to three parents each, two or three states."""
    n = int(rng.integers(2, most + 1))
    cards = some_states(rng, n)
    model = {}
    for node in range(n):
        parents = [int(p) for p in rng.permutation(node)[: rng.integers(0, min(node, 3) + 1)]]
        shape = [int(cards[p]) for p in parents]
        table = rng.dirichlet(np.ones(cards[node]), size=shape or None)
        if zeros:
            table = np.where(rng.random(table.shape) < 0.25, 0.0, table)
            table[..., 0] += table.sum(axis=-1) == 0
            table /= table.sum(axis=-1, keepdims=True)
        model[node] = (parents, table)
    return model, tuple(int(c) for c in cards)


def random_markov(rng, *, zeros=False, most=7):
    n = int(rng.integers(2, most + 1))
    cards = [int(c) for c in some_states(rng, n)]
    factors = [((node,), np.exp(rng.normal(size=cards[node]))) for node in range(n)]
    for _ in range(int(rng.integers(1, n + 2))):
        scope = tuple(int(v) for v in rng.permutation(n)[: rng.integers(2, min(n, 3) + 1)])
        table = np.exp(rng.normal(size=[cards[v] for v in scope]))
        if zeros:
            table = np.where(rng.random(table.shape) < 0.2, 0.0, table)
            table.flat[0] = 1.0
        factors.append((scope, table))
    if zeros:
        factors = [
            (scope, np.where(np.arange(table.size).reshape(table.shape) == 0, 1.0, table))
            for scope, table in factors
        ]
    return factors, tuple(cards)


def law_of_bayesian(model, cards):
    """The joint law, dataset by dataset."""
    law = np.ones(cards)
    for data in itertools.product(*map(range, cards)):
        for node, (parents, table) in model.items():
            law[data] *= np.asarray(table)[(*(data[p] for p in parents), data[node])]
    return law


def law_of_markov(factors, cards):
    law = np.ones(cards)
    for data in itertools.product(*map(range, cards)):
        for scope, table in factors:
            law[data] *= np.asarray(table)[tuple(data[v] for v in scope)]
    return law / law.sum()


def moral_edges(model):
    edges = set()
    for node, (parents, _) in model.items():
        edges |= {frozenset((p, node)) for p in parents}
        edges |= {frozenset(pair) for pair in itertools.combinations(parents, 2)}
    return edges


def factor_edges(factors):
    return {frozenset(pair) for scope, _ in factors for pair in itertools.combinations(scope, 2)}


def marginal(law, keep):
    """The law of some rows, with the axes of the others of length one."""
    return law.sum(axis=tuple(r for r in range(law.ndim) if r not in keep), keepdims=True)


def brute_influence(law, targets, node, given):
    """BDP (6): all values of everything, as a plain loop over pairs of values of the node."""
    joint = marginal(law, {node, *targets, *given})
    context = marginal(law, {node, *given})
    worst = 0.0
    for x, other in itertools.permutations(range(law.shape[node]), 2):
        top, bottom = (np.take(joint, [v], axis=node) for v in (x, other))
        top_given, bottom_given = (np.take(context, [v], axis=node) for v in (x, other))
        both = np.broadcast_to((top_given > 0) & (bottom_given > 0), top.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (top / top_given) / (bottom / bottom_given)
        seen = ratio[both & (top > 0)]
        if seen.size:
            worst = max(worst, math.log(seen.max()))
    return worst


def separated(edges, node, quilt, n):
    """Rows that no path from ``node`` reaches without entering ``quilt``."""
    side = {node}
    while True:
        grown = side | {b for edge in edges for a in edge for b in edge if a in side and b not in quilt}
        if grown == side:
            return set(range(n)) - side - set(quilt)
        side = grown


def brute_quilts(edges, node, n):
    """Every set of other rows with the largest set that it keeps away from the node."""
    others = [r for r in range(n) if r != node]
    for size in range(n):
        for quilt in itertools.combinations(others, size):
            remote = separated(edges, node, quilt, n)
            yield frozenset(quilt), frozenset(set(others) - set(quilt) - remote), frozenset(remote)


def brute_leakage(law, likelihoods):
    """BDP (3) and (4), one adversary after the other."""
    n = law.ndim
    joint = law[..., None] * likelihoods
    worst = 0.0
    for node in range(n):
        others = [r for r in range(n) if r != node]
        for size in range(n):
            for known in itertools.combinations(others, size):
                hidden = tuple(r for r in others if r not in known)
                weight = np.moveaxis(law.sum(axis=hidden, keepdims=True), node, 0)
                output = np.moveaxis(joint.sum(axis=hidden, keepdims=True), node, 0)
                for x, other in itertools.permutations(range(law.shape[node]), 2):
                    both = (weight[x] > 0) & (weight[other] > 0)
                    with np.errstate(divide="ignore", invalid="ignore"):
                        ratio = (output[x] / weight[x][..., None]) / (
                            output[other] / weight[other][..., None]
                        )
                    seen = ratio[both[..., None] & (output[x] > 0)]
                    if seen.size:
                        worst = max(worst, math.log(seen.max()))
    return worst


def dp_mechanism(rng, cards, epsilon, outputs=2):
    """A table that is ε-DP for one changed row, and as wild as that allows: exp of a 1-Lipschitz function."""
    columns = []
    for _ in range(outputs):
        weights = rng.choice([-1.0, 1.0], size=(len(cards), max(cards)))
        part = sum(
            (weights[r][: cards[r]] * epsilon / 4).reshape([-1 if k == r else 1 for k in range(len(cards))])
            for r in range(len(cards))
        )
        columns.append(np.broadcast_to(part, cards))
    table = np.exp(np.stack(columns, axis=-1))
    return table / table.sum(axis=-1, keepdims=True)


def random_networks(seed, count):
    """Half Bayesian, half Markov; a quarter of all have impossible datasets."""
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        zeros = k % 4 == 3
        if k % 2:
            model, cards = random_bayesian(rng, zeros=zeros or k % 8 == 1)
            yield rng, BayesianNetwork(model), law_of_bayesian(model, cards), moral_edges(model)
        else:
            factors, cards = random_markov(rng, zeros=k % 8 == 2)
            yield rng, MarkovNetwork(factors), law_of_markov(factors, cards), factor_edges(factors)


def close(found, expected):
    return found == expected or abs(found - expected) <= 1e-9 * max(1.0, abs(expected))


def test_blankets_quilts_and_influences_of_200_networks_equal_brute_force(seed):
    for rng, net, law, edges in random_networks(seed, 200):
        n = law.ndim
        node = int(rng.integers(n))
        assert net.n == n
        assert {frozenset(edge) for edge in net.edges} == edges
        assert set(net.blanket(node)) == {b for edge in edges if node in edge for b in edge} - {node}
        every = list(brute_quilts(edges, node, n))
        listed = net.quilts(node, redundant=True)
        assert {(frozenset(q.quilt), frozenset(q.nearby), frozenset(q.remote)) for q in listed} == set(every)
        assert len(listed) == len(every)
        # No quilt row can be spared when each touches the node's side.
        needed = {
            entry for entry in every if all(any({q, s} in edges for s in {*entry[1], node}) for q in entry[0])
        }
        short = net.quilts(node)
        assert {(frozenset(q.quilt), frozenset(q.nearby), frozenset(q.remote)) for q in short} == needed
        assert [q.size for q in short] == sorted(q.size for q in short)
        others = [r for r in rng.permutation(n) if r != node]
        cut = int(rng.integers(1, n))
        targets, given = [int(r) for r in others[:cut]], [int(r) for r in others[cut : cut + 2]]
        assert close(net.max_influence(targets, node), brute_influence(law, targets, node, []))
        assert close(net.max_influence(targets, node, given), brute_influence(law, targets, node, given))


def brute_quilt_bounds(law, edges, epsilon, weight, *, blanket_only=False):
    """BDP Lemma 2 or 3 over all quilts, redundant ones included."""
    n = law.ndim
    bounds = []
    for node in range(n):
        best = math.inf
        for quilt, nearby, _ in brute_quilts(edges, node, n):
            if blanket_only and nearby:
                continue
            known = [c for size in range(len(nearby) + 1) for c in itertools.combinations(nearby, size)]
            b = max((brute_influence(law, quilt, node, c) for c in known), default=0.0) if quilt else 0.0
            best = min(best, (len(nearby) + 1) * epsilon + weight * b)
        bounds.append(best)
    return max(bounds)


@pytest.mark.parametrize("weight", [2.0, 4.0])
def test_the_lemmas_are_what_all_quilts_give(seed, weight):
    suffix = "-paper" if weight == 4.0 else ""
    for k in range(12):
        rng = np.random.default_rng([seed, k, 5])
        model, cards = random_bayesian(rng, most=4)
        law, edges = law_of_bayesian(model, cards), moral_edges(model)
        for epsilon in (0.05, 1.0, 5.0):
            expected = brute_quilt_bounds(law, edges, epsilon, weight)
            net = BayesianNetwork(model)
            assert close(net.bayesian_dp(DP(epsilon), "quilt" + suffix).epsilon, expected)
            printed = brute_quilt_bounds(law, edges, epsilon, weight, blanket_only=True)
            assert close(net.bayesian_dp(DP(epsilon), "blanket" + suffix).epsilon, printed)
            needed = net.required_dp(BayesianDP(expected), "quilt" + suffix).epsilon
            assert needed == pytest.approx(epsilon, rel=1e-9)
            short = net.required_dp(BayesianDP(printed), "blanket" + suffix).epsilon
            assert short == pytest.approx(epsilon, rel=1e-9)


def test_leakage_equals_brute_force_and_no_lemma_is_below_it(seed):
    require_leakage_of_brute_force(seed, 40)


@pytest.mark.slow
def test_leakage_of_200_networks_equals_brute_force_and_no_lemma_is_below_it(seed):
    require_leakage_of_brute_force(seed, 200)


def require_leakage_of_brute_force(seed, count):
    for rng, net, law, _ in random_networks(seed, count):
        table = dp_mechanism(rng, law.shape, EPSILON)
        leaked = net.leakage(table)
        assert close(leaked, brute_leakage(law, table))
        sharp = net.bayesian_dp(DP(EPSILON)).epsilon
        needed = net.required_dp(BayesianDP(EPSILON)).epsilon
        for method in ("quilt", "quilt-paper", "blanket", "blanket-paper", "coupling", "pairs", "group"):
            try:
                promised = net.bayesian_dp(DP(EPSILON), method).epsilon
            except ValueError:
                continue
            assert promised >= leaked * (1 - 1e-9), method
            assert sharp <= promised, method
            assert needed >= net.required_dp(BayesianDP(EPSILON), method).epsilon, method


def with_more(table, emissions):
    """A table over states as one over (state, what else a row shows), drawn given its own state."""
    shown = emissions.shape[1]
    spread = table
    for axis in range(table.ndim):
        spread = np.repeat(spread, shown, axis=axis)
    return spread * emissions.ravel()


def test_rows_with_more_than_their_state_have_the_bounds_of_the_state(seed):
    """Each row shows one of three further values, drawn given its own state: every bound stays."""
    for k in range(6):
        rng = np.random.default_rng([seed, k, 11])
        emissions = rng.dirichlet(np.ones(3), 2)
        start, step, both = (rng.dirichlet([2.0, 2.0], shape) for shape in ((), (2,), (2, 2)))
        tables = {0: ([], start), 1: ([0], step), 2: ([0], step), 3: ([1, 2], both)}
        for used in ((0, 1, 2), (0, 1, 2, 3)):
            net = BayesianNetwork({node: tables[node] for node in used})
            rich = BayesianNetwork(
                {node: (tables[node][0], with_more(np.asarray(tables[node][1]), emissions)) for node in used}
            )
            on_trees = ("coupling", "pairs") if len(used) == 3 else ()
            for method in ("group", "quilt", "blanket", "dobrushin", *on_trees):
                bound = net.bayesian_dp(DP(0.3), method).epsilon
                assert rich.bayesian_dp(DP(0.3), method).epsilon == pytest.approx(bound, rel=1e-9)
            radius = net.mean_tail(0, 1).radius(0.05)
            assert rich.mean_tail(0, 1).radius(0.05) == pytest.approx(radius, rel=1e-8)
        chain = MarkovChain(step, 30)
        longer = MarkovChain(with_more(step, emissions), 30)
        assert longer.cross_ratio == pytest.approx(chain.cross_ratio, rel=1e-9)
        assert longer.contraction == pytest.approx(chain.contraction, rel=1e-9)
        assert longer.spectral_gap == pytest.approx(chain.spectral_gap, rel=1e-9)
        bound, radius = chain.bayesian_dp(DP(0.3)).epsilon, chain.mean_tail(0, 1).radius(0.05)
        assert longer.bayesian_dp(DP(0.3)).epsilon == pytest.approx(bound, rel=1e-9)
        assert longer.mean_tail(0, 1).radius(0.05) == pytest.approx(radius, rel=1e-6)
