"""`holdfast migrate` says the format of each book, and that there is nothing to do."""

from __future__ import annotations

import json

from holdfast.ledger import Book


def test_books_of_the_current_format_are_whole_and_left_alone(people, holdfast, tmp_path):
    holdfast("ask", "people.csv", "-q", "share(age > 40)")
    before = (tmp_path / "people.csv.holdfast").read_bytes()
    status, out, _ = holdfast("migrate", "people.csv.holdfast", "--dry-run")
    assert status == 0
    assert "format 2, 3 lines, intact" in out
    assert "nothing to migrate" in out
    status, out, _ = holdfast("migrate", "people.csv.holdfast", "--json")
    assert (status, json.loads(out)[0]["done"]) == (0, False)
    assert (tmp_path / "people.csv.holdfast").read_bytes() == before


def test_a_book_of_a_later_format_and_a_file_that_is_not_a_book_are_refused(people, holdfast, tmp_path):
    book = Book(tmp_path / "later.holdfast")
    book.append("open", {"format": 99}, after=0)
    book.close()
    status, _, err = holdfast("migrate", "later.holdfast")
    assert status == 2
    assert "Install a newer version" in " ".join(err.split())
    status, _, err = holdfast("migrate", "people.csv")
    assert status == 2
    assert "cannot be opened" in " ".join(err.split())
