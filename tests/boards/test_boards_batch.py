"""Submissions that were fixed before any of them was scored: one batch, settled one by one, whatever
happens."""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np
import pandas as pd
import pytest
from boards_workers import (
    KEYS,
    LABELS,
    Crashed,
    crash_before_reading,
    opened,
    score_and_tell,
    submissions,
)

from guard_workers import people
from holdfast.boards import PreparedComparison
from holdfast.coding import Account, Weights
from holdfast.errors import QueryRejected
from holdfast.guard import Asker, Board
from holdfast.ledger import Balance, Book, BookError, export, verify
from holdfast.scoring import ScoreQuestion
from holdfast.strategies import PreparedCode


@pytest.fixture
def place(tmp_path):
    return str(tmp_path)


def events_of(board):
    return list(board._book.events())


def whole(board, tmp_path):
    """What a book that verifies adds up to."""
    export(board._book, tmp_path / "export")
    result = verify(tmp_path / "export", board._book.key.public)
    assert result.whole, result.problems
    assert result.spent == pytest.approx(board.spent, abs=1e-9)
    balance = Balance()
    for event in events_of(board):
        balance.apply(event)
    return balance


def test_each_is_answered_as_if_the_others_had_not_been(place, tmp_path):
    board = opened(place)
    keys = [board.take_in(frame, by=f"p{i}") for i, frame in enumerate(submissions())]
    told = board.score_all(keys)
    numbers = [event.body["released"]["numbers"] for event in events_of(board) if event.kind == "release"]
    expected = -math.log(0.05) + Weights().nats(1, KEYS)
    for entry in numbers:
        assert entry["nats of this interval"] == pytest.approx(expected, abs=1e-6)
        assert (entry["asked together"], entry["nats spent before"]) == (KEYS, 0)
    assert [entry.by for entry in told] == [f"p{i}" for i in range(KEYS)]
    assert board.spent == pytest.approx(sum(entry.cost for entry in told), abs=1e-9)
    balance = whole(board, tmp_path)
    assert balance.open == {}
    assert balance.confirmed + balance.surprised == KEYS
    later = board.submit(next(submissions(right=0.97, seed=9)))
    paid = [event.body["released"]["numbers"] for event in events_of(board) if event.kind == "release"][-1]
    assert paid["question"] == KEYS + 1
    assert paid["nats of this interval"] == pytest.approx(
        Account(0.05, KEYS, round(sum(entry.cost for entry in told) * 1e6)).nats(), abs=1e-9
    )
    assert later.compared_with == board.standing[0].key
    assert [entry.value for entry in told if entry.better] == sorted(
        entry.value for entry in told if entry.better
    )
    board.close()


def test_the_last_of_fifty_gets_as_much_as_the_first():
    """4,000 labels, of which 2,000 are live; fifty submissions, each a little better than the one before.

    Outputs and prices are those of one by one, so whoever comes after pays the same.
    """
    rows, step = 4_000, 0.25 / math.sqrt(2_000)
    labels = pd.DataFrame({"id": np.arange(rows), "y": np.arange(rows) % 2})
    together, alone = (Board(labels, target="y", start=0.5, step=step, compare="scores") for _ in range(2))
    live = np.flatnonzero(~together._sealed_mask)
    frames = []
    for right in range(1_004, 1_201, 4):
        wrong = np.zeros(rows, dtype=int)
        wrong[live[right:]] = 1
        frames.append(labels.rename(columns={"y": "prediction"}).assign(prediction=labels["y"] ^ wrong))
    batch = together.score_all([together.take_in(frame) for frame in frames])
    single = [alone.submit(frame) for frame in frames]
    assert [(entry.steps, entry.cost) for entry in batch] == [(entry.steps, entry.cost) for entry in single]
    assert together.spent == alone.spent
    last = max(place for place in range(50) if batch[place].better)
    before, now = ((told[last].high - told[last].low) / 2 for told in (single, batch))
    assert before == pytest.approx(0.113, abs=0.0005)
    assert now == pytest.approx(0.040, abs=0.0005)


def test_equal_live_predictions_are_one_question_and_two_submissions(place):
    board = opened(place)
    frame = next(submissions(right=0.8))
    keys = [board.take_in(frame, by=by) for by in ("ann", "bob")]
    told = board.score_all([*keys, keys[0]])
    assert [entry.key for entry in told] == [*keys, keys[0]]
    assert [entry.by for entry in board.standing] == ["ann", "bob"]
    assert sum(event.kind == "reserve" for event in events_of(board)) == 1
    assert {entry.key for entry in board.final()} == set(keys)
    board.close()


