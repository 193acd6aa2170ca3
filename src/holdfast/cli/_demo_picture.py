"""The demo's picture: what was reported about the vote of the coins, and what each coin seemed to say."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.demo import TRUTH, Story
from holdfast.errors import MissingExtra


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
        drawn = (_picture(story, theme, narrow=narrow) for narrow in (False, True) for theme in _PALETTES)
        return cls(*drawn)


def _picture(story: Story, theme: str, *, narrow: bool) -> bytes:
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
