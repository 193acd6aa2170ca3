"""The alphabet of a gate: "not shown to be better", or "better by at least i steps".

Most candidates are not shown to be better, and that costs almost nothing: the prior counts how often a
candidate was promoted so far. A promotion costs what its prior probability says, about 2 ln(i + 1) nats more
for i steps. Proof that the prices are valid: ``docs/theory/gate.md``, "What leaves, and what it costs".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.coding._experience import FAILURE_SHARE, Experience


@dataclass(frozen=True)
class PromotionAlphabet:
    """All outputs of one submission to a gate, priced by experience.

    Guarantee: exp(−price) over all outputs, a failure included, sums to at most 1.
    Reference: docs/theory/gate.md, "What leaves, and what it costs".

    Args:
        most_steps: the largest number of steps that a verdict can state.
        experience: how many earlier submissions were promoted, and how many were not.

    >>> prices = PromotionAlphabet(50, Experience(confirmed=19))
    >>> round(prices.price(None), 3), round(prices.price(0), 2)
    (0.003, 6.57)
    """

    most_steps: int
    experience: Experience

    def price(self, steps: int | None) -> float:
        """Nats for "better by at least ``steps`` steps"; None stands for "not shown"."""
        if steps is None:
            return self.experience.confirmation_price()
        share = (1 - FAILURE_SHARE) / ((steps + 1) * (steps + 2))
        return -math.log(self.experience.surprise_probability() * share)

    @property
    def failure_price(self) -> float:
        """Nats for "the scores could not be compared"."""
        return self.experience.failure_price()

    @property
    def worst_price(self) -> float:
        """The dearest output, a failure included."""
        return max(self.price(self.most_steps), self.price(None), self.failure_price)
