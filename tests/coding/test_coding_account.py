"""The account: weights that sum to at most one, and whole micro-nats that never lag behind."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import MICRO, Account, Weights

FOR_LOOKS = 3e-6
EXPECTED = st.one_of(st.none(), st.floats(1, 1e6))


def rest(steps: int) -> float:
    """What the series can add beyond so many steps, by its integral."""
    return 1 / (2.10975 * math.log(steps + 1))


@pytest.mark.parametrize("expect", [None, 1, 1.5, 7, 200, 10**5])
def test_the_weights_leave_what_pays_for_looks(expect):
    steps, weights = 2 * 10**5, Weights(expect=expect)
    beyond = rest(steps) if expect is None else 0.2 * rest(steps)
    total = math.fsum(weights.weight(step) for step in range(1, steps + 1)) + beyond
    assert 0.99 < total <= 1 - FOR_LOOKS


@pytest.mark.parametrize("expect", [None, 5.0])
@pytest.mark.parametrize("promise", ["all", "each"])
def test_each_weight_leaves_what_pays_for_looks(promise, expect):
    weights = Weights(promise, expect)
    assert all(0 < weights.weight(step) <= 1 - FOR_LOOKS for step in (1, 2, 5, 6, 1000, 10**9))


def test_a_hint_that_shared_out_more_than_there_is_would_be_seen(monkeypatch):
    monkeypatch.setattr("holdfast.coding._account._FOR_QUESTIONS", 1.3)
    with pytest.raises(AssertionError):
        test_the_weights_leave_what_pays_for_looks(7)


@given(EXPECTED, st.integers(1, 10**6), st.integers(1, 300))
def test_a_batch_shares_the_weights_of_its_places_evenly(expect, step, questions):
    weights = Weights(expect=expect)
    together = questions * math.exp(-weights.nats(step, questions))
    one_by_one = math.fsum(weights.weight(step + place) for place in range(questions))
    assert together == pytest.approx(one_by_one, rel=1e-12)


@given(EXPECTED, st.integers(0, 300), st.integers(1, 50))
def test_the_last_questions_share_all_that_is_left(expect, asked, questions):
    weights = Weights(expect=expect)
    used = math.fsum(weights.weight(step) for step in range(1, asked + 1))
    last = questions * math.exp(-weights.last_nats(asked, questions))
    assert used + last <= 1 - FOR_LOOKS
    assert used + last > 1 - 2 * FOR_LOOKS


def test_each_answer_has_the_same_weight_however_many_there_are():
    weights = Weights("each")
    assert weights.nats(1) == weights.nats(1000) == weights.nats(5, 20) == weights.last_nats(300, 7)
    assert 0 < weights.nats(1) < 1e-5


def test_a_hint_helps_the_expected_questions_and_leaves_weight_for_the_others():
    hinted, plain = Weights(expect=20.0), Weights()
    assert hinted.nats(20) < plain.nats(20)
    assert hinted.nats(1) > plain.nats(1)
    assert hinted.nats(1000) == pytest.approx(plain.nats(1000) + math.log(5))


def test_a_batch_of_one_is_a_question():
    account = Account(0.05, steps=7, micro_nats=3_000_000)
    assert account.for_batch(1).nats() == account.nats()


@given(st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=60))
def test_whole_micro_nats_never_lag_behind_the_exact_total(charges):
    account = Account(0.05)
    for price, surprise in charges:
        account = account.after(account.charge(price), surprise=surprise, exact=account.exact + price)
        assert account.exact * MICRO <= account.micro_nats * (1 + 1e-12) + 1e-3
        assert account.micro_nats <= account.exact * MICRO + 1 + 1e-3
    assert account.steps == len(charges)
    assert account.nats() >= -math.log(0.05) + Weights().nats(len(charges) + 1) + account.exact - 1e-9
