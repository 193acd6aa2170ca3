"""The account book: append-only, hash-chained, in one SQLite file.

What is on disk decides: a question is reserved here before any protected row is read, and its output and
price are recorded before the answer leaves. A reservation that was never settled counts as spent.
"""

from holdfast.ledger._book import Book, BookError, Event, Stale

__all__ = ["Book", "BookError", "Event", "Stale"]
