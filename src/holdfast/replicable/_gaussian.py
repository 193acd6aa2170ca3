"""The mean and the least eigenvalue of Gaussian rows (SIS Theorem 6.15), and whether the mean is the stated
one (SIS Theorem 6.16).

For the mean each coordinate is predicted from those before it, and the prediction is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import chndtr, gammainc, gammaincc, gammaincinv, ndtr, polygamma, psi

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._design import Design, Result, least_rows, promise_arguments, table_argument
from holdfast.replicable._joint import known_mean_design
from holdfast.replicable._rounding import law_of_sum, snap
from holdfast.replicable._tape import LOSS, Floats, Tape, steady_exp, tape_argument

__all__ = [
    "gaussian_mean",
    "gaussian_mean_rows",
    "identity_test",
    "identity_test_rows",
    "least_eigenvalue",
    "least_eigenvalue_rows",
]

_BY = "SIS Theorem 6.15"
_MOST_ROWS = 2**53
_CELLS = 2048
_WIDTHS = 512
_STEPS = (0.5, 0.75, 0.375, 1.0, 0.25, 1.5, 2.0)
_SCALE_CUTS = np.array([1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 0.97, 1.0 - 1e-9])
_SLICES, _KEPT = 64, 40


def gaussian_mean(
    x: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    best_effort: bool = False,
    covariance: npt.ArrayLike | None = None,
    method: Literal["cheapest", "grid", "joint"] = "cheapest",
) -> Result[Floats]:
    """The mean of Gaussian rows to within ``accuracy`` in Mahalanobis distance, the same on a fresh sample.

    The first coordinate is rounded to a grid of ``width`` standard deviations; each further one is predicted
    from the rounded ones by least squares, and the prediction is rounded. Of the covariance only d scales are
    rounded, so neither its condition nor a bound on the mean enters.

    If both laboratories know the ``covariance`` Σ beforehand, fewer rows are enough: coordinates in which it
    is the identity are rounded each to its own ``"grid"``, or get normal noise together (``"joint"``, at most
    20 columns; it tries about 310 shifted lattices there). ``"cheapest"`` takes what needs fewer rows; from
    13 columns on that is the joint draw.

    Guarantee: two samples and one tape give different means with probability at most ``rho``; the Mahalanobis
    distance ‖Σ^{−1/2}(value − μ)‖ exceeds ``accuracy`` with probability at most ``beta``. With more rows than
    needed both still hold, also when the two samples differ in size.
    Assumes: independent rows from N(μ, Σ), Σ positive definite (a singular sample is refused; normality is
    not checkable). ``best_effort`` takes any sample of at least d + 3 rows and reports what it can promise. A
    ``covariance`` that is given is the true one, and not estimated from these rows (not checkable).
    Reference: SIS Theorem 6.15; algorithm and constants Holdfast.

    Args:
        x: The rows, one column for each coordinate.
        tape: The shared coins; both laboratories use the same.
        method: "grid", "joint" or "cheapest", for a known covariance.

    >>> rows = np.random.default_rng(1).normal([3.0, -2.0], [1.0, 0.5], size=(40_000, 2))
    >>> result = gaussian_mean(rows, accuracy=0.1, rho=0.1, beta=0.05, tape=Tape("study-7"))
    >>> result.value.round(3).tolist()
    [3.036, -1.972]
    """
    of = "gaussian_mean"
    tape = tape_argument(tape, of=of)
    values = table_argument(x, of=of)
    if covariance is not None:
        whitened = known_mean_design(values.shape[1], accuracy, rho, beta, method, of=of)
        return whitened.estimate(values, covariance, tape.branch("gaussian mean"), tape, best_effort, of=of)
    checks.choice(method, "method", ("cheapest",), of=of)
    design = _gaussian_design(accuracy, rho, beta, values.shape[1], of=of)
    grid, dimension = design.grid, design.dimension
    kept_design = design.kept_by(
        len(values),
        best_effort=best_effort,
        what="A Gaussian mean with this promise",
        fewest=dimension + 3,
    )
    centre = values.mean(axis=0)
    upper: Floats = np.asarray(np.linalg.qr(values - centre, mode="r"), dtype=np.float64)
    diagonal = np.diagonal(upper)
    if not (np.abs(diagonal) > 1e-12 * np.linalg.norm(upper, axis=0)).all():
        raise InvalidArgument("x", "rows whose covariance is positive definite", x, of=of)
    factor = upper.T * np.sign(diagonal)
    rounded, scales = round_in_turn(
        centre, factor, kept_design.rows, grid, tape.branch("gaussian mean").uniforms(2 * dimension)
    )
    details = {"width": grid.width, "step": grid.step, "scales": scales, "needed": grid.rows}
    return kept_design.result(rounded, tape, details)


def gaussian_mean_rows(
    *,
    accuracy: float,
    rho: float,
    beta: float,
    dimension: int = 1,
    known_covariance: bool = False,
    method: Literal["cheapest", "grid", "joint"] = "cheapest",
) -> int:
    """The rows that :func:`gaussian_mean` needs in ``dimension`` dimensions.

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold on the
    grids that are searched.
    Assumes: as :func:`gaussian_mean`.
    Reference: Holdfast; SIS Theorem 6.15 states Õ((d ln(1/α) + ln(1/β))² ln³(1/ρ)/(α²ρ²)).

    Args:
        known_covariance: Whether both laboratories know the covariance.
        method: "grid", "joint" or "cheapest", for a known covariance.

    >>> gaussian_mean_rows(accuracy=0.1, rho=0.1, beta=0.05, dimension=2)
    32381
    >>> gaussian_mean_rows(accuracy=0.1, rho=0.1, beta=0.05, dimension=2, known_covariance=True)
    19079
    """
    if known_covariance:
        return known_mean_design(dimension, accuracy, rho, beta, method, of="gaussian_mean_rows").rows
    checks.choice(method, "method", ("cheapest",), of="gaussian_mean_rows")
    return _gaussian_design(accuracy, rho, beta, dimension, of="gaussian_mean_rows").rows


@dataclass(frozen=True, repr=False)
class GaussianGrid(Record):
    """Cells of ``width`` standard deviations, standard deviations known to within e^{±step/2}."""

    width: float
    step: float
    rows: int


@dataclass(frozen=True)
class GaussianDesign(Design):
    """The grid for means in ``dimension`` dimensions."""

    dimension: int
    grid: GaussianGrid

    def mismatch(self, rows: int) -> float:
        return rounding.probability(_mismatch(rows, self.dimension, self.grid.width, self.grid.step))

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        grid = self.grid
        return rounding.probability(_failure(rows, self.dimension, grid.width, grid.step, self.accuracy))


def _gaussian_design(accuracy: float, rho: float, beta: float, dimension: int, *, of: str) -> GaussianDesign:
    dimension = checks.whole(dimension, "dimension", at_most=1000, of=of, by=_BY)
    accuracy, rho, beta = promise_arguments(accuracy, rho, beta, "(0, inf)", of=of, by=_BY)
    grid = _grid(dimension, accuracy, rho, beta)
    return GaussianDesign(accuracy, rho, beta, grid.rows, dimension, grid)


@lru_cache(maxsize=256)
def _grid(dimension: int, accuracy: float, rho: float, beta: float) -> GaussianGrid:
    """The cells that need the fewest rows; they depend on the promise alone, never on a sample."""
    best: GaussianGrid | None = None
    for step in _STEPS:
        most = best.rows - 1 if best else _MOST_ROWS
        best = _widest((dimension, accuracy, rho, beta), step, most) or best
    if best is None:
        raise InvalidArgument("rho", "large enough for some sample below 2⁵³ rows", rho, of="gaussian_mean")
    return best


def _widest(promise: tuple[int, float, float, float], step: float, most: int) -> GaussianGrid | None:
    """The widest cells, for this step, that keep the promise with at most ``most`` rows."""
    dimension, accuracy, rho, beta = promise
    unit = accuracy / math.sqrt(dimension) / (_WIDTHS // 4)

    def mismatch(rows: int, index: int) -> float:
        return _mismatch(rows, dimension, index * unit, step)

    def accurate(rows: int, index: int) -> bool:
        return _failure(rows, dimension, index * unit, step, accuracy) <= beta

    def needed(index: int) -> int:
        fewest = search.least_whole(lambda n: mismatch(n, index) <= rho, above=dimension + 2, most=most)
        return fewest or most

    narrowest = search.least_whole(lambda index: mismatch(most, index) <= rho, most=_WIDTHS)
    if narrowest is None or not accurate(most, narrowest):
        return None
    widest = search.whole_edge(lambda index: accurate(needed(index), index), narrowest, _WIDTHS + 1)
    rows = needed(widest)
    return GaussianGrid(widest * unit, step, rows) if accurate(rows, widest) else None


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


def _freedom(rows: int, dimension: int) -> Floats:
    """Degrees of freedom of each coordinate's residual, after a constant and the coordinates before it."""
    return np.asarray(rows - 1.0 - np.arange(dimension), dtype=np.float64)


