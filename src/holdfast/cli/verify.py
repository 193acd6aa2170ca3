"""``holdfast verify``: whether an account book is whole, checked offline by anyone."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from holdfast.cli._output import print_data
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.ledger import Checkpoint, Verification

_SQLITE = b"SQLite format 3\x00"
_SHOWN = 20


@click.command()
@click.argument(
    "books", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--key", "public_key", help="The public key of whoever keeps the book: ed25519:…")
@click.option(
    "--receipt",
    "receipts",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of receipts that came with answers; may be given several times.",
)
@click.option(
    "--witness",
    "witnesses",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A witness file of checkpoints (holdfast serve --witness); may be given several times.",
)
@click.option(
    "--export",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an export here too, for others to verify.",
)
@click.option(
    "--mark",
    "marks",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The mark of a book, kept outside of it (default: that of the service the book is in).",
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of words.")
def verify(
    books: tuple[Path, ...],
    public_key: str | None,
    receipts: tuple[Path, ...],
    witnesses: tuple[Path, ...],
    target: Path | None,
    marks: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Check an export of an account book, or the book itself: that no line was changed, removed or moved,
    that its sums are right, and that it still contains every answer you hold a receipt for and every line a
    witness saw. A book of a service is held against its mark too: one that was put back from an old backup
    runs behind it.

    Several books are the epochs of one growing table, in order; then also that each goes on where the one
    before it says. Exit status 1 if anything is wrong.
    """
    from holdfast.ledger import BookError, Problem, Verification, read_receipts, read_witness, verify_epochs

    if target is not None and len(books) > 1:
        raise click.UsageError("--export writes one export; give one book at a time.")
    beside = [mark for book in books if (mark := _mark_of(book)).is_file()]
    held = [receipt for path in (*receipts, *(marks or beside)) for receipt in read_receipts(path)]
    checkpoints = [checkpoint for path in witnesses for checkpoint in read_witness(path)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            exports = [_exported(book, target, Path(folder), place) for place, book in enumerate(books)]
            found = verify_epochs(exports, public_key, receipts=held)
            found = tuple(
                _with_witness(one, path, checkpoints, public_key)
                for one, path in zip(found, exports, strict=True)
            )
        except BookError as damage:
            found = (Verification(0, 0.0, False, 0, (Problem(0, "changed", str(damage)),)),)
    if as_json:
        said = [{**one.to_dict(), "whole": one.whole} for one in found]
        print_data(said[0] if len(books) == 1 else said)
    else:
        for one in found:
            _show(one)
        _say_who(found, public_key)
    if not all(one.whole for one in found):
        sys.exit(1)


def _mark_of(book: Path) -> Path:
    """Where a service keeps the mark of a book: HOME/marks/NAME.json for HOME/books/NAME.holdfast."""
    return book.resolve().parent.parent / "marks" / f"{book.stem}.json"


def _exported(book: Path, target: Path | None, folder: Path, place: int) -> Path:
    """The export to check: the file itself, or one made of a book."""
    from holdfast.ledger import Book, export

    with book.open("rb") as file:
        is_book = file.read(len(_SQLITE)) == _SQLITE
    if not is_book:
        if target is not None:
            raise click.UsageError(f"{book} is an export already; --export makes one from a book.")
        return book
    path = folder / f"{place}.jsonl" if target is None else target
    opened = Book(book)
    try:
        export(opened, path)
    finally:
        opened.close()
    return path


def _with_witness(
    found: Verification, path: Path, checkpoints: list[Checkpoint], public_key: str | None
) -> Verification:
    """The verification of one export, with what a witness saw and it lacks."""
    from holdfast.ledger import check_witness, read_lines

    problems = check_witness(read_lines(path), checkpoints, public_key)
    return replace(found, problems=(*found.problems, *problems))


def _show(found: Verification) -> None:
    console = Console(highlight=False)
    if found.whole:
        epoch = f"Epoch {found.epoch}, whole" if found.epoch > 1 else "Whole"
        spent = amount(found.spent, found.unit)
        console.print(f"{epoch}: {found.lines:,} lines, {spent} spent.", style="bold green")
    for problem in found.problems[:_SHOWN]:
        place = f"line {problem.line}" if problem.line else "the file"
        console.print(f"{problem.kind:<10} {place}: {problem.words}", style="red", markup=False)
    if (more := len(found.problems) - _SHOWN) > 0:
        console.print(f"… and {more:,} more; --json lists all.", style="red")


def _say_who(found: tuple[Verification, ...], key: str | None) -> None:
    console = Console(highlight=False)
    if not all(one.whole for one in found):
        return
    if key is None:
        console.print(
            "No --key was given, so this shows that the book is consistent, and not who wrote it.",
            style="dim",
        )
    else:
        matching = sum(one.receipts for one in found)
        console.print(f"Signed by {key}.\nReceipts that match: {matching}.", style="dim", soft_wrap=True)
