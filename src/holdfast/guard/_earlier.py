"""What is kept of the rows of earlier epochs, and whether a new table contains rows of an earlier one.

Digests of a bounded sample of rows are kept beside the book. They are made with a secret key and are in no
export. The comparison rarely mistakes two independent tables for copies, whatever their laws are
(``docs/theory/epochs.md``, "Are the rows new?").
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import struct
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.engines import Rows
from holdfast.ledger import Book, BookError, EpochLink
from holdfast.readings import Part
from holdfast.strategies import Setup

Digests = NDArray[np.uint64]

# Two independent tables are mistaken for copies with at most this probability, in each comparison.
MISTAKEN = 1e-9
# Copied rows are noticed if they are at least this share of the smaller table.
LEAST_SHARE = 0.1
# About so many rows of a table are kept: those with the smallest digests, which are a random sample of them.
MOST_KEPT = 8_192

_ALL = 2**64 - 1
_UNIQUE = math.exp(-1)  # A given row occurs exactly once in an independent table with at most this chance.


@dataclass(frozen=True)
class Sketch:
    """The different rows of a table of ``rows`` rows: their digests, in order, and how often each occurs (3
    stands for more than twice). Only digests up to ``below`` are kept."""

    rows: int
    digests: Digests
    counts: NDArray[np.uint8]
    below: int = _ALL

    @classmethod
    def of(cls, digests: Digests) -> Sketch:
        """All rows of a table."""
        different, counts = np.unique(digests, return_counts=True)
        return cls(len(digests), different, np.minimum(counts, 3).astype(np.uint8))

    def sampled(self, most: int = MOST_KEPT) -> Sketch:
        """About so many rows at most: those with the smallest digests. Tables that share rows keep the same.
        Only the number of rows decides which digests are kept."""
        return self if self.rows <= most else self.up_to((_ALL + 1) * most // self.rows - 1)

    def up_to(self, below: int) -> Sketch:
        """The rows with digests up to ``below``."""
        if below >= self.below:
            return self
        count = int(np.searchsorted(self.digests, np.uint64(below), side="right"))
        return Sketch(self.rows, self.digests[:count], self.counts[:count], below)

    def occurs_in(self, other: Sketch) -> bool:
        """Whether another table contains rows of this one.

        Guarantee: if the rows of both are independent draws, each table from a law of its own, True has
        probability at most 3 · ``MISTAKEN``.
        """
        below = min(self.below, other.below)
        old, new = self.up_to(below), other.up_to(below)
        _, in_old, in_new = np.intersect1d(old.digests, new.digests, assume_unique=True, return_indices=True)
        once_in_old, once_in_new = old.counts[in_old] == 1, new.counts[in_new] == 1
        once_in_both = int((once_in_old & once_in_new).sum())
        twice_here = int((old.counts == 2).sum() - (old.counts[in_old] == 2).sum())
        twice_there = int((new.counts == 2).sum() - (new.counts[in_new] == 2).sum())
        tries = once_in_both + twice_here + twice_there
        enough = once_in_both >= LEAST_SHARE * min(len(old.digests), len(new.digests))
        if enough and _too_many(once_in_both, tries, 0.5, old.rows, new.rows):
            return True
        return _too_many(int(once_in_old.sum()), len(new.digests), _UNIQUE, old.rows) or _too_many(
            int(once_in_new.sum()), len(old.digests), _UNIQUE, new.rows
        )


def numbered_rows_repeat(old: Sketch, new: Sketch, commonest: tuple[float, float]) -> bool:
    """Whether one table contains rows of another, for tables that number their rows. Two rows with the same
    number are equal if their other columns are. That has at most the probability of the most frequent value
    there.

    ``commonest`` has the share of the most frequent value in each table.
    """
    below = min(old.below, new.below)
    old, new = old.up_to(below), new.up_to(below)
    hits = len(np.intersect1d(old.digests, new.digests, assume_unique=True))
    chances = [
        min(1.0, share + math.sqrt(-math.log(MISTAKEN) / (2 * table.rows)))
        for share, table in zip(commonest, (old, new), strict=True)
    ]
    return _too_many(hits, len(new.digests), chances[0]) or _too_many(hits, len(old.digests), chances[1])


def commonest_share(digests: Digests) -> float:
    """The share of the rows that equal the most frequent row."""
    return float(np.unique(digests, return_counts=True)[1].max() / len(digests))


def _too_many(hits: int, tries: int, chance: float, *tables: int) -> bool:
    """Whether so many hits have probability at most ``MISTAKEN``. Each try hits with probability at most
    ``chance``, independently if the sizes of the tables were Poisson numbers. The sizes are fixed instead,
    which makes any event more likely by at most a factor e √rows for each table."""
    from scipy import special

    if not hits:
        return False
    fixed_sizes = math.prod(math.e * math.sqrt(rows) for rows in tables)
    return bool(special.betainc(hits, tries - hits + 1, chance) * fixed_sizes <= MISTAKEN)


def identifies_table(digests: Digests) -> bool:
    """Whether the order of these rows identifies their table. An independent table of any law begins with
    the same rows in the same order with probability at most exp(−rows · entropy), by Gibbs' inequality."""
    _, counts = np.unique(digests, return_counts=True)
    nats = float((counts * np.log(len(digests) / counts)).sum())
    return nats >= -math.log(MISTAKEN)


