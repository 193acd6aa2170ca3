"""``holdfast bench``: everything a user could pick instead, measured beside our strategies in one run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import holdfast
from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from rich.console import Console

_FOLDER = "benchmarks"


@click.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("holdfast-benchmarks"),
    show_default=True,
    help="The folder to write.",
)
@click.option(
    "--work",
    type=float,
    default=1e9,
    show_default=True,
    help="How many entries an attack draws at each place of the grid; 0 leaves attacks out.",
)
@click.option("--workers", type=int, default=2, show_default=True, help="Processes that attack.")
@click.option("--json", "as_json", is_flag=True, help="Print data instead of tables.")
def bench(output: Path, work: float, workers: int, as_json: bool) -> None:
    """Compare certified and real errors of every strategy and every peer, and the rows they need.

    Writes the numbers as JSON, a page of tables, and pictures for light and dark pages: ten minutes or so on
    two cores. Interrupted, it takes up where it was. The peers live beside the package in a checkout of the
    repository, so it runs from one.
    """
    from rich.console import Console

    from holdfast import checks

    work = checks.real(work, "work", "[0, inf)", of="holdfast bench")
    workers = checks.whole(workers, "workers", of="holdfast bench")
    report = _load("report")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"Cannot write to {output}: {error.strerror}.") from None
    console = Console(highlight=False, quiet=as_json)
    results = _run(report, output, (work, workers), console)
    if as_json:
        print_data(results)
    else:
        _show(console, results, output)


def _load(name: str) -> Any:
    """A module of the benchmarks of this checkout."""
    for root in (Path(holdfast.__file__).resolve().parents[2], Path.cwd()):
        folder = root / _FOLDER
        if (folder / f"{name}.py").is_file():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return importlib.import_module(name)
    raise click.UsageError(
        "The benchmarks are not part of the installed package: clone the repository and run "
        "`holdfast bench` inside it."
    )


def _run(report: Any, output: Path, terms: tuple[float, int], console: Console) -> dict[str, Any]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        results: dict[str, Any] = report.run(output, *terms, progress)
    return results


def _show(console: Console, results: dict[str, Any], output: Path) -> None:
    from rich.table import Table

    for promise, points in results["summary"].items():
        console.print(f"Certified error, {promise}: ours / best peer (ratio)", style="bold", markup=False)
        table = Table("rows", box=None, pad_edge=False)
        for queries in next(iter(points.values())):
            table.add_column(f"k = {int(queries):,}", justify="right")
        for rows, cells in points.items():
            table.add_row(f"{int(rows):,}", *cells.values())
        console.print(table)
    for line in results["findings"]:
        console.print(line, style="dim", markup=False)
    console.print(
        "Written: " + ", ".join(str(output / name) for name in results["files"]),
        markup=False,
        soft_wrap=True,
    )
