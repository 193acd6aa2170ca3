"""The epochs of a table that grows, each with its account beside the first one's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli._account import Terms, opened
from holdfast.engines._files import shown

if TYPE_CHECKING:
    from holdfast.guard import Guard


@contextmanager
def opened_epochs(tables: Sequence[str], ledger: Path, train: str | None = None) -> Iterator[list[Guard]]:
    """The guards of a table's epochs in order, on the terms they were opened with; all are closed at the
    end. ``ledger`` is the first one's account, and ``train`` the training file it was opened with."""
    with opened(tables[0], ledger, Terms(train)) as first:
        guards = [first]
        try:
            for table in tables[1:]:
                agreed = _agreed(ledger, len(guards) + 1)
                if agreed is None:
                    raise _not_opened(tables[: len(guards)], table)
                terms = {"confidence": agreed["confidence"], "error": agreed["error"]}
                guards.append(guards[-1].next_epoch(table, **terms))
            yield guards
        finally:
            for guard in guards[1:]:
                guard.close()


def _agreed(ledger: Path, number: int) -> Mapping[str, Any] | None:
    """What an epoch was opened with; None where it was not."""
    from holdfast.ledger import Book
    from holdfast.ledger._places import place_of_epoch

    path = Path(str(place_of_epoch(ledger, number)))
    if not path.is_file():
        return None
    book = Book(path)
    try:
        return None if book.opening is None else book.opening.body
    finally:
        book.close()


def _not_opened(before: Sequence[str], table: str) -> Exception:
    from holdfast.ledger import BookError

    after = " ".join(f"--after {name}" for name in before)
    return BookError(
        f"{shown(table)} is no epoch yet. Rows that arrived later have an account of their own; open it with "
        f"holdfast epoch open {table} {after}"
    )