def test_a_submission_that_fails_is_charged_once_and_stops_no_other(place, tmp_path, monkeypatch):
    board = opened(place)
    keys = [board.take_in(frame, by=f"p{i}") for i, frame in enumerate(submissions())]
    values, calls = ScoreQuestion.values, count()

    def fails_once(self, part):
        if next(calls) == 2:
            raise ValueError("label 'HIV+' is not a number")
        return values(self, part)

    monkeypatch.setattr(ScoreQuestion, "values", fails_once)
    told = board.score_all(keys)
    assert [entry is None for entry in told] == [place == 2 for place in range(KEYS)]
    spent = board.spent
    assert board.score_all(keys) == told
    assert board.spent == spent
    assert "HIV" not in str([event.body for event in events_of(board)])
    assert whole(board, tmp_path).open == {}
    assert board.score(keys[2]).by == "p2"  # By itself it may be tried again, and pays for that.
    assert board.spent > spent
    board.close()


def test_a_kept_submission_that_would_be_refused_now_is_left_out_and_costs_nothing(place, monkeypatch):
    board = opened(place)
    with monkeypatch.context() as before:  # Kept when the door was open to everything.
        before.setattr(type(board._predictions), "_checked_values", lambda self, values: values)
        words = board.take_in(pd.DataFrame({"id": LABELS["id"], "prediction": "yes"}), by="eve")
    good = board.take_in(next(submissions(right=0.8)), by="ann")
    told = board.score_all([words, "0" * 32, good])
    assert [entry and entry.by for entry in told] == [None, None, "ann"]
    assert board.spent == told[2].cost
    with pytest.raises(QueryRejected, match="has to be a number"):
        board.score(words)
    board.close()


def test_a_batch_of_nothing_is_nothing(place):
    board = opened(place)
    assert board.score_all([]) == []
    assert board.score_all(["0" * 32]) == [None]
    assert board.spent == 0
    board.close()


def crash_points():
    """Every moment at which the book is written to, before and after it is; the first, the second and the
    last are the quick ones."""
    slow = dict.fromkeys(range(2, KEYS), pytest.mark.slow)
    return [
        pytest.param(write, after, marks=slow.get(write, ()))
        for write in range(KEYS + 1)
        for after in (False, True)
    ]


@pytest.mark.parametrize(("write", "after"), crash_points())
def test_a_batch_continues_after_a_crash_at_any_write(place, tmp_path, monkeypatch, write, after):
    board = opened(place)
    keys = [board.take_in(frame, by=f"p{i}") for i, frame in enumerate(submissions())]
    append, writes = Book.append_all, count()

    def crashing(self, entries, **options):
        if next(writes) != write:
            return append(self, entries, **options)
        if after:
            append(self, entries, **options)
        raise Crashed

    monkeypatch.setattr(Book, "append_all", crashing)
    with pytest.raises(Crashed):
        board.score_all(keys)
    monkeypatch.undo()
    board.close()
    again = opened(place)
    told = again.score_all(keys)
    assert [entry.by for entry in told] == [f"p{i}" for i in range(KEYS)]
    balance = whole(again, tmp_path)
    assert balance.open == {}  # A crash of a batch costs nothing: what was read was never released.
    assert balance.confirmed + balance.surprised == KEYS
    nats = {
        event.body["released"]["numbers"]["nats of this interval"]
        for event in events_of(again)
        if event.kind == "release"
    }
    assert len(nats) == 1
    again.close()


def test_a_crash_while_the_rows_are_read_costs_nothing_either(place, tmp_path, monkeypatch):
    board = opened(place)
    keys = [board.take_in(frame) for frame in submissions()]
    crash_before_reading(monkeypatch, 1)
    with pytest.raises(Crashed):
        board.score_all(keys)
    again = opened(place)
    assert again.spent > board.score(keys[0]).cost  # All that is open counts as spent.
    one = again.score(keys[1])  # One of them by itself takes the place it has in the batch.
    assert again.score_all(keys)[1] == one
    assert whole(again, tmp_path).open == {}
    board.close()
    again.close()


@pytest.mark.parametrize("taken", [slice(None), slice(1, 2), slice(3, None)], ids=["all", "one", "last"])
def test_two_processes_that_end_a_blind_phase_at_once_release_everything_once(
    place, tmp_path, monkeypatch, taken
):
    """The second one has lost patience with the first, which still reads."""
    first, second = opened(place), opened(place)
    keys = [first.take_in(frame) for frame in submissions()]
    read, calls, later = PreparedCode.read, count(), time.time() + 3_600

    def meanwhile(self, part):
        if next(calls) == 1:
            monkeypatch.setattr(time, "time", lambda: later)
            second.score_all(keys[taken])
        return read(self, part)

    monkeypatch.setattr(PreparedCode, "read", meanwhile)
    told = first.score_all(keys)
    assert told == second.score_all(keys)
    assert sum(event.kind == "release" for event in events_of(first)) == KEYS
    assert whole(first, tmp_path).open == {}
    first.close()
    second.close()


