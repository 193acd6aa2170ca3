"""Tails of means along a Markov chain, against the exact law of the mean."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dependence_oracles import worst_ratio
from hypothesis import given
from hypothesis import strategies as st

from holdfast.dependence import BestTail, Independent, MarkovChain, beta_mixing_tail
from holdfast.errors import InvalidArgument
from holdfast.tails import SubGaussian

STICKY = np.array([[0.9, 0.1], [0.2, 0.8]])
THREE = np.array([[0.6, 0.3, 0.1], [0.1, 0.5, 0.4], [0.5, 0.05, 0.45]])
WINDOW = np.zeros((8, 8))
for bits, new in itertools.product(range(8), range(2)):
    WINDOW[bits, (2 * bits + new) % 8] = 0.5
VALID = 1 + 1e-12
MAJORITY = np.array([bits.bit_count() >= 2 for bits in range(8)], dtype=int)


def law_of_count(transition, start, indicator, n):
    """P(count = k) of rows with indicator 1, by dynamic programming over (state, count)."""
    joint = np.zeros((len(transition), n + 1))
    joint[np.arange(len(transition)), indicator] = start
    for _ in range(n - 1):
        moved = transition.T @ joint
        joint = np.where(indicator[:, None] == 1, np.roll(moved, 1, axis=1), moved)
    return joint.sum(axis=0)


def law_by_paths(transition, start, indicator, n):
    law = np.zeros(n + 1)
    for path in itertools.product(range(len(transition)), repeat=n):
        p = start[path[0]]
        for a, b in itertools.pairwise(path):
            p *= transition[a, b]
        law[sum(indicator[x] for x in path)] += p
    return law


def ratio_of(tail, law, centre=None):
    """The worst ratio for a mean that is a multiple of 1/n, with these probabilities of its multiples."""
    return worst_ratio(tail, np.arange(len(law)) / (len(law) - 1), law, centre)


def indicators(states):
    return [np.array(f) for f in itertools.product((0, 1), repeat=states) if 0 < sum(f) < states]


@pytest.mark.parametrize(("transition", "n"), [(STICKY, 8), (THREE, 6)])
def test_the_dynamic_programme_is_the_enumeration_of_all_paths(transition, n):
    start = np.full(len(transition), 1 / len(transition))
    for f in indicators(len(transition)):
        np.testing.assert_allclose(
            law_of_count(transition, start, f, n), law_by_paths(transition, start, f, n), rtol=0, atol=1e-14
        )


def random_chains(rng):
    for states, sticky in itertools.product((2, 3, 4), (0.0, 0.5, 0.9)):
        yield sticky * np.eye(states) + (1 - sticky) * rng.dirichlet(np.full(states, 0.5), states)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 40])
def test_every_row_holds_for_every_indicator_on_stationary_chains(rng, n):
    for transition in [STICKY, THREE, WINDOW, *random_chains(rng)]:
        chain = MarkovChain(transition, n)
        tail = chain.mean_tail(0, 1)
        for f in indicators(len(transition))[:: 17 if len(transition) == 8 else 1]:
            law = law_of_count(transition, chain.stationary, f, n)
            for row in tail.rows:
                assert ratio_of(row.tail, law) <= VALID, (row.name, transition, f)


@pytest.mark.parametrize("n", [1, 2, 5, 10, 40])
def test_every_row_holds_from_any_start_about_either_mean(rng, n):
    for transition in [STICKY, THREE, *random_chains(rng)]:
        for state in range(len(transition)):
            start = np.eye(len(transition))[state]
            chain = MarkovChain(transition, n, initial=start)
            own, stationary = chain.mean_tail(0, 1), chain.mean_tail(0, 1, target="stationary")
            assert "stationary chain" not in [row.name for row in own.rows]
            for f in indicators(len(transition)):
                law = law_of_count(transition, start, f, n)
                for row in own.rows:
                    assert ratio_of(row.tail, law) <= VALID, row.name
                for row in stationary.rows:
                    assert ratio_of(row.tail, law, centre=float(chain.stationary @ f)) <= VALID, row.name


def test_a_twin_that_takes_the_rows_for_independent_is_caught():
    law = law_of_count(STICKY, MarkovChain(STICKY, 40).stationary, np.array([0, 1]), 40)
    assert ratio_of(Independent(40).mean_tail(0, 1), law) > 2


def test_a_twin_that_forgets_the_start_bias_is_caught():
    """One row, started in a state that is rare later on: its mean is far from the stationary one."""
    chain = MarkovChain([[0.01, 0.99], [0.01, 0.99]], 1, initial=[1.0, 0.0])
    law = law_of_count(chain.transition, chain.initial, np.array([1, 0]), 1)
    assert ratio_of(chain.mean_tail(0, 1), law, centre=0.01) > 3
    assert ratio_of(chain.mean_tail(0, 1, target="stationary"), law, centre=0.01) <= VALID


def eigenvalue_tail(transition, n):
    """The sabotaged row: the second eigenvalue's modulus where the operator norm belongs."""
    modulus = np.sort(np.abs(np.linalg.eigvals(transition)))[-2]
    return SubGaussian(0.5 * math.sqrt((1 + modulus) / ((1 - modulus) * n)))


