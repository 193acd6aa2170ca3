"""The rows that cells on all rows need, found by asking whether one error lasts."""

from __future__ import annotations

import math

import pytest

from holdfast import plan
from holdfast.coding import Agreement, grid_schedule, lacking, largest_tried, least_error
from holdfast.tails import BoundedDifferences, SubGaussian


def cells_on_all_rows(**ask):
    """What the planner says of answers that are cells, counted on all rows."""
    return plan(confidence=0.95, **ask).method("grid-code")


@pytest.mark.parametrize("error", [0.3, 0.1, 0.0123456])
def test_the_rows_are_those_at_which_the_least_error_is_small_enough(error):
    for queries in [1, 2, 7, 40, 200]:
        found = cells_on_all_rows(queries=queries, error=error)
        enough, fewer = (cells_on_all_rows(queries=queries, rows=found.rows - less) for less in (0, 1))
        assert enough.error <= error < fewer.error
        assert found.parameters == enough.parameters


def test_one_error_decides_what_the_least_one_would():
    # Around the errors that the bisection meets, where rounding to them matters most.
    agreement = Agreement(30, 0.05)
    least = least_error(BoundedDifferences.of_mean(0, 1, 20_000), agreement)
    for error in (least, math.nextafter(least, 0.0), least * (1 - 1e-8), least * (1 + 1e-8), least * 1.01):
        for rows in (19_000, 19_999, 20_000, 20_001, 21_000):
            tail = BoundedDifferences.of_mean(0, 1, rows)
            enough = lacking(tail, largest_tried(error), agreement) <= 0.0
            assert enough == (least_error(tail, agreement) <= error)


@pytest.mark.parametrize("near", [1e-9, 0.05, 0.1, 0.2, 0.5, 0.999])
def test_where_it_is_sought_does_not_change_the_least_error(near):
    tail = SubGaussian(0.01)
    assert grid_schedule(tail, 50, 0.05, near=near) == grid_schedule(tail, 50, 0.05)


def test_what_lasts_does_so_with_more_error_and_with_more_rows():
    agreement = Agreement(100, 0.05)
    tails = [BoundedDifferences.of_mean(0, 1, rows) for rows in range(1000, 200_000, 5000)]
    by_error = [lacking(SubGaussian(0.003), error / 1000, agreement) <= 0.0 for error in range(10, 200, 5)]
    by_rows = [lacking(tail, 0.05, agreement) <= 0.0 for tail in tails]
    for lasting in (by_error, by_rows):
        assert lasting == sorted(lasting)
        assert set(lasting) == {False, True}


def test_a_million_questions_take_few_tries(monkeypatch):
    """Each try asks twice for what the first question costs."""
    first_prices = []
    nats = Agreement.nats

    def counted(agreement, stage, spent):
        if agreement.surprises is None and (stage, spent) == (0, 0.0):
            first_prices.append(agreement)
        return nats(agreement, stage, spent)

    monkeypatch.setattr(Agreement, "nats", counted)
    assert cells_on_all_rows(queries=10**6, error=0.01).rows == 26_188_353_359
    assert 2 <= len(first_prices) <= 2 * 40
