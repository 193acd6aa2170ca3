"""``holdfast plan``, ``explain`` and ``leak``: what methods promise, before any question is asked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli._output import json_option, print_data
from holdfast.records import interval_words

if TYPE_CHECKING:
    from holdfast.planning import Leak, Plan, PlanEntry, RecipeLeak, RecipeLimit
    from holdfast.stability import Path as NotionPath
    from holdfast.typing import BoundForm, NotionName, PromiseKind


@click.command()
@click.option("--queries", type=float, required=True, help="How many adaptive questions there will be.")
@click.option("--rows", type=float, help="The number of rows. Shows which error can be promised.")
@click.option("--error", type=float, help="The error to promise. Shows how many rows it needs.")
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="The probability with which the promise holds.",
)
@click.option(
    "--surprises", type=float, help="How many answers may differ from what the training rows suggest."
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
    help="Plan replicable means instead. Two laboratories may differ with this probability. Needs --error.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw a picture into this file."
)
@json_option
def plan(
    queries: float,
    rows: float | None,
    error: float | None,
    confidence: float,
    surprises: float | None,
    promise: PromiseKind,
    rho: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare all methods for one promise.

    Give --rows to see errors, --error to see rows, or both to see how many questions each method allows. Rows
    are assumed to be independent. For other models call holdfast.plan(dependence=…) in Python. With --rho,
    the command compares the rows that replicable means need.
    """
    if rho is not None:
        if error is None or rows is not None or surprises is not None or plot is not None:
            raise click.UsageError(
                "With --rho, give --queries and --error. Leave out --rows, --surprises and --plot."
            )
        _show_several(queries, error, rho, confidence, as_json)
        return
    from holdfast.planning import plan as make_plan

    methods = make_plan(
        queries=queries, confidence=confidence, error=error, rows=rows, surprises=surprises, promise=promise
    )
    if plot is not None:
        from holdfast.planning import plot_plan

        try:
            plot_plan(methods).savefig(plot, dpi=150)
        except ValueError as error:
            raise click.UsageError(f"Cannot draw into {plot}: {error}.") from None
    if as_json:
        print_data(methods.to_dict())
    else:
        _show_plan(methods)


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
    console.print("All assume: independent rows, values in [0, 1], a shared tape.", style="dim")


def _show_plan(methods: Plan) -> None:
    console = Console(highlight=False)
    console.print(methods.headline(), style="bold", markup=False)
    computed = ("error", "rows", "queries").index(methods.solved_for)
    table = Table("", "method", box=None, pad_edge=False)
    table.add_column(("error", "rows", "questions")[computed], justify="right", no_wrap=True)
    table.add_column("assumes", overflow="fold")
    common = set(methods.setting.assumptions)
    for entry in methods.table:
        cells = methods.cells(entry)
        best = entry is methods.best
        style = "bold green" if best else "" if entry.recommendable else "dim"
        number = escape(cells[1 + computed])
        table.add_row(
            "→" if best else "", cells[0], number, escape(_assumption_words(entry, common)), style=style
        )
    console.print(table)
    if methods.other_questions():
        console.print(methods.other_questions(), markup=False)
    console.print("All assume: " + " ".join(methods.setting.assumptions), style="dim", markup=False)


def _assumption_words(entry: PlanEntry, common: set[str]) -> str:
    if entry.reason:
        return f"not valid: {entry.reason}"
    own = [sentence for sentence in entry.assumptions if sentence not in common]
    unstated = [f"Not recommended: {entry.unstated}"] if entry.unstated else []
    return " ".join([*own, *unstated, *filter(None, [entry.note])])


@click.command()
@click.argument("notion")
@click.option(
    "--to", required=True, help="The notion to get: dp, replicable, max-information, one-way, typical, …"
)
@click.option("--rows", "n", type=float, help="The number of rows that the algorithm reads.")
@click.option(
    "--beta", type=float, help="The failure probability of the max-information.  [default: the best]"
)
@click.option("--outcomes", type=float, help="How many outputs the algorithm can have.")
@click.option("--analyses", type=float, help="How many analyses of the same rows, one after another.")
@click.option("--epsilon", type=float, help="The epsilon that a transformation must reach.")
@click.option("--delta", type=float, help="The delta that a transformation must reach.")
@click.option(
    "--method",
    type=click.Choice(["sharp", "paper"]),
    default="sharp",
    show_default=True,
    help="sharp: the best bounds that are known. paper: the bounds as they are printed.",
)
@json_option
def explain(notion: str, to: NotionName, method: BoundForm, as_json: bool, **context: Any) -> None:
    """Convert one notion of stability into another.

    NOTION is, for example, "dp(0.01, 1e-9)". Shows each step with its theorem, its price in rows and its
    numbers. SIS, TS and BDP name papers, which docs/theory/README.md in the repository lists.
    """
    from holdfast import stability  # takes as long as all of --help, and only this command needs it

    path = stability.explain(stability.parse_notion(notion), to, method=method, **context)
    if as_json:
        print_data(path.to_dict())
    else:
        _show_path(path)


def _show_path(path: NotionPath) -> None:
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


# The values of --compressor. Importing them would take longer than printing the help.
_COMPRESSORS = ("best", "none", "deflate", "bzip2", "lzma")


