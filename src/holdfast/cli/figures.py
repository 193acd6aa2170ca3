"""``holdfast figures``: the experiments behind the pictures, run and drawn again."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.figures import FigureTable


@click.command()
@click.argument("names", nargs=-1, metavar="[holdout|series|correlated|barriers]...")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("holdfast-figures"),
    show_default=True,
    help="The folder to write.",
)
@click.option("--runs", type=int, default=50, show_default=True, help="Repetitions of each experiment.")
@click.option(
    "--workers", type=int, default=1, show_default=True, help="Processes that share the repetitions."
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of tables.")
def figures(names: tuple[str, ...], output: Path, runs: int, workers: int, as_json: bool) -> None:
    """Run the experiments behind the figures and write pictures and tables: all of them, or those named.

    holdout: a classifier built through a holdout that is reused naively, through a reusable holdout and
    through the code guard. series: the same analyst on a real time series. correlated: the same analyst on a
    chain of rows and on families of relatives. barriers: what cannot be done.
    """
    from rich.console import Console

    from holdfast import checks
    from holdfast.figures import FIGURES

    for name in names:
        checks.choice(name, "figure", tuple(FIGURES), of="holdfast figures")
    checks.whole(runs, "runs", of="holdfast figures")
    checks.whole(workers, "workers", of="holdfast figures")
    console = Console(highlight=False, quiet=as_json)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"Cannot write to {output}: {error.strerror}.") from None
    tables = [_draw(name, output, runs, workers, console) for name in names or FIGURES]
    if as_json:
        print_data([table.to_dict() for table in tables])


def _draw(name: str, output: Path, runs: int, workers: int, console: Console) -> FigureTable:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from holdfast.figures import draw

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(f"{name}: runs", total=None)
        table = draw(
            name,
            output,
            runs=runs,
            workers=workers,
            progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    _show(console, table, output)
    return table


def _show(console: Console, table: FigureTable, output: Path) -> None:
    from rich.table import Table

    console.print(f"{table.title} ({table.runs} runs)", style="bold", markup=False)
    for group, rows in groupby(table.rows, key=lambda row: row[: table.groups]):
        shown = Table(box=None, pad_edge=False)
        for place, column in enumerate(table.columns[table.groups :], start=table.groups):
            number = any(isinstance(row[place], (int, float)) for row in table.rows)
            shown.add_column(column, justify="right" if number else "left")
        for row in rows:
            shown.add_row(*(_cell(value) for value in row[table.groups :]))
        console.print(", ".join(map(str, group)), style="cyan", markup=False)
        console.print(shown)
    for note in table.notes:
        console.print(note, style="dim", markup=False)
    console.print(
        "Written: " + ", ".join(str(output / file) for file in table.files), markup=False, soft_wrap=True
    )


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
