"""Figures: how they look on light and on dark pages, the table that each comes with, and how one is drawn.

A figure is one function in a module of its own. It runs an experiment, writes its pictures and its table, and
returns the table. The module is imported when its figure is drawn. The benchmarks of a checkout, which draw
figures of their own, are found and run here too.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import holdfast
from holdfast import checks
from holdfast.errors import HoldfastError, MissingExtra
from holdfast.records import Record
from holdfast.workers import Workers, checked

THEMES = ("light", "dark")
_COLOURS = 128
_BENCHMARKS = "benchmarks"


@dataclass(frozen=True)
class Palette:
    """Colours by what they stand for."""

    paper: str
    ink: str
    faint: str
    training: str
    reported: str
    fresh: str


PALETTES = {
    "light": Palette("#ffffff", "#1c1917", "#a8a29e", "#78716c", "#c2410c", "#1d5fa8"),
    "dark": Palette("#16181d", "#e7e5e4", "#57606c", "#9ca3af", "#fb923c", "#7fb4f2"),
}


def blank(width: float, height: float, colours: Palette) -> Any:
    """An empty figure. Needs the extra ``plots``."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise MissingExtra("plots", what="A figure") from None
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08, hspace=0.06, wspace=0.04)
    return Figure(figsize=(width, height), layout=layout, facecolor=colours.paper)


def quiet(axes: Any, colours: Palette) -> None:
    """No frame, thin ticks, text in ink."""
    axes.set_facecolor(colours.paper)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(colours.faint)
    axes.grid(axis="y", color=colours.faint, lw=0.5, alpha=0.35)
    axes.set_axisbelow(True)
    axes.tick_params(colors=colours.faint, labelcolor=colours.ink, length=3)
    axes.tick_params(axis="y", length=0)


def percent(share: float, _: object) -> str:
    """A share as an axis shows it."""
    return f"{share:.0%}"


def save(name: str, folder: Path, picture: Callable[[Palette], Any]) -> tuple[str, ...]:
    """Write the picture for light and for dark pages, in few colours to keep files small; their names."""
    written = []
    for theme in THEMES:
        drawn = io.BytesIO()
        picture(PALETTES[theme]).savefig(drawn, format="png", dpi=130)
        target = folder / f"{name}-{theme}.png"
        _few_colours(drawn, target)
        written.append(target.name)
    return tuple(written)


def _few_colours(drawn: io.BytesIO, target: Path) -> None:
    from PIL import Image  # comes with matplotlib

    with Image.open(drawn) as image:
        reduced = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        reduced.save(target, optimize=True)


Progress = Callable[[int, int], None]


@dataclass(frozen=True, repr=False)
class FigureTable(Record):
    """What a figure shows, in numbers: ``columns``, ``rows`` of values, and ``notes`` on how to read them.

    The first ``groups`` columns say what a row belongs to; ``files`` are the names of what was written.

    Args:
        name: The name of the figure.
        title: Its heading.
        runs: How often the experiment was run.
    """

    name: str
    title: str
    runs: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    groups: int = 0
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"FigureTable({self.name!r}, {len(self.rows)} rows, {self.runs} runs)"

    def write(self, folder: Path) -> None:
        """Write ``name.csv`` and ``name.json``.

        Args:
            folder: Where the files go.
        """
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(self.columns)
            lines.writerows(self.rows)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")


FIGURES = {
    "holdout": "holdfast.lab._holdout",
    "series": "holdfast.lab._series",
    "correlated": "holdfast.lab._correlated",
    "barriers": "holdfast.lab._barriers",
}
"""Where each figure lives: a module with a function of the same name."""


def draw(
    name: str, folder: Path, *, runs: int, progress: Progress | None = None, workers: Workers = 1
) -> FigureTable:
    """Run the experiment behind one figure and write its pictures and its table.

    Args:
        name: One of ``FIGURES``.
        folder: Where the files go.
        runs: How often the experiment is run.
        progress: Called with the number of runs done and the number of runs in all.
        workers: Who shares the runs (see :mod:`holdfast.workers`). The figure does not depend on it.
    """
    checks.choice(name, "name", tuple(FIGURES), of="draw")
    runs = checks.whole(runs, "runs", of="draw")
    function = getattr(importlib.import_module(FIGURES[name]), name)
    workers = checked(workers, of="draw")
    table: FigureTable = function(
        folder, runs=runs, progress=progress or (lambda done, total: None), workers=workers
    )
    return table


def run_benchmarks(
    output: Path, *, work: float = 1e9, workers: int = 2, progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Run the comparison with peers and write numbers, a page of tables and pictures.

    The peers are not part of the installed package, so this runs in a checkout of the repository. Attacks
    that finished before an interruption are not run again.

    Args:
        output: The folder to write. It is made where there is none.
        work: How many entries an attack draws at each place of the grid. 0 leaves attacks out.
        workers: How many processes attack.
        progress: Called with the name of a stage, how much of it is done, and how much there is.

    Returns:
        The ``summary``, the ``findings`` in words, and the names of the ``files`` that were written.
    """
    work = checks.real(work, "work", "[0, inf)", of="holdfast bench")
    workers = checks.whole(workers, "workers", of="holdfast bench")
    report = _load("report")
    output.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = report.run(output, work, workers, progress)
    return results


def _load(name: str) -> ModuleType:
    """Import a module of the benchmarks of this checkout."""
    for root in (Path(holdfast.__file__).resolve().parents[2], Path.cwd()):
        folder = root / _BENCHMARKS
        if (folder / f"{name}.py").is_file():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return importlib.import_module(name)
    raise HoldfastError(
        "The benchmarks are not part of the installed package: clone the repository and run "
        "`holdfast bench` inside it."
    )
