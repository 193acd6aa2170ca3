"""The price of an output: a prior over everything a question may reveal, heavy at the guess and learned from
the past.

An output is *confirmed* (the statistic lies in the cell around the guess, with the width that was expected)
or a *surprise* (any other cell or width class, or a failure). Its price is ln(1/π) for a prior π that sums to
at most 1 over the whole alphabet; that is all theory 2.2 asks for.

Whether a question surprises is predicted by an even mixture of "never" and the Krichevsky–Trofimov rule
learned from past outputs, so k confirmations cost at most ln 2 nats in all. How large a surprise is follows a
fixed tail, about 2 ln(distance in cells) nats. Proofs and the enumeration: ``docs/theory/code-guard.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.records import Record

# What share of the surprise branch pays for a question that failed after it touched the rows.
FAILURE_SHARE = 1 / 64


@dataclass(frozen=True, repr=False)
class Experience(Record):
    """How many past questions were confirmed and how many surprised: all the prior learns from."""

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

    def surprise_price(self, size: Surprise) -> float:
        """Nats paid when the next question surprises by ``size``."""
        return -math.log(self.surprise_probability() * size.probability())


@dataclass(frozen=True, repr=False)
class Surprise(Record):
    """One output of the surprise branch: ``cell`` steps from the guess, in width class ``width_class`` of
    ``classes``.

    ``cell = 0`` with ``width_class = 0`` is the confirmation and not a surprise. Width classes exist only
    where the width of the interval depends on the data; there is one class otherwise.
    """

    cell: int
    width_class: int = 0
    classes: int = 1

    def probability(self) -> float:
        """Its share of the surprise branch; all surprises and the failure together sum to at most 1."""
        if self.classes == 1:
            distance = abs(self.cell)
            return (1 - FAILURE_SHARE) / (2 * distance * (distance + 1))
        inside = _cell_probability(self.cell) * _class_probability(self.width_class, self.classes)
        confirmation = _cell_probability(0) * _class_probability(0, self.classes)
        return (1 - FAILURE_SHARE) * inside / (1 - confirmation)


@dataclass(frozen=True, repr=False)
class Failure(Surprise):
    """The question touched the rows and could not be answered: that it failed is itself an output, and is
    paid for."""

    cell: int = 0

    def probability(self) -> float:
        """Its share of the surprise branch."""
        return FAILURE_SHARE


def _cell_probability(cell: int) -> float:
    """½ at the guess, 1/(4m(m+1)) at distance m on either side; sums to 1."""
    distance = abs(cell)
    return 0.5 if distance == 0 else 1 / (4 * distance * (distance + 1))


def _class_probability(width_class: int, classes: int) -> float:
    """½, ¼, … with the last class taking what is left; sums to 1."""
    return 2.0 ** -min(width_class + 1, classes - 1)
