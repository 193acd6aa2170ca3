"""Every strategy: answers, refusals and account are the same for tables that differ out of sight."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from observe import assert_same, differences, observe
from pairs import NUMBERS, ROWS, TEXT, make_pair, training_mask
from sessions import account_session, guard_session

STRATEGIES = {
    "code with an error": {"error": 0.35},
    "agreed-code": {"strategy": "agreed-code", "queries": 8, "surprises": 2},
    "grid-code": {"strategy": "grid-code", "queries": 8},
    "typical-laplace": {"strategy": "typical-laplace", "queries": 8},
    "typical-gaussian": {"strategy": "typical-gaussian", "queries": 8},
    "transfer-gaussian": {"strategy": "transfer-gaussian", "queries": 8},
    "split": {"strategy": "split", "queries": 8},
}
QUESTIONS = ("share(s > 5)", "mean(s, 0, 10)", "mean(x, 0, 9, where = s > 5)", "quantile(s, 0.25)")


def _mask(options):
    """Which rows are set aside: none where the strategy needs no guesses."""
    shares = {"agreed-code": 1 / 3, None: 0.5}
    share = shares.get(options.get("strategy"), 0.0)
    return training_mask(ROWS, share) if share else np.zeros(ROWS, dtype=bool)


def test_a_whole_session_with_a_guard_is_the_same():
    tables = make_pair(NUMBERS)
    assert_same(*(observe(guard_session(partial(pd.DataFrame, t), QUESTIONS)) for t in tables))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_session_is_the_same_with_every_strategy(name):
    options = STRATEGIES[name]
    # A question of its own block of rows would see who stands where.
    tables = make_pair(NUMBERS, training=_mask(options), moved=name != "split")
    assert_same(*(observe(account_session(partial(pd.DataFrame, t), QUESTIONS, **options)) for t in tables))


def test_rows_of_its_own_training_part_are_not_needed():
    train = make_pair(NUMBERS)[0]
    tables = make_pair(NUMBERS, training=np.zeros(ROWS, dtype=bool))
    assert_same(
        *(
            observe(account_session(partial(pd.DataFrame, t), QUESTIONS, train=pd.DataFrame(train)))
            for t in tables
        )
    )


def same_cell():
    """Two tables whose counts of large ``x`` differ by one, and lie in one cell of the grid."""
    return [_with_ones(ones) for ones in (60, 61)]


def _with_ones(ones):
    """A table with so many protected rows in which ``x`` is 9; in the others it is 0."""
    frame = pd.DataFrame(make_pair(TEXT)[0])
    protected = np.flatnonzero(~training_mask())
    frame.loc[protected, "x"] = 0
    frame.loc[protected[:ones], "x"] = 9
    return frame


def test_a_count_that_stays_in_its_cell_is_not_told():
    questions = ("share(x > 3, guess = 0.5)",)
    assert_same(*(observe(account_session(frame.copy, questions)) for frame in same_cell()))


def test_a_count_in_another_cell_is_told():
    """The comparison sees what is released."""
    frames = [_with_ones(ones) for ones in (20, 100)]
    first, second = (observe(account_session(frame.copy, ("share(x > 3)",))) for frame in frames)
    assert any(place.startswith("share(x > 3).value") for place in differences(first, second))
