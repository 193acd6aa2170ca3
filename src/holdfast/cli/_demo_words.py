"""The demo's story in a terminal: two tables and a moral."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli._figures import picture
from holdfast.demo import TRUTH, Story
from holdfast.records import interval_words

# What the line behind the reports stands for: they lie around one half.
_SPAN = (0.25, 0.9)


def show(console: Console, story: Story, page: Path) -> None:
    """Tell the story and say where the page is."""
    stones = escape(str(page.with_name("stones.csv")))
    for part in (
        f"[bold]{story.rows:,} stones drawn from {story.population:,} diamonds.[/] First, honest questions; "
        "all intervals hold together with probability 95%.",
        _questions(story),
        f"[bold]Then {story.columns:,} coin flips for each stone.[/] They know nothing about prices. The "
        "analyst asks how often each coin agrees with “expensive”, keeps the direction of the answer, and "
        f"lets all coins vote. How often is the vote right? The truth is {TRUTH:.0%}.",
        _claims(story),
        *(f"[bold]{sentence}[/]" for sentence in story.moral),
        f"\nThe page: [bold]{escape(str(page))}[/]. To go on: [cyan]holdfast ask {stones}[/]",
    ):
        console.print(part)


def _questions(story: Story) -> Table:
    table = Table(
        "question", "answer", "interval", "truth", "found", "nats", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for told in story.told:
        value, interval = interval_words(told.answer.value, told.answer.low, told.answer.high)
        table.add_row(
            escape(told.words),
            value,
            escape(interval),
            f"{told.truth:.0f}" if told.truth > 10 else f"{told.truth:.3f}",
            "near its guess" if told.answer.confirmed else "[yellow]surprise[/]",
            f"{told.answer.cost:.2g}",
        )
    return table


def _claims(story: Story) -> Table:
    table = Table("who", "says", "95% interval", "", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for claim in story.claims:
        colour = "green" if claim.holds else "red"
        drawn = picture(
            claim.value, claim.low, claim.high, span=_SPAN, mark=TRUTH, sign="│", style=colour, width=22
        )
        verdict = f"[bold {colour}]{'holds' if claim.holds else 'MISSES'}[/]"
        table.add_row(claim.who, f"{claim.value:.1%}", f"{claim.low:.1%} to {claim.high:.1%}", drawn, verdict)
    return table
