"""The certified errors as a picture, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from certified import NOTHING, PROMISES, QUERIES, ROWS

from holdfast.lab import Palette, blank, quiet, save

SHOWN = (10**4, 10**6)


def draw(grid: dict[str, Any], folder: Path) -> list[str]:
    """Write the pictures; their names."""
    return list(save("certified", folder, lambda colours: _picture(grid["points"], colours)))


def _picture(points: list[dict[str, Any]], colours: Palette) -> Any:
    shown = [rows for rows in ROWS if rows in SHOWN]
    figure = blank(10.5, 6.4, colours)
    axes = figure.subplots(len(shown), len(PROMISES), sharex=True, sharey="row")
    for line, rows in zip(axes, shown, strict=True):
        for place, promise in zip(line, PROMISES, strict=True):
            here = [p for p in points if (p["rows"], p["promise"]) == (rows, promise)]
            _panel(place, here, colours)
            place.set_title(f"{rows:,} rows, {promise}", color=colours.ink, loc="left", fontsize=10)
    for place in axes[-1]:
        place.set_xlabel("questions", color=colours.ink)
    for place in axes[:, 0]:
        place.set_ylabel("certified error", color=colours.ink)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, labelcolor=colours.ink)
    return figure


def _panel(place: Any, points: list[dict[str, Any]], colours: Palette) -> None:
    for name in points[0]["peers"]:
        errors = [p["peers"][name] if p["peers"][name] < NOTHING else float("nan") for p in points]
        place.plot(QUERIES, errors, color=colours.faint, lw=0.8, alpha=0.8)
    place.plot([], [], color=colours.faint, lw=0.8, label="each peer")
    for key, colour, label in (
        ("peer error", colours.fresh, "best peer"),
        ("error", colours.reported, "our best"),
    ):
        errors = [p[key] if p[key] < NOTHING else float("nan") for p in points]
        place.plot(QUERIES, errors, color=colour, lw=2, marker="o", ms=3.5, label=label)
    limits = [p["limit"] for p in points]
    place.plot(QUERIES, limits, color=colours.ink, lw=1, ls=(0, (4, 3)), label="questions fixed in advance")
    place.set_xscale("log")
    place.set_yscale("log")
    quiet(place, colours)
