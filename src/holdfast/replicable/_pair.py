"""Choosing between two models by a shared threshold on the difference of their mean losses.

The proofs are in ``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math

from scipy.special import bdtr, ndtr

from holdfast import rounding
from holdfast.replicable._elementary import Floats
from holdfast.replicable._tape import Tape
from holdfast.replicable._widest import widest

__all__ = ["pair_choice", "pair_failure", "pair_rho", "pair_width"]

# Up to here the binomial sums of scipy are good to 1e-12.
_BINOMIAL_ROWS = 10**6


def pair_choice(means: Floats, width: float, tape: Tape) -> int:
    """The second model if the first loses by more than a shared number, uniform on (−width, width)."""
    threshold = width * (2.0 * float(tape.branch("threshold").uniforms(1)[0]) - 1.0)
    return int(means[0] - means[1] > threshold)


def pair_failure(rows: int, accuracy: float, width: float) -> float:
    """The probability that the chosen model is worse than the other by more than ``accuracy``, at most."""
    # E(width − D)₊/2width, where D is the mean of differences in [−1, 1] and has a mean above ``accuracy``.
    if rows <= _BINOMIAL_ROWS:
        # Hoeffding's convex order: the worst differences are ±1, and D is binomial.
        share, level = (1.0 + accuracy) / 2.0, rows * (1.0 + width) / 2.0
        whole = math.floor(level)
        below = level * bdtr(whole, rows, share) - rows * share * bdtr(whole - 1, rows - 1, share)
        mean = 2.0 * (float(below) / rows + 1e-12)  # the two sums nearly cancel
    else:
        distance = accuracy - width
        tail = math.sqrt(2.0 * math.pi / rows) * float(ndtr(-max(distance, 0.0) * math.sqrt(rows)))
        mean = max(0.0, -distance) + tail
    return rounding.probability(mean / (2.0 * width))


def pair_width(rows: int, accuracy: float, beta: float) -> float | None:
    """The widest range with which the worse model is chosen with probability ≤ ``beta``, or None."""
    wide = accuracy / max(1e-3, 1.0 - 2.0 * beta)
    return widest(lambda width: pair_failure(rows, accuracy, width), beta, wide)


def pair_rho(rows: int, width: float) -> float:
    """The probability that two samples of this size choose different models, at most."""
    # C(2n, n)/(4ⁿ width), and C(2n, n)/4ⁿ < 1/√(π(n + ¼)).
    return rounding.probability(1.0 / (math.sqrt(math.pi * (rows + 0.25)) * width))
