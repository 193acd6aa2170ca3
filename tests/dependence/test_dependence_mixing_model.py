"""Declared mixing: exact checks on two-state chains whose mixing is known, and what the model refuses."""

from __future__ import annotations

import itertools
import math
from itertools import product

import numpy as np
import pytest

from holdfast.dependence import (
    Clusters,
    Independent,
    MarkovChain,
    MDependent,
    Mixing,
    beta_mixing_tail,
)
from holdfast.errors import InvalidArgument, NotEnoughRows


def sticky(rate):
    """The symmetric two-state chain with second eigenvalue ``rate``; its β(g) is rate^g/2."""
    return np.array([[1 + rate, 1 - rate], [1 - rate, 1 + rate]]) / 2


def path_law(rate, n):
    """The law of all paths of ``n`` rows from the stationary start."""
    transition = sticky(rate)
    return {
        path: 0.5 * math.prod(transition[a, b] for a, b in itertools.pairwise(path))
        for path in itertools.product((0, 1), repeat=n)
    }


def distance_from_product(law, first, second):
    """The total variation between the joint law of two groups of places and the product of their laws."""
    joint, left, right = {}, {}, {}
    for path, weight in law.items():
        a, b = tuple(path[i] for i in first), tuple(path[i] for i in second)
        joint[a, b] = joint.get((a, b), 0.0) + weight
        left[a] = left.get(a, 0.0) + weight
        right[b] = right.get(b, 0.0) + weight
    return sum(abs(joint.get((a, b), 0.0) - left[a] * right[b]) for a in left for b in right) / 2


def head_law(rate, n):
    """The law of the number of ones among ``n`` stationary rows, by dynamic programming."""
    transition = sticky(rate)
    law = np.zeros((2, n + 1))
    law[0, 0] = law[1, 1] = 0.5
    for _ in range(n - 1):
        moved = transition.T @ law
        law = np.stack([moved[0], np.roll(moved[1], 1)])
    return law.sum(axis=0)


@pytest.mark.parametrize("rate", [0.3, 0.8])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_is_remembered_is_the_exact_distance_on_a_two_state_chain(rate, steps):
    law = path_law(rate, 7)
    declared = math.exp(Mixing(rate, constant=0.5).log_remembered(steps))
    exact = distance_from_product(law, range(2), range(1 + steps, 7))
    assert exact == pytest.approx(declared, rel=1e-9)
    assert exact <= declared


def test_a_gap_counted_one_row_too_long_is_caught():
    """The twin: with β(g + 2) for a gap of g rows the bias would be below the exact distance."""
    law = path_law(0.8, 7)
    gap = 2
    exact = distance_from_product(law, range(2), range(2 + gap, 7))
    model = Mixing(0.8, constant=0.5)
    assert math.exp(model.log_remembered(gap + 1)) >= exact
    assert math.exp(model.log_remembered(gap + 2)) < exact


@pytest.mark.parametrize("rate", [0.2, 0.6])
@pytest.mark.parametrize("n", [100, 1000])
def test_the_tail_holds_for_a_chain_that_mixes_as_declared(rate, n):
    tail = Mixing(rate, constant=0.5, n=n).mean_tail(0, 1)
    law = head_law(rate, n)
    off = np.abs(np.arange(n + 1) / n - 0.5)
    for distance in np.linspace(0.02, 0.9, 30):
        assert law[off > distance].sum() <= math.exp(-tail.gamma(distance)) + 1e-12
    for nu in (0.05, 1e-3):
        assert law[off > tail.radius(nu)].sum() <= nu


def test_the_tail_is_that_of_the_sequence_of_coefficients():
    written = beta_mixing_tail([0.5**g for g in range(1, 60)], n=10_000, lo=0, hi=1)
    assert Mixing(0.5, n=10_000).mean_tail(0, 1).radius(0.05) == pytest.approx(written.radius(0.05), rel=1e-9)


def test_a_slower_series_gets_a_wider_interval_and_a_longer_gap():
    radii = [Mixing(rate, n=50_000).mean_tail(0, 1).radius(0.05) for rate in (0.1, 0.5, 0.9, 0.99)]
    gaps = [Mixing(rate, n=50_000).fresh().dropped for rate in (0.1, 0.5, 0.9, 0.99)]
    assert sorted(radii) == radii
    assert radii[0] < radii[-1]
    assert sorted(set(gaps)) == gaps


@pytest.mark.parametrize("beta", [0.05, 1e-6])
def test_the_gap_is_the_shortest_that_suffices(beta):
    for rate, constant in product([0.3, 0.9, 0.999], [0.01, 1.0, 30.0]):
        model = Mixing(rate, constant=constant, n=200_000)
        parts = model.split(0.3, np.random.default_rng(0), beta)
        gap = parts.dropped
        assert constant * rate ** (gap + 1) <= parts.bias <= beta / 20 * (1 + 1e-12)
        assert gap == 0 or constant * rate**gap > beta / 20
        train, protected = np.flatnonzero(parts.train), np.flatnonzero(parts.protected)
        assert train[0] == 0
        assert protected[-1] == model.n - 1
        assert protected[0] - train[-1] == gap + 1
        assert parts.protected_model == Mixing(rate, constant=constant, n=len(protected))
        later = model.fresh(beta)
        assert not later.train.any()
        assert later.protected_model.n == model.n - gap
        assert later.bias == parts.bias
        assert later.assumptions[-1].startswith("The rows of this epoch come after")


