"""What ``holdfast demo`` shows: its page, the pictures in it, and its words in a terminal."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli._output import filled, picture
from holdfast.distribution import pip_install
from holdfast.errors import MissingExtra
from holdfast.lab import TRUTH, Claim, Story, Told
from holdfast.records import interval_words


def page(story: Story, pictures: Pictures | None) -> str:
    """The story as a page, with its pictures for light, dark and narrow screens; None where they were not
    drawn."""
    asking = sum(question.answer.cost for question in story.told)
    searching = story.guard.nats or 0.0
    return filled(
        "demo_page.html",
        rows=f"{story.rows:,}",
        half=f"{story.certificate.numbers['protected rows']:,}",
        population=f"{story.population:,}",
        columns=f"{story.columns:,}",
        seed=story.seed,
        lead=_lead(story),
        discoveries=story.naive.missed,
        picture=_picture(story, pictures),
        claims="\n".join(_claim(claim) for claim in story.claims),
        told="\n".join(_told(question) for question in story.told),
        count=len(story.told),
        once=html.escape(story.once),
        asking=f"{asking:.2g}",
        searching=f"{searching:.2g}",
        asking_share=f"{100 * asking / (asking + searching):.1f}",
        attacked_nats=f"{story.attacked.nats:.0f}",
        left=html.escape(story.left),
        statement=html.escape(story.certificate.statement),
        theorem=html.escape(story.certificate.theorem),
        checked=_list(story.certificate.checked),
        assumed=_list(story.certificate.assumed),
    )


def _lead(story: Story) -> str:
    averages = f'<span class="naive">Plain averages report {story.naive.value:.1%}</span>'
    odds = f", which luck would reach with odds of {_powers(story.luck)}."
    holdfast = '<span class="guard">Holdfast’s intervals contain the truth</span>'
    return (
        averages
        + (", and this time their interval contains the truth. " if story.naive.holds else f"{odds} ")
        + (f"{holdfast}, even when it is attacked on purpose." if story.held else html.escape(story.moral[1]))
    )


def _picture(story: Story, pictures: Pictures | None) -> str:
    if pictures is None:
        install = f"<code>{html.escape(pip_install('plots'))}</code>"
        return f'<p class="note">There is a picture too: {install}, and run the demo again.</p>'
    claims = (
        f"{claim.who}: {claim.low:.1%} to {claim.high:.1%}, {'holds' if claim.holds else 'misses'}"
        for claim in story.claims
    )
    words = f"Intervals around the truth, 50%. {'; '.join(claims)}."
    dark, narrow = "(prefers-color-scheme: dark)", "(max-width: 40rem)"
    sources = (
        (f"{dark} and {narrow}", pictures.dark_narrow),
        (narrow, pictures.light_narrow),
        (dark, pictures.dark),
    )
    chosen = "".join(
        f'<source media="{condition}" srcset="{_embedded(drawn)}">' for condition, drawn in sources
    )
    return f'<picture>{chosen}<img src="{_embedded(pictures.light)}" alt="{html.escape(words)}"></picture>'


def _embedded(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _claim(claim: Claim) -> str:
    about = {
        "Plain averages": "of every row, with an exact 95% interval that takes no notice of the search",
        "One holdout, used once": "a third of the rows turns the coins; the others say once how often the "
        "vote is right",
        "Holdfast": "the same questions, guesses from its training third",
        "Holdfast, attacked": "guesses on the edges of its cells, so that every answer gives away one bit",
    }[claim.who]
    kind = "holds" if claim.holds else "misses"
    missed = f"{claim.missed:,} of the single coins miss" if claim.missed else "all single coins hold too"
    if claim.missed is None:
        missed = "says nothing about single coins"
    return (
        f'<tr class="{kind}"><th scope="row">{html.escape(claim.who)}<small>{about}</small></th>'
        f'<td data-label="says">{claim.value:.1%}</td>'
        f'<td data-label="95% interval">{claim.low:.1%} to {claim.high:.1%}'
        f"{_bar(claim.low, claim.high, claim.value, (0.3, 0.85), TRUTH)}</td>"
        f'<td data-label="truth 50%"><b>{kind}</b><small>{missed}</small></td></tr>'
    )


def _told(question: Told) -> str:
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


@dataclass(frozen=True)
class _Palette:
    paper: str
    ink: str
    faint: str
    naive: str
    guard: str
    pale: str


_PALETTES = {
    "light": _Palette("#ffffff", "#1c1917", "#78716c", "#c2410c", "#1d5fa8", "#cfe0f3"),
    "dark": _Palette("#16181d", "#e7e5e4", "#9ca3af", "#fb923c", "#7fb4f2", "#2b415c"),
}
_DASHES = (0, (4, 3))


@dataclass(frozen=True)
class Pictures:
    """The story as PNGs: for light and dark pages, and for narrow screens, where letters would be too small
    otherwise."""

    light: bytes
    dark: bytes
    light_narrow: bytes
    dark_narrow: bytes

    @classmethod
    def of(cls, story: Story) -> Pictures:
        """Draw them all. Needs the extra ``plots``."""
        drawn = (_drawn(story, theme, narrow=narrow) for narrow in (False, True) for theme in _PALETTES)
        return cls(*drawn)


def _drawn(story: Story, theme: str, *, narrow: bool) -> bytes:
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise MissingExtra("plots", what="The demo's picture") from None
    colours = _PALETTES[theme]
    figure = Figure(
        figsize=(4.2, 7.4) if narrow else (8, 7.4),
        layout=ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.12),
        facecolor=colours.paper,
    )
    upper, lower = figure.subplots(2, 1, height_ratios=(1.2, 1.25))
    _draw_votes(upper, story, colours, narrow=narrow)
    _draw_coins(lower, story, colours, narrow=narrow)
    for axes in (upper, lower):
        _quiet(axes, colours)
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=200 if narrow else 150, metadata={"Software": None})
    return held.getvalue()


def _draw_votes(axes: Any, story: Story, colours: _Palette, *, narrow: bool) -> None:
    """The reports about one vote, and the truth as a line."""
    claims = story.claims[::-1]
    axes.axvline(TRUTH, color=colours.ink, lw=1, ls=_DASHES, zorder=1)
    for place, claim in enumerate(claims):
        colour = colours.guard if claim.holds else colours.naive
        axes.plot([claim.low, claim.high], [place, place], color=colour, lw=6, solid_capstyle="round")
        axes.plot(claim.value, place, "o", ms=10, color=colour, mec=colours.paper, mew=2)
        verdict = f"{claim.value:.1%}, {'holds' if claim.holds else 'misses'}"
        # Where there is no room for names beside the lines, they stand above them.
        axes.annotate(
            f"{claim.who}: {verdict}" if narrow else verdict,
            (0 if narrow else claim.value, place),
            (0, 10),
            xycoords=axes.get_yaxis_transform() if narrow else "data",
            textcoords="offset points",
            ha="left" if narrow else "center",
            va="bottom",
            color=colour,
            bbox={"facecolor": colours.paper, "edgecolor": "none", "pad": 1.5},
        )
    names = ["" if narrow else claim.who.replace(", ", ",\n") for claim in claims]
    axes.set_yticks(range(len(claims)), names, fontsize=11)
    axes.set_ylim(-0.4, len(claims) - 0.3)
    axes.text(TRUTH, len(claims) - 0.25, "the truth", color=colours.ink, ha="center", va="bottom")
    axes.xaxis.set_major_formatter(_percent)
    gap = "\n" if narrow else " "
    title = f"How often is the vote of{gap}{story.columns} coin flips right?"
    axes.set_title(title, loc="left", pad=22, color=colours.ink, fontweight="bold")


def _draw_coins(axes: Any, story: Story, colours: _Palette, *, narrow: bool) -> None:
    """Every coin, from the one that seems to agree least to the one that seems to agree most."""
    order = np.argsort([share.value for share in story.plain_shares], kind="stable")
    places = np.arange(1, len(order) + 1)
    guarded = [story.guarded_shares[i] for i in order]
    plain = [story.plain_shares[i].interval for i in order]
    axes.fill_between(
        places,
        [answer.low for answer in guarded],
        [answer.high for answer in guarded],
        step="mid",
        color=colours.pale,
        lw=0,
        label="Holdfast",
    )
    misses = np.array([not interval.contains(TRUTH) for interval in plain])
    lows, highs = np.array([(interval.low, interval.high) for interval in plain]).T
    discoveries = f"plain, misses the truth ({misses.sum()}{'' if narrow else ' “discoveries”'})"
    for chosen, colour, label in ((~misses, colours.faint, "plain"), (misses, colours.naive, discoveries)):
        axes.vlines(places[chosen], lows[chosen], highs[chosen], color=colour, lw=1.2, label=label)
    axes.axhline(TRUTH, color=colours.ink, lw=1, ls=_DASHES, zorder=3)
    axes.set_xlim(0.5, len(order) + 0.5)
    gap = "\n" if narrow else " "
    label = f"coin flip, sorted by how often{gap}it agrees with “expensive”"
    axes.set_xlabel(label, color=colours.ink)
    axes.yaxis.set_major_formatter(_percent)
    title = f"What each coin flip seems to know{gap}on its own: 95% intervals"
    axes.set_title(title, loc="left", pad=58 if narrow else 26, color=colours.ink, fontweight="bold")
    legend = axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 0.985),
        ncols=1 if narrow else 3,
        frameon=False,
        labelcolor=colours.ink,
        borderpad=0,
        borderaxespad=0.3,
    )
    for handle in legend.legend_handles:
        handle.set_linewidth(6)


def _percent(share: float, _: object) -> str:
    return f"{share:.0%}"


def _quiet(axes: Any, colours: _Palette) -> None:
    axes.set_facecolor(colours.paper)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(colours.faint)
    axes.tick_params(colors=colours.faint, labelcolor=colours.ink, length=3)
    axes.tick_params(axis="y", length=0)


# What the line behind the reports stands for: they lie around one half.
_SPAN_SHOWN = (0.25, 0.9)


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
    for question in story.told:
        value, interval = interval_words(question.answer.value, question.answer.low, question.answer.high)
        table.add_row(
            escape(question.words),
            value,
            escape(interval),
            f"{question.truth:.0f}" if question.truth > 10 else f"{question.truth:.3f}",
            "near its guess" if question.answer.confirmed else "[yellow]surprise[/]",
            f"{question.answer.cost:.2g}",
        )
    return table


def _claims(story: Story) -> Table:
    table = Table("who", "says", "95% interval", "", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for claim in story.claims:
        colour = "green" if claim.holds else "red"
        drawn = picture(
            claim.value, claim.low, claim.high, span=_SPAN_SHOWN, mark=TRUTH, sign="│", style=colour, width=22
        )
        verdict = f"[bold {colour}]{'holds' if claim.holds else 'MISSES'}[/]"
        table.add_row(claim.who, f"{claim.value:.1%}", f"{claim.low:.1%} to {claim.high:.1%}", drawn, verdict)
    return table
