"""Correlated sampling of normal and Laplace noise about two means: mostly the very same point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._elementary import Floats
from holdfast.replicable._grid import snap
from holdfast.replicable._packing import MOST_DIMENSIONS, RADIUS_SQUARED, point_in_ball
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["correlated_laplace", "correlated_normal"]

_BY = "theory 4, correlated sampling"
# Up to here boxes meet at least as often as ellipsoids; see docs/theory/replicability.md.
_MOST_BOXED = 7


def correlated_normal(mean: Any, sd: Any, tape: Tape) -> Floats:
    """A draw from N(``mean``, ``sd``²) that two sides with close means share, bit for bit.

    Guarantee: the law of the draw is N(mean, diag sd²) to within the 53 bits of the uniforms. Two sides whose
    laws are at total variation T get the same point with probability at least (1 − T)/(1 + T), and exactly
    1 − T in one dimension.
    Assumes: at most 20 dimensions; both sides use the same ``sd`` (a number, or one for each coordinate).
    Reference: Holdfast; it replaces the Poisson functional representation (Li and El Gamal 2018) by layers.

    >>> correlated_normal([1.0, 2.0], 0.5, Tape("study-7")).round(4).tolist()
    [0.9102, 1.2376]
    >>> correlated_normal([1.01, 1.99], 0.5, Tape("study-7")).round(4).tolist()
    [0.9102, 1.2376]
    """
    centre, spread, tape = _arguments(mean, sd, tape, "mean", "sd", of="correlated_normal")
    drawn = spread.ravel() * _standard_normal((centre / spread).ravel(), tape)
    return drawn.reshape(centre.shape)


def correlated_laplace(location: Any, scale: Any, tape: Tape) -> Floats:
    """A draw of independent Laplace noise about ``location`` that two sides with close locations share.

    Guarantee: the law of the draw is the product of Laplace(location_i, scale_i) to within the 53 bits of the
    uniforms. In up to seven dimensions two sides get the same point with probability exactly Π (1 − T_i), T_i
    the total variation in coordinate i; beyond, at least E (1 − T)/(1 + T), T that of the normals of which
    Laplace noise is a mixture.
    Assumes: at most 20 dimensions; both sides use the same ``scale`` (a number, or one for each coordinate).
    Reference: Holdfast, layers.

    >>> correlated_laplace([1.0, 2.0], 0.5, Tape("study-7")).round(4).tolist()
    [1.2758, 2.6117]
    """
    of = "correlated_laplace"
    centre, spread, tape = _arguments(location, scale, tape, "location", "scale", of=of)
    d = centre.size
    if d <= _MOST_BOXED:
        # The level sets of the density are intervals of half-width Gamma(2).
        exponentials = tape.branch("layers").exponentials(2 * d).reshape(2, d)
        widths = 2.0 * spread.ravel() * (exponentials[0] + exponentials[1])
        return snap(centre.ravel(), widths, tape.branch("offsets").uniforms(d)).reshape(centre.shape)
    # Laplace noise is normal noise whose variance is exponential of mean 2 scale².
    sd = spread.ravel() * np.sqrt(2.0 * tape.branch("variances").exponentials(d))
    return (sd * _standard_normal(centre.ravel() / sd, tape)).reshape(centre.shape)


def _standard_normal(centre: Floats, tape: Tape) -> Floats:
    """N(centre, 1): uniform in a ball whose squared radius, shared, is chi-squared with d + 2 degrees."""
    d = centre.size
    radius = math.sqrt(math.fsum(z * z for z in tape.branch("layers").normals(d + 2).tolist()))
    if d == 1:
        return snap(centre, 2.0 * radius, tape.branch("offsets").uniforms(1))
    unit = radius / math.sqrt(RADIUS_SQUARED)
    return unit * point_in_ball(centre / unit, tape.branch("offsets"))


def _arguments(
    centre: Any, spread: Any, tape: Any, centre_name: str, spread_name: str, *, of: str
) -> tuple[Floats, Floats, Tape]:
    tape = tape_argument(tape, of=of)
    numbers: list[Floats] = []
    for value, name in ((centre, centre_name), (spread, spread_name)):
        try:
            numbers.append(np.asarray(value, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidArgument(name, "a number or a vector", value, of=of, reference=_BY) from None
    middle, width = numbers
    if not (middle.ndim <= 1 and np.isfinite(middle).all()):
        raise InvalidArgument(centre_name, "a finite number or vector", centre, of=of, reference=_BY)
    checks.whole(middle.size, f"dimension of {centre_name}", at_most=MOST_DIMENSIONS, of=of, by=_BY)
    if width.shape not in ((), middle.shape) or not ((width > 0.0) & (width < np.inf)).all():
        expected = f"a positive number, or one for each coordinate of {centre_name}"
        raise InvalidArgument(spread_name, expected, spread, of=of, reference=_BY)
    width = np.broadcast_to(width, middle.shape)
    if not (np.abs(middle) < 2.0**30 * width).all():
        raise InvalidArgument(centre_name, f"below 2³⁰ times {spread_name}", centre, of=of, reference=_BY)
    return middle, width, tape
