"""A limit on statements: late ones are stopped, and nothing is stopped in place of another."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.engines import open_rows
from holdfast.engines._deadline import Deadline
from holdfast.errors import QueryRejected

ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range * b.range % 7 = 3"


def test_a_late_statement_is_stopped_and_the_next_one_is_not():
    rows = open_rows({"x": [1.0, 2.0]})
    rows.limit(0.1)
    database = rows._database
    started = time.monotonic()
    with pytest.raises(QueryRejected, match=r"longer than the 0\.1 seconds"):
        database.run(ENDLESS)
    assert time.monotonic() - started < 10
    time.sleep(0.2)
    for _ in range(20):
        assert database.run("SELECT 1") == [(1,)]


def test_who_waits_for_another_question_is_not_stopped_for_it():
    rows = open_rows({"x": [1.0, 2.0]})
    rows.limit(0.5)
    database = rows._database

    def endless():
        with pytest.raises(QueryRejected):
            database.run(ENDLESS)

    slow = threading.Thread(target=endless)
    slow.start()
    time.sleep(0.05)
    assert database.run("SELECT 2") == [(2,)]
    slow.join()


def test_nothing_is_interrupted_after_the_end():
    stopped = []
    deadline = Deadline(0.1, lambda: stopped.append(1))
    for _ in range(10):
        with deadline.held():
            time.sleep(0.02)
    assert stopped == []  # Each had its own time, and together they took twice as long.
    with deadline.held():
        time.sleep(0.5)
    count = len(stopped)
    assert count >= 1
    time.sleep(0.2)
    assert len(stopped) == count
    assert not deadline._watched  # Who watches goes when there is nothing to watch.
