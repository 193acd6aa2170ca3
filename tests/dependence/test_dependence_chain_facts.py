"""Markov chains: what is computed from the matrix, what is refused, what fitting says."""

from __future__ import annotations

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.dependence import MarkovChain
from holdfast.errors import InvalidArgument

STICKY = [[0.9, 0.1], [0.2, 0.8]]
PERIODIC = [[0.0, 1.0], [1.0, 0.0]]
REDUCIBLE = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
ABSORBED = [[0.5, 0.5, 0.0], [0.0, 0.7, 0.3], [0.0, 0.4, 0.6]]

matrices = st.integers(2, 5).flatmap(
    lambda s: st.lists(st.lists(st.floats(0.01, 1.0), min_size=s, max_size=s), min_size=s, max_size=s).map(
        lambda rows: np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    )
)


@given(matrices)
def test_the_stationary_law_is_stationary(matrix):
    chain = MarkovChain(matrix, 10)
    assert chain.stationary.sum() == pytest.approx(1)
    np.testing.assert_allclose(chain.stationary @ chain.transition, chain.stationary, rtol=1e-12)


def test_the_stationary_law_is_exact_however_slowly_the_chain_mixes():
    chain = MarkovChain([[1 - 1e-9, 1e-9], [3e-9, 1 - 3e-9]], 10)
    np.testing.assert_allclose(chain.stationary, [0.75, 0.25], rtol=1e-6)
    tiny = MarkovChain([[0.5, 0.5, 0], [1e-14, 0.5, 0.5 - 1e-14], [0, 1e-14, 1 - 1e-14]], 10).stationary
    assert tiny[0] == pytest.approx(4e-28, rel=1e-6)


@given(matrices)
def test_the_operator_norm_is_what_no_function_exceeds_and_one_reaches(matrix):
    """The largest ‖Pf‖/‖f‖ over mean-zero f, through a basis that is orthonormal in L²(π)."""
    chain = MarkovChain(matrix, 10)
    pi = chain.stationary
    basis = np.linalg.qr(np.column_stack([np.sqrt(pi), np.eye(len(pi))]))[0][:, 1:] / np.sqrt(pi)[:, None]
    image = chain.transition @ basis
    norm = math.sqrt(max(np.linalg.eigvalsh(image.T @ (pi[:, None] * image))[-1], 0.0))
    assert 1 - chain.spectral_gap == pytest.approx(norm, abs=1e-7)
    assert chain.spectral_gap <= 1 - norm + 1e-9


def test_the_gap_of_a_reversible_chain_is_that_of_its_eigenvalues(rng):
    weights = rng.random((6, 6))
    weights += weights.T
    chain = MarkovChain(weights / weights.sum(axis=1, keepdims=True), 10)
    moduli = np.sort(np.abs(np.linalg.eigvals(chain.transition)))
    assert chain.reversible
    assert chain.spectral_gap == pytest.approx(1 - moduli[-2], rel=1e-9)
    turning = MarkovChain([[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.7, 0.1, 0.2]], 10)
    assert not turning.reversible
    np.testing.assert_allclose(turning.stationary, 1 / 3)


@given(matrices)
def test_contraction_and_cross_ratio_are_their_definitions(matrix):
    chain = MarkovChain(matrix, 10)
    p = chain.transition
    states = range(len(p))
    theta = max(sum(abs(p[a] - p[b])) / 2 for a in states for b in states)
    assert theta <= chain.contraction <= theta + 1e-12
    kappa = min(p[a, y] * p[b, z] / (p[b, y] * p[a, z]) for a, b, y, z in itertools.product(states, repeat=4))
    assert kappa * (1 - 1e-12) <= chain.cross_ratio <= kappa


def test_the_cross_ratio_counts_only_steps_that_are_possible():
    assert MarkovChain(STICKY, 10).cross_ratio == pytest.approx(0.1 * 0.2 / (0.9 * 0.8))
    assert MarkovChain(ABSORBED, 10, initial=[1, 0, 0]).cross_ratio == 0
    never = [[0.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 0.25, 0.75]]
    assert MarkovChain(never, 10, initial=[1, 0, 0]).cross_ratio == pytest.approx(1 / 3)


def test_mpmath_agrees_on_a_chain_with_three_states():
    matrix = [["0.6", "0.3", "0.1"], ["0.1", "0.5", "0.4"], ["0.5", "0.05", "0.45"]]
    exact = mpmath.matrix(matrix)
    system = exact.T - mpmath.eye(3)
    system[2, :] = mpmath.ones(1, 3)
    pi = mpmath.lu_solve(system, mpmath.matrix([0, 0, 1]))
    scaled = mpmath.matrix(3, 3)
    for i, j in itertools.product(range(3), repeat=2):
        scaled[i, j] = mpmath.sqrt(pi[i]) * exact[i, j] / mpmath.sqrt(pi[j])
    singular = sorted(mpmath.svd_r(scaled, compute_uv=False), reverse=True)
    chain = MarkovChain(np.array(matrix, dtype=float), 10)
    assert chain.spectral_gap == pytest.approx(float(1 - singular[1]), rel=1e-12)
    np.testing.assert_allclose(chain.stationary, [float(x) for x in pi], rtol=1e-13)


