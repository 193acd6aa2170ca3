"""A witness file: signed checkpoints of how books ended, kept where whoever keeps the books cannot change it.

A book that is restored from an old backup, or rewritten and signed again by who holds the key, no longer
contains what its witness saw.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from holdfast.errors import HoldfastError
from holdfast.ledger._event import Line, canonical
from holdfast.ledger._heads import BookHead, read_heads
from holdfast.ledger._signing import SigningKey, signed
from holdfast.ledger._verify import Problem
from holdfast.records import Record


@dataclass(frozen=True, repr=False)
class Checkpoint(Record):
    """A signed statement that a book ended with this line at this time (seconds since 1970, UTC).

    ``book`` is the digest of the book's first line, ``digest`` that of line ``sequence``.
    """

    name: str
    book: str
    sequence: int
    digest: str
    time: int
    key: str
    signature: str

    @classmethod
    def sign(cls, key: SigningKey, head: BookHead, at: int) -> Checkpoint:
        """The checkpoint of a book that ends like this."""
        statement = _statement(head.name, head.book, head.sequence, head.digest, at)
        return cls(head.name, head.book, head.sequence, head.digest, at, key.public, key.sign(statement))

    def signed_by(self, public_key: str) -> bool:
        """Whether the holder of this key signed it."""
        statement = _statement(self.name, self.book, self.sequence, self.digest, self.time)
        return self.key == public_key and signed(public_key, statement, self.signature)


class Witness:
    """Appends checkpoints of all books of a service to one file.

    Guarantee: a checkpoint is on disk when :meth:`note` returns; lines are only ever appended, and a book
    that did not grow gets none.

    Args:
        path: the file; it is made with mode 600.
        books: the folder of books, or the PostgreSQL URL they are in.
        key: the key that signs.
    """

    def __init__(self, path: str | Path, books: str | Path, key: SigningKey) -> None:
        self._path, self._books, self._key = Path(path), books, key
        self._lock = Lock()
        self._seen: dict[str, int] = {}
        if self._path.exists():
            self._seen = {one.book: one.sequence for one in read_witness(self._path)}
        else:
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def note(self) -> int:
        """Append a checkpoint for every book that grew since the last one; returns how many."""
        with self._lock:
            grown = [head for head in read_heads(self._books) if head.sequence > self._seen.get(head.book, 0)]
            if not grown:
                return 0
            at = int(time.time())
            text = "".join(canonical(Checkpoint.sign(self._key, head, at).to_dict()) + "\n" for head in grown)
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND)
            try:
                end = os.lseek(descriptor, 0, os.SEEK_END)
                if end and os.pread(descriptor, 1, end - 1) != b"\n":
                    text = "\n" + text  # A line that a crash tore stays by itself.
                os.write(descriptor, text.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._seen |= {head.book: head.sequence for head in grown}
            return len(grown)


def read_witness(path: str | Path) -> list[Checkpoint]:
    """The checkpoints in a witness file, in order. A last line that a crash tore is left out."""
    checkpoints = []
    rows = Path(path).read_text(encoding="utf-8").split("\n")
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        try:
            checkpoints.append(Checkpoint(**json.loads(row)))
        except (ValueError, TypeError):
            if not row.startswith('{"book"') or row.endswith("}"):
                raise HoldfastError(
                    f"Line {number} of {path} is not a checkpoint of Holdfast. A witness file holds one JSON "
                    "object a line, as `holdfast serve --witness` writes them."
                ) from None
    return checkpoints


def check_witness(
    lines: Sequence[Line], checkpoints: Iterable[Checkpoint], public_key: str | None = None
) -> list[Problem]:
    """What a book lacks of that a witness saw: checkpoints of other books are skipped.

    Guarantee: a book without problems contains, unchanged, every line up to the newest checkpoint; with the
    public key, every checkpoint of it was signed by its holder.

    Args:
        lines: the lines of an export, in order.
        checkpoints: those of a witness file (:func:`read_witness`).
        public_key: "ed25519:…"; without it signatures are not looked at.
    """
    digests = {line.sequence: line.digest for line in lines}
    identity, end = digests.get(1, ""), max(digests, default=0)
    problems = []
    for one in checkpoints:
        if one.book != identity:
            continue
        if public_key is not None and not one.signed_by(public_key):
            words = f"the checkpoint of line {one.sequence} is not signed with this key"
            problems.append(Problem(one.sequence, "signature", words))
        elif one.sequence not in digests:
            words = f"a witness saw {one.sequence} lines at {_utc(one.time)}; the book ends at line {end}"
            problems.append(Problem(one.sequence, "cut", words))
        elif digests[one.sequence] != one.digest:
            words = f"a witness saw another line {one.sequence} at {_utc(one.time)}"
            problems.append(Problem(one.sequence, "changed", words))
    return problems


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _statement(name: str, book: str, sequence: int, digest: str, at: int) -> str:
    return f"holdfast witness 1\n{name}\n{book}\n{sequence}\n{digest}\n{at}"
