"""Tails: how far a statistic may be from its mean, and with which probability.

What a tail is, the tails with a closed form, the exact normal tail and a tail given as a function. Then
uniform convergence: how far the shares of all events of a class are from their probabilities at once. Last,
several bounds on one tail, of which the best counts. Errata to TS 2.2: ``docs/theory/concentration.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.typing import BoundForm

LN2 = math.log(2.0)
_ROOT2 = math.sqrt(2.0)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
__all__ = ["uniform_convergence", "uniform_convergence_rows"]

_MOST_ROWS = 2**60


def _plain(value: Any) -> bool:
    """Whether a value is a float in [0, inf) as it stands: searches ask a tail millions of times."""
    return type(value) is float and 0.0 <= value < math.inf


@dataclass(frozen=True, repr=False)
class Tail(Record, ABC):
    """P(|q(X) − E q| > α) ≤ exp(−γ(α)) for every α > 0, for a statistic q fixed in advance."""

    @abstractmethod
    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha``: the statistic is farther from its mean with probability ≤
        exp(−γ)."""

    @abstractmethod
    def radius_at(self, nats: float) -> float:
        """The same as ``radius(exp(-nats))``, for probabilities too small for a float."""

    def radius(self, nu: float) -> float:
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

    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha``: the one-sided exponent less ln 2, rounded down."""
        if not _plain(alpha):
            alpha = checks.real(alpha, "alpha", "[0, inf)", of=type(self).__name__)
        return rounding.down(max(0.0, self._exponent(alpha) - LN2)) if alpha > 0 else 0.0

    def radius_at(self, nats: float) -> float:
        """The distance that is exceeded with probability at most exp(−nats), rounded up."""
        if not _plain(nats):
            nats = checks.real(nats, "nats", "[0, inf)", of=f"{type(self).__name__}.radius_at")
        return rounding.up(self._distance(nats + LN2))


def _set(record: object, **values: object) -> None:
    """Store checked values in a frozen record."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


@dataclass(frozen=True, repr=False)
class BoundedDifferences(OneSidedExponent):
    """A statistic of ``n`` independent rows that moves by at most ``delta`` when one row changes.

    Guarantee: radius Δ √(n ln(2/ν) / 2), two-sided, for a statistic fixed in advance.
    Assumes: independent rows and the sensitivity ``delta`` (neither is checkable from the data).
    Reference: McDiarmid 1989; TS 2.2 prints it without the factor 2.

    >>> round(BoundedDifferences(delta=0.01, n=400).radius(0.05), 6)
    0.27162
    """

    delta: float
    n: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        _set(
            self,
            delta=checks.real(self.delta, "delta", "(0, inf)", of=name),
            n=checks.whole(self.n, "n", of=name),
        )

    @classmethod
    def of_mean(cls, lo: float, hi: float, n: int) -> BoundedDifferences:
        """The mean of ``n`` independent values in [lo, hi]: sensitivity (hi − lo)/n.

        Args:
            lo: The least value that a row can have.
            hi: The largest value that a row can have.
        """
        lo = checks.real(lo, "lo", "(-inf, inf)", of="BoundedDifferences.of_mean")
        hi = checks.real(hi, "hi", "(-inf, inf)", of="BoundedDifferences.of_mean")
        if not lo < hi:
            raise InvalidArgument("hi", f"above lo = {lo}", hi, of="BoundedDifferences.of_mean")
        n = checks.whole(n, "n", of="BoundedDifferences.of_mean")
        return cls(delta=(hi - lo) / n, n=n)

    def _exponent(self, alpha: float) -> float:
        scaled = alpha / self.delta
        return 2.0 * scaled * scaled / self.n

    def _distance(self, exponent: float) -> float:
        return self.delta * math.sqrt(self.n * exponent / 2.0)


