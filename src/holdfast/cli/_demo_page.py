"""What ``holdfast demo`` shows: its page, the picture in it, and its words in a terminal."""

from __future__ import annotations

import html
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli._output import filled, picture
from holdfast.lab import TRUTH, AnsweredQuestion, Claim, Story
from holdfast.records import interval_words


def page(story: Story) -> str:
    """The story as a page, with its picture for wide and narrow screens."""
    asking_nats = sum(question.answer.cost for question in story.told)
    searching_nats = story.guard.nats or 0.0
    return filled(
        "demo_page.html",
        rows=f"{story.rows:,}",
        half=f"{story.certificate.numbers['protected rows']:,}",
        population=f"{story.population:,}",
        columns=f"{story.columns:,}",
        seed=story.seed,
        lead=_lead(story),
        discoveries=story.naive.missed,
        picture_style=_PICTURE_STYLE.strip(),
        picture=drawn(story) + drawn(story, narrow=True),
        claims="\n".join(_claim_row(claim) for claim in story.claims),
        told="\n".join(_question_row(question) for question in story.told),
        count=len(story.told),
        once=html.escape(story.once),
        asking=f"{asking_nats:.2g}",
        searching=f"{searching_nats:.2g}",
        asking_share=f"{100 * asking_nats / (asking_nats + searching_nats):.1f}",
        attacked_nats=f"{story.attacked.nats:.0f}",
        left=html.escape(story.left),
        statement=html.escape(story.certificate.statement),
        theorem=html.escape(story.certificate.theorem),
        checked=_list(story.certificate.checked),
        assumed=_list(story.certificate.assumed),
    )


def _lead(story: Story) -> str:
    averages = f'<span class="naive">Plain averages report {story.naive.value:.1%}</span>'
    odds = f". By their intervals, luck reaches this only with odds of {_powers(story.luck)}."
    holdfast = '<span class="guard">Holdfast’s intervals contain the truth</span>'
    return (
        averages
        + (", and this time their interval contains the truth. " if story.naive.holds else f"{odds} ")
        + (f"{holdfast}, even when it is attacked on purpose." if story.held else html.escape(story.moral[1]))
    )


def _claim_row(claim: Claim) -> str:
    about = {
        "Plain averages": "of every row, with an exact 95% interval that ignores the search",
        "One holdout, used once": (
            "a third of the rows chooses the direction of each coin; "
            "the others measure once how often the vote is right"
        ),
        "Holdfast": "the same questions, guesses from its training third",
        "Holdfast, attacked": "guesses on the edges of its cells, so that every answer reveals one bit",
    }[claim.who]
    kind = "holds" if claim.holds else "misses"
    missed = (
        f"the intervals of {claim.missed:,} single coins miss"
        if claim.missed
        else "the intervals of all single coins hold too"
    )
    if claim.missed is None:
        missed = "says nothing about single coins"
    return (
        f'<tr class="{kind}"><th scope="row">{html.escape(claim.who)}<small>{about}</small></th>'
        f'<td data-label="says">{claim.value:.1%}</td>'
        f'<td data-label="95% interval">{claim.low:.1%} to {claim.high:.1%}'
        f"{_bar(claim.low, claim.high, claim.value, (0.3, 0.85), TRUTH)}</td>"
        f'<td data-label="truth 50%"><b>{kind}</b><small>{missed}</small></td></tr>'
    )


def _question_row(question: AnsweredQuestion) -> str:
    answer = question.answer
    value, interval = interval_words(answer.value, answer.low, answer.high)
    room = 0.25 * (answer.high - answer.low)
    places = (answer.low, answer.high, question.truth, answer.guess)
    span = (min(places) - room, max(places) + room)
    verdict = "near its guess" if answer.confirmed else f"surprise (guess {answer.guess:g})"
    truth = f"{question.truth:,.0f}" if question.truth > 10 else f"{question.truth:.3f}"
    return (
        f'<tr><th scope="row">{html.escape(question.words)}<code>{html.escape(str(answer.query))}</code></th>'
        f'<td data-label="answer">{value}</td><td data-label="interval">{interval}'
        f"{_bar(answer.low, answer.high, answer.value, span, question.truth)}</td>"
        f'<td data-label="truth">{truth}</td><td data-label="cost">{answer.cost:.2g} nats'
        f"<small>{verdict}</small></td></tr>"
    )


