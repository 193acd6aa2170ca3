"""Where a bound crosses a target: the least number of rows, or the largest number of queries."""

from __future__ import annotations

import math
from collections.abc import Callable

_STEPS = 400


def boundary(
    value_at: Callable[[int], float],
    target: float,
    *,
    start: int,
    growth: float,
    most: int,
    tolerance: float = 0.0,
) -> int | None:
    """The good number next to the first bad one, where good means ``value_at`` ≤ ``target``.

    ``value_at`` goes with its argument about like the power ``growth``: a positive one asks for the largest
    good number (0 if there is none, ``most`` if all are), a negative one for the least (None if none up to
    ``most``). The result is always good; it is up to a relative ``tolerance`` from the last good one.
    """
    rising = growth > 0.0
    good: tuple[int, float] | None = None
    bad: tuple[int, float] | None = None
    place = min(max(1, start), most)
    for step in range(_STEPS):
        value = value_at(place)
        if value <= target:
            good = (place, value)
        else:
            bad = (place, value)
        if good is None or bad is None:
            edge = _beyond(place, value, target, growth, most)
            if edge is None:
                return _one_sided(good, most, rising=rising)
            place = edge
            continue
        low, high = sorted((good[0], bad[0]))
        if high - low <= max(1.0, tolerance * high):
            break
        place = _between(good, bad, target, step % 3)
    return good[0] if good else None


def _one_sided(good: tuple[int, float] | None, most: int, *, rising: bool) -> int | None:
    """All numbers up to ``most`` are good, or none is."""
    if rising:
        return most if good else 0
    return 1 if good else None


def _beyond(place: int, value: float, target: float, growth: float, most: int) -> int | None:
    """The next place to try while only one side is known, a little past where the power law points; None at
    the end of the range."""
    upward = (value <= target) == (growth > 0.0)
    factor = (
        (target / value) ** (1.0 / growth) if 0.0 < value < math.inf else (64.0 if upward else 1.0 / 64.0)
    )
    if upward:
        if place >= most:
            return None
        return min(most, max(place + 1, math.ceil(place * min(max(factor * 1.01, 1.001), 1e3))))
    if place <= 1:
        return None
    return max(1, min(place - 1, math.floor(place * max(min(factor * 0.99, 0.999), 1e-3))))


def _between(good: tuple[int, float], bad: tuple[int, float], target: float, turn: int) -> int:
    """A number strictly between the two: where a power law through both crosses the target, the same moved
    towards the farther end so that the bracket closes from both sides, and every third time the middle."""
    low, high = min(good[0], bad[0]), max(good[0], bad[0])
    slope = math.log(bad[1]) - math.log(good[1]) if good[1] > 0.0 and math.isfinite(bad[1]) else 0.0
    if turn == 2 or not slope > 0.0:
        return (low + high) // 2
    share = (math.log(target) - math.log(good[1])) / slope
    place = good[0] * math.exp(share * math.log(bad[0] / good[0]))
    if turn == 1:
        room = 0.03 * (high - low) + 1.0
        place += room if place < (low + high) / 2.0 else -room
    return min(high - 1, max(low + 1, round(place)))
