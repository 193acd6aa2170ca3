"""Exact leakage: closed forms, the supremum over all noise, every way to describe a mechanism, bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.dependence import (
    BayesianNetwork,
    Clusters,
    ExponentialChoice,
    Independent,
    LaplaceAnswer,
    MarkovChain,
    MarkovNetwork,
)
from holdfast.errors import InvalidArgument
from holdfast.stability import DP

STICKY = [[0.9, 0.1], [0.2, 0.8]]
CHAIN = MarkovChain(STICKY, 4)
COPY = BayesianNetwork({0: ([], [0.5, 0.5]), 1: ([0], np.eye(2)), 2: ([1], np.eye(2))})


def flipped(epsilon):
    """The first row, told with the wrong sign so often that ε-DP holds; two rows."""
    lie = 1 / (1 + math.exp(epsilon))
    table = np.empty((2, 2, 2))
    table[0], table[1] = [1 - lie, lie], [lie, 1 - lie]
    return table


@given(epsilon=st.floats(0.01, 5), first=st.floats(0.05, 0.95), second=st.floats(0.05, 0.95))
def test_two_rows_have_a_closed_form(epsilon, first, second):
    """Row 1 leaks through row 0, whose law given row 1 = b is (1 − q_b, q_b)."""
    chain = MarkovChain([[1 - first, first], [1 - second, second]], 2, initial=[0.5, 0.5])
    lie = 1 / (1 + math.exp(epsilon))
    q = [(1 - second) / (2 - first - second), second / (first + second)]
    one = [(1 - q[b]) * lie + q[b] * (1 - lie) for b in (0, 1)]
    through = max(abs(math.log(one[0] / one[1])), abs(math.log((1 - one[0]) / (1 - one[1]))))
    assert chain.leakage(flipped(epsilon)) == pytest.approx(max(epsilon, through), rel=1e-9)


def test_identical_rows_leak_once_for_each():
    total = LaplaceAnswer(lambda rows: sum(rows), scale=10.0)
    assert COPY.leakage(total) == pytest.approx(0.3, rel=1e-12)
    assert Independent(3).leakage(LaplaceAnswer(np.indices((2, 2, 2)).sum(axis=0), 10.0)) == pytest.approx(
        0.1
    )
    assert Clusters([2, 1]).leakage(LaplaceAnswer(np.indices((2, 2, 2)).sum(axis=0), 10.0)) == pytest.approx(
        0.2
    )


def mixtures(law, values, scale, outputs):
    """Every ln P[y | x_i, x_K] for one row, by brute force: yields arrays [value of the row, output]."""
    n = law.ndim
    density = np.exp(-np.abs(values[..., None] - outputs) / scale)
    for row in range(n):
        others = [r for r in range(n) if r != row]
        for size in range(n):
            for known in itertools.combinations(others, size):
                hidden = tuple(r for r in others if r not in known)
                top = np.moveaxis((law[..., None] * density).sum(axis=hidden, keepdims=True), row, 0)
                weight = np.moveaxis(law.sum(axis=hidden, keepdims=True), row, 0)
                yield np.log(top / weight[..., None])


def test_laplace_noise_is_seen_best_at_a_value_of_the_statistic(rng):
    for _ in range(12):
        factors = [((i, j), np.exp(rng.normal(size=(2, 2)))) for i, j in ((0, 1), (1, 2), (0, 3))]
        net = MarkovNetwork(factors)
        law = np.ones((2, 2, 2, 2))
        for (i, j), table in factors:
            law = law * table.reshape([2 if r in (i, j) else 1 for r in range(4)])
        law /= law.sum()
        values = rng.normal(size=law.shape)
        scale = float(rng.uniform(0.2, 3))
        outputs = np.concatenate([np.linspace(-6, 6, 2001), values.ravel()])
        dense = max(float((np.ptp(logs, axis=0)).max()) for logs in mixtures(law, values, scale, outputs))
        assert net.leakage(LaplaceAnswer(values, scale)) == pytest.approx(dense, rel=1e-9)


def test_tables_dictionaries_and_functions_say_the_same():
    table = np.empty((2, 2, 2, 2, 2))
    written, scores = {}, np.empty((2, 2, 2, 2, 2))
    for rows in itertools.product((0, 1), repeat=4):
        utility = [sum(rows), 4 - sum(rows)]
        weights = np.exp(0.3 * np.array(utility) / 2)
        table[rows] = weights / weights.sum()
        written[rows] = {"many": table[rows][0], "few": table[rows][1]}
        scores[rows] = utility
    expected = CHAIN.leakage(table)
    assert CHAIN.leakage(table.tolist()) == expected
    assert CHAIN.leakage(written) == pytest.approx(expected, rel=1e-12)
    assert CHAIN.leakage({rows: list(line.values()) for rows, line in written.items()}) == pytest.approx(
        expected
    )
    assert CHAIN.leakage(ExponentialChoice(scores, 0.3)) == pytest.approx(expected, rel=1e-12)
    by_rows = ExponentialChoice(lambda rows: [sum(rows), 4 - sum(rows)], epsilon=0.6, sensitivity=2.0)
    assert CHAIN.leakage(by_rows) == pytest.approx(expected, rel=1e-12)
    assert expected <= CHAIN.bayesian_dp(DP(0.3)).epsilon


def test_a_chain_leaks_as_its_network_does(rng):
    chain = MarkovChain(rng.dirichlet(np.ones(3), 3), 4, initial=[0.2, 0.8, 0.0])
    net = BayesianNetwork({0: ([], chain.initial), **{i: ([i - 1], chain.transition) for i in range(1, 4)}})
    for mechanism in (
        LaplaceAnswer(lambda rows: sum(rows) / 4, 0.5),
        rng.dirichlet(np.ones(4), size=(3, 3, 3, 3)),
    ):
        assert chain.leakage(mechanism) == pytest.approx(net.leakage(mechanism), rel=1e-9)


def test_more_outputs_than_fit_at_a_time_are_seen_in_parts(rng):
    net = MarkovNetwork([((i,), [0.4, 0.6]) for i in range(9)])
    values = rng.permutation(2**9).reshape((2,) * 9) / 2**9
    single = max(np.ptp(values, axis=row).max() for row in range(9))
    assert net.leakage(LaplaceAnswer(values, 1.0)) == pytest.approx(single, rel=1e-9)


def test_an_output_that_rules_a_value_out_leaks_without_limit():
    tell = np.zeros((2, 2, 2, 2, 2))
    tell[0, ..., 0] = tell[1, ..., 1] = 1.0
    assert CHAIN.leakage(tell) == math.inf
    assert Independent(4).leakage(tell) == math.inf
    silent = np.full((2, 2, 2, 2, 3), 1 / 3)
    assert CHAIN.leakage(silent) < 1e-12
    assert Independent(4).leakage(silent) == 0


def test_impossible_datasets_do_not_count():
    """Rows that are copies of one another never differ, so what a mechanism does there is nobody's loss."""
    table = np.full((2, 2, 2, 2), 0.5)
    table[0, 1, 0] = [1.0, 0.0]
    assert COPY.leakage(table) < 1e-12
    assert Independent(3).leakage(table) == math.inf


