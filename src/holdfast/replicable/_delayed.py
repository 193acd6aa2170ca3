"""Choosing by clocks that all start late: the exponential mechanism with an end to its tail.

All shared exponentials are delayed by the same little time, so that a model far behind can hardly win: β
costs little more than ln ln(1/β). The proofs are in ``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import exp1

from holdfast import rounding
from holdfast.replicable._elementary import Floats, logarithm
from holdfast.replicable._softmin import spread
from holdfast.replicable._tape import Tape
from holdfast.replicable._widest import widest

__all__ = ["delayed_choice", "delayed_failure", "delayed_rho", "delayed_scale"]

# The delay times the number of models; within a few percent of the best for all sizes that were tried.
_DELAY = 0.05
# J is concave up to here.
_CONCAVE = 0.4
_POWERS = np.concatenate((np.arange(10, 16) / 10.0, np.arange(7, 13) / 4.0, np.arange(4, 9)))
# ln((p − 1)^{p−1}/p^p), with 0⁰ = 1.
_BENDS = np.array([(p - 1) * math.log(p - 1) - p * math.log(p) if p > 1 else 0.0 for p in _POWERS])
_TIMES = np.concatenate(([0.0], np.geomspace(1e-4, 60.0, 1000)))
_CHANCES = np.exp(-_TIMES[:-1]) - np.exp(-_TIMES[1:])


def delayed_choice(means: Floats, scale: float, tape: Tape) -> int:
    """The model whose delayed clock, slowed by its loss, rings first."""
    exponentials = tape.branch("delayed").exponentials(len(means))
    return int(np.argmin(logarithm(_DELAY / len(means) + exponentials) + means / scale))


def delayed_scale(models: int, rows: int, accuracy: float, beta: float) -> float | None:
    """The largest scale at which a bad model is chosen with probability ≤ ``beta``, or None."""
    return widest(lambda scale: delayed_failure(models, rows, accuracy, scale), beta, accuracy)


def delayed_failure(models: int, rows: int, accuracy: float, scale: float) -> float:
    """The probability that the chosen model is worse than the best by more than ``accuracy``, at most."""
    delay = _DELAY / models
    logs = _BENDS + (1.0 - _POWERS) * math.log(delay) - _POWERS * accuracy / scale
    logs += _POWERS**2 / (2.0 * rows * scale**2) + math.log(models - 1)
    # It grows with the time at which the best model's clock rings: each cell takes the value at its end.
    best = np.min(logs[:, None] + _POWERS[:, None] * np.log(delay + _TIMES[1:]), axis=0)
    chances = -np.expm1(-np.exp(np.minimum(best, 700.0)))
    return rounding.probability(float(_CHANCES @ chances) + math.exp(-_TIMES[-1]))


def delayed_rho(models: int, rows: int, scale: float) -> float:
    """The probability that two samples of this size choose different models, at most."""
    step = 1.0 / (rows * scale)
    if 1.0 / (rows * scale**2) + 8.0 * step**2 > _CONCAVE:
        return 1.0
    second_moment = min(1.0, 0.5 + math.sqrt(math.log(models) / (2.0 * rows)))
    mean = spread(second_moment / (2.0 * rows * scale**2) + 8.0 * step**2) + step / 60.0
    inactive = _DELAY**2 / 4.0 * (1.0 + float(exp1(_DELAY / 4.0)))
    return rounding.probability(1.0 - math.exp(-(_DELAY + inactive * (1.0 + mean)) * mean) / (1.0 + mean))
