"""A mark that is kept outside of a book shows that the book was restored from an old backup."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time

import pytest

from holdfast.ledger import Book, BookError, Marks, SigningKey, verify


@pytest.fixture
def marks(tmp_path):
    return Marks(tmp_path / "marks")


@pytest.fixture
def key():
    return SigningKey.generate()


def write(book, count):
    end = sum(1 for _ in book.lines())
    for number in range(count):
        book.append("open" if end + number == 0 else "act", {"n": end + number}, after=end + number)


def backup(path, to):
    with sqlite3.connect(path) as source, sqlite3.connect(to) as target:
        source.backup(target)
    source.close()
    target.close()


def test_an_old_backup_is_refused_and_the_newest_book_is_not(tmp_path, marks, key):
    path = tmp_path / "people.holdfast"
    book = Book(path, key=key, marks=marks)
    write(book, 3)
    backup(path, tmp_path / "old")
    write(book, 2)
    book.close()
    Book(path, key=key, marks=marks).close()
    newest = tmp_path / "newest"
    shutil.move(path, newest)
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(BookError, match=r"runs behind its mark: it had 5 lines.*--accept-restored people"):
        Book(path, key=key, marks=marks)
    path.unlink()  # A book that is lost is no new book.
    with pytest.raises(BookError, match="runs behind its mark"):
        Book(path, key=key, marks=marks)
    path.unlink()
    shutil.copy(newest, path)
    Book(path, key=key, marks=marks).close()


def test_a_book_that_continued_after_a_restore_is_another_book(tmp_path, marks, key):
    path = tmp_path / "people.holdfast"
    book = Book(path, key=key, marks=marks)
    write(book, 3)
    backup(path, tmp_path / "old")
    write(book, 2)
    book.close()
    path.unlink()
    shutil.copy(tmp_path / "old", path)
    unmarked = Book(path, key=key)
    unmarked.append("act", {"n": "other"}, after=3)
    write(unmarked, 5)
    unmarked.close()
    with pytest.raises(BookError, match="is missing or different"):
        Book(path, key=key, marks=marks)


def test_a_restored_book_is_accepted_by_a_line_in_it(tmp_path, marks, key):
    path = tmp_path / "people.holdfast"
    book = Book(path, key=key, marks=marks)
    write(book, 3)
    backup(path, tmp_path / "old")
    write(book, 2)
    book.close()
    mark = marks.read("people")
    path.unlink()
    shutil.copy(tmp_path / "old", path)
    restored = Book(path, key=key)
    assert restored.accept_restored(marks)
    assert not restored.accept_restored(marks)  # Once.
    restored.close()
    again = Book(path, key=key, marks=marks)
    line = again.at(4)
    assert (line.kind, line.body["lines"], line.body["had"]) == ("act", 3, 5)
    assert line.body["digest"] == mark.digest
    write(again, 1)
    again.close()
    assert marks.read("people").sequence == 5


def test_marks_are_receipts_that_outsiders_can_check(tmp_path, marks, key):
    from holdfast.ledger import export

    book = Book(tmp_path / "people.holdfast", key=key, marks=marks)
    write(book, 4)
    export(book, tmp_path / "whole.jsonl")
    book.close()
    mark = marks.read("people")
    assert verify(tmp_path / "whole.jsonl", key.public, receipts=[mark]).whole
    short = Book(tmp_path / "short", key=key)
    write(short, 2)
    export(short, tmp_path / "short.jsonl")
    short.close()
    assert not verify(tmp_path / "short.jsonl", key.public, receipts=[mark]).whole


def test_a_mark_that_was_changed_is_not_believed(tmp_path, marks, key):
    book = Book(tmp_path / "people.holdfast", key=key, marks=marks)
    write(book, 4)
    book.close()
    path = marks.path("people")
    assert path.stat().st_mode & 0o777 == 0o600
    told = json.loads(path.read_text())
    for changed in ({**told, "sequence": 2}, {**told, "digest": "0" * 64}, {"sequence": 1}, []):
        path.write_text(json.dumps(changed))
        with pytest.raises(BookError, match="cannot be read, or was changed"):
            Book(tmp_path / "people.holdfast", key=key, marks=marks)


def test_marks_are_written_once_a_second_and_at_the_end(tmp_path, marks, key, monkeypatch):
    now, written = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    replace = Marks.replace
    monkeypatch.setattr(
        Marks, "replace", lambda self, name, mark: (written.append(mark.sequence), replace(self, name, mark))
    )
    book = Book(tmp_path / "people.holdfast", key=key, marks=marks)
    write(book, 5)
    now[0] += 0.9
    book.append("act", {}, after=5)
    assert written == [1]
    now[0] += 0.2
    book.append("act", {}, after=6)
    book.append("act", {}, after=7)
    book.close()
    assert written == [1, 7, 8]


def test_the_mark_of_another_process_that_is_further_on_stays(tmp_path, marks, key):
    first = Book(tmp_path / "people.holdfast", key=key, marks=marks)
    second = Book(tmp_path / "people.holdfast", key=key, marks=marks)
    write(first, 2)
    write(second, 3)
    second.close()
    first.close()
    assert marks.read("people").sequence == 5
