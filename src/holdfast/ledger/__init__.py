"""The account book: append-only, hash-chained, signed, in a SQLite file or a PostgreSQL database.

What is on disk decides: a question is reserved here before any protected row is read, and its output and
price are recorded before the answer leaves. A reservation that was never settled counts as spent.
"""

from holdfast.ledger._balance import Balance
from holdfast.ledger._book import Book
from holdfast.ledger._copies import copy_books, load_books
from holdfast.ledger._envelope import envelope, open_envelope, seal
from holdfast.ledger._epochs import EpochLink, verify_epochs
from holdfast.ledger._event import BookError, Closed, Entry, Event, Stale
from holdfast.ledger._formats import Migration, migrate
from holdfast.ledger._heads import BookHead, LineCounter, LineCounts, read_heads
from holdfast.ledger._signing import Receipt, SigningKey
from holdfast.ledger._verify import Problem, Verification, export, read_lines, read_receipts, verify
from holdfast.ledger._witness import Checkpoint, Witness, check_witness, read_witness

__all__ = [
    "Balance",
    "Book",
    "BookError",
    "BookHead",
    "Checkpoint",
    "Closed",
    "Entry",
    "EpochLink",
    "Event",
    "LineCounter",
    "LineCounts",
    "Migration",
    "Problem",
    "Receipt",
    "SigningKey",
    "Stale",
    "Verification",
    "Witness",
    "check_witness",
    "copy_books",
    "envelope",
    "export",
    "load_books",
    "migrate",
    "open_envelope",
    "read_heads",
    "read_lines",
    "read_receipts",
    "read_witness",
    "seal",
    "verify",
    "verify_epochs",
]
