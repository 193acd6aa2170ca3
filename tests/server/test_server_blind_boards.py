"""Boards of a service without HTTP: the door, blind phases and how they end, rates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from server_caller import varied

from holdfast.boards import Predictions
from holdfast.errors import QueryRejected
from holdfast.registry import Person, TooMany
from holdfast.scoring import ScoreQuestion
from holdfast.server import Service

ROWS = 600
LABELS = pd.DataFrame({"id": np.arange(ROWS), "y": np.random.default_rng(2).integers(0, 2, ROWS)})
RIGHT = (0.6, 0.7, 0.8)


@pytest.fixture
def boards(tmp_path):
    """One board that is open, and one that is blind."""
    service = Service(tmp_path)
    LABELS.to_csv(service.sources / "y.csv", index=False)
    for name in ("open", "dark"):
        source, terms = varied(service, "y.csv", name), {"target": "y", "start": 0.5, "rate": 4}
        service.boards.register(name, source, terms, blind=name == "dark")
    yield service.boards
    service.close()


def person(name):
    return Person(identity=name, name=name, team="", role="analyst", dataset="*", expires=0)


def predictions(right, seed=0):
    wrong = np.random.default_rng(seed).random(ROWS) >= right
    y = LABELS["y"]
    return pd.DataFrame({"id": LABELS["id"], "prediction": np.where(wrong, 1 - y, y)})


def fill(boards):
    for place, right in enumerate(RIGHT):
        boards.submit("dark", person(f"p{place}"), predictions(right, place))


def numbers(board):
    return [event.body["released"]["numbers"] for event in board._book.events() if event.kind == "release"]


def test_a_bad_submission_is_refused_alike_in_both_phases_and_costs_nothing(boards, tmp_path):
    bad = {
        "number": predictions(0.7).assign(prediction="yes"),
        "for example id 10": predictions(0.7).drop(index=10),
        "missing": predictions(0.7).assign(prediction=np.nan),
    }
    for name in ("open", "dark"):
        for _ in range(5):  # A bad submission does not count for the rate either.
            for words, frame in bad.items():
                with pytest.raises(QueryRejected, match=words):
                    boards.submit(name, person("ann"), frame)
        assert boards.get(name).spent == 0
        assert list((tmp_path / "submissions" / name).iterdir()) == []
    assert boards.waiting("dark") == 0


def test_a_blind_phase_is_one_batch_and_its_end_can_be_repeated(boards):
    fill(boards)
    fill(boards)  # The same submissions again wait once.
    assert boards.waiting("dark") == len(RIGHT)
    with pytest.raises(QueryRejected, match="end the blind phase first"):
        boards.final("dark")
    board = boards.get("dark")
    assert not board.finished
    assert boards.unblind("dark") == []
    assert not boards.blind("dark")
    told = numbers(board)
    assert [(entry["asked together"], entry["nats spent before"]) for entry in told] == [(3, 0.0)] * 3
    spent, standing = board.spent, board.standing
    assert {entry.by for entry in standing} == {"/p0", "/p1", "/p2"}
    assert boards.unblind("dark") == []
    assert (board.spent, board.standing) == (spent, standing)
    boards.final("dark")
    assert {entry.by for entry in board.final()} == {"/p0", "/p1", "/p2"}


def test_one_bad_submission_from_before_does_not_hold_up_the_others(boards, monkeypatch):
    """The door used to be open to any kind of prediction, and what was kept then may wait still."""
    with monkeypatch.context() as before:
        before.setattr(Predictions, "_checked_values", lambda self, values: values)
        boards.submit("dark", person("eve"), predictions(0.7).assign(prediction="yes"))
    fill(boards)
    assert [entry.by for entry in boards.unblind("dark")] == ["/eve"]
    board = boards.get("dark")
    assert {entry.by for entry in board.standing} == {"/p0", "/p1", "/p2"}
    assert board.spent == pytest.approx(sum(entry.cost for entry in board.standing))
    spent = board.spent
    assert boards.unblind("dark") == []
    assert board.spent == spent


def test_a_submission_that_fails_is_settled_once(boards, monkeypatch):
    fill(boards)
    values, calls = ScoreQuestion.values, []

    def fails_once(self, part):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("label 'HIV+'")
        return values(self, part)

    monkeypatch.setattr(ScoreQuestion, "values", fails_once)
    assert [entry.by for entry in boards.unblind("dark")] == ["/p1"]
    board = boards.get("dark")
    spent = board.spent
    assert {entry.by for entry in board.standing} == {"/p0", "/p2"}
    assert boards.unblind("dark") == []
    assert board.spent == spent
    assert len(calls) == 3


def test_what_another_process_takes_in_while_the_phase_ends_is_not_forgotten(boards, monkeypatch):
    fill(boards)
    board = boards.get("dark")
    score_all, late = board.score_all, board.take_in(predictions(1.0, 9), by="/late")

    def meanwhile(keys):
        told = score_all(keys)
        if len(keys) == len(RIGHT):
            boards._database.execute(
                "INSERT INTO waiting (board, submission, person) VALUES ('dark', ?, '/late')", (late,)
            )
        return told

    monkeypatch.setattr(board, "score_all", meanwhile)
    assert boards.unblind("dark") == []
    assert not boards.blind("dark")
    assert board.standing[0].by == "/late"
    assert numbers(board)[-1]["nats spent before"] > 0  # It may have seen the results of the others.


def test_what_costs_nothing_is_bounded_by_the_rate_too(boards, tmp_path):
    """A submission that differs only on sealed rows gets the same result free of charge. It is a line and a
    file."""
    sealed = np.flatnonzero(boards.get("open")._sealed_mask)
    frame, accepted = predictions(0.7), 0
    for place in range(6):
        changed = frame["prediction"].to_numpy().copy()
        changed[sealed[:place]] = 1 - changed[sealed[:place]]
        try:
            boards.submit("open", person("ann"), frame.assign(prediction=changed))
            accepted += 1
        except TooMany:
            pass
    assert accepted == 4
    assert len(list((tmp_path / "submissions" / "open").iterdir())) == 4  # Nothing refused is kept.
    for place in range(6):
        try:
            boards.submit("dark", person("bob"), predictions(0.7, place))
        except TooMany:
            assert place >= 4
    assert len(list((tmp_path / "submissions" / "dark").iterdir())) == boards.waiting("dark") == 4
    boards.get("open").close()
    del boards._open["open"]
    with pytest.raises(TooMany):  # The book remembers it.
        boards.submit("open", person("ann"), predictions(0.8, 5))
