"""The least whole number that satisfies a growing condition: how every sample size here is found."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MOST_ROWS", "least_whole"]

_MOST = 2**62
MOST_ROWS = 2**48
"""No table is larger: a size beyond it is none."""


def least_whole(holds: Callable[[int], bool], start: int = 1, *, most: int = _MOST) -> int | None:
    """The n ≥ ``start`` with ``holds(n)`` and not ``holds(n − 1)``, by doubling and bisection; None beyond
    ``most``.

    ``holds`` should be false up to some number and true from there on.
    """
    low, high = start - 1, start
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
