"""Exact privacy profiles of named noise: the δ of k adaptive answers that each move by ``ratio`` widths.

The Gaussian profile is a difference of two normal tails that agree to many digits where it matters. It is
computed as φ(u)·(R(u) − R(v)) with R the Mills ratio, and the difference, where it would cancel, as the
integral of −R' > 0. The Laplace profile lives in ``_laplace``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from holdfast import checks, rounding
from holdfast.records import Record
from holdfast.stability import _laplace
from holdfast.stability._composition import from_log

__all__ = ["Gaussian", "Laplace", "gaussian_delta", "laplace_delta"]

_Floats = npt.NDArray[np.float64]

# Beyond this the profile is 0 or 1 in any float format, and its square still is a float.
_FAR = 1e150

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@dataclass(frozen=True, repr=False)
class Gaussian(Record):
    """Gaussian noise on every answer; ``ratio`` is how far an answer may move, in standard deviations."""

    ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", checks.real(self.ratio, "ratio", "[0, inf)", of="Gaussian"))


@dataclass(frozen=True, repr=False)
class Laplace(Record):
    """Laplace noise on every answer; ``ratio`` is how far an answer may move, in scales."""

    ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", checks.real(self.ratio, "ratio", "[0, inf)", of="Laplace"))


def gaussian_delta(epsilon: Any, ratio: Any, k: Any = 1) -> float:
    """The exact δ at ``epsilon`` of k adaptive Gaussian answers with shift/sd = ``ratio``.

    Guarantee: δ = Φ(a/2 − ε/a) − e^ε Φ(−a/2 − ε/a), a = ratio·√k, for adaptively chosen shifts of at most
        ``ratio``; relative error below 1e-11 down to 1e-300, rounded up.
    Assumes: fresh independent Gaussian noise on every answer (not checkable).
    Reference: Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022, corollary 3.3 (composition).

    >>> round(gaussian_delta(1.0, 1.0), 9)
    0.126936738
    """
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of="gaussian_delta")
    ratio = checks.real(ratio, "ratio", "[0, inf)", of="gaussian_delta")
    k = checks.whole(k, "k", of="gaussian_delta")
    if ratio == 0.0:
        return 0.0
    # ε/a − a/2 in exact arithmetic up to the last division: at large ratios only the difference counts.
    total = min(ratio * math.sqrt(k), _FAR)
    near = (Fraction(epsilon) - k * Fraction(ratio) ** 2 / 2) / Fraction(total)
    bounded = float(max(-Fraction(_FAR), min(near, Fraction(_FAR))))
    log_delta = float(_log_tail_difference(np.array([bounded]), np.array([total]))[0])
    return rounding.probability(from_log(min(0.0, log_delta + 1e-12 + 2e-15 * abs(min(log_delta, 0.0)))))


def laplace_delta(epsilon: Any, ratio: Any, k: Any = 1) -> float:
    """The δ at ``epsilon`` of k adaptive Laplace answers with shift/scale = ``ratio``.

    Guarantee: an upper bound on the hockey-stick divergence of k-fold (Lap, Lap + ratio), within a relative
        1e-7 for k up to 10⁸, however small it is; exactly zero where ε ≥ k·ratio.
    Assumes: fresh independent Laplace noise on every answer (not checkable).
    Reference: the privacy-loss distribution of Laplace noise, inverted by contour integration
        (``docs/theory``).

    >>> round(laplace_delta(9.0, 0.01, 10_000), 21)
    8.02e-19
    """
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of="laplace_delta")
    ratio = checks.real(ratio, "ratio", "[0, inf)", of="laplace_delta")
    k = checks.whole(k, "k", at_most=_laplace.MOST, of="laplace_delta")
    if ratio == 0.0:
        return 0.0
    return rounding.probability(from_log(_laplace.log_delta(k, ratio, epsilon)))


def log_gaussian_delta(epsilon: _Floats, ratio: _Floats) -> _Floats:
    """ln δ of one Gaussian answer, elementwise; ``ratio`` > 0."""
    return _log_tail_difference(epsilon / ratio - ratio / 2.0, ratio)


def _log_tail_difference(near: _Floats, ratio: _Floats) -> _Floats:
    """ln(Φ(−near) − e^ε Φ(−near − ratio)), where e^ε is what makes both densities equal there."""
    near = np.minimum(near, _FAR)
    inner = np.maximum(near, -8.0)
    narrow = ratio < 0.1 * (1.0 + np.abs(inner))
    width = np.where(narrow, ratio, 0.0)
    points = inner[..., None] + 0.5 * width[..., None] * (1.0 + _NODES)
    together = np.log(0.5 * (_mills_descent(points) @ _WEIGHTS)) + np.log(ratio)
    apart = np.log(np.where(narrow, 1.0, _mills(inner) - _mills(inner + ratio)))
    log_value = np.where(narrow, together, apart) - 0.5 * inner * inner - 0.5 * math.log(2.0 * math.pi)
    # Below -8 the second tail is under 1e-14, and the first alone is an upper bound.
    return np.where(near < -8.0, scipy.special.log_ndtr(-near), log_value)


def _mills(x: _Floats) -> _Floats:
    """(1 − Φ(x))/φ(x)."""
    result: _Floats = math.sqrt(math.pi / 2.0) * scipy.special.erfcx(x / math.sqrt(2.0))
    return result


def _mills_descent(x: _Floats) -> _Floats:
    """−R'(x) = 1 − x R(x) > 0; for large x as c R, with R(x) = 1/(x + c(x)) as a continued fraction."""
    large = np.maximum(x, 5.0)
    fraction = large
    for depth in range(60, 1, -1):
        fraction = large + depth / fraction
    return np.where(x < 5.0, 1.0 - x * _mills(x), _mills(large) / fraction)
