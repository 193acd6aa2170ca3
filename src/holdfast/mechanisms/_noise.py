"""Noise on a declared grid: which noise, how wide, and how it is added."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.mechanisms._coins import MOST_STEPS, Coins, choose_coins, rounded_noise, single_noise
from holdfast.records import Record
from holdfast.typing import NoiseKind, Numbers, Seed

__all__ = ["Noise", "gaussian", "laplace"]

Floats = npt.NDArray[np.float64]

KINDS = ("laplace", "gaussian")
# Asked-for widths and values beyond these could meet subnormal numbers or overflow.
WIDTHS = "[1e-280, 1e280]"
FARTHEST_VALUE = 1e300
# A grid step is this power of two below the width: the step costs nothing that a reader could notice.
RESOLUTION = 40


@dataclass(frozen=True, repr=False)
class Noise(Record):
    """Laplace or Gaussian noise, rounded to whole multiples of ``grid``; ``scale`` is its scale or sd.

    Guarantee: added to a value that is rounded to the grid first, it gives exactly the law of the continuous
    mechanism on the rounded value, followed by rounding; every guarantee of the continuous mechanism holds if
    each coordinate is allowed to move by one grid step more.
    Assumes: ``grid`` is a power of two and ``scale`` a whole number of grid steps, both checked.
    Reference: Holdfast, ``docs/theory/mechanisms.md``.

    Args:
        kind: "laplace" or "gaussian".

    >>> Noise.of("laplace", 0.5)
    Noise(kind='laplace', scale=0.5, grid=4.54747e-13)
    """

    kind: NoiseKind
    scale: float
    grid: float

    def __post_init__(self) -> None:
        checks.choice(self.kind, "kind", KINDS, of="Noise")
        scale = checks.real(self.scale, "scale", "[1e-290, 1e290]", of="Noise")
        grid = checks.real(self.grid, "grid", "(0, inf)", of="Noise")
        if math.frexp(grid)[0] != 0.5:
            raise InvalidArgument("grid", "a power of two", self.grid, of="Noise")
        if not (1.0 <= scale / grid <= MOST_STEPS and (scale / grid).is_integer()):
            raise InvalidArgument(
                "scale", f"a whole number of grid steps, at most {MOST_STEPS}", self.scale, of="Noise"
            )
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "grid", grid)

    @classmethod
    def of(cls, kind: NoiseKind, scale: float) -> Noise:
        """The narrowest noise on its grid with at least this scale, which is at most 2^-40 wider.

        The grid depends on the scale alone: it says nothing about the data.

        Args:
            kind: "laplace" or "gaussian".
        """
        scale = checks.real(scale, "scale", WIDTHS, of="Noise.of")
        grid = _grid(scale, RESOLUTION)
        return cls(kind, math.ceil(Fraction(scale) / Fraction(grid)) * grid, grid)

    @classmethod
    def hiding(
        cls, kind: NoiseKind, shift: float, ratio: float, *, dimensions: int = 1, resolution: int = RESOLUTION
    ) -> Noise:
        """The narrowest noise for which a move by ``shift``, rounding included, is at most ``ratio`` scales.

        ``shift`` is an L1 distance for Laplace and an L2 distance for Gaussian noise; the grid step is
        ``resolution`` powers of two below the scale.

        Args:
            kind: "laplace" or "gaussian".
            dimensions: How many numbers the value has.
        """
        checks.choice(kind, "kind", KINDS, of="Noise.hiding")
        shift = checks.real(shift, "shift", WIDTHS, of="Noise.hiding")
        ratio = checks.real(ratio, "ratio", WIDTHS, of="Noise.hiding")
        dimensions = checks.whole(dimensions, "dimensions", of="Noise.hiding")
        resolution = checks.whole(resolution, "resolution", at_least=0, at_most=RESOLUTION, of="Noise.hiding")
        grid = _grid(checks.real(shift / ratio, "shift/ratio", WIDTHS, of="Noise.hiding"), resolution)
        moved = Fraction(shift) / Fraction(grid) + _rounding_steps(kind, dimensions)
        steps = math.ceil(moved / Fraction(ratio))
        if steps > MOST_STEPS:
            least = 2.0**-40 * _rounding_steps(kind, dimensions)
            raise InvalidArgument(
                "ratio", f"at least {least:g} for {dimensions} dimensions", ratio, of="Noise.hiding"
            )
        return cls(kind, steps * grid, grid)

    @property
    def steps(self) -> int:
        """The scale in grid steps."""
        return int(self.scale / self.grid)

    def ratio(self, shift: float, *, dimensions: int = 1) -> float:
        """How far a value that moves by ``shift`` moves the answer, in scales, rounding to the grid included.

        Guarantee: (shift + d·grid)/scale for Laplace, (shift + ⌈√d⌉·grid)/sd for Gaussian noise, rounded up:
        the number to give to ``laplace_delta``, ``gaussian_delta`` or ``adaptive_failure``.
        Assumes: ``shift`` bounds the L1 (Laplace) or L2 (Gaussian) distance.
        Reference: ``docs/theory/adaptive-validity.md``.

        Args:
            dimensions: How many numbers the value has.

        >>> round(Noise.of("gaussian", 2.0).ratio(1.0), 9)
        0.5
        """
        shift = checks.real(shift, "shift", "[0, inf)", of="Noise.ratio")
        dimensions = checks.whole(dimensions, "dimensions", of="Noise.ratio")
        return rounding.up((shift + _rounding_steps(self.kind, dimensions) * self.grid) / self.scale)

    def error(self, beta: float, *, answers: int = 1) -> float:
        """No one of ``answers`` answers is farther than this from its exact value, except with ``beta``.

        Guarantee: with p = 1 − (1 − β)^{1/answers}, scale·ln(1/p) + grid for Laplace, sd·Φ⁻¹(1 − p/2) + grid
        for Gaussian noise; the grid step is the rounding of value and noise, half a step each.
        Assumes: fresh noise on each answer; values below 2^53 grid steps (beyond, ``Release.error`` adds the
        spacing of floating-point numbers there).
        Reference: TS Theorems 5.2 and 5.4 (for Gaussian noise printed with the looser sd·√(2 ln(1/β))).

        >>> round(Noise.of("laplace", 1.0).error(0.05), 6)
        2.995732
        """
        beta = checks.real(beta, "beta", "(0, 1)", of="Noise.error", by="TS Theorem 5.2")
        answers = checks.whole(answers, "answers", of="Noise.error")
        each = -math.expm1(math.log1p(-beta) / answers)
        widths = -math.log(each) if self.kind == "laplace" else -float(scipy.special.ndtri(each / 2.0))
        return rounding.up(self.scale * widths * (1.0 + 1e-12) + self.grid)

    @overload
    def add(self, value: float | np.number[Any], *, simulation: bool = False, seed: Seed = None) -> float: ...
    @overload
    def add(self, value: Numbers, *, simulation: bool = False, seed: Seed = None) -> Floats: ...
    def add(
        self, value: float | np.number[Any] | Numbers, *, simulation: bool = False, seed: Seed = None
    ) -> float | Floats:
        """The value, rounded to the grid, plus fresh noise: a float for a number, an array for an array.

        Args:
            value: A number or an array.
            simulation: Whether this is an experiment in which nothing is protected.
            seed: A seed for the noise. It needs ``simulation=True``.
        """
        coins = choose_coins(simulation, seed, of=self.kind)
        return noisy_values(checked_values(value, of=self.kind), self, coins)


@overload
def laplace(
    value: float | np.number[Any], scale: float, *, simulation: bool = False, seed: Seed = None
) -> float: ...
@overload
def laplace(value: Numbers, scale: float, *, simulation: bool = False, seed: Seed = None) -> Floats: ...
def laplace(
    value: float | np.number[Any] | Numbers, scale: float, *, simulation: bool = False, seed: Seed = None
) -> float | Floats:
    """The value plus Laplace noise of at least this ``scale``, on a grid that depends on the scale alone.

    Guarantee: the law of ``Noise.of("laplace", scale)``, exactly (total variation below 1e-868 for each
    number), whatever the value. Randomness comes from the operating system; nothing can replay it.
    Assumes: finite values of at most 1e300 in size (others are refused). ``seed`` works only together with
    ``simulation=True``, for experiments in which nothing is protected.
    Reference: TS Algorithm 2 uses it; the sampler is proved in ``docs/theory/mechanisms.md``.

    Args:
        value: A number or an array.

    >>> abs(laplace(10.0, 0.5) - 10.0) < 400
    True
    """
    scale = checks.real(scale, "scale", WIDTHS, of="laplace")
    return Noise.of("laplace", scale).add(value, simulation=simulation, seed=seed)


@overload
def gaussian(
    value: float | np.number[Any], sd: float, *, simulation: bool = False, seed: Seed = None
) -> float: ...
@overload
def gaussian(value: Numbers, sd: float, *, simulation: bool = False, seed: Seed = None) -> Floats: ...
def gaussian(
    value: float | np.number[Any] | Numbers, sd: float, *, simulation: bool = False, seed: Seed = None
) -> float | Floats:
    """The value plus Gaussian noise of at least this ``sd``, on a grid that depends on the sd alone.

    Guarantee: the law of ``Noise.of("gaussian", sd)``, exactly (total variation below 1e-868 for each
    number), whatever the value. Randomness comes from the operating system; nothing can replay it.
    Assumes: finite values of at most 1e300 in size (others are refused). ``seed`` works only together with
    ``simulation=True``, for experiments in which nothing is protected.
    Reference: TS Algorithm 3 uses it; the sampler is proved in ``docs/theory/mechanisms.md``.

    Args:
        value: A number or an array.

    >>> abs(gaussian([10.0, 20.0], 0.5) - [10.0, 20.0]).max() < 30
    np.True_
    """
    sd = checks.real(sd, "sd", WIDTHS, of="gaussian")
    return Noise.of("gaussian", sd).add(value, simulation=simulation, seed=seed)


def checked_values(value: Any, argument: str = "value", *, of: str) -> Floats:
    """Finite numbers as an array. The message does not repeat them: they may be about protected rows."""
    try:
        values = np.asarray(value)
        numeric = values.dtype.kind in "iuf"
        with np.errstate(over="ignore"):
            values = values.astype(np.float64, copy=False) if numeric else values
    except (TypeError, ValueError):
        numeric = False
    if not (numeric and (np.abs(values) <= FARTHEST_VALUE).all()):
        raise InvalidArgument(
            argument,
            f"a number or an array of numbers, each finite and at most {FARTHEST_VALUE:g} in size",
            "something else (not shown)",
            of=of,
        )
    return values


def noisy_values(values: Floats, noise: Noise, coins: Coins) -> float | Floats:
    """Checked values, rounded to the grid, plus noise: a float for a single number, else an array."""
    gaussian = noise.kind == "gaussian"
    if values.ndim == 0:
        drawn = np.array(single_noise(noise.steps, coins, gaussian=gaussian))
    else:
        drawn = rounded_noise(values.size, noise.steps, coins, gaussian=gaussian).reshape(values.shape)
    # From 2^53 steps on, every floating-point value is a multiple of the grid already. Both terms are exact,
    # so the computed sum is the exact sum, rounded once: a function of it, and a multiple of the grid.
    far = np.abs(values) >= 2.0**53 * noise.grid
    on_grid = np.where(far, values, np.rint(np.where(far, 0.0, values) / noise.grid) * noise.grid)
    noisy = on_grid + drawn * noise.grid
    return float(noisy) if values.ndim == 0 else noisy


def _grid(width: float, resolution: int) -> float:
    """The power of two that is ``resolution`` powers below the one at or under ``width``."""
    return math.ldexp(1.0, math.frexp(width)[1] - 1 - resolution)


def _rounding_steps(kind: str, dimensions: int) -> int:
    """How many steps rounding two values to the grid can add to their L1 or L2 distance (√d rounded up)."""
    return dimensions if kind == "laplace" else math.isqrt(dimensions - 1) + 1
