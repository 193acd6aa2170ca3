"""A service that dies while it ends a blind phase: the next call goes on where it stopped."""

from __future__ import annotations

import pytest
from server_board_workers import SUBMISSIONS, house, people, unblind_until

from holdfast.ledger import Balance, export, verify
from holdfast.server import Service

# What it writes: the reservations of all, then for each what is released; then that each no longer waits, and
# that the board is no longer blind.
WRITES = 1 + SUBMISSIONS + SUBMISSIONS + 1


def killed(home, writes):
    process = people.Process(target=unblind_until, args=(home, writes))
    process.start()
    process.join()
    return process.exitcode


def ended(home):
    """End the blind phase once more, and look at everything."""
    service = Service(home)
    assert service.boards.unblind("dark") == []
    board = service.boards.get("dark")
    assert not service.boards.blind("dark")
    assert service.boards.waiting("dark") == 0
    assert {entry.by for entry in board.standing} <= {f"/p{place}" for place in range(SUBMISSIONS)}
    export(board._book, home / "export")
    assert verify(home / "export", service.key.public).whole
    balance, released = Balance(), []
    for event in board._book.events():
        balance.apply(event)
        if event.kind == "release":
            released.append(event.body)
    assert len(released) == SUBMISSIONS
    assert balance.open == {}
    assert balance.micro_nats == sum(body["micro_nats"] for body in released)
    assert {body["released"]["numbers"]["asked together"] for body in released} == {SUBMISSIONS}
    service.close()


@pytest.mark.slow
@pytest.mark.parametrize("writes", range(WRITES + 1))
def test_a_blind_phase_ends_whole_after_a_crash_at_any_write(tmp_path, writes):
    house(tmp_path)
    assert killed(tmp_path, writes) == (9 if writes < WRITES else 0)
    ended(tmp_path)


def test_it_ends_whole_after_crashes_at_some_writes_in_turn(tmp_path):
    house(tmp_path)
    assert killed(tmp_path, 3)
    while killed(tmp_path, 3):
        pass
    ended(tmp_path)


@pytest.mark.slow
def test_it_ends_whole_after_a_crash_at_every_write_in_turn(tmp_path):
    house(tmp_path)
    while killed(tmp_path, 1):
        pass
    ended(tmp_path)
