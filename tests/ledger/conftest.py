"""Books that are closed at the end of a test."""

from __future__ import annotations

import pytest

from holdfast.ledger import Book


@pytest.fixture
def opened(place):
    """Opens the book at ``place``, as often as a test likes, and closes every one at the end."""
    books = []

    def opened(**options):
        books.append(Book(place, **options))
        return books[-1]

    yield opened
    for book in books:
        book.close()