TRAINING, PROTECTED, TABLE = "training rows", "protected rows", "table"
# The name under which a book keeps the digests of earlier epochs. Its first line names the epochs too.
KEPT = "earlier"
# Bytes for a digest and its count; and how many rows more than intended a sample may have.
_A_ROW, _ROOM = 9, 1_000
# The term of a book that lists the epochs whose rows its own were not compared with.
UNCOMPARED = "not compared with"


@dataclass(frozen=True)
class NewTable:
    """The table that the caller gives for the next epoch, by the digests of its rows."""

    rows: Rows
    key: bytes
    _digests: dict[tuple[str, ...], Digests] = field(default_factory=dict, repr=False, compare=False)
    _sketches: dict[tuple[str, ...], Sketch] = field(default_factory=dict, repr=False, compare=False)

    def digests(self, columns: tuple[str, ...]) -> Digests:
        """One digest a row, of these columns."""
        if columns not in self._digests:
            self._digests[columns] = self.rows.row_digests(self.key, columns)
        return self._digests[columns]

    def sketch(self, columns: tuple[str, ...]) -> Sketch:
        """All rows, by these columns."""
        if columns not in self._sketches:
            self._sketches[columns] = Sketch.of(self.digests(columns))
        return self._sketches[columns]

    def commonest(self, columns: tuple[str, ...]) -> float:
        """The share of its most frequent row, by these columns."""
        return commonest_share(self.digests(columns))

    @cached_property
    def numbering(self) -> frozenset[str]:
        """The columns that may be nothing but row numbers."""
        return frozenset(self.rows.numbering())


@dataclass(frozen=True)
class EarlierPart:
    """One part of an earlier epoch as a table of its own.

    ``numbering`` are the columns that may be nothing but row numbers. ``sketch`` covers all columns.
    ``unnumbered`` covers the other columns; ``commonest`` is the share of the most frequent row in those.
    ``sketches`` says how many of the two there can be. ``begins`` is a digest of the digests of all ``count``
    rows, in their order. It is None if the order does not identify the table, or is not known.
    """

    name: str
    columns: tuple[str, ...]
    numbering: tuple[str, ...]
    count: int
    sketches: int
    sketch: Sketch | None
    unnumbered: Sketch | None
    commonest: float
    begins: str | None

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that do not number the rows."""
        return tuple(name for name in self.columns if name not in self.numbering)

    def occurs_in(self, table: NewTable) -> bool:
        """Whether the new table contains rows of this part."""
        if not set(self.columns) <= set(table.rows.columns):
            return False
        if self.sketch is not None and self._repeated_in(table, self.sketch):
            return True
        if self.begins is None or not table.rows.has_order or table.rows.count < self.count:
            return False
        if not table.numbering.issuperset(self.numbering):
            return False
        first = table.digests(self.others)[: self.count]
        return hmac.compare_digest(_in_order(first, table.key), self.begins)

    def _repeated_in(self, table: NewTable, sketch: Sketch) -> bool:
        if not (self.numbering and table.numbering.issuperset(self.numbering)):
            return sketch.occurs_in(table.sketch(self.columns))
        # Two tables that number their rows from 1 share those numbers. That alone does not make rows equal.
        if self.unnumbered is None:
            return False
        shares = self.commonest, table.commonest(self.others)
        return self.unnumbered.occurs_in(table.sketch(self.others)) or numbered_rows_repeat(
            sketch, table.sketch(self.columns), shares
        )


@dataclass(frozen=True)
class EarlierEpoch:
    """The rows of one epoch, and whether its account was closed for good when this was written down."""

    number: int
    closed: bool
    parts: tuple[EarlierPart, ...]


@dataclass(frozen=True)
class EarlierRows:
    """The rows of all epochs up to a given one, with one key for the whole chain of books."""

    key: bytes
    epochs: tuple[EarlierEpoch, ...]

    @classmethod
    def before(cls, book: Book) -> EarlierRows:
        """What a book keeps of the epochs before its own."""
        opening = book.opening
        body = {} if opening is None else opening.body
        if KEPT not in body:  # A first epoch, or a book that was opened before digests were kept.
            return cls(_keyed(book.secret, b"rows of epochs"), ())
        content = book.kept(KEPT)
        if content is None or not hmac.compare_digest(_named(content, book), body[KEPT]):
            raise BookError(
                f"The record of the rows of earlier epochs in the account book {book.name} was lost or "
                "changed. So new rows cannot be compared with these rows. Restore the book."
            )
        return _unpacked(content)

    def with_epoch(
        self, number: int, setup: Setup, *, trains: bool = False, only: Collection[str] | None = None
    ) -> EarlierRows:
        """The same, with the rows of one more epoch, which are read for it. ``only`` limits the columns.

        ``trains`` says that its training part consists of earlier rows, which are recorded already.
        """
        parts = tuple(_parts_of(setup, self.key, training=not trains, only=only))
        return replace(self, epochs=(*self.epochs, EarlierEpoch(number, False, parts)))

    def keep(self, book: Book, missing: list[int]) -> dict[str, Any]:
        """Store this beside the next epoch's book. Returns what the first line of that book says about it."""
        content = _packed(self)
        book.keep(KEPT, content)
        return {KEPT: _named(content, book), UNCOMPARED: missing}


