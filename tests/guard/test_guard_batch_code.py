"""A batch in which models run: a process that dies while reading may have been told to, so nothing is
free."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast import Guard
from holdfast.asking import Session

METRICS = ["accuracy", "recall"]


class Died(BaseException):
    """The process ended after the reservations were on disk."""


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=900)
    return pd.DataFrame({"x": x, "y": (x + rng.normal(size=900) > 0).astype(int)})


def dies_once(monkeypatch):
    begin_again = Session.begin_again

    def ends(*arguments):
        monkeypatch.setattr(Session, "begin_again", begin_again)
        raise Died

    monkeypatch.setattr(Session, "begin_again", ends)


@pytest.mark.parametrize("kind", ["model", "array"])
def test_a_crash_while_a_model_is_read_costs_the_worst_price(table, tmp_path, monkeypatch, kind):
    guard = Guard(table, ledger=tmp_path / "book.db")
    model = LogisticRegression().fit(guard.train[["x"]], guard.train.y)
    predictions = model if kind == "model" else (table.x > 0).astype(int).to_numpy()
    dies_once(monkeypatch)
    with pytest.raises(Died):
        guard.score(predictions, target="y", metric=METRICS)
    held = sum(body["micro_nats"] for body in guard.balance.open.values())
    assert held > 0
    answers = guard.score(predictions, target="y", metric=METRICS)
    assert set(answers) == set(METRICS)
    left = sum(body["micro_nats"] for body in guard.balance.open.values())
    assert left == (held if kind == "model" else 0)
    guard.close()
    again = Guard(table, ledger=tmp_path / "book.db")
    assert again.score(predictions, target="y", metric="recall") == answers["recall"]
