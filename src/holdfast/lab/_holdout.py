"""Figures 2 and 3 of BDP with our data: a linear threshold classifier built through a holdout.

10,000 attributes of 10,000 rows for each of training, holdout and fresh data, correlated within groups of
five; the label is a fair coin, and in the second row of the picture 20 attributes agree with it in 53 % of
rows. The analyst is that of Dwork et al. 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.guard import CodeHoldout, ReusableHoldout
from holdfast.lab._analyst import (
    COLUMNS,
    Bands,
    Holdout,
    PlainHoldout,
    Sample,
    Vote,
    analyse,
    bands_of_runs,
    draw_bands,
)
from holdfast.lab._figures import FigureTable, Palette, Progress, blank, save
from holdfast.workers import Workers

ROWS = ATTRIBUTES = 10_000
GROUP = 5  # attributes of one group copy a common coin in half of the rows: correlation ¼
TELLING, AGREEMENT = 20, 0.53
SIZES = (0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500)
REUSABLE = {"threshold": 0.04, "noise": 0.0025, "budget": 40}
METHODS = ("naive reuse", "reusable holdout", "code guard")
LABELS = ("no signal", "signal")


def draw_sample(
    rng: np.random.Generator,
    *,
    rows: int = ROWS,
    attributes: int = ATTRIBUTES,
    group: int = GROUP,
    telling: int = 0,
) -> Sample:
    """Agreements of ``attributes`` fair coins with the label, ``telling`` of them at 53 %.

    Whatever an attribute's value, its agreement with a label that is a fair coin of its own is a fair coin.
    """
    width = (rows + 7) // 8
    bits = _coins(rng, attributes, width)
    if group > 1:
        common = np.repeat(_coins(rng, -(-attributes // group), width), group, axis=0)[:attributes]
        copies = _coins(rng, attributes, width)
        bits = (bits & ~copies) | (common & copies)
    if telling:
        bits[:telling] = np.packbits(rng.random((telling, 8 * width)) < AGREEMENT, axis=1)
    if rows % 8:
        bits[:, -1] &= np.uint8((0xFF << (8 - rows % 8)) & 0xFF)
    return Sample(bits, rows)


def _coins(rng: np.random.Generator, count: int, width: int) -> Any:
    return np.frombuffer(rng.bytes(count * width), dtype=np.uint8).reshape(count, width)


def _holdout_of(method: str, train: Sample, holdout: Sample, rng: np.random.Generator) -> Holdout:
    if method == "naive reuse":
        return PlainHoldout(holdout)
    if method == "code guard":
        return CodeHoldout(train, holdout)
    return ReusableHoldout(train, holdout, **REUSABLE, simulation=True, seed=rng)  # type: ignore[arg-type]


def run_once(
    rng: np.random.Generator, telling: int, draw: Callable[..., Sample] = draw_sample
) -> dict[str, list[Vote]]:
    """One analyst for each method, all on the same rows."""
    train, holdout, unseen = (draw(rng, telling=telling) for _ in range(3))

    def fresh(chosen: Any, signs: Any) -> float:
        return float(unseen.votes(chosen, signs).mean())

    truth = None if telling else 0.5
    return {
        method: analyse(_holdout_of(method, train, holdout, rng), train, SIZES, fresh, truth=truth)
        for method in METHODS
    }


def _run(place: int, run: int) -> dict[str, list[Vote]]:
    return run_once(np.random.default_rng([2015, place, run]), (0, TELLING)[place])


def holdout(folder: Path, *, runs: int, progress: Progress, workers: Workers = 1) -> FigureTable:
    """Naive reuse, the reusable holdout and the code guard, each with the same analyst on the same data."""
    bands = bands_of_runs(_run, LABELS, runs, workers=workers, progress=progress)
    rows = tuple(
        (label, method, *line)
        for (label, method), band in bands.items()
        for line in band.rows(0.5 if label == LABELS[0] else None)
    )
    files = save("holdout", folder, lambda colours: _picture(bands, colours))
    table = FigureTable(
        name="holdout",
        title="A linear threshold classifier built through a holdout",
        runs=runs,
        columns=("labels", "method", *COLUMNS),
        groups=2,
        rows=rows,
        notes=(
            f"{ROWS:,} rows for each of training, holdout and fresh data, {ATTRIBUTES:,} attributes.",
            "reusable holdout: " + ", ".join(f"{name} {value}" for name, value in REUSABLE.items()) + ".",
            "holds: how often the reported interval (95 %) contains the true accuracy, ½ without "
            "signal, that on fresh rows with it; all hold: how often every interval so far contained its "
            "true value.",
        ),
        files=(*files, "holdout.csv", "holdout.json"),
    )
    table.write(folder)
    return table


def _picture(bands: dict[tuple[str, str], Bands], colours: Palette) -> Any:
    figure = blank(10.5, 6.6, colours)
    grid = figure.subplots(len(LABELS), len(METHODS), sharex=True, sharey="row")
    for line, label in zip(grid, LABELS, strict=True):
        for axes, method in zip(line, METHODS, strict=True):
            draw_bands(axes, bands[label, method], colours)
            if label == LABELS[0]:
                axes.set_title(method, color=colours.ink, fontweight="bold", loc="left")
            else:
                axes.set_xlabel("attributes in the vote", color=colours.ink)
        words = "no attribute knows anything" if label == LABELS[0] else f"{TELLING} attributes know a little"
        line[0].set_ylabel(f"accuracy\n{words}", color=colours.ink)
    handles, names = grid[0][0].get_legend_handles_labels()
    legend = figure.legend(
        handles, names, loc="outside lower center", ncols=4, frameon=False, labelcolor=colours.ink
    )
    for handle in legend.get_lines():
        handle.set_linewidth(3)
    return figure