@given(epsilon=st.floats(0.05, 3), seed=st.integers(0, 10**6))
def test_independent_rows_leak_their_differential_privacy(epsilon, seed):
    rng = np.random.default_rng(seed)
    table = np.exp(rng.uniform(0, epsilon / 2, size=(2, 3, 2, 3)))
    table /= table.sum(axis=-1, keepdims=True)
    pure = max(float(np.ptp(np.log(table), axis=row).max()) for row in range(3))
    assert Independent(3).leakage(table) == pytest.approx(pure, rel=1e-12)
    loose = MarkovNetwork([((0,), [1, 2]), ((1,), [1, 1, 3]), ((2,), [2, 1])])
    assert loose.leakage(table) == pytest.approx(pure, rel=1e-9)


def test_too_large_an_enumeration_is_said_before_it_starts():
    with pytest.raises(InvalidArgument, match=f"Got {3**30} instead"):
        MarkovChain(STICKY, 30).leakage(LaplaceAnswer(sum, 1.0))
    with pytest.raises(InvalidArgument, match="mechanism"):
        MarkovChain(STICKY, 12).leakage(np.full((2,) * 12 + (600,), 1 / 600))


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("mechanism", lambda: CHAIN.leakage(np.full((2, 2, 2, 2), 0.5))),
        ("mechanism", lambda: CHAIN.leakage(np.full((2, 2, 2, 2, 2), 0.6))),
        ("mechanism", lambda: CHAIN.leakage(np.full((2, 2, 2, 2, 1), math.nan))),
        ("mechanism", lambda: CHAIN.leakage(np.broadcast_to([1.5, -0.5], (2, 2, 2, 2, 2)))),
        ("mechanism", lambda: CHAIN.leakage({(0, 0, 0, 0): [1.0]})),
        ("mechanism", lambda: CHAIN.leakage("laplace")),
        ("statistic", lambda: CHAIN.leakage(LaplaceAnswer(lambda rows: math.inf, 1.0))),
        ("statistic", lambda: CHAIN.leakage(LaplaceAnswer(lambda rows: "many", 1.0))),
        ("statistic", lambda: CHAIN.leakage(LaplaceAnswer(np.zeros((2, 2)), 1.0))),
        ("scores", lambda: CHAIN.leakage(ExponentialChoice(lambda rows: 1.0, 1.0))),
        ("scale", lambda: LaplaceAnswer(sum, 0.0)),
        ("scale", lambda: LaplaceAnswer(sum, math.nan)),
        ("epsilon", lambda: ExponentialChoice(sum, -1.0)),
        ("sensitivity", lambda: ExponentialChoice(sum, 1.0, 0.0)),
        ("mechanism", lambda: Independent(2).leakage(np.full((2, 2, 2, 2), 0.5))),
        ("mechanism", lambda: Independent(2).leakage(LaplaceAnswer(sum, 1.0))),
        ("mechanism", lambda: Clusters([1, 1]).leakage(None)),
    ],
)
def test_bad_mechanisms_are_refused(argument, bad):
    with pytest.raises(InvalidArgument) as refused:
        bad()
    assert refused.value.argument == argument