def test_with_eigenvalues_the_stationary_row_is_false():
    """The erratum: all eigenvalues of a 3-bit window are 0, and the bound is beaten by a factor of 6·10⁴."""
    n = 60
    chain = MarkovChain(WINDOW, n)
    law = law_of_count(WINDOW, chain.stationary, MAJORITY, n)
    assert np.sort(np.abs(np.linalg.eigvals(WINDOW)))[-2] < 1e-4
    assert 5.9e4 < ratio_of(eigenvalue_tail(WINDOW, n), law) < 6.1e4
    assert chain.spectral_gap == 0.0
    assert ratio_of(chain.mean_tail(0, 1), law) <= VALID
    assert [row.name for row in chain.mean_tail(0, 1).rows] == ["Dobrushin contraction", "β-mixing blocks"]


def test_the_stationary_row_is_its_formula_and_halving_the_norm_is_caught():
    chain = MarkovChain([[0.95, 0.05], [0.05, 0.95]], 10)
    row = next(row for row in chain.mean_tail(0, 1).rows if row.name == "stationary chain")
    assert row.tail.radius(0.05) == pytest.approx(math.sqrt(math.log(40) * 1.9 / (2 * 10 * 0.1)), rel=1e-9)
    law = law_of_count(chain.transition, chain.stationary, np.array([0, 1]), 10)
    assert ratio_of(row.tail, law) <= VALID
    assert ratio_of(SubGaussian(0.5 * math.sqrt(1.45 / (0.55 * 10))), law) > 1


def test_dobrushins_row_is_never_worse_than_with_the_geometric_series(rng):
    for transition in random_chains(rng):
        chain = MarkovChain(transition, 500)
        row = next(row for row in chain.mean_tail(-1, 3).rows if row.name == "Dobrushin contraction")
        if chain.contraction < 1:
            geometric = 4.0 * math.sqrt(math.log(40) / 2 / 500) / (1 - chain.contraction)
            assert row.tail.radius(0.05) <= geometric * (1 + 1e-12)


def test_dobrushins_row_on_independent_rows_is_the_independent_one():
    chain = MarkovChain([[0.3, 0.7], [0.3, 0.7]], 1000)
    assert chain.mean_tail(0, 1).radius(0.01) == pytest.approx(
        Independent(1000).mean_tail(0, 1).radius(0.01), rel=1e-9
    )
    assert (chain.contraction, chain.cross_ratio) == (pytest.approx(0, abs=1e-15), pytest.approx(1))


def test_long_chains_join_the_tabulated_sums_to_the_bound_on_the_rest():
    """Beyond 2^20 rows the sum of coefficients is closed by its geometric bound."""
    transition = [[0.999, 0.001], [0.001, 0.999]]
    radii = [
        MarkovChain(transition, n, initial=[1, 0]).mean_tail(0, 1).rows[0].tail.radius(0.05) * math.sqrt(n)
        for n in (2**20 - 1, 2**20 + 1, 2**24)
    ]
    assert radii[0] < radii[1] * (1 + 1e-6)
    assert radii[0] == pytest.approx(radii[2], rel=1e-3)
    assert radii[2] == pytest.approx(500 * math.sqrt(math.log(40) / 2), rel=1e-2)


