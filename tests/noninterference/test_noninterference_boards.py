"""Boards: the standing, the final and kept submissions show scores, and nothing of the labels besides."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from compared_sessions import BOOK, show
from observe import Look, assert_same, observe
from pairs import ROWS, TEXT, WHOLE, make_pair

from holdfast.guard import Board


def _labels(columns):
    """Ids that everyone may know, and labels."""
    return pd.DataFrame({"id": range(ROWS), "label": columns["s"]})


def _submissions(plain):
    """Tables that only tell plain labels from others, and some that cannot be scored."""
    ids = list(range(ROWS))
    some = np.random.default_rng(2).random(ROWS) < 0.3
    return {
        "all plain": {"id": ids, "prediction": [plain] * ROWS},
        "all plain, backwards": {"id": ids[::-1], "prediction": [plain] * ROWS},
        "some plain": {"id": ids, "prediction": [plain if keep else 3 for keep in some.tolist()]},
        "an id is missing": {"id": ids[1:], "prediction": [plain] * (ROWS - 1)},
        "an id is unknown": {"id": [*ids[1:], 999], "prediction": [plain] * ROWS},
        "other columns": {"id": ids, "label": [plain] * ROWS},
        "of another kind": {"id": ids, "prediction": [[plain]] * ROWS},
        "gaps": {"id": ids, "prediction": [plain, None] * (ROWS // 2)},
    }


def board_session(look: Look, columns, plain, submitted=None):
    labels = _labels(columns)
    look.callers.append(labels)
    board = look.must("board", Board, labels, target="label", start=0.2, ledger=BOOK, keep="kept")
    made = _submissions(plain)
    for name, table in ((name, made[name]) for name in (made if submitted is None else submitted)):
        look(name, board.submit, table)
        look(f"{name} again", board.submit, table)
    show(look, board)
    look.must("final", board.final)
    look("final again", board.final)
    look("no such finalist", board.final, ["0" * 32])
    look("finished", getattr, board, "finished")
    board.close()


@pytest.mark.parametrize(
    ("values", "plain"),
    [(TEXT, "a"), pytest.param(WHOLE, 1, marks=pytest.mark.slow)],
    ids=["texts", "numbers"],
)
def test_a_board_shows_scores_and_nothing_of_the_labels(values, plain):
    nobody = np.zeros(ROWS, dtype=bool)
    # Which rows are sealed goes by their place, so nobody moves.
    tables = make_pair(values, training=nobody, moved=False)
    assert_same(*(observe(partial(board_session, columns=t, plain=plain)) for t in tables))
