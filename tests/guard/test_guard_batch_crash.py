"""A process is killed while several questions are read together: what was reserved is spent, nothing is
released without its charge, and the batch continues."""

from __future__ import annotations

import signal
import time
from collections import defaultdict

import numpy as np
import pytest
from guard_batch_workers import ask_at_once_and_tell, ask_together_and_die, ask_together_and_tell

from guard_workers import people, table
from holdfast import Guard
from holdfast.ledger import Balance, Book, SigningKey, export, verify


def kill_one(work, place, first, times, moment):
    """Let one process tell something so many times, kill it a moment later, and return all that it told."""
    ours, theirs = people.Pipe(duplex=False)
    process = people.Process(target=work, args=(place, first, theirs), daemon=True)
    process.start()
    theirs.close()
    told = [answer for _ in range(times) for answer in ours.recv()]
    # The moment is what is tried: any one may be the last.
    time.sleep(moment)
    process.kill()
    process.join()
    try:
        while True:
            told += ours.recv()
    except (EOFError, OSError):
        ours.close()
        return told


def crashes(work, place, tmp_path, kills, seed):
    rng = np.random.default_rng(seed)
    told = []
    for number in range(kills):
        # With few kills each tells something first; with many, some die before they have told anything.
        times, moment = int(rng.integers(kills < 10, 3)), float(rng.uniform(0, 0.03))
        told += kill_one(work, place, 10_000 * number + 1, times, moment)
    book = Book(place, key=SigningKey.generate())
    export(book, tmp_path / "export")
    found = verify(tmp_path / "export", book.key.public)
    assert found.whole, found.problems
    events, balance = list(book.events()), Balance()
    book.close()
    for event in events:
        balance.apply(event)
    reserved = {event.sequence: event.body for event in events if event.kind == "reserve"}
    released = {
        reserved[event.body["reservation"]]["text"]: event.body for event in events if event.kind == "release"
    }
    for text, value, cost in told:
        assert released[text]["released"]["value"] == value
        assert released[text]["micro_nats"] == round(cost * 1e6)
    failed = [event.body["micro_nats"] for event in events if event.kind == "fail"]
    assert balance.micro_nats == sum(body["micro_nats"] for body in released.values()) + sum(failed)
    open_texts = {body["text"] for body in balance.open.values()}
    assert not open_texts & set(released)
    assert not open_texts & {text for text, _, _ in told}
    return len(told), balance.interrupted


def go_on(place):
    """Open the account again, which reads what was left behind, and check that nothing but what it really
    cost is charged.

    Every batch of eight has one δ, whoever read which of its questions.
    """
    book, before = Book(place), Balance()
    for event in book.events():
        before.apply(event)
    guard = Guard(table(), ledger=book)
    events = list(book.events())
    after = guard.balance
    assert after.open == {}
    assert after.micro_nats <= before.micro_nats + before.reserved
    settled = [event for event in events if event.kind in ("release", "fail")]
    assert after.micro_nats == sum(event.body["micro_nats"] for event in settled)
    reserved = {event.sequence: event.body["batch"] for event in events if event.kind == "reserve"}
    again = {event.body["reservation"] for event in events if event.kind == "again"}
    levels, places = defaultdict(set), defaultdict(list)
    for event in settled:
        batch = reserved[event.body["reservation"]]
        places[batch["steps"]].append(batch["place"])
        if event.kind == "release":
            levels[batch["steps"]].add(event.body["released"]["numbers"]["nats of this interval"])
        else:
            assert event.body["reservation"] in again  # It was interrupted twice.
    assert sorted(places) == list(range(0, 8 * len(places), 8))  # No place is used twice.
    assert all(len(nats) == 1 for nats in levels.values())
    assert all(sorted(taken) == list(range(8)) for taken in places.values())
    guard.close()


def test_no_answer_without_its_charge_however_a_batch_dies(place, tmp_path, seed):
    told, _ = crashes(ask_together_and_tell, place, tmp_path, 2, seed)
    assert told > 0
    assert told % 8 == 0
    go_on(place)


def test_no_answer_without_its_charge_however_a_process_dies_in_which_several_wait(place, tmp_path, seed):
    told, _ = crashes(ask_at_once_and_tell, place, tmp_path, 2, seed)
    assert told > 0


@pytest.mark.parametrize("moment", ["reserved", "recorded"])
def test_killed_on_purpose_after_a_write_a_batch_continues(tmp_path, moment):
    """By a process that ends itself right after the reservations, or the answers, are on disk."""
    place = str(tmp_path / "book")
    process = people.Process(target=ask_together_and_die, args=(place, moment))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    book = Book(place)
    kinds = [event.kind for event in book.events()]
    book.close()
    assert kinds == ["open", *["reserve"] * 8, *(["release"] * 8 if moment == "recorded" else [])]
    go_on(place)


# 200 kills of each kind in all, in pieces of a few minutes.
@pytest.mark.slow
@pytest.mark.parametrize("piece", range(3))
def test_two_hundred_kills_of_batches(place, tmp_path, seed, piece):
    told, again = crashes(ask_together_and_tell, place, tmp_path, 67, 100 * piece + seed)
    print(f"piece {piece}: {told} answers, {again} read again")
    assert told > 67
    assert again > 8  # Some died between reserving and recording: all of their batch was read again.
    go_on(place)


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(3))
def test_two_hundred_kills_while_several_wait(place, tmp_path, seed, piece):
    told, again = crashes(ask_at_once_and_tell, place, tmp_path, 67, 100 * piece + seed)
    print(f"piece {piece}: {told} answers, {again} read again")
    assert told > 67
    assert again > 2
