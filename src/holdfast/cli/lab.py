"""``holdfast demo``, ``figures`` and ``bench``: the story, pictures and benchmarks, on this machine."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._output import json_option, print_data

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from holdfast.lab import FigureTable, Stones, Story


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("holdfast-demo"),
    show_default=True,
    help="The folder to write.",
)
@click.option("--rows", type=int, default=8_000, show_default=True, help="Diamonds to draw.")
@click.option("--columns", type=int, default=250, show_default=True, help="Coin flips to search.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Another seed draws other stones and coins."
)
@json_option
@click.option("--open/--no-open", "open_page", default=False, help="Show the page in a browser.")
def demo(out: Path, rows: int, columns: int, seed: int, as_json: bool, open_page: bool) -> None:
    """Show how plain averages find signal in noise.

    The rows are real diamonds with coin flips. Plain averages find a signal in the coins, Holdfast does not.
    Writes a picture, a page and the table of stones into a folder.
    """
    from rich.console import Console

    from holdfast.lab import Stones

    console = Console(highlight=False, quiet=as_json)
    stones = Stones.draw(rows, columns, seed)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"Cannot write to {out}: {error.strerror}.") from None
    story = _tell(stones, seed, console)
    page = _write(out, stones, story)
    if as_json:
        print_data({**story.to_dict(), "page": str(page)})
    else:
        from holdfast.cli._demo_page import show_story

        show_story(console, story, page)
    if open_page:
        click.launch(page.resolve().as_uri())


def _progress_bars(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _tell(stones: Stones, seed: int, console: Console) -> Story:
    from holdfast.lab import tell

    with _progress_bars(console) as bars:
        task = bars.add_task("questions asked", total=None)
        return tell(
            stones, seed=seed, progress=lambda done, total: bars.update(task, completed=done, total=total)
        )


def _write(out: Path, stones: Stones, story: Story) -> Path:
    """Write the page, the picture and the stones. Return the path of the page."""
    from holdfast.cli._demo_page import drawn, page

    (out / "demo.svg").write_text(drawn(story, alone=True) + "\n", encoding="utf-8")
    stones.plain().to_csv(out / "stones.csv", index=False)
    target = out / "index.html"
    target.write_text(page(story), encoding="utf-8")
    return target


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
@json_option
def figures(names: tuple[str, ...], output: Path, runs: int, workers: int, as_json: bool) -> None:
    """Run the experiments behind the figures of the documentation.

    Writes pictures and tables: of all experiments, or of those named.

    holdout: a classifier built through a holdout that is reused naively, through a reusable holdout and
    through the code guard. series: the same analyst on a real time series. correlated: the same analyst on a
    chain of rows and on families of relatives. barriers: what cannot be done.
    """
    from rich.console import Console

    from holdfast import checks
    from holdfast.lab import FIGURES

    for name in names:
        checks.choice(name, "figure", tuple(FIGURES), of="holdfast figures")
    checks.whole(runs, "runs", of="holdfast figures")
    checks.whole(workers, "workers", of="holdfast figures")
    console = Console(highlight=False, quiet=as_json)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"Cannot write to {output}: {error.strerror}.") from None
    tables = [_draw_figure(name, output, runs, workers, console) for name in names or FIGURES]
    if as_json:
        print_data([table.to_dict() for table in tables])


def _draw_figure(name: str, output: Path, runs: int, workers: int, console: Console) -> FigureTable:
    from holdfast.lab import draw

    with _progress_bars(console) as bars:
        task = bars.add_task(f"{name}: runs", total=None)
        table = draw(
            name,
            output,
            runs=runs,
            workers=workers,
            progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    _show_table(console, table, output)
    return table


def _show_table(console: Console, table: FigureTable, output: Path) -> None:
    from rich.table import Table

    console.print(f"{table.title} ({table.runs} runs)", style="bold", markup=False)
    for group, rows in groupby(table.rows, key=lambda row: row[: table.groups]):
        shown = Table(box=None, pad_edge=False)
        for place, column in enumerate(table.columns[table.groups :], start=table.groups):
            number = any(isinstance(row[place], (int, float)) for row in table.rows)
            shown.add_column(column, justify="right" if number else "left")
        for row in rows:
            shown.add_row(*(_figure_cell(value) for value in row[table.groups :]))
        console.print(", ".join(map(str, group)), style="cyan", markup=False)
        console.print(shown)
    for note in table.notes:
        console.print(note, style="dim", markup=False)
    console.print(
        "Written: " + ", ".join(str(output / file) for file in table.files), markup=False, soft_wrap=True
    )


def _figure_cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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
    help="How many table entries an attack draws at each point of the grid. 0 leaves attacks out.",
)
@click.option("--workers", type=int, default=2, show_default=True, help="Processes that attack.")
@json_option
def bench(output: Path, work: float, workers: int, as_json: bool) -> None:
    """Compare the strategies of Holdfast with other methods.

    Compares certified errors, real errors, and the rows that each method needs. Writes the numbers as JSON, a
    page of tables, and pictures for light and dark pages. This takes about ten minutes on two cores. After an
    interruption it continues where it stopped. It needs a checkout of the repository, because the code of the
    other methods is not in the package.
    """
    from rich.console import Console

    console = Console(highlight=False, quiet=as_json)
    results = _run_benchmarks(output, work, workers, console)
    if as_json:
        print_data(results)
    else:
        _show_benchmarks(console, results, output)


def _run_benchmarks(output: Path, work: float, workers: int, console: Console) -> dict[str, Any]:
    from holdfast.lab import run_benchmarks

    with _progress_bars(console) as bars:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        return run_benchmarks(output, work=work, workers=workers, progress=progress)


def _show_benchmarks(console: Console, results: dict[str, Any], output: Path) -> None:
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
