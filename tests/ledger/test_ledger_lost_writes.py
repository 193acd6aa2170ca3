"""Power fails at any moment, and writes that were not synced are lost, kept or torn.

Afterwards no line of a released answer is missing, and no reservation of a question that was read.
"""

from __future__ import annotations

import numpy as np
import pytest
from ledger_disk import Disk, by_chance, everything, nothing, recorded

from holdfast.ledger import Balance, Book, BookError


def losses(disk, folder, fate):
    """What the book has lost of what was said, opened after a crash; it must be whole in any case."""
    disk.after_a_crash(folder, fate)
    book = Book(folder / "book")
    events, balance = list(book.events()), Balance()
    for event in events:
        balance.apply(event)
    book.close()
    digests = {event.sequence: event.digest for event in events}
    reserved = {event.subject for event in events if event.kind == "reserve"}
    return [
        words
        for words in disk.said
        if (words[0] == "told" and digests.get(int(words[1])) != words[2])
        or (words[0] == "reads" and words[1] not in reserved)
    ]


def crashes(tmp_path, synchronous, questions, points, seed):
    """At so many moments, the first of them once people ask, what a crash would lose; and how many were
    tried."""
    done = recorded(tmp_path, synchronous, questions)
    rng = np.random.default_rng(seed)
    begin = next(number for number, one in enumerate(done) if one.name == "said")
    chosen = {
        begin + int(i) for i in rng.choice(len(done) - begin, min(points, len(done) - begin), replace=False)
    }
    disk, lost, tried = Disk(), [], 0
    for number, one in enumerate(done):
        disk.do(one)
        if number in chosen:
            for fate in (nothing, everything, by_chance(rng)):
                tried += 1
                lost += losses(disk, tmp_path / "found", fate)
    assert any(one.kind == "s" and one.name == "book" for one in done[begin:]) or synchronous == "OFF"
    return lost, tried


def test_no_released_answer_is_lost_when_power_fails(tmp_path, seed):
    lost, tried = crashes(tmp_path, "FULL", 40, 60, seed)
    assert (lost, tried) == ([], 180)


@pytest.mark.slow
def test_no_released_answer_is_lost_when_power_fails_at_a_thousand_points(tmp_path, seed):
    lost, tried = crashes(tmp_path, "FULL", 300, 1000, seed)
    assert (lost, tried) == ([], 3000)


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_a_book_that_does_not_wait_for_the_disk_is_caught(tmp_path, synchronous, seed):
    try:
        lost, _ = crashes(tmp_path, synchronous, 15, 40, seed)
    except BookError:
        return  # Not even whole any more.
    assert any(words[0] == "told" for words in lost)
    assert any(words[0] == "reads" for words in lost)