def _normaliser(freedom: Floats) -> Floats:
    """exp E ln χ²: residual sums of squares divided by it have logarithms centred at the true one."""
    centred: Floats = 2.0 * np.exp(psi(freedom / 2.0))
    return centred


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


_EIGENVALUE_WIDTHS = 512
_EIGENVALUE_SLICES = 256


def least_eigenvalue(
    x: npt.ArrayLike, *, accuracy: float, rho: float, beta: float, tape: Tape, best_effort: bool = False
) -> Result[float]:
    """The least eigenvalue of the covariance of Gaussian rows, within e^{±accuracy}, the same on a fresh
    sample.

    Exactly ``least_eigenvalue_rows`` rows are read, the first ones, so that samples of different sizes agree.

    Guarantee: two samples and one tape give different values with probability at most ``rho``;
    |ln(value/λ_min)| exceeds ``accuracy`` with probability at most ``beta``.
    Assumes: independent rows from N(μ, Σ), Σ positive definite (a singular sample is refused; normality
    is not checkable). ``best_effort`` takes any sample of at least d + 5 rows and reports what it can
    promise.
    Reference: SIS Theorem 6.15, first step; constants Holdfast.

    Args:
        x: The rows, one column for each coordinate.
        tape: The shared coins; both laboratories use the same.

    >>> rows = np.random.default_rng(1).normal(0.0, [1.0, 0.5], size=(2_000, 2))
    >>> round(float(least_eigenvalue(rows, accuracy=1.0, rho=0.1, beta=0.05, tape=Tape("study-7"))), 4)
    0.2947
    """
    of = "least_eigenvalue"
    tape = tape_argument(tape, of=of)
    values = table_argument(x, of=of)
    design = _eigenvalue_design(accuracy, rho, beta, values.shape[1], of=of)
    kept_design = design.kept_by(
        min(len(values), design.rows),
        best_effort=best_effort,
        what="A least eigenvalue with this promise",
        fewest=design.dimension + 5,
    )
    used = values[: kept_design.rows] - values[: kept_design.rows].mean(axis=0)
    smallest = float(np.linalg.svd(used, compute_uv=False)[-1]) ** 2
    if not smallest > 0.0:
        raise InvalidArgument("x", "rows whose covariance is positive definite", x, of=of)
    coin = tape.branch("least eigenvalue").uniforms(1)[0]
    value = round_least(smallest, kept_design.rows, design.dimension, design.width, coin)
    return kept_design.result(float(value), tape, {"width": design.width, "needed": design.rows})


