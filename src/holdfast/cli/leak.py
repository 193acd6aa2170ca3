"""``holdfast leak``: what published scores could have given away, and what still holds.

With ``--recipe``: what a score is worth if its winner can be written down.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli._output import print_data
from holdfast.records import interval_words

if TYPE_CHECKING:
    from holdfast.planning import Leak, RecipeLeak, RecipeLimit

# The value of --compressor; spelled out because importing the room takes longer than printing the help.
_COMPRESSORS = ("best", "none", "deflate", "bzip2", "lzma")


@click.command()
@click.option("--queries", type=float, help="How many scores were published.")
@click.option("--digits", type=float, help="Digits after the point of a score between 0 and 1.")
@click.option("--rows", type=float, required=True, help="Rows of the test set.")
@click.option(
    "--recipe",
    "file",
    type=click.Path(path_type=Path),
    help="The winner, written as a file: how much its --score is worth, whatever was looked at.",
)
@click.option("--choices", type=float, help="Instead of --recipe: one of so many, listed before.")
@click.option("--score", type=float, help="With --recipe or --choices: the average score of the rows.")
@click.option("--fractions", is_flag=True, help="With --score: rows score fractions, and not only 0 or 1.")
@click.option("--baseline", type=float, help="With --score: the score that takes no skill.  [default: 0.5]")
@click.option(
    "--compressor",
    type=click.Choice(_COMPRESSORS),
    help="With --recipe: one that was fixed beforehand, or the best of all.  [default: best]",
)
@click.option("--confidence", type=float, default=0.95, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print data instead of a table.")
def leak(
    queries: float | None,
    digits: float | None,
    rows: float,
    file: Path | None,
    choices: float | None,
    score: float | None,
    fractions: bool,
    baseline: float | None,
    compressor: str | None,
    confidence: float,
    as_json: bool,
) -> None:
    """For a leaderboard or a reused test set without a guard: what its scores still say.

    \b
      holdfast leak --queries 500 --digits 4 --rows 20000
      holdfast leak --recipe train.py --rows 10000 --score 0.95

    The first form is about all scores that were published. The second one is about one winner: if everything
    that was chosen by looking at the rows fits into a short file, its score still says something.
    """
    if file is None and choices is None:
        given = {"--score": score, "--baseline": baseline, "--compressor": compressor}
        extra = [name for name, value in given.items() if value is not None] + ["--fractions"] * fractions
        if extra:
            raise click.UsageError(f"{extra[0]} needs --recipe FILE or --choices M.")
        missing = [name for name, value in (("--queries", queries), ("--digits", digits)) if value is None]
        if missing:
            raise click.UsageError(f"Missing option '{missing[0]}' (or --recipe FILE, or --choices M).")
        from holdfast.planning import leak as compute

        told = compute(queries, digits, rows, confidence=confidence)
        if as_json:
            print_data({**told.to_dict(), "vacuous": told.vacuous})
        else:
            _show(told)
        return
    if queries is not None:
        raise click.UsageError("--queries is about published scores: leave it out here.")
    if file is not None and choices is not None:
        raise click.UsageError("--recipe and --choices contradict each other: give one of them.")
    if choices is not None and compressor is not None:
        raise click.UsageError("--compressor needs --recipe FILE.")
    if score is None:
        raise click.UsageError("Missing option '--score': the winner's average score on the rows.")
    from holdfast.planning import recipe

    worth = recipe(
        file,
        rows=rows,
        score=score,
        confidence=confidence,
        binary=not fractions,
        digits=digits,
        compressor=compressor or "best",
        choices=choices,
        baseline=0.5 if baseline is None else baseline,
    )
    if as_json:
        print_data({**worth.to_dict(), "half_width": worth.half_width, "vacuous": worth.vacuous})
    else:
        _show_recipe(worth, "the recipe" if file is None else str(file))


def _show_recipe(worth: RecipeLeak, name: str) -> None:
    console = Console(highlight=False)
    console.print(_length(worth, name), style="bold", markup=False)
    value, interval = interval_words(worth.score, worth.low, worth.high)
    console.print(
        f"A score of {value} on {worth.rows:,} rows: with confidence {worth.confidence:g} the true score "
        f"is in {interval}, whatever was looked at.",
        markup=False,
    )
    if worth.vacuous:
        console.print(
            f"That tells nothing: the interval contains {worth.baseline:g}, the score that takes no skill.",
            style="red",
        )
    console.print("What length would be worth writing, for this score on these rows:", style="bold")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for limit in worth.limits:
        table.add_row(f"±{limit.half_width:g}", _limit(limit, worth.choices))
    side = "above" if worth.score > worth.baseline else "below"
    table.add_row(f"{side} {worth.baseline:g}", _limit(worth.nothing, worth.choices))
    console.print(table)
    console.print("A recipe longer than that tells nothing: luck could have given it this score.")
    if worth.choices is None:
        console.print("You may shorten the file and try again: the intervals of all files hold at once.")
    console.print("What must be true:", style="dim")
    for sentence in worth.assumptions:
        console.print(f"- {sentence}", style="dim", markup=False)


def _length(worth: RecipeLeak, name: str) -> str:
    if worth.choices is not None:
        return f"A choice among {worth.choices:,} configurations is a recipe of {worth.nats:,.1f} nats."
    packed = "" if worth.compressor == "none" else f", {worth.length:,} after {worth.compressor}"
    return f"{name} has {worth.file_bytes:,} bytes{packed}: a recipe of {worth.nats:,.1f} nats."


def _limit(limit: RecipeLimit, choices: int | None) -> str:
    if limit.nats is None:
        return "no recipe is short enough: the rows are too few"
    nats = f"{limit.nats:,.1f} nats"
    if choices is not None:
        return f"at most {nats}, a choice among {_power_of_ten(limit.nats)} configurations"
    if limit.length == 0:
        return f"at most {nats}: no file is short enough, but a choice among {_power_of_ten(limit.nats)} is"
    return f"at most {limit.length:,} bytes after compression ({nats})"


def _power_of_ten(nats: float) -> str:
    """exp(nats), rounded down, for a person."""
    return f"{math.floor(math.exp(nats)):,}" if nats < 20 else f"10^{math.floor(nats / math.log(10.0))}"


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