@click.command()
@click.option("--queries", type=float, help="How many scores were published.")
@click.option("--digits", type=float, help="Digits after the point of a score between 0 and 1.")
@click.option("--rows", type=float, required=True, help="Rows of the test set.")
@click.option(
    "--recipe",
    "file",
    type=click.Path(path_type=Path),
    help="The winner, written as a file. Shows what its --score is worth, whatever was looked at.",
)
@click.option(
    "--choices",
    type=float,
    help="Instead of --recipe: the winner is one of this many configurations, listed beforehand.",
)
@click.option("--score", type=float, help="With --recipe or --choices: the average score of the rows.")
@click.option("--fractions", is_flag=True, help="With --score: rows may score fractions, not only 0 or 1.")
@click.option("--baseline", type=float, help="With --score: the score without any skill.  [default: 0.5]")
@click.option(
    "--compressor",
    type=click.Choice(_COMPRESSORS),
    help="With --recipe: a compressor that was fixed beforehand, or the best of all.  [default: best]",
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="The probability with which the interval holds.",
)
@json_option
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
    """Show what the scores of a reused test set still say.

    The scores may be those of a leaderboard. They were given without a guard.

    \b
      holdfast leak --queries 500 --digits 4 --rows 20000
      holdfast leak --recipe train.py --rows 10000 --score 0.95

    The first form is about all published scores. The second form is about one winner: its score still says
    something if everything that was chosen by looking at the rows fits into a short file.
    """
    if file is None and choices is None:
        given = {"--score": score, "--baseline": baseline, "--compressor": compressor}
        extra = [name for name, value in given.items() if value is not None] + ["--fractions"] * fractions
        if extra:
            raise click.UsageError(f"{extra[0]} needs --recipe FILE or --choices M.")
        if queries is None or digits is None:
            missing = "--queries" if queries is None else "--digits"
            raise click.UsageError(f"Missing option '{missing}' (or --recipe FILE, or --choices M).")
        from holdfast.planning import leak as compute

        leaked = compute(queries, digits, rows, confidence=confidence)
        if as_json:
            print_data({**leaked.to_dict(), "vacuous": leaked.vacuous})
        else:
            _show_leak(leaked)
        return
    if queries is not None:
        raise click.UsageError(
            "--queries is about published scores. Leave it out with --recipe or --choices."
        )
    if file is not None and choices is not None:
        raise click.UsageError("--recipe and --choices contradict each other. Give one of them.")
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
    console.print(_length_words(worth, name), style="bold", markup=False)
    value, interval = interval_words(worth.score, worth.low, worth.high)
    console.print(
        f"A score of {value} on {worth.rows:,} rows: with confidence {worth.confidence:g} the true score "
        f"is in {interval}, whatever was looked at.",
        markup=False,
    )
    if worth.vacuous:
        console.print(
            f"This says nothing: the interval contains {worth.baseline:g}, the score without skill.",
            style="red",
        )
    console.print("How short a recipe must be to say something, for this score on these rows:", style="bold")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for limit in worth.limits:
        table.add_row(f"±{limit.half_width:g}", _limit_words(limit, worth.choices))
    side = "above" if worth.score > worth.baseline else "below"
    table.add_row(f"{side} {worth.baseline:g}", _limit_words(worth.nothing, worth.choices))
    console.print(table)
    console.print("A longer recipe says nothing: luck could have given it this score.")
    if worth.choices is None:
        console.print("You may shorten the file and try again: the intervals of all files hold at once.")
    console.print("What must be true:", style="dim")
    for sentence in worth.assumptions:
        console.print(f"- {sentence}", style="dim", markup=False)


def _length_words(worth: RecipeLeak, name: str) -> str:
    if worth.choices is not None:
        return f"A choice among {worth.choices:,} configurations is a recipe of {worth.nats:,.1f} nats."
    packed = "" if worth.compressor == "none" else f", {worth.length:,} after {worth.compressor}"
    return f"{name} has {worth.file_bytes:,} bytes{packed}: a recipe of {worth.nats:,.1f} nats."


def _limit_words(limit: RecipeLimit, choices: int | None) -> str:
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


def _show_leak(leaked: Leak) -> None:
    console = Console(highlight=False)
    bits = leaked.nats / math.log(2.0)
    console.print(
        f"{leaked.queries:,} scores with {leaked.digits} digits may have revealed {leaked.nats:,.0f} nats "
        f"({bits:,.0f} bits) about {leaked.rows:,} rows.",
        style="bold",
    )
    table = Table("claim", box=None, pad_edge=False)
    table.add_column("half-width", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for claim, width, remark in _claims(leaked):
        table.add_row(claim, f"±{width:.3g}", remark, style="red" if width >= 0.5 else "")
    console.print(table)
    verdict = (
        "The scores say nothing with certainty: use fresh rows."
        if leaked.vacuous
        else f"Every score is within ±{leaked.score:.3g} with confidence {leaked.confidence:g}, "
        "however it was chosen."
    )
    console.print(verdict, style="bold")
    console.print(
        "This assumes independent rows, and scores that are means of values in [0, 1].", style="dim"
    )


def _claims(leaked: Leak) -> list[tuple[str, float, str]]:
    coarsest = min(leaked.by_digits, key=lambda digits: leaked.by_digits[digits])
    words = "digit" if coarsest == 1 else "digits"
    return [
        ("if no score was used to choose another", leaked.if_fixed, "what people often claim"),
        ("the first score", leaked.at(1), "chosen before anything leaked"),
        ("every score", leaked.score, "valid even if each was chosen after the earlier ones"),
        ("the best of them", leaked.best, "its true value is at most this much lower"),
        ("one more score, asked now", leaked.now, "chosen after all scores were seen"),
        (f"with {coarsest} {words}", leaked.by_digits[coarsest], "the best number of digits"),
        (f"rounded to {leaked.rounded.cells} cells", leaked.rounded.half_width, "the best rounding"),
        (
            "with Gaussian noise on every score",
            leaked.with_noise,
            "certified: transfer-gaussian of holdfast plan",
        ),
        ("with a code guard", leaked.with_guard, "a forecast for honest guesses from a third of the rows"),
    ]
