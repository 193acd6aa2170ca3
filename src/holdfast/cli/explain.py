"""``holdfast explain``: what one notion of stability says in terms of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from holdfast.stability import Path


@click.command()
@click.argument("notion")
@click.option(
    "--to", required=True, help="The notion wanted: dp, replicable, max-information, one-way, typical, …"
)
@click.option("--rows", "n", type=float, help="Rows of the data the algorithm reads.")
@click.option(
    "--beta", type=float, help="Failure probability of the max-information; left out, the best is taken."
)
@click.option("--outcomes", type=float, help="How many outputs the algorithm can have.")
@click.option("--analyses", type=float, help="How many analyses of the same rows, one after another.")
@click.option("--epsilon", type=float, help="The epsilon a transformation should reach.")
@click.option("--delta", type=float, help="The delta a transformation should reach.")
@click.option("--method", type=click.Choice(["sharp", "paper"]), default="sharp", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
def explain(notion: str, to: str, method: str, as_json: bool, **context: Any) -> None:
    """Convert NOTION, written like "dp(0.01, 1e-9)", step by step: theorem, price in rows, numbers."""
    from holdfast import stability  # takes as long as all of --help, and only this command needs it

    path = stability.explain(stability.parse_notion(notion), to, method=method, **context)
    if as_json:
        print_data(path.to_dict())
    else:
        _show(path)


def _show(path: Path) -> None:
    console = Console(highlight=False)
    console.print(path.summary, style="bold", markup=False)
    if path.steps:
        table = Table()
        for heading in path.headings:
            table.add_column(heading, overflow="fold")
        for step in path.steps:
            table.add_row(*map(escape, step.cells))
        console.print(table)
    for note in path.notes:
        console.print(note, markup=False)
