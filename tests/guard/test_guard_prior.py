"""The prior is a probability on the whole alphabet, and its prices are the ones promised."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import MICRO, Account, Weights
from holdfast.coding import FAILURE_SHARE, Experience, Failure, Surprise

EXPERIENCES = st.builds(Experience, confirmed=st.integers(0, 10**6), surprised=st.integers(0, 10**4))


def _surprise_branch(classes: int, cells: int = 4000) -> float:
    """The sum over every surprise within ``cells`` of the guess, plus what lies beyond in closed form."""
    total = Failure().probability()
    for width_class in range(classes):
        for cell in range(-cells, cells + 1):
            if (cell, width_class) != (0, 0):
                total += Surprise(cell, width_class, classes).probability()
    # Σ_{m > M} 1/(m(m+1)) = 1/(M+1), on both sides, at the weight of each class.
    beyond = 1 / (cells + 1) if classes == 1 else 0.5 / (cells + 1) / (1 - 0.25)
    return total + (1 - FAILURE_SHARE) * beyond


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
def test_the_surprise_branch_sums_to_one(classes):
    assert _surprise_branch(classes) == pytest.approx(1.0, abs=1e-9)


def test_a_prior_that_sums_to_more_would_be_seen(monkeypatch):
    monkeypatch.setattr("holdfast.guard._prior.FAILURE_SHARE", 0.0)
    assert _surprise_branch(1) + FAILURE_SHARE > 1.01


@given(EXPERIENCES)
def test_confirmation_and_surprise_share_one_unit(experience):
    confirmed = math.exp(-experience.confirmation_price())
    surprised = experience.surprise_probability()
    assert 0 < surprised < 1
    assert confirmed + surprised <= 1 + 1e-12


@given(EXPERIENCES, st.integers(1, 10**9))
def test_a_surprise_costs_about_twice_the_log_of_its_distance_on_top(experience, distance):
    on_top = experience.surprise_price(Surprise(distance)) + math.log(experience.surprise_probability())
    assert 2 * math.log(distance) <= on_top <= 2 * math.log(distance) + math.log(4) + 0.02
    assert experience.surprise_price(Surprise(-distance)) == experience.surprise_price(Surprise(distance))


@given(EXPERIENCES, st.integers(0, 10), st.integers(2, 12))
def test_a_width_class_or_a_failure_is_paid_for(experience, width_class, classes):
    size = Surprise(1, min(width_class, classes - 1), classes)
    assert experience.surprise_price(size) > -math.log(experience.surprise_probability())
    assert experience.surprise_price(Failure()) == pytest.approx(
        math.log(1 / FAILURE_SHARE) - math.log(experience.surprise_probability())
    )


def test_any_number_of_confirmations_costs_at_most_ln_2():
    account = Account(0.05)
    for _ in range(20_000):
        price = account.price(None)
        account = account.after(account.charge(price), surprise=False, exact=account.exact + price)
    assert account.exact < math.log(2)
    assert math.log(2) - 0.01 < account.spent <= math.log(2) + 1 / MICRO


def test_the_sequence_prior_is_the_mixture_it_claims_to_be():
    """Against a direct computation of ½·1[no surprise] + ½·KT for every sequence of length 8."""

    def mixture(sequence: tuple[bool, ...]) -> float:
        learned, seen = 1.0, [0, 0]
        for outcome in sequence:
            learned *= (seen[outcome] + 0.5) / (sum(seen) + 1)
            seen[outcome] += 1
        return 0.5 * (not any(sequence)) + 0.5 * learned

    total = 0.0
    for code in range(2**8):
        sequence = tuple(bool(code >> place & 1) for place in range(8))
        probability, experience = 1.0, Experience()
        for outcome in sequence:
            surprised = experience.surprise_probability()
            probability *= surprised if outcome else 1 - surprised
            experience = experience.after(surprise=outcome)
        assert probability == pytest.approx(mixture(sequence), rel=1e-12)
        total += probability
    assert total == pytest.approx(1.0, rel=1e-12)


def test_the_weights_sum_to_less_than_one():
    steps = 10**6
    partial = sum(math.exp(-Weights().nats(step)) for step in range(1, steps + 1))
    rest = 1 / (2.10975 * math.log(steps + 1))  # the integral bounds what lies beyond
    assert 0.99999 < partial + rest < 1.0


@given(st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=60))
def test_whole_micro_nats_never_lag_behind_the_exact_total(charges):
    account = Account(0.05)
    for price, surprise in charges:
        account = account.after(account.charge(price), surprise=surprise, exact=account.exact + price)
        assert account.exact * MICRO <= account.micro_nats * (1 + 1e-12) + 1e-3
        assert account.micro_nats <= account.exact * MICRO + 1 + 1e-3
    assert account.steps == len(charges)
    assert account.nats() >= -math.log(0.05) + Weights().nats(len(charges) + 1) + account.exact - 1e-9
