"""Turns among processes: one question of an account at a time; nobody waits for a process that stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np

from holdfast import Guard
from holdfast.asking import _clean_room
from holdfast.asking._clean_room import Turn
from holdfast.ledger import Book

HOLD = """
import sys
from pathlib import Path
from holdfast.asking._clean_room import Turn
with Turn(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.readline()
"""


def holder(file):
    """A process that holds the turn until it is told to go on."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def let_go(process):
    process.communicate("\n", timeout=60)


def test_another_process_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(_clean_room, "_PATIENCE", 60.0)
    process = holder(tmp_path / "turns" / "t")
    tries = []

    def pause(seconds):
        tries.append(seconds)
        if len(tries) == 5:
            let_go(process)

    monkeypatch.setattr(_clean_room.time, "sleep", pause)
    with Turn(tmp_path / "turns" / "t").held():
        assert len(tries) >= 5
    assert (tmp_path / "turns" / "t").stat().st_mode & 0o077 == 0


def test_one_that_was_stopped_is_not_waited_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(_clean_room, "_PATIENCE", 0.1)
    process = holder(tmp_path / "t")
    os.kill(process.pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        with Turn(tmp_path / "t").held():
            assert time.monotonic() - started >= 0.1
    finally:
        os.kill(process.pid, signal.SIGCONT)
        let_go(process)


def test_a_thread_that_has_the_turn_takes_it_again(tmp_path):
    turn = Turn(tmp_path / "t")
    with turn.held():
        with turn.held():
            pass
        # The inner block has not given it away.
        script = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        command = [sys.executable, "-c", script, str(tmp_path / "t")]
        assert subprocess.run(command, capture_output=True).returncode != 0
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("")
    entered = False
    with Turn(tmp_path / "file" / "t").held():
        entered = True
    assert entered
    assert (tmp_path / "file").read_text() == ""


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
