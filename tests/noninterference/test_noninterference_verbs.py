"""Every verb, with predictions, models and functions of people who mean well, and questions that fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from compared_sessions import BOOK, show
from observe import Look, assert_same, observe
from pairs import ROWS, SEED, TEXT, WHOLE, make_pair, training_mask

from holdfast import Guard, queries
from holdfast.guard import CodeHoldout, ReusableHoldout
from holdfast.tails import SubGaussian

MASK = training_mask()
PREDICTED = np.random.default_rng(1).integers(0, 2, ROWS)


def still(values):
    """Two tables in which the same people stand at the same places: predictions are about places."""
    return map(pd.DataFrame, make_pair(values, moved=False))


def verbs(look: Look, table):
    look.callers.append(table)
    guard = Guard(table, split_seed=SEED, ledger=BOOK)
    look.must("share", guard.share, "s = 'a'", where="x > 3", guess=0.5)
    look.must("mean", guard.mean, "x + y", bounds=(0, 10))
    look.must("quantile", guard.quantile, "x", 0.25, where="s = 'a'")
    look.must("array for all rows", guard.score, PREDICTED, target="y")
    look.must("array for protected rows", guard.score, PREDICTED[~MASK], target="y", guess=0.5)
    look.must("array of probabilities", guard.score, PREDICTED * 0.5, target="y", metric="brier")
    look.must("list of texts", guard.score, ["a"] * ROWS, target="s")
    look("texts against numbers", guard.score, ["a"] * ROWS, target="y")
    look("numbers against texts", guard.score, PREDICTED, target="s")
    look("brier against texts", guard.score, PREDICTED * 0.5, target="s", metric="brier")
    look.must("as text", guard.score, "x", target="y")
    look.must("custom", guard.custom, lambda rows: (rows["x"] > 3).mean(), tail=SubGaussian(0.05), name="f")
    look.must("together", guard.ask_all, [queries.share("x > 4"), "mean(y, 0, 1)", "share(s = 'b')"])
    show(look, guard)
    guard.close()


def test_every_verb_shows_what_is_priced_and_nothing_else():
    assert_same(*(observe(partial(verbs, table=table)) for table in still(TEXT)))


class Encoded:
    """A model of one column that knows the categories of the training rows."""

    def __init__(self, train, handle_unknown):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder

        model = make_pipeline(OneHotEncoder(handle_unknown=handle_unknown), LogisticRegression())
        self.model = model.fit(train[["s"]], train["y"])

    def predict(self, frame):
        return self.model.predict(frame[["s"]])


def models(look: Look, table):
    look.callers.append(table)
    guard = Guard(table, split_seed=SEED, ledger=BOOK)
    for how in ("warn", "error"):
        look(how, guard.score, Encoded(guard.train, how), target="y", name=how)
    show(look, guard)
    guard.close()


def test_a_model_that_fails_on_unknown_categories_reveals_nothing():
    pytest.importorskip("sklearn")
    assert_same(*(observe(partial(models, table=table)) for table in still(TEXT)))


def failing(look: Look, table):
    """Questions on which the engine itself gives up because of one value."""
    look.callers.append(table)
    guard = Guard(table, split_seed=SEED, ledger=BOOK)
    for expression in ("s * s * s", "power(s, 60)", "exp(s)", "s % (s - 10)", "sqrt(5 - s)", "ln(s - 10)"):
        look(expression, guard.mean, expression, bounds=(0, 1), nulls=0)
        look(f"{expression} again", guard.mean, expression, bounds=(0, 1), nulls=0)
    show(look, guard)
    guard.close()


def test_an_engine_that_gives_up_does_not_say_on_what():
    tables = make_pair(WHOLE, [10, 11, 2**52 - 1], [10, 11, 2**51 + 7])
    assert_same(*(observe(partial(failing, table=pd.DataFrame(t))) for t in tables))


def promised(look: Look, table):
    """A promised error: questions that would break it are refused, before or after the rows were read."""
    look.callers.append(table)
    guard = Guard(table, split_seed=SEED, ledger=BOOK, error=0.2)
    for text in (
        "share(s = 'a')",
        "share(x > 3, where = s = 'a')",
        "share(x > 3, where = s = 'HIV')",
        "mean(x, 0, 9)",
    ):
        look(f"preview {text}", guard.cost_preview, text)
        look(text, guard.ask, text)
    show(look, guard)
    guard.close()


def test_a_refusal_for_width_says_no_more_than_that():
    tables = make_pair(TEXT, ["HIV", "b", "c"], ["HIV", "b", "d" * 50])
    assert_same(*(observe(partial(promised, table=pd.DataFrame(t))) for t in tables))


def holdouts(look: Look, table, kinds):
    """Both holdouts, on frames and on arrays."""
    rows = {"frame": table, "array": table[["x", "y"]].to_numpy(), "objects": table.to_numpy(dtype=object)}
    for name, data in ((name, rows[name]) for name in kinds):
        code = CodeHoldout(data[MASK], data[~MASK])
        reusable = ReusableHoldout(
            data[MASK], data[~MASK], threshold=0.05, noise=0.01, budget=4, simulation=True, seed=0
        )
        for holdout in (code, reusable):
            of = f"{type(holdout).__name__} of {name}"
            look(f"{of}: high", holdout.ask, lambda rows: np.asarray(rows)[:, 0] > 3)
            look(f"{of}: other", holdout.ask, lambda rows: np.asarray(rows)[:, 1] == 1)
            look(f"{of}: text", holdout.ask, "share(x > 3)")
            look(f"{of}: not for training rows", holdout.ask, lambda rows: np.asarray(rows)[:, 0] + 0.5)
            show(look, holdout)


@pytest.mark.parametrize(
    "kinds",
    [("frame",), pytest.param(("array", "objects"), marks=pytest.mark.slow)],
    ids=["frames", "arrays"],
)
def test_holdouts_show_what_is_priced_and_nothing_else(kinds):
    assert_same(*(observe(partial(holdouts, table=pd.DataFrame(t), kinds=kinds)) for t in make_pair(TEXT)))
