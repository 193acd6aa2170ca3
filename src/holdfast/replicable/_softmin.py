"""Choosing by shared clocks: the exponential mechanism with correlated sampling.

Model i is chosen with probability proportional to exp(−(mean loss of i)/scale), by clocks that both
laboratories share. The proofs are in ``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math

from scipy.special import lambertw, ndtr

from holdfast import rounding

__all__ = ["softmin_failure", "softmin_rho", "softmin_scale"]

# E e^{|Z|√v} is concave in v up to here, and (E e^{|Z|√v} − 1 − √(2v/π))/(v e^{v/2}) never exceeds _BEND.
_CONCAVE = 0.4
_BEND = 0.605
# Narrower than the solution by more than rounding could widen it.
_SAFE = 1.0 - 1e-12


def spread(variance: float) -> float:
    """E e^{|X|} − 1 for X normal with this variance.

    >>> round(spread(0.01), 6)
    0.085067
    """
    return 2.0 * math.exp(variance / 2.0) * float(ndtr(math.sqrt(variance))) - 1.0


def softmin_scale(models: int, rows: int, accuracy: float, beta: float, *, realizable: bool) -> float | None:
    """The largest scale at which a model worse than ``accuracy`` is chosen with probability ≤ ``beta``.

    None if no scale achieves it with so few rows.
    """
    odds = math.log(models - 1) + math.log1p(-beta) - math.log(beta)
    if odds <= 0.0:
        return math.inf
    if realizable:
        # (1 − α(1 − e^{−1/ns}))^n = e^{−odds}
        share = -math.expm1(-odds / rows) / accuracy
        return None if share >= 1.0 else -_SAFE / (rows * math.log1p(-share))
    inside = accuracy**2 - 2.0 * odds / rows
    if inside < 0.0:
        return None
    # The smaller root y = 1/s of y²/2n − αy + odds = 0, in a form that does not cancel.
    return _SAFE * (accuracy + math.sqrt(inside)) / (2.0 * odds)


def softmin_failure(models: int, rows: int, accuracy: float, scale: float, *, realizable: bool) -> float:
    """The probability that the chosen model is worse than the best by more than ``accuracy``, at most."""
    if realizable:
        exponent = rows * math.log1p(accuracy * math.expm1(-1.0 / (rows * scale)))
    else:
        exponent = 1.0 / (2.0 * rows * scale**2) - accuracy / scale
    bad = (models - 1) * math.exp(min(700.0, exponent))
    return rounding.probability(bad / (1.0 + bad))


def softmin_rho(models: int, rows: int, scale: float, *, realizable: bool) -> float:
    """The probability that two samples of this size choose different models, at most."""
    if math.isinf(scale):
        return 0.0
    excess = _realizable_excess if realizable else _agnostic_excess
    mean = excess(models, rows, scale)
    return rounding.probability(mean / (1.0 + mean)) if math.isfinite(mean) else 1.0


def _agnostic_excess(models: int, rows: int, scale: float) -> float:
    step = 1.0 / (rows * scale)
    if 1.0 / (rows * scale**2) + 8.0 * step**2 > _CONCAVE:
        return math.inf
    several = 1.0 - 1.0 / models
    second_moment = min(1.0, 0.5 + math.sqrt(math.log(models) / (2.0 * rows)))
    variance = second_moment / (2.0 * rows * scale**2 * several) + 8.0 * step**2
    return several * (spread(variance) + step / 60.0)


def _realizable_excess(models: int, rows: int, scale: float) -> float:
    step = 1.0 / (rows * scale)
    several = 1.0 - 1.0 / models
    # The largest mean loss, in scales, of a softmin over one perfect model and models − 1 others.
    level = float(lambertw((models - 1) / math.e).real)
    tilt = step / 2.0
    room = 1.0 - tilt - tilt * level
    if room <= 0.0:
        return math.inf
    tilted = (1.0 - tilt) / room
    first = math.sqrt(2.0 / math.pi * several * (level * step + 8.0 * several * step**2))
    second = _BEND * tilted**2 * level * step / (1.0 - tilt)
    return first + second + several * step / 60.0
