"""What a tail is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.records import Record

LN2 = math.log(2.0)


def _plain(value: Any) -> bool:
    """Whether a value is a float in [0, inf) as it stands: searches ask a tail millions of times."""
    return type(value) is float and 0.0 <= value < math.inf


@dataclass(frozen=True, repr=False)
class Tail(Record, ABC):
    """P(|q(X) − E q| > α) ≤ exp(−γ(α)) for every α > 0, for a statistic q fixed in advance."""

    @abstractmethod
    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha``: the statistic is farther from its mean with probability ≤
        exp(−γ)."""

    @abstractmethod
    def radius_at(self, nats: Any) -> float:
        """The same as ``radius(exp(-nats))``, for probabilities too small for a float."""

    def radius(self, nu: Any) -> float:
        """The distance that is exceeded with probability at most ``nu``, rounded up."""
        nu = checks.real(nu, "nu", "(0, 1)", of=f"{type(self).__name__}.radius")
        return self.radius_at(-math.log(nu))


class OneSidedExponent(Tail):
    """A tail given by the exponent of one side; being two-sided costs ln 2, and γ is floored at 0."""

    @abstractmethod
    def _exponent(self, alpha: float) -> float:
        """The one-sided exponent at distance ``alpha`` > 0."""

    @abstractmethod
    def _distance(self, exponent: float) -> float:
        """The smallest distance whose one-sided exponent reaches ``exponent`` > 0."""

    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha``: the one-sided exponent less ln 2, rounded down."""
        if not _plain(alpha):
            alpha = checks.real(alpha, "alpha", "[0, inf)", of=type(self).__name__)
        return rounding.down(max(0.0, self._exponent(alpha) - LN2)) if alpha > 0 else 0.0

    def radius_at(self, nats: Any) -> float:
        """The distance that is exceeded with probability at most exp(−nats), rounded up."""
        if not _plain(nats):
            nats = checks.real(nats, "nats", "[0, inf)", of=f"{type(self).__name__}.radius_at")
        return rounding.up(self._distance(nats + LN2))
