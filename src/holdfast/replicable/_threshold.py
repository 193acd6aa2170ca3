"""Choosing below a shared threshold (SIS Algorithm 10): the first model, in a shared order, with little loss.

The proofs are in ``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, rel_entr

from holdfast import rounding
from holdfast.replicable._elementary import Floats
from holdfast.replicable._tape import Tape
from holdfast.replicable._widest import widest

__all__ = ["harmonic_number", "threshold_choice", "threshold_failure", "threshold_rho", "threshold_width"]

_CELLS = 512
# Up to here the harmonic number is summed term by term.
_SUMMED = 100


def threshold_choice(means: Floats, width: float, tape: Tape, *, realizable: bool) -> int:
    """The first model in the tape's order with a mean loss up to the threshold.

    The threshold is the first point, at or above the least mean loss, of a grid of ``width`` with a shared
    offset; in the realizable setting it is ``width`` times the square of a shared uniform number.
    """
    uniform = float(tape.branch("threshold").uniforms(1)[0])
    if realizable:
        threshold = width * uniform**2
    else:
        threshold = (math.ceil(float(means.min()) / width - uniform) + uniform) * width
    small = means <= max(threshold, float(means.min()))
    return int(np.argmin(np.where(small, tape.branch("order").uniforms(len(means)), np.inf)))


def threshold_width(
    models: int, rows: int, accuracy: float, beta: float, *, realizable: bool
) -> float | None:
    """The widest range of thresholds at which a bad model is chosen with probability ≤ ``beta``, or None."""
    return widest(
        lambda width: threshold_failure(models, rows, accuracy, width, realizable=realizable),
        beta,
        accuracy / (1.0 - beta) ** 2,
    )


def threshold_failure(models: int, rows: int, accuracy: float, width: float, *, realizable: bool) -> float:
    """The probability that the chosen model is worse than the best by more than ``accuracy``, at most."""
    if realizable:
        return _realizable_failure(models, rows, accuracy, width)
    distance = accuracy - width
    typical = math.sqrt(2.0 * math.log(models - 1) / rows)
    tail = (models - 1) * math.sqrt(2.0 * math.pi / rows)
    tail *= float(ndtr(-max(distance, typical) * math.sqrt(rows)))
    return rounding.probability((max(0.0, typical - distance) + tail) / width)


def _realizable_failure(models: int, rows: int, accuracy: float, width: float) -> float:
    # The failure grows with the threshold, so the value at the right end of each cell bounds the mean.
    thresholds = np.minimum(width * (np.arange(1, _CELLS + 1) / _CELLS) ** 2, accuracy)
    divergence = rel_entr(thresholds, accuracy) + rel_entr(1.0 - thresholds, 1.0 - accuracy)
    chances = np.minimum(1.0, (models - 1) * np.exp(-rows * np.maximum(divergence, 0.0)))
    return rounding.probability(float(chances.mean()))


def harmonic_number(models: int) -> float:
    """1 + 1/2 + … + 1/models, rounded up; beyond a hundred from Euler and Maclaurin, without a loop.

    The series ln m + γ + 1/2m − 1/12m² + 1/120m⁴ alternates from there on, so it is above the sum, by less
    than 1/252m⁶.

    >>> round(harmonic_number(10**9), 6)
    21.300482
    """
    if models <= _SUMMED:
        return rounding.up(math.fsum(1.0 / place for place in range(1, models + 1)))
    inverse = 1.0 / models
    correction = inverse / 2.0 - inverse**2 / 12.0 + inverse**4 / 120.0
    return rounding.up(math.log(models) + float(np.euler_gamma) + correction)


def threshold_rho(models: int, rows: int, width: float, *, realizable: bool) -> float:
    """The probability that two samples of this size choose different models, at most."""
    harmonic = harmonic_number(models)
    crossing = math.sqrt(2.0 * harmonic * (harmonic * math.log(2.0) + math.log(models) + 1.0))
    if realizable:
        return rounding.probability((harmonic / 2.0 + crossing) / math.sqrt(2.0 * rows * width))
    second_moment = min(1.0, 0.5 + math.sqrt(math.log(models) / (2.0 * rows)))
    deviation = math.sqrt(second_moment / (4.0 * rows))
    mean_size = math.sqrt(2.0 / math.pi * (deviation**2 + 2.0 / rows**2)) + 1.0 / (120.0 * rows)
    return rounding.probability((harmonic * mean_size + crossing * deviation) / width)
