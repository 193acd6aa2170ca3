"""Is the mean the stated one, or far from it? A test whose verdict is replicable (SIS Theorem 6.16)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chndtr, gammaincc

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._design import Result, chance, least_whole, table_argument
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["identity_test", "identity_test_rows"]

_SLICES = 1024
_NAME = "identity_test"


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

    index = 0 if refused(0) <= beta else least_whole(lambda i: refused(i) <= beta)
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
    found = least_whole(lambda n: _missed(n, dimension, distance, start, span) <= beta, most=2**53)
    if found is None:
        raise InvalidArgument("distance", "large enough for some sample below 2⁵³ rows", distance, of=_NAME)
    return found


def _affordable(rows: int, dimension: int, distance: float, beta: float) -> float:
    """The least ρ, to 1/4096, for which ``rows`` rows suffice; 1 if there is none."""
    step = least_whole(lambda i: _rows(dimension, distance, i / 4096.0, beta) <= rows, most=4095)
    return 1.0 if step is None else step / 4096.0


def _parameters(
    distance: Any, rho: Any, beta: Any, dimension: Any, of: str
) -> tuple[int, float, float, float]:
    by = "SIS Theorem 6.16"
    return (
        checks.whole(dimension, "dimension", at_most=1_000_000, of=of, by=by),
        checks.real(distance, "distance", "(0, inf)", of=of, by=by),
        chance(rho, "rho", of=of, by=by),
        chance(beta, "beta", of=of, by=by),
    )


def identity_test_rows(*, distance: Any, rho: float, beta: float = 0.05, dimension: Any = 1) -> int:
    """The rows that :func:`identity_test` needs in ``dimension`` dimensions: about (1.27/ρ² +
    2.26√d/ρ)/distance².

    Guarantee: the smallest number for which the bound of docs/theory/replicable-estimation.md on a missed
    difference is at most ``beta``, on a window of thresholds that keeps the other two promises.
    Assumes: as :func:`identity_test`.
    Reference: Holdfast; SIS Theorem 6.16 states Õ(√d/(α²ρ²)).

    >>> identity_test_rows(distance=0.2, rho=0.1, dimension=10)
    4409
    """
    return _rows(*_parameters(distance, rho, beta, dimension, "identity_test_rows"))


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


def identity_test(
    x: Any,
    mean: Any,
    covariance: Any,
    *,
    distance: Any,
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

    >>> rows = np.random.default_rng(1).normal([3.0, -2.0], [1.0, 0.5], size=(6_000, 2))
    >>> identity_test(rows, [3, -2], [[1, 0], [0, 0.25]], distance=0.2, rho=0.1, tape=Tape("study-7")).value
    True
    """
    tape = tape_argument(tape, of=_NAME)
    white = _whitened(x, mean, covariance)
    dimension, distance, rho, beta = _parameters(distance, rho, beta, white.shape[1], _NAME)
    needed = _rows(dimension, distance, rho, beta)
    rows = min(len(white), needed)
    if rows < needed:
        if not best_effort:
            raise NotEnoughRows(needed, rows, what="An identity test with this promise")
        rho = _affordable(rows, dimension, distance, beta)
    span = _span(rho)
    start = _start(dimension, rho, beta)
    if rho == 1.0:
        beta = rounding.probability(max(beta, _missed(rows, dimension, distance, start, span)))
    threshold = start + span * float(tape.branch("identity test").uniforms(1)[0])
    statistic = math.sqrt(rows) * float(np.linalg.norm(white[:rows].mean(axis=0)))
    return Result(
        statistic <= threshold,
        Replicability(rho),
        distance,
        beta,
        rows=rows,
        tape=str(tape),
        details={"statistic": statistic, "threshold": threshold, "needed": needed},
    )
