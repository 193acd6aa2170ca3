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
    """P(½Σ|a_j − ā| > i·k/(4N)) for i = 0 … N, at most; N is ``CELLS``.

    For ā between c and c' the distance is at most Σ(a_j − c)⁺. Given how many V exceed c, their sum and the
    sum of the others are independent sums of uniforms, so slice by slice one convolution remains.
    """
    points = -(-_POINTS // categories)
    laws = _sums_of_uniforms(categories - 1, points)
    mass = np.zeros(CELLS + 1)
    step = categories / 4.0 / CELLS
    slices = math.ceil((categories - 1) / categories / _SLICE)
    mean_law = laws[categories - 1]

    def reached(mean: float) -> float:
        return float(_at(mean_law, np.array(math.ceil(mean * categories * points))))

    # ā below the first slice: the distance is at most Σa.
    mass[min(CELLS, math.ceil(_SLICE * categories / step))] += reached(_SLICE)
    for number in range(1, slices):
        low, high = number * _SLICE, (number + 1) * _SLICE
        if reached(high) < _NEGLIGIBLE or 1.0 - reached(low - _SLICE) < _NEGLIGIBLE:
            mass[-1] += _NEGLIGIBLE
            continue
        for above in range(categories):
            chance = _choose(categories - 1, above, 1.0 - low)
            if chance < _NEGLIGIBLE:
                mass[-1] += chance
                continue
            edges = (1.0 - low) * np.arange(laws[above].size) / points
            inside = np.diff(laws[above]) if above else np.ones(1)
            least, most = (edges[:-1], edges[1:]) if above else (edges, edges)
            below = laws[categories - 1 - above]
            highest = np.ceil((categories * high - above * low - least) / low * points).astype(np.int64)
            lowest = np.floor((categories * low - above * low - most) / low * points).astype(np.int64)
            # The lower edge belongs to the slice before; only a sum without terms has an atom there.
            part = chance * inside * (_at(below, highest) - _at(below, lowest - (below.size == 1)))
            place = np.minimum(np.ceil(most / step).astype(np.int64), CELLS)
            mass += np.bincount(place, weights=part, minlength=CELLS + 1)
    beyond = np.cumsum(mass[::-1])[::-1]
    tail: Floats = np.minimum(np.append(beyond[1:], 0.0), 1.0)
    return tail
