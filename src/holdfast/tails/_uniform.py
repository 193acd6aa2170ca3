"""Uniform convergence: how far the shares of all events of a class are from their probabilities at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast import checks, rounding

__all__ = ["uniform_convergence", "uniform_convergence_rows"]

_MOST_ROWS = 2**60


def uniform_convergence(*, vc: Any, n: Any, deviation: Any, method: str = "sharp") -> float:
    """Some event of a class of VC dimension ``vc`` has a share off by ``deviation`` or more: how likely.

    Guarantee: P(sup |share − probability| ≥ γ) ≤ 4 Π(2n) e^{−nγ²/8} for ``n`` independent rows. "sharp": Π is
    Sauer's sum, C(2n, 0) + … + C(2n, vc); "paper": (2n)^vc.
    Assumes: independent rows of one distribution (not checkable); the class fixed in advance. "paper": vc ≥
    2, where (2n)^vc is above Sauer's sum.
    Reference: SIS Theorem 2.16 (Vapnik and Chervonenkis 1971; Blumer, Ehrenfeucht, Haussler and Warmuth
    1989).

    >>> round(uniform_convergence(vc=3, n=30_000, deviation=0.1), 6)
    0.007453
    """
    of, by = "uniform_convergence", "SIS Theorem 2.16"
    checks.choice(method, "method", ("paper", "sharp"), of=of)
    vc = checks.whole(vc, "vc", at_least=2 if method == "paper" else 0, at_most=10**6, of=of, by=by)
    n = checks.whole(n, "n", at_most=_MOST_ROWS, of=of, by=by)
    deviation = checks.real(deviation, "deviation", "(0, 1]", of=of, by=by)
    nats = vc * math.log(2.0 * n) if method == "paper" else _log_sauer(2 * n, vc)
    exponent = math.log(4.0) + nats - n * deviation * deviation / 8.0
    # Logarithms of factorials lose digits as they grow.
    slip = 1e-12 * (1.0 + abs(nats) + n * deviation * deviation / 8.0)
    return 1.0 if exponent + slip >= 0.0 else rounding.probability(math.exp(exponent + slip))


def uniform_convergence_rows(*, vc: Any, deviation: Any, beta: Any, method: str = "sharp") -> int:
    """The fewest rows for which :func:`uniform_convergence` is at most ``beta``.

    Guarantee: as :func:`uniform_convergence`, for this many rows and more.
    Assumes: as :func:`uniform_convergence`.
    Reference: SIS Theorem 2.16.

    >>> uniform_convergence_rows(vc=3, deviation=0.1, beta=0.05)
    28341
    """
    beta = checks.real(beta, "beta", "(0, 1)", of="uniform_convergence_rows", by="SIS Theorem 2.16")

    def enough(n: int) -> bool:
        return bool(uniform_convergence(vc=vc, n=n, deviation=deviation, method=method) <= beta)

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _log_sauer(points: int, vc: int) -> float:
    """ln of the largest number of subsets of ``points`` points that a class of this dimension cuts out."""
    from scipy import special

    if vc >= points:
        return points * math.log(2.0)
    chosen = np.arange(vc + 1.0)
    terms = (
        special.gammaln(points + 1.0) - special.gammaln(chosen + 1.0) - special.gammaln(points - chosen + 1.0)
    )
    return float(np.logaddexp.reduce(terms))
