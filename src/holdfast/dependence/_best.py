"""Several bounds on one tail: the best is taken at every distance, and each keeps the name of its theorem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.records import Record
from holdfast.tails import Tail


@dataclass(frozen=True, repr=False)
class TailRow(Record):
    """One bound that applies to a model: what it is called, the theorem behind it, and the tail it gives."""

    name: str
    theorem: str
    tail: Tail


@dataclass(frozen=True, repr=False)
class BestTail(Tail):
    """The best of several valid tails at every distance.

    Guarantee: each row bounds the same probability, so the largest exponent does too; nothing is paid for
    choosing, because the choice depends on the distance alone and never on the data.

    >>> from holdfast.tails import SubExponential, SubGaussian
    >>> best = BestTail((TailRow("a", "", SubGaussian(2.0)), TailRow("b", "", SubExponential(1.0, 1.0))))
    >>> best.best_at(1.0).name, best.best_at(10.0).name
    ('b', 'a')
    """

    rows: tuple[TailRow, ...]

    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha``: the most that any row proves."""
        return max(row.tail.gamma(alpha) for row in self.rows)

    def radius_at(self, nats: Any) -> float:
        """The smallest distance that any row proves to be exceeded with probability at most exp(−nats)."""
        return self.best_at(nats).tail.radius_at(nats)

    def best_at(self, nats: Any) -> TailRow:
        """The row that gives the smallest radius at probability exp(−nats)."""
        return min(self.rows, key=lambda row: row.tail.radius_at(nats))


@dataclass(frozen=True, repr=False)
class ShiftedTail(Tail):
    """A tail about another centre: the statistic's mean is within ``shift`` of it.

    Guarantee: |q − centre| ≤ |q − E q| + shift, so every radius grows by ``shift``.
    """

    tail: Tail
    shift: float

    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha`` from the centre: none within ``shift`` of it."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of=type(self).__name__)
        return self.tail.gamma(max(0.0, rounding.down(alpha - rounding.up(self.shift))))

    def radius_at(self, nats: Any) -> float:
        """The radius about the statistic's own mean, and the shift."""
        return rounding.up(self.tail.radius_at(nats) + self.shift)


@dataclass(frozen=True, repr=False)
class ReportRow(Record):
    """One line of a :class:`TailReport`."""

    name: str
    theorem: str
    radius: float
    chosen: bool


@dataclass(frozen=True, repr=False)
class TailReport(Record):
    """Every bound that applies to a model, with its theorem and its radius at ``nu``; the best is marked."""

    model: str
    nu: float
    rows: tuple[ReportRow, ...]

    def __str__(self) -> str:
        lines = [f"{self.model}: distance exceeded with probability at most {self.nu:g}"]
        for row in self.rows:
            mark = "→" if row.chosen else " "
            lines.append(f"{mark} {row.radius:.6g}  {row.name}: {row.theorem}")
        return "\n".join(lines)


def report(model: str, rows: tuple[TailRow, ...], nu: Any) -> TailReport:
    """List ``rows`` by their radius at ``nu``, smallest first."""
    nu = checks.real(nu, "nu", "(0, 1)", of="mean_tail_report")
    radii = sorted(((row.tail.radius(nu), row) for row in rows), key=lambda pair: pair[0])
    lines = (ReportRow(row.name, row.theorem, radius, chosen=i == 0) for i, (radius, row) in enumerate(radii))
    return TailReport(model, nu, tuple(lines))