def least_eigenvalue_rows(*, accuracy: float, rho: float, beta: float, dimension: int = 1) -> int:
    """The rows that :func:`least_eigenvalue` needs in ``dimension`` dimensions.

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold on
    the grids that are searched.
    Assumes: as :func:`least_eigenvalue`.
    Reference: Holdfast; SIS, proof of Theorem 6.15, states Õ(d² ln³(1/ρ) ln²(1/β)/ρ²) for a factor 8.

    >>> least_eigenvalue_rows(accuracy=2.0794415416798357, rho=0.1, beta=0.05, dimension=10)
    126
    """
    return _eigenvalue_design(accuracy, rho, beta, dimension, of="least_eigenvalue_rows").rows


@dataclass(frozen=True)
class EigenvalueDesign(Design):
    """Cells of ``width`` for the logarithm of the least eigenvalue in ``dimension`` dimensions."""

    dimension: int
    width: float

    def mismatch(self, rows: int) -> float:
        return rounding.probability(_eigenvalue_mismatch(rows, self.dimension, self.width))

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        return rounding.probability(_eigenvalue_failure(rows, self.dimension, self.width, self.accuracy))


def _eigenvalue_design(
    accuracy: float, rho: float, beta: float, dimension: int, *, of: str
) -> EigenvalueDesign:
    dimension = checks.whole(dimension, "dimension", at_most=10_000, of=of, by=_BY)
    return _eigenvalue_grid(dimension, *promise_arguments(accuracy, rho, beta, "(0, 20]", of=of, by=_BY))


