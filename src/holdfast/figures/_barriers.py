"""Rows against columns for plain, private and replicable marginals: the quadratic gap (SIS section 5)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.barriers import one_way_marginals_bound, sign_one_way_marginals_bound
from holdfast.figures._barrier_rows import (
    ACCURACY,
    ALGORITHMS,
    BETA,
    PRIVATE,
    REPLICABLE,
    proven_rows,
    rows_needed,
)
from holdfast.figures._style import Palette, blank, quiet, save
from holdfast.figures._table import FigureTable, Progress
from holdfast.stability import DP, Replicability
from holdfast.workers import Workers, run_all

COLUMNS = (32, 128, 512, 2048)
TRIALS = 100
CONFIDENCE = 0.95

Floats = NDArray[np.float64]


def measure(runs: int, progress: Progress, workers: Workers = 1) -> dict[tuple[str, str], Floats]:
    """Logarithms of the rows needed: for each problem and algorithm a line a run, a column for each d."""
    measured = run_all(_run, [(run,) for run in range(runs)], workers=workers, progress=progress)
    return {key: np.array([lines[key] for lines in measured]) for key in measured[0]}


def _run(run: int) -> dict[tuple[str, str], list[float]]:
    logs: dict[tuple[str, str], list[float]] = {}
    for place, d in enumerate(COLUMNS):
        for i, problem in enumerate(ACCURACY):
            for k, (name, stability, method) in enumerate(ALGORITHMS):
                seed = [5, run, place, i, k]
                rows = rows_needed(problem, stability, method, d, trials=TRIALS, seed=seed)
                logs.setdefault((problem, name), []).append(math.log(rows))
    return logs


def slopes(logs: Floats) -> Floats:
    """The least-squares slope of each run's line, rows against columns on logarithmic scales."""
    x = np.log(COLUMNS)
    x = x - x.mean()
    slope: Floats = logs @ x / (x @ x)
    return slope


def interval(values: Floats) -> tuple[float | None, float | None]:
    """Student's interval for the mean over runs; nothing from a single run."""
    if len(values) < 2:
        return None, None
    reach = float(special.stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2.0) * values.std(ddof=1))
    reach /= math.sqrt(len(values))
    return float(values.mean()) - reach, float(values.mean()) + reach


def impossible_rows(problem: str, stability: DP | Replicability | None, d: int) -> int | None:
    """Fewer rows than this are not enough for anybody."""
    if stability is None:
        return None
    bound = one_way_marginals_bound if problem == "marginals" else sign_one_way_marginals_bound
    return bound(d, accuracy=ACCURACY[problem], beta=BETA, stability=stability)


def barriers(folder: Path, *, runs: int, progress: Progress, workers: Workers = 1) -> FigureTable:
    """Measure the rows that each promise needs as columns are added, and draw them with the lower bounds."""
    log_rows = measure(runs, progress, workers)
    files = save("barriers", folder, lambda colours: _picture(log_rows, colours))
    lines: list[tuple[Any, ...]] = []
    for (problem, name), logs in log_rows.items():
        stability, method = next((s, m) for n, s, m in ALGORITHMS if n == name)
        for place, d in enumerate(COLUMNS):
            measured = (logs[:, place].mean(), *interval(logs[:, place]))
            rows = (None if value is None else float(f"{math.exp(value):.4g}") for value in measured)
            proven = proven_rows(problem, stability, method, d)
            lines.append((problem, name, d, *rows, proven, impossible_rows(problem, stability, d)))
    table = FigureTable(
        name="barriers",
        title="Rows needed for marginals and for their signs, against the number of columns",
        runs=runs,
        columns=("problem", "promise", "d", "rows", "low", "high", "proven", "too few"),
        rows=tuple(lines),
        notes=(
            f"Accuracy {ACCURACY['marginals']} (marginals), {ACCURACY['signs']} on average (signs), except "
            f"for {BETA:.0%} of {TRIALS} trials a run; private: {PRIVATE}; replicable: {REPLICABLE}.",
            f"low, high: {CONFIDENCE:.0%} intervals over the runs.",
            "proven: rows for which the promise is proved. too few: below this no algorithm keeps it.",
            *(
                f"Slopes of log rows against log columns, {problem}: {_slopes(log_rows, problem)}."
                for problem in ACCURACY
            ),
        ),
        files=(*files, "barriers.csv", "barriers.json"),
    )
    table.write(folder)
    return table


def gap(log_rows: dict[tuple[str, str], Floats], problem: str) -> Floats:
    """By which power of private rows the rows of droplets grow, in each run."""
    return slopes(log_rows[problem, "droplets"]) / slopes(log_rows[problem, "private"])


def _slopes(log_rows: dict[tuple[str, str], Floats], problem: str) -> str:
    values = {name: slopes(log_rows[problem, name]) for name, *_ in ALGORITHMS}
    values["droplets over private"] = gap(log_rows, problem)
    return ", ".join(f"{name} {_with_interval(each)}" for name, each in values.items())


def _with_interval(values: Floats) -> str:
    low, high = interval(values)
    return f"{values.mean():.2f}" + ("" if low is None else f" ({low:.2f} to {high:.2f})")


def _picture(log_rows: dict[tuple[str, str], Floats], colours: Palette) -> Any:
    figure = blank(10.5, 5.2, colours)
    for axes, problem in zip(figure.subplots(1, len(ACCURACY), sharey=True), ACCURACY, strict=True):
        for name, stability, method in ALGORITHMS:
            logs = log_rows[problem, name]
            colour = _colour(stability, colours)
            style = (0, (5, 2)) if stability == REPLICABLE and method == "rounding" else "-"
            axes.plot(COLUMNS, np.exp(logs.mean(axis=0)), color=colour, ls=style, lw=2, marker="o", ms=4)
            promise = "replicable, " if isinstance(stability, Replicability) else ""
            label = f"{promise}{name}\nslope {slopes(logs).mean():.2f}"
            end = (COLUMNS[-1], float(np.exp(logs[:, -1].mean())))
            axes.annotate(
                label, end, xytext=(8, 0), textcoords="offset points", va="center", color=colour, fontsize=9
            )
        for stability in (PRIVATE, REPLICABLE):
            floor = [impossible_rows(problem, stability, d) or math.nan for d in COLUMNS]
            axes.plot(COLUMNS, floor, color=_colour(stability, colours), ls=(0, (1, 1.5)), lw=1.4)
        _frame(axes, problem, colours)
    figure.axes[0].set_ylabel("rows needed (dotted: no algorithm can do with fewer)", color=colours.ink)
    return figure


def _colour(stability: DP | Replicability | None, colours: Palette) -> str:
    if stability is None:
        return colours.training
    return colours.fresh if isinstance(stability, DP) else colours.reported


def _frame(axes: Any, problem: str, colours: Palette) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(COLUMNS, [str(d) for d in COLUMNS])
    axes.set_xlim(COLUMNS[0] / 1.3, COLUMNS[-1] * 14.0)
    axes.minorticks_off()
    title = {"marginals": "every marginal within", "signs": "signs, on average within"}[problem]
    axes.set_title(f"{title} {ACCURACY[problem]:g}", color=colours.ink, fontweight="bold", loc="left")
    axes.set_xlabel("columns", color=colours.ink)
    quiet(axes, colours)
