"""How far, in total variation, the nearest point of a randomly shifted lattice of shares is.

In steps of the lattice the error is a − ā for a = (0, V_1, …, V_{k−1}) with independent uniform V: the cell
is {Σe = 0, |e_i − e_j| ≤ 1}, and e − min e has uniform coordinates but for the least, which is 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

__all__ = ["CELLS", "error_tail"]

Floats = npt.NDArray[np.float64]

CELLS = 4096
_SLICE = 1 / 256
_POINTS = 3000
_NEGLIGIBLE = 1e-12
_FIRST = 2


def _sums_of_uniforms(most: int, points: int) -> list[Floats]:
    """P(U_1 + … + U_m ≤ i/points) for m = 0 … most and i = 0 … m·points.

    The density of the sum is a B-spline; its recursion adds positive terms only, so it loses no digits.
    """
    laws = [np.ones(1), np.arange(points + 1) / points]
    spline = np.ones(points)  # of order 1, on [0, 1)
    for order in range(2, most + 2):
        x = np.arange(order * points) / points
        rising, falling = np.zeros(x.size), np.zeros(x.size)
        rising[: spline.size] = spline
        falling[points:] = spline
        spline = (x * rising + (order - x) * falling) / (order - 1)
        if order > 2:
            shifts = spline.reshape(order, points)
            summed = np.minimum(np.cumsum(shifts, axis=0).ravel()[: (order - 1) * points], 1.0)
            laws.append(np.append(summed, 1.0))
    return laws


def _choose(count: int, chosen: int, chance: float) -> float:
    """The binomial probability, 0 < chance < 1."""
    log = float(gammaln(count + 1) - gammaln(chosen + 1) - gammaln(count - chosen + 1))
    return math.exp(log + chosen * math.log(chance) + (count - chosen) * math.log1p(-chance))


def _at(law: Floats, index: npt.NDArray[np.int64]) -> Floats:
    """The cumulative law at lattice points, 0 below the first and 1 above the last."""
    found: Floats = np.where(index < 0, 0.0, law[np.clip(index, 0, law.size - 1)])
    return found


@lru_cache(maxsize=64)
def error_tail(categories: int) -> Floats:
    """P(½Σ|a_j − ā| > i·k/(4N)) for i = 0 … N, at most; N is ``CELLS``. Below 2/5 of N the bound is 1.

    For ā between c and c' the distance is at most Σ(a_j − c)⁺. Given how many V exceed c, their sum and the
    sum of the others are independent sums of uniforms, so slice by slice one convolution remains.
    """
    points = -(-_POINTS // categories)
    laws = _sums_of_uniforms(categories - 1, points)
    mass = np.zeros(CELLS + 1)
    for number in range(1, math.ceil((categories - 1) / categories / _SLICE)):
        low, high = number * _SLICE, (number + 1) * _SLICE
        least_sum, most_sum = (math.floor(categories * end * points) for end in (low, high))
        within, before = _at(laws[-1], np.array([most_sum + 1, least_sum]))
        if within < _NEGLIGIBLE or 1.0 - before < _NEGLIGIBLE:
            mass[-1] += _NEGLIGIBLE
        else:
            mass += _slice(categories, laws, points, low, high)
    beyond = np.cumsum(mass[::-1])[::-1]
    tail: Floats = np.minimum(np.append(beyond[1:], 0.0), 1.0)
    tail[: _FIRST * CELLS // 5] = 1.0
    return tail


def _slice(categories: int, laws: list[Floats], points: int, low: float, high: float) -> Floats:
    """Masses of the cells of Σ(a_j − low)⁺ on low < ā ≤ high, at most; only cells from 2/5 of N count."""
    mass = np.zeros(CELLS + 1)
    step = categories / 4.0 / CELLS
    first = math.floor(_FIRST / 5 * categories / 4.0 / (1.0 - low) * points) - 1
    for above in range(1, categories):
        chance = _choose(categories - 1, above, 1.0 - low)
        last = laws[above].size - 1
        if chance < _NEGLIGIBLE or first >= last:
            mass[-1] += chance if first < last else 0.0
            continue
        cells = np.arange(first, last)
        below = laws[categories - 1 - above]
        reach = (categories * high - above * low) / low * points
        start = (categories - above) * points
        ratio = (1.0 - low) / low
        highest = np.ceil(reach - ratio * cells).astype(np.int64)
        # The lower edge belongs to the slice before; only a sum without terms has an atom there.
        lowest = np.floor(start - ratio * (cells + 1)).astype(np.int64) - (below.size == 1)
        part = chance * np.diff(laws[above][first:]) * (_at(below, highest) - _at(below, lowest))
        place = np.minimum(np.ceil((1.0 - low) / points / step * (cells + 1)).astype(np.int64), CELLS)
        mass += np.bincount(place, weights=part, minlength=CELLS + 1)
    return mass
