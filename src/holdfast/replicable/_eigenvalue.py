"""The least eigenvalue of a Gaussian's covariance, within a factor (the first step of SIS Theorem 6.15)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaincc

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._arguments import chance
from holdfast.replicable._grid import snap
from holdfast.replicable._least import least_whole
from holdfast.replicable._result import Result
from holdfast.replicable._steady import LOSS, steady_exp
from holdfast.replicable._table import table_argument
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["least_eigenvalue", "least_eigenvalue_rows"]

Floats = npt.NDArray[np.float64]

_WIDTHS = 512
_SLICES = 256
_NAME = "least_eigenvalue"


def inverse_least(freedom: int, dimension: int) -> float:
    """E[1/λ_min(GGᵀ)] for a d × f standard normal G, at most; infinite where f is too small for the bound.

    The least of E tr (GGᵀ)⁻¹ = d/(f−d−1) and of an integral over P(σ_min < √f − √d − t), which is at most
    e^{−t²/2} and at most d·P(χ²_{f−d+1} < d(√f − √d − t)²), up to t = ¾(√f − √d); beyond, Cauchy–Schwarz
    with E tr (GGᵀ)⁻² = d(f−1)/((f−d)(f−d−1)(f−d−3)).
    """
    centre, room = math.sqrt(freedom) - math.sqrt(dimension), freedom - dimension
    if room <= 3:
        return math.inf
    shortfall = np.linspace(0.0, 0.75 * centre, _SLICES + 1)
    least = (centre - shortfall) ** 2
    small = dimension * gammainc((room + 1.0) / 2.0, dimension * least / 2.0)
    tail = np.minimum(np.exp(-(shortfall**2) / 2.0), small)
    inside = float(1.0 / least[0] + (np.diff(1.0 / least) * tail[:-1]).sum())
    traces = dimension * (freedom - 1.0) / (room * (room - 1.0) * (room - 3.0))
    return min(inside + math.sqrt(traces * float(tail[-1])), dimension / (room - 1.0))


def _mismatch(rows: int, dimension: int, width: float) -> float:
    """E|ln λ̂ − ln λ̂'|/width ≤ 2√E[1/λ_min(GGᵀ)]/width: Poincaré for even functions."""
    return 2.0 * math.sqrt(inverse_least(rows - 1, dimension)) / width


def _failure(rows: int, dimension: int, width: float, accuracy: float) -> float:
    """P(|ln(value/λ_min)| > accuracy), at most, averaged over the rounding error."""
    freedom = rows - 1.0
    slack = accuracy - math.log(LOSS)
    centre = math.sqrt(freedom) - math.sqrt(dimension)
    scale = freedom**0.25 * math.sqrt(max(centre, 0.0))
    # Each tail grows with the rounding error in its own direction, so the end of a slice bounds the slice.
    error = width * (np.arange(1, _SLICES + 1) / _SLICES - 0.5)
    above = gammaincc(freedom / 2.0, scale**2 * np.exp(slack - error) / 2.0)
    below = np.exp(-(np.maximum(centre - scale * np.exp((error - slack) / 2.0), 0.0) ** 2) / 2.0)
    return float((above + below).mean())


@lru_cache(maxsize=256)
def _grid(dimension: int, accuracy: float, rho: float, beta: float) -> tuple[float, int]:
    """(width, rows) that need the fewest rows; they depend on the promise alone, never on a sample."""
    unit = 2.0 * accuracy / _WIDTHS

    def needed(index: int) -> int:
        start = dimension + 5
        found = least_whole(lambda n: _mismatch(n, dimension, index * unit) <= rho, start, most=2**53)
        if found is None:
            raise InvalidArgument("rho", "large enough for some sample below 2⁵³ rows", rho, of=_NAME)
        return found

    low, high = 0, _WIDTHS
    while high - low > 1:
        middle = (low + high) // 2
        if _failure(needed(middle), dimension, middle * unit, accuracy) <= beta:
            low = middle
        else:
            high = middle
    if low == 0:
        raise InvalidArgument("beta", "large enough for some sample below 2⁵³ rows", beta, of=_NAME)
    return low * unit, needed(low)


