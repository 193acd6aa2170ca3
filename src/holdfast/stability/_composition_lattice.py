"""Binomial weights in log space: the probabilities behind randomised response, accurate far out in the tail.

At a million trials log-gamma is wrong in the ninth digit of a probability. Loader's saddle-point form (2000)
keeps the error of a log-probability near |log-probability| × 1e-16; the neighbours follow from exact ratios,
outward from there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class Window(NamedTuple):
    """P(I = i) = exp(log_scale) · weight for i in ``counts``; what is left out is below e^-80 of that."""

    log_scale: float
    counts: Floats
    weight: Floats


def _stirling_error(n: int) -> float:
    """ln n! minus Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - _HALF_LOG_TAU
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(count: int, mean: float) -> float:
    """count · ln(count/mean) + mean − count, without cancellation where the two are close."""
    excess = count - mean
    if abs(excess) >= 0.1 * (count + mean):
        return count * math.log(count / mean) - excess
    ratio = excess / (count + mean)
    total = excess * ratio
    term = 2.0 * count * ratio
    for odd in range(3, 2000, 2):
        term *= ratio * ratio
        increment = term / odd
        if total + increment == total:
            break
        total += increment
    return total


def log_probability(trials: int, i: int, log_odds: float) -> float:
    """ln P(I = i) for I ~ Binomial(trials, 1/(1 + exp(log_odds))), log_odds ≥ 0."""
    against = math.exp(-log_odds)
    if i == 0:
        return -trials * math.log1p(against)
    if i == trials:
        return -trials * (log_odds + math.log1p(against))
    if against == 0.0:
        # The mean underflows; the binomial coefficient is then the smaller part of the logarithm.
        return math.lgamma(trials + 1.0) - math.lgamma(i + 1.0) - math.lgamma(trials - i + 1.0) - i * log_odds
    mean = trials * against / (1.0 + against)
    return (
        _stirling_error(trials)
        - _stirling_error(i)
        - _stirling_error(trials - i)
        - _deviance(i, mean)
        - _deviance(trials - i, trials / (1.0 + against))
        - 0.5 * math.log(i * ((trials - i) / trials))
        - _HALF_LOG_TAU
    )


def lower_window(trials: int, last: int, log_odds: float) -> Window:
    """The part of Binomial(trials, 1/(1 + exp(log_odds))) on {0, …, last} that carries weight.

    Ratios of neighbours change by at least 4/(trials + 1) a step: 7√trials steps beyond the peak cost e^-98.
    """
    mode = math.floor((trials + 1) * math.exp(-log_odds) / (1.0 + math.exp(-log_odds)))
    peak = min(last, mode)
    reach = 20 + math.ceil(7.0 * math.sqrt(trials))
    low = max(0, peak - reach)
    high = min(last, peak + reach)
    index = np.arange(low, high + 1, dtype=np.float64)
    # Beyond a thousand every weight but the peak's is zero in floats; the cap keeps the sums finite.
    step = np.log((trials - index[:-1]) / (index[:-1] + 1.0)) - min(log_odds, 1000.0)
    below = -np.cumsum(step[: peak - low][::-1])[::-1]
    above = np.cumsum(step[peak - low :])
    weight = np.exp(np.concatenate((below, np.zeros(1), above)))
    return Window(log_probability(trials, peak, log_odds), index, weight)
