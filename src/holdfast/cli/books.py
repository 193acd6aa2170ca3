"""``holdfast verify``, ``export``, ``migrate``, ``backup`` and ``restore``: commands about account books."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

import click
from rich.console import Console

from holdfast.cli._output import json_option, print_data
from holdfast.errors import HoldfastError
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.ledger import Checkpoint, Verification


_SQLITE = b"SQLite format 3\x00"
_SHOWN = 20


@click.command()
@click.argument(
    "books", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--key", "public_key", help="The public key of the service that keeps the book: ed25519:…")
@click.option(
    "--receipt",
    "receipts",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of receipts that came with answers. May be repeated.",
)
@click.option(
    "--witness",
    "witnesses",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A witness file of checkpoints (holdfast serve --witness). May be repeated.",
)
@click.option(
    "--export",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write an export to this file, for others to verify.",
)
@click.option(
    "--mark",
    "marks",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The mark of a book, kept outside of it (default: that of the book's service).",
)
@json_option
def verify(
    books: tuple[Path, ...],
    public_key: str | None,
    receipts: tuple[Path, ...],
    witnesses: tuple[Path, ...],
    target: Path | None,
    marks: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Check BOOKS: account books, or exports of them.

    No line may be changed, removed or moved, and the sums must be right. Every answer with a receipt, and
    every line that a witness saw, must still be in the book. A book of a service is compared with its mark
    too: after a restore from an old backup the book runs behind its mark.

    Several books are the epochs of one growing table, in order. Each must continue the one before it. Exit
    status 1 if anything is wrong.
    """
    from holdfast.ledger import BookError, Problem, Verification, read_receipts, read_witness, verify_epochs

    if target is not None and len(books) > 1:
        raise click.UsageError("--export writes one export. Give one book at a time.")
    beside = [mark for book in books if (mark := _mark_of(book)).is_file()]
    all_receipts = [receipt for path in (*receipts, *(marks or beside)) for receipt in read_receipts(path)]
    checkpoints = [checkpoint for path in witnesses for checkpoint in read_witness(path)]
    seen: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            exports = [_exported(book, target, Path(folder), place) for place, book in enumerate(books)]
            verifications = verify_epochs(exports, public_key, receipts=all_receipts)
            looked = [
                _with_witness(verification, path, checkpoints, public_key)
                for verification, path in zip(verifications, exports, strict=True)
            ]
            verifications = tuple(verification for verification, _ in looked)
            seen = [compared for _, compared in looked]
        except BookError as damage:
            verifications = (Verification(0, 0.0, False, 0, (Problem(0, "changed", str(damage)),)),)
    if as_json:
        documents = [
            {**verification.to_dict(), "whole": verification.whole} for verification in verifications
        ]
        print_data(documents[0] if len(books) == 1 else documents)
    else:
        for verification in verifications:
            _show_verification(verification)
        _show_signer(verifications, public_key)
        if witnesses and all(verification.whole for verification in verifications):
            _say_seen(seen)
    if not all(verification.whole for verification in verifications):
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
    verification: Verification, path: Path, checkpoints: list[Checkpoint], public_key: str | None
) -> tuple[Verification, int]:
    """The verification of one export, and how many checkpoints are about it. What a witness saw and the
    export lacks is a problem too."""
    from holdfast.ledger import check_witness, read_lines

    lines = read_lines(path)
    about = [checkpoint for checkpoint in checkpoints if lines and checkpoint.book == lines[0].digest]
    problems = check_witness(lines, about, public_key)
    return replace(verification, problems=(*verification.problems, *problems)), len(about)


def _show_verification(verification: Verification) -> None:
    console = Console(highlight=False)
    if verification.whole:
        epoch = f"Epoch {verification.epoch}, intact" if verification.epoch > 1 else "Intact"
        spent = amount(verification.spent, verification.unit)
        console.print(f"{epoch}: {verification.lines:,} lines, {spent} spent.", style="bold green")
    for problem in verification.problems[:_SHOWN]:
        place = f"line {problem.line}" if problem.line else "the file"
        console.print(f"{problem.kind:<10} {place}: {problem.words}", style="red", markup=False)
    if (more := len(verification.problems) - _SHOWN) > 0:
        console.print(f"… and {more:,} more; --json lists all.", style="red")