@pytest.mark.parametrize(
    "transition",
    [
        [[0.5, 0.4], [0.5, 0.5]],
        [[1.1, -0.1], [0.5, 0.5]],
        [[0.5, 0.5]],
        [[math.nan, 0.5], [0.5, 0.5]],
        [0.5, 0.5],
        [],
        "ab",
        None,
        [[1.0, 2.0], [3.0]],
    ],
)
def test_a_matrix_that_is_not_a_transition_matrix_is_refused(transition):
    with pytest.raises(InvalidArgument, match="transition"):
        MarkovChain(transition, 10)


def test_a_bad_row_is_named_and_a_sum_within_tolerance_is_divided_out():
    with pytest.raises(InvalidArgument, match=r"row 1 sums to 0\.9"):
        MarkovChain([[0.5, 0.5], [0.5, 0.4]], 10)
    with pytest.raises(InvalidArgument):
        MarkovChain([[0.5, 0.5 + 2e-9], [0.5, 0.5]], 10)
    np.testing.assert_allclose(
        MarkovChain([[0.5, 0.5 + 5e-10], [0.5, 0.5]], 10).transition.sum(axis=1), 1, rtol=1e-15
    )


@pytest.mark.parametrize("initial", [[0.5], [0.5, 0.4], [1.5, -0.5], [math.nan, 1.0], "ab", [[0.5, 0.5]]])
def test_a_bad_start_is_refused(initial):
    with pytest.raises(InvalidArgument, match="initial"):
        MarkovChain(STICKY, 10, initial=initial)


@pytest.mark.parametrize("n", [0, -1, 2.5, math.nan, None])
def test_the_number_of_rows_is_a_whole_number(n):
    with pytest.raises(InvalidArgument, match="'n'"):
        MarkovChain(STICKY, n)


def test_a_reducible_chain_has_no_stationary_law_of_its_own_and_says_which_state_is_cut_off():
    with pytest.raises(InvalidArgument, match="state 2 is never reached from state 0"):
        MarkovChain(REDUCIBLE, 10).mean_tail(0, 1)
    with pytest.raises(InvalidArgument, match="one closed class"):
        MarkovChain(REDUCIBLE, 10, initial=[1, 0, 0]).mean_tail(0, 1)
    with pytest.raises(InvalidArgument, match="irreducible"):
        MarkovChain(ABSORBED, 10).stationary  # noqa: B018


def test_a_periodic_chain_has_no_tail_but_a_stationary_law():
    chain = MarkovChain(PERIODIC, 10)
    np.testing.assert_allclose(chain.stationary, [0.5, 0.5])
    assert chain.spectral_gap == 0
    with pytest.raises(InvalidArgument, match="without a period"):
        chain.mean_tail(0, 1)


def test_a_chain_with_states_it_leaves_for_good_has_a_tail_from_a_given_start():
    assert MarkovChain(ABSORBED, 1000, initial=[1, 0, 0]).mean_tail(0, 1).radius(0.05) < 0.3


def test_fitting_counts_transitions_warns_and_is_listed_as_an_assumption(rng):
    states = [0]
    for _ in range(5000):
        states.append(int(rng.random() < (0.1, 0.8)[states[-1]]))
    with pytest.warns(UserWarning, match="taken as exact"):
        chain = MarkovChain.fit(states)
    moves = list(itertools.pairwise(states))
    from_zero = [b for a, b in moves if a == 0]
    assert chain.transition[0, 1] == pytest.approx(np.mean(from_zero))
    np.testing.assert_allclose(chain.transition, [[0.9, 0.1], [0.2, 0.8]], atol=0.05)
    assert chain.n == len(states)
    assert any("fitted" in sentence for sentence in chain.assumptions)
    with pytest.warns(UserWarning, match="assumptions"):
        assert MarkovChain.fit(states, n=77).n == 77


@pytest.mark.parametrize("states", [[0], [0.5, 1.0], [-1, 0], "abc", [[0, 1]], [0, 1]])
def test_fitting_refuses_what_it_cannot_fit(states):
    with pytest.raises(InvalidArgument, match="states"):
        MarkovChain.fit(states)


def test_fitting_refuses_too_few_states_and_states_never_seen():
    with pytest.raises(InvalidArgument, match="n_states"):
        MarkovChain.fit([0, 1, 2, 0], n_states=2)
    with pytest.raises(InvalidArgument, match="state 3 is never left"):
        MarkovChain.fit([0, 1, 2, 0], n_states=4)


def test_chains_are_values():
    chain = MarkovChain(STICKY, 10)
    assert chain == MarkovChain(np.array(STICKY), 10)
    assert hash(chain) == hash(MarkovChain(STICKY, 10))
    assert chain != MarkovChain(STICKY, 10, initial=[0.5, 0.5])
    assert chain != MarkovChain(STICKY, 11)
    assert repr(chain) == "MarkovChain(states=2, n=10, start=stationary)"
    with pytest.raises(ValueError, match="read-only"):
        chain.transition[0, 0] = 1.0
    assert json.loads(json.dumps(chain.to_dict()))["transition"] == STICKY
