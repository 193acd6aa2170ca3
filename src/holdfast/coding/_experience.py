"""A prior that counts: how often did a question surprise so far?

Whether the next one surprises is predicted by an even mixture of "never" and the Krichevsky–Trofimov rule, so
k confirmations cost at most ln 2 nats in all. How large a surprise is follows a fixed tail, about 2
ln(distance) nats. It knows nothing of the width of cells, and does well where they are so wide that surprises
are rare: on a ladder, and under a promised error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.records import Record

# What share of the surprise branch pays for a question that failed after it touched the rows.
FAILURE_SHARE = 1 / 64


@dataclass(frozen=True, repr=False)
class Experience(Record):
    """How many past questions were confirmed and how many surprised, and the prior that learns from no more
    than that.

    >>> round(Experience(confirmed=9).confirmation_price(), 4)
    0.0078
    """

    confirmed: int = 0
    surprised: int = 0

    def after(self, *, surprise: bool) -> Experience:
        """The experience one question later."""
        return Experience(self.confirmed + (not surprise), self.surprised + surprise)

    def surprise_probability(self) -> float:
        """The prior probability that the next question surprises.

        While nothing has surprised yet, M(c confirmations) = ½ + ½ KT(c) with KT(c) = Γ(c+½)/(Γ(c+1)√π), and
        the next question surprises with probability ½ KT(c) · ½/(c+1) / M(c). After the first surprise
        "never" is refuted and the Krichevsky–Trofimov rule (f + ½)/(c + f + 1) remains.
        """
        if self.surprised:
            return (self.surprised + 0.5) / (self.confirmed + self.surprised + 1)
        learned = math.exp(math.lgamma(self.confirmed + 0.5) - math.lgamma(self.confirmed + 1)) / math.sqrt(
            math.pi
        )
        return learned / (1 + learned) * 0.5 / (self.confirmed + 1)

    def confirmation_price(self) -> float:
        """Nats paid when the next question is confirmed."""
        return -math.log1p(-self.surprise_probability())

    def calm_price(self) -> float:
        """Nats that the confirmations so far cost in all, if nothing surprised: −ln(½ + ½ KT(confirmed))."""
        learned = math.exp(math.lgamma(self.confirmed + 0.5) - math.lgamma(self.confirmed + 1))
        return -math.log(0.5 + 0.5 * learned / math.sqrt(math.pi))

    def surprise_price(self, distance: int) -> float:
        """Nats paid when the next question surprises at this distance."""
        share = (1 - FAILURE_SHARE) / (2 * distance * (distance + 1))
        return -math.log(self.surprise_probability() * share)

    def failure_price(self) -> float:
        """Nats paid when the next question cannot be read."""
        return -math.log(self.surprise_probability() * FAILURE_SHARE)