@lru_cache(maxsize=256)
def _eigenvalue_grid(dimension: int, accuracy: float, rho: float, beta: float) -> EigenvalueDesign:
    """The cells that need the fewest rows; they depend on the promise alone, never on a sample."""
    of, unit = "least_eigenvalue", 2.0 * accuracy / _EIGENVALUE_WIDTHS

    def needed(index: int) -> int:
        def enough(n: int) -> bool:
            return _eigenvalue_mismatch(n, dimension, index * unit) <= rho

        return least_rows(enough, "rho", rho, of=of, start=dimension + 5, most=_MOST_ROWS)

    def accurate(index: int) -> bool:
        return _eigenvalue_failure(needed(index), dimension, index * unit, accuracy) <= beta

    widest = search.whole_edge(accurate, 0, _EIGENVALUE_WIDTHS)
    if widest == 0:
        raise InvalidArgument("beta", "large enough for some sample below 2⁵³ rows", beta, of=of)
    return EigenvalueDesign(accuracy, rho, beta, needed(widest), dimension, widest * unit)


def round_least(
    least: npt.ArrayLike, rows: int, dimension: int, width: float, coins: npt.ArrayLike
) -> Floats:
    """The rounded estimate from the least eigenvalue of the centred sums of squares and products."""
    freedom = rows - 1.0
    # Between the largest and the smallest of what the least eigenvalue may be centred at, on the log scale.
    centre = math.log(freedom) / 2.0 + math.log(math.sqrt(freedom) - math.sqrt(dimension))
    return steady_exp(snap(np.log(np.asarray(least, dtype=np.float64)) - centre, width, coins))


def _eigenvalue_mismatch(rows: int, dimension: int, width: float) -> float:
    """E|ln λ̂ − ln λ̂'|/width ≤ 2√E[1/λ_min(GGᵀ)]/width: Poincaré for even functions."""
    return 2.0 * math.sqrt(inverse_least(rows - 1, dimension)) / width


def _eigenvalue_failure(rows: int, dimension: int, width: float, accuracy: float) -> float:
    """P(|ln(value/λ_min)| > accuracy), at most, averaged over the rounding error."""
    freedom = rows - 1.0
    slack = accuracy - math.log(LOSS)
    centre = math.sqrt(freedom) - math.sqrt(dimension)
    scale = freedom**0.25 * math.sqrt(max(centre, 0.0))
    # Each tail grows with the rounding error in its own direction, so the end of a slice bounds the slice.
    error = width * (np.arange(1, _EIGENVALUE_SLICES + 1) / _EIGENVALUE_SLICES - 0.5)
    above = gammaincc(freedom / 2.0, scale**2 * np.exp(slack - error) / 2.0)
    below = np.exp(-(np.maximum(centre - scale * np.exp((error - slack) / 2.0), 0.0) ** 2) / 2.0)
    return float((above + below).mean())


