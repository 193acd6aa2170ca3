"""A book does the same wherever its lines are kept: in a SQLite file and in PostgreSQL."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from contextlib import closing

import pytest

from holdfast.ledger import Balance, Book, BookError, Entry, SigningKey, Stale, export


def _settled(book: Book, count: int) -> Balance:
    """Fill a book with settled questions; returns what they add up to."""
    balance = Balance()
    balance.apply(book.append("open", {"rows": 100}, after=0))
    for number in range(count):
        after = 1 + 2 * number
        reserve = {"text": f"share(x > {number})", "micro_nats": 900, "by": f"person {number % 3}"}
        balance.apply(
            book.append("reserve", reserve, after=after, subject=f"q{number}", request=f"r{number}")
        )
        release = {"reservation": after + 1, "micro_nats": 700, "surprise": number % 2 == 0, "released": None}
        balance.apply(book.append("release", release, after=after + 1, subject=f"q{number}"))
    return balance


def test_events_come_back_in_order_and_are_found_by_subject_and_request(opened):
    _settled(opened(), 5)
    again = opened()
    assert [event.sequence for event in again.events()] == list(range(1, 12))
    assert [event.sequence for event in again.events(after=9)] == [10, 11]
    assert again.about("q3", "release").body["reservation"] == again.about("q3", "reserve").sequence == 8
    assert again.requested("r4").subject == "q4"
    assert again.at(2).request == "r0"
    assert again.about("q9", "release") is None
    assert again.requested("r9") is None
    assert again.identity == next(again.events()).digest


def test_a_writer_that_has_not_read_the_last_line_is_refused(opened):
    first, second = opened(), opened()
    first.append("open", {}, after=0)
    with pytest.raises(Stale):
        second.append("open", {}, after=0)
    with pytest.raises(Stale):
        second.append("act", {}, after=5)
    assert second.append("act", {}, after=1).sequence == 2


def test_several_lines_are_written_together_or_not_at_all(opened):
    first, second = opened(), opened()
    events = first.append_all([Entry("open", {}), Entry("act", {"n": 1}, "s", "r")], after=0)
    assert [event.sequence for event in events] == [1, 2]
    assert [event.digest for event in opened().events()] == [event.digest for event in events]
    with pytest.raises(Stale):
        second.append_all([Entry("act", {"n": 2}), Entry("act", {"n": 3})], after=1)
    with pytest.raises(ValueError, match="one line"):
        second.append_all([Entry("act", {}), Entry("act", {}, "a\nb")], after=2)
    assert len(list(second.events())) == 2
    assert second.append_all([Entry("act", {"n": 2}), Entry("act", {"n": 3})], after=2)[-1].sequence == 4
    assert [event.body.get("n") for event in first.events()] == [None, 1, 2, 3]
    assert second.about("s", "act").request == "r"


def _race(place: str, name: str, wanted: int) -> None:
    book, written, last = Book(place), 0, 0
    while written < wanted:
        try:
            last = book.append("act", {"by": name, "number": written}, after=last).sequence
            written += 1
        except Stale:
            last = max((event.sequence for event in book.events(after=last)), default=last)
    book.close()


def test_writers_that_race_leave_one_dense_chain(place, opened):
    context = multiprocessing.get_context("spawn")
    racers = [context.Process(target=_race, args=(place, f"racer {i}", 60)) for i in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    events = list(opened().events())
    assert [event.sequence for event in events] == list(range(1, 181))
    for i in range(3):
        mine = [event.body["number"] for event in events if event.body["by"] == f"racer {i}"]
        assert mine == list(range(60))


def test_a_start_continues_from_the_last_checkpoint(opened):
    book = opened()
    balance = _settled(book, 4)
    assert book.start()[1] == 0
    book.checkpoint(balance, after=9)
    book.append("act", {}, after=10)
    known, at = opened().start()
    assert (at, known.to_dict()) == (10, balance.to_dict())


def test_a_start_remembers_who_asked_in_the_last_minute(opened):
    book, balance, now = opened(), Balance(), int(time.time())
    balance.apply(book.append("open", {}, after=0))
    ages = [300, 80, 61, 40, 40, 20, 2]
    others = [Entry("act", {})] * 550  # So many that the start looks back several times.
    end = 1
    for age in ages:
        reserve = {"micro_nats": 1, "by": "ann" if age != 20 else "bob", "at": now - age}
        entries = [Entry("reserve", reserve, f"q{age} {end}"), *others]
        for event in book.append_all(entries, after=end):
            balance.apply(event)
            end = event.sequence
    book.checkpoint(balance, after=end)
    again, at = opened().start()
    assert at == end + 1
    assert {who: [now - at for at in times] for who, times in again.recent.items()} == {
        "ann": [40, 40, 2],
        "bob": [20],
    }
    assert again.to_dict() == balance.to_dict()


def test_with_a_key_only_signed_checkpoints_are_trusted(opened):
    key = SigningKey.generate()
    book = opened(key=key)
    balance = _settled(book, 2)
    book.checkpoint(balance, after=5)
    forged = Balance({**balance.to_dict(), "micro_nats": 1})
    opened().checkpoint(forged, after=6)  # By someone without the key.
    opened(key=SigningKey.generate()).checkpoint(forged, after=7)  # By someone with another one.
    trusted, at = opened(key=key).start()
    assert (at, trusted.micro_nats) == (6, 1400)
    assert opened().start()[0].micro_nats == 1  # The twin that trusts any checkpoint is fooled.


def test_the_database_refuses_to_change_a_line_of_postgresql(postgres):
    import psycopg

    book = Book(f"{postgres}&holdfast_book=frozen")
    _settled(book, 2)
    for statement in (
        "UPDATE holdfast_events SET body = '{}'",
        "DELETE FROM holdfast_events",
        "TRUNCATE holdfast_events",
    ):
        with psycopg.connect(postgres) as connection, pytest.raises(psycopg.Error, match="append-only"):
            connection.execute(statement)
    assert len(list(book.events())) == 5
    book.close()


def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path):
    with pytest.raises(BookError, match="cannot be opened") as caught:
        Book(f"postgresql://someone:secret@/nowhere?host={tmp_path}")
    assert "secret" not in str(caught.value)


def test_names_with_line_breaks_are_refused():
    with pytest.raises(ValueError, match="one line"):
        Book().append("open", {}, after=0, subject="a\nb")


def test_a_question_is_found_without_reading_the_book(tmp_path):
    statements = []
    book = Book(tmp_path / "book")
    book._lines._connection.set_trace_callback(statements.append)
    book.about("k", "release")
    book.requested("r")
    book.close()
    looked = [statement for statement in statements if statement.startswith("SELECT")]
    with closing(sqlite3.connect(tmp_path / "book")) as file:
        plans = [file.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall() for statement in looked]
    assert len(plans) == 2
    assert all("USING INDEX" in str(plan) for plan in plans), plans


def test_bytes_are_kept_beside_the_lines_and_in_no_export(place, tmp_path):
    book = Book(place)
    book.append("open", {"rows": 1}, after=0)
    assert book.kept("earlier") is None
    book.keep("earlier", b"\x00first")
    book.keep("earlier", b"\x00second\xff")
    book.keep("other", b"")
    assert (book.kept("earlier"), book.kept("other"), book.kept("none")) == (b"\x00second\xff", b"", None)
    export(book, tmp_path / "export.jsonl")
    assert b"second" not in (tmp_path / "export.jsonl").read_bytes()
    book.close()
    again = Book(place)
    assert again.kept("earlier") == b"\x00second\xff"
    assert not again.in_memory
    again.close()
    with pytest.raises(BookError):
        again.kept("earlier")
    assert Book().in_memory