def _show_signer(verifications: tuple[Verification, ...], key: str | None) -> None:
    console = Console(highlight=False)
    if not all(verification.whole for verification in verifications):
        return
    if key is None:
        console.print(
            "The book is consistent. Without --key this does not show who wrote it.",
            style="dim",
        )
    else:
        matching = sum(verification.receipts for verification in verifications)
        console.print(f"Signed by {key}.\nReceipts that match: {matching}.", style="dim", soft_wrap=True)


def _say_seen(seen: list[int]) -> None:
    """A witness of other books shows nothing about these, and must not look as if it did."""
    console = Console(highlight=False)
    console.print(f"Checkpoints of the witness that match: {sum(seen)}.", style="dim")
    if 0 in seen:
        words = "The witness saw nothing of a book that is checked here. Is it the right file?"
        console.print(words, style="yellow", soft_wrap=True)


@click.command()
@click.argument("book", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "in-toto"]),
    default="jsonl",
    show_default=True,
    help="jsonl: all lines, for `holdfast verify`. in-toto: a signed statement about the last line.",
)
@click.option(
    "--signing-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file of the private key that signs it (HOME/key of a service).",
)
@json_option
def export(book: Path, file: Path, form: str, signing_key: Path | None, as_json: bool) -> None:
    """Write the account book BOOK to FILE. FILE must not exist yet.

    An export contains released answers and prices, and nothing else about protected rows. You may export
    while a service writes to the book.
    """
    from holdfast import ledger

    if file.exists():
        raise HoldfastError(f"{file} exists already. An export never replaces a file: choose another name.")
    if form == "in-toto" and signing_key is None:
        raise click.UsageError("--format in-toto is signed: give --signing-key HOME/key.")
    key = None if signing_key is None else ledger.SigningKey.at(signing_key)
    opened = ledger.Book(book, key=key)
    try:
        if form == "in-toto":
            sealed = ledger.envelope(opened, name=book.name.removesuffix(".holdfast"))
            file.write_text(json.dumps(sealed) + "\n", encoding="utf-8")
        else:
            ledger.export(opened, file)
        identity = opened.identity
    finally:
        opened.close()
    if as_json:
        print_data({"file": str(file), "format": form, "book": identity, "key": key and key.public})
        return
    console = Console(highlight=False)
    console.print(f"Exported {book} to {file}.", soft_wrap=True, markup=False)
    if key is not None:
        console.print(f"Signed by {key.public}.", style="dim", soft_wrap=True)