@dataclass(frozen=True, repr=False)
class SubGaussian(OneSidedExponent):
    """A statistic whose centred moment generating function is below that of a normal with sd ``sigma``.

    Guarantee: radius σ √(2 ln(2/ν)), two-sided, for a statistic fixed in advance.
    Assumes: ``sigma`` (not checkable from the data).
    Reference: TS 2.2 with the factor 2.

    >>> round(SubGaussian(1.0).radius(0.05), 6)
    2.716203
    """

    sigma: float

    def __post_init__(self) -> None:
        _set(self, sigma=checks.real(self.sigma, "sigma", "(0, inf)", of=type(self).__name__))

    def of_mean(self, n: int) -> SubGaussian:
        """The mean of ``n`` independent values that each have this tail."""
        return SubGaussian(self.sigma / math.sqrt(checks.whole(n, "n", of="SubGaussian.of_mean")))

    def _exponent(self, alpha: float) -> float:
        scaled = alpha / self.sigma
        return scaled * scaled / 2.0

    def _distance(self, exponent: float) -> float:
        return self.sigma * math.sqrt(2.0 * exponent)


@dataclass(frozen=True, repr=False)
class SubExponential(OneSidedExponent):
    """A statistic with ln E exp(λ(q − E q)) ≤ λ²σ²/2 for |λ| ≤ 1/b: normal near its mean, exponential far
    out.

    Guarantee: with L = ln(2/ν), radius σ√(2L) while L ≤ σ²/2b², then bL + σ²/2b.
    Assumes: ``sigma`` and ``b`` (not checkable from the data).
    Reference: TS 2.2; the printed form stops growing beyond σ²/b, this one does not.

    >>> round(SubExponential(sigma=1.0, b=0.5).radius(1e-6), 6)
    8.254329
    """

    sigma: float
    b: float

    def __post_init__(self) -> None:
        name = type(self).__name__
        _set(
            self,
            sigma=checks.real(self.sigma, "sigma", "(0, inf)", of=name),
            b=checks.real(self.b, "b", "(0, inf)", of=name),
        )

    def of_mean(self, n: int) -> SubExponential:
        """The mean of ``n`` independent values that each have this tail."""
        n = checks.whole(n, "n", of="SubExponential.of_mean")
        return SubExponential(sigma=self.sigma / math.sqrt(n), b=self.b / n)

    def _exponent(self, alpha: float) -> float:
        ratio = self.sigma / self.b
        if alpha <= self.sigma * ratio:
            scaled = alpha / self.sigma
            return scaled * scaled / 2.0
        return alpha / self.b - ratio * ratio / 2.0

    def _distance(self, exponent: float) -> float:
        ratio = self.sigma / self.b
        if exponent <= ratio * ratio / 2.0:
            return self.sigma * math.sqrt(2.0 * exponent)
        return self.b * exponent + self.sigma * ratio / 2.0


@dataclass(frozen=True, repr=False)
class Bernstein(OneSidedExponent):
    """The mean of ``n`` independent values with variance ≤ ``variance`` that stay within ``bound`` of their
    mean.

    Guarantee: P(|mean − E| > t) ≤ 2 exp(−n t² / (2 variance + 2 bound t / 3)), for a statistic fixed in
    advance.
    Assumes: independent rows, ``variance`` and ``bound`` (not checkable from the data).
    Reference: Bernstein's inequality (Boucheron, Lugosi and Massart 2013, corollary 2.11).

    >>> round(Bernstein(variance=0.01, bound=1.0, n=1000).radius(0.05), 6)
    0.009907
    """

    variance: float
    bound: float
    n: int

    def __post_init__(self) -> None:
        name = type(self).__name__
        _set(
            self,
            variance=checks.real(self.variance, "variance", "[0, inf)", of=name),
            bound=checks.real(self.bound, "bound", "(0, inf)", of=name),
            n=checks.whole(self.n, "n", of=name),
        )

    def _exponent(self, alpha: float) -> float:
        return self.n * alpha * alpha / (2.0 * (self.variance + self.bound * alpha / 3.0))

    def _distance(self, exponent: float) -> float:
        linear = self.bound * exponent / 3.0
        return (linear + math.sqrt(linear * linear + 2.0 * exponent * self.n * self.variance)) / self.n


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

    def of_mean(self, n: int) -> Normal:
        """The mean of ``n`` independent values that are each normal with this standard deviation."""
        return Normal(self.sigma / math.sqrt(checks.whole(n, "n", of="Normal.of_mean")))

    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha``: −ln(2Φ(−α/σ)), rounded down."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of="Normal")
        return rounding.down(_nats(alpha / self.sigma))

    def radius_at(self, nats: float) -> float:
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

    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha``, as the given function says, floored at 0."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of="Custom")
        return self._two_sided(alpha) if alpha > 0 else 0.0

    def radius_at(self, nats: float) -> float:
        """The smallest distance, to 1e-12 relative and on the safe side, whose gamma reaches ``nats``."""
        nats = checks.real(nats, "nats", "[0, inf)", of="Custom.radius_at")
        if nats == 0.0:
            return 0.0
        radius = search.least_real(lambda alpha: self._two_sided(alpha) >= nats)
        return math.inf if radius is None else radius


