"""The mean of a Gaussian with unknown covariance: each coordinate is predicted from those before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv, ndtr, polygamma, psi

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record
from holdfast.replicable._arguments import chance
from holdfast.replicable._grid import snap
from holdfast.replicable._joint import (
    JointPlan,
    covariance_argument,
    draw_mean,
    known_mean_plan,
    known_mean_promise,
)
from holdfast.replicable._least import least_whole
from holdfast.replicable._packing import MOST_DIMENSIONS
from holdfast.replicable._result import Result
from holdfast.replicable._steady import LOSS, steady_exp
from holdfast.replicable._sums import law_of_sum
from holdfast.replicable._table import table_argument
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["gaussian_mean", "gaussian_mean_rows"]

Floats = npt.NDArray[np.float64]

_CELLS = 2048
_WIDTHS = 512
_STEPS = (0.5, 0.75, 0.375, 1.0, 0.25, 1.5, 2.0)
_SCALE_CUTS = np.array([1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 0.97, 1.0 - 1e-9])
_SLICES, _KEPT = 64, 40
KNOWN_METHODS = ("cheapest", "grid", "joint")


@dataclass(frozen=True, repr=False)
class GaussianGrid(Record):
    """Cells of ``width`` standard deviations, standard deviations known to within e^{±step/2}."""

    width: float
    step: float
    rows: int


def _freedom(rows: int, dimension: int) -> Floats:
    """Degrees of freedom of each coordinate's residual, after a constant and the coordinates before it."""
    return np.asarray(rows - 1.0 - np.arange(dimension), dtype=np.float64)


def _normaliser(freedom: Floats) -> Floats:
    """exp E ln χ²: residual sums of squares divided by it have logarithms centred at the true one."""
    centred: Floats = 2.0 * np.exp(psi(freedom / 2.0))
    return centred


def _mismatch(rows: int, dimension: int, width: float, step: float) -> float:
    """P(two samples differ), at most: the scales, then the coordinates."""
    freedom = _freedom(rows, dimension)
    scales = float(np.sqrt(polygamma(1, freedom / 2.0) / math.pi).sum()) / step
    normaliser = _normaliser(freedom)
    inverse = np.sqrt(normaliser / (freedom - 1.5))  # E 1/χ_k ≤ 1/√(k − 3/2)
    drift = width**2 / 12.0 * math.sinh(step) / step / normaliser
    leverage = 1.0 / rows + np.cumsum(drift) - drift
    cells = float((inverse * np.sqrt(leverage)).sum()) * math.sinh(step / 2.0) / (step / 2.0)
    return scales + 2.0 / math.sqrt(math.pi) * cells / width * LOSS


def _absolute(x: Floats) -> Floats:
    """E|x + N(0, 1)|, which is |x| to all digits beyond 9."""
    folded: Floats = np.abs(x)
    near = folded < 9.0
    y = folded[near]
    folded[near] = y * (2.0 * ndtr(y) - 1.0) + math.sqrt(2.0 / math.pi) * np.exp(-(y**2) / 2.0)
    return folded


def _cells(freedom: float, width: float, step: float) -> tuple[Floats, Floats]:
    """Upper ends and probabilities of slices of width·(estimated over true scale)·e^{step·uniform}."""
    # No scale counts as underestimated, so that more rows can only help.
    upper = 2.0 * gammaincinv(freedom / 2.0, _SCALE_CUTS) / float(_normaliser(np.array(freedom)))
    ends = step * (np.arange(1, _SLICES + 1) / _SLICES - 0.5)
    cells = (width * LOSS * np.multiply.outer(np.sqrt(np.maximum(upper, 1.0)), np.exp(ends))).ravel()
    chances = np.repeat(np.diff(_SCALE_CUTS, prepend=0.0) / _SLICES, _SLICES)
    order = np.argsort(cells)
    reached = np.cumsum(chances[order])
    last = np.unique(np.searchsorted(reached, reached[-1] * np.arange(1, _KEPT) / _KEPT))
    last = np.append(last, cells.size - 1)
    return cells[order][last][:, None], np.diff(reached[last], prepend=0.0)


def _failure(rows: int, dimension: int, width: float, step: float, accuracy: float) -> float:
    """P(Mahalanobis distance > accuracy), at most: d independent squares of normal + cell·uniform."""
    freedom = _freedom(rows, dimension)
    normaliser = _normaliser(freedom)
    drift = width**2 / 4.0 * math.exp(step) * float((1.0 / normaliser[:-1]).sum())
    noise = math.sqrt(1.0 / rows + drift) * LOSS
    cell, weights = _cells(float(freedom[-1]), width, step)
    reach = accuracy * np.sqrt(np.arange(_CELLS + 1) / _CELLS)
    high, low = (reach + cell / 2.0) / noise, (reach - cell / 2.0) / noise
    inside = weights @ (noise / cell * (_absolute(high) - _absolute(low)))
    return 1.0 - float(law_of_sum(np.clip(inside, 0.0, 1.0), dimension).sum())


