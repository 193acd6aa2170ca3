"""What tests of the guard share."""

from __future__ import annotations

import pytest

from holdfast.ledger import Book


@pytest.fixture
def written(monkeypatch):
    """What each transaction wrote."""
    kinds, append_all = [], Book.append_all

    def noted(self, entries, *, after):
        kinds.append([entry.kind for entry in entries])
        return append_all(self, entries, after=after)

    monkeypatch.setattr(Book, "append_all", noted)
    return kinds
