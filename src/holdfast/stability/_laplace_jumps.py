"""The part of the Laplace profile with at most two answers strictly between the atoms, in closed form.

In the notation of ``_laplace``, X is 0 with probability ½, r with probability e^-r/2, and otherwise has
density e^-x/2 on (0, r). With j such jumps among k steps, δ is a binomial mean, over the number of the other
steps at r, of ψ_j(t) = ∫ over (0, r)^j of e^-Σx (1 − exp(−2(t − Σx)))_+ dx.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from holdfast.stability._composition_lattice import Floats, lower_window

__all__ = ["log_few_jumps"]


def log_few_jumps(k: int, ratio: float, y: Fraction) -> float:
    """ln of that part of δ, for k ≥ 2 and y > 0."""
    # Exact arithmetic, as the distance from y to the lattice of atoms may be all that is left.
    last = min(k, math.ceil(y / Fraction(ratio)) - 1)
    rest = float(y - last * Fraction(ratio))
    parts = []
    for jumps, mean in enumerate((_no_jump, _one_jump, _two_jumps)):
        steps = k - jumps
        log_scale, index, weight = lower_window(steps, min(last, steps), ratio)
        total = float(np.sum(weight * mean(rest + ratio * (last - index), ratio)))
        choices = math.log(math.comb(k, jumps)) - k * math.log(2.0)
        parts.append(
            choices + steps * math.log1p(math.exp(-ratio)) + log_scale + math.log(max(total, 1e-320))
        )
    return float(np.logaddexp.reduce(parts))


def _no_jump(space: Floats, ratio: float) -> Floats:
    return -np.expm1(-2.0 * space)


def _one_jump(space: Floats, ratio: float) -> Floats:
    beyond = math.expm1(-ratio) * np.expm1(-np.maximum(2.0 * space - ratio, 0.0))
    return np.where(space < ratio, np.expm1(-space) ** 2, beyond)


def _two_jumps(space: Floats, ratio: float) -> Floats:
    inside = _two_free(space) - 2.0 * math.exp(-ratio) * _two_free(np.maximum(space - ratio, 0.0))
    beyond = -(math.expm1(-ratio) ** 2) * np.expm1(-2.0 * np.maximum(space - ratio, 0.0))
    return np.where(space < 2.0 * ratio, inside, beyond)


def _two_free(space: Floats) -> Floats:
    """ψ_2 where r does not bind: 2 e^-t (sinh t − t), by its series where the difference cancels."""
    small = np.minimum(space, 1.0)
    series = np.zeros_like(small)
    for order in range(9, 0, -1):
        series = (1.0 + series) * small * small / (2 * order * (2 * order + 1))
    exact = -np.expm1(-2.0 * space) - 2.0 * space * np.exp(-space)
    return np.where(space < 1.0, 2.0 * np.exp(-small) * small * series, exact)