@click.command()
@click.argument(
    "books", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def migrate(books: tuple[Path, ...], dry_run: bool, as_json: bool) -> None:
    """Bring account books to the format of this version. Stop the service first.

    All BOOKS are verified, and migrated as copies, before the first one is changed. The old book stays beside
    the new one as NAME.format-N: receipts for its lines verify against it. A book in the current format is
    left as it is.
    """
    from holdfast import ledger

    plans = [ledger.migrate(book, dry_run=True) for book in books]
    needed = [plan for plan in plans if plan.steps]
    migrations = plans
    if needed and not dry_run:
        migrations = [ledger.migrate(plan.book) if plan.steps else plan for plan in plans]
    if as_json:
        print_data([migration.to_dict() for migration in migrations])
        return
    console = Console(highlight=False)
    for migration in migrations:
        words = f"{migration.book}: format {migration.before}, {migration.lines:,} lines, intact."
        console.print(words, markup=False, soft_wrap=True)
        for step in migration.steps:
            console.print(f"  {step}", markup=False, soft_wrap=True)
        if migration.done:
            console.print(
                f"  Now format {migration.after}. The old book is {migration.kept}.",
                markup=False,
                soft_wrap=True,
            )
    if not needed:
        console.print("All books have the current format. There is nothing to migrate.", style="bold")
    elif dry_run:
        console.print("This was a dry run: nothing was changed.", style="bold")


_books = click.option(
    "--books",
    envvar="HOLDFAST_BOOKS",
    show_envvar=True,
    help="The PostgreSQL URL of the account books, as for `holdfast serve`.",
)
books_password_file = click.option(
    "--books-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HOLDFAST_BOOKS_PASSWORD_FILE",
    show_envvar=True,
    help="A file with the password for --books. Everyone on the machine could read a password in a command.",
)


def with_password(books: str, file: Path | None) -> str:
    """The address with the password from a file in it."""
    if file is None:
        return books
    parts = urlsplit(books)
    password = file.read_text(encoding="utf-8").strip("\r\n")
    if not password or parts.password:
        raise click.UsageError(
            "--books-password-file must contain a password, and then --books must not contain one."
        )
    machine = parts.netloc.rpartition("@")[2]
    person = f"{parts.username or ''}:{quote(password, safe='')}@"
    return urlunsplit(parts._replace(netloc=f"{person}{machine}"))


@click.command()
@click.argument("home", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_books
@books_password_file
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of tables, if it is not HOME/data.",
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HOLDFAST_KEY",
    show_envvar=True,
    help="The file of the signing key, if it is not HOME/key.",
)
@click.option("--without-data", is_flag=True, help="Leave the tables out; keep copies of them yourself.")
@json_option
def backup(
    home: Path,
    file: Path,
    books: str | None,
    books_password_file: Path | None,
    sources: Path | None,
    key: Path | None,
    without_data: bool,
    as_json: bool,
) -> None:
    """Save the service in HOME to FILE, while it runs.

    FILE gets the account books, the key, the tokens, the registrations and the tables. It must not exist. It
    contains the private key, so it has mode 600. Keep it encrypted.
    """
    from holdfast.server import back_up

    if books is not None:
        books = with_password(books, books_password_file)
    saved = back_up(home, file, books=books, sources=sources, key=key, data=not without_data)
    if as_json:
        print_data(saved.to_dict())
        return
    console = Console(highlight=False)
    words = f"{file} contains {saved.files:,} files and {len(saved.books):,} account books."
    console.print(words, style="bold", markup=False, soft_wrap=True)
    for head in saved.books:
        console.print(f"  {head.name}: {head.sequence:,} lines", markup=False)
    for name in saved.left_out:
        console.print(f"Not in it: {name}.", style="yellow", markup=False, soft_wrap=True)
    console.print("It contains the private key. Store it as safely as the key.", style="dim")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("home", type=click.Path(path_type=Path))
@_books
@books_password_file
@click.option("--key", "public_key", help="The public key of the service, as its users have it: ed25519:…")
@click.option(
    "--witness",
    "witnesses",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A witness file, which shows books that are behind. May be repeated.",
)
@json_option
def restore(
    file: Path,
    home: Path,
    books: str | None,
    books_password_file: Path | None,
    public_key: str | None,
    witnesses: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Make the service folder HOME from the backup FILE. HOME must not exist, or be empty.

    Every file, every line of every book and the signature are checked first. If anything is wrong, nothing is
    restored. Exit status 1 if a witness saw more lines of a book than the backup has. Then answers are
    missing from the book, so its account must be closed.
    """
    from holdfast.ledger import read_witness
    from holdfast.server import restore as restore_service

    if books is not None:
        books = with_password(books, books_password_file)
    checkpoints = [checkpoint for path in witnesses for checkpoint in read_witness(path)]
    restored = restore_service(file, home, books=books, public_key=public_key, seen=checkpoints)
    if as_json:
        print_data(restored.to_dict())
    else:
        console = Console(highlight=False)
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(restored.created))
        console.print(f"{home} is as it was at {at}.", style="bold", markup=False, soft_wrap=True)
        for head in restored.books:
            console.print(f"  {head.name}: {head.sequence:,} lines", markup=False)
        for late in restored.behind:
            lines = f"a witness saw line {late.seen:,}, the backup ends at {late.restored:,}."
            words = f"{late.name} is behind: {lines}"
            console.print(words, style="bold red", markup=False, soft_wrap=True)
        if restored.behind:
            console.print("Close these accounts before anyone asks: holdfast admin close NAME", style="red")
        elif not witnesses:
            console.print(
                "The backup lacks all later answers. If there may be any, close the accounts before anyone "
                "asks (docs/guides/runbook.md). A --witness file shows which accounts.",
                style="dim",
                soft_wrap=True,
            )
    if restored.behind:
        raise SystemExit(1)
