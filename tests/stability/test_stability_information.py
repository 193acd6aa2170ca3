"""Max-information: failure of events, and Lemma 3.14 to one-way perfect generalisation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enumeration import hockey_stick, independent, information_excess, small_mechanisms
from holdfast.errors import InvalidArgument
from holdfast.stability import MaxInformation

LN2 = math.log(2.0)
BITS = st.floats(0.0, 3000.0)
BETAS = st.floats(-300.0, -0.1).map(lambda exponent: 10.0**exponent)
HAIR = 1.0 + 1e-12


def _markov(law, table, nats, d):
    """How often h(S) = sup_O (P[A(S) ∈ O] − e^nats Sim(O)) exceeds d, exactly."""
    gaps = hockey_stick(table, (law @ table)[None, :], nats)
    return float(law @ (gaps > d + 1e-12))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_enumerated_lemma_3_14(n, rng):
    law = independent(n, 0.35)
    for table in small_mechanisms(rng, n):
        for bits in (0.01, 0.2, 1.0):
            beta = information_excess(law, table, bits)
            if not 0.0 < beta < 1.0:
                continue
            information = MaxInformation(bits, beta)
            for claim in (
                information.one_way(method="paper"),
                *(information.one_way(d) for d in (None, 0.01, 0.3)),
            ):
                assert _markov(law, table, claim.epsilon, claim.delta) <= claim.beta


def test_lemma_3_14_is_tight_so_half_of_it_is_caught():
    # One of sixteen samples prints itself, the others a common symbol: Markov holds with equality.
    law = np.full(16, 1 / 16)
    table = np.zeros((16, 2))
    table[:, 0] = 1.0
    table[0] = (0.0, 1.0)
    beta = information_excess(law, table, 0.5)
    gap = float(hockey_stick(table, (law @ table)[None, :], 0.5 * LN2).max())
    claim = MaxInformation(0.5, beta).one_way(gap * (1 - 1e-9))
    assert _markov(law, table, claim.epsilon, claim.delta * (1 - 1e-9)) <= claim.beta
    assert _markov(law, table, claim.epsilon, claim.delta * (1 - 1e-9)) > claim.beta / 2


def test_lemma_3_14_numbers():
    information = MaxInformation(0.5, 1e-4)
    sharp = information.one_way()
    assert (sharp.beta, sharp.epsilon, sharp.delta) == pytest.approx((0.01, 0.5 * LN2, 0.01))
    assert sharp.kind == "one-way"
    paper = information.one_way(method="paper")
    hat = math.sqrt(1e-4 / (1 - 2**-0.5))
    assert (paper.beta, paper.epsilon, paper.delta) == pytest.approx((hat, LN2, hat))
    other = information.one_way(0.05)
    assert (other.beta, other.epsilon, other.delta) == pytest.approx((0.002, 0.5 * LN2, 0.05))
    assert MaxInformation(0.5, 0.0).one_way().beta == 0.0
    assert information.one_way(1e-9).vacuous


@given(st.floats(1e-6, 50.0), BETAS)
def test_sharp_beats_paper(bits, beta):
    information = MaxInformation(bits, beta)
    sharp, paper = information.one_way(), information.one_way(method="paper")
    assert sharp.beta <= paper.beta * HAIR
    assert sharp.epsilon <= paper.epsilon * HAIR
    assert sharp.delta <= paper.delta * HAIR


@given(BITS, BETAS, st.floats(0.0, 1.0), st.floats(0.0, 10.0), st.floats(1.0, 10.0))
def test_failure_is_monotone_and_never_more_than_one(bits, beta, p, more, growth):
    base = MaxInformation(bits, beta).failure(p)
    assert 0.0 <= base <= 1.0
    assert base >= min(1.0, p)
    assert MaxInformation(bits + more, beta).failure(p) >= base
    assert MaxInformation(bits, min(0.99, beta * growth)).failure(p) >= base or beta * growth > 0.99
    assert MaxInformation(bits, beta).failure(min(1.0, p * growth)) >= base


def test_failure_numbers():
    assert MaxInformation(3.0, 0.01).failure(0.001) == pytest.approx(0.018, rel=1e-12)
    assert MaxInformation(2000.0, 0.0).failure(1e-300) == 1.0
    assert MaxInformation(2000.0, 0.25).failure(0.0) == pytest.approx(0.25)


def test_failure_holds_for_every_event_by_enumeration(rng):
    law = independent(3, 0.5)
    for table in small_mechanisms(rng, 3):
        beta = information_excess(law, table, 0.3)
        if not beta < 1.0:
            continue
        claim = MaxInformation(0.3, beta)
        joint, apart = law[:, None] * table, np.outer(law, law @ table)
        for _ in range(50):
            event = rng.random(joint.shape) < rng.random()
            assert joint[event].sum() <= claim.failure(min(1.0, float(apart[event].sum()))) + 1e-12
        worst = joint > 2**0.3 * apart
        assert joint[worst].sum() <= claim.failure(float(apart[worst].sum())) + 1e-12
        if beta > 1e-6:
            assert joint[worst].sum() > 2**0.3 * apart[worst].sum() + 0.9 * beta


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("bits", lambda: MaxInformation(-1.0, 0.1)),
        ("bits", lambda: MaxInformation(math.nan, 0.1)),
        ("beta", lambda: MaxInformation(1.0, 1.0)),
        ("beta", lambda: MaxInformation(1.0, math.inf)),
        ("p", lambda: MaxInformation(1.0, 0.1).failure(1.5)),
        ("d", lambda: MaxInformation(1.0, 0.1).one_way(0.0)),
        ("d", lambda: MaxInformation(1.0, 0.1).one_way(0.1, method="paper")),
        ("bits", lambda: MaxInformation(0.0, 0.1).one_way(method="paper")),
        ("method", lambda: MaxInformation(1.0, 0.1).one_way(method="best")),
    ],
)
def test_bad_arguments_are_named(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert refusal.value.argument == argument
