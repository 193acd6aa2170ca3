"""The prior that counts surprises is a probability on the whole alphabet, at the prices promised."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import FAILURE_SHARE, Experience

EXPERIENCES = st.builds(Experience, confirmed=st.integers(0, 10**6), surprised=st.integers(0, 10**4))


def surprise_branch(cells: int = 4000) -> float:
    """The share of every surprise within ``cells`` of the guess, of what lies beyond, and of a failure."""
    experience = Experience(3, 2)
    branch = experience.surprise_probability()
    within = 2 * math.fsum(math.exp(-experience.surprise_price(cell)) for cell in range(1, cells + 1))
    # Σ_{m > M} 1/(m(m+1)) = 1/(M+1), on both sides.
    beyond = (1 - FAILURE_SHARE) / (cells + 1)
    return within / branch + beyond + math.exp(-experience.failure_price()) / branch


def test_the_surprise_branch_sums_to_one():
    assert surprise_branch() == pytest.approx(1.0, abs=1e-9)


def test_a_prior_that_sums_to_more_would_be_seen(monkeypatch):
    monkeypatch.setattr(Experience, "failure_price", lambda self: self.surprise_price(1))
    assert surprise_branch() > 1.01


@given(EXPERIENCES)
def test_confirmation_and_surprise_share_one_unit(experience):
    confirmed = math.exp(-experience.confirmation_price())
    surprised = experience.surprise_probability()
    assert 0 < surprised < 1
    assert confirmed + surprised <= 1 + 1e-12


@given(EXPERIENCES, st.integers(1, 10**9))
def test_a_surprise_costs_about_twice_the_log_of_its_distance_on_top(experience, distance):
    on_top = experience.surprise_price(distance) + math.log(experience.surprise_probability())
    assert 2 * math.log(distance) <= on_top <= 2 * math.log(distance) + math.log(4) + 0.02


def test_any_number_of_confirmations_costs_at_most_ln_2():
    experience, paid = Experience(), 0.0
    for _ in range(20_000):
        paid += experience.confirmation_price()
        experience = experience.after(surprise=False)
    assert math.log(2) - 0.01 < paid < math.log(2)


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