def not_compared(book: Book) -> tuple[str, ...]:
    """What is assumed of an epoch's rows because they were not compared with those of earlier ones."""
    opening = book.opening
    if opening is None or EpochLink.in_opening(opening.body) is None:
        return ()
    if KEPT not in opening.body:
        return (
            "The epoch was opened by an earlier version, which compared its rows with the first ones of the "
            "epoch before only. We assume that they are not other earlier rows.",
        )
    if not opening.body[UNCOMPARED]:
        return ()
    epochs = ", ".join(f"epoch {number}" for number in opening.body[UNCOMPARED])
    return (
        f"The rows were not compared with those of {epochs}: one of the two tables was not copied, or is not "
        "known here. We assume that the rows are new.",
    )


def can_be_compared(rows: Rows) -> bool:
    """Whether rows are read for a comparison: False for large tables that stay where they are."""
    return rows.is_small or not rows.stays


def _parts_of(
    setup: Setup, key: bytes, *, training: bool, only: Collection[str] | None
) -> Iterator[EarlierPart]:
    """Both parts of an epoch, and the table that the two make up."""
    parts = {PROTECTED: setup.protected}
    if training and setup.training is not None:
        parts[TRAINING] = setup.training
    compared = {}
    for name, part in parts.items():
        if can_be_compared(part.rows):
            compared[name] = _part(name, part.rows, key, part.rows.columns if only is None else only)
            yield compared[name][0]
    if len(compared) == 2 and compared[PROTECTED][0].columns == compared[TRAINING][0].columns:
        yield from _table(setup, compared, key)


def _part(name: str, rows: Rows, key: bytes, only: Collection[str]) -> tuple[EarlierPart, Digests]:
    """One part, and its rows' digests without the columns that number them."""
    columns = tuple(sorted(column for column in rows.columns if column in only))
    numbering = tuple(column for column in rows.numbering() if column in only)
    # Only whole numbers can number rows. Then there can be a sketch without the numbers too.
    sketches = 2 if any(column.whole for column in rows.schema.values()) else 1
    digests = rows.row_digests(key, columns)
    part = EarlierPart(name, columns, numbering, rows.count, sketches, Sketch.of(digests), None, 1.0, None)
    if numbering:
        digests = rows.row_digests(key, part.others) if part.others else np.zeros_like(digests)
        unnumbered = Sketch.of(digests) if part.others else None
        part = replace(part, unnumbered=unnumbered, commonest=commonest_share(digests))
    if rows.has_order and identifies_table(digests):
        part = replace(part, begins=_in_order(digests, key))
    return part, digests


