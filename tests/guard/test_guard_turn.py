"""Turns among processes: one question of an account at a time; nobody waits for a process that stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np

from holdfast import Guard
from holdfast.ledger import Book

HOLD = """
import fcntl, os, sys
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""
TAKE = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def holder(file):
    """A process that holds the turn until it gets a signal to continue."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def let_go(process):
    process.communicate("\n", timeout=60)


def guard_with(tmp_path, turns):
    return Guard({"x": np.arange(400) / 400}, ledger=Book(tmp_path / "b.holdfast", turns=turns))


def with_pauses(monkeypatch, in_pause):
    """Time passes in pauses only; ``in_pause`` gets how many seconds have passed."""
    clock = [0.0]

    def sleep(seconds):
        clock[0] += seconds
        in_pause(clock[0])

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", sleep)


def test_another_process_is_waited_for(tmp_path, monkeypatch):
    guard, turns = guard_with(tmp_path, tmp_path / "turns" / "t"), tmp_path / "turns" / "t"
    process, pauses = holder(turns), []

    def in_pause(passed):
        pauses.append(passed)
        if len(pauses) < 5:
            assert [event.kind for event in guard._book.events()] == ["open"]
        elif len(pauses) == 5:
            let_go(process)

    with_pauses(monkeypatch, in_pause)
    assert guard.share("x > 0.5").low >= 0
    assert len(pauses) >= 5
    guard.close()


def test_nobody_else_can_read_the_file_of_the_turns(tmp_path):
    guard = guard_with(tmp_path, tmp_path / "turns" / "t")
    guard.share("x > 0.5")
    assert (tmp_path / "turns" / "t").stat().st_mode & 0o077 == 0
    guard.close()


def test_one_that_was_stopped_is_not_waited_for_long(tmp_path, monkeypatch):
    guard, turns = guard_with(tmp_path, tmp_path / "turns" / "t"), tmp_path / "turns" / "t"
    process, pauses = holder(turns), []
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with_pauses(monkeypatch, pauses.append)
        guard.share("x > 0.5")
        assert 2 <= pauses[-1] < 2.1
    finally:
        monkeypatch.undo()
        os.kill(process.pid, signal.SIGCONT)
        let_go(process)
    guard.close()


def test_a_thread_that_has_the_turn_takes_it_again(tmp_path):
    guard, turns = guard_with(tmp_path, tmp_path / "t"), tmp_path / "t"
    command = [sys.executable, "-c", TAKE, str(turns)]
    with guard._session.turn():
        guard.share("x > 0.5")
        # The question has not given it away.
        assert subprocess.run(command, capture_output=True).returncode != 0
    assert subprocess.run(command, capture_output=True).returncode == 0
    guard.close()


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("")
    guard = guard_with(tmp_path, tmp_path / "file" / "t")
    assert guard.share("x > 0.5").low >= 0
    assert (tmp_path / "file").read_text() == ""
    guard.close()


def test_a_guard_takes_turns_by_the_file_of_its_book(tmp_path, rng):
    book = Book(tmp_path / "b.holdfast", turns=tmp_path / "turns" / "b")
    guard = Guard({"x": rng.random(400)}, ledger=book)
    assert guard.share("x > 0.5").low >= 0
    assert (tmp_path / "turns" / "b").exists()
    later = guard.next_epoch({"x": np.random.default_rng(1).random(400)})
    later.share("x > 0.5")
    assert (tmp_path / "turns" / "b.epoch-2").exists()
    later.close()
    guard.close()
