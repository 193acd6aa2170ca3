"""Exports of a book, and their verification. Anyone who has the public key can verify one book, the books of
a table that grows, and a book against its witness file.

A table that grows has one book for each epoch, and every book is chained to the book before it. The book of
an epoch announces the next epoch in a line that can be written once. The first line of the next book names
that line. Once the next book is open, its identity is written into the earlier book too. So an epoch whose
book was lost is not opened a second time with a full account.

A witness file has signed checkpoints of how books ended. Keep it where the keeper of the books cannot change
it. The checkpoints then show when a book was restored from an old backup, or was rewritten and signed again
by the holder of the key.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from holdfast.errors import HoldfastError
from holdfast.ledger._book import Book
from holdfast.ledger._lines import Balance, BookError, Line, canonical
from holdfast.ledger._places import BookHead, read_heads
from holdfast.ledger._signing import Receipt, SigningKey, public_key_of, signed
from holdfast.records import Record

_HEADER = {"holdfast": "account book", "format": 2}
# Accounts that are counted in nats. None: the books of the first boards name no strategy.
_COUNT_NATS = (None, "code", "board", "gate")
# Their books keep prices in nats, and people count one answer for each question.
_ONE_ANSWER_EACH = ("agreed-code", "grid-code")


@dataclass(frozen=True, repr=False)
class Problem(Record):
    """One problem of an export: its ``line`` (0 is the file as a whole), the ``kind`` of damage, and a
    description in ``words``."""

    line: int
    kind: str  # "format" | "changed" | "missing" | "reordered" | "cut" | "signature" | "sums" | "epoch"
    words: str


@dataclass(frozen=True, repr=False)
class Verification(Record):
    """What :func:`verify` found: ``problems`` is empty for a book that is whole. ``lines`` is how many lines
    it has. ``spent`` is counted in ``unit``, nats or answers, as the account does. ``signed`` says whether
    its end is signed with the public key. ``receipts`` says how many receipts were compared with it.
    ``epoch`` says to which part of a growing table the book belongs."""

    lines: int
    spent: float
    signed: bool
    receipts: int
    problems: tuple[Problem, ...]
    epoch: int = 1
    unit: str = "nats"

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def export(book: Book, path: str | Path) -> int:
    """Write a ``book`` to the file ``path``, one JSON object a line. The signed head comes last. Returns the
    number of events.

    Guarantee: :func:`verify` detects every change of a single byte, every removed, repeated or reordered
    line. The file holds released answers and prices, and nothing else about protected rows.
    """
    count, last = 0, None
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.write(canonical(_HEADER) + "\n")
        for line in book.lines():
            file.write(canonical(line._asdict()) + "\n")
            count, last = count + 1, line
        receipt = None if last is None else book.receipt(last.event())
        head = None if receipt is None else asdict(receipt)
        file.write(canonical({"head": head, "lines": count}) + "\n")
    return count


def verify(
    path: str | Path, public_key: str | None = None, *, receipts: Iterable[Receipt] = ()
) -> Verification:
    """Check an export offline: the chain of digests, the sums, the signed head and any receipts.

    Guarantee: with the public key, an export that passes is, byte for byte, one that the holder of the
    private key signed. Every receipt it passes with was issued for a line it contains. The kind of damage is
    named: changed, missing, reordered, cut.
    Assumes: SHA-256 without collisions, Ed25519 without forgeries; the public key came from its owner.

    Args:
        path: The file that :func:`export` wrote.
        public_key: "ed25519:" and 64 hexadecimal digits; without it no signature is checked.
        receipts: Receipts that people hold for lines of this book.
    """
    text = Path(path).read_bytes()
    exported = _ReadExport()
    exported.read(text)
    if public_key is not None:
        public_key_of(public_key)
        exported.head(public_key)
    all_receipts = list(receipts)
    for receipt in all_receipts:
        exported.receipt(receipt, public_key)
    spent, unit = exported.spent()
    return Verification(
        lines=len(exported.lines),
        spent=spent,
        signed=public_key is not None and "signature" not in {problem.kind for problem in exported.problems},
        receipts=len(all_receipts),
        problems=tuple(exported.problems),
        epoch=exported.epoch,
        unit=unit,
    )


class _ReadExport:
    """An export as far as it can be read, and every problem that it has."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.problems: list[Problem] = []
        self.balance = Balance()
        self.ending: dict[str, Any] | None = None
        self.epoch = 1
        self.strategy: Any = None

    def spent(self) -> tuple[float, str]:
        """What the lines add up to, and the unit it is counted in."""
        balance = self.balance
        if self.strategy in _ONE_ANSWER_EACH:
            return float(balance.confirmed + balance.surprised + len(balance.open)), "answers"
        return (balance.micro_nats + balance.reserved) / 1e6, self._unit()

    def _unit(self) -> str:
        """What the strategy counts in its book. Lines of earlier versions do not state it."""
        return "nats" if self.strategy in (*_COUNT_NATS, *_ONE_ANSWER_EACH) else "answers"

    def read(self, text: bytes) -> None:
        """Read the file line by line. Every line must be written exactly as export writes it."""
        rows = text.split(b"\n")
        if rows[-1] != b"" or rows[0].decode("utf-8", "replace") != canonical(_HEADER):
            self._wrong(0, "format", "the file does not begin and end as an export does")
        for place, row in enumerate(rows[1 if rows[0].startswith(b'{"format"') else 0 : -1], start=1):
            self._row(place, row)
        self._order()
        self._chain()
        if self.ending is None:
            self._wrong(0, "cut", "the last line, which says how the book ends, is missing")
        elif self.ending.get("lines") != len(self.lines):
            self._wrong(
                0, "cut", f"the export says it has {self.ending.get('lines')} lines and has {len(self.lines)}"
            )

    def _row(self, place: int, row: bytes) -> None:
        if self.ending is not None:
            self._wrong(place, "format", "there is something after the last line")
        try:
            content = json.loads(row)
            exact = canonical(content).encode() == row
        except ValueError:
            content, exact = None, False
        if exact and isinstance(content, dict) and set(content) == {"head", "lines"}:
            self.ending = content
        elif exact and isinstance(content, dict) and set(content) == set(Line._fields):
            self.lines.append(Line(**content))
        else:
            self._wrong(place, "changed", "this is not written as export writes it")

    def _order(self) -> None:
        """Name the lines that are missing, and those in the wrong place."""
        numbers = [line.sequence for line in self.lines if isinstance(line.sequence, int)]
        present = set(numbers)
        for expected in _gaps(present):
            self._wrong(expected, "missing", f"line {expected} is missing")
        highest = 0
        for number in numbers:
            if number <= highest:
                self._wrong(number, "reordered", f"line {number} comes after line {highest}")
            highest = max(highest, number)

    def _chain(self) -> None:
        previous, at = "", 0
        for line in self.lines:
            if line.sequence == at + 1:
                if line.follows(previous):
                    self._sum(line)
                else:
                    self._wrong(line.sequence, "changed", "this line, or the digest before it, was changed")
            previous, at = line.digest, line.sequence

    def _sum(self, line: Line) -> None:
        try:
            event = line.event()
            if line.sequence == 1:
                self.strategy = event.body.get("strategy")
            elif event.body.get("unit", self._unit()) != self._unit() and "micro_nats" in event.body:
                self._wrong(line.sequence, "unit", f"the price is not in {self._unit()}")
            if line.sequence == 1 and event.body.get("epoch"):
                self.epoch = int(event.body["epoch"]["number"])
            if event.kind == "checkpoint" and event.body["balance"] != json.loads(
                canonical(self.balance.to_dict())
            ):
                self._wrong(
                    line.sequence, "sums", "the checkpoint differs from the sum of the lines before it"
                )
            self.balance.apply(event)
        except (BookError, KeyError, TypeError, ValueError) as error:
            self._wrong(line.sequence, "sums", str(error))

    def head(self, public_key: str) -> None:
        """The signature at the end: it stands for all lines."""
        receipt = _receipt((self.ending or {}).get("head"))
        if receipt is None:
            self._wrong(0, "signature", "the end of the book is not signed")
        else:
            self.receipt(receipt, public_key, ending=True)

    def receipt(self, receipt: Receipt, public_key: str | None, *, ending: bool = False) -> None:
        """Report a problem if the export lacks the line of a receipt."""
        what = "the signed end" if ending else f"the receipt for line {receipt.sequence}"
        if public_key is not None and not receipt.signed_by(public_key):
            self._wrong(receipt.sequence, "signature", f"{what} is not signed with this key")
            return
        digests = {line.sequence: line.digest for line in self.lines}
        if receipt.sequence not in digests:
            last = max(digests, default=0)
            words = f"{what} shows that the book had {receipt.sequence} lines; it ends at {last}"
            self._wrong(receipt.sequence, "cut", words)
        elif digests[receipt.sequence] != receipt.digest or digests.get(1) != receipt.book:
            self._wrong(receipt.sequence, "changed", f"{what} was given for other lines than these")

    def _wrong(self, line: Any, kind: str, words: str) -> None:
        self.problems.append(Problem(line if isinstance(line, int) else 0, kind, words))


