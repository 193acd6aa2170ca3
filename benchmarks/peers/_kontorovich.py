"""Correlated rows: Kontorovich, Sadigurschi and Stemmer 2022, the one published theorem about chains."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from scipy import special

from holdfast.stability import gaussian_delta

_RATES = np.geomspace(1e-4, 0.1, 60)


def two_state_dependence(flip: float, skip: int) -> float:
    """ψ of every ``skip``-th row of the symmetric two-state chain: the total variation between a row's law
    and its law given the rows around it, largest where both neighbours agree."""
    kept = (1 - 2 * flip) ** skip
    return kept / (1 + kept**2)


def chain_error(rows: int, queries: int, beta: float, flip: float) -> float:
    """The least α + 10ε + 2ψ with β' + δ/ε ≤ β, n ≥ ln(2kε/δ)/ε², Gaussian noise and the best skip."""
    return min(
        correlated_error(rows // skip, queries, beta, two_state_dependence(flip, skip))
        for skip in range(1, 40)
        if rows // skip
    )


def correlated_error(rows: int, queries: int, beta: float, dependence: float) -> float:
    """(ε, δ)-privacy and (α, β')-accuracy on the sample give (α + 10ε + 2ψ, β' + δ/ε)."""
    choices = itertools.product(_RATES.tolist(), (0.1, 0.5, 0.9))
    return min(_error(rows, queries, beta, dependence, rate, share) for rate, share in choices)


def _error(rows: int, queries: int, beta: float, dependence: float, rate: float, share: float) -> float:
    delta = rate * beta * share
    if 10 * rate + 2 * dependence >= 1 or rows < math.log(2 * queries * rate / delta) / rate**2:
        return 1.0
    sd = math.sqrt(queries) / rows / _largest_ratio(rate, delta)
    accuracy = sd * -float(special.ndtri(beta * (1 - share) / (2 * queries)))
    return min(1.0, accuracy + 10 * rate + 2 * dependence)


@lru_cache(maxsize=1024)
def _largest_ratio(epsilon: float, delta: float) -> float:
    """The largest shift, in standard deviations of the noise, that is (ε, δ)-private."""
    low, high = 1e-6, 1e3
    for _ in range(40):
        ratio = math.sqrt(low * high)
        low, high = (ratio, high) if gaussian_delta(epsilon, ratio) <= delta else (low, ratio)
    return low
