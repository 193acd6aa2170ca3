"""Figures: each is one function that runs an experiment, writes its pictures and numbers, and returns them.

A figure is looked up by name and its module imported only then; ``holdfast figures`` draws them.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from holdfast import checks
from holdfast.figures._style import FigureTable, Progress
from holdfast.workers import Workers, checked

__all__ = ["FIGURES", "FigureTable", "Progress", "draw"]

FIGURES = {
    "holdout": "holdfast.figures._holdout",
    "series": "holdfast.figures._series",
    "correlated": "holdfast.figures._correlated",
    "barriers": "holdfast.figures._barriers",
}
"""Where each figure lives: a module with a function of the same name."""


def draw(
    name: str, folder: Path, *, runs: int, progress: Progress | None = None, workers: Workers = 1
) -> FigureTable:
    """Run the experiment behind one figure ``runs`` times and write its pictures and its table to ``folder``.

    ``progress`` is called with the number of runs done and the number there will be. ``workers`` share the
    runs (see :mod:`holdfast.workers`); the figure is the same for any number of them.

    Args:
        name: One of ``FIGURES``.
    """
    checks.choice(name, "name", tuple(FIGURES), of="draw")
    runs = checks.whole(runs, "runs", of="draw")
    function = getattr(importlib.import_module(FIGURES[name]), name)
    workers = checked(workers, of="draw")
    table: FigureTable = function(
        folder, runs=runs, progress=progress or (lambda done, total: None), workers=workers
    )
    return table
