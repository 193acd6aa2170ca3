"""Quantiles by order statistics.

x is a q-quantile of a distribution if P(X < x) ≤ q ≤ P(X ≤ x). Where the distribution function is flat at
height q they fill an interval; where it jumps past q, at an atom, the atom is one for a whole range of q. The
intervals of this file hold **every** q-quantile, at once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from holdfast import checks, search
from holdfast.errors import InvalidArgument
from holdfast.intervals._interval import Interval, numbers, radius_at
from holdfast.intervals._shares import binomial_log_tail
from holdfast.tails import Tail

_LN2 = math.log(2.0)


def quantile_ranks(n: int, q: float, nats: float) -> tuple[int, int]:
    """The ranks (l, u) of the order statistics between which every ``q``-quantile lies.

    Ranks count from 1; l = 0 stands for −∞ and u = n + 1 for +∞.

    Guarantee: P(X_(l) ≤ every q-quantile ≤ X_(u)) ≥ 1 − exp(−nats) over the sample, for a query fixed in
    advance and any distribution, with atoms or without. l is the largest rank with P(Bin(n, q) < l) ≤
    exp(−nats)/2 and u the smallest with P(Bin(n, q) ≥ u) ≤ exp(−nats)/2 (up to 459 nats; beyond, the tail is
    bounded within 0.002 nats). *Proof.* Let a be the smallest q-quantile. X_(l) > a means that fewer than l
    rows are ≤ a, and each is with probability P(X ≤ a) ≥ q. The largest, b, likewise: X_(u) < b means that u
    rows or more are < b, and P(X < b) ≤ q. ∎
    Assumes: independent rows of one distribution (not checkable).
    Reference: David and Nagaraja 2003, section 7.1.

    Args:
        n: How many rows there are.
        nats: ln of one over the probability that the interval may miss.

    >>> quantile_ranks(400, 0.5, 3.0)
    (180, 221)
    """
    n = checks.whole(n, "n", at_least=0, at_most=2**53, of="quantile_ranks")
    q = checks.real(q, "q", "(0, 1)", of="quantile_ranks")
    nats = checks.real(nats, "nats", "[0, inf)", of="quantile_ranks") + _LN2
    return _rare(n, q, 1.0 - q, nats) + 1, n - _rare(n, 1.0 - q, q, nats)


def quantile(sorted_values: ArrayLike, q: float, nats: float) -> Interval:
    """The interval between two of the ``sorted_values`` that holds every ``q``-quantile, or a half-line.

    Guarantee: as :func:`quantile_ranks`. The ends are values of the sample: nothing is rounded, but for
    integers that no float can hold.
    Assumes: independent rows of one distribution (not checkable); values in increasing order (checked).
    Reference: as :func:`quantile_ranks`.

    Args:
        nats: ln of one over the probability that the interval may miss.

    >>> quantile(range(1, 401), 0.5, 3.0)
    Interval(low=180, high=221)
    """
    values = numbers(sorted_values, "sorted_values", of="quantile")
    if not np.isfinite(values).all():
        wrong = float(values[~np.isfinite(values)][0])
        raise InvalidArgument("sorted_values", "finite numbers", wrong, of="quantile")
    falls = np.flatnonzero(values[1:] < values[:-1])
    if falls.size:
        pair = f"{values[falls[0]]} before {values[falls[0] + 1]}"
        raise InvalidArgument("sorted_values", "numbers in increasing order", pair, of="quantile")
    low, high = quantile_ranks(values.size, q, nats)
    return Interval(
        _as_float(values[low - 1].item(), -1) if low >= 1 else -math.inf,
        _as_float(values[high - 1].item(), 1) if high <= values.size else math.inf,
    )


def _as_float(value: float, side: int) -> float:
    """``value`` itself, or the next float on that side of an integer that has too many digits."""
    number = float(value)
    return number if side * number >= side * value else math.nextafter(number, side * math.inf)


def quantile_ranks_from_tail(n: int, q: float, tail: Tail, nats: float) -> tuple[int, int]:
    """The ranks of :func:`quantile_ranks` for dependent rows, from the ``tail`` of the mean of an indicator.

    Guarantee: P(X_(l) ≤ every q-quantile ≤ X_(u)) ≥ 1 − exp(−nats) over the sample, for a query fixed in
    advance and any distribution. The two sides use two indicators, X ≤ a and X < b for the smallest and the
    largest q-quantile, each with the radius of ``tail`` at nats + ln 2.
    Assumes: ``tail`` holds for the mean over the ``n`` rows of any indicator of one row, as ``mean_tail(0,
    1)`` of a dependence model does (not checkable). Rows of different distributions: the quantiles of their
    average.
    Reference: as :func:`quantile_ranks`, with the tail in place of the binomial law.

    Args:
        q: The level of the quantile, in (0, 1).
        nats: ln of one over the probability that the interval may miss.

    >>> from holdfast.tails import BoundedDifferences
    >>> quantile_ranks_from_tail(400, 0.5, BoundedDifferences.of_mean(0, 1, 400), 3.0)
    (171, 230)
    """
    of = "quantile_ranks_from_tail"
    n = checks.whole(n, "n", at_least=0, at_most=2**53, of=of)
    q = checks.real(q, "q", "(0, 1)", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    radius = radius_at(tail, nats + _LN2, of=of)
    if not radius < 1.0:
        return 0, n + 1
    # A miss at rank l puts the mean of the indicator at least q − (l − 1)/n from its expectation.
    slack = 1e-12 * n
    low = math.ceil(n * (q - radius) - slack)
    high = math.floor(n * (q + radius) + slack) + 1
    return max(0, low), min(n + 1, high)


def _rare(n: int, p: float, w: float, nats: float) -> int:
    """The largest k with ln P(Bin(n, p) ≤ k) ≤ −nats, nats ≥ ln 2; −1 if there is none."""
    from scipy import special

    top = math.ceil(n * p) - 1
    if top < 0 or binomial_log_tail(0, n, p, w, nats) > -nats:
        return -1
    # The normal approximation with its first correction is rarely off by more than a rank or two.
    score = float(special.ndtri_exp(-nats))
    guess = math.floor(n * p + score * math.sqrt(n * p * w) + (score * score - 1.0) * (w - p) / 6.0)
    return search.whole_edge(lambda k: binomial_log_tail(k, n, p, w, nats) <= -nats, 0, top + 1, guess=guess)
