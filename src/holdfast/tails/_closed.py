"""Tails with a closed form (theory section 1; errata to TS 2.2 in ``docs/theory/concentration.md``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.tails._tail import OneSidedExponent


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
    def of_mean(cls, lo: Any, hi: Any, n: Any) -> BoundedDifferences:
        """The mean of ``n`` independent values in [lo, hi]: sensitivity (hi − lo)/n."""
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

    def of_mean(self, n: Any) -> SubGaussian:
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

    def of_mean(self, n: Any) -> SubExponential:
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
