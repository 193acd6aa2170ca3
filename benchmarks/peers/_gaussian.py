"""Gaussian noise on every answer, certified by three published theorems for independent rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from holdfast.stability import gaussian_delta, transfer_error

Floats = NDArray[np.float64]

_SHARES = special.expit(np.linspace(-8.0, 12.0, 401))


def _least_share(information: Floats) -> Floats:
    """min over λ in (0, 1) of (a − ln(1−λ))/λ, elementwise."""
    values = (information[..., None] - np.log1p(-_SHARES)) / _SHARES
    result: Floats = values.min(axis=-1)
    return result


def rogers_error(rows: int, queries: int, beta: float) -> float:
    """Rogers et al. 2020, Theorem 2.1, with 1/n in the second term as their Theorem A.1 has it: the least
    error over the noise."""
    return rogers_choice(rows, queries, beta)[0]


def rogers_choice(rows: int, queries: int, beta: float) -> tuple[float, float]:
    """The error, and the standard deviation of the noise that gives it."""

    def error(log_privacy: Floats) -> Floats:
        privacy = np.exp(log_privacy)
        spread = np.sqrt(_least_share(2 * privacy * queries * rows) / (2 * rows * beta))
        noise = np.sqrt(math.log(4 * queries / beta) / privacy) / rows
        total: Floats = spread + noise
        return total

    low, high = -2 * math.log(rows) - 10.0, 6.0
    for _ in range(4):
        places = np.linspace(low, high, 161)
        best = int(np.argmin(error(places)))
        low, high = places[max(0, best - 1)], places[min(160, best + 1)]
    best_place = float(places[best])
    sd = math.sqrt(1 / (2 * math.exp(best_place))) / rows
    return min(1.0, float(error(np.array([best_place]))[0])), sd


def jung_error(rows: int, queries: int, beta: float) -> float:
    """Jung et al. 2019 with the exact privacy of Gaussian noise."""
    return transfer_error(rows, queries, beta, method="jung").error


def bassily_error(rows: int, queries: int, beta: float) -> float:
    """Bassily et al. 2016: (α/64, αβ/32)-privacy and (α/8, αβ/16)-accuracy on the sample give (α, β); the
    least α for which some Gaussian noise does both."""

    def excess(log_error: float) -> float:
        error = math.exp(log_error)
        sd = error / 8 / -special.ndtri(error * beta / 16 / (2 * queries))
        delta = gaussian_delta(error / 64, math.sqrt(queries) / rows / sd)
        return delta - error * beta / 32

    if excess(0.0) > 0:
        return 1.0
    return min(1.0, math.exp(optimize.brentq(excess, math.log(1e-9), 0.0, xtol=1e-10)) * (1 + 1e-9))


def most_queries(error_of, rows: int, error: float, beta: float, most: int = 10**6) -> int:
    """The largest k whose error is within ``error``, by bisection; errors grow with k."""
    low, high = 0, 1
    while high < most and error_of(rows, high, beta) <= error:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error_of(rows, middle, beta) <= error else (low, middle)
    return low
