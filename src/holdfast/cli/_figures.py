"""Numbers and intervals as a terminal shows them."""

from __future__ import annotations

import math

from rich.text import Text

_WIDTH = 40


def picture(
    value: float,
    low: float,
    high: float,
    *,
    span: tuple[float, float],
    mark: float | None = None,
    sign: str = "○",
    style: str = "cyan",
    width: int = _WIDTH,
) -> Text:
    """An interval as a bar on a line that stands for ``span``, with a ``sign`` at ``mark`` if it is given."""

    def place(number: float) -> int:
        inside = (min(max(number, span[0]), span[1]) - span[0]) / (span[1] - span[0])
        return min(width - 1, math.floor(inside * width))

    first, last = place(low), place(high)
    cells = [("─", "dim")] * width
    cells[first : last + 1] = [("━", style)] * (last - first + 1)
    if mark is not None:
        cells[place(mark)] = (sign, "yellow")
    cells[place(value)] = ("●", f"bold {style}")
    return Text.assemble(*cells)


def span_of(kind: str, bounds: tuple[float, float] | None, *places: float) -> tuple[float, float] | None:
    """The line to draw an interval on: all that a share or a mean can be, else a bit more than is drawn."""
    if kind == "share":
        return 0.0, 1.0
    if bounds is not None and kind == "mean":
        return bounds
    known = [place for place in places if math.isfinite(place)]
    room = 0.1 * (max(known) - min(known)) if known else 0.0
    return (min(known) - room, max(known) + room) if room > 0 else None


def meter(share: float, width: int = 20) -> str:
    """A bar for what is left of something.

    >>> meter(0.5, width=8)
    '████░░░░'
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)