@pytest.mark.parametrize(("compare", "prepared"), [("paired", PreparedComparison), ("scores", PreparedCode)])
def test_a_question_during_a_batch_is_placed_and_priced_after_the_whole_batch(
    place, tmp_path, monkeypatch, compare, prepared
):
    board, other = opened(place, compare), opened(place, compare)
    keys = [board.take_in(frame) for frame in submissions()]
    read, calls, asked = prepared.read, count(), []

    def meanwhile(self, part):
        if next(calls) == 1:
            asked.append(other.submit(next(submissions(right=0.97, seed=9)), asker=Asker("bob")))
        return read(self, part)

    monkeypatch.setattr(prepared, "read", meanwhile)
    told = board.score_all(keys)
    (numbers,) = (
        event.body["released"]["numbers"]
        for event in events_of(board)
        if event.kind == "release" and event.body["released"]["by"] == "bob"
    )
    assert numbers["question"] == KEYS + 1
    assert numbers["nats spent before"] > told[0].cost
    if compare == "scores":
        assert not any(entry.better for entry in told[2:])  # Bob has the best by then.
        assert board.standing[0].by == "bob"
    else:
        assert {entry.compared_with for entry in told} == {""}  # As before the batch: there was none.
        assert asked[0].compared_with == (told[0].key if told[0].better else "")
    assert whole(board, tmp_path).open == {}
    board.close()
    other.close()


def test_submissions_that_come_while_a_batch_is_open_are_another_batch(place, tmp_path, monkeypatch):
    board = opened(place)
    keys = [board.take_in(frame) for frame in submissions()]
    with monkeypatch.context() as broken:
        crash_before_reading(broken, 1)
        with pytest.raises(Crashed):
            board.score_all(keys[:4])
    board.score_all(keys)
    numbers = [event.body["released"]["numbers"] for event in events_of(board) if event.kind == "release"]
    assert [entry["asked together"] for entry in numbers] == [4] * 4 + [KEYS - 4] * (KEYS - 4)
    spent = [entry["nats spent before"] for entry in numbers]
    assert spent[:4] == [0.0] * 4
    costs = [event.body["micro_nats"] for event in events_of(board) if event.kind == "release"]
    assert spent[4] == pytest.approx(sum(costs[:4]) / 1e6, abs=1e-9)
    whole(board, tmp_path)
    board.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: batch.update(micro_nats=batch["micro_nats"] - 1),
        lambda batch: batch.update(steps=batch["steps"] - 1),
        lambda batch: batch.update(surprised=batch["surprised"] + 1),
        lambda batch: batch.update(questions=batch["questions"] - 1),
        lambda batch: batch.update(questions=batch["questions"] + 1),
        lambda batch: batch.update(place=batch["place"] + 1),
        lambda batch: batch.pop("steps"),
        lambda batch: batch.update(questions="6"),
        lambda batch: batch.update(more=1),
    ],
)
def test_a_book_whose_batch_claims_another_account_is_refused(place, change):
    board = opened(place)
    board.submit(next(submissions(right=0.6, seed=8)))
    board.score_all([board.take_in(frame) for frame in submissions()])
    balance, refused = Balance(), False
    for event in events_of(board):
        if event.kind == "reserve" and "batch" in event.body:
            change(event.body["batch"])
        try:
            balance.apply(event)
        except (BookError, KeyError):
            refused = True
            break
    assert refused
    board.close()


def kill_one(place, moment):
    """Let one process score, kill it a moment after it has begun, and return all that it told."""
    ours, theirs = people.Pipe(duplex=False)
    process = people.Process(target=score_and_tell, args=(place, theirs), daemon=True)
    process.start()
    theirs.close()
    told = []
    try:
        ours.recv()
        # The moment is what is tried: any one may be the last.
        time.sleep(moment)
        process.kill()
        process.join()
        while True:
            told.append(ours.recv())
    except (EOFError, OSError):
        ours.close()
    process.join()
    return told


def kills(place, tmp_path, number, seed):
    rng, told = np.random.default_rng(seed), []
    for _ in range(number):
        told += kill_one(place, float(rng.uniform(0, 0.1)))
    board = opened(place)
    keys = [board.take_in(frame, by=f"p{i}") for i, frame in enumerate(submissions())]
    scored = board.score_all(keys)
    assert whole(board, tmp_path).open == {}
    events = events_of(board)
    again = [event.subject for event in events if event.kind == "again"]
    failed = [event.subject for event in events if event.kind == "fail"]
    assert len(set(again)) == len(again)
    assert set(failed) <= set(again)  # What was interrupted twice has failed, at its worst price.
    assert sum(event.kind == "release" for event in events) + len(failed) == KEYS
    for values in told:
        assert values == [None if entry is None else entry.value for entry in scored]
    board.close()


def test_killed_at_any_moment_a_batch_continues_where_it_stopped(place, tmp_path, seed):
    kills(place, tmp_path, 2, seed)


@pytest.mark.slow
def test_killed_forty_times(place, tmp_path, seed):
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        kills(str(folder), folder, 5, [seed, number])
