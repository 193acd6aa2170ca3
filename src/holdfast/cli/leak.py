"""``holdfast leak``: what published scores could have given away, and what still holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli._output import print_data

if TYPE_CHECKING:
    from holdfast.planning import Leak


@click.command()
@click.option("--queries", type=float, required=True, help="How many scores were published.")
@click.option(
    "--digits", type=float, required=True, help="Digits after the point of a score between 0 and 1."
)
@click.option("--rows", type=float, required=True, help="Rows of the test set.")
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
def leak(queries: float, digits: float, rows: float, confidence: float, as_json: bool) -> None:
    """For a leaderboard or a reused test set without a guard: what its scores still say."""
    from holdfast.planning import leak as compute

    found = compute(queries, digits, rows, confidence=confidence)
    if as_json:
        print_data({**found.to_dict(), "vacuous": found.vacuous})
    else:
        _show(found)


def _show(found: Leak) -> None:
    console = Console(highlight=False)
    bits = found.nats / math.log(2.0)
    console.print(
        f"{found.queries:,} scores with {found.digits} digits could have told {found.nats:,.0f} nats "
        f"({bits:,.0f} bits) about {found.rows:,} rows.",
        style="bold",
    )
    table = Table("what may be claimed", box=None, pad_edge=False)
    table.add_column("half-width", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for claim, width, remark in _claims(found):
        table.add_row(claim, f"±{width:.3g}", remark, style="red" if width >= 0.5 else "")
    console.print(table)
    verdict = (
        "As they are, the scores say nothing that is certain: use fresh rows."
        if found.vacuous
        else f"Every score is within ±{found.score:.3g} with confidence {found.confidence:g}, "
        "however it was chosen."
    )
    console.print(verdict, style="bold")
    console.print("Rows are taken to be independent, scores to be means of values in [0, 1].", style="dim")


def _claims(found: Leak) -> list[tuple[str, float, str]]:
    coarsest = min(found.by_digits, key=lambda digits: found.by_digits[digits])
    words = "digit" if coarsest == 1 else "digits"
    return [
        ("had no score been used to choose another", found.if_fixed, "what is often claimed"),
        ("the first score", found.at(1), "chosen before anything leaked"),
        ("every score", found.score, "holds, however each was chosen from the ones before"),
        ("the best of them, downwards", found.best, "its true value is at most this much lower"),
        ("one more score, asked now", found.now, "chosen after seeing all"),
        (f"with {coarsest} {words}", found.by_digits[coarsest], "the best number of digits"),
        (f"rounded to {found.rounded.cells} cells", found.rounded.half_width, "the best rounding"),
        (
            "with Gaussian noise on every score",
            found.with_noise,
            "certified: transfer-gaussian of holdfast plan",
        ),
        ("with a code guard", found.with_guard, "a forecast for honest guesses from a third of the rows"),
    ]
