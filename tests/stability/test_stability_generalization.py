"""Perfect generalisation: Lemmas 3.5, 3.6, 3.8 and Theorem 3.17, against exact enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enumeration import close, hockey_stick, independent, small_mechanisms
from holdfast.errors import InvalidArgument
from holdfast.stability import PerfectGeneralization, collision_probability

PROBABILITIES = st.floats(0.0, 1.0)
EPSILONS = st.floats(0.0, 3.0)
HAIR = 1.0 + 1e-12


def _one_way(law, table, epsilon, delta):
    """The smallest β of a one-way perfectly generalising table, its own output law as simulator."""
    return float(law @ (hockey_stick(table, (law @ table)[None, :], epsilon) > delta + 1e-12))


def _two_way(law, table, epsilon, delta):
    return float(law @ ~close(table, (law @ table)[None, :], epsilon, delta))


def _sample(law, table, epsilon, delta):
    return float(law @ ~close(table[:, None, :], table[None, :, :], epsilon, delta) @ law)


def _disagreement(law, table):
    """The exact replicability of Algorithm 2: correlated sampling from the rows of the table."""
    pairs = [[1.0 - collision_probability(p, q) for q in table] for p in table]
    return float(law @ np.array(pairs) @ law)


PARAMETERS = [(epsilon, delta) for epsilon in (0.0, 0.05, 0.3, 1.0) for delta in (0.0, 0.02, 0.2)]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_enumerated_lemmas(n, epsilon, delta, rng):
    law = independent(n, 0.4)
    for table in small_mechanisms(rng, n):
        two_way = PerfectGeneralization(min(1.0, _two_way(law, table, epsilon, delta)), epsilon, delta)
        claim = two_way.sample()
        assert _sample(law, table, claim.epsilon, claim.delta) <= claim.beta + 1e-12
        if epsilon <= math.log(2):
            printed = two_way.sample(method="paper")
            assert _sample(law, table, printed.epsilon, printed.delta) <= printed.beta + 1e-12

        pairs = PerfectGeneralization(
            min(1.0, _sample(law, table, epsilon, delta)), epsilon, delta, kind="sample"
        )
        for back in (pairs.two_way(), pairs.two_way(0.05), pairs.two_way(method="paper")):
            assert _two_way(law, table, back.epsilon, back.delta) <= back.beta + 1e-12

        one_way = PerfectGeneralization(
            min(1.0, _one_way(law, table, epsilon, delta)), epsilon, delta, kind="one-way"
        )
        for method in ("sharp", "paper"):
            flat = one_way.two_way(method=method)
            assert _two_way(law, table, 0.0, flat.delta) <= flat.beta + 1e-12


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_enumerated_theorem_3_17(n, epsilon, delta, rng):
    law = independent(n, 0.5)
    for table in small_mechanisms(rng, n):
        one_way = PerfectGeneralization(
            min(1.0, _one_way(law, table, epsilon, delta)), epsilon, delta, kind="one-way"
        )
        exact = _disagreement(law, table)
        assert exact <= one_way.replicability().rho + 1e-9
        assert exact <= one_way.replicability(method="paper").rho + 1e-9


def test_theorem_3_17_is_within_two_so_a_third_of_d_is_caught():
    # Each of 16 samples has an output of its own with probability x, else a common one: ε = 0, δ = 15x/16.
    x, samples = 0.1, 16
    law = np.full(samples, 1 / samples)
    table = np.hstack([np.full((samples, 1), 1 - x), x * np.eye(samples)])
    delta = x * (1 - 1 / samples)
    assert _one_way(law, table, 0.0, delta) == 0.0
    claim = PerfectGeneralization(0.0, 0.0, delta, kind="one-way").replicability().rho
    exact = _disagreement(law, table)
    assert exact <= claim
    third = 2 * delta / 3
    assert exact > 2 * third / (1 + third)


def test_lemma_3_8_is_attained_so_half_of_epsilon_is_caught():
    # Sim is e^−ε times A(S) on what A(S) prints, and prints the rest itself.
    epsilon, delta = 0.4, 0.1
    real = np.array([1 - delta, delta, 0.0])
    simulator = np.array([(1 - delta) * math.exp(-epsilon), 0.0, 1 - (1 - delta) * math.exp(-epsilon)])
    assert hockey_stick(real, simulator, epsilon) == pytest.approx(delta)
    exact = float(hockey_stick(real, simulator, 0.0))
    claim = PerfectGeneralization(0.0, epsilon, delta, kind="one-way")
    assert exact == pytest.approx(claim.total_variation(), rel=1e-12)
    assert exact > PerfectGeneralization(0.0, epsilon / 2, delta, kind="one-way").total_variation()


def test_lemma_3_6_needs_its_d():
    # Nine of ten samples print one symbol, the tenth another: pairs differ with probability 0.18.
    law, table = np.array([0.9, 0.1]), np.eye(2)
    pairs = PerfectGeneralization(_sample(law, table, 0.0, 0.0), 0.0, 0.0, kind="sample")
    back = pairs.two_way(0.5)
    assert _two_way(law, table, 0.0, back.delta) <= back.beta
    assert _two_way(law, table, 0.0, back.delta) > back.beta / 4


@given(PROBABILITIES, EPSILONS, PROBABILITIES)
def test_sharp_beats_paper(beta, epsilon, delta):
    two_way = PerfectGeneralization(beta, epsilon, delta)
    one_way = PerfectGeneralization(beta, epsilon, delta, kind="one-way")
    assert one_way.replicability().rho <= one_way.replicability(method="paper").rho * HAIR
    assert one_way.total_variation() <= one_way.total_variation(method="paper") * HAIR
    if epsilon <= math.log(2):
        assert two_way.sample().delta <= two_way.sample(method="paper").delta * HAIR


@given(PROBABILITIES, EPSILONS, PROBABILITIES, st.floats(0.0, 0.3))
def test_monotone_in_every_number(beta, epsilon, delta, more):
    for numbers in (
        (min(1.0, beta + more), epsilon, delta),
        (beta, epsilon + more, delta),
        (beta, epsilon, min(1.0, delta + more)),
    ):
        for method in ("sharp", "paper"):
            small = PerfectGeneralization(beta, epsilon, delta, kind="one-way")
            large = PerfectGeneralization(*numbers, kind="one-way")
            assert small.replicability(method).rho <= large.replicability(method).rho
            assert small.two_way(method=method).delta <= large.two_way(method=method).delta
        small, large = PerfectGeneralization(beta, epsilon, delta), PerfectGeneralization(*numbers)
        assert small.sample().beta <= large.sample().beta
        assert small.sample().delta <= large.sample().delta
        small, large = small.sample(), large.sample()
        assert small.two_way().beta <= large.two_way().beta * HAIR
        assert small.two_way().delta <= large.two_way().delta * HAIR


def test_numbers():
    claim = PerfectGeneralization(0.01, 0.1, 1e-3, kind="one-way")
    d = math.expm1(0.1) + 2e-3
    assert claim.replicability().rho == pytest.approx(1 - 0.99**2 * (1 - d) / (1 + d), rel=1e-12)
    assert claim.replicability("paper").rho == pytest.approx(4 * (0.01 + 0.2 + 1e-3), rel=1e-12)
    assert PerfectGeneralization(0.01, 1.0, 0.0, kind="one-way").replicability().rho == 1.0
    assert PerfectGeneralization(1e-12, 1e-12, 1e-12).replicability().rho == pytest.approx(8e-12, rel=1e-9)
    flat = claim.two_way()
    assert (flat.beta, flat.epsilon, flat.delta) == (
        0.01,
        0.0,
        pytest.approx(1 - 0.999 * math.exp(-0.1), rel=1e-12),
    )
    back = PerfectGeneralization(0.04, 0.1, 0.0, kind="sample").two_way()
    assert (back.beta, back.epsilon, back.delta) == pytest.approx((0.2, 0.1, 0.2))
    assert flat.kind == back.kind == "two-way"
    assert PerfectGeneralization(0.1, 0.2, 0.3).one_way() == PerfectGeneralization(
        0.1, 0.2, 0.3, kind="one-way"
    )


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("one-way", "sample"),
        ("sample", "sample"),
        ("two-way", "two_way"),
        ("one-way", "one_way"),
        ("sample", "one_way"),
        ("sample", "replicability"),
        ("sample", "total_variation"),
    ],
)
def test_each_kind_has_exactly_its_methods(kind, method):
    with pytest.raises(InvalidArgument, match="SIS") as refusal:
        getattr(PerfectGeneralization(0.1, 0.1, 0.1, kind=kind), method)()
    assert refusal.value.argument == "kind"


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("beta", lambda: PerfectGeneralization(1.1, 0.0, 0.0)),
        ("beta", lambda: PerfectGeneralization(math.nan, 0.0, 0.0)),
        ("epsilon", lambda: PerfectGeneralization(0.1, -0.1, 0.0)),
        ("epsilon", lambda: PerfectGeneralization(0.1, math.inf, 0.0)),
        ("delta", lambda: PerfectGeneralization(0.1, 0.1, 1.5)),
        ("kind", lambda: PerfectGeneralization(0.1, 0.1, 0.1, kind="both")),
        ("epsilon", lambda: PerfectGeneralization(0.1, 0.8, 0.1).sample(method="paper")),
        ("d", lambda: PerfectGeneralization(0.1, 0.1, 0.1, kind="sample").two_way(0.0)),
        ("d", lambda: PerfectGeneralization(0.1, 0.1, 0.1, kind="one-way").two_way(0.1)),
        ("d", lambda: PerfectGeneralization(0.1, 0.1, 0.1, kind="sample").two_way(0.1, method="paper")),
        ("method", lambda: PerfectGeneralization(0.1, 0.1, 0.1).replicability("best")),
    ],
)
def test_bad_arguments_are_named(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert refusal.value.argument == argument