def _widest(promise: tuple[int, float, float, float], step: float, most: int) -> GaussianGrid | None:
    """The widest cells, for this step, that keep the promise with at most ``most`` rows."""
    dimension, accuracy, rho, beta = promise
    unit = accuracy / math.sqrt(dimension) / (_WIDTHS // 4)

    def mismatch(rows: int, index: int) -> float:
        return _mismatch(rows, dimension, index * unit, step)

    def accurate(rows: int, index: int) -> bool:
        return _failure(rows, dimension, index * unit, step, accuracy) <= beta

    def needed(index: int) -> int:
        return least_whole(lambda n: mismatch(n, index) <= rho, dimension + 3, most=most) or most

    low = least_whole(lambda index: mismatch(most, index) <= rho, most=_WIDTHS)
    if low is None or not accurate(most, low):
        return None
    high = _WIDTHS + 1
    while high - low > 1:
        middle = (low + high) // 2
        if accurate(needed(middle), middle):
            low = middle
        else:
            high = middle
    rows = needed(low)
    return GaussianGrid(low * unit, step, rows) if accurate(rows, low) else None


@lru_cache(maxsize=256)
def _grid(dimension: int, accuracy: float, rho: float, beta: float) -> GaussianGrid:
    """The cells that need the fewest rows; they depend on the promise alone, never on a sample."""
    best: GaussianGrid | None = None
    for step in _STEPS:
        found = _widest((dimension, accuracy, rho, beta), step, best.rows - 1 if best else 2**53)
        best = found or best
    if best is None:
        raise InvalidArgument("rho", "large enough for some sample below 2⁵³ rows", rho, of="gaussian_mean")
    return best


def round_in_turn(
    centre: npt.ArrayLike, factor: npt.ArrayLike, rows: int, grid: GaussianGrid, coins: Floats
) -> tuple[Floats, Floats]:
    """Round each coordinate of the sample mean, after predicting it from the coordinates already rounded.

    ``factor`` is the lower Cholesky factor of the centred sums of squares and products; ``coins`` are 2d
    uniforms, for the scales and then for the coordinates. Leading axes are samples. Returns the rounded mean
    and the rounded scales.
    """
    centre, factor = np.asarray(centre, dtype=np.float64), np.asarray(factor, dtype=np.float64)
    dimension = centre.shape[-1]
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    spread = np.log(diagonal) - np.log(_normaliser(_freedom(rows, dimension))) / 2.0
    scales = steady_exp(snap(spread, grid.step, coins[..., :dimension]))
    rounded, gap = np.empty_like(centre), np.zeros_like(centre)
    for j in range(dimension):
        predicted = centre[..., j] + (factor[..., j, :j] * gap[..., :j]).sum(axis=-1)
        rounded[..., j] = snap(predicted, grid.width * scales[..., j], coins[..., dimension + j])
        gap[..., j] = (rounded[..., j] - predicted) / diagonal[..., j]
    return rounded, scales


def _parameters(
    accuracy: Any, rho: Any, beta: Any, dimension: Any, of: str
) -> tuple[int, float, float, float]:
    by = "SIS Theorem 6.15"
    return (
        checks.whole(dimension, "dimension", at_most=1000, of=of, by=by),
        checks.real(accuracy, "accuracy", "(0, inf)", of=of, by=by),
        chance(rho, "rho", of=of, by=by),
        chance(beta, "beta", of=of, by=by),
    )


def _known(dimension: int, accuracy: float, rho: float, beta: float, method: str, of: str) -> JointPlan:
    checks.choice(method, "method", KNOWN_METHODS, of=of)
    if method == "joint" and dimension > MOST_DIMENSIONS:
        expected = f"'grid' or 'cheapest' beyond {MOST_DIMENSIONS} columns, where a joint draw takes too long"
        raise InvalidArgument("method", expected, method, of=of)
    return known_mean_plan(dimension, accuracy, rho, beta, method)


def gaussian_mean_rows(
    *,
    accuracy: float,
    rho: float,
    beta: float,
    dimension: Any = 1,
    known_covariance: bool = False,
    method: str = "cheapest",
) -> int:
    """The rows that :func:`gaussian_mean` needs in ``dimension`` dimensions.

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold on the
    grids that are searched.
    Assumes: as :func:`gaussian_mean`.
    Reference: Holdfast; SIS Theorem 6.15 states Õ((d ln(1/α) + ln(1/β))² ln³(1/ρ)/(α²ρ²)).

    >>> gaussian_mean_rows(accuracy=0.1, rho=0.1, beta=0.05, dimension=2)
    32381
    >>> gaussian_mean_rows(accuracy=0.1, rho=0.1, beta=0.05, dimension=2, known_covariance=True)
    19079
    """
    of = "gaussian_mean_rows"
    promise = _parameters(accuracy, rho, beta, dimension, of)
    if known_covariance:
        return _known(*promise, method, of).rows
    checks.choice(method, "method", ("cheapest",), of=of)
    return _grid(*promise).rows


def gaussian_mean(
    x: Any,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    best_effort: bool = False,
    covariance: npt.ArrayLike | None = None,
    method: str = "cheapest",
) -> Result:
    """The mean of Gaussian rows to within ``accuracy`` in Mahalanobis distance, the same on a fresh sample.

    The first coordinate is rounded to a grid of ``width`` standard deviations; each further one is predicted
    from the rounded ones by least squares, and the prediction is rounded. Of the covariance only d scales are
    rounded, so neither its condition nor a bound on the mean enters.

    If both laboratories know the ``covariance`` Σ beforehand, fewer rows are enough: coordinates in which it
    is the identity are rounded each to its own ``"grid"``, or get normal noise together (``"joint"``, at most
    20 columns; it tries about 310 shifted lattices there). ``method`` says which; ``"cheapest"`` takes what
    needs fewer rows, from 13 columns on the joint draw. ``beta`` is the failure probability.

    Guarantee: two samples and one tape give different means with probability at most ``rho``; the Mahalanobis
    distance ‖Σ^{−1/2}(value − μ)‖ exceeds ``accuracy`` with probability at most ``beta``. With more rows than
    needed both still hold, also when the two samples differ in size.
    Assumes: independent rows from N(μ, Σ), Σ positive definite (a singular sample is refused; normality is
    not checkable). ``best_effort`` takes any sample of at least d + 3 rows and reports what it can promise. A
    ``covariance`` that is given is the true one, and not estimated from these rows (not checkable).
    Reference: SIS Theorem 6.15; algorithm and constants Holdfast.

    >>> rows = np.random.default_rng(1).normal([3.0, -2.0], [1.0, 0.5], size=(40_000, 2))
    >>> result = gaussian_mean(rows, accuracy=0.1, rho=0.1, beta=0.05, tape=Tape("study-7"))
    >>> result.value.round(3).tolist()
    [3.036, -1.972]
    """
    of = "gaussian_mean"
    tape = tape_argument(tape, of=of)
    values = table_argument(x, of=of)
    rows = len(values)
    dimension, accuracy, rho, beta = _parameters(accuracy, rho, beta, values.shape[1], of)
    if covariance is not None:
        factor_known = covariance_argument(covariance, dimension, of=of)
        plan = _known(dimension, accuracy, rho, beta, method, of)
        return _with_known_covariance(values, factor_known, plan, (accuracy, rho, beta), tape, best_effort)
    if method != "cheapest":
        raise InvalidArgument("method", "given with a known covariance only", method, of=of)
    grid = _grid(dimension, accuracy, rho, beta)
    least = dimension + 3 if best_effort else grid.rows
    if rows < least:
        raise NotEnoughRows(least, rows, what="A Gaussian mean with this promise")
    if rows < grid.rows:
        rho = rounding.probability(_mismatch(rows, dimension, grid.width, grid.step))
        beta = rounding.probability(_failure(rows, dimension, grid.width, grid.step, accuracy))
    centre = values.mean(axis=0)
    upper: Floats = np.asarray(np.linalg.qr(values - centre, mode="r"), dtype=np.float64)
    diagonal = np.diagonal(upper)
    if not (np.abs(diagonal) > 1e-12 * np.linalg.norm(upper, axis=0)).all():
        raise InvalidArgument("x", "rows whose covariance is positive definite", x, of=of)
    factor = upper.T * np.sign(diagonal)
    rounded, scales = round_in_turn(
        centre, factor, rows, grid, tape.branch("gaussian mean").uniforms(2 * dimension)
    )
    return Result(
        rounded,
        Replicability(rho),
        accuracy,
        beta,
        rows=rows,
        tape=str(tape),
        details={"width": grid.width, "step": grid.step, "scales": scales, "needed": grid.rows},
    )


def _with_known_covariance(
    values: Floats,
    factor: list[list[float]],
    plan: JointPlan,
    promise: tuple[float, float, float],
    tape: Tape,
    best_effort: bool,
) -> Result:
    accuracy, rho, beta = promise
    rows, dimension = values.shape
    if rows < (1 if best_effort else plan.rows):
        raise NotEnoughRows(plan.rows, rows, what="A Gaussian mean with this promise")
    if rows < plan.rows:
        rho, beta = known_mean_promise(dimension, plan, accuracy, rows)
    shared = tape.branch("gaussian mean").branch(plan.method)
    return Result(
        draw_mean(values.mean(axis=0), factor, plan, shared),
        Replicability(rho),
        accuracy,
        beta,
        rows=rows,
        tape=str(tape),
        details={"method": plan.method, "width": plan.width, "needed": plan.rows},
    )
