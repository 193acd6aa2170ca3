"""The learned prior: a probability whatever was learned, at prices that hardly exceed the best hypothesis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import (
    COUNTING_WEIGHT,
    SCALES,
    Experience,
    Learned,
    Mixture,
    cell_entropy,
    forgetting_price,
)

HALF_CELLS = st.floats(0.02, 10)
PLACES = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(10**9), 10**9))
HISTORIES = st.lists(st.tuples(PLACES, HALF_CELLS), max_size=30)
FAR = 3000


def after(history):
    prior = Mixture()
    for place, half_cell in history:
        prior = prior.after(place, half_cell)
    return prior


def mass(prior, half_cell):
    """The prior's sum: every place up to ``FAR``, the tails of all hypotheses beyond, and no place."""
    within = math.fsum(math.exp(-prior.price(place, half_cell)) for place in range(-FAR, FAR + 1))
    weights = np.array(prior.weights) / sum(prior.weights)
    reach = (2 * FAR + 1) * half_cell / np.array(SCALES) / math.sqrt(2)
    normal = float(weights[:-2] @ [math.erfc(distance) for distance in reach])
    polynomial = weights[-2] * (1 - 1 / 16) / (2 * (FAR + 1))
    counting = weights[-1] * prior.seen.surprise_probability() * (1 - 1 / 64) / (FAR + 1)
    return within + normal + polynomial + counting + math.exp(-prior.elsewhere_price())


@given(HISTORIES, HALF_CELLS)
def test_the_prior_sums_to_one_whatever_was_learned(history, half_cell):
    assert mass(after(history), half_cell) == pytest.approx(1.0, abs=1e-9)


class Careless(Mixture):
    """A prior that divides by the sum of all weights but the last: everything is too cheap."""

    @property
    def _discount(self):
        return math.log(sum(self.weights) / sum(self.weights[:-1]))

    def price(self, place, half_cell):
        return super().price(place, half_cell) - self._discount

    def elsewhere_price(self):
        return super().elsewhere_price() - self._discount


def test_a_prior_that_is_not_normalised_is_seen():
    assert mass(Careless(), 1.0) > 1.04


@given(HISTORIES, st.integers(1, 10**9), HALF_CELLS)
def test_farther_places_are_more_expensive_and_both_sides_cost_the_same(history, place, half_cell):
    prior = after(history)
    assert prior.price(place + 1, half_cell) >= prior.price(place, half_cell) - 1e-9
    assert prior.highest_price_up_to(place, half_cell) >= prior.price(0, half_cell)
    assert prior.price(-place, half_cell) == prior.price(place, half_cell)


@given(HISTORIES, HISTORIES, PLACES, HALF_CELLS)
def test_no_price_exceeds_the_reserved_one_whatever_is_learned_in_between(
    history, meanwhile, place, half_cell
):
    prior = after(history)
    later = prior
    for seen, width in meanwhile:
        later = later.after(seen, width)
    price = later.elsewhere_price() if place is None else later.price(place, half_cell)
    assert price <= prior.highest_price(place, half_cell, others=len(meanwhile))


@pytest.mark.parametrize("scale", [0.35, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("half_cell", [0.4, 1.0, 3.0])
def test_a_wrong_scale_is_paid_for_once(scale, half_cell, rng):
    prior, paid, questions = Mixture(), 0.0, 400
    for error in rng.normal(0, scale, questions):
        place = math.floor(error / (2 * half_cell) + 0.5)
        paid += prior.price(place, half_cell)
        prior = prior.after(place, half_cell)
    known = questions * cell_entropy(half_cell / scale)
    spread = math.sqrt(questions) * 3
    assert paid <= known + spread + 6


@given(st.lists(st.integers(-3, 3), max_size=200), st.floats(2, 8))
def test_the_mixture_costs_little_more_than_counting_surprises(places, half_cell):
    prior, counted, paid, bound = Mixture(), Experience(), 0.0, -math.log(COUNTING_WEIGHT)
    for place in places:
        paid += prior.price(place, half_cell)
        prior = prior.after(place, half_cell)
        bound += counted.surprise_price(abs(place)) if place else counted.confirmation_price()
        counted = counted.after(surprise=place != 0)
    assert paid <= bound + forgetting_price(len(places)) + 1e-6


@given(HISTORIES)
def test_a_book_keeps_all_that_was_learned_as_whole_numbers(history):
    learned = Learned(cells=after(history), arms=after(history[::-1]))
    kept = learned.to_list()
    assert all(isinstance(number, int) for state in kept for number in state)
    assert Learned.from_list(kept) == learned


def test_the_mixture_changes_its_mind():
    prior = Mixture()
    for _ in range(200):
        prior = prior.after(0, 1.0)
    before = prior.price(4, 1.0)
    for _ in range(20):
        prior = prior.after(4, 1.0)
    assert prior.price(4, 1.0) < 3 < 9 < before