def uniform_convergence(*, vc: int, n: int, deviation: float, method: BoundForm = "sharp") -> float:
    """How likely it is that the share of some event of a class of VC dimension ``vc`` is off by ``deviation``
    or more.

    Guarantee: P(sup |share − probability| ≥ γ) ≤ 4 Π(2n) e^{−nγ²/8} for ``n`` independent rows. "sharp": Π is
    Sauer's sum, C(2n, 0) + … + C(2n, vc); "paper": (2n)^vc.
    Assumes: independent rows of one distribution (not checkable); the class fixed in advance. "paper": vc ≥
    2, where (2n)^vc is above Sauer's sum.
    Reference: SIS Theorem 2.16 (Vapnik and Chervonenkis 1971; Blumer, Ehrenfeucht, Haussler and Warmuth
    1989).

    Args:
        method: "sharp" or "paper".

    >>> round(uniform_convergence(vc=3, n=30_000, deviation=0.1), 6)
    0.007453
    """
    of, by = "uniform_convergence", "SIS Theorem 2.16"
    checks.choice(method, "method", ("paper", "sharp"), of=of)
    vc = checks.whole(vc, "vc", at_least=2 if method == "paper" else 0, at_most=10**6, of=of, by=by)
    n = checks.whole(n, "n", at_most=_MOST_ROWS, of=of, by=by)
    deviation = checks.real(deviation, "deviation", "(0, 1]", of=of, by=by)
    nats = vc * math.log(2.0 * n) if method == "paper" else _log_sauer(2 * n, vc)
    exponent = math.log(4.0) + nats - n * deviation * deviation / 8.0
    # Logarithms of factorials lose digits as they grow.
    slip = 1e-12 * (1.0 + abs(nats) + n * deviation * deviation / 8.0)
    return 1.0 if exponent + slip >= 0.0 else rounding.probability(math.exp(exponent + slip))


def uniform_convergence_rows(*, vc: int, deviation: float, beta: float, method: BoundForm = "sharp") -> int:
    """The fewest rows for which :func:`uniform_convergence` is at most ``beta``.

    Guarantee: as :func:`uniform_convergence`, for this many rows and more.
    Assumes: as :func:`uniform_convergence`.
    Reference: SIS Theorem 2.16.

    Args:
        vc: The VC dimension of the class.
        deviation: How far a share may be off.
        method: "sharp" or "paper".

    >>> uniform_convergence_rows(vc=3, deviation=0.1, beta=0.05)
    28341
    """
    beta = checks.real(beta, "beta", "(0, 1)", of="uniform_convergence_rows", by="SIS Theorem 2.16")

    def enough(n: int) -> bool:
        return bool(uniform_convergence(vc=vc, n=n, deviation=deviation, method=method) <= beta)

    rows = search.least_whole(enough)
    assert rows is not None
    return rows


