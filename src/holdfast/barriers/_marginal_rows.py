"""How many rows the algorithms for marginals need, and how wide they may round: one rule for each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from holdfast import rounding
from holdfast.barriers._droplets import VARIANCE
from holdfast.mechanisms import widest_ratio
from holdfast.stability import DP, Replicability

__all__ = ["METHODS", "Task", "fewest"]

METHODS = ("rounding", "droplets", "joint")
# The hardest promise that the callers accept (d = 10⁹, accuracy and ρ of 10⁻⁶) needs about 2¹⁴⁰ rows. Counts
# are Python integers, so a search that goes on to here only says that some promise is not kept by any number.
_MOST_ROWS = 2**300


@dataclass(frozen=True)
class Task:
    """d marginals to within ``accuracy``, or their ``signs`` to within it on average, except for ``beta``."""

    d: int
    accuracy: float
    beta: float
    signs: bool

    def accurate(self, variance: float) -> bool:
        """Whether errors that are subgaussian with this variance proxy in every column keep the promise."""
        if variance <= 0.0:
            return True
        if self.signs and math.sqrt(variance) <= self._spread:
            return True
        needed = self.accuracy / (2.0 if self.signs else 1.0)
        return 2.0 * self.d * math.exp(-needed * needed / (2.0 * variance)) <= self.beta

    def width(self, rows: int, method: str) -> float:
        """The widest grid or droplets, or the largest sd of joint noise, after ``rows`` rows; 0 where none is
        small enough."""
        if method == "joint":
            needed = self.accuracy / (2.0 if self.signs else 1.0)
            variance = needed * needed / (2.0 * (math.log(2.0 * self.d) - math.log(self.beta)))
            variance = max(variance, self._spread**2) if self.signs else variance
            return rounding.down(math.sqrt(max(variance - 1.0 / rows, 0.0)))
        # In logarithms: 2d/β is no float where β is 10⁻³⁰⁰.
        spread = math.sqrt(2.0 * (math.log(2.0 * self.d) - math.log(self.beta)) / rows)
        widths = [0.0, 2.0 * (self.accuracy / (2.0 if self.signs else 1.0) - spread)]
        if self.signs:
            left = self._spread**2 - 1.0 / rows
            share = 1.0 / 12.0 if method == "rounding" else VARIANCE
            widths.append(math.sqrt(max(left, 0.0) / share))
        return rounding.down(max(widths))

    @property
    def _spread(self) -> float:
        """The largest τ for which signs of τ-subgaussian estimates keep the promise.

        A column loses 2τ/√e on average at most, and its loss is 2τ-subgaussian around its mean.
        """
        factor = 2.0 * math.exp(-0.5) + math.sqrt(8.0 * math.log(1.0 / self.beta) / self.d)
        return rounding.down(self.accuracy / factor)

    def mismatch(self, rows: int, method: str) -> float:
        """An upper bound on the probability that two laboratories differ."""
        width = self.width(rows, method)
        if not width > 0.0:
            return 1.0
        if method == "rounding":
            return rounding.probability(self.d * 2.0 / math.sqrt(math.pi * rows) / width)
        # Total variation of a droplet and its shift, or of two normal laws.
        steep = 1.0 / math.sqrt(2.0 * math.pi) if method == "joint" else math.pi
        apart = steep * math.sqrt(2.0 * self.d / rows) / width
        return rounding.probability(2.0 * apart / (1.0 + apart))

    def private_sd(self, rows: int, stability: DP) -> float:
        """The noise that hides one row; rounding it to its grid is inside the margin."""
        shift = 2.0 * math.sqrt(self.d) / rows
        return shift / widest_ratio(stability.epsilon, stability.delta) * (1.0 + 1e-6)

    def enough(self, rows: int, stability: DP | Replicability | None, method: str) -> bool:
        """Whether the promise is proved for this many rows."""
        if stability is None:
            return self.accurate(1.0 / rows)
        if isinstance(stability, DP):
            return self.accurate(1.0 / rows + self.private_sd(rows, stability) ** 2)
        return self.mismatch(rows, method) <= stability.rho


def fewest(enough: Callable[[int], bool]) -> int:
    """The least number of rows that is enough, where more are enough as well."""
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST_ROWS:
            raise OverflowError("no number of rows up to 2³⁰⁰ is enough")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
