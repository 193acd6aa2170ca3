"""A limit on statements: late ones are stopped, and nothing is stopped in place of another."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.engines import _database, open_rows
from holdfast.engines._database import Deadline
from holdfast.errors import QueryRejected
from waiting import wait_until

ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range * b.range % 7 = 3"


def test_a_late_statement_is_stopped_and_the_next_one_is_not():
    rows = open_rows({"x": [1.0, 2.0]})
    rows.limit(0.1)
    database = rows._database
    started = time.monotonic()
    with pytest.raises(QueryRejected, match=r"longer than the 0\.1 seconds"):
        database.run(ENDLESS)
    assert time.monotonic() - started < 60  # It would take years.
    wait_until(lambda: not database._deadline._watched)
    for _ in range(20):
        assert database.run("SELECT 1") == [(1,)]


def test_time_spent_waiting_for_another_question_does_not_count():
    rows = open_rows({"x": [1.0, 2.0]})
    rows.limit(0.5)
    database = rows._database

    def endless():
        with pytest.raises(QueryRejected):
            database.run(ENDLESS)

    slow = threading.Thread(target=endless)
    slow.start()
    wait_until(lambda: database._deadline._runs or not slow.is_alive())
    assert database.run("SELECT 2") == [(2,)]
    slow.join()


def test_nothing_is_interrupted_after_the_end():
    stopped = []
    deadline = Deadline(0.1, lambda: stopped.append(1))
    with deadline.held():
        wait_until(lambda: stopped)
    count = len(stopped)
    wait_until(lambda: not deadline._watched)  # Who watches goes when there is nothing to watch.
    assert len(stopped) == count


def test_every_statement_has_a_time_of_its_own(monkeypatch):
    clock, stopped = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    deadline = Deadline(10.0, lambda: stopped.append(1))
    deadline._watched = True  # Nobody else looks.

    def run(steps):
        with deadline.held():
            for _ in range(steps):
                clock[0] += 0.25
                deadline.look()

    for _ in range(10):
        run(24)
    assert stopped == []  # Each had its own time, and together they took six times as long.
    run(39)
    assert stopped == []
    run(40)
    assert stopped == [1]


def used(clock, cpu, *, others=0, elsewhere=False):
    """What a statement has used that was looked at when the clock and the CPU time had these values."""
    deadline = Deadline(100.0, lambda: None, elsewhere=elsewhere)
    deadline._watched = True  # Nobody else looks.
    times = {"clock": 0.0, "cpu": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: times["clock"])
        patch.setattr(time, "process_time", lambda: times["cpu"])
        patch.setattr(_database, "_running", set(range(-others, 0)))
        with deadline.held():
            for times["clock"], times["cpu"] in zip(clock, cpu, strict=True):
                deadline.look()
    return deadline._used


STEPS = [0.25 * (place + 1) for place in range(40)]


def test_a_statement_that_has_a_core_uses_what_passes():
    assert used(STEPS, STEPS) == pytest.approx(10.0)
    assert used(STEPS, [2 * step for step in STEPS]) == pytest.approx(10.0)  # Two cores are no faster clock.


def test_a_busy_machine_is_not_counted():
    assert used(STEPS, [step / 2 for step in STEPS]) == pytest.approx(5.0)
    assert used(STEPS, [2 * step for step in STEPS], others=3) == pytest.approx(5.0)


def test_every_statement_ends():
    assert used(STEPS, [0.0] * 40) == pytest.approx(2.5)  # It waits for a disk all the time.
    assert used(STEPS, [0.0] * 40, elsewhere=True) == pytest.approx(10.0)


def test_a_pause_of_the_process_is_not_counted():
    paused = [*STEPS[:20], *(step + 1_000 for step in STEPS[20:])]
    assert used(paused, STEPS) == pytest.approx(10.0, abs=0.5)
    assert used(paused, STEPS, elsewhere=True) == pytest.approx(10.0, abs=0.5)
