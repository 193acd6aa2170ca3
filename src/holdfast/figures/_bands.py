"""Many runs of one analyst as means and bands: numbers for the table, panels for the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.figures._analyst import Vote
from holdfast.figures._style import Palette, percent, quiet

Floats = NDArray[np.float64]

COLUMNS = ("votes", "training", "reported", "sd", "fresh", "half-width", "answered", "holds", "all hold")


@dataclass(frozen=True)
class Bands:
    """All runs of one method: every array has a line for each run and a column for each size."""

    attributes: Floats
    training: Floats
    reported: Floats
    low: Floats
    high: Floats
    fresh: Floats
    held: Floats

    @classmethod
    def of(cls, runs: Sequence[Sequence[Vote]]) -> Bands:
        """Collect the runs."""
        held = {
            field.name: np.array([[getattr(vote, field.name) for vote in run] for run in runs], dtype=float)
            for field in fields(Vote)
        }
        return cls(**held)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Where the holdout did not refuse."""
        return np.isfinite(self.reported)

    def rows(self, truth: float | None) -> list[tuple[float | None, ...]]:
        """A line for each size; ``truth`` is the true accuracy where it is known, else fresh rows stand for
        it. A method that never answered has None there."""
        true = self.fresh if truth is None else np.full_like(self.fresh, truth)
        holds = (self.low <= true) & (true <= self.high)
        lines: list[tuple[float | None, ...]] = []
        for place, size in enumerate(self.attributes[0]):
            seen = self.answered[:, place]
            reported = self.reported[seen, place]
            numbers = (
                _mean(self.training[:, place]),
                _mean(reported),
                round(float(reported.std()), 4) if len(reported) else None,
                _mean(self.fresh[:, place]),
                _mean((self.high - self.low)[seen, place] / 2),
                _mean(seen.astype(float)),
                _mean(holds[seen, place].astype(float)),
                _mean(self.held[:, place]),
            )
            lines.append((int(size), *numbers))
        return lines


def _mean(values: Floats) -> float | None:
    """To four digits; None where there is nothing to average."""
    return round(float(values.mean()), 4) if len(values) and np.isfinite(values).all() else None


def draw_bands(axes: Any, bands: Bands, colours: Palette, *, intervals: bool) -> None:
    """Accuracy against the number of attributes: training, as reported (with its interval), fresh rows."""
    places = bands.attributes[0]
    answered = bands.answered.any(axis=0)
    if intervals:
        low, high = (
            np.array([column[np.isfinite(column)].mean() for column in end[:, answered].T])
            for end in (bands.low, bands.high)
        )
        axes.fill_between(
            places[answered], low, high, color=colours.reported, alpha=0.13, lw=0, label="interval (95 %)"
        )
    for name, values, colour, style in (
        ("training", bands.training, colours.training, (0, (1, 1.5))),
        ("fresh rows", bands.fresh, colours.fresh, (0, (5, 2))),
        ("reported", bands.reported, colours.reported, "-"),
    ):
        use = np.isfinite(values).any(axis=0)
        columns = [column[np.isfinite(column)] for column in values[:, use].T]
        middle = np.array([column.mean() for column in columns])
        spread = np.array([column.std() for column in columns])
        axes.fill_between(places[use], middle - spread, middle + spread, color=colour, alpha=0.28, lw=0)
        axes.plot(places[use], middle, color=colour, ls=style, lw=2, label=name)
    axes.yaxis.set_major_formatter(percent)
    quiet(axes, colours)
