"""Killed while several questions are read together: what was reserved is spent, and nothing is released
without its charge."""

from __future__ import annotations

import time

import numpy as np
import pytest
from guard_batch_workers import ask_at_once_and_tell, ask_together_and_tell
from guard_workers import people

from holdfast.ledger import Balance, Book, SigningKey, export, verify


def kill_one(work, place, first, times, moment):
    """Let one process tell something so many times, kill it a moment later, and return all that it told."""
    ours, theirs = people.Pipe(duplex=False)
    process = people.Process(target=work, args=(place, first, theirs), daemon=True)
    process.start()
    theirs.close()
    told = [answer for _ in range(times) for answer in ours.recv()]
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
        times, moment = int(rng.integers(0, 3)), float(rng.uniform(0, 0.03))
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
    assert balance.micro_nats == sum(body["micro_nats"] for body in released.values())
    open_texts = {body["text"] for body in balance.open.values()}
    assert not open_texts & set(released)
    assert not open_texts & {text for text, _, _ in told}
    return len(told), len(balance.open)


def test_no_answer_without_its_charge_however_a_batch_dies(place, tmp_path, seed):
    told, _ = crashes(ask_together_and_tell, place, tmp_path, 8, seed)
    assert told > 0
    assert told % 8 == 0


def test_no_answer_without_its_charge_however_a_process_dies_in_which_several_wait(place, tmp_path, seed):
    told, _ = crashes(ask_at_once_and_tell, place, tmp_path, 8, seed)
    assert told > 0


@pytest.mark.slow
def test_two_hundred_kills_of_batches(place, tmp_path, seed):
    told, left = crashes(ask_together_and_tell, place, tmp_path, 200, seed)
    assert told > 200
    assert left > 8  # Some died between reserving and recording: all of their batch is charged.


@pytest.mark.slow
def test_two_hundred_kills_while_several_wait(place, tmp_path, seed):
    told, left = crashes(ask_at_once_and_tell, place, tmp_path, 200, seed)
    assert told > 200
    assert left > 8
