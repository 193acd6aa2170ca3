"""Randomised rounding to a shared grid: the whole secret of a replicable number."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._elementary import Floats
from holdfast.replicable._tape import Tape

__all__ = ["round_to_grid", "snap"]


def snap(values: Any, width: Any, offsets: Any) -> Floats:
    """The centre of each value's cell; cells of ``width`` begin at ``offsets``·``width`` + whole widths.

    Guarantee: for ``offsets`` uniform on (0, 1), two values v1 and v2 get different centres with probability
    exactly min(1, |v1 − v2|/width), and centre − value is uniform on [−width/2, width/2], whatever the value.
    Assumes: values below 2⁵⁰ widths, so that the rounding of the machine is far below the width; the arrays
    broadcast.
    Reference: Holdfast, replicable rounding.

    >>> snap([0.26, 0.27, 0.4], 0.25, 0.5).tolist()
    [0.25, 0.25, 0.5]
    """
    values, width, offsets = (np.asarray(part, dtype=np.float64) for part in (values, width, offsets))
    cells = np.floor(values / width - offsets)
    # From the cell alone, so that every value of a cell gives the same bits.
    centres: Floats = (cells + (offsets + 0.5)) * width
    return centres


def round_to_grid(values: Any, width: Any, tape: Tape) -> Floats:
    """Values rounded to a grid of ``width`` whose offsets, one for each coordinate, come from the tape.

    Guarantee: as :func:`snap`, independently for each coordinate.
    Assumes: as :func:`snap`.
    Reference: Holdfast, replicable rounding.
    """
    of = "round_to_grid"
    width = checks.real(width, "width", "(0, inf)", of=of)
    values = np.asarray(values, dtype=np.float64)
    if not (np.abs(values) < 2.0**50 * width).all():
        raise InvalidArgument("values", f"finite and below 2⁵⁰ widths of {width:g}", values, of=of)
    return snap(values, width, tape.uniforms(values.size).reshape(values.shape))
