"""The epochs of a table that grows: one book each, every one chained to the one before it.

The book of an epoch announces the next one in a line that can be written once, and the next book's first line
names that line. Once the next book is open, its identity is written into the earlier one too, so an epoch
whose book was lost is not opened a second time with a full account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from holdfast.ledger._book import Book
from holdfast.ledger._event import Line
from holdfast.ledger._signing import Receipt
from holdfast.ledger._verify import Problem, Verification, read_lines, verify
from holdfast.records import Record


@dataclass(frozen=True, repr=False)
class EpochLink(Record):
    """Which epoch a book is about, as its first line says.

    ``before`` is the identity of the book of the epoch before it, which announced this one in its ``line``
    with the ``digest``; ``failure_before`` is what the confidences of all earlier epochs leave open together,
    and ``closed`` whether the account before it was closed for good by then.
    """

    number: int
    before: str
    line: int
    digest: str
    failure_before: float
    closed: bool

    # The subjects of the two lines about the next epoch: what it is about, and which book was opened for it.
    ANNOUNCED: ClassVar[str] = "next epoch"
    OPENED: ClassVar[str] = "next epoch's book"

    @classmethod
    def of(cls, book: Book) -> EpochLink | None:
        """The link in a book's first line; None for a first epoch and for a book that is not open yet."""
        opening = book.opening
        return None if opening is None else cls.said(opening.body)

    @classmethod
    def said(cls, opening: dict[str, Any]) -> EpochLink | None:
        """The link in what a first line says."""
        return cls(**opening["epoch"]) if opening.get("epoch") else None


def verify_epochs(
    paths: Sequence[str | Path], public_key: str | None = None, *, receipts: Iterable[Receipt] = ()
) -> tuple[Verification, ...]:
    """Check the exports of a table's epochs, in order: each as :func:`verify` does, and that each goes on
    where the one before it says.

    Guarantee: exports that pass without problems are of one table's epochs in a row: every account but the
    last announced exactly the next one, in a line it contains, and no epoch has a second book among them.
    Assumes: what :func:`verify` assumes.
    """
    exports = [read_lines(path) for path in paths]
    held = list(receipts)
    found = []
    for place, (path, lines) in enumerate(zip(paths, exports, strict=True)):
        own = [one for one in held if _identity(lines) == one.book]
        if place == 0:
            identities = {_identity(other) for other in exports}
            own += [one for one in held if one.book not in identities]
        found.append(verify(path, public_key, receipts=own))
    for place, (earlier, later) in enumerate(pairwise(exports), start=1):
        problems = tuple(Problem(1, "epoch", words) for words in _breaks(earlier, later))
        found[place] = replace(found[place], problems=(*found[place].problems, *problems))
    return tuple(found)


def _identity(lines: list[Line]) -> str:
    return lines[0].digest if lines else ""


def _breaks(earlier: list[Line], later: list[Line]) -> Iterator[str]:
    """Everything that keeps one book from being the next epoch of another, in words."""
    link = EpochLink.said(later[0].event().body) if later else None
    if not earlier or link is None:
        yield "this book does not say that it is the epoch after another"
        return
    if link.before != _identity(earlier):
        yield "this book is the epoch after another book than the one before it here"
        return
    told = {line.sequence: line for line in earlier}
    announcement = told.get(link.line)
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
    first = EpochLink.said(before)
    if link.number != (1 if first is None else first.number) + 1:
        yield f"it says that it is epoch {link.number}, which is not the next one"
    if link.closed and not any(line.kind == "close" and line.sequence < link.line for line in earlier):
        yield "it says that the account before it was closed for good, which was not so"
    left_open = min(1.0, (0.0 if first is None else first.failure_before) + 1 - float(before["confidence"]))
    if link.failure_before < left_open:
        yield "it counts less for the epochs before it than they left open"
