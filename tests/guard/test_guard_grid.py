"""The grid covers the range without gaps, and its edges hold what its index says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.coding import Account
from holdfast.coding import Grid, best_half_cell

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


@pytest.mark.parametrize("steps", [0, 10, 100, 1000, 10**4])
def test_more_questions_to_come_want_a_wider_cell(steps):
    account = Account(0.05)
    for _ in range(steps):
        account = account.after(0, surprise=False)
    here = best_half_cell(account, guess_error=0.01, radius=0.03)
    for _ in range(3 * steps + 1000):
        account = account.after(0, surprise=False)
    assert 0.01 <= here <= best_half_cell(account, guess_error=0.01, radius=0.03) <= 0.1
