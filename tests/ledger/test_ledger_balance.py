"""Sums over a book: whole micro-nats, nothing lost, and no line that does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ledger import Balance, BookError, Event

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", ""]), st.integers(0, 10**7), st.floats(0, 1), st.booleans(), st.booleans()
    ),
    max_size=30,
)


def event(sequence, kind, **body):
    return Event(sequence, kind, body, "", subject=f"q{sequence}")


@given(STEPS)
def test_spent_and_reserved_are_what_was_settled_and_what_was_not(steps):
    balance, sequence, paid, held = Balance(), 0, {}, {}
    for person, price, part, settle, surprise in steps:
        sequence += 1
        balance.apply(event(sequence, "reserve", micro_nats=price, by=person))
        if settle:
            cost = int(price * part)
            sequence += 1
            balance.apply(
                event(sequence, "release", reservation=sequence - 1, micro_nats=cost, surprise=surprise)
            )
            paid[person] = paid.get(person, 0) + cost
        else:
            held[person] = held.get(person, 0) + price
    assert balance.micro_nats == sum(paid.values())
    assert balance.reserved == sum(held.values())
    assert balance.confirmed + balance.surprised == sum(settle for *_, settle, _ in steps)
    for person in "ab":
        assert balance.spent_by(person) == paid.get(person, 0) + held.get(person, 0)
    assert Balance(balance.to_dict()).to_dict() == balance.to_dict()


@pytest.mark.parametrize(
    "wrong",
    [
        event(2, "release", reservation=7, micro_nats=1, surprise=False),  # nothing was reserved
        event(2, "release", reservation=1, micro_nats=11, surprise=False),  # dearer than reserved
        event(2, "release", reservation=1, micro_nats=-1, surprise=False),
        event(2, "release", reservation=1, micro_nats=1.5, surprise=False),
        event(2, "reserve", micro_nats=-1),
        event(2, "reserve", micro_nats=0.5),
        event(2, "reserve"),
        event(2, "gift", micro_nats=10),
    ],
)
def test_a_line_that_does_not_fit_is_refused(wrong):
    balance = Balance()
    balance.apply(event(1, "reserve", micro_nats=10))
    with pytest.raises(BookError, match="line 2"):
        balance.apply(wrong)


def test_a_copy_continues_without_changing_the_original():
    balance = Balance()
    balance.apply(event(1, "reserve", micro_nats=10, by="a", at=1000))
    copy, later = balance.copy(), balance.copy()
    later.apply(event(2, "release", reservation=1, micro_nats=4, surprise=False))
    copy.apply(event(2, "reserve", micro_nats=5, by="a", at=1001))
    assert (balance.reserved, copy.reserved, later.reserved) == (10, 15, 0)
    assert (balance.micro_nats, later.micro_nats) == (0, 4)
    assert [list(one.recent["a"]) for one in (balance, copy, later)] == [[1000], [1000, 1001], [1000]]


def test_what_is_reserved_is_what_open_reservations_hold():
    balance = Balance()
    lines = [
        *(event(line, "reserve", micro_nats=10 * line) for line in (1, 2, 3)),
        event(4, "again", reservation=2, reader="r", at=5),
        event(5, "return", reservation=1),
        event(6, "fail", reservation=3, micro_nats=7, surprise=True),
        event(7, "release", reservation=2, micro_nats=1, surprise=False),
    ]
    held = []
    for line in lines:
        balance.apply(line)
        assert balance.reserved == sum(body["micro_nats"] for body in balance.open.values())
        assert Balance(balance.to_dict()).reserved == balance.reserved
        held.append(balance.reserved)
    assert held == [10, 30, 60, 60, 50, 20, 0]


def test_only_the_last_minute_of_each_person_is_recent():
    balance = Balance()
    for sequence, (at, by) in enumerate([(0, "a"), (10, "b"), (59, "a"), (60, "a"), (200, "a")], start=1):
        balance.apply(event(sequence, "reserve", micro_nats=1, by=by, at=at))
        if at == 60:
            assert list(balance.recent["a"]) == [59, 60]
    assert {by: list(times) for by, times in balance.recent.items()} == {"a": [200], "b": [10]}


def test_nothing_is_settled_twice_and_nothing_after_closing():
    balance = Balance()
    balance.apply(event(1, "reserve", micro_nats=10))
    balance.apply(event(2, "release", reservation=1, micro_nats=4, surprise=True))
    with pytest.raises(BookError):
        balance.apply(event(3, "release", reservation=1, micro_nats=4, surprise=True))
    balance.apply(event(3, "close"))
    balance.apply(event(4, "act"))
    with pytest.raises(BookError, match="closed"):
        balance.apply(event(5, "reserve", micro_nats=1))