def _gaps(present: set[int]) -> Iterator[int]:
    """The numbers that are missing below the highest (the first hundred of them)."""
    listed = 0
    for expected in range(1, max(present, default=0)):
        if expected not in present:
            yield expected
            listed += 1
            if listed == 100:
                return


def _receipt(content: Any) -> Receipt | None:
    try:
        return Receipt(**content)
    except TypeError:
        return None


def read_receipts(path: str | Path) -> list[Receipt]:
    """The receipts in the file ``path``: one JSON object, a list of them, or one a line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        try:
            content = json.loads(text)
        except ValueError:
            content = [json.loads(row) for row in text.splitlines() if row.strip()]
        return [Receipt(**receipt) for receipt in (content if isinstance(content, list) else [content])]
    except (ValueError, TypeError):
        raise HoldfastError(f"{path} does not hold receipts of Holdfast.") from None


def read_lines(path: str | Path) -> list[Line]:
    """The lines of the export ``path`` as far as they can be read. :func:`verify` says whether they are
    right."""
    lines = []
    for row in Path(path).read_bytes().split(b"\n"):
        try:
            lines.append(Line(**json.loads(row)))
        except (ValueError, TypeError):
            continue
    return lines


@dataclass(frozen=True, repr=False)
class EpochLink(Record):
    """The epoch of a book, and its link to the book of the epoch before, as the first line states it.

    ``number`` counts epochs from 1. ``before`` is the identity of the book of the epoch before. That book
    announced this epoch in its ``line`` with the ``digest``. ``failure_before`` is the sum of what the
    confidences of all earlier epochs leave to 1. ``closed`` says whether the account before was closed for
    good by then.
    """

    number: int
    before: str
    line: int
    digest: str
    failure_before: float
    closed: bool

    # The subjects of the two lines about the next epoch: its announcement, and the book opened for it.
    ANNOUNCED: ClassVar[str] = "next epoch"
    OPENED: ClassVar[str] = "next epoch's book"

    @classmethod
    def of(cls, book: Book) -> EpochLink | None:
        """The link in a book's first line; None for a first epoch and for a book without lines.

        Args:
            book: The book whose first line is read.
        """
        opening = book.opening
        return None if opening is None else cls.in_opening(opening.body)

    @classmethod
    def in_opening(cls, opening: dict[str, Any]) -> EpochLink | None:
        """The link in the body of a first line, ``opening``."""
        return cls(**opening["epoch"]) if opening.get("epoch") else None


def verify_epochs(
    paths: Sequence[str | Path], public_key: str | None = None, *, receipts: Iterable[Receipt] = ()
) -> tuple[Verification, ...]:
    """Check the exports of a table's epochs, in order. Each is checked as :func:`verify` does. Each must also
    continue where the export before it says.

    Guarantee: exports that pass without problems are of one table's epochs in a row. Every account but the
    last announced exactly the next one, in a line it contains. No epoch has a second book among them.
    Assumes: what :func:`verify` assumes.

    Args:
        paths: The exports, from the first epoch on.
        public_key: The key that all of them are signed with; without it no signature is checked.
        receipts: Receipts that people hold for lines of any of these books.
    """
    exports = [read_lines(path) for path in paths]
    all_receipts = list(receipts)
    results = []
    for place, (path, lines) in enumerate(zip(paths, exports, strict=True)):
        own_receipts = [receipt for receipt in all_receipts if _identity(lines) == receipt.book]
        if place == 0:
            identities = {_identity(other) for other in exports}
            own_receipts += [receipt for receipt in all_receipts if receipt.book not in identities]
        results.append(verify(path, public_key, receipts=own_receipts))
    for place, (earlier, later) in enumerate(pairwise(exports), start=1):
        problems = tuple(Problem(1, "epoch", words) for words in _breaks(earlier, later))
        results[place] = replace(results[place], problems=(*results[place].problems, *problems))
    return tuple(results)


def _identity(lines: list[Line]) -> str:
    return lines[0].digest if lines else ""


def _breaks(earlier: list[Line], later: list[Line]) -> Iterator[str]:
    """Every reason, in words, why the ``later`` book is not the next epoch of the ``earlier`` one."""
    link = EpochLink.in_opening(later[0].event().body) if later else None
    if not earlier or link is None:
        yield "this book does not say that it continues another book"
        return
    if link.before != _identity(earlier):
        yield "this book continues another book, and not the one that was given before it"
        return
    lines = {line.sequence: line for line in earlier}
    announcement = lines.get(link.line)
    if (
        announcement is None
        or announcement.digest != link.digest
        or announcement.subject != EpochLink.ANNOUNCED
    ):
        yield f"the book before it did not announce this epoch in its line {link.line}"
    opened = [line.event().body["book"] for line in earlier if line.subject == EpochLink.OPENED]
    if opened and opened != [_identity(later)]:
        yield "the book before it opened another book for this epoch"
    before = earlier[0].event().body
    first = EpochLink.in_opening(before)
    if link.number != (1 if first is None else first.number) + 1:
        yield f"it says that it is epoch {link.number}, which is not the next one"
    if link.closed and not any(line.kind == "close" and line.sequence < link.line for line in earlier):
        yield "it says that the account before it was closed for good, but that account was not"
    left_open = min(1.0, (0.0 if first is None else first.failure_before) + 1 - float(before["confidence"]))
    if link.failure_before < left_open:
        yield "the failure probability that it counts for earlier epochs is less than theirs"


@dataclass(frozen=True, repr=False)
class Checkpoint(Record):
    """A signed statement that the book with a ``name`` ended with this line at this ``time`` (seconds since
    1970, UTC).

    ``book`` is the digest of the book's first line, ``digest`` that of line ``sequence``. ``key`` is the
    public key, and ``signature`` what it verifies.
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
        """The checkpoint, signed with ``key``, of a book that ends like ``head`` at the time ``at``."""
        statement = _statement(head.name, head.book, head.sequence, head.digest, at)
        return cls(head.name, head.book, head.sequence, head.digest, at, key.public, key.sign(statement))

    def signed_by(self, public_key: str) -> bool:
        """Whether the holder of ``public_key`` signed it."""
        statement = _statement(self.name, self.book, self.sequence, self.digest, self.time)
        return self.key == public_key and signed(public_key, statement, self.signature)


