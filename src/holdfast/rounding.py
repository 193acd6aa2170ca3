"""Rounding to the safe side, by name.

A bound that was computed in floating point may be a few units in the last place below its true value. Every
calculator passes its result through :func:`up` (an upper bound) or :func:`down` (a lower bound). The
widening, 64 units in the last place, is far below any stated tolerance and above the rounding error of the
short formulas it guards; longer numerical procedures widen by their own, larger, error bound first.
"""

from __future__ import annotations

import math
import sys

__all__ = ["down", "probability", "up"]

_WIDENING = 64 * sys.float_info.epsilon


def up(value: float) -> float:
    """The value rounded up; zero and infinity stay as they are.

    Args:
        value: The number to round.
    """
    if value == 0 or math.isinf(value):
        return value
    return math.nextafter(value + abs(value) * _WIDENING, math.inf)


def down(value: float) -> float:
    """The value rounded down; zero and infinity stay as they are.

    Args:
        value: The number to round.
    """
    return -up(-value)


def probability(value: float) -> float:
    """An upper bound on a probability: rounded up, and never above 1 (a bound above 1 says nothing more).

    Args:
        value: The number to round.
    """
    return min(1.0, up(value))
