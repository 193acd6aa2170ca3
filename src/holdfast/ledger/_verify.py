"""Exports of a book, and their verification by anyone with nothing but the public key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger._balance import Balance
from holdfast.ledger._book import Book
from holdfast.ledger._event import BookError, Line, canonical
from holdfast.ledger._signing import Receipt, public_key_of
from holdfast.records import Record

_HEADER = {"holdfast": "account book", "format": 2}
# Accounts that are counted in nats. None: the books of the first boards name no strategy.
_COUNT_NATS = (None, "code", "board", "gate")
# Their books keep prices in nats, and people count one answer for each question.
_ONE_ANSWER_EACH = ("agreed-code", "grid-code")


@dataclass(frozen=True, repr=False)
class Problem(Record):
    """One thing wrong with an export: in which line (0: the file as a whole), what kind of damage, in
    words."""

    line: int
    kind: str  # "format" | "changed" | "missing" | "reordered" | "cut" | "signature" | "sums" | "epoch"
    words: str


@dataclass(frozen=True, repr=False)
class Verification(Record):
    """What :func:`verify` found: ``problems`` is empty for a book that is whole. ``spent`` is counted in
    ``unit``, nats or answers, as the account does. ``epoch`` says which part of a growing table the book is
    about."""

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
    """Write a book to a file of one JSON object a line, ended by the signed head; returns the number of
    events.

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
    private key signed; and every receipt it passes with was issued for a line it contains. Damage is named:
    changed, missing, reordered, cut.
    Assumes: SHA-256 without collisions, Ed25519 without forgeries; the public key came from its owner.
    """
    text = Path(path).read_bytes()
    checked = _Checked()
    checked.read(text)
    if public_key is not None:
        public_key_of(public_key)
        checked.head(public_key)
    held = list(receipts)
    for receipt in held:
        checked.receipt(receipt, public_key)
    spent, unit = checked.spent()
    return Verification(
        lines=len(checked.lines),
        spent=spent,
        signed=public_key is not None and not any(found.kind == "signature" for found in checked.problems),
        receipts=len(held),
        problems=tuple(checked.problems),
        epoch=checked.epoch,
        unit=unit,
    )


class _Checked:
    """An export as far as it can be read, and everything wrong with it."""

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
        """What the strategy counts in its book. Lines of earlier versions do not say it, and others agree."""
        return "nats" if self.strategy in (*_COUNT_NATS, *_ONE_ANSWER_EACH) else "answers"

    def read(self, text: bytes) -> None:
        """Take the file apart line by line; every line has to be written exactly as export writes it."""
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
            said = json.loads(row)
            exact = canonical(said).encode() == row
        except ValueError:
            said, exact = None, False
        if exact and isinstance(said, dict) and set(said) == {"head", "lines"}:
            self.ending = said
        elif exact and isinstance(said, dict) and set(said) == set(Line._fields):
            self.lines.append(Line(**said))
        else:
            self._wrong(place, "changed", "this is not written as export writes it")

    def _order(self) -> None:
        """Name what is missing, and what stands in the wrong place."""
        numbers = [line.sequence for line in self.lines if isinstance(line.sequence, int)]
        present = set(numbers)
        for expected in _gaps(present):
            self._wrong(expected, "missing", f"line {expected} is not there")
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
                self._wrong(line.sequence, "sums", "the checkpoint is not what the lines before it add up to")
            self.balance.apply(event)
        except (BookError, KeyError, TypeError, ValueError) as error:
            self._wrong(line.sequence, "sums", str(error))

    def head(self, public_key: str) -> None:
        """The signature at the end: it stands for all lines."""
        said = (self.ending or {}).get("head")
        receipt = _receipt(said)
        if receipt is None:
            self._wrong(0, "signature", "the book carries no signature of how it ends")
        else:
            self.receipt(receipt, public_key, ending=True)

    def receipt(self, receipt: Receipt, public_key: str | None, *, ending: bool = False) -> None:
        """Whether the export still contains what was receipted."""
        what = "the signed end" if ending else f"the receipt for line {receipt.sequence}"
        if public_key is not None and not receipt.signed_by(public_key):
            self._wrong(receipt.sequence, "signature", f"{what} is not signed with this key")
            return
        there = {line.sequence: line.digest for line in self.lines}
        if receipt.sequence not in there:
            words = (
                f"{what} shows that the book had {receipt.sequence} lines; it ends at {max(there, default=0)}"
            )
            self._wrong(receipt.sequence, "cut", words)
        elif there[receipt.sequence] != receipt.digest or there.get(1) != receipt.book:
            self._wrong(receipt.sequence, "changed", f"{what} was given for other lines than these")

    def _wrong(self, line: Any, kind: str, words: str) -> None:
        self.problems.append(Problem(line if isinstance(line, int) else 0, kind, words))


def _gaps(present: set[int]) -> Iterator[int]:
    """The numbers that are missing below the highest (the first hundred of them)."""
    found = 0
    for expected in range(1, max(present, default=0)):
        if expected not in present:
            yield expected
            found += 1
            if found == 100:
                return


def _receipt(said: Any) -> Receipt | None:
    try:
        return Receipt(**said)
    except TypeError:
        return None


def read_receipts(path: str | Path) -> list[Receipt]:
    """The receipts in a file: one JSON object, a list of them, or one a line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        try:
            said = json.loads(text)
        except ValueError:
            said = [json.loads(row) for row in text.splitlines() if row.strip()]
        return [Receipt(**one) for one in (said if isinstance(said, list) else [said])]
    except (ValueError, TypeError):
        raise HoldfastError(f"{path} does not hold receipts of Holdfast.") from None


def read_lines(path: str | Path) -> list[Line]:
    """The lines of an export as far as they can be read; whether they are right is for :func:`verify` to
    say."""
    lines = []
    for row in Path(path).read_bytes().split(b"\n"):
        try:
            lines.append(Line(**json.loads(row)))
        except (ValueError, TypeError):
            continue
    return lines