class Witness:
    """Appends checkpoints of all books of a service to one file.

    Guarantee: a checkpoint is on disk when :meth:`note` returns. Lines are only ever appended. A book that
    did not change gets no checkpoint. One that was restored from an old backup gets checkpoints again from
    there.

    Args:
        path: the file; it is made with mode 600.
        books: the folder of books, or the PostgreSQL URL they are in.
        key: the key that signs.
    """

    def __init__(self, path: str | Path, books: str | Path, key: SigningKey) -> None:
        self._path, self._books, self._key = Path(path), books, key
        self._lock = Lock()
        self._seen: dict[str, tuple[int, str]] = {}
        if self._path.exists():
            self._seen = {seen.book: (seen.sequence, seen.digest) for seen in _checkpoints(self._path)}
        else:
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def note(self) -> int:
        """Append a checkpoint for every book that changed since the last one; returns how many."""
        with self._lock:
            changed = [
                head
                for head in read_heads(self._books)
                if (head.sequence, head.digest) != self._seen.get(head.book)
            ]
            if not changed:
                return 0
            at = int(time.time())
            text = "".join(
                canonical(Checkpoint.sign(self._key, head, at).to_dict()) + "\n" for head in changed
            )
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND)
            try:
                end = os.lseek(descriptor, 0, os.SEEK_END)
                if end and os.pread(descriptor, 1, end - 1) != b"\n":
                    text = "\n" + text  # A crash can leave half a line. A line break keeps it apart.
                content = text.encode()
                # A full disk takes a part of it without an error.
                if os.write(descriptor, content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._seen |= {head.book: (head.sequence, head.digest) for head in changed}
            return len(changed)


def read_witness(path: str | Path) -> list[Checkpoint]:
    """The checkpoints in the witness file ``path``, in order. Half a last line, from a crash, is left out."""
    return list(_checkpoints(Path(path)))


def _checkpoints(path: Path) -> Iterator[Checkpoint]:
    """The checkpoints one by one: a file of years does not fit into memory."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, row in enumerate(map(str.rstrip, file), start=1):
            if not row:
                continue
            try:
                checkpoint = Checkpoint(**json.loads(row))
            except (ValueError, TypeError):
                if not row.startswith('{"book"') or row.endswith("}"):
                    raise HoldfastError(
                        f"Line {number} of {path} is not a checkpoint of Holdfast. A witness file holds one "
                        "JSON object a line, as `holdfast serve --witness` writes them."
                    ) from None
            else:
                yield checkpoint


def check_witness(
    lines: Sequence[Line], checkpoints: Iterable[Checkpoint], public_key: str | None = None
) -> list[Problem]:
    """Compare a book with the checkpoints of a witness. Checkpoints of other books are skipped.

    Guarantee: a book without problems contains, unchanged, every line up to the newest checkpoint. With the
    public key, every checkpoint of the book was signed by the holder of the key.

    Args:
        lines: the lines of an export, in order.
        checkpoints: those of a witness file (:func:`read_witness`).
        public_key: "ed25519:…"; without it no signature is checked.
    """
    digests = {line.sequence: line.digest for line in lines}
    identity, end = digests.get(1, ""), max(digests, default=0)
    problems = []
    for checkpoint in checkpoints:
        if checkpoint.book != identity:
            continue
        if public_key is not None and not checkpoint.signed_by(public_key):
            words = f"the checkpoint of line {checkpoint.sequence} is not signed with this key"
            problems.append(Problem(checkpoint.sequence, "signature", words))
        elif checkpoint.sequence not in digests:
            words = (
                f"a witness saw {checkpoint.sequence} lines at {_utc(checkpoint.time)}; the book ends at "
                f"line {end}"
            )
            problems.append(Problem(checkpoint.sequence, "cut", words))
        elif digests[checkpoint.sequence] != checkpoint.digest:
            words = f"a witness saw another line {checkpoint.sequence} at {_utc(checkpoint.time)}"
            problems.append(Problem(checkpoint.sequence, "changed", words))
    return problems


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _statement(name: str, book: str, sequence: int, digest: str, at: int) -> str:
    return f"holdfast witness 1\n{name}\n{book}\n{sequence}\n{digest}\n{at}"
