"""Places to keep a book: a SQLite file, and a real PostgreSQL server that lives as long as the tests do."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

import pytest

from holdfast.ledger import Book


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The URL of a PostgreSQL server of our own."""
    pgserver = pytest.importorskip("pgserver")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        server = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where a fresh book is kept."""
    if request.param == "sqlite":
        return str(tmp_path / "table.csv.holdfast")
    url = request.getfixturevalue("postgres")
    return f"{url}{'&' if urlsplit(url).query else '?'}holdfast_book={secrets.token_hex(8)}"


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
