"""``holdfast backup`` and ``holdfast restore``: a service in one file, and back."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Console

from holdfast.cli._output import print_data

_books = click.option(
    "--books",
    envvar="HOLDFAST_BOOKS",
    help="The PostgreSQL URL of the account books, as for `holdfast serve`.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print data instead of words.")


@click.command()
@click.argument("home", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_books
@click.option(
    "--sources",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of tables, if it is not HOME/data.",
)
@click.option("--without-data", is_flag=True, help="Leave the tables out; keep copies of them yourself.")
@_as_json
def backup(
    home: Path, file: Path, books: str | None, sources: Path | None, without_data: bool, as_json: bool
) -> None:
    """Save the service in HOME to FILE while it runs: account books, key, tokens, registrations and tables.

    FILE must not exist. It holds the private key and the tables, so it has mode 600. Keep it encrypted.
    """
    from holdfast.server._backup import back_up

    saved = back_up(home, file, books=books, sources=sources, data=not without_data)
    if as_json:
        print_data(saved.to_dict())
        return
    console = Console(highlight=False)
    words = f"{file} holds {saved.files:,} files and {len(saved.books):,} account books."
    console.print(words, style="bold", markup=False, soft_wrap=True)
    for head in saved.books:
        console.print(f"  {head.name}: {head.sequence:,} lines", markup=False)
    for name in saved.left_out:
        console.print(f"Not in it: {name}.", style="yellow", markup=False, soft_wrap=True)
    console.print("It holds the private key. Keep it where the key may be.", style="dim")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("home", type=click.Path(path_type=Path))
@_books
@click.option("--key", "public_key", help="The public key of the service, as its users have it: ed25519:…")
@click.option(
    "--witness",
    "witnesses",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A witness file, to tell which books are behind; may be given several times.",
)
@_as_json
def restore(
    file: Path,
    home: Path,
    books: str | None,
    public_key: str | None,
    witnesses: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Make the service folder HOME from the backup FILE. HOME must not exist, or be empty.

    Every file, every line of every book and the signature are checked first. If anything is wrong, nothing is
    restored. Exit status 1 if a witness saw more lines of a book than the backup has: what was answered since
    then is missing, so its account must be closed.
    """
    from holdfast.ledger import read_witness
    from holdfast.server._backup import restore as restore_service

    seen = [checkpoint for path in witnesses for checkpoint in read_witness(path)]
    restored = restore_service(file, home, books=books, public_key=public_key, seen=seen)
    if as_json:
        print_data(restored.to_dict())
    else:
        console = Console(highlight=False)
        at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(restored.created))
        console.print(f"{home} is as it was at {at}.", style="bold", markup=False, soft_wrap=True)
        for head in restored.books:
            console.print(f"  {head.name}: {head.sequence:,} lines", markup=False)
        for one in restored.behind:
            words = (
                f"{one.name} is behind: a witness saw line {one.seen:,}, the backup ends at {one.restored:,}."
            )
            console.print(words, style="bold red", markup=False, soft_wrap=True)
        if restored.behind:
            console.print(
                "Close these accounts before anyone asks: POST /v1/datasets/NAME/close.", style="red"
            )
        elif not witnesses:
            console.print(
                "Answers that were given after the backup are not in it. If there may be any, close the "
                "accounts before anyone asks (docs/guides/runbook.md). A --witness file shows which.",
                style="dim",
                soft_wrap=True,
            )
    if restored.behind:
        raise SystemExit(1)
