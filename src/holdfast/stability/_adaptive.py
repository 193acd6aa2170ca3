"""Sharp adaptive validity: how far adaptivity can raise the probability of a rare event (theory 2.1).

T is the trade-off curve of k answers whose noise may have been moved by ``ratio``: T(p) is the largest
probability that an event of probability p in the ideal world, where answers are true means plus noise, can
have in the real one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._composition import from_log
from holdfast.stability._composition_lattice import Floats
from holdfast.stability._laplace import MOST, log_delta, sketch
from holdfast.stability._profiles import Gaussian, Laplace

__all__ = ["adaptive_failure"]

_SOURCE = "theory 2.1"

# One Laplace answer that moves by this many scales already makes the smallest float certain: 1 − e^-r/4p.
_CERTAIN = 800.0


def adaptive_failure(k: Any, nu: Any, noise: Gaussian | Laplace, *, event: Any = 0.0) -> float:
    """The chance that any of k adaptive queries misses the radius that each, if fixed, misses with ``nu``.

    Guarantee: P(E or some |q_j(X) − μ_j| > α) ≤ T(P_ideal(E) + kν), with T the trade-off curve of k answers
        with ``noise``, over the data, the noise and the analyst's coins; ``event`` is P_ideal(E). Gaussian:
        exact. Laplace: the exact curve to 1e-7, rounded up.
    Assumes: ``noise.ratio`` = α divided by the noise's sd or scale; fresh symmetric noise on every answer;
        the analyst's coins and prior knowledge independent of the data (not checkable).
    Reference: Holdfast, theory 2.1; proof in ``docs/theory``.

    >>> round(adaptive_failure(100, 1e-20, Gaussian(0.5)), 12)
    8.5881582e-05
    """
    name = "adaptive_failure"
    if not isinstance(noise, (Gaussian, Laplace)):
        raise InvalidArgument("noise", "Gaussian(ratio) or Laplace(ratio)", noise, of=name, reference=_SOURCE)
    most = MOST if isinstance(noise, Laplace) else None
    k = checks.whole(k, "k", at_most=most, of=name, by=_SOURCE)
    nu = checks.real(nu, "nu", "[0, 1]", of=name, by=_SOURCE)
    event = checks.real(event, "event", "[0, 1]", of=name, by=_SOURCE)
    ideal = rounding.up(event + k * nu)
    if ideal >= 1.0:
        return 1.0
    if ideal == 0.0 or noise.ratio == 0.0:
        return ideal
    raised = (
        _gaussian(ideal, k, noise.ratio) if isinstance(noise, Gaussian) else _laplace(ideal, k, noise.ratio)
    )
    return max(ideal, rounding.probability(raised))


def _gaussian(ideal: float, k: int, ratio: float) -> float:
    """Φ(Φ⁻¹(p) + √k·ratio)."""
    score = float(scipy.special.ndtri_exp(math.log(ideal)))
    moved = score + math.sqrt(k) * ratio
    log_value = float(scipy.special.log_ndtr(moved))
    # A relative error of 1e-15 in either score, seen through the slope of ln Φ.
    return from_log(min(0.0, log_value + 4e-15 * (1.0 + abs(score)) * (1.0 + max(0.0, -moved))))


def _laplace(ideal: float, k: int, ratio: float) -> float:
    if k == 1:
        return _laplace_once(ideal, ratio)
    if k * ratio < 1e-10:
        return ideal * math.exp(k * ratio)
    if ratio > _CERTAIN:
        return 1.0
    return from_log(_LaplaceCurve(k, ratio, ideal).minimum())


def _laplace_once(ideal: float, ratio: float) -> float:
    """The trade-off curve of one Laplace answer, in its three pieces."""
    if ideal <= 0.5 * math.exp(-ratio):
        return ideal * math.exp(ratio)
    if ideal <= 0.5:
        return 1.0 - math.exp(-ratio) / (4.0 * ideal)
    return 1.0 - math.exp(-ratio) * (1.0 - ideal)


class _LaplaceCurve:
    """ln T(p) = min over real ε of ln(e^ε p + δ(ε)); every ε gives a bound, so the search cannot break it."""

    def __init__(self, k: int, ratio: float, ideal: float) -> None:
        self.k, self.ratio, self.ideal = k, ratio, ideal
        self.log_ideal = math.log(ideal)
        self.best = min(0.0, self.log_ideal + k * ratio)

    def _log_bound(self, epsilon: Floats, log_delta_at: Floats) -> Floats:
        """ln(e^ε p + δ(ε)), given ln δ(|ε|); below zero, δ(ε) = 1 − e^ε + e^ε δ(−ε)."""
        left = np.minimum(epsilon, 0.0)
        backward = -np.expm1(left) + np.exp(left) * (self.ideal + np.exp(log_delta_at))
        return np.where(epsilon < 0.0, np.log(backward), np.logaddexp(epsilon + self.log_ideal, log_delta_at))

    def _try(self, epsilon: float) -> float:
        exact = np.array(log_delta(self.k, self.ratio, abs(epsilon)))
        found = float(self._log_bound(np.array(epsilon), exact))
        self.best = min(self.best, found)
        return found

    def minimum(self) -> float:
        from scipy.optimize import minimize_scalar

        epsilon, estimate = sketch(self.k, self.ratio)
        epsilon = np.concatenate((-epsilon[::-1], epsilon))
        start = int(np.argmin(self._log_bound(epsilon, np.concatenate((estimate[::-1], estimate)))))
        first, last = (self._descend(epsilon, start, direction) for direction in (-1, 1))
        low, high = float(epsilon[first]), float(epsilon[last])
        minimize_scalar(
            self._try, bounds=(low, high), method="bounded", options={"xatol": 1e-7 * (high - low)}
        )
        return self.best

    def _descend(self, epsilon: Floats, start: int, direction: int) -> int:
        """The first point, in strides that double, where the bound no longer falls: one end of a bracket."""
        here, value, stride = start, self._try(float(epsilon[start])), 2
        while 0 <= (there := here + direction * stride) < len(epsilon):
            found = self._try(float(epsilon[there]))
            if found > value:
                return there
            here, value, stride = there, found, 2 * stride
        return 0 if direction < 0 else len(epsilon) - 1