def inverse_least(freedom: int, dimension: int) -> float:
    """E[1/λ_min(GGᵀ)] for a d × f standard normal G, at most; infinite where f is too small for the bound.

    The smaller of E tr (GGᵀ)⁻¹ = d/(f−d−1) and an integral over P(σ_min < √f − √d − t). That probability is
    at most e^{−t²/2} and at most d·P(χ²_{f−d+1} < d(√f − √d − t)²). The integral goes up to t = ¾(√f − √d).
    Beyond that, Cauchy–Schwarz with E tr (GGᵀ)⁻² = d(f−1)/((f−d)(f−d−1)(f−d−3)).
    """
    centre, room = math.sqrt(freedom) - math.sqrt(dimension), freedom - dimension
    if room <= 3:
        return math.inf
    shortfall = np.linspace(0.0, 0.75 * centre, _EIGENVALUE_SLICES + 1)
    least = (centre - shortfall) ** 2
    small = dimension * gammainc((room + 1.0) / 2.0, dimension * least / 2.0)
    tail = np.minimum(np.exp(-(shortfall**2) / 2.0), small)
    inside = float(1.0 / least[0] + (np.diff(1.0 / least) * tail[:-1]).sum())
    traces = dimension * (freedom - 1.0) / (room * (room - 1.0) * (room - 3.0))
    return min(inside + math.sqrt(traces * float(tail[-1])), dimension / (room - 1.0))


_IDENTITY_SLICES = 1024
_IDENTITY = "identity_test"
_IDENTITY_BY = "SIS Theorem 6.16"


def identity_test(
    x: npt.ArrayLike,
    mean: npt.ArrayLike,
    covariance: npt.ArrayLike,
    *,
    distance: float,
    rho: float,
    tape: Tape,
    beta: float = 0.05,
    best_effort: bool = False,
) -> Result[bool]:
    """Whether Gaussian rows have the stated mean (True) or one at least ``distance`` away (False).

    Distance is Mahalanobis, with the stated covariance. The test compares √n times the distance of the
    sample mean with a threshold that the tape draws from a window. Exactly ``identity_test_rows`` rows
    are read, the first ones, so that samples of different sizes agree.

    Guarantee: two samples and one tape give different verdicts with probability at most ``rho``,
    whatever the true mean; True where the mean is the stated one and False where it is at least
    ``distance`` away, each except with probability ``beta``.
    Assumes: independent rows from N(μ', Σ) with the stated Σ (not checkable). ``best_effort`` reports
    the least ρ, to 1/4096, that the rows allow for this ``beta``.
    Reference: SIS Theorem 6.16, which asks for success 2/3; test and constants Holdfast.

    Args:
        x: The rows, one column for each coordinate.
        mean: The mean that is stated.
        covariance: The covariance that is stated.
        tape: The shared coins; both laboratories use the same.

    >>> rows = np.random.default_rng(1).normal([3.0, -2.0], [1.0, 0.5], size=(6_000, 2))
    >>> identity_test(rows, [3, -2], [[1, 0], [0, 0.25]], distance=0.2, rho=0.1, tape=Tape("study-7")).value
    True
    """
    tape = tape_argument(tape, of=_IDENTITY)
    white = _whitened(x, mean, covariance)
    design = _identity_design(distance, rho, beta, white.shape[1], of=_IDENTITY)
    kept_design = design.kept_by(
        min(len(white), design.rows), best_effort=best_effort, what="An identity test with this promise"
    )
    start, span = (
        _identity_start(design.dimension, kept_design.rho, design.beta),
        _identity_span(kept_design.rho),
    )
    threshold = start + span * float(tape.branch("identity test").uniforms(1)[0])
    statistic = math.sqrt(kept_design.rows) * float(np.linalg.norm(white[: kept_design.rows].mean(axis=0)))
    details = {"statistic": statistic, "threshold": threshold, "needed": design.rows}
    return kept_design.result(statistic <= threshold, tape, details)


def identity_test_rows(*, distance: float, rho: float, beta: float = 0.05, dimension: int = 1) -> int:
    """The rows that :func:`identity_test` needs in ``dimension`` dimensions: about (1.27/ρ² +
    2.26√d/ρ)/distance².

    Guarantee: the smallest number for which the bound of docs/theory/replicable-estimation.md on a missed
    difference is at most ``beta``, on a window of thresholds that keeps the other two promises.
    Assumes: as :func:`identity_test`.
    Reference: Holdfast; SIS Theorem 6.16 states Õ(√d/(α²ρ²)).

    >>> identity_test_rows(distance=0.2, rho=0.1, dimension=10)
    4409
    """
    return _identity_design(distance, rho, beta, dimension, of="identity_test_rows").rows


