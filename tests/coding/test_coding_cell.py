"""The grid covers the range without gaps, and the cell rule weighs what a narrow cell reveals."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import (
    Account,
    Grid,
    Weights,
    best_half_cell,
    cell_entropy,
    coming_questions,
    training_share,
)

VALUES = st.floats(-1e6, 1e6)


@given(VALUES, VALUES, st.floats(1e-6, 1e4))
def test_every_value_lies_within_the_edges_of_its_cell(value, guess, cell):
    grid = Grid(-math.inf, math.inf, guess, cell)
    low, high = grid.edges(grid.index(value))
    assert low <= value <= high


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-4, 3))
def test_a_bounded_range_has_finitely_many_cells_that_reach_its_ends(value, guess, cell):
    grid = Grid(0.0, 1.0, guess, cell)
    assert grid.first <= grid.index(value) <= grid.last
    assert grid.last - grid.first <= 1 / cell + 2
    assert grid.edges(grid.first)[0] == 0.0
    assert grid.edges(grid.last)[1] == 1.0
    assert grid.farthest >= max(abs(grid.first), abs(grid.last))


@given(VALUES, st.floats(1e-6, 1e4))
def test_the_guess_is_in_the_middle_of_cell_zero(guess, cell):
    grid = Grid(-math.inf, math.inf, guess, cell)
    assert grid.index(guess) == 0
    assert grid.middle(0) == guess


def test_a_value_beyond_all_cells_falls_in_the_last_one():
    grid = Grid(-math.inf, math.inf, 0.0, 1e-12)
    assert grid.edges(grid.index(1e300))[1] == math.inf
    assert grid.index(math.inf) == grid.last
    assert grid.index(-math.inf) == grid.first


def asked(steps, expect=None):
    return Account(0.05, steps=steps, weights=Weights(expect=expect))


@pytest.mark.parametrize("steps", [0, 10, 100, 1000, 10**4])
def test_more_questions_to_come_want_a_wider_cell(steps):
    here = best_half_cell(asked(steps), error=0.01, arm=0.03)
    later = best_half_cell(asked(4 * steps + 1000), error=0.01, arm=0.03)
    assert 0.0002 <= here <= later <= 0.1


def test_the_entropy_is_that_of_a_normal_error():
    # Fine cells: ln(σ√(2πe)/width); wide ones: nothing.
    assert cell_entropy(0.05) == pytest.approx(math.log(math.sqrt(2 * math.pi * math.e) / 0.1), rel=1e-3)
    # Half of the mass in the middle cell, a quarter on each side (nearly all of it in the next one).
    assert 1.5 * math.log(2) < cell_entropy(0.67448975) < 1.5 * math.log(2) + 0.2
    assert cell_entropy(8.0) < 1e-10


def test_a_hint_says_how_many_are_to_come():
    assert coming_questions(0, None) == 3
    assert coming_questions(9, None) == 30
    assert coming_questions(0, 1.0) == 0.75
    assert coming_questions(0, 100.0) == 66
    assert coming_questions(199, 100.0) == 150


def test_fewer_expected_questions_give_finer_cells():
    assert best_half_cell(asked(0, 1.0), 1, 3) < best_half_cell(asked(0), 1, 3)
    assert best_half_cell(asked(0), 1, 3) < best_half_cell(asked(0, 100.0), 1, 3)


@given(st.floats(0.05, 4.0))
def test_nats_buy_the_finest_cell_that_they_pay_for(nats):
    half_cell = best_half_cell(asked(50), error=2.0, arm=6.0, nats=nats)
    assert cell_entropy(half_cell / 2.0) <= nats
    assert cell_entropy(half_cell / 2.0 / 1.06) > nats


@pytest.mark.parametrize(("expect", "share"), [(None, 1 / 3), (1.0, 1 / 4), (10.0, 1 / 4), (11.0, 1 / 3)])
def test_a_third_is_set_aside_or_a_quarter_for_few_questions(expect, share):
    assert training_share(Weights(expect=expect)) == share
