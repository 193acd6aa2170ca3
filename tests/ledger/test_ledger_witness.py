"""A witness file shows a book that was cut, rewritten or restored from an old copy."""

from __future__ import annotations

import json
import os
import stat
import tracemalloc

import pytest

from holdfast.errors import HoldfastError
from holdfast.ledger import (
    Book,
    LineCounter,
    SigningKey,
    Witness,
    check_witness,
    export,
    read_heads,
    read_lines,
    read_witness,
)


@pytest.fixture
def key():
    return SigningKey.generate()


def grow(book, lines, after=0):
    for number in range(after, after + lines):
        body = {"nonce": book.name} if number == 0 else {"note": number}
        book.append("open" if number == 0 else "act", body, after=number)


def problems(book, witness, key, folder):
    export(book, folder / "export.jsonl")
    return check_witness(read_lines(folder / "export.jsonl"), read_witness(witness), key.public)


def test_books_that_grew_get_a_checkpoint_each(tmp_path, key):
    (tmp_path / "books").mkdir()
    first, second = (Book(tmp_path / "books" / f"{name}.holdfast", key=key) for name in ("a", "b"))
    path = tmp_path / "witness.jsonl"
    witness = Witness(path, tmp_path / "books", key)
    assert witness.note() == 0
    grow(first, 3)
    grow(second, 1)
    assert witness.note() == 2
    assert witness.note() == 0
    grow(first, 2, after=3)
    assert Witness(path, tmp_path / "books", key).note() == 1  # A new start goes on from the file.
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    seen = [(one.name, one.sequence) for one in read_witness(path)]
    assert seen == [("a", 3), ("b", 1), ("a", 5)]
    assert all(one.signed_by(key.public) for one in read_witness(path))
    assert problems(first, path, key, tmp_path) == []
    first.close()
    second.close()


def test_a_cut_book_a_rewritten_book_and_a_forged_checkpoint_are_told_apart(tmp_path, key):
    (tmp_path / "books").mkdir()
    book = Book(tmp_path / "books" / "a.holdfast", key=key)
    grow(book, 4)
    path = tmp_path / "witness.jsonl"
    Witness(path, tmp_path / "books", key).note()
    export(book, tmp_path / "whole.jsonl")
    lines = read_lines(tmp_path / "whole.jsonl")
    seen = read_witness(path)
    assert check_witness(lines, seen, key.public) == []
    (cut,) = check_witness(lines[:3], seen, key.public)
    assert (cut.kind, cut.line) == ("cut", 4)
    assert "the book ends at line 3" in cut.words
    other = [*lines[:3], lines[3]._replace(digest="0" * 64)]
    assert [one.kind for one in check_witness(other, seen, key.public)] == ["changed"]
    stranger = SigningKey.generate().public
    assert [one.kind for one in check_witness(lines, seen, stranger)] == ["signature"]
    book.close()


def test_a_torn_last_line_is_left_out_and_anything_else_is_refused(tmp_path, key):
    (tmp_path / "books").mkdir()
    book = Book(tmp_path / "books" / "a.holdfast", key=key)
    grow(book, 1)
    path = tmp_path / "witness.jsonl"
    Witness(path, tmp_path / "books", key).note()
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert read_witness(path) == []
    assert Witness(path, tmp_path / "books", key).note() == 1
    assert len(read_witness(path)) == 1
    path.write_text(json.dumps({"book": "x"}) + "\n")
    with pytest.raises(HoldfastError, match=r"Line 1 of .* is not a checkpoint"):
        read_witness(path)
    book.close()


def test_a_checkpoint_that_did_not_fit_on_the_disk_is_written_later(tmp_path, key, monkeypatch):
    """A full disk takes a part of what is written, and reports no error. The book may never grow again."""
    (tmp_path / "books").mkdir()
    book = Book(tmp_path / "books" / "a.holdfast", key=key)
    grow(book, 3)
    path = tmp_path / "witness.jsonl"
    witness = Witness(path, tmp_path / "books", key)
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:100]))
        with pytest.raises(OSError, match="No space left"):
            witness.note()
    assert read_witness(path) == []
    assert witness.note() == 1
    assert [seen.sequence for seen in read_witness(path)] == [3]
    book.close()


def test_a_book_that_was_restored_from_an_old_backup_is_seen_again(tmp_path, key):
    """Otherwise nothing would be seen of it until it has more lines than it ever had."""
    (tmp_path / "books").mkdir()
    place = tmp_path / "books" / "a.holdfast"
    book = Book(place, key=key)
    grow(book, 2)
    book.close()
    old = place.read_bytes()
    book = Book(place, key=key)
    grow(book, 5, after=2)
    path = tmp_path / "witness.jsonl"
    witness = Witness(path, tmp_path / "books", key)
    assert witness.note() == 1
    book.close()
    place.write_bytes(old)
    for beside in tmp_path.glob("books/*-wal"):
        beside.unlink()
    assert witness.note() == 1
    assert Witness(path, tmp_path / "books", key).note() == 0
    book = Book(place, key=key)
    grow(book, 1, after=2)
    assert witness.note() == 1
    assert [seen.sequence for seen in read_witness(path)] == [7, 2, 3]
    assert [problem.kind for problem in problems(book, path, key, tmp_path)] == ["cut"]
    book.close()


def test_a_start_needs_no_memory_for_the_years_in_the_file(tmp_path, key):
    (tmp_path / "books").mkdir()
    book = Book(tmp_path / "books" / "a.holdfast", key=key)
    grow(book, 1)
    path = tmp_path / "witness.jsonl"
    Witness(path, tmp_path / "books", key).note()
    path.write_text(path.read_text() * 20_000)
    size = path.stat().st_size
    tracemalloc.start()
    try:
        assert Witness(path, tmp_path / "books", key).note() == 0
        assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()
    book.close()


def test_heads_and_counts_are_the_same_in_files_and_in_postgresql(place, key, tmp_path, postgres):
    book = Book(place, key=key)
    grow(book, 2)
    book.append("reserve", {"micro_nats": 5}, after=2, subject="q")
    in_files = place.endswith(".holdfast")
    books = tmp_path if in_files else postgres
    (head,) = [one for one in read_heads(books) if one.book == book.identity]
    assert (head.sequence, head.digest) == (3, book.at(3).digest)
    counter = LineCounter(books)

    def counted():
        (counts,) = [one for one in counter.read() if one.name == head.name]
        return counts.sequence, counts.answered, counts.open

    assert counted() == (3, 0, 1)
    settled = {"reservation": 3, "micro_nats": 5, "surprise": False}
    book.append("release", settled, after=3, subject="q")
    assert counted() == (4, 1, 0)
    assert counted() == (4, 1, 0)
    book.close()
