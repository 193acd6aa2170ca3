"""Rows against columns for plain, private and replicable marginals: the quadratic gap (SIS section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.barriers import (
    one_way_marginals_bound,
    one_way_marginals_rows,
    sign_one_way_marginals_bound,
    sign_one_way_marginals_rows,
)
from holdfast.lab._figures import FigureTable, Palette, Progress, blank, quiet, save
from holdfast.mechanisms import widest_ratio
from holdfast.stability import DP, Replicability
from holdfast.typing import MarginalsMethod
from holdfast.workers import Workers, run_all

COLUMNS = (32, 128, 512, 2048)
TRIALS = 100
CONFIDENCE = 0.95
ACCURACY = {"marginals": 0.2, "signs": 0.05}
BETA = 0.05
PRIVATE, REPLICABLE = DP(1.0, 1e-6), Replicability(0.1)
# Name, stability, method: every promise that the figure compares.
ALGORITHMS: tuple[tuple[str, DP | Replicability | None, MarginalsMethod], ...] = (
    ("plain", None, "rounding"),
    ("private", PRIVATE, "rounding"),
    ("droplets", REPLICABLE, "droplets"),
    ("grid", REPLICABLE, "rounding"),
)
# The mean at which a sign loses most is this many standard deviations of its estimate.
_HOSTILE = 0.7518
_MEETINGS = 4

Floats = NDArray[np.float64]


def measure(runs: int, progress: Progress, workers: Workers = 1) -> dict[tuple[str, str], Floats]:
    """Logarithms of the rows needed: for each problem and algorithm a line a run, a column for each d."""
    measured = run_all(_run, [(run,) for run in range(runs)], workers=workers, progress=progress)
    return {key: np.array([lines[key] for lines in measured]) for key in measured[0]}


def _run(run: int) -> dict[tuple[str, str], list[float]]:
    logs: dict[tuple[str, str], list[float]] = {}
    for place, columns in enumerate(COLUMNS):
        for problem_place, problem in enumerate(ACCURACY):
            for algorithm_place, (name, stability, method) in enumerate(ALGORITHMS):
                seed = [5, run, place, problem_place, algorithm_place]
                rows = rows_needed(problem, stability, method, columns, trials=TRIALS, seed=seed)
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
    return ", ".join(f"{name} {_with_interval(slope_values)}" for name, slope_values in values.items())


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


@dataclass(frozen=True)
class Noisy:
    """A kind of noise: its standard deviation in units of its width, and how to draw it."""

    deviation: float
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]


def _droplet_errors(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Density 1 + cos 2πe on [−½, ½]: a uniform number, or the one half a turn from it."""
    e = rng.random(size) - 0.5
    is_kept = 2.0 * rng.random(size) < 1.0 + np.cos(2.0 * np.pi * e)
    return np.where(is_kept, e, e - np.copysign(0.5, e))


_NOISE = {
    "rounding": Noisy(math.sqrt(1.0 / 12.0), lambda rng, size: rng.random(size) - 0.5),
    "droplets": Noisy(math.sqrt(1.0 / 12.0 - 0.5 / math.pi**2), _droplet_errors),
    "gaussian": Noisy(1.0, lambda rng, size: rng.standard_normal(size)),
}


def column_means(rng: np.random.Generator, trials: int, d: int, rows: int, p: float) -> Floats:
    """Means of ``d`` columns of ``rows`` signs with mean ``p``, for each trial."""
    return 2.0 * rng.binomial(rows, (1.0 + p) / 2.0, size=(trials, d)) / rows - 1.0


