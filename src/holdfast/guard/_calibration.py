"""Noise for one question, and the error that is certified for its answer.

The guard and ``holdfast.plan`` both take it from here, so that what a plan certifies can be promised to a
guard, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from holdfast import rounding
from holdfast.engines import SCALE_BITS
from holdfast.mechanisms import Noise
from holdfast.stability import (
    TransferError,
    TypicalError,
    transfer_error,
    typical_gaussian_error,
    typical_laplace_error,
)
from holdfast.tails import BoundedDifferences, SubGaussian, Tail

RESOLUTION = 2.0**-SCALE_BITS
"""How far scaling values in [0, 1] to integers can move their mean."""

# The ends of an interval in [0, 1] are rounded to floats.
_ENDS = 2.0**-50
_UNIT = SubGaussian(1.0)


@dataclass(frozen=True)
class Calibrated:
    """Noise for one question (None: it needs none), and the certified error of its answer."""

    noise: Noise | None
    error: float

    def add(self, value: float) -> float:
        """The value with fresh noise, from the operating system's randomness."""
        return value if self.noise is None else float(self.noise.add(value))

    def promise(self, planned: float) -> float:
        """The error that can be promised for shares, and for means of values in [0, 1], if this is the noise
        for them and an error of ``planned`` was certified for noise without a grid."""
        return promised_with(max(self.error, planned))


def promised_with(error: float) -> float:
    """An error for means in [0, 1], with what scaling values to integers and rounding the ends of an interval
    add to it."""
    return rounding.up(error + RESOLUTION + _ENDS)


def typical_plan(kind: str, tail: Tail, k: int, beta: float) -> TypicalError:
    """The least certified error of k answers about queries with this tail, with Laplace or Gaussian noise."""
    if isinstance(tail, (SubGaussian, BoundedDifferences)):
        return _scaled(_unit_plan(kind, k, beta), tail)
    return _LEAST[kind](tail, k, beta)


_LEAST = {"gaussian": typical_gaussian_error, "laplace": typical_laplace_error}


@lru_cache(maxsize=1024)
def _unit_plan(kind: str, k: int, beta: float) -> TypicalError:
    return _LEAST[kind](_UNIT, k, beta)


def _scaled(unit: TypicalError, tail: Tail) -> TypicalError:
    """The same promise for another tail: only the ratio of noise to radius enters it."""
    radius = tail.radius_at(-unit.log_nu)
    scale = rounding.up(unit.scale / unit.radius * radius)
    noise = rounding.up(unit.noise / unit.radius * radius)
    return replace(unit, error=rounding.up(radius + noise), radius=radius, scale=scale, noise=noise)


def typical_noise(plan: TypicalError, tail: Tail) -> Calibrated:
    """The noise for one of the planned answers, about a query with this tail.

    A single answer needs no noise: nothing is chosen after it, so the radius alone is its error.
    """
    radius = tail.radius_at(-plan.log_nu)
    if plan.k == 1:
        return Calibrated(None, radius)
    noise = Noise.hiding(plan.kind, radius, plan.radius / plan.scale)
    return Calibrated(noise, rounding.up(radius + noise.error(plan.b1, answers=plan.k)))


def transfer_noise(plan: TransferError, width: float = 1.0) -> Calibrated:
    """The noise for one of the planned answers, about a mean whose range has this width."""
    noise = Noise.hiding("gaussian", width / plan.n, 1 / (plan.n * plan.sd))
    return Calibrated(noise, rounding.up(width * plan.generalization + noise.error(plan.b1, answers=plan.k)))


def best_transfer_plan(n: int, k: int, beta: float) -> TransferError:
    """The plan of the two transfer theorems with the smaller error."""
    plans = [transfer_error(n, k, beta, method=method) for method in ("information", "jung")]
    return min(plans, key=lambda plan: transfer_noise(plan).error)
