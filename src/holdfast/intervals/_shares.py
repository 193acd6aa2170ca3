"""Shares, and means of bounded values by the same bound."""

from __future__ import annotations

import math
from typing import Any

from holdfast import checks, rounding
from holdfast.intervals._arguments import bounds, inside
from holdfast.intervals._binomial import upper_share
from holdfast.intervals._divergence import reach
from holdfast.intervals._interval import Interval, placed

_LN2 = math.log(2.0)


def kl(mean: Any, n: Any, nats: Any, *, lo: Any = 0.0, hi: Any = 1.0, most: Any = None) -> Interval:
    """The binary relative-entropy (Chernoff) interval for the mean of ``n`` values in [lo, hi].

    With ``most``, the least interval that contains those of every mean from ``mean`` to ``most``: both ends
    grow with the mean.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance: it keeps
    the p with n·kl(p̂, p) ≤ nats + ln 2, where p̂ and p are the sample mean and the mean as fractions of [lo,
    hi].
    Assumes: independent values, not necessarily of one distribution (not checkable), that stay in [lo, hi]
    (checked of ``mean`` only); p is the average of their expectations.
    Reference: Hoeffding 1963, theorem 1, inequality (2.1); a union bound joins the sides.

    >>> kl(0.25, 400, 3.0)
    Interval(low=0.194449, high=0.311671)
    """
    lo, hi = bounds(lo, hi, of="kl")
    mean = inside(mean, "mean", lo, hi, of="kl")
    most = mean if most is None else inside(most, "most", mean, hi, of="kl")
    n = checks.whole(n, "n", of="kl")
    nats = checks.real(nats, "nats", "[0, inf)", of="kl")
    span = hi - lo
    level = rounding.up((nats + _LN2) / n)
    to_hi, to_lo = reach((hi - mean) / span, (mean - lo) / span, level)
    return placed(lo, hi, (to_lo, to_hi), reach((most - lo) / span, (hi - most) / span, level))


def clopper_pearson(successes: Any, n: Any, nats: Any, *, most: Any = None) -> Interval:
    """The exact binomial interval for a share, from ``successes`` among ``n`` rows; [0, 1] for no rows.

    With ``most``, the least interval that contains those of every count from ``successes`` to ``most``: both
    ends grow with the count.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. Its ends
    are the p at which so few, and so many, successes have probability exp(−nats)/2: to 1e-9 nats, on the safe
    side, up to 459 nats; to 0.002 nats beyond, where the tail is bounded in logs. It lies within :func:`kl`
    at the same nats.
    Assumes: independent rows of one distribution (not checkable).
    Reference: Clopper and Pearson 1934.

    >>> clopper_pearson(100, 400, 3.0)
    Interval(low=0.208265, high=0.295484)
    """
    n = checks.whole(n, "n", at_least=0, at_most=2**53, of="clopper_pearson")
    successes = checks.whole(successes, "successes", at_least=0, at_most=n, of="clopper_pearson")
    if most is None:
        most = successes
    else:
        most = checks.whole(most, "most", at_least=successes, at_most=n, of="clopper_pearson")
    nats = checks.real(nats, "nats", "[0, inf)", of="clopper_pearson")
    if n == 0:
        return Interval(0.0, 1.0)
    to_one, to_zero = upper_share(n - successes, n, nats + _LN2)
    return placed(0.0, 1.0, (to_zero, to_one), upper_share(most, n, nats + _LN2))