def mismatch(apart: Floats, width: float, tangents: Floats | None = None) -> float:
    """How often two laboratories differ that are ``apart``, a line for each pair; the coins averaged out.

    Exactly for a shared grid. With the ``tangents`` tan(πe) of droplets' errors e, in widths, at most
    2t/(1+t) for droplets: t is the total variation averaged over the pairs, from these errors and their
    mirror images.
    """
    moved = apart / width
    if tangents is None:
        return float(1.0 - np.prod(1.0 - np.minimum(np.abs(moved), 1.0), axis=1).mean())
    cosine, sine = np.cos(np.pi * moved), np.sin(np.pi * moved)
    # cos(π(e + m))/cos(πe) = cos πm − sin πm tan πe, not positive where the shifted droplet ends. Every pair
    # meets the errors of several others: all are independent of it.
    shifts = [sign * sine * np.roll(tangents, k, axis=0) for k in range(_MEETINGS) for sign in (1.0, -1.0)]
    t = 1.0 - float(np.mean([_overlap(cosine - shift) for shift in shifts]))
    return 2.0 * t / (1.0 + t)


def _overlap(roots: Floats) -> float:
    """The mean of min(1, density there/density here); a column's ratio is the square of its root."""
    return float(np.minimum(np.prod(np.maximum(roots, 0.0), axis=1) ** 2, 1.0).mean())


def width_for(apart: Floats, rho: float, method: str, rng: np.random.Generator) -> float:
    """The width at which pairs that are ``apart`` differ with probability ``rho``."""
    tangents = np.tan(np.pi * _droplet_errors(rng, apart.shape)) if method == "droplets" else None
    width = math.sqrt(float((apart**2).mean()) * apart.shape[1]) * 5.0 / rho
    # The mismatch is nearly inverse to the width while it is small.
    for _ in range(5):
        width *= mismatch(apart, width, tangents) / rho
    return width


def excess(
    problem: str,
    stability: DP | Replicability | None,
    method: str,
    d: int,
    rows: int,
    trials: int,
    seed: list[int],
) -> float:
    """The error that a share 1 − β of the trials stays within, as a multiple of the accuracy."""
    rng = np.random.default_rng(seed)
    width, kind = 0.0, _NOISE["gaussian"]
    if isinstance(stability, DP):
        width = 2.0 * math.sqrt(d) / rows / widest_ratio(stability.epsilon, stability.delta)
    elif isinstance(stability, Replicability):
        pairs = column_means(rng, trials, d, rows, 0.0) - column_means(rng, trials, d, rows, 0.0)
        width, kind = width_for(pairs, stability.rho, method, rng), _NOISE[method]
    p = 0.0
    if problem == "signs":
        p = min(1.0, _HOSTILE * math.sqrt(1.0 / rows + (width * kind.deviation) ** 2))
    means = column_means(rng, trials, d, rows, p)
    if width > 0.0:
        means = means + width * kind.draw(rng, means.shape)
    if problem == "marginals":
        errors = np.abs(means - p).max(axis=1)
    else:  # A mean of 0 has no sign: half of the time it is the wrong one.
        errors = p * (1.0 - np.sign(means)).mean(axis=1)
    return float(np.quantile(errors, 1.0 - BETA)) / ACCURACY[problem]


def rows_needed(
    problem: str,
    stability: DP | Replicability | None,
    method: MarginalsMethod,
    d: int,
    *,
    trials: int,
    seed: list[int],
) -> float:
    """The number of rows at which the error meets the accuracy: secant steps in logarithms."""
    place = math.log(proven_rows(problem, stability, method, d))
    slope = -1.0 if isinstance(stability, DP) else -0.5
    previous: tuple[float, float] | None = None
    for _ in range(8):
        rows = max(2, round(math.exp(place)))
        # The same coins at every step, so that the error changes with the rows and with nothing else.
        log_excess = math.log(max(excess(problem, stability, method, d, rows, trials, seed), 1e-3))
        if previous is not None and abs(place - previous[0]) > 0.05:
            slope = min(-0.3, max(-1.2, (log_excess - previous[1]) / (place - previous[0])))
        previous = place, log_excess
        place -= log_excess / slope
        if abs(log_excess) < 0.005:
            break
    return math.exp(place)


def proven_rows(problem: str, stability: DP | Replicability | None, method: MarginalsMethod, d: int) -> int:
    """The rows for which the promise is proved."""
    rows = one_way_marginals_rows if problem == "marginals" else sign_one_way_marginals_rows
    return rows(d, accuracy=ACCURACY[problem], beta=BETA, stability=stability, method=method)
