"""The alphabet of a question: its prices sum to at most one, and the dearest is the dearest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import (
    WHOLE,
    Alphabet,
    ArmClasses,
    Experience,
    Grid,
    LadderAlphabet,
    LadderGrid,
    Learned,
    Mixture,
    Output,
)

ARMS = st.builds(ArmClasses.predicted, st.floats(0.01, 0.5), st.floats(1, 1e6))
GRIDS = st.builds(lambda guess, cell: Grid(0.0, 1.0, guess, cell), st.floats(0, 1), st.floats(0.02, 2))


@st.composite
def learned(draw):
    """What was learned from a few outputs."""
    mixtures = []
    for _ in range(2):
        prior = Mixture()
        for place in draw(st.lists(st.one_of(st.none(), st.integers(-4, 4)), max_size=8)):
            prior = prior.after(place, draw(st.floats(0.1, 4)))
        mixtures.append(prior)
    return Learned(*mixtures)


@st.composite
def alphabets(draw):
    grid = draw(GRIDS)
    arms = draw(st.one_of(st.none(), ARMS))
    return Alphabet(grid, draw(st.floats(0.01, 0.5)), arms, draw(learned()))


def outputs(alphabet):
    """Every output but a failure."""
    arms = alphabet.arms
    classes = range(1) if arms is None else range(arms.first, arms.last + 1)
    cells = range(alphabet.grid.first, alphabet.grid.last + 1)
    every = [Output(cell, arm) for cell in cells for arm in classes]
    return every if arms is None else [*every, WHOLE]


@given(alphabets())
def test_all_outputs_and_a_failure_sum_to_at_most_one(alphabet):
    total = math.fsum(math.exp(-alphabet.price(output)) for output in outputs(alphabet))
    assert total + math.exp(-alphabet.failure_price) <= 1 + 1e-9


def test_hardly_anything_of_the_prior_is_wasted():
    alphabet = Alphabet(Grid(0.0, 1.0, 0.5, 0.001), 0.01, ArmClasses.predicted(0.1, 1e3), Learned())
    total = math.fsum(math.exp(-alphabet.price(output)) for output in outputs(alphabet))
    assert total + math.exp(-alphabet.failure_price) > 0.98


def test_a_whole_range_that_left_the_failure_out_would_be_seen():
    """The whole range has no cell, so it has to leave the room that cells leave for a failure."""
    prior = Mixture()
    for _ in range(6):
        prior = prior.after(None, 1.0)
    alphabet = Alphabet(Grid(0.0, 1.0, 0.5, 0.01), 0.01, ArmClasses.predicted(0.1, 10), Learned(prior, prior))
    failure, elsewhere = math.exp(-alphabet.failure_price), math.exp(-prior.elsewhere_price())
    # Both factors are probabilities: of places, and of no place. All pairs of places, and the two others:
    pairs = (1 - failure) * (1 - elsewhere)
    assert failure + pairs + math.exp(-alphabet.price(WHOLE)) == pytest.approx(1, abs=1e-9)
    assert failure + pairs + elsewhere > 1.003  # The twin leaves no room for a failure.


@given(alphabets())
def test_no_output_is_more_expensive_than_the_worst(alphabet):
    prices = [alphabet.price(output) for output in outputs(alphabet)]
    assert max(*prices, alphabet.failure_price) <= alphabet.worst_price() + 1e-9
    assert alphabet.worst_price() <= alphabet.worst_price(others=1) + 1e-9


@given(alphabets(), st.data())
def test_no_output_of_a_batch_is_more_expensive_than_what_was_reserved(alphabet, data):
    others = data.draw(st.lists(st.sampled_from([None, *outputs(alphabet)]), max_size=6))
    reserved, later = alphabet.worst_price(len(others) + 1), alphabet
    for other in others:
        later = Alphabet(later.grid, later.error, later.arms, later.after(other))
    assert max(map(later.price, outputs(later))) <= reserved
    assert later.failure_price <= reserved


@given(ARMS, st.floats(1e-9, 1e12))
def test_the_least_class_allows_what_is_needed_and_no_more(arms, stretch):
    least = arms.least(stretch)
    assert arms.stretch(least) >= stretch
    assert least == arms.first or arms.stretch(least - 1) < stretch * (1 + 1e-6)


@pytest.mark.parametrize("experience", [Experience(), Experience(3, 0), Experience(5, 2)])
def test_the_prices_of_a_ladder_are_those_of_a_prior(experience):
    # Confirmed, failed, better by 1, 2, 3, … steps. Cells on both sides of a guess use up nearly all of the
    # prior; a ladder has those above only.
    alphabet = LadderAlphabet(LadderGrid(0.0, 1.0, 0.0, 1 / 20_000, True), experience)
    above = math.fsum(math.exp(-alphabet.price(Output(cell))) for cell in range(1, 20_000))
    rest = math.exp(-alphabet.price(Output(0))) + math.exp(-alphabet.failure_price)
    assert rest + above <= 1
    assert rest + 2.3 * above > 1  # On both sides, a prior that is too generous by 15 % would not pass.


@given(st.integers(0, 40), st.integers(0, 40), st.lists(st.booleans(), max_size=60))
def test_no_submission_of_a_batch_is_more_expensive_than_what_was_reserved(confirmed, surprised, others):
    grid, now = LadderGrid(0.0, 1.0, 0.3, 0.01, True), Experience(confirmed, surprised)
    reserved = LadderAlphabet(grid, now).worst_price(len(others))
    for surprise in others:
        now = now.after(surprise=surprise)
    later = LadderAlphabet(grid, now)
    assert max(later.price(Output(grid.farthest)), later.price(Output(0))) <= reserved + 1e-12
    assert later.failure_price <= reserved + 1e-12
