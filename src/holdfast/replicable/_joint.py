"""One joint draw: all coordinates of an estimate get normal noise together, by coins that laboratories share.

The rows grow with the square of the dimension where rounding coordinate by coordinate takes its cube (SIS
Theorems 6.14 and 6.15). The price is time: ``correlated_normal`` tries one shifted lattice after another,
300 on average in 20 dimensions and soon too many beyond.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, chdtri, gammaln, ndtr

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.replicable._correlated import MOST_DIMENSIONS, correlated_normal, density
from holdfast.replicable._design import Design, Result, promise_arguments
from holdfast.replicable._rounding import law_of_sum, round_to_grid
from holdfast.replicable._tape import Floats, Tape

__all__ = [
    "KnownMeanDesign",
    "SharesDesign",
    "covariance_argument",
    "draw_mean",
    "draw_shares",
    "grid_mean",
    "joint_mean",
    "known_mean_design",
    "lattices_tried",
    "mismatch_of",
    "noise_for",
    "shares_design",
]

KNOWN_METHODS = ("cheapest", "grid", "joint")
# No packing of equal balls in d dimensions covers more than 2^(−0.599 d + o(d)) (Kabatiansky and
# Levenshtein 1978).
_THINNING = 0.599
_CELLS = 2048
_BY = "SIS Theorem 6.15"
_SHARES_OF_BETA = (0.5, 0.7, 0.8, 0.9, 0.95)
_NEAR = 1e-12


def lattices_tried(dimension: int) -> float:
    """How many shifted lattices a joint draw tries on average: ours up to 20 dimensions, the best of all
    beyond."""
    if dimension <= 1:
        return 1.0
    if dimension <= MOST_DIMENSIONS:
        return 1.0 / density(dimension)
    return float(2.0 ** (_THINNING * min(dimension, 1000)))


def noise_for(distance: float, rho: float) -> float:
    """The sd of joint noise for which two estimates at mean distance ``distance`` get different draws with
    probability ``rho`` at most.

    Two normal laws at distance D in units of their sd have total variation T ≤ D/√(2π), and shared coins
    part with probability 2T/(1 + T) at most, which is concave in T.
    """
    return rounding.up(distance / math.sqrt(2.0 * math.pi) * (2.0 - rho) / rho)


def mismatch_of(distance: float, noise: float) -> float:
    """How often the draws differ with this ``noise``, at most: the inverse of :func:`noise_for`."""
    apart = distance / (noise * math.sqrt(2.0 * math.pi))
    return rounding.probability(2.0 * apart / (1.0 + apart))


# Shares of k categories


def _shares_distance(categories: int) -> float:
    """√n times the mean distance of the shares of two samples, at most."""
    return math.sqrt(2.0 * (1.0 - 1.0 / categories))


def _shares_reach(categories: int, noise: float, beta: float) -> float:
    """√n times a total variation that draw and sample together exceed with probability ``beta`` at most."""
    k = float(categories)
    length = math.sqrt(2.0 * k * (k - 1.0) / math.pi)  # of the noise, in absolute values
    return min(
        0.5 * noise * (length + math.sqrt(-2.0 * k * math.log(share * beta)))
        + 0.5 * math.sqrt(k - 1.0)
        + math.sqrt(-math.log((1.0 - share) * beta) / 2.0)
        for share in _SHARES_OF_BETA
    )


@dataclass(frozen=True)
class SharesDesign(Design):
    """One joint draw of the shares of ``categories`` categories; ``width`` is the sd of its noise."""

    categories: int
    width: float

    def mismatch(self, rows: int) -> float:
        return mismatch_of(_shares_distance(self.categories) / math.sqrt(rows), self.width)

    def failure(self, rows: int) -> float:
        """The least power of ½ that is proved."""
        assert self.accuracy is not None
        root, within = math.sqrt(rows), self.accuracy * math.sqrt(rows)

        def reached(halvings: int) -> bool:
            return _shares_reach(self.categories, self.width * root, 2.0**-halvings) > within

        first = search.least_whole(reached, most=64) or 64
        return min(1.0, 2.0 ** -(first - 1))


@lru_cache(maxsize=256)
def shares_design(categories: int, accuracy: float, rho: float, beta: float) -> SharesDesign:
    """Rows and noise for the shares of ``categories`` by one joint draw."""
    noise = noise_for(_shares_distance(categories), rho)
    rows = math.ceil(rounding.up((_shares_reach(categories, noise, beta) / accuracy) ** 2))
    return SharesDesign(accuracy, rho, beta, rows, categories, noise / math.sqrt(rows))


def draw_shares(shares: Floats, noise: float, tape: Tape) -> Floats:
    """Shares plus normal noise whose sum is 0, the same for two laboratories most of the time; then no share
    is left negative.

    The noise lives in the k − 1 dimensions of Helmert's contrasts (s₁ + … + s_i − i·s_{i+1})/√(i(i+1)).
    Every sum is exactly rounded, so that equal draws give equal bits on every machine.
    """
    k = shares.size
    values = shares.tolist()
    scales = [math.sqrt(i * (i + 1.0)) for i in range(1, k)]
    contrasts = [math.fsum([*values[:i], -i * values[i]]) / scales[i - 1] for i in range(1, k)]
    drawn = correlated_normal(contrasts, noise, tape).tolist()
    parts = [value / scale for value, scale in zip(drawn, scales, strict=True)]
    moved = [math.fsum([1.0 / k, -i * parts[i - 1] if i else 0.0, *parts[i:]]) for i in range(k)]
    kept = [max(share, 0.0) for share in moved]
    total = math.fsum(kept)
    return np.array([share / total for share in kept])


# The mean of Gaussian rows whose covariance is known


def _mean_length(dimension: int) -> float:
    """E χ_d."""
    half = dimension / 2.0
    return math.sqrt(2.0) * math.exp(float(gammaln(half + 0.5) - gammaln(half)))


@dataclass(frozen=True)
class KnownMeanDesign(Design):
    """A mean in ``dimension`` dimensions, covariance known: a grid of this ``width``, or joint noise of this
    sd."""

    dimension: int
    method: str
    width: float

    def mismatch(self, rows: int) -> float:
        if self.method == "joint":
            return mismatch_of(math.sqrt(2.0 / rows) * _mean_length(self.dimension), self.width)
        return rounding.probability(2.0 * self.dimension / (math.sqrt(math.pi * rows) * self.width))

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        if self.method == "joint":
            variance = self.width**2 + 1.0 / rows
            return rounding.probability(float(chdtrc(self.dimension, self.accuracy**2 / variance)))
        root = math.sqrt(rows)
        return rounding.probability(_beyond(self.accuracy * root, self.dimension, self.width * root))

    def estimate(
        self,
        values: Floats,
        covariance: npt.ArrayLike,
        coins: Tape,
        tape: Tape,
        best_effort: bool,
        *,
        of: str,
    ) -> Result[Floats]:
        """The mean of these rows, with the coins of one branch of the tape."""
        factor = covariance_argument(covariance, self.dimension, of=of)
        kept_design = self.kept_by(
            len(values), best_effort=best_effort, what="A Gaussian mean with this promise"
        )
        mean = draw_mean(values.mean(axis=0), factor, self, coins.branch(self.method))
        return kept_design.result(
            mean, tape, {"method": self.method, "width": self.width, "needed": self.rows}
        )


def known_mean_design(
    dimension: int, accuracy: float, rho: float, beta: float, method: str, *, of: str
) -> KnownMeanDesign:
    """The design for a known covariance: by this method, or by the cheaper of those that can be run."""
    dimension = checks.whole(dimension, "dimension", at_most=1000, of=of, by=_BY)
    promise = promise_arguments(accuracy, rho, beta, "(0, inf)", of=of, by=_BY)
    checks.choice(method, "method", KNOWN_METHODS, of=of)
    if method == "joint" and dimension > MOST_DIMENSIONS:
        expected = f"'grid' or 'cheapest' beyond {MOST_DIMENSIONS} columns, where a joint draw takes too long"
        raise InvalidArgument("method", expected, method, of=of)
    designs = [grid_mean(dimension, *promise)] if method != "joint" else []
    if method != "grid" and dimension <= MOST_DIMENSIONS:
        designs.append(joint_mean(dimension, *promise))
    feasible = [design for design in designs if design is not None]
    if not feasible:
        raise InvalidArgument("beta", "larger: a grid is not planned for so little", beta, of=of)
    return min(feasible, key=lambda design: design.rows)


@lru_cache(maxsize=256)
def joint_mean(dimension: int, accuracy: float, rho: float, beta: float) -> KnownMeanDesign:
    """One joint draw, whose error is exactly normal: χ_d·√(noise² + 1)/√n."""
    noise = noise_for(math.sqrt(2.0) * _mean_length(dimension), rho)
    squared = (noise * noise + 1.0) * float(chdtri(dimension, beta)) * (1.0 + 1e-9)
    rows = math.ceil(rounding.up(squared / accuracy**2))
    return KnownMeanDesign(accuracy, rho, beta, rows, dimension, "joint", noise / math.sqrt(rows))


def _cell(dimension: int, rho: float) -> float:
    """√n times the width at which d shared grids separate two samples with probability ``rho`` at most."""
    return rounding.up(2.0 * dimension / (math.sqrt(math.pi) * rho))


def _absolute(x: Floats) -> Floats:
    """E|x + N(0, 1)|."""
    mean: Floats = x * (2.0 * ndtr(x) - 1.0) + math.sqrt(2.0 / math.pi) * np.exp(-(x**2) / 2.0)
    return mean


def _beyond(reach: float, dimension: int, cell: float) -> float:
    """P(Σ (cell·U_j + Z_j)² > reach²), at most: U_j uniform on [−½, ½], Z_j normal."""
    steps = reach * np.sqrt(np.arange(_CELLS + 1) / _CELLS)
    inside = (_absolute(steps + cell / 2.0) - _absolute(steps - cell / 2.0)) / cell
    return 1.0 - float(law_of_sum(np.clip(inside, 0.0, 1.0), dimension).sum())


@lru_cache(maxsize=256)
def grid_mean(dimension: int, accuracy: float, rho: float, beta: float) -> KnownMeanDesign | None:
    """A grid for each coordinate; None where β is below what sums on the lattice of steps can show."""
    cell = _cell(dimension, rho)
    far = math.sqrt(dimension) * (cell / 2.0 + 10.0 + math.sqrt(-2.0 * math.log(beta)))
    if _beyond(far, dimension, cell) > beta:
        return None
    reach = search.edge(
        lambda reach: _beyond(reach, dimension, cell) <= beta, far, 0.0, relative=0.0, absolute=far * _NEAR
    )
    rows = math.ceil(rounding.up((reach / accuracy) ** 2))
    return KnownMeanDesign(accuracy, rho, beta, rows, dimension, "grid", cell / math.sqrt(rows))


def covariance_argument(covariance: Any, dimension: int, *, of: str) -> list[list[float]]:
    """The lower Cholesky factor of a covariance, by exactly rounded sums: the same bits on every machine."""
    expected = f"a positive definite matrix of {dimension} × {dimension} numbers (a number for one column)"
    try:
        matrix = np.asarray(covariance, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 else matrix
    shaped = matrix.shape == (dimension, dimension) and bool(np.isfinite(matrix).all())
    if not shaped or not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0):
        raise InvalidArgument("covariance", expected, covariance, of=of)
    factor: list[list[float]] = []
    for i, row in enumerate(matrix.tolist()):
        line: list[float] = []
        for j in range(i):
            above = factor[j]
            line.append((row[j] - math.fsum(a * b for a, b in zip(line, above, strict=False))) / above[j])
        left = row[i] - math.fsum(entry * entry for entry in line)
        if not left > 1e-12 * row[i]:
            raise InvalidArgument("covariance", expected, covariance, of=of)
        factor.append([*line, math.sqrt(left)])
    return factor


def draw_mean(centre: Floats, factor: list[list[float]], design: KnownMeanDesign, tape: Tape) -> Floats:
    """A mean, drawn or rounded in coordinates in which the covariance is the identity."""
    plain: list[float] = []
    for value, line in zip(centre.tolist(), factor, strict=True):
        plain.append((value - math.fsum(a * b for a, b in zip(line, plain, strict=False))) / line[-1])
    if design.method == "joint":
        shared = correlated_normal(plain, design.width, tape).tolist()
    else:
        shared = round_to_grid(plain, design.width, tape).tolist()
    return np.array([math.fsum(a * b for a, b in zip(line, shared, strict=False)) for line in factor])
