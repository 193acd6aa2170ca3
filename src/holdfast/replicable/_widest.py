"""The widest range that is accurate: the search behind the width of every grid."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

__all__ = ["widest"]


def widest(failure: Callable[[float], float], beta: float, widest_of_all: float) -> float | None:
    """The largest width up to ``widest_of_all`` at which ``failure(width) <= beta``; None if none is found.

    A failure bound falls and then rises with the width, so the search starts from the wide end.
    """
    if failure(widest_of_all) <= beta:
        return widest_of_all
    above = widest_of_all
    for _ in range(30):
        below = 0.8 * above
        if failure(below) <= beta:
            break
        above = below
    else:
        return None
    width = float(brentq(lambda width: failure(width) - beta, below, above, xtol=1e-12 * above))
    while failure(width) > beta:
        width = max(below, width * (1.0 - 1e-10))
    return width
