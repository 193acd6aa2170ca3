"""Nonsense correlations with a real series: coins tossed every quarter, compared with 260 years of sunspots.

The months of a quarter share their coins and the number of sunspots changes slowly, so 1,560 months of
holdout are 520 independent rows. The sunspots are fixed numbers here and the coins are ours: whatever the
series is like, quarters are independent given it, and every vote agrees with it half of the time. No model of
the series is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.dependence import Clusters
from holdfast.guard import CodeHoldout, ReusableHoldout
from holdfast.lab._analyst import COLUMNS, Bands, Holdout, PlainHoldout, Sample, Vote, analyse, draw_bands
from holdfast.lab._figures import FigureTable, Palette, Progress, blank, quiet, save
from holdfast.workers import Workers, run_all

COINS = 400
QUARTER = 3
SIZES = (1, 3, 5, 7, 9, 13, 19, 27, 37, 49)
REUSABLE = {"threshold": 0.08, "noise": 0.005, "budget": 40}
METHODS = (
    "naive reuse",
    "code guard, rows taken for independent",
    "reusable holdout, quarters",
    "code guard, quarters",
)


@dataclass(frozen=True)
class Sunspots:
    """Monthly sunspot numbers from January 1749 to December 2008, and which months are above the median."""

    years: NDArray[np.float64]
    numbers: NDArray[np.float64]

    @classmethod
    def load(cls) -> Sunspots:
        """The series shipped with the package (source: ``holdfast/data/README.md``)."""
        text = resources.files("holdfast.data").joinpath("sunspots.csv").read_text(encoding="utf-8")
        table = np.array([line.split(",") for line in text.split()[1:]], dtype=float)
        return cls(table[:, 0] + (table[:, 1] - 0.5) / 12, table[:, 2])

    @property
    def active(self) -> NDArray[np.bool_]:
        """Months with more spots than half of all months."""
        above: NDArray[np.bool_] = self.numbers > np.median(self.numbers)
        return above


def draw_coins(rng: np.random.Generator, active: NDArray[np.bool_], coins: int = COINS) -> Sample:
    """Where each of ``coins`` coins, tossed every quarter, agrees with the sun."""
    tossed = rng.integers(0, 2, (coins, len(active) // QUARTER), dtype=np.int8)
    return Sample.of(np.repeat(tossed, QUARTER, axis=1) == active)


def _holdout_of(method: str, train: Sample, holdout: Sample, rng: np.random.Generator) -> Holdout:
    quarters = Clusters((QUARTER,) * (holdout.rows // QUARTER))
    if method == METHODS[0]:
        return PlainHoldout(holdout)
    if method == METHODS[1]:
        return CodeHoldout(train, holdout)
    if method == METHODS[3]:
        return CodeHoldout(train, holdout, dependence=quarters)
    settings: dict[str, Any] = {**REUSABLE, "simulation": True, "seed": rng}
    return ReusableHoldout(train, holdout, dependence=quarters, **settings)


def run_once(rng: np.random.Generator, active: NDArray[np.bool_]) -> dict[str, list[Vote]]:
    """One analyst for each method, all on the same coins: the first 130 years for training."""
    half = len(active) // (2 * QUARTER) * QUARTER
    train, holdout = draw_coins(rng, active[:half]), draw_coins(rng, active[half:])
    return {
        method: analyse(
            _holdout_of(method, train, holdout, rng), train, SIZES, lambda chosen, signs: 0.5, truth=0.5
        )
        for method in METHODS
    }


def _run(run: int, active: Any) -> dict[str, list[Vote]]:
    return run_once(np.random.default_rng([1749, run]), active)


def series(folder: Path, *, runs: int, progress: Progress, workers: Workers = 1) -> FigureTable:
    """The same analyst, with methods that know that the months of a quarter go together, and without."""
    sun = Sunspots.load()
    all_votes: dict[str, list[list[Vote]]] = {method: [] for method in METHODS}
    jobs = [(run, sun.active) for run in range(runs)]
    for votes_of in run_all(_run, jobs, workers=workers, progress=progress):
        for method, votes in votes_of.items():
            all_votes[method].append(votes)
    bands = {method: Bands.of(votes) for method, votes in all_votes.items()}
    rows = tuple((method, *line) for method, band in bands.items() for line in band.rows(0.5))
    files = save("series", folder, lambda colours: _picture(sun, bands, colours))
    table = FigureTable(
        name="series",
        title="Quarterly coins compared with monthly sunspots, 1749–2008",
        runs=runs,
        columns=("method", *COLUMNS),
        groups=1,
        rows=rows,
        notes=(
            f"{len(sun.numbers):,} months, the first half for training; {COINS} coins, tossed every quarter.",
            "reusable holdout: " + ", ".join(f"{name} {value}" for name, value in REUSABLE.items()) + ".",
            "fresh is the true agreement, ½; holds: how often the reported interval (95 %) contains "
            "it; all hold: how often every interval so far did.",
            "Sunspots: National Geophysical Data Center, NOAA; public domain.",
        ),
        files=(*files, "series.csv", "series.json"),
    )
    table.write(folder)
    return table


def _picture(sun: Sunspots, bands: dict[str, Bands], colours: Palette) -> Any:
    figure = blank(10.5, 6.8, colours)
    upper, lower = figure.subfigures(2, 1, height_ratios=(1, 1.7))
    for half in (upper, lower):
        half.set_facecolor(colours.paper)
    _draw_sun(upper.subplots(), sun, colours)
    grid = lower.subplots(1, len(METHODS), sharey=True)
    for axes, method in zip(grid, METHODS, strict=True):
        draw_bands(axes, bands[method], colours)
        axes.axhline(0.5, color=colours.ink, lw=0.8)
        axes.set_title(
            method.replace(", ", "\n"), color=colours.ink, fontweight="bold", loc="left", fontsize=10
        )
        axes.set_xlabel("coins in the vote", color=colours.ink)
    grid[0].set_ylabel("agreement with the sun", color=colours.ink)
    handles, names = grid[0].get_legend_handles_labels()
    names = ["truth" if name == "fresh rows" else name for name in names]
    lower.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, labelcolor=colours.ink)
    return figure


def _draw_sun(axes: Any, sun: Sunspots, colours: Palette) -> None:
    """The series, its active months filled, and where training ends."""
    axes.plot(sun.years, sun.numbers, color=colours.training, lw=0.5)
    middle = float(np.median(sun.numbers))
    axes.fill_between(
        sun.years, middle, np.maximum(sun.numbers, middle), color=colours.reported, alpha=0.5, lw=0
    )
    axes.axvline(1879, color=colours.ink, lw=1, ls=(0, (4, 3)))
    for place, words, side in ((1876, "training", "right"), (1882, "holdout", "left")):
        axes.text(
            place, 1.0, words, color=colours.ink, ha=side, va="top", transform=axes.get_xaxis_transform()
        )
    axes.set_xlim(1749, 2009)
    axes.set_ylim(0, None)
    axes.set_title(
        "Sunspots a month, above the median filled", color=colours.ink, fontweight="bold", loc="left", pad=10
    )
    quiet(axes, colours)