def _table(setup: Setup, parts: dict[str, tuple[EarlierPart, Digests]], key: bytes) -> Iterator[EarlierPart]:
    """The whole table in the order of its rows, if no row was dropped from it."""
    (protected, protected_digests), (training, training_digests) = parts[PROTECTED], parts[TRAINING]
    masks = [part.mask for part in (setup.protected, setup.training) if isinstance(part, Part)]
    count = setup.protected.data_rows
    if any(mask is None for mask in masks) or len(protected_digests) + len(training_digests) != count:
        return
    digests = np.zeros(count, dtype=np.uint64)
    # Digests of parts that number other columns cannot be put in one order: they stay 0, which identifies no
    # table.
    if protected.numbering == training.numbering:
        for mask, part_digests in zip(masks, (protected_digests, training_digests), strict=True):
            digests[mask] = part_digests
    begins = _in_order(digests, key) if identifies_table(digests) else None
    yield EarlierPart(TABLE, protected.columns, protected.numbering, count, 0, None, None, 1.0, begins)


def _in_order(digests: Digests, key: bytes) -> str:
    return hashlib.blake2b(digests.astype("<u8").tobytes(), key=key, digest_size=32).hexdigest()


def _named(content: bytes, book: Book) -> str:
    """How a book names bytes that it keeps. The name says nothing to anybody without the book's secret."""
    return f"keyed {_keyed(book.secret, content).hex()}"


def _keyed(secret: bytes, content: bytes) -> bytes:
    return hmac.new(secret, content, "sha256").digest()


def _packed(earlier: EarlierRows) -> bytes:
    """The key and all parts with a sample of their rows: first JSON, then the digests and counts. The length
    depends only on the columns and the numbers of rows."""
    arrays: list[bytes] = []

    def packed(sketch: Sketch | None) -> dict[str, int] | None:
        if sketch is None:
            return None
        sample = sketch.sampled()
        arrays.extend((sample.digests.astype("<u8").tobytes(), sample.counts.tobytes()))
        return {"rows": sample.rows, "below": sample.below, "kept": len(sample.digests)}

    text = _head(
        earlier,
        lambda part: {
            "numbering": part.numbering,
            "sketch": packed(part.sketch),
            "unnumbered": packed(part.unnumbered),
            "commonest": part.commonest,
            "begins": part.begins,
        },
    )
    content = struct.pack("<Q", len(text)) + text + b"".join(arrays)
    longest = {"rows": 2**63, "below": 2**64 - 1, "kept": 2**63}
    room = 8 + len(
        _head(
            earlier,
            lambda part: {
                "numbering": part.columns,
                "sketch": longest,
                "unnumbered": longest,
                "commonest": -sys.float_info.max,
                "begins": "0" * 64,
            },
        )
    )
    parts = [part for epoch in earlier.epochs for part in epoch.parts]
    rows = sum(part.sketches * min(part.count, MOST_KEPT + _ROOM) for part in parts)
    return content.ljust(room + _A_ROW * rows, b"\0")


def _head(earlier: EarlierRows, facts: Callable[[EarlierPart], dict[str, Any]]) -> bytes:
    """All that is kept except the digests, with these facts about each part."""
    epochs = [
        {
            "number": epoch.number,
            "closed": epoch.closed,
            "parts": [
                {
                    "name": part.name,
                    "columns": part.columns,
                    "count": part.count,
                    "sketches": part.sketches,
                    **facts(part),
                }
                for part in epoch.parts
            ],
        }
        for epoch in earlier.epochs
    ]
    return json.dumps({"key": earlier.key.hex(), "epochs": epochs}).encode()


def _unpacked(content: bytes) -> EarlierRows:
    (length,) = struct.unpack_from("<Q", content)
    head = json.loads(content[8 : 8 + length])
    place = 8 + length

    def sketch(written: dict[str, int] | None) -> Sketch | None:
        nonlocal place
        if written is None:
            return None
        count = written["kept"]
        digests = np.frombuffer(content, dtype="<u8", count=count, offset=place).astype(np.uint64)
        counts = np.frombuffer(content, dtype=np.uint8, count=count, offset=place + 8 * count)
        place += 9 * count
        return Sketch(written["rows"], digests, counts, written["below"])

    def part(written: dict[str, Any]) -> EarlierPart:
        lists = {name: tuple(written[name]) for name in ("columns", "numbering")}
        sketches = {name: sketch(written[name]) for name in ("sketch", "unnumbered")}
        return EarlierPart(**{**written, **lists, **sketches})

    epochs = [
        EarlierEpoch(epoch["number"], epoch["closed"], tuple(part(written) for written in epoch["parts"]))
        for epoch in head["epochs"]
    ]
    return EarlierRows(bytes.fromhex(head["key"]), tuple(epochs))
