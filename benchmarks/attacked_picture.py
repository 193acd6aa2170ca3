"""Certified and real errors of every method as pictures, for light and for dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacked_tables import worst
from peers import non_adaptive_error

from holdfast.lab import Palette, blank, quiet, save

ROWS_SHOWN, QUERIES_SHOWN = 10**4, 10**2

Line = dict[str, Any]


def draw(real: dict[str, Any], folder: Path) -> list[str]:
    """Write the pictures; their names."""
    points = [line for line in real["points"] if line["attack"] != "chain" and line["runs"]]
    if not points:
        return []
    at_rows, at_queries = _nearest(points, "rows", ROWS_SHOWN), _nearest(points, "queries", QUERIES_SHOWN)
    names = [method["name"] for method in real["methods"]]
    return [
        *save("attacked", folder, lambda colours: _picture(names, at_rows, "queries", "questions", colours)),
        *save("attacked-rows", folder, lambda colours: _picture(names, at_queries, "rows", "rows", colours)),
    ]


def _nearest(points: list[Line], key: str, wanted: int) -> list[Line]:
    """The lines at the place that is wanted, or as near as there are some."""
    nearest = min((line[key] for line in points), key=lambda value: abs(math.log(value / wanted)))
    return [line for line in points if line[key] == nearest]


def _picture(names: list[str], points: list[Line], key: str, label: str, colours: Palette) -> Any:
    shown = [name for name in names if any(line["method"] == name for line in points)]
    columns = 6 if len(shown) <= 18 else 7
    lines = -(-len(shown) // columns)
    figure = blank(1.9 * columns, 2.1 * lines + 0.6, colours)
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    places = sorted({line[key] for line in points})
    for panel, name in zip(axes.flat, shown, strict=False):
        _panel(panel, name, points, key, places, colours)
    for panel in list(axes.flat)[len(shown) :]:
        panel.set_visible(False)
    for column in range(columns):
        last = max(line for line in range(lines) if line * columns + column < len(shown))
        axes[last, column].set_xlabel(label, color=colours.ink)
        axes[last, column].tick_params(labelbottom=True)
    handles, titles = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=4, frameon=False, labelcolor=colours.ink)
    return figure


def _panel(panel: Any, name: str, points: list[Line], key: str, places: list[int], colours: Palette) -> None:
    def each(statistic: Callable[[list[Line]], float | None], of: str = name) -> list[float]:
        picked = [[p for p in points if p["method"] == of and p[key] == place] for place in places]
        values = [statistic(lines) if lines else None for lines in picked]
        return [float("nan") if value is None else value for value in values]

    limits = [non_adaptive_error(*_place(points, key, place), 0.05) for place in places]
    bottom = min(limits) / 3
    # What is smaller than the picture is drawn on its lower edge.
    real = [max(error, bottom) for error in each(_real)]
    panel.plot(places, each(_certified), color=colours.fresh, lw=2, marker="o", ms=3.5, label="certified")
    panel.plot(places, real, color=colours.reported, lw=2, marker="o", ms=3.5, label="real, worst attack")
    panel.plot(places, limits, color=colours.ink, lw=1, ls=(0, (4, 3)), label="questions fixed in advance")
    gains = each(_gain, "naive reuse")
    panel.plot(
        places,
        gains,
        color=colours.training,
        lw=1.2,
        ls=(0, (1, 2)),
        label="the sign attack on exact answers",
    )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_ylim(bottom * 0.85, 0.7)
    panel.minorticks_off()
    panel.set_title(name.replace(", as in its", ","), color=colours.ink, loc="left", fontsize=9)
    quiet(panel, colours)


def _place(points: list[Line], key: str, place: int) -> tuple[int, int]:
    line = next(line for line in points if line[key] == place)
    return line["rows"], line["queries"]


def _certified(lines: list[Line]) -> float | None:
    widest = [line["certified"] for line in lines if line["certified"] is not None]
    return max(widest) if widest else None


def _real(lines: list[Line]) -> float | None:
    hardest = worst(lines)
    return None if hardest is None else hardest["mean real error"]


def _gain(lines: list[Line]) -> float | None:
    return next((line["mean gain"] for line in lines if line["attack"] == "sign"), None)