def test_yus_blocks_are_the_best_over_all_block_lengths():
    n, lo, hi = 997, -1.0, 2.0
    beta = [0.9**a for a in range(1, n)]
    tail = beta_mixing_tail(beta, n, lo, hi)
    for nu in (0.4, 0.05, 1e-3, 1e-9):
        brute = math.inf
        for a in range(1, n // 2 + 1):
            mu = n // (2 * a)
            left = nu - 2 * (mu - 1) * beta[a - 1]
            if left > 0:
                inside = 2 * mu * a / n
                brute = min(brute, 3, 3 * (inside * math.sqrt(math.log(4 / left) / (2 * mu)) + 1 - inside))
        assert tail.radius(nu) == pytest.approx(brute, rel=1e-9)
        if brute < 3:
            assert tail.gamma(tail.radius(nu)) == pytest.approx(-math.log(nu), rel=1e-6)
    assert tail.radius(1e-9) == 3
    assert tail.gamma(3) == math.inf


def test_yus_blocks_do_not_lose_a_tiny_coefficient_to_underflow():
    """β(a) = 2^{−a} is 0 in floating point from a = 1075 on; counted as 0 the radius would be below 0.5."""
    chain = MarkovChain([[0.75, 0.25], [0.25, 0.75]], 10**7, initial=[1, 0])
    block = next(row for row in chain.mean_tail(0, 1).rows if row.name == "β-mixing blocks").tail
    blocks = 10**7 / (2 * 2000 / math.log(2))
    assert block.radius_at(2000.0) >= math.sqrt(2000 / (2 * blocks))
    assert block.radius_at(2000.0) <= 1.1 * math.sqrt(2000 / (2 * blocks))


def test_a_twin_without_the_mixing_term_is_caught():
    chain = MarkovChain([[0.99, 0.01], [0.01, 0.99]], 40)
    law = law_of_count(chain.transition, chain.stationary, np.array([0, 1]), 40)
    assert ratio_of(beta_mixing_tail([0.0], 40, 0, 1), law) > 1
    assert ratio_of(chain.mean_tail(0, 1).rows[-1].tail, law) <= VALID


def test_bounded_differences_hold_for_a_statistic_that_is_no_mean():
    """How often the state changes: one row moves that number by at most two."""
    n, chain = 10, MarkovChain(STICKY, 10)
    values, weights = [], []
    for path in itertools.product((0, 1), repeat=n):
        p = chain.stationary[path[0]]
        for a, b in itertools.pairwise(path):
            p *= STICKY[a, b]
        values.append(sum(a != b for a, b in itertools.pairwise(path)))
        weights.append(p)
    values, weights = np.array(values, dtype=float), np.array(weights)
    distance = np.abs(values - weights @ values)
    tail = chain.difference_tail(2.0)
    for t in np.unique(distance):
        assert weights[distance >= t].sum() <= VALID * math.exp(-tail.gamma(float(t) * (1 - 1e-9)))
    assert chain.difference_tail([2.0] * n) == tail
    assert chain.difference_tail(1 / n).radius(0.1) >= chain.mean_tail(0, 1).rows[0].tail.radius(0.1)


@given(
    stay=st.floats(0.05, 0.99),
    other=st.floats(0.05, 0.99),
    n=st.integers(2, 2000),
    nats=st.floats(0.0, 3000.0),
)
def test_the_best_tail_is_the_best_and_moves_the_right_way(stay, other, n, nats):
    chain = MarkovChain([[stay, 1 - stay], [1 - other, other]], n)
    tail = chain.mean_tail(0, 1)
    assert isinstance(tail, BestTail)
    radius = tail.radius_at(nats)
    assert radius == min(row.tail.radius_at(nats) for row in tail.rows)
    assert radius >= min(1.0, Independent(n).mean_tail(0, 1).radius_at(nats)) * (1 - 1e-9)
    assert radius <= tail.radius_at(nats + 1.0)
    assert chain.mean_tail(-1, 2).radius_at(nats) == pytest.approx(3 * radius, rel=1e-9)
    if math.isfinite(radius):
        assert tail.gamma(radius) >= nats * (1 - 1e-9) - 1e-9


def test_the_report_names_every_row_and_marks_the_best():
    report = MarkovChain(STICKY, 1000).mean_tail_report(0, 1, nu=0.01)
    assert [row.chosen for row in report.rows] == [True, False, False]
    assert report.rows[0].radius == MarkovChain(STICKY, 1000).mean_tail(0, 1).radius(0.01)
    assert "Fan, Jiang and Sun 2021" in str(report)
    assert str(report).count("\n") == 3


@pytest.mark.parametrize("target", ["mean", None, 3])
def test_the_mean_that_is_meant_is_one_of_two(target):
    with pytest.raises(InvalidArgument, match="'rows', 'stationary'"):
        MarkovChain(STICKY, 10).mean_tail(0, 1, target=target)


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("beta", lambda: beta_mixing_tail([0.1, 0.2], 10, 0, 1)),
        ("beta[0]", lambda: beta_mixing_tail([math.nan], 10, 0, 1)),
        ("n", lambda: beta_mixing_tail([0.1], 1, 0, 1)),
        ("hi", lambda: beta_mixing_tail([0.1], 10, 1, 1)),
        ("hi", lambda: MarkovChain(STICKY, 10).mean_tail(0, math.inf)),
        ("differences", lambda: MarkovChain(STICKY, 10).difference_tail([0.1] * 9)),
        ("differences", lambda: MarkovChain(STICKY, 10).difference_tail([0.0] * 10)),
        ("nu", lambda: MarkovChain(STICKY, 10).mean_tail_report(0, 1, nu=0.0)),
    ],
)
def test_bad_arguments_are_refused(argument, bad):
    with pytest.raises(InvalidArgument) as refused:
        bad()
    assert refused.value.argument == argument
