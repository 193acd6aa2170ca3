"""Means of bounded values by betting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.intervals._arguments import bounds, numbers
from holdfast.intervals._interval import Interval, placed

_LN2 = math.log(2.0)

# A bet stakes at most this part of the wealth, so that no single row can ruin it.
_MOST = 0.75


def betting(values: Any, nats: Any, *, lo: Any = 0.0, hi: Any = 1.0) -> Interval:
    """The hedged-capital interval for the mean of ``values`` in [lo, hi]: the means that no bet refutes.

    For each candidate mean m one gambler bets that the rows lie above m, another that they lie below. Before
    row i both stake λ_i = √(2(nats + ln 2)/(n v_i)), v_i the variance of the rows **before** i, and never
    more than ¾ of their wealth. If m is the mean, wealth is a non-negative martingale that starts at 1, so it
    ever reaches 2 exp(nats) with probability ≤ exp(−nats)/2 (Ville); m is dropped where either gambler does.

    The result depends on the order of the rows, which must be fixed in advance (the order of the file, say,
    not one chosen after a look at the values). It always holds the sample mean; it is not monotone in
    ``nats``, because the bets are made for the ``nats`` at hand. The bets are made once, for all rows: a
    later row cannot be added.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance.
    Assumes: rows in a fixed order, each with the same mean given the rows before it, as independent rows of
    one distribution have (not checkable), values in [lo, hi] (checked).
    Reference: Waudby-Smith and Ramdas 2024, theorem 3.

    >>> betting([0.2, 0.3, 0.25, 0.2, 0.3] * 80, 3.0)
    Interval(low=0.243507, high=0.260198)
    """
    lo, hi = bounds(lo, hi, of="betting")
    nats = checks.real(nats, "nats", "[0, inf)", of="betting")
    rows = numbers(values, "values", of="betting").astype(np.float64, copy=False)
    outside = ~((rows >= lo) & (rows <= hi))
    if outside.any():
        raise InvalidArgument("values", f"numbers in [{lo!r}, {hi!r}]", float(rows[outside][0]), of="betting")
    if rows.size == 0:
        return Interval(lo, hi)
    below, above = (rows - lo) / (hi - lo), (hi - rows) / (hi - lo)
    target = nats + _LN2
    stakes = _stakes(below, target)
    low, high = _least(below, stakes, target), _least(above, stakes, target)
    return placed(lo, hi, (low, 1.0 - low), (1.0 - high, high))


def _stakes(rows: NDArray[np.float64], target: float) -> NDArray[np.float64]:
    """λ_i for each row, from the rows before it and one imaginary row at ½ with variance ¼."""
    seen = np.arange(1.0, rows.size + 1.0)
    means = (0.5 + np.cumsum(rows)) / (seen + 1.0)
    variances = (0.25 + np.cumsum((rows - means) ** 2)) / (seen + 1.0)
    known = np.concatenate(([0.25], variances[:-1]))
    return np.sqrt(2.0 * target / (rows.size * known))


def _gains(rows: NDArray[np.float64], stakes: NDArray[np.float64], m: float) -> NDArray[np.float64]:
    """What each row adds to the log wealth of a gambler who bets that the mean is above m."""
    capped = np.minimum(stakes, _MOST / m) if m > 0.0 else stakes
    gains: NDArray[np.float64] = np.log1p(capped * (rows - m))
    return gains


def _peak(rows: NDArray[np.float64], stakes: NDArray[np.float64], m: float) -> float:
    """The largest log wealth on the way, less its rounding error; but for that it does not increase in m."""
    gains = _gains(rows, stakes, m)
    rounding_error = 2.0**-52 * rows.size * (64.0 + float(np.abs(gains).sum()))
    return float(np.cumsum(gains).max()) - rounding_error


def _least(rows: NDArray[np.float64], stakes: NDArray[np.float64], target: float) -> float:
    """The largest m, up to the mean of the rows, whose peak reaches the target; 0 if none does.

    Every smaller m reaches it too, and what is returned does reach it: the search (ITP, Oliveira and
    Takahashi 2020: as safe as bisection, in a third of the evaluations) only decides how near the edge it is.
    """
    low, high = 0.0, float(rows.mean())
    above = _peak(rows, stakes, low) - target
    if above < 0.0:
        return 0.0
    below = _peak(rows, stakes, high) - target
    if below >= 0.0:
        return high
    narrow = max(1e-10 * high, 1e-300)
    left, bend = narrow * 2.0 ** math.ceil(math.log2(high / narrow)), 0.2 / high
    while high - low > narrow:
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        falsi = low + (high - low) * (above / (above - below))
        toward = math.copysign(1.0, middle - falsi)
        nudged = falsi + toward * min(bend * (high - low) ** 2, abs(middle - falsi))
        reach = max(0.0, left - half)
        m = nudged if abs(nudged - middle) <= reach else middle - toward * reach
        if not low < m < high:
            m = middle
        left *= 0.5
        found = _peak(rows, stakes, m) - target
        if found >= 0.0:
            low, above = m, found
        else:
            high, below = m, found
    return low
