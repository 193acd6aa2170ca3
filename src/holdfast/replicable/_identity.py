"""Is the mean the stated one, or far from it? A test whose verdict is replicable (SIS Theorem 6.16)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chndtr, gammaincc

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.replicable._design import Design, Result, least_rows, promise_arguments, table_argument
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["identity_test", "identity_test_rows"]

_SLICES = 1024
_NAME = "identity_test"
_BY = "SIS Theorem 6.16"
_MOST_ROWS = 2**53


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
) -> Result:
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
    tape = tape_argument(tape, of=_NAME)
    white = _whitened(x, mean, covariance)
    design = _design(distance, rho, beta, white.shape[1], of=_NAME)
    kept = design.kept_by(
        min(len(white), design.rows), best_effort=best_effort, what="An identity test with this promise"
    )
    start, span = _start(design.dimension, kept.rho, design.beta), _span(kept.rho)
    threshold = start + span * float(tape.branch("identity test").uniforms(1)[0])
    statistic = math.sqrt(kept.rows) * float(np.linalg.norm(white[: kept.rows].mean(axis=0)))
    details = {"statistic": statistic, "threshold": threshold, "needed": design.rows}
    return kept.result(statistic <= threshold, tape, details)


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
    return _design(distance, rho, beta, dimension, of="identity_test_rows").rows


def _whitened(x: Any, mean: Any, covariance: Any) -> npt.NDArray[np.float64]:
    """Rows minus the mean, in coordinates in which the stated covariance is the identity."""
    values = table_argument(x, of=_NAME)
    dimension = values.shape[1]
    centre = np.atleast_1d(np.asarray(mean, dtype=np.float64))
    if centre.shape != (dimension,) or not np.isfinite(centre).all():
        raise InvalidArgument("mean", f"{dimension} finite numbers", mean, of=_NAME)
    matrix = np.atleast_2d(np.asarray(covariance, dtype=np.float64))
    symmetric = matrix.shape == (dimension, dimension) and np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0)
    if not symmetric or not np.isfinite(matrix).all():
        raise InvalidArgument(
            "covariance", f"a symmetric {dimension} × {dimension} matrix", covariance, of=_NAME
        )
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InvalidArgument("covariance", "positive definite", covariance, of=_NAME) from None
    white: npt.NDArray[np.float64] = np.linalg.solve(factor, (values - centre).T).T
    return white


@dataclass(frozen=True)
class IdentityDesign(Design):
    """A window of thresholds in so many ``dimension``s; ``accuracy`` is the distance that must be seen.

    Fewer rows keep ``beta`` with a wider window, for the least ρ, to 1/4096, that they allow.
    """

    dimension: int

    def mismatch(self, rows: int) -> float:
        distance, beta = self._distance, self.beta
        step = search.least_whole(
            lambda i: _rows(self.dimension, distance, i / 4096.0, beta) <= rows, most=4095
        )
        return 1.0 if step is None else step / 4096.0

    def failure(self, rows: int) -> float:
        if self.mismatch(rows) < 1.0:
            return self.beta
        start, span = _start(self.dimension, 1.0, self.beta), _span(1.0)
        missed = _missed(rows, self.dimension, self._distance, start, span)
        return rounding.probability(max(self.beta, missed))

    @property
    def _distance(self) -> float:
        assert self.accuracy is not None
        return self.accuracy


def _design(distance: float, rho: float, beta: float, dimension: int, *, of: str) -> IdentityDesign:
    dimension = checks.whole(dimension, "dimension", at_most=1_000_000, of=of, by=_BY)
    promise = promise_arguments(distance, rho, beta, "(0, inf)", of=of, by=_BY, name="distance")
    return IdentityDesign(*promise, _rows(dimension, *promise), dimension)


def _span(rho: float) -> float:
    """The length of the window of thresholds: two 1-Lipschitz statistics differ by 2/√π on average."""
    return 2.0 / (math.sqrt(math.pi) * rho)


@lru_cache(maxsize=256)
def _start(dimension: int, rho: float, beta: float) -> float:
    """The least start, in 256ths, of a window in which a true hypothesis is refused at most ``beta`` of
    the time."""
    ends = np.arange(_SLICES) / _SLICES * _span(rho)

    def refused(index: int) -> float:
        return float(gammaincc(dimension / 2.0, (index / 256.0 + ends) ** 2 / 2.0).mean())

    index = 0 if refused(0) <= beta else search.least_whole(lambda i: refused(i) <= beta, most=2**62)
    if index is None:
        raise InvalidArgument("beta", "large enough for some threshold", beta, of=_NAME)
    return index / 256.0


def _missed(rows: int, dimension: int, distance: float, start: float, span: float) -> float:
    """P(√n·distance from the hypothesis ≤ threshold) when the truth is at ``distance``, at most."""
    ends = start + np.arange(1, _SLICES + 1) / _SLICES * span
    return float(chndtr(ends**2, dimension, rows * distance**2).mean())


@lru_cache(maxsize=256)
def _rows(dimension: int, distance: float, rho: float, beta: float) -> int:
    start, span = _start(dimension, rho, beta), _span(rho)
    return least_rows(
        lambda n: _missed(n, dimension, distance, start, span) <= beta,
        "distance",
        distance,
        of=_NAME,
        most=_MOST_ROWS,
    )