def _log_sauer(points: int, vc: int) -> float:
    """ln of the largest number of subsets of ``points`` points that a class of this dimension cuts out."""
    from scipy import special

    if vc >= points:
        return points * math.log(2.0)
    chosen = np.arange(vc + 1.0)
    terms = (
        special.gammaln(points + 1.0) - special.gammaln(chosen + 1.0) - special.gammaln(points - chosen + 1.0)
    )
    return float(np.logaddexp.reduce(terms))


@dataclass(frozen=True, repr=False)
class TailRow(Record):
    """One bound that applies to a model: what it is called, the theorem behind it, and the tail it gives.

    Args:
        name: A short name.
        theorem: The theorem behind it.
        tail: The tail that this bound gives.
    """

    name: str
    theorem: str
    tail: Tail


@dataclass(frozen=True, repr=False)
class BestTail(Tail):
    """The best of several valid tails at every distance.

    Guarantee: each row bounds the same probability, so the largest exponent does too; nothing is paid for
    choosing, because the choice depends on the distance alone and never on the data.

    Args:
        rows: The bounds, in order.

    >>> from holdfast.tails import SubExponential, SubGaussian
    >>> best = BestTail((TailRow("a", "", SubGaussian(2.0)), TailRow("b", "", SubExponential(1.0, 1.0))))
    >>> best.best_at(1.0).name, best.best_at(10.0).name
    ('b', 'a')
    """

    rows: tuple[TailRow, ...]

    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha``: the most that any row proves."""
        return max(row.tail.gamma(alpha) for row in self.rows)

    def radius_at(self, nats: float) -> float:
        """The smallest distance that any row proves to be exceeded with probability at most exp(−nats)."""
        return self.best_at(nats).tail.radius_at(nats)

    def best_at(self, nats: float) -> TailRow:
        """The row that gives the smallest radius at probability exp(−nats).

        Args:
            nats: ln of one over the probability.
        """
        return min(self.rows, key=lambda row: row.tail.radius_at(nats))


@dataclass(frozen=True, repr=False)
class ShiftedTail(Tail):
    """A tail about another centre: the statistic's mean is within ``shift`` of it.

    Guarantee: |q − centre| ≤ |q − E q| + shift, so every radius grows by ``shift``.

    Args:
        tail: The tail that is shifted.
    """

    tail: Tail
    shift: float

    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha`` from the centre: none within ``shift`` of it."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of=type(self).__name__)
        return self.tail.gamma(max(0.0, rounding.down(alpha - rounding.up(self.shift))))

    def radius_at(self, nats: float) -> float:
        """The radius about the statistic's own mean, and the shift."""
        return rounding.up(self.tail.radius_at(nats) + self.shift)


@dataclass(frozen=True, repr=False)
class ReportRow(Record):
    """One line of a :class:`TailReport`.

    Args:
        name: A short name.
        theorem: The theorem behind it.
        radius: The radius at the report's probability.
        chosen: Whether it is the smallest.
    """

    name: str
    theorem: str
    radius: float
    chosen: bool


@dataclass(frozen=True, repr=False)
class TailReport(Record):
    """Every bound that applies to a model, with its theorem and its radius at ``nu``; the best is marked.

    Args:
        model: The model in words.
        rows: A line for each bound.
    """

    model: str
    nu: float
    rows: tuple[ReportRow, ...]

    def __str__(self) -> str:
        lines = [f"{self.model}: distance exceeded with probability at most {self.nu:g}"]
        for row in self.rows:
            mark = "→" if row.chosen else " "
            lines.append(f"{mark} {row.radius:.6g}  {row.name}: {row.theorem}")
        return "\n".join(lines)


def tail_report(model: str, rows: tuple[TailRow, ...], nu: float) -> TailReport:
    """List ``rows`` by their radius at ``nu``, smallest first."""
    nu = checks.real(nu, "nu", "(0, 1)", of="mean_tail_report")
    radii = sorted(((row.tail.radius(nu), row) for row in rows), key=lambda pair: pair[0])
    lines = (ReportRow(row.name, row.theorem, radius, chosen=i == 0) for i, (radius, row) in enumerate(radii))
    return TailReport(model, nu, tuple(lines))
