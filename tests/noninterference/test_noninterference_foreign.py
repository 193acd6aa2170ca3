"""Code of other people that sees protected rows: whatever it says besides its value stays inside."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from compared_sessions import BOOK, show
from gossip import FAILING, PAST_PYTHON, TALKATIVE
from observe import Look, assert_same, observe
from pairs import SEED, TEXT, make_pair, training_mask

from holdfast import Guard, ReusableHoldout
from holdfast.guard import CodeHoldout
from holdfast.tails import SubGaussian

TABLES = make_pair(TEXT)
MASK = training_mask()


def people(columns):
    """The table, with a column that says which rows are protected."""
    return pd.DataFrame(columns).assign(kept=~MASK)


class Telling:
    """A function of rows and a model at once: tells ``s`` where rows are protected, and goes by ``x``."""

    __name__ = "telling"

    def __init__(self, tell):
        self.tell = tell

    def speak(self, frame):
        """What telling returned, where rows are protected; else None."""
        return self.tell(frame["s"].tolist()) if frame["kept"].any() else None

    def statistic(self, frame):
        spoken = self.speak(frame)
        return float((frame["x"] > 3).mean()) if spoken is None else spoken

    def predict(self, frame):
        spoken = self.speak(frame)
        return np.ones(len(frame)) if spoken is None else spoken

    def of_rows(self, frame):
        spoken = self.speak(frame)
        return np.asarray(frame["x"] > 3) if spoken is None else spoken


TAIL = SubGaussian(0.05)
NOISE = {"strategy": "typical-gaussian", "queries": 3}


def custom(look: Look, columns, tells):
    guard = Guard(people(columns), split_seed=SEED, ledger=BOOK)
    for how, tell in tells.items():
        look(how, guard.custom, Telling(tell).statistic, tail=TAIL, name=how)
    show(look, guard)
    guard.close()


def score(look: Look, columns, tells):
    guard = Guard(people(columns), split_seed=SEED, ledger=BOOK)
    for how, tell in tells.items():
        look(how, guard.score, Telling(tell), target="y", name=how)
    show(look, guard)
    guard.close()


def noise(look: Look, columns, tells):
    """A failure may end the account, so each function has one of its own."""
    for how, tell in tells.items():
        guard = Guard(people(columns), training_share=0.5, ledger=f"{how}.holdfast", **NOISE)
        look(how, guard.custom, Telling(tell).statistic, tail=TAIL, name="f")
        look(f"{how} and then", guard.share, "x > 3")
        show(look, guard)
        guard.close()


def code_holdout(look: Look, columns, tells):
    table = people(columns)
    holdout = CodeHoldout(table[MASK], table[~MASK])
    for how, tell in tells.items():
        look(how, holdout.ask, Telling(tell).of_rows)
    look("ask by text", holdout.ask, "share(x > 3)")
    show(look, holdout)


def reusable_holdout(look: Look, columns, tells):
    """A failure ends the account, so each function has a holdout of its own."""
    table = people(columns)
    for how, tell in tells.items():
        holdout = ReusableHoldout(
            table[MASK], table[~MASK], threshold=0.1, noise=0.01, budget=3, simulation=True, seed=0
        )
        look(how, holdout.ask, Telling(tell).of_rows)
        look(f"{how} and then", holdout.ask, "share(x > 3)")
        show(look, holdout)


places = pytest.mark.parametrize(
    "place", [custom, score, noise, code_holdout, reusable_holdout], ids=lambda place: place.__name__
)
quick = pytest.mark.parametrize("place", [custom, score, reusable_holdout], ids=lambda place: place.__name__)
# A few functions stand for all; the slow part takes the others.
_FEW = ("prints", "logs", "lets numpy warn", "raises out of reach")


def compared(place, tells):
    """Run the same session on both tables; whatever differs is a leak."""
    sessions = (partial(place, columns=columns, tells=tells) for columns in TABLES)
    assert_same(*(observe(session) for session in sessions))


def _few(place, tells):
    return {how: tell for how, tell in tells.items() if place is custom or how in _FEW}


@quick
def test_what_a_function_says_stays_inside(place):
    compared(place, _few(place, TALKATIVE))


@quick
def test_why_a_function_fails_stays_inside(place):
    compared(place, _few(place, FAILING))


def test_what_is_written_past_python_stays_inside():
    compared(custom, PAST_PYTHON)


@pytest.mark.slow
@pytest.mark.parametrize("tells", [TALKATIVE, FAILING, PAST_PYTHON], ids=["talks", "fails", "past Python"])
@places
def test_nothing_leaves_however_a_function_speaks(place, tells):
    compared(place, tells)
