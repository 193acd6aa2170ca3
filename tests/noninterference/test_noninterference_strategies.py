"""Every strategy: answers, refusals and account are the same for tables that differ out of sight."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from compared_sessions import account_session, guard_session
from hypothesis import given
from hypothesis import strategies as st
from observe import assert_same, differences, observe
from pairs import CATEGORIES, HIDDEN_GAPS, NUMBERS, ROWS, SEED, TEXT, WHOLE, make_pair, training_mask

from contracts.examples import examples
from holdfast.dependence import Clusters, MarkovChain, MDependent

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


def _first_quick(names):
    """The first of several always, the others with the slow tests."""
    first, *others = names
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


def _mask(options):
    """Which rows are set aside: none where the strategy needs no guesses."""
    shares = {"agreed-code": 1 / 3, None: 1 / 3}
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


@pytest.mark.slow
@examples(40)
@given(data=st.data())
def test_any_session_is_the_same_whatever_the_protected_rows_are(data):
    """Hypothesis chooses the strategy, the kind of values, the values, their order and the questions."""
    name = data.draw(st.sampled_from(sorted(STRATEGIES)))
    values = data.draw(st.sampled_from([NUMBERS, HIDDEN_GAPS, WHOLE, TEXT, CATEGORIES]))
    pools = data.draw(values.pools())
    seed = data.draw(st.integers(0, 99))
    questions = data.draw(
        st.lists(st.sampled_from([*values.questions, "mean(x, 0, 9)"]), min_size=1, max_size=6)
    )
    mask = _mask(STRATEGIES[name])
    tables = make_pair(values, *pools, seed=seed, training=mask, moved=name != "split")
    sessions = (
        account_session(partial(pd.DataFrame, t), tuple(questions), **STRATEGIES[name]) for t in tables
    )
    assert_same(*map(observe, sessions))


MODELS = {
    "chain": MarkovChain([[0.6, 0.4], [0.4, 0.6]], ROWS),
    "clusters": Clusters([4] * (ROWS // 4)),
    "neighbours": MDependent(ROWS, 2),
}


@pytest.mark.parametrize("name", _first_quick(MODELS))
def test_rows_that_depend_on_each_other_show_nothing_either(name):
    """Blocks of rows become the training part, and those between are dropped: they show as little."""
    model = MODELS[name]
    split = model.split(1 / 3, np.random.default_rng(SEED), 0.05)
    tables = make_pair(NUMBERS, training=split.train, moved=False)
    options = {"dependence": model}
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


def test_a_count_in_the_same_cell_changes_nothing():
    questions = ("share(x > 3, guess = 0.5)",)
    assert_same(*(observe(account_session(frame.copy, questions)) for frame in same_cell()))


def test_a_count_in_another_cell_changes_the_answer():
    """The comparison sees what is released."""
    frames = [_with_ones(ones) for ones in (20, 100)]
    first, second = (observe(account_session(frame.copy, ("share(x > 3)",))) for frame in frames)
    assert any(place.startswith("share(x > 3).value") for place in differences(first, second))
