"""Several analyses of the same rows, each chosen after seeing the last: every bound against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from enumeration import close, hockey_stick, information_excess
from holdfast.dependence import MarkovChain
from holdfast.errors import InvalidArgument
from holdfast.stability import (
    DP,
    BayesianDP,
    MaxInformation,
    PerfectGeneralization,
    Replicability,
    SetStability,
    TwoSampleStability,
    TypicalStability,
    conditioned,
    explain,
)

# Replicability: data are one of a few values with a law; an algorithm is a list of (chance of the coins, what
# it gives on each value).


def mismatch(law, algorithm) -> float:
    """How often two samples and the same coins give different results."""
    total = 0.0
    for chance, results in algorithm:
        shares = dict.fromkeys(results, 0.0)
        for share, result in zip(law, results, strict=True):
            shares[result] += share
        same = sum(share**2 for share in shares.values())
        total += chance * (1.0 - same)
    return total


def composed(first, later):
    """First one analysis, then the one that its result picks, both on the same data."""
    return [
        (
            chance * other,
            list(zip(results, (seconds[y][index] for index, y in enumerate(results)), strict=True)),
        )
        for chance, results in first
        for other, seconds in later
    ]


def test_replicability_adds_up_on_the_same_rows(seed):
    rng = np.random.default_rng(seed)
    values, outputs = 5, 3
    for _ in range(200):
        law = rng.dirichlet(np.ones(values) * 0.3)
        coins = (rng.dirichlet(np.ones(count) * 0.3) for count in (3, 4))
        first = [(c, rng.integers(0, outputs, values).tolist()) for c in next(coins)]
        # Coins of the second analysis, and for each earlier result what it then gives.
        later = [(c, rng.integers(0, 3, (outputs, values)).tolist()) for c in next(coins)]
        rhos = [mismatch(law, [(c, seconds[y]) for c, seconds in later]) for y in range(outputs)]
        exact = mismatch(law, composed(first, later))
        assert exact <= mismatch(law, first) + max(rhos) + 1e-12
        assert exact <= Replicability(min(1.0, max(mismatch(law, first), *rhos))).compose(2).rho + 1e-12


def test_the_sum_is_reached_and_less_is_caught():
    law = np.array([0.005, 0.005, 0.99])
    first = [(1.0, [1, 0, 0])]
    later = [(1.0, [[0, 1, 0], [0, 1, 0]])]
    rho = mismatch(law, first)
    exact = mismatch(law, composed(first, later))
    assert 0.99 * Replicability(rho).compose(2).rho < exact <= Replicability(rho).compose(2).rho
    # A twin that composes k analyses as one is caught, and so is √k.
    assert exact > 1.4 * rho > rho


def test_choosing_by_the_rows_and_not_by_results_is_not_covered():
    # Two constants, each perfectly replicable; whoever picks one by looking at the rows is not.
    law = np.array([0.5, 0.5])
    assert all(mismatch(law, [(1.0, [y, y])]) == 0.0 for y in (0, 1))
    assert mismatch(law, [(1.0, [0, 1])]) == 0.5 > Replicability(0.0).compose(2).rho


# Max-information


def table_of(first, later):
    """The law of both outputs on each value of the data."""
    pairs = first[:, :, None] * later.transpose(1, 0, 2)
    return pairs.reshape(len(first), -1)


def test_max_information_composes():
    for trial in range(30):
        rng = np.random.default_rng(trial)
        values, outputs = 4, 3
        law = rng.dirichlet(np.ones(values))
        first = rng.dirichlet(np.ones(outputs) * 0.7, values)
        later = rng.dirichlet(np.ones(outputs) * 0.7, (outputs, values))
        bits = float(rng.uniform(0.1, 1.0))
        beta = max(information_excess(law, table, bits) for table in (first, *later))
        for d in (0.01, 0.1, None):
            whole = MaxInformation(bits, min(beta, 0.999)).compose(2, d)
            assert information_excess(law, table_of(first, later), whole.bits) <= whole.beta + 1e-12
        # For every law: the second's excess also where the first output is known.
        known = []
        for y in range(outputs):
            given = law * first[:, y]
            known.append(information_excess(given / given.sum(), later[y], bits))
        every = MaxInformation(bits, min(max(information_excess(law, first, bits), *known), 0.999))
        whole = every.compose(2, any_data=True)
        assert information_excess(law, table_of(first, later), whole.bits) <= whole.beta + 1e-12


def test_adding_bounds_for_one_law_of_the_rows_is_false():
    # One analysis gives a cell of sixteen values; the next gives the value if it lies in that cell.
    law, cells = np.full(16, 1 / 16), 4
    first = np.array([[float(value // 4 == y) for y in range(cells)] for value in range(16)])
    later = np.zeros((cells, 16, 17))
    for y, value in itertools.product(range(cells), range(16)):
        later[y, value, value if value // 4 == y else 16] = 1.0
    bits = 2.0
    assert information_excess(law, first, bits) == 0.0
    beta = max(information_excess(law, table, bits) for table in later)
    exact = information_excess(law, table_of(first, later), 2.0 * bits - 1.0)
    assert exact > 2.0 * beta + 0.1
    whole = MaxInformation(bits, beta).compose(2, 0.01)
    assert information_excess(law, table_of(first, later), whole.bits) <= whole.beta


def test_few_bits_compose_for_any_data():
    ten = MaxInformation(3.0, 0.0).compose(10, any_data=True)
    assert ten.bits == pytest.approx(30.0, rel=1e-12)
    assert ten.beta == 0.0
    with pytest.raises(InvalidArgument, match="any_data"):
        MaxInformation(1.0, 0.1).compose(2, any_data=1)
    with pytest.raises(InvalidArgument, match="left out"):
        MaxInformation(1.0, 0.1).compose(2, 0.1, any_data=True)


# Perfect generalisation and two-sample stability


def bad_share(law, table, simulator, epsilon, delta, *, one_way) -> float:
    """How likely the data are such that the output is not close to the simulator."""
    if one_way:
        good = hockey_stick(table, simulator, epsilon) <= delta + 1e-12
    else:
        good = close(table, simulator[None], epsilon, delta)
    return float(law[~good].sum())


@pytest.mark.parametrize("kind", ["two-way", "one-way", "sample"])
@pytest.mark.parametrize("trial", range(12))
def test_perfect_generalisation_composes(kind, trial):
    rng = np.random.default_rng(trial)
    law = np.array([0.4, 0.3, 0.3 - 2e-4, 1e-4, 1e-4])
    strength = 0.05

    def step(odd):
        """Close to one law on ordinary data, another one on rare data."""
        centre = rng.dirichlet(np.ones(4) * 3.0)
        table = centre * np.exp(strength * rng.uniform(-1.0, 1.0, (5, 4)))
        table[3 + odd] = rng.dirichlet(np.ones(4))
        return table / table.sum(axis=1, keepdims=True), centre

    first, centre = step(0)
    steps = [step(y % 2) for y in range(4)]
    later, centres = np.array([table for table, _ in steps]), np.array([c for _, c in steps])
    both = table_of(first, later)
    simulator = (centre[:, None] * centres).reshape(-1)
    epsilon, delta = 2.5 * strength, 1e-3
    one_way = kind == "one-way"
    if kind == "sample":

        def apart(table, e, d):
            return sum(
                law[i] * law[j]
                for i, j in itertools.product(range(5), repeat=2)
                if not close(table[i], table[j], e, d)
            )

        beta = max(apart(table, epsilon, delta) for table in (first, *later))
        whole = PerfectGeneralization(beta, epsilon, delta, kind=kind).compose(2, slack=0.2)
        assert apart(both, whole.epsilon, whole.delta) <= whole.beta + 1e-12
        two = TwoSampleStability(epsilon, delta, beta).compose(2, slack=0.2)
        assert (two.eta, two.tau, two.nu) == (whole.epsilon, whole.delta, whole.beta)
        assert 0.0 < whole.beta < 1.0
        return
    parts = [(first, centre), *steps]
    beta = max(bad_share(law, table, c, epsilon, delta, one_way=one_way) for table, c in parts)
    assert 0.0 < beta < 1e-3
    whole = PerfectGeneralization(beta, epsilon, delta, kind=kind).compose(2, slack=0.05)
    assert not whole.vacuous
    share = bad_share(law, both, simulator, whole.epsilon, whole.delta, one_way=one_way)
    assert share <= whole.beta + 1e-12


@pytest.mark.parametrize("kind", ["two-way", "one-way"])
def test_adding_the_shares_of_bad_data_is_false(kind):
    # The first output is a fair number that ignores the data; the next tells whether the data equal it.
    size = 10
    law = np.full(size, 1.0 / size)
    first = np.full((size, size), 1.0 / size)
    later = np.array([[[float(x != y), float(x == y)] for x in range(size)] for y in range(size)])
    simulator = np.array([[1.0 / size, 0.0]] * size).reshape(-1)
    centre = np.array([1.0, 0.0])
    beta = bad_share(law, later[0], centre, 0.0, 0.0, one_way=kind == "one-way")
    assert beta == pytest.approx(0.1)
    # (kβ, 0, τ) fails for every τ < 1/10: all data are bad.
    exact = bad_share(law, table_of(first, later), simulator, 0.0, 0.09, one_way=kind == "one-way")
    assert exact == pytest.approx(1.0)
    assert PerfectGeneralization(beta, 0.0, 0.0, kind=kind).compose(2, slack=0.09).vacuous
    half = PerfectGeneralization(beta, 0.0, 0.0, kind=kind).compose(2, slack=0.5)
    share = bad_share(
        law, table_of(first, later), simulator, half.epsilon, half.delta, one_way=kind == "one-way"
    )
    assert share <= half.beta < 1.0


@pytest.mark.parametrize("d", [0.01, 0.3, None])
def test_the_oracle_form_of_a_two_sample_statement(d):
    rng = np.random.default_rng(5)
    law = rng.dirichlet(np.ones(6))
    table = rng.dirichlet(np.ones(4) * 8.0, 6)
    eta, tau = 0.3, 0.05
    nu = sum(
        law[i] * law[j]
        for i, j in itertools.product(range(6), repeat=2)
        if not close(table[i], table[j], eta, tau)
    )
    assert 0.05 < nu < 0.95
    oracle = TwoSampleStability(eta, tau, nu).oracle(d)
    mixture = law @ table
    assert bad_share(law, table, mixture, oracle.eta, oracle.tau, one_way=False) <= oracle.nu + 1e-12


def test_nothing_is_composed_for_one_analysis():
    for notion in (
        PerfectGeneralization(0.1, 0.2, 0.3),
        TwoSampleStability(0.1, 0.2, 0.3),
        TypicalStability(0.1, 0.2, 0.3),
    ):
        assert notion.compose(1, slack=0.1) == notion
    assert Replicability(0.3).compose(1) == Replicability(0.3)
    assert MaxInformation(1.0, 0.1).compose(1) == MaxInformation(1.0, 0.1)


# Bayesian differential privacy

PAIR = MarkovChain([[0.1, 0.9], [0.02, 0.98]], n=2, initial=[0.5, 0.5])
CHANCE = np.array([[1.0, 0.1], [0.05, 0.01]]) / 2.0


def with_rest(chance):
    return np.stack([chance, 1.0 - chance], axis=-1)


def test_bayesian_privacy_does_not_add_up():
    one = PAIR.leakage(with_rest(CHANCE))
    both = np.stack([CHANCE**2, CHANCE * (1 - CHANCE), (1 - CHANCE) * CHANCE, (1 - CHANCE) ** 2], axis=-1)
    two = PAIR.leakage(both)
    assert one == pytest.approx(math.log(20), rel=1e-9)
    assert two > 2.0 * one + 0.6
    assert two <= BayesianDP(one).compose(2, model=PAIR).epsilon


@pytest.mark.parametrize("epsilon", [0.2, 1.5])
def test_bayesian_privacy_composes_through_the_model(epsilon):
    chain = MarkovChain([[0.8, 0.2], [0.3, 0.7]], n=3)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    data = np.array(list(itertools.product((0, 1), repeat=3)))
    rows = [np.where(data[:, place] == 1, truth, 1.0 - truth).reshape(2, 2, 2) for place in (0, 2)]
    tables = [with_rest(chance) for chance in rows]
    single = max(chain.leakage(table) for table in tables)
    pair = (tables[0][..., :, None] * tables[1][..., None, :]).reshape(2, 2, 2, 4)
    assert chain.leakage(pair) <= BayesianDP(single).compose(2, model=chain).epsilon
    with pytest.raises(InvalidArgument, match="dependence model"):
        BayesianDP(0.1).compose(2, model=None)


# The graph


def test_the_graph_composes_where_it_costs_least():
    direct = explain(Replicability(1e-3), "replicable", analyses=20)
    assert direct.result.rho == pytest.approx(0.02)
    assert [step.source for step in direct.steps] == ["replicable"]
    # Privacy first: √k, and then shared coins.
    private = explain(DP(1e-5), "replicable", n=1000, analyses=1000)
    assert [step.target for step in private.steps] == ["dp", "replicable"]
    assert private.result.rho < 1000 * explain(DP(1e-5), "replicable", n=1000).result.rho
    # A transcript has more outcomes than an output.
    few = explain(DP(3.0), "replicable", n=1000, outcomes=2, analyses=3)
    assert few.result.rho == pytest.approx(7 / 8)
    assert (
        explain(DP(1e-5), "replicable", n=1000, analyses=1).result
        == explain(DP(1e-5), "replicable", n=1000).result
    )


def test_printed_paths_only_use_printed_compositions():
    path = explain(TypicalStability(0.001, nu=1e-30), "typical", analyses=10, method="paper", slack=1e-20)
    assert path.steps[0].theorem == "TS Theorems 4.2 and 4.8"
    with pytest.raises(InvalidArgument, match="a notion that"):
        explain(BayesianDP(0.1), "bayesian-dp", analyses=10)


# The conditioning lemma and the set form


def conditional_failure(first, second, epsilon, kept) -> float:
    """How often, over t from the first pair's V, U given t is not close to U' given t."""
    failure = 0.0
    for t in range(first.shape[1]):
        weight = first[:, t].sum()
        given, other = first[:, t] / weight, second[:, t] / second[:, t].sum()
        failure += weight * (not close(given, other, epsilon, kept))
    return failure


def test_the_conditioning_lemma_on_small_pairs(seed):
    rng = np.random.default_rng(seed)
    informative = 0
    for _ in range(300):
        first = rng.dirichlet(np.ones(12) * 2.0).reshape(3, 4)
        epsilon = float(rng.uniform(0.05, 0.5))
        second = first * np.exp(
            rng.uniform(-1.2, 1.2, first.shape) * epsilon * (rng.random(first.shape) < 0.4)
        )
        second /= second.sum()
        delta = float(max(hockey_stick(first.ravel(), second.ravel(), epsilon), 0.0))
        delta = max(delta, float(hockey_stick(second.ravel(), first.ravel(), epsilon)))
        for kept in (0.01, 0.05, 0.2):
            wider, failure = conditioned(epsilon, delta, kept)
            assert conditional_failure(first, second, wider, kept) <= failure + 1e-12
            informative += 0.0 < failure < 1.0
            same = first.sum(axis=0) * second / second.sum(axis=0)
            apart = max(
                float(hockey_stick(a.ravel(), b.ravel(), epsilon)) for a, b in ((first, same), (same, first))
            )
            narrow, failure = conditioned(epsilon, apart, kept, same_marginal=True)
            assert conditional_failure(first, same, narrow, kept) <= failure + 1e-12
    assert informative > 20


def test_the_narrow_conditioning_needs_equal_marginals():
    # V = 0 gains almost ε, and U = 1 given V = 0 loses ε beside it: 2ε in all.
    epsilon = 0.2
    first = np.array([[0.2, 0.39], [0.02, 0.39]])
    second = first * np.array([[math.exp(epsilon), 1.0], [math.exp(-epsilon), 1.0]])
    second[:, 1] *= (1.0 - second[:, 0].sum()) / second[:, 1].sum()
    delta = max(
        float(hockey_stick(a.ravel(), b.ravel(), epsilon)) for a, b in ((first, second), (second, first))
    )
    kept = 1e-3
    assert delta < 1e-12
    _, failure = conditioned(epsilon, delta, kept, same_marginal=True)
    assert conditional_failure(first, second, epsilon, kept) > failure
    wider, failure = conditioned(epsilon, delta, kept)
    assert conditional_failure(first, second, wider, kept) <= failure


def test_the_set_form_has_its_own_printed_constant():
    stable = SetStability(0.5, 1e-3, 0.01)
    eta, added = stable.near_independence(method="paper")
    assert eta == 0.5
    assert added == pytest.approx(1e-3 + 0.04)
    assert stable.near_independence()[1] == pytest.approx(1e-3 + 0.01)
    assert stable.two_sample() == TwoSampleStability(0.5, 1e-3, 0.01)
    with pytest.raises(InvalidArgument, match="nu"):
        SetStability(0.5, 0.0, 0.2).near_independence(method="paper")


def test_the_set_form_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(6))
    table = rng.dirichlet(np.ones(3) * 6.0, 6)
    # The set: all but the rarest value.
    inside = [value for value in range(6) if value != int(np.argmin(law))]
    nu = 1.0 - law[inside].sum() ** 2
    eta = 0.4
    pairs = itertools.product(inside, repeat=2)
    tau = max(float(hockey_stick(table[x], table[y], eta)) for x, y in pairs)
    _, added = SetStability(eta, tau, nu).near_independence()
    joint, product = law[:, None] * table, law[:, None] * (law @ table)
    exact = float(np.maximum(joint - math.exp(eta) * product, 0.0).sum())
    assert exact <= added + 1e-12
