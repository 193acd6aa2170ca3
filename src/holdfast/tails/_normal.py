"""The tail of a statistic that is exactly normal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.tails._tail import LN2, Tail

_ROOT2 = math.sqrt(2.0)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, repr=False)
class Normal(Tail):
    """A statistic that is exactly normal with standard deviation at most ``sigma``.

    Guarantee: γ(α) = −ln(2Φ(−α/σ)), two-sided, and the radius at which it reaches ln(1/ν), for a statistic
    fixed in advance: 1.96 σ at ν = 0.05, where ``SubGaussian`` has 2.72 σ. Both stay exact, and on the safe
    side, down to ν = exp(−10⁶) and beyond.
    Assumes: normality and ``sigma`` (not checkable from the data).
    Reference: the normal distribution; ``docs/theory/concentration.md``.

    >>> round(Normal(1.0).radius(0.05), 6)
    1.959964
    """

    sigma: float

    def __post_init__(self) -> None:
        sigma = checks.real(self.sigma, "sigma", "(0, inf)", of=type(self).__name__)
        object.__setattr__(self, "sigma", sigma)

    def of_mean(self, n: Any) -> Normal:
        """The mean of ``n`` independent values that are each normal with this standard deviation."""
        return Normal(self.sigma / math.sqrt(checks.whole(n, "n", of="Normal.of_mean")))

    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha``: −ln(2Φ(−α/σ)), rounded down."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of="Normal")
        return rounding.down(_nats(alpha / self.sigma))

    def radius_at(self, nats: Any) -> float:
        """The distance that is exceeded with probability exp(−nats), rounded up."""
        nats = checks.real(nats, "nats", "[0, inf)", of="Normal.radius_at")
        return rounding.up(self.sigma * _standardised(nats)) if nats > 0.0 else 0.0


def _nats(distance: float) -> float:
    """−ln P(|N| > distance) for a standard normal N, to a few units in the last place."""
    from scipy import special

    if distance < 1.0:
        return -math.log1p(-math.erf(distance / _ROOT2))
    return -float(special.log_ndtr(-distance)) - LN2


def _standardised(nats: float) -> float:
    """The distance that a standard normal exceeds with probability exp(−nats)."""
    from scipy import special

    if nats < 1.0:
        return _ROOT2 * float(special.erfinv(-math.expm1(-nats)))
    distance = -float(special.ndtri_exp(-nats - LN2))
    # One step of Newton's method: the inverse alone is good to 1e-12. The slope is φ(z)/Φ(−z).
    log_slope = -0.5 * distance * distance - _HALF_LOG_2PI - float(special.log_ndtr(-distance))
    return distance + (nats - _nats(distance)) / math.exp(log_slope)
