"""Rows that the algorithms for marginals need, found by running them on the rows that are hardest for them.

Columns are independent and equal in law, so a run draws column totals instead of rows. At n rows an algorithm
takes the least noise its stability allows: none, the Gaussian mechanism's, or the width at which two
laboratories differ with probability ρ, measured on pairs. Then n is moved until the share 1 − β of the trials
is within the accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.barriers import one_way_marginals_rows, sign_one_way_marginals_rows
from holdfast.mechanisms import widest_ratio
from holdfast.stability import DP, Replicability

ACCURACY = {"marginals": 0.2, "signs": 0.05}
BETA = 0.05
PRIVATE, REPLICABLE = DP(1.0, 1e-6), Replicability(0.1)
# Name, stability, method: every promise that the figure compares.
ALGORITHMS: tuple[tuple[str, DP | Replicability | None, str], ...] = (
    ("plain", None, "rounding"),
    ("private", PRIVATE, "rounding"),
    ("droplets", REPLICABLE, "droplets"),
    ("grid", REPLICABLE, "rounding"),
)
# The mean at which a sign loses most is this many standard deviations of its estimate.
_HOSTILE = 0.7518
_MEETINGS = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noisy:
    """A kind of noise: its standard deviation in units of its width, and how to draw it."""

    deviation: float
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]


def _droplet_errors(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Density 1 + cos 2πe on [−½, ½]: a uniform number, or the one half a turn from it."""
    e = rng.random(size) - 0.5
    kept = 2.0 * rng.random(size) < 1.0 + np.cos(2.0 * np.pi * e)
    return np.where(kept, e, e - np.copysign(0.5, e))


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
    problem: str, stability: DP | Replicability | None, method: str, d: int, *, trials: int, seed: list[int]
) -> float:
    """The number of rows at which the error meets the accuracy: secant steps in logarithms."""
    place = math.log(proven_rows(problem, stability, method, d))
    slope = -1.0 if isinstance(stability, DP) else -0.5
    last: tuple[float, float] | None = None
    for _ in range(8):
        rows = max(2, round(math.exp(place)))
        # The same coins at every step, so that the error changes with the rows and with nothing else.
        log_excess = math.log(max(excess(problem, stability, method, d, rows, trials, seed), 1e-3))
        if last is not None and abs(place - last[0]) > 0.05:
            slope = min(-0.3, max(-1.2, (log_excess - last[1]) / (place - last[0])))
        last = place, log_excess
        place -= log_excess / slope
        if abs(log_excess) < 0.005:
            break
    return math.exp(place)


def proven_rows(problem: str, stability: DP | Replicability | None, method: str, d: int) -> int:
    """The rows for which the promise is proved."""
    rows = one_way_marginals_rows if problem == "marginals" else sign_one_way_marginals_rows
    return rows(d, accuracy=ACCURACY[problem], beta=BETA, stability=stability, method=method)