def test_one_row_has_the_tail_of_one_value():
    assert Mixing(0.5, n=1).mean_tail(0, 2).radius(0.05) == pytest.approx(
        Independent(1).mean_tail(0, 2).radius(0.05)
    )


def test_a_gap_longer_than_the_series_is_named():
    with pytest.raises(NotEnoughRows, match=r"with the 56 rows of a gap after it, needs at least 58 rows"):
        Mixing(0.9, n=40).split(0.5, np.random.default_rng(0))
    with pytest.raises(NotEnoughRows, match=r"An epoch after another, with the 56 rows"):
        Mixing(0.9, n=56).fresh()
    assert Mixing(0.9, n=57).fresh().protected_model.n == 1


def test_a_rate_that_never_forgets_is_refused():
    with pytest.raises(InvalidArgument, match=r"forget their past within 2\^40"):
        Mixing(math.nextafter(1.0, 0.0), n=100).fresh()


def test_the_declared_rate_is_printed():
    model = Mixing(0.9, constant=2.0, n=500)
    assert any("stationary series" in sentence for sentence in model.assumptions)
    assert any("2·0.9^g" in sentence and "declared" in sentence for sentence in model.assumptions)
    assert "2·0.9^g" in model.description
    assert "500 rows" in model.description
    assert "any number of rows" in Mixing(0.9).description


def test_a_model_without_rows_says_what_to_do():
    model = Mixing(0.9)
    assert model.n is None
    for use in (
        lambda: model.mean_tail(0, 1),
        lambda: model.mean_tail_report(0, 1),
        lambda: model.split(0.5, np.random.default_rng(0)),
        model.fresh,
    ):
        with pytest.raises(InvalidArgument, match=r"with_rows\(n\), or give it to Guard"):
            use()


def test_binding_to_a_table():
    bound = Mixing(0.9, constant=2.0, extra_assumptions=("said so",)).with_rows(70)
    assert bound == Mixing(0.9, constant=2.0, n=70, extra_assumptions=("said so",))
    assert bound.with_rows(70) is bound
    assert bound.fingerprint != bound.with_rows(70).fresh(0.9).protected_model.fingerprint
    with pytest.raises(InvalidArgument, match="a model of the 71 rows"):
        bound.with_rows(71)


@pytest.mark.parametrize(
    "model", [Independent(5), MDependent(5, 1), Clusters([2, 3]), MarkovChain(sticky(0.5), 5)]
)
def test_models_made_for_a_table_take_no_other(model):
    assert model.with_rows(5) is model
    assert model.columns is None
    assert model.failure == 0.0
    with pytest.raises(InvalidArgument, match="a model of the 6 rows of the data"):
        model.with_rows(6)


@pytest.mark.parametrize("rate", [0, 1, -0.5, 1.5, math.nan, "0.5", None, True])
def test_rates_outside_zero_and_one_are_refused(rate):
    with pytest.raises(InvalidArgument, match="rate"):
        Mixing(rate)


@pytest.mark.parametrize(
    ("name", "value"), [("constant", 0), ("constant", math.inf), ("constant", math.nan), ("n", 0), ("n", 2.5)]
)
def test_other_arguments_are_checked(name, value):
    with pytest.raises(InvalidArgument, match=name):
        Mixing(0.5, **{name: value})


def test_what_other_models_of_rows_in_order_remember():
    steps = np.array([0, 1, 3, 4, 900])
    assert MDependent(100, 3).log_remembered(steps).tolist() == [0.0, 0.0, 0.0, -math.inf, -math.inf]
    assert Independent(100).log_remembered(steps) is None
    assert Clusters([3, 4]).log_remembered(steps) is None
    stationary = MarkovChain(sticky(0.8), 1000)
    started = MarkovChain(sticky(0.8), 1000, initial=[1, 0])
    exact = 0.8 ** steps.astype(float)
    np.testing.assert_allclose(np.exp(started.log_remembered(steps)), exact, rtol=1e-3)
    np.testing.assert_allclose(np.exp(stationary.log_remembered(steps)), [1.0, *exact[1:] / 2], rtol=1e-3)


@pytest.mark.parametrize("steps", [[-1], [0.5], "ab", [None]])
def test_steps_are_whole_numbers(steps):
    for model in (Mixing(0.5), MDependent(9, 2), MarkovChain(sticky(0.5), 9)):
        with pytest.raises(InvalidArgument, match="steps"):
            model.log_remembered(steps)
