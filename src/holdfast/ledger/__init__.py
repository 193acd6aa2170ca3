"""The account book: append-only, hash-chained, signed, in a SQLite file or a PostgreSQL database.

Only what is on disk counts. A question is reserved here before any protected row is read. Its output and
price are recorded before the answer leaves. A reservation that was never settled counts as spent.

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from holdfast.ledger._book import Book
from holdfast.ledger._copies import FORMATS as FORMATS
from holdfast.ledger._copies import FormatStep as FormatStep
from holdfast.ledger._copies import Migration, copy_books, load_books, migrate
from holdfast.ledger._copies import copy_database as copy_database
from holdfast.ledger._copies import other_tables as other_tables
from holdfast.ledger._copies import require_whole as require_whole
from holdfast.ledger._lines import HANDED_OVER as HANDED_OVER
from holdfast.ledger._lines import TAKEN_OVER as TAKEN_OVER
from holdfast.ledger._lines import Balance, BookError, Closed, Entry, Event, Stale
from holdfast.ledger._lines import open_database as open_database
from holdfast.ledger._places import BookHead, LineCounter, LineCounts, read_heads
from holdfast.ledger._places import is_postgres as is_postgres
from holdfast.ledger._places import place_of_epoch as place_of_epoch
from holdfast.ledger._postgres import PostgresDatabase as PostgresDatabase
from holdfast.ledger._postgres import Unreachable as Unreachable
from holdfast.ledger._signing import Marks as Marks
from holdfast.ledger._signing import Receipt, SigningKey, envelope, open_envelope, seal
from holdfast.ledger._verify import (
    Checkpoint,
    EpochLink,
    Problem,
    Verification,
    Witness,
    check_witness,
    export,
    read_lines,
    read_receipts,
    read_witness,
    verify,
    verify_epochs,
)

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
