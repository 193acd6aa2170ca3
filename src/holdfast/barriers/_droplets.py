"""Rounding d numbers together, by shared droplets whose surface is nearly as small as a ball's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["MOST_COLUMNS", "VARIANCE", "droplet"]

Floats = npt.NDArray[np.float64]

# 2^d darts are thrown on average: a minute at 24.
MOST_COLUMNS = 20
# Of the error, in widths²: 1/12 − 1/(2π²), also its variance proxy.
VARIANCE = 1.0 / 12.0 - 0.5 / np.pi**2
_NUMBERS_AT_ONCE = 2**20


def droplet(values: Any, width: Any, tape: Tape) -> Floats:
    """A point within half a ``width`` of ``values`` in every coordinate, chosen by shared darts.

    Darts (Z, H) come from the tape; the first with H < Π cos²(π(v − x)_j/width), x the translate of Z by
    whole widths that is nearest to v, gives x.

    Guarantee: x − v has the density Π (2/width)cos²(π e_j/width), whatever v; two laboratories whose values
    are Δ apart differ with probability at most 2t/(1+t), t the total variation of that density and its shift
    by Δ, which is at most π‖Δ‖₂/width.
    Assumes: at most 20 coordinates (checked): about 2^d darts are needed, and nobody knows how to do with
    polynomially many.
    Reference: Kindler, O'Donnell, Rao and Wigderson 2008; Holenstein 2009.

    >>> first = droplet([0.31, -0.2], 0.5, Tape("study-7"))
    >>> bool((abs(first - [0.31, -0.2]) <= 0.25).all())
    True
    >>> bool((first == droplet([0.3, -0.21], 0.5, Tape("study-7"))).all())
    True
    """
    of = "droplet"
    tape = tape_argument(tape, of=of)
    width = checks.real(width, "width", "(0, inf)", of=of)
    scaled = np.atleast_1d(np.asarray(values, dtype=np.float64)) / width
    if scaled.ndim != 1 or not (np.abs(scaled) < 2.0**40).all():
        raise InvalidArgument("values", "a vector of numbers, each below 2⁴⁰ widths", values, of=of)
    d = checks.whole(scaled.size, "the number of values", at_most=MOST_COLUMNS, of=of)
    # The first dart that hits is the same however many are thrown at once.
    darts = min(4 * 2**d, _NUMBERS_AT_ONCE // (d + 1))
    start = 0
    while True:
        thrown = tape.uniforms(darts * (d + 1), start=start).reshape(darts, d + 1)
        cells = np.rint(scaled - thrown[:, :d])
        chance = np.prod(np.cos(np.pi * (scaled - thrown[:, :d] - cells)) ** 2, axis=1)
        hits = np.flatnonzero(thrown[:, d] < chance)
        if hits.size:
            first = hits[0]
            # From the dart and the whole number alone, so that everyone whom it hits gets the same bits.
            found: Floats = (thrown[first, :d] + cells[first]) * width
            return found
        start += darts * (d + 1)
