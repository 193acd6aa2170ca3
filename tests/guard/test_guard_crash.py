"""Killed at any moment, raced by any number: no answer without its charge, and never above the cap."""

from __future__ import annotations

import time

import numpy as np
import pytest

from guard_workers import ask_and_tell, people, race, table
from holdfast import Guard
from holdfast.ledger import Balance, Book, SigningKey, export, verify


def whole_book(place, tmp_path):
    """The events of a book that verifies, and what they add up to."""
    book = Book(place, key=SigningKey.generate())
    export(book, tmp_path / "export")
    found = verify(tmp_path / "export", book.key.public)
    assert found.whole, found.problems
    events, balance = list(book.events()), Balance()
    for event in events:
        balance.apply(event)
    book.close()
    return events, balance


def kill_one(place, first, answers, moment, threads):
    """Let one process tell so many answers, kill it a moment later, and return all that it told."""
    ours, theirs = people.Pipe(duplex=False)
    process = people.Process(target=ask_and_tell, args=(place, first, theirs, threads), daemon=True)
    process.start()
    theirs.close()
    told = [ours.recv() for _ in range(answers)]
    # The moment is what is tried: any one may be the last.
    time.sleep(moment)
    process.kill()
    process.join()
    try:
        while True:
            told.append(ours.recv())
    except (EOFError, OSError):
        ours.close()
        return told


def crashes(place, tmp_path, kills, seed):
    rng = np.random.default_rng(seed)
    acknowledged = []
    for number in range(kills):
        # With few kills each tells something first; with many, some die before they have told anything.
        answers, moment = int(rng.integers(kills < 10, 4)), float(rng.uniform(0, 0.02))
        # Alone, and with others that wait for the same turn and share its writes.
        threads = 1 if number % 2 else 3
        acknowledged += kill_one(place, 10_000 * number + 1, answers, moment, threads)
        if number % 20 == 19 or number == kills - 1:
            events, balance = whole_book(place, tmp_path)
            recorded = {
                next(e for e in events if e.sequence == event.body["reservation"]).body["text"]: event.body
                for event in events
                if event.kind == "release"
            }
            for text, value, cost in acknowledged:
                assert recorded[text]["released"]["value"] == value
                assert recorded[text]["micro_nats"] == round(cost * 1e6)
            # Only what was interrupted twice is paid for without an answer.
            failed = [event for event in events if event.kind == "fail"]
            again = [event.body["reservation"] for event in events if event.kind == "again"]
            assert len(set(again)) == len(again)
            assert {event.body["reservation"] for event in failed} <= set(again)
            paid = [*recorded.values(), *(event.body for event in failed)]
            assert balance.micro_nats == sum(body["micro_nats"] for body in paid)
    guard = Guard(table(), ledger=Book(place))
    assert guard.balance.open == {}  # The next start has read what the last process left behind.
    interrupted = guard.balance.interrupted
    guard.close()
    return len(acknowledged), interrupted


def test_no_answer_without_its_charge_however_a_process_dies(place, tmp_path, seed):
    acknowledged, _ = crashes(place, tmp_path, 2, seed)
    assert acknowledged > 0


# 300 kills in all, in pieces of a few minutes.
@pytest.mark.slow
@pytest.mark.parametrize("piece", range(4))
def test_three_hundred_kills(place, tmp_path, seed, piece):
    acknowledged, interrupted = crashes(place, tmp_path, 75, 100 * piece + seed)
    print(f"piece {piece}: {acknowledged} answers, {interrupted} read again")
    assert acknowledged > 75
    assert interrupted > 0  # Some died between reading and recording, and were read again.


def racing(place, tmp_path, processes, questions, cap):
    racers = [people.Process(target=race, args=(place, i, questions, cap)) for i in range(processes)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * processes
    events, final = whole_book(place, tmp_path)
    running = Balance()
    for event in events:
        running.apply(event)
        assert running.micro_nats + running.reserved <= cap
    releases = [event for event in events if event.kind == "release"]
    assert final.micro_nats == sum(event.body["micro_nats"] for event in releases)
    assert not final.open
    assert len({event.subject for event in releases}) == len(releases)  # Nothing was drawn twice.
    return len(releases), final.micro_nats


def test_processes_that_race_for_one_account_never_exceed_its_cap(place, tmp_path):
    processes, questions, cap = 3, 15, 14_000_000
    releases, _ = racing(place, tmp_path, processes, questions, cap)
    different = processes * (questions - questions // 5) + questions // 5
    assert 0 < releases < different  # Only the cap can have stopped the others.


@pytest.mark.slow
def test_eight_processes_with_five_hundred_questions_each(place, tmp_path):
    releases, spent = racing(place, tmp_path, 8, 500, cap=400_000_000)
    assert releases > 100
    assert spent <= 400_000_000