def _bar(low: float, high: float, value: float, span: tuple[float, float], truth: float) -> str:
    """An interval as a small drawing that takes its colours from the page; the tick is the truth."""
    start, end, dot, tick = (
        200 * (min(max(place, span[0]), span[1]) - span[0]) / (span[1] - span[0])
        for place in (low, high, value, truth)
    )
    return (
        '<svg class="bar" viewBox="0 0 200 14" preserveAspectRatio="xMinYMid" aria-hidden="true">'
        '<line class="axis" x1="0" x2="200" y1="7" y2="7"/>'
        f'<rect x="{start:.1f}" y="4.5" width="{end - start:.1f}" height="5" rx="2.5"/>'
        f'<line class="truth" x1="{tick:.1f}" x2="{tick:.1f}" y1="0" y2="14"/>'
        f'<circle cx="{dot:.1f}" cy="7" r="2.6"/></svg>'
    )


def _list(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)


def _powers(text: str) -> str:
    """10^18 with its exponent raised."""
    base, caret, exponent = html.escape(text).partition("^")
    return f"{base}<sup>{exponent}</sup>" if caret else base


# The colours of the picture beside those of the page.
_PICTURE_STYLE = """
.picture { display: block; width: 100%; height: auto; font: 14px system-ui, sans-serif; }
.picture text { fill: var(--ink); }
.picture .title { font-size: 16px; font-weight: 700; }
.picture .holds { stroke: var(--guard); fill: var(--guard); }
.picture .misses { stroke: var(--naive); fill: var(--naive); }
.picture .plain { stroke: var(--faint); fill: var(--faint); }
.picture .guarded { fill: var(--guard); opacity: .24; }
.picture .report { stroke-width: 6; stroke-linecap: round; }
.picture circle { stroke: var(--paper) !important; stroke-width: 2; }
.picture .truth { stroke: var(--ink); stroke-dasharray: 5 4; }
.picture .rule { stroke: var(--faint); }
.picture text.holds, .picture text.misses { stroke: none; }
.picture text.holds { fill: var(--guard); } .picture text.misses { fill: var(--naive); }
.picture .behind { fill: var(--paper); }
"""
_OWN_COLOURS = """
svg { --paper: #ffffff; --ink: #1c1917; --faint: #78716c; --naive: #c2410c; --guard: #1d5fa8; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #16181d; --ink: #e7e5e4; --faint: #9ca3af; --naive: #fb923c; --guard: #7fb4f2; }
}
"""


