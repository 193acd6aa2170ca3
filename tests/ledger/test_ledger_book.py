from __future__ import annotations

import gc
import sqlite3
from contextlib import closing

import pytest

from holdfast.ledger import Book, BookError, Stale


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table.csv.holdfast"


def _fill(book, count=3):
    for number in range(count):
        book.append("note", {"number": number}, after=number)


def test_events_come_back_in_order_after_reopening(path):
    _fill(Book(path))
    events = list(Book(path).events())
    assert [(event.sequence, event.body["number"]) for event in events] == [(1, 0), (2, 1), (3, 2)]
    assert [event.sequence for event in Book(path).events(after=2)] == [3]


def test_a_book_that_is_let_go_closes_its_file(path):
    """Also from inside a circle of references. From Python 3.13 on a connection that was left open warns."""
    book = Book(path)
    _fill(book)
    book.circle = book
    log = path.with_name(f"{path.name}-wal")
    assert log.exists()
    del book
    gc.collect()
    assert not log.exists()


def test_a_writer_that_has_not_read_the_last_line_is_refused(path):
    first, second = Book(path), Book(path)
    first.append("note", {}, after=0)
    with pytest.raises(Stale):
        second.append("note", {}, after=0)
    assert second.append("note", {}, after=1).sequence == 2


@pytest.mark.parametrize("statement", ["UPDATE events SET body = '{}'", "DELETE FROM events"])
def test_the_database_itself_refuses_to_change_a_line(path, statement):
    book = Book(path)
    _fill(book)
    with closing(sqlite3.connect(path)) as file, pytest.raises(sqlite3.Error, match="append-only"):
        file.execute(statement)
    assert len(list(book.events())) == 3


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ("UPDATE events SET body = '{\"number\":7}' WHERE sequence = 2", 2),
        ("DELETE FROM events WHERE sequence = 2", 2),
        ("UPDATE events SET kind = 'other' WHERE sequence = 3", 3),
    ],
)
def test_damage_behind_the_triggers_is_found_and_named(path, damage, line):
    book = Book(path)
    _fill(book)
    book.close()
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER no_update; DROP TRIGGER no_delete;" + damage)
    connection.close()
    with pytest.raises(BookError, match=f"line {line}"):
        list(Book(path).events())


def test_nothing_is_written_after_a_last_line_that_was_changed(path):
    book = Book(path)
    _fill(book)
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER no_update; UPDATE events SET digest = 'x' WHERE sequence = 3")
    connection.close()
    with pytest.raises(BookError, match="changed at line 3"):
        book.append("note", {}, after=3)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM events").fetchone() == (3,)


def test_a_file_that_is_no_book_is_refused(path):
    path.write_text("not a database at all, but long enough to look like one " * 20)
    with pytest.raises(BookError, match="cannot be opened"):
        Book(path)


def test_an_event_with_a_number_json_cannot_hold_is_refused_and_nothing_is_written():
    book = Book()
    with pytest.raises(ValueError, match="JSON"):
        book.append("note", {"value": float("nan")}, after=0)
    assert list(book.events()) == []
