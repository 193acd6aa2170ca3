"""Exact miss probabilities, multiprecision tails and the limits of a simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
from scipy import stats

from holdfast.intervals import Interval

# Shared by the tests: a floating-point mass function is good to about this, relative.
TOLERANCE = 1e-9


def mp_log_tail(k: int, n: int, w: mp.mpf) -> mp.mpf:
    """ln P(Bin(n, 1 − w) ≤ k) to 30 digits: the continued fraction of the incomplete beta function."""
    a, b, x = mp.mpf(n - k), mp.mpf(k + 1), mp.mpf(w)
    c, d = mp.mpf(1), 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for i in itertools.count(1):
        even = i * (b - i) * x / ((a - 1 + 2 * i) * (a + 2 * i))
        d, c = 1 / (1 + even * d), 1 + even / c
        fraction *= d * c
        odd = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 1 + 2 * i))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        fraction *= d * c
        if abs(d * c - 1) < mp.mpf(10) ** -30:
            break
    beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    return a * mp.log(x) + b * mp.log1p(-x) - mp.log(a) - beta + mp.log(fraction)


def mp_divergence(u: mp.mpf, p: mp.mpf) -> mp.mpf:
    """kl(u, p) of two exact numbers."""
    below = u * mp.log(u / p) if u > 0 else mp.mpf(0)
    above = (1 - u) * mp.log((1 - u) / (1 - p)) if u < 1 else mp.mpf(0)
    return below + above


def side_misses(intervals: list[Interval], p: float) -> tuple[float, float]:
    """(P(p below the interval), P(p above it)) when ``intervals[s]`` is given for s successes of n."""
    mass = stats.binom.pmf(np.arange(len(intervals)), len(intervals) - 1, p)
    below = sum(m for m, i in zip(mass, intervals, strict=True) if p < i.low)
    above = sum(m for m, i in zip(mass, intervals, strict=True) if p > i.high)
    return float(below), float(above)


def worst_misses(intervals: list[Interval]) -> tuple[float, float]:
    """The largest miss probability of one side, and of both, over a grid and just outside every end."""
    ends = [math.nextafter(i.low, 0.0) for i in intervals] + [math.nextafter(i.high, 1.0) for i in intervals]
    shares = sorted({p for p in [*np.linspace(0.005, 0.995, 67), *ends] if 0.0 < p < 1.0})
    sides = [side_misses(intervals, p) for p in shares]
    return max(max(side) for side in sides), max(sum(side) for side in sides)


def multinomial(count: tuple[int, ...], probabilities: tuple[float, ...]) -> float:
    """P(these counts)."""
    log_mass = math.lgamma(sum(count) + 1)
    for k, p in zip(count, probabilities, strict=True):
        if k > 0 and p == 0.0:
            return 0.0
        log_mass += k * math.log(p) - math.lgamma(k + 1) if k > 0 else 0.0
    return math.exp(log_mass)


def refuted(misses: int, runs: int, delta: float) -> bool:
    """Whether so many misses show, but for one chance in a million, that their probability exceeds delta."""
    return float(stats.binom.sf(misses - 1, runs, delta)) < 1e-6


def misses(
    interval: Callable[[np.ndarray], Interval],
    draw: Callable[[np.random.Generator, int], np.ndarray],
    mean: float,
    *,
    rows: int,
    runs: int,
    rng: np.random.Generator,
) -> int:
    """How often the interval of a fresh sample does not hold the mean."""
    return sum(not interval(draw(rng, rows)).contains(mean) for _ in range(runs))
