"""Means of bounded values by closed formulas."""

from __future__ import annotations

import math
from typing import Any

from holdfast import checks, rounding
from holdfast.intervals._arguments import bounds, inside
from holdfast.intervals._interval import Interval, around

_LN2 = math.log(2.0)
_LN3 = math.log(3.0)


def hoeffding(mean: Any, n: Any, nats: Any, *, lo: Any = 0.0, hi: Any = 1.0) -> Interval:
    """Hoeffding's interval for the mean of ``n`` values in [lo, hi]: mean ± (hi − lo) √((nats + ln 2) / 2n).

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. Its
    width does not depend on the data; :func:`kl` lies within it.
    Assumes: independent values (not checkable) that stay in [lo, hi] (checked of ``mean`` only).
    Reference: Hoeffding 1963, theorem 1, inequality (2.3); a union bound joins the sides.

    >>> hoeffding(0.25, 400, 3.0)
    Interval(low=0.182056, high=0.317944)
    """
    lo, hi = bounds(lo, hi, of="hoeffding")
    mean = inside(mean, "mean", lo, hi, of="hoeffding")
    n = checks.whole(n, "n", of="hoeffding")
    nats = checks.real(nats, "nats", "[0, inf)", of="hoeffding")
    return around(mean, (hi - lo) * math.sqrt((nats + _LN2) / (2.0 * n))).clip(lo, hi)


def empirical_bernstein_radius(variance: Any, n: Any, nats: Any, *, width: Any = 1.0) -> float:
    """The half-width of :func:`empirical_bernstein` for ``n`` values in a range of this ``width``.

    Guarantee: with L = nats + ln 3, it is √(2 variance L / n) + width · L (2/√(n(n−1)) + 1/(3n)), which
    increases with ``variance`` and with ``nats``; infinite for n = 1.
    Assumes: as :func:`empirical_bernstein`.
    Reference: Maurer and Pontil 2009, theorem 4, before the last step of its proof, which rounds the bracket
    up to 7/(3(n−1)).

    >>> round(empirical_bernstein_radius(0.01, 1000, 3.0), 6)
    0.018621
    """
    of = "empirical_bernstein_radius"
    variance = checks.real(variance, "variance", "[0, inf)", of=of)
    n = checks.whole(n, "n", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    width = checks.real(width, "width", "(0, inf)", of=of)
    if n == 1:
        return math.inf
    level = nats + _LN3
    linear = width * level * (2.0 / math.sqrt(n * (n - 1.0)) + 1.0 / (3.0 * n))
    return rounding.up(math.sqrt(2.0 * variance * level / n) + linear)


def empirical_bernstein(
    mean: Any, variance: Any, n: Any, nats: Any, *, lo: Any = 0.0, hi: Any = 1.0
) -> Interval:
    """The empirical Bernstein interval for the mean of ``n`` values in [lo, hi] that vary little.

    ``variance`` is the sample variance with divisor n − 1, Σ(x_i − mean)²/(n − 1), in the units of the values
    (not of [0, 1]). A number above it is safe too, because the interval widens with it. With one row there is
    no sample variance, ``variance`` is not used and the interval is [lo, hi].

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. Three
    events of probability exp(−nats)/3 each: Bennett's inequality fails above, or below, or the standard
    deviation is above its own upper bound; so both sides share the one bound on the variance.
    Assumes: independent values (not checkable) that stay in [lo, hi] (checked of ``mean`` only).
    Reference: Maurer and Pontil 2009, theorems 3, 4 and 10.

    >>> empirical_bernstein(0.25, 0.01, 1000, 3.0)
    Interval(low=0.231379, high=0.268621)
    """
    lo, hi = bounds(lo, hi, of="empirical_bernstein")
    mean = inside(mean, "mean", lo, hi, of="empirical_bernstein")
    return around(mean, empirical_bernstein_radius(variance, n, nats, width=hi - lo)).clip(lo, hi)