@dataclass(frozen=True)
class ShareScale:
    """Places of shares along one side of a chart."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, shares: Sequence[float], start: float, end: float) -> ShareScale:
        """A scale that shows all of these with a little room at the ends."""
        low, high = min(shares), max(shares)
        room = 0.04 * (high - low)
        return cls(low - room, high + room, start, end)

    def __call__(self, share: float) -> float:
        return self.start + (self.end - self.start) * (share - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[float]:
        """Round shares on this scale, at most ``most`` of them."""
        for percent in (1, 2, 5, 10, 20, 50):
            first = math.ceil(100 * self.low / percent - 1e-9)
            last = math.floor(100 * self.high / percent + 1e-9)
            if last - first < most:
                return [percent * i / 100 for i in range(first, last + 1)]
        return []


def drawn(story: Story, *, narrow: bool = False, alone: bool = False) -> str:
    """The story as one SVG picture that follows light and dark.

    ``narrow`` is for a phone, where the letters of a wide picture would be too small. ``alone`` is for a file
    of its own; in the page, the colours come from the page."""
    width, height = (420, 800) if narrow else (800, 750)
    style = f"<style>{_OWN_COLOURS}{_PICTURE_STYLE}</style>" if alone else ""
    paper = f'<rect width="{width}" height="{height}" fill="var(--paper)"/>' if alone else ""
    kind = "narrow" if narrow else "wide"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture {kind}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{html.escape(_in_words(story))}">{style}{paper}'
        f"{_votes(story, width, narrow=narrow)}{_coins(story, width, height, narrow=narrow)}</svg>"
    )


def _in_words(story: Story) -> str:
    claims = (
        f"{claim.who}: {claim.low:.1%} to {claim.high:.1%}, {'holds' if claim.holds else 'misses'}"
        for claim in story.claims
    )
    return f"Intervals around the truth, 50%. {'; '.join(claims)}."


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _votes(story: Story, width: int, *, narrow: bool) -> str:
    """The reports about one vote, and the truth as a line."""
    left, right, top, step = (14, width - 14, 100, 70) if narrow else (130, width - 16, 92, 64)
    bottom = top + step * len(story.claims) - 34
    ends = [end for claim in story.claims for end in (claim.low, claim.high)]
    place = ShareScale.over([*ends, TRUTH], left, right)
    title = f"How often is the vote of {story.columns} coin flips right?"
    parts = [
        _text(0 if narrow else left, 20, title, "title"),
        _line(place(TRUTH), 58, place(TRUTH), bottom, "truth"),
        _text(place(TRUTH), 50, "the truth", anchor="middle"),
        _line(left, bottom, right, bottom, "rule"),
    ]
    for share in place.ticks(5 if narrow else 9):
        parts.append(_text(place(share), bottom + 20, f"{share:.0%}", anchor="middle"))
    anchor = "start" if narrow else "middle"
    for i, claim in enumerate(story.claims):
        y = top + step * i
        kind = "holds" if claim.holds else "misses"
        verdict = f"{claim.value:.1%}, {kind}"
        parts.append(_line(place(claim.low), y, place(claim.high), y, f"report {kind}"))
        parts.append(f'<circle cx="{place(claim.value):.1f}" cy="{y}" r="6.5" class="{kind}"/>')
        # On a phone there is no room for names beside the lines, so they stand above them.
        words = f"{claim.who}: {verdict}" if narrow else verdict
        half = 3.9 * len(words)  # about half as wide as the words, for the paper behind them
        middle = half if narrow else min(max(place(claim.value), left + half), right - half)
        parts.append(
            f'<rect x="{middle - half:.1f}" y="{y - 29}" width="{2 * half:.1f}" height="19" class="behind"/>'
        )
        parts.append(_text(middle - half if narrow else middle, y - 14, words, kind, anchor))
        if narrow:
            continue
        lines = claim.who.replace(", ", ",\n").split("\n")
        for row, line in enumerate(lines):
            parts.append(_text(left - 14, y + 5 + 18 * (row - (len(lines) - 1) / 2), line, anchor="end"))
    return "".join(parts)


def _coins(story: Story, width: int, height: int, *, narrow: bool) -> str:
    """Every coin, from the one that seems to agree least to the one that seems to agree most."""
    left, right, top, bottom = (46, width - 4, 500, height - 66) if narrow else (130, width - 16, 440, 690)
    order = sorted(range(story.columns), key=lambda i: story.plain_shares[i].value)
    guarded = [story.guarded_shares[i] for i in order]
    plain = [story.plain_shares[i].interval for i in order]
    ends = [end for answer in guarded for end in (answer.low, answer.high)]
    ends += [end for interval in plain for end in (interval.low, interval.high)]
    place = ShareScale.over(ends, bottom, top)
    coin_width = (right - left) / len(order)
    band, strokes = [], []
    for i, (answer, interval) in enumerate(zip(guarded, plain, strict=True)):
        x = left + coin_width * i
        band.append(
            f"M{x:.1f} {place(answer.low):.1f}V{place(answer.high):.1f}"
            f"h{coin_width:.2f}V{place(answer.low):.1f}z"
        )
        kind = "plain" if interval.contains(TRUTH) else "misses"
        middle = x + coin_width / 2
        strokes.append(_line(middle, place(interval.low), middle, place(interval.high), kind))
    missed = sum(not interval.contains(TRUTH) for interval in plain)
    title = "What each coin flip seems to know on its own"
    start = 0 if narrow else left
    parts = [
        _text(start, top - 60 if not narrow else top - 94, title, "title"),
        *_legend(start, top, missed, narrow=narrow),
        f'<path d="{"".join(band)}" class="guarded"/>',
        f'<g stroke-width="{min(coin_width * 0.55, 6):.2f}">{"".join(strokes)}</g>',
        _line(left, place(TRUTH), right, place(TRUTH), "truth"),
        _line(left, bottom, right, bottom, "rule"),
    ]
    for share in place.ticks(8):
        parts.append(_text(left - 8, place(share) + 5, f"{share:.0%}", anchor="end"))
    for coin in (1, (len(order) + 1) // 2, len(order)):
        place_of_coin, anchor = left + coin_width * (coin - 0.5), "end" if coin == len(order) else "middle"
        parts.append(_text(place_of_coin, bottom + 20, str(coin), anchor=anchor))
    under = "sorted by how often it agrees with “expensive”"
    parts.append(
        _text(
            (left + right) / 2, bottom + 44, f"coin flip, {under}" if not narrow else under, anchor="middle"
        )
    )
    return "".join(parts)


def _legend(x: float, top: float, missed: int, *, narrow: bool) -> list[str]:
    """What the colours mean: in a row, or one below the other on a phone."""
    entries = (
        ("guarded", "95% intervals: Holdfast"),
        ("plain", "plain"),
        ("misses", f"plain, misses the truth ({missed} “discoveries”)"),
    )
    parts = []
    y = top - (72 if narrow else 34)
    for kind, words in entries:
        parts.append(f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="22" height="12" class="{kind}"/>')
        parts.append(_text(x + 30, y + 1, words))
        x, y = (x, y + 24) if narrow else (x + 54 + 6.8 * len(words), y)
    return parts


# What the line behind the reports stands for: they lie around one half.
_SPAN_SHOWN = (0.25, 0.9)


def show_story(console: Console, story: Story, page: Path) -> None:
    """Tell the story and say where the page is."""
    stones = escape(str(page.with_name("stones.csv")))
    for part in (
        f"[bold]{story.rows:,} stones drawn from {story.population:,} diamonds.[/] First, honest questions; "
        "all intervals hold together with probability 95%.",
        _questions(story, console.width),
        f"[bold]Then {story.columns:,} coin flips for each stone.[/] They know nothing about prices. The "
        "analyst asks how often each coin agrees with “expensive”, keeps the direction of the answer, and "
        f"lets all coins vote. How often is the vote right? The truth is {TRUTH:.0%}.",
        _claims(story, console.width),
        *(f"[bold]{sentence}[/]" for sentence in story.moral),
        f"\nThe page: [bold]{escape(str(page))}[/]. To continue: [cyan]{escape(_program())} ask {stones}[/]",
    ):
        console.print(part)


def _program() -> str:
    """How to start this program again: by its name, or through the interpreter that runs it."""
    if Path(sys.argv[0]).name != "__main__.py":
        return "holdfast"
    return f"{os.path.relpath(sys.executable)} -m holdfast"


def _questions(story: Story, width: int) -> Table:
    """The honest questions with their answers; on a narrow terminal only what the reader must see."""
    names = ("question", "answer", "interval", "truth", "found", "nats")
    shown = names if width >= 70 else ("question", "interval", "truth")
    table = Table(*shown, box=box.SIMPLE_HEAD, pad_edge=False)
    for question in story.told:
        value, interval = interval_words(question.answer.value, question.answer.low, question.answer.high)
        cells = {
            "question": escape(question.words),
            "answer": value,
            "interval": escape(interval),
            "truth": f"{question.truth:.0f}" if question.truth > 10 else f"{question.truth:.3f}",
            "found": "near its guess" if question.answer.confirmed else "[yellow]surprise[/]",
            "nats": f"{question.answer.cost:.2g}",
        }
        table.add_row(*(cells[name] for name in shown))
    return table


def _claims(story: Story, width: int) -> Table:
    """The reports about the vote. They are drawn where the terminal has room for that."""
    room = min(22, width - 61)
    drawing = room >= 8
    table = Table("who", "says", "95% interval", box=box.SIMPLE_HEAD, pad_edge=False)
    for _ in range(1 + drawing):
        table.add_column("", no_wrap=True)
    for claim in story.claims:
        colour = "green" if claim.holds else "red"
        cells = [claim.who, f"{claim.value:.1%}", f"{claim.low:.1%} to {claim.high:.1%}"]
        verdict = f"[bold {colour}]{'holds' if claim.holds else 'MISSES'}[/]"
        if drawing:
            ends = (claim.value, claim.low, claim.high)
            bar = picture(*ends, span=_SPAN_SHOWN, mark=TRUTH, sign="│", style=colour, width=room)
            table.add_row(*cells, bar, verdict)
        else:
            table.add_row(*cells, verdict)
    return table