def _whitened(x: Any, mean: Any, covariance: Any) -> npt.NDArray[np.float64]:
    """Rows minus the mean, in coordinates in which the stated covariance is the identity."""
    values = table_argument(x, of=_IDENTITY)
    dimension = values.shape[1]
    centre = np.atleast_1d(np.asarray(mean, dtype=np.float64))
    if centre.shape != (dimension,) or not np.isfinite(centre).all():
        raise InvalidArgument("mean", f"{dimension} finite numbers", mean, of=_IDENTITY)
    matrix = np.atleast_2d(np.asarray(covariance, dtype=np.float64))
    symmetric = matrix.shape == (dimension, dimension) and np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0)
    if not symmetric or not np.isfinite(matrix).all():
        raise InvalidArgument(
            "covariance", f"a symmetric {dimension} × {dimension} matrix", covariance, of=_IDENTITY
        )
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidArgument("covariance", "positive definite", covariance, of=_IDENTITY) from None
    white: npt.NDArray[np.float64] = np.linalg.solve(factor, (values - centre).T).T
    return white


@dataclass(frozen=True)
class IdentityDesign(Design):
    """A window of thresholds in ``dimension`` dimensions; ``accuracy`` is the distance that must be seen.

    Fewer rows keep ``beta`` with a wider window, for the least ρ, to 1/4096, that they allow.
    """

    dimension: int

    def mismatch(self, rows: int) -> float:
        distance, beta = self._distance, self.beta
        step = search.least_whole(
            lambda i: _identity_rows(self.dimension, distance, i / 4096.0, beta) <= rows, most=4095
        )
        return 1.0 if step is None else step / 4096.0

    def failure(self, rows: int) -> float:
        if self.mismatch(rows) < 1.0:
            return self.beta
        start, span = _identity_start(self.dimension, 1.0, self.beta), _identity_span(1.0)
        missed = _identity_missed(rows, self.dimension, self._distance, start, span)
        return rounding.probability(max(self.beta, missed))

    @property
    def _distance(self) -> float:
        assert self.accuracy is not None
        return self.accuracy


def _identity_design(distance: float, rho: float, beta: float, dimension: int, *, of: str) -> IdentityDesign:
    dimension = checks.whole(dimension, "dimension", at_most=1_000_000, of=of, by=_IDENTITY_BY)
    promise = promise_arguments(distance, rho, beta, "(0, inf)", of=of, by=_IDENTITY_BY, name="distance")
    return IdentityDesign(*promise, _identity_rows(dimension, *promise), dimension)


def _identity_span(rho: float) -> float:
    """The length of the window of thresholds: two 1-Lipschitz statistics differ by 2/√π on average."""
    return 2.0 / (math.sqrt(math.pi) * rho)


@lru_cache(maxsize=256)
def _identity_start(dimension: int, rho: float, beta: float) -> float:
    """The least start, in 256ths, of a window in which a true hypothesis is refused at most ``beta`` of
    the time."""
    ends = np.arange(_IDENTITY_SLICES) / _IDENTITY_SLICES * _identity_span(rho)

    def refused(index: int) -> float:
        return float(gammaincc(dimension / 2.0, (index / 256.0 + ends) ** 2 / 2.0).mean())

    index = 0 if refused(0) <= beta else search.least_whole(lambda i: refused(i) <= beta, most=2**62)
    if index is None:
        raise InvalidArgument("beta", "large enough for some threshold", beta, of=_IDENTITY)
    return index / 256.0


def _identity_missed(rows: int, dimension: int, distance: float, start: float, span: float) -> float:
    """P(√n·distance from the hypothesis ≤ threshold) when the truth is at ``distance``, at most."""
    ends = start + np.arange(1, _IDENTITY_SLICES + 1) / _IDENTITY_SLICES * span
    return float(chndtr(ends**2, dimension, rows * distance**2).mean())


@lru_cache(maxsize=256)
def _identity_rows(dimension: int, distance: float, rho: float, beta: float) -> int:
    start, span = _identity_start(dimension, rho, beta), _identity_span(rho)
    return least_rows(
        lambda n: _identity_missed(n, dimension, distance, start, span) <= beta,
        "distance",
        distance,
        of=_IDENTITY,
        most=_MOST_ROWS,
    )