def _parameters(
    accuracy: Any, rho: Any, beta: Any, dimension: Any, of: str
) -> tuple[int, float, float, float]:
    by = "SIS Theorem 6.15"
    return (
        checks.whole(dimension, "dimension", at_most=10_000, of=of, by=by),
        checks.real(accuracy, "accuracy", "(0, 20]", of=of, by=by),
        chance(rho, "rho", of=of, by=by),
        chance(beta, "beta", of=of, by=by),
    )


def least_eigenvalue_rows(*, accuracy: float, rho: float, beta: float, dimension: Any = 1) -> int:
    """The rows that :func:`least_eigenvalue` needs in ``dimension`` dimensions.

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold on
    the grids that are searched.
    Assumes: as :func:`least_eigenvalue`.
    Reference: Holdfast; SIS, proof of Theorem 6.15, states Õ(d² ln³(1/ρ) ln²(1/β)/ρ²) for a factor 8.

    >>> least_eigenvalue_rows(accuracy=2.0794415416798357, rho=0.1, beta=0.05, dimension=10)
    126
    """
    return _grid(*_parameters(accuracy, rho, beta, dimension, "least_eigenvalue_rows"))[1]


def round_least(
    least: npt.ArrayLike, rows: int, dimension: int, width: float, coins: npt.ArrayLike
) -> Floats:
    """The rounded estimate from the least eigenvalue of the centred sums of squares and products."""
    freedom = rows - 1.0
    # Between the largest and the smallest of what the least eigenvalue may be centred at, on the log scale.
    centre = math.log(freedom) / 2.0 + math.log(math.sqrt(freedom) - math.sqrt(dimension))
    return steady_exp(snap(np.log(np.asarray(least, dtype=np.float64)) - centre, width, coins))


def least_eigenvalue(
    x: Any, *, accuracy: float, rho: float, beta: float, tape: Tape, best_effort: bool = False
) -> Result:
    """The least eigenvalue of the covariance of Gaussian rows, within e^{±accuracy}, the same on a fresh
    sample.

    Exactly ``least_eigenvalue_rows`` rows are read, the first ones, so that samples of different sizes agree.

    Guarantee: two samples and one tape give different values with probability at most ``rho``;
    |ln(value/λ_min)| exceeds ``accuracy`` with probability at most ``beta``.
    Assumes: independent rows from N(μ, Σ), Σ positive definite (a singular sample is refused; normality
    is not checkable). ``best_effort`` takes any sample of at least d + 5 rows and reports what it can
    promise.
    Reference: SIS Theorem 6.15, first step; constants Holdfast.

    >>> rows = np.random.default_rng(1).normal(0.0, [1.0, 0.5], size=(2_000, 2))
    >>> round(float(least_eigenvalue(rows, accuracy=1.0, rho=0.1, beta=0.05, tape=Tape("study-7"))), 4)
    0.2947
    """
    tape = tape_argument(tape, of=_NAME)
    values = table_argument(x, of=_NAME)
    dimension, accuracy, rho, beta = _parameters(accuracy, rho, beta, values.shape[1], _NAME)
    width, needed = _grid(dimension, accuracy, rho, beta)
    rows = min(len(values), needed)
    least = dimension + 5 if best_effort else needed
    if rows < least:
        raise NotEnoughRows(least, rows, what="A least eigenvalue with this promise")
    if rows < needed:
        rho = rounding.probability(_mismatch(rows, dimension, width))
        beta = rounding.probability(_failure(rows, dimension, width, accuracy))
    used = values[:rows] - values[:rows].mean(axis=0)
    smallest = float(np.linalg.svd(used, compute_uv=False)[-1]) ** 2
    if not smallest > 0.0:
        raise InvalidArgument("x", "rows whose covariance is positive definite", x, of=_NAME)
    value = round_least(smallest, rows, dimension, width, tape.branch("least eigenvalue").uniforms(1)[0])
    return Result(
        float(value),
        Replicability(rho),
        accuracy,
        beta,
        rows=rows,
        tape=str(tape),
        details={"width": width, "needed": needed},
    )
