"""``holdfast migrate``: account books of an earlier format, brought to the current one."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from holdfast.cli._output import print_data


@click.command()
@click.argument(
    "books", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print data instead of words.")
def migrate(books: tuple[Path, ...], dry_run: bool, as_json: bool) -> None:
    """Bring account books to the format of this version. Stop the service first.

    All BOOKS are verified and tried on copies before the first one is changed. A book that is migrated stays
    beside the new one as NAME.format-N: receipts for its lines verify against it. A book that has the current
    format is left as it is.
    """
    from holdfast import ledger

    plans = [ledger.migrate(book, dry_run=True) for book in books]
    needed = [plan for plan in plans if plan.steps]
    done = plans
    if needed and not dry_run:
        done = [ledger.migrate(plan.book) if plan.steps else plan for plan in plans]
    if as_json:
        print_data([one.to_dict() for one in done])
        return
    console = Console(highlight=False)
    for one in done:
        words = f"{one.book}: format {one.before}, {one.lines:,} lines, whole."
        console.print(words, markup=False, soft_wrap=True)
        for step in one.steps:
            console.print(f"  {step}", markup=False, soft_wrap=True)
        if one.done:
            console.print(
                f"  Now format {one.after}. The old book is {one.kept}.", markup=False, soft_wrap=True
            )
    if not needed:
        console.print("All have the current format. There is nothing to migrate.", style="bold")
    elif dry_run:
        console.print("This was a dry run: nothing was changed.", style="bold")
