"""The two searches behind every size: the widest range that is accurate, the fewest rows that suffice."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

__all__ = ["fewest_rows", "widest"]

_MOST_ROWS = 2**48


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


def fewest_rows(rho_of: Callable[[int], float], rho: float) -> int | None:
    """The least number of rows with ``rho_of(rows) <= rho``, for a bound that falls with the rows.

    >>> fewest_rows(lambda rows: 1.0 / rows, 0.01)
    100
    """
    high = 1
    while rho_of(high) > rho:
        high *= 2
        if high > _MOST_ROWS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rho_of(middle) <= rho else (middle, high)
    return high
