"""Noise calibrated to concentration instead of sensitivity: typically stable answers (TS section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.mechanisms._coins import choose_coins
from holdfast.mechanisms._noise import WIDTHS, Floats, Noise, checked_values, noisy_values
from holdfast.records import Record
from holdfast.stability import TwoSampleStability, TypicalStability, gaussian_delta
from holdfast.tails import Tail

__all__ = ["Release", "typical_gaussian", "typical_laplace"]


@dataclass(frozen=True, repr=False, eq=False)
class Release(Record):
    """A noisy answer with what is known about it: the noise, the stability it buys, and its error.

    Guarantee: ``value`` is stable as ``stability`` says; ``error`` bounds its distance from the exact value.
    Assumes: the tail the answer was given with (not checkable). A ``simulated`` release was drawn from a
    seed: whoever knows the seed can subtract the noise, so it protects nothing.
    Reference: TS Theorems 5.1 to 5.4.

    >>> from holdfast.tails import SubGaussian
    >>> typical_laplace(0.25, SubGaussian(0.01), eta=0.5, nu=1e-6).stability
    TypicalStability(eta=0.5, tau=0, nu=1e-06)
    """

    value: float | Floats
    noise: Noise
    stability: TypicalStability | TwoSampleStability
    simulated: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.value, np.ndarray):
            self.value.setflags(write=False)

    def __float__(self) -> float:
        return float(self.value)

    def error(self, beta: Any) -> float:
        """No coordinate is farther than this from its exact value, except with probability ``beta``.

        Guarantee: over the noise, for the data as they are; ``Noise.error`` for all coordinates together.
        Assumes: nothing further.
        Reference: TS Theorems 5.2 and 5.4.
        """
        farthest = float(np.max(np.abs(self.value)))
        bound = self.noise.error(beta, answers=np.size(self.value))
        if farthest < 2.0**53 * self.noise.grid:
            return bound
        return rounding.up(bound + float(np.spacing(farthest)))

    def to_dict(self) -> dict[str, Any]:
        """The release as a dictionary of plain values, ready for JSON; an array becomes a list."""
        value = self.value.tolist() if isinstance(self.value, np.ndarray) else self.value
        return {**super().to_dict(), "value": value}


def typical_laplace(
    value: Any,
    tail: Tail,
    eta: Any,
    nu: Any,
    *,
    form: str = "oracle",
    simulation: bool = False,
    seed: Any = None,
) -> Release:
    """The value with Laplace noise of scale α(ν)/η: a purely typically stable answer.

    Guarantee: (η, 0, ν) in oracle form; ``form="two-sample"`` takes scale 2α(ν/2)/η and is (η, 0, ν) in
    two-sample form. Rounding to the grid is part of the calibration.
    Assumes: ``value`` is q(x) for a query fixed before the data were seen, or chosen through stable answers,
    with this ``tail``; for d numbers, the tail of the L1 distance ‖q(X) − E q‖₁ (not checkable).
    Reference: TS Algorithm 2 and Theorem 5.1; two-sample: TS1 Theorem 4.1.

    >>> from holdfast.tails import SubGaussian
    >>> release = typical_laplace(0.25, SubGaussian(0.01), eta=0.5, nu=1e-6)
    >>> round(release.noise.scale, 6), round(release.error(0.05), 6)
    (0.107735, 0.322747)
    """
    of, by = "typical_laplace", "TS Theorem 5.1"
    eta = checks.real(eta, "eta", "(0, inf)", of=of, by=by)
    nu = checks.real(nu, "nu", "(0, 1)", of=of, by=by)
    if checks.choice(form, "form", ("oracle", "two-sample"), of=of) == "oracle":
        stability: TypicalStability | TwoSampleStability = TypicalStability(eta, nu=nu)
        shift = _radius(tail, nu, of)
    else:
        stability = TwoSampleStability(eta, nu=nu)
        shift = 2.0 * _radius(tail, nu / 2.0, of)
    return _released(value, "laplace", shift, eta, stability, simulation, seed)


def typical_gaussian(
    value: Any,
    tail: Tail,
    eta: Any,
    tau: Any,
    nu: Any,
    method: str = "sharp",
    *,
    form: str = "oracle",
    simulation: bool = False,
    seed: Any = None,
) -> Release:
    """The value with the least Gaussian noise that makes it (η, τ, ν)-typically stable.

    Guarantee: (η, τ, ν) in oracle form. "sharp": the smallest sd whose exact profile has δ(η) ≤ τ, to 1e-9;
    "paper": sd = α(ν)√(2 ln(1.5/τ))/η. ``form="two-sample"`` takes 2α(ν/2) for α(ν) and is (η, τ, ν) in
    two-sample form. Rounding to the grid is part of the calibration.
    Assumes: ``value`` is q(x) for a query fixed before the data were seen, or chosen through stable answers,
    with this ``tail``; for d numbers, the tail of the L2 distance ‖q(X) − E q‖₂ (not checkable). "paper" is
    refused where δ(η) > τ, which is where the printed theorem fails.
    Reference: TS Algorithm 3 and Theorem 5.3, printed for all η; two-sample: TS1 Algorithm 3, Theorems 4.3
    and 4.4; sharp: the profile of Balle and Wang 2018.

    >>> from holdfast.tails import SubGaussian
    >>> sharp = typical_gaussian(0.25, SubGaussian(0.01), eta=0.5, tau=1e-6, nu=1e-6)
    >>> paper = typical_gaussian(0.25, SubGaussian(0.01), eta=0.5, tau=1e-6, nu=1e-6, method="paper")
    >>> round(sharp.noise.scale, 4), round(paper.noise.scale, 4)
    (0.434, 0.5746)
    """
    of, by = "typical_gaussian", "TS Theorem 5.3"
    sharp = checks.choice(method, "method", ("paper", "sharp"), of=of) == "sharp"
    eta = checks.real(eta, "eta", "[0, inf)" if sharp else "(0, inf)", of=of, by=by)
    tau = checks.real(tau, "tau", "(0, 1)", of=of, by=by)
    nu = checks.real(nu, "nu", "(0, 1)", of=of, by=by)
    ratio = widest_ratio(eta, tau) if sharp else _printed_ratio(eta, tau, of)
    if checks.choice(form, "form", ("oracle", "two-sample"), of=of) == "oracle":
        stability: TypicalStability | TwoSampleStability = TypicalStability(eta, tau, nu)
        shift = _radius(tail, nu, of)
    else:
        stability = TwoSampleStability(eta, tau, nu)
        shift = 2.0 * _radius(tail, nu / 2.0, of)
    return _released(value, "gaussian", shift, ratio, stability, simulation, seed)


def _released(
    value: Any,
    kind: str,
    shift: float,
    ratio: float,
    stability: TypicalStability | TwoSampleStability,
    simulation: bool,
    seed: Any,
) -> Release:
    coins = choose_coins(simulation, seed, of=f"typical_{kind}")
    values = checked_values(value, of=f"typical_{kind}")
    if values.size == 0:
        raise InvalidArgument("value", "a number or a non-empty array", value, of=f"typical_{kind}")
    noise = Noise.hiding(kind, shift, ratio, dimensions=values.size)
    return Release(noisy_values(values, noise, coins), noise, stability, simulated=coins.simulated)


def _radius(tail: Any, nu: float, of: str) -> float:
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of=of)
    radius = tail.radius(nu)
    if not 1e-280 <= radius <= 1e280:
        raise InvalidArgument("tail", f"one whose radius at {nu:g} is in {WIDTHS}", radius, of=of)
    return radius


def _printed_ratio(eta: float, tau: float, of: str) -> float:
    ratio = rounding.down(eta / math.sqrt(2.0 * math.log(1.5 / tau)))
    exact = gaussian_delta(eta, ratio)
    if not exact <= tau:
        raise InvalidArgument(
            "eta",
            f"small enough for method 'paper' (the exact delta here is {exact:.3g}, above tau = {tau:g}); "
            "method 'sharp' has no such limit",
            eta,
            of=of,
            reference="TS Theorem 5.3, erratum",
        )
    return ratio


@lru_cache(maxsize=1024)
def widest_ratio(eta: float, tau: float) -> float:
    """The largest shift/sd, to a relative 1e-9 and on the safe side, with δ(eta) ≤ tau."""

    def allowed(ratio: float) -> bool:
        return gaussian_delta(eta, ratio) <= tau

    high = 1.0
    while allowed(high):
        high *= 2.0
    low = high / 2.0
    while not allowed(low):
        high, low = low, low / 2.0
    while high - low > 1e-9 * low:
        middle = (low + high) / 2.0
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low
