"""``holdfast plan``: every method side by side for one promise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from holdfast.planning import Plan, PlanEntry


@click.command()
@click.option("--queries", type=float, required=True, help="How many adaptive questions there will be.")
@click.option("--rows", type=float, help="Rows in all: what error can be promised?")
@click.option("--error", type=float, help="The error to promise: how many rows does it take?")
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option(
    "--surprises", type=float, help="How many answers may differ from what the training part suggests."
)
@click.option(
    "--promise",
    type=click.Choice(["all", "each"]),
    default="all",
    show_default=True,
    help="What the code guard promises: all answers together, or each by itself.",
)
@click.option(
    "--rho",
    type=float,
    help="Plan replicable means instead: two laboratories may differ this often. Needs --error.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw a picture into this file."
)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
def plan(
    queries: float,
    rows: float | None,
    error: float | None,
    confidence: float,
    surprises: float | None,
    promise: str,
    rho: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Which method promises most: error from rows, rows from an error, questions from both.

    Rows are taken to be independent; for other models call holdfast.plan(dependence=…). With --rho: how many
    rows so many replicable means need, by every way.
    """
    if rho is not None:
        if error is None or rows is not None or surprises is not None or plot is not None:
            raise click.UsageError(
                "With --rho give --queries and --error, and leave out --rows, --surprises, --plot."
            )
        _show_several(queries, error, rho, confidence, as_json)
        return
    from holdfast.planning import plan as make_plan

    found = make_plan(
        queries=queries, confidence=confidence, error=error, rows=rows, surprises=surprises, promise=promise
    )
    if plot is not None:
        from holdfast.planning import plot_plan

        try:
            plot_plan(found).savefig(plot, dpi=150)
        except ValueError as error:
            raise click.UsageError(f"Cannot draw into {plot}: {error}.") from None
    if as_json:
        print_data(found.to_dict())
    else:
        _show(found)


def _show_several(queries: float, error: float, rho: float, confidence: float, as_json: bool) -> None:
    from holdfast import checks
    from holdfast.replicable import plan_several

    confidence = checks.real(confidence, "confidence", "(0, 1)", of="plan")
    several = plan_several(analyses=queries, accuracy=error, rho=rho, beta=1.0 - confidence)
    if as_json:
        print_data(several.to_dict())
        return
    console = Console(highlight=False)
    console.print(
        f"{several.analyses:,} replicable means within ±{error:g}, the same in two laboratories with "
        f"probability {1.0 - rho:g}: {several.best.rows:,} rows, {several.best.name}",
        style="bold",
    )
    table = Table("", "way", box=None, pad_edge=False)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("each mean chosen after seeing results?", overflow="fold")
    table.add_column("can be run?", overflow="fold")
    for way in several.ways:
        best = way is several.best
        chosen, runs = ("yes" if answer else "no" for answer in (way.adaptive, way.efficient))
        table.add_row(
            "→" if best else "", way.name, f"{way.rows:,}", chosen, runs, style="bold green" if best else ""
        )
    console.print(table)
    console.print("All take for granted: independent rows, values in [0, 1], a shared tape.", style="dim")


def _show(found: Plan) -> None:
    console = Console(highlight=False)
    console.print(found.headline(), style="bold", markup=False)
    computed = ("error", "rows", "queries").index(found.solved_for)
    table = Table("", "method", box=None, pad_edge=False)
    table.add_column(("error", "rows", "questions")[computed], justify="right", no_wrap=True)
    table.add_column("rests on", overflow="fold")
    common = set(found.setting.assumptions)
    for entry in found.table:
        cells = found.cells(entry)
        best = entry is found.best
        style = "bold green" if best else "" if entry.recommendable else "dim"
        number = escape(cells[1 + computed])
        table.add_row("→" if best else "", cells[0], number, escape(_rests_on(entry, common)), style=style)
    console.print(table)
    if found.other_questions():
        console.print(found.other_questions(), markup=False)
    console.print("All take for granted: " + " ".join(found.setting.assumptions), style="dim", markup=False)


def _rests_on(entry: PlanEntry, common: set[str]) -> str:
    if entry.reason:
        return f"not valid: {entry.reason}"
    own = [sentence for sentence in entry.assumptions if sentence not in common]
    unstated = [f"Not recommended: {entry.unstated}"] if entry.unstated else []
    return " ".join([*own, *unstated, *filter(None, [entry.note])])
