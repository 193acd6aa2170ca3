"""Bayesian differential privacy of a chain from its spectral gap (BDP Lemma 4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding

_LEMMA = "BDP Lemma 4"
_CANDIDATES = 100_000


def spectral_dp(epsilon: Any, gap: Any, least: Any, c: Any = None) -> float:
    """The h for which h-DP implies ``epsilon``-Bayesian DP on a Markov chain with a spectral gap.

    Guarantee: with g = ``gap``, ρ = ``least`` (the smallest stationary probability) and c in (0, 1/6), d =
    ⌈ln((e^{cε}+1)/(ρ(e^{cε}−1)))/g⌉, s the same with c = 1/6, h = min{(1−6c)ε/(2d−1), (1/3−2c)ε/(d+s)},
    rounded down; any start and any number of rows. Without ``c`` the best c is taken: for every integer d the
    smallest c that has it, and d is scanned.
    Assumes: an irreducible chain with that smallest stationary probability and 1 − g at least its operator
    norm on mean-zero functions in L²(π) (not checkable from the data). For a chain that is not reversible, 1
    − the second eigenvalue is not enough.
    Reference: BDP Lemma 4, by the 2b form of Lemma 2 (theory 5); printed for reversible chains.

    >>> round(spectral_dp(0.1, gap=0.5, least=0.2, c=0.1), 10)
    0.0004938272
    >>> spectral_dp(0.1, gap=0.5, least=0.2) > 0.0004938272
    True
    """
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of="spectral_dp", by=_LEMMA)
    gap = checks.real(gap, "gap", "(0, 1]", of="spectral_dp", by=_LEMMA)
    least = checks.real(least, "least", "(0, 1]", of="spectral_dp", by=_LEMMA)
    far = _distance(epsilon / 6.0, gap, least)
    if c is None:
        return rounding.down(_best(epsilon, gap, least, far))
    c = checks.real(c, "c", f"(0, {1.0 / 6.0!r})", of="spectral_dp", by=_LEMMA)
    near = np.array([_distance(c * epsilon, gap, least)])
    return rounding.down(float(_h(epsilon, np.array([c]), near, far)[0]))


def _distance(exponent: float, gap: float, least: float) -> float:
    """⌈ln((e^x + 1)/(ρ(e^x − 1)))/g⌉ with x = ``exponent``; (e^x + 1)/(e^x − 1) = 1/tanh(x/2)."""
    return float(math.ceil(rounding.up(-(math.log(math.tanh(exponent / 2.0)) + math.log(least)) / gap)))


def _h(epsilon: float, c: NDArray[np.float64], d: NDArray[np.float64], s: float) -> NDArray[np.float64]:
    return np.minimum((1.0 - 6.0 * c) * epsilon / (2.0 * d - 1.0), (1.0 / 3.0 - 2.0 * c) * epsilon / (d + s))


def _best(epsilon: float, gap: float, least: float, far: float) -> float:
    """Scan d. The smallest c with that d solves tanh(cε/2) = e^{−gd}/ρ; c below 1/6 needs d ≥ s."""

    def values(d: NDArray[np.float64]) -> NDArray[np.float64]:
        small = np.minimum(np.exp(-gap * d) / least, 1.0 - 1e-16)
        c = 2.0 * np.arctanh(small) / epsilon * (1.0 + 1e-13)
        return np.where(c < 1.0 / 6.0, _h(epsilon, c, d, far), 0.0)

    first = max(1.0, far)
    # h is at most ε/(2d − 1), so nothing beyond the d where that falls below a value already found can win.
    found = float(values(np.array([first, first + math.ceil(1.0 / gap), first + math.ceil(3.0 / gap)])).max())
    last = max(first, math.floor(epsilon / (2.0 * found) + 1.0))
    while True:
        step = max(1.0, math.ceil((last - first + 1.0) / _CANDIDATES))
        d = np.arange(first, last + step, step)
        h = values(d)
        place = int(h.argmax())
        if step == 1.0:
            return float(h[place])
        first, last = max(first, d[place] - 2.0 * step), d[place] + 2.0 * step


def spectral_bdp(epsilon: float, gap: float, least: float) -> float:
    """The Bayesian DP of an ``epsilon``-DP mechanism by Lemma 4: the smallest value whose h reaches it.

    Guarantee: rounded up; h does not decrease with its first argument, so bisection finds the smallest value.
    """
    high = epsilon
    while spectral_dp(high, gap, least) < epsilon:
        high *= 2.0
    low = high / 2.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2.0
        if spectral_dp(middle, gap, least) >= epsilon:
            high = middle
        else:
            low = middle
    return high
