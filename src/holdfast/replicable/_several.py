"""Several replicable means of the same rows: what each way of having them costs in rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._compared import marginal_ways
from holdfast.replicable._mean import mean_rows
from holdfast.replicable._packing import MOST_DIMENSIONS
from holdfast.stability import transfer_exponent

__all__ = ["SeveralPlan", "SeveralWay", "plan_several"]

_SPLITS = 200


@dataclass(frozen=True, repr=False)
class SeveralWay(Record):
    """One way to k replicable means: the ``rows`` it needs and what it asks for.

    ``adaptive``: each mean may be chosen after seeing the results before it. ``efficient``: it can be run;
    otherwise the law of all results is known, and sampling from it takes too long in general.
    """

    name: str
    rows: int
    adaptive: bool
    efficient: bool
    theorem: str


@dataclass(frozen=True, repr=False)
class SeveralPlan(Record):
    """Every way to ``analyses`` replicable means, the one with the fewest rows first."""

    analyses: int
    accuracy: float
    rho: float
    beta: float
    ways: tuple[SeveralWay, ...]

    @property
    def best(self) -> SeveralWay:
        """The way with the fewest rows of those that can be run."""
        return next(way for way in self.ways if way.efficient)

    def way(self, name: str) -> SeveralWay:
        """The way of this name."""
        for way in self.ways:
            if way.name == name:
                return way
        names = " or ".join(way.name for way in self.ways)
        raise InvalidArgument("name", names, name, of="SeveralPlan.way")

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {**super().to_dict(), "ways": [way.to_dict() for way in self.ways]}


def plan_several(*, analyses: Any, accuracy: float, rho: float, beta: float) -> SeveralPlan:
    """The rows that ``analyses`` = k replicable means of values in [0, 1] need, by every way.

    "one by one": each mean is rounded to its own shared grid at ρ/k and β/k, all of the same rows. "fresh
    rows": the same, each of rows of its own. "together": one joint draw or rounding of all means, fixed in
    advance (beyond k = 20 it takes too long to run). "through privacy": answers with Gaussian noise, whose
    transcript shared coins then choose.

    Guarantee: all k results agree except with probability ``rho``, and all are within ``accuracy`` except
    with probability ``beta``. "one by one" with means chosen after seeing results: β + ρ.
    Assumes: independent rows (not checkable).
    Reference: SIS 1.4.3, where the ways cost O(k²n) and Õ(kn²); constants: docs/theory/composition.md.

    >>> plan = plan_several(analyses=10, accuracy=0.05, rho=0.1, beta=0.05)
    >>> plan.best.name, plan.best.rows
    ('one by one', 332146)
    """
    of = "plan_several"
    k = checks.whole(analyses, "analyses", at_most=10**6, of=of)
    accuracy = checks.real(accuracy, "accuracy", "[1e-6, 1)", of=of)
    rho = checks.real(rho, "rho", "[1e-6, 1)", of=of)
    beta = checks.real(beta, "beta", "[1e-12, 1)", of=of)
    single = mean_rows(accuracy=accuracy, rho=rho / k, beta=beta / k, bounds=(0.0, 1.0))
    ways = [
        SeveralWay("one by one", single, True, True, "SIS 1.4.3; constant: Holdfast"),
        SeveralWay("fresh rows", k * single, True, True, "union bound"),
        SeveralWay(
            "through privacy",
            _private_rows(k, accuracy, rho, beta),
            True,
            False,
            "Holdfast, mutual information; SIS Algorithm 2",
        ),
    ]
    together = _together_rows(k, accuracy, rho, beta)
    ways.append(
        SeveralWay("together", together, False, k <= MOST_DIMENSIONS, "Holdfast, joint draw or droplets")
    )
    return SeveralPlan(k, accuracy, rho, beta, tuple(sorted(ways, key=lambda way: way.rows)))


def _private_rows(k: int, accuracy: float, rho: float, beta: float) -> int:
    """Rows for k Gaussian answers whose transcript is chosen by shared coins.

    With noise of standard deviation s the transcript has I ≤ k/(8ns²) nats about the rows. Two samples are
    then √(2I) apart in expected total variation, and shared coins differ with probability ≤ ρ if that is ρ/(2
    − ρ). So I is fixed, s = √k/(2x√n), and both parts of the error shrink like 1/√n.
    """
    distance = rounding.down(rho / (2.0 - rho))
    information = distance * distance / 2.0
    noise_share = np.linspace(0.0, 1.0, _SPLITS + 1)[1:-1] * beta
    exponents = transfer_exponent(beta - noise_share, np.full_like(noise_share, information))
    reach = np.sqrt(exponents / 2.0) - ndtri(noise_share / (2.0 * k)) * math.sqrt(k) / (2.0 * distance)
    return math.ceil(rounding.up(float(reach.min() / accuracy) ** 2))


def _together_rows(k: int, accuracy: float, rho: float, beta: float) -> int:
    """The fewest rows of "joint draw" and "droplets", on values in [0, 1] and not [−1, 1]."""
    ways = marginal_ways(k, 2.0 * accuracy, rho, beta)
    return min(way.rows for way in ways if way.name != "rounding")
