"""A tail given as a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.tails._tail import Tail


@dataclass(frozen=True, repr=False)
class Custom(Tail):
    """Any non-decreasing ``gamma``: the two-sided exponent itself, P(|q − E q| > α) ≤ exp(−gamma(α)).

    Guarantee: ``radius`` is found by bracketing and bisection and is always on the safe side: gamma(radius) ≥
    ln(1/ν). It is infinite where gamma never gets that far.
    Assumes: that ``gamma`` is a valid exponent and does not decrease (not checkable in general; what is
    returned is checked to be a number).

    >>> round(Custom(lambda alpha: 50 * alpha**2).radius(0.01), 6)
    0.303485
    """

    function: Callable[[float], float]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgument("gamma", "a function of the distance", self.function, of="Custom")

    def __init__(self, gamma: Callable[[float], float]) -> None:
        object.__setattr__(self, "function", gamma)
        self.__post_init__()

    def _two_sided(self, alpha: float) -> float:
        value = float(self.function(alpha))
        if not value >= 0.0:
            if value < 0.0:
                return 0.0
            raise InvalidArgument(
                "gamma", f"a function that returns numbers (at {alpha:g})", value, of="Custom"
            )
        return value

    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha``, as the given function says, floored at 0."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of="Custom")
        return self._two_sided(alpha) if alpha > 0 else 0.0

    def radius_at(self, nats: Any) -> float:
        """The smallest distance, to 1e-12 relative and on the safe side, whose gamma reaches ``nats``."""
        nats = checks.real(nats, "nats", "[0, inf)", of="Custom.radius_at")
        high = 1.0
        while self._two_sided(high) < nats:
            high *= 2.0
            if math.isinf(high):
                return math.inf
        low = high / 2.0
        while low > 0.0 and self._two_sided(low) >= nats:
            high, low = low, low / 2.0
        while high - low > 1e-12 * high:
            middle = (low + high) / 2.0
            if self._two_sided(middle) >= nats:
                high = middle
            else:
                low = middle
        return high
