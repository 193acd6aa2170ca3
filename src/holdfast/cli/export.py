"""``holdfast export``: a book as a file that others can verify, with Holdfast or with standard tools."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from holdfast.cli._output import print_data
from holdfast.errors import HoldfastError


@click.command()
@click.argument("book", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "in-toto"]),
    default="jsonl",
    show_default=True,
    help="All lines for `holdfast verify`, or how the book ends as a DSSE envelope for standard tools.",
)
@click.option(
    "--signing-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file of the private key that signs it (HOME/key of a service).",
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of words.")
def export(book: Path, file: Path, form: str, signing_key: Path | None, as_json: bool) -> None:
    """Write the account book BOOK to FILE. FILE must not exist yet.

    An export holds released answers and prices, and nothing else about protected rows. It may be made while a
    service writes to the book.
    """
    from holdfast import ledger

    if file.exists():
        raise HoldfastError(f"{file} exists already. Choose another name: an export never replaces a file.")
    if form == "in-toto" and signing_key is None:
        raise click.UsageError("--format in-toto is a signed envelope: give --signing-key HOME/key.")
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
    console.print(f"{file} holds how {book} ends.", soft_wrap=True, markup=False)
    if key is not None:
        console.print(f"Signed by {key.public}.", style="dim", soft_wrap=True)
