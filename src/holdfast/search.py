"""Three searches whose result is always on the safe side.

Each search returns a place that was tried and that satisfies what was asked. A wrong belief about the
function (that it does not change its mind, or has one valley) can make the result larger than necessary,
never invalid.

* :func:`least_whole`: the least whole number that satisfies a condition.
* :func:`least_real`, :func:`greatest_real`, :func:`edge` and :func:`safe_root`: where a condition begins to
hold, or a function crosses
  zero, on the side where it holds.
* :func:`least_of_valley`: the least value of a function with one valley.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["edge", "greatest_real", "least_of_valley", "least_real", "least_whole", "safe_root"]

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def least_whole(
    satisfies: Callable[[int], bool],
    *,
    above: int = 0,
    start: int | None = None,
    most: int | None = None,
    tolerance: float = 0.0,
) -> int | None:
    """The least whole number above ``above`` that satisfies a condition; None where none up to ``most`` does.

    Guarantee: the result satisfies the condition. If every larger number than one that satisfies it does so
    too, no number that is smaller by more than max(1, ``tolerance`` times the result) satisfies it.

    Args:
        satisfies: the condition.
        above: a number that is known not to satisfy it; it is never tried.
        start: the first number to try, above ``above`` and at most ``most``. A good guess saves calls.
        most: the largest number to try; None for no limit, where some number is known to satisfy it.
        tolerance: how far above the least number the result may be, relative to it.

    >>> least_whole(lambda n: n * n >= 2_000)
    45
    >>> least_whole(lambda n: n >= 50, most=40) is None
    True
    """
    low, high = above, above + 1 if start is None else start
    if most is not None and high > most:
        return None
    while not satisfies(high):
        if most is not None and high >= most:
            return None
        further = max(2 * high, high + 1)
        low, high = high, further if most is None else min(further, most)
    # The first try may have been far too large.
    while low == above and (nearer := above + (high - above) // 2) > above:
        if satisfies(nearer):
            high = nearer
        else:
            low = nearer
    while high - low > max(1.0, tolerance * high):
        middle = (low + high) // 2
        if satisfies(middle):
            high = middle
        else:
            low = middle
    return high


def edge(
    satisfies: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    relative: float = 1e-12,
    absolute: float = 0.0,
) -> float:
    """The last number on the way from ``good`` to ``bad`` that satisfies a condition.

    Guarantee: the result is ``good`` or satisfies the condition. If the condition changes once between the
    two, it changes within max(``absolute``, ``relative`` times the larger end) of the result.

    Args:
        satisfies: the condition; neither end is tried.
        good: a number that is known to satisfy it.
        bad: a number that is known not to satisfy it, above or below ``good``.
        relative: how near the change is enough, relative to the larger end of what is left.
        absolute: how near the change is enough.

    >>> round(edge(lambda x: x * x >= 2.0, good=2.0, bad=1.0), 12)
    1.414213562373
    """
    while abs(good - bad) > max(absolute, relative * max(abs(good), abs(bad))):
        middle = (good + bad) / 2.0
        if not min(good, bad) < middle < max(good, bad):
            break
        if satisfies(middle):
            good = middle
        else:
            bad = middle
    return good


def least_real(
    satisfies: Callable[[float], bool],
    *,
    start: float = 1.0,
    most: float = math.inf,
    relative: float = 1e-12,
) -> float | None:
    """The least positive number that satisfies a condition, a little too large; None where none does.

    Guarantee: the result satisfies the condition. If every larger number than one that satisfies it does so
    too, no number below (1 − ``relative``) times the result satisfies it.

    Args:
        satisfies: the condition.
        start: the first number to try.
        most: the largest number to try.
        relative: how far above the least number the result may be, relative to it.

    >>> round(least_real(lambda x: x * x >= 2.0), 12)
    1.414213562373
    >>> least_real(lambda x: False) is None
    True
    """
    low, high = 0.0, min(start, most)
    while not satisfies(high):
        if high >= most:
            return None
        low, high = high, min(2.0 * high, most)
        if math.isinf(high):
            return None
    while low == 0.0 and high / 2.0 > 0.0:
        if satisfies(high / 2.0):
            high /= 2.0
        else:
            low = high / 2.0
    return edge(satisfies, high, low, relative=relative)


def greatest_real(
    satisfies: Callable[[float], bool], *, start: float = 1.0, relative: float = 1e-12
) -> float:
    """The greatest positive number that satisfies a condition, a little too small; 0 where none does,
    infinity where all do.

    Guarantee: the result is 0 or infinity or satisfies the condition. If every smaller number than one that
    satisfies it does so too, no number above (1 + ``relative``) times the result satisfies it.

    Args:
        satisfies: the condition.
        start: the first number to try.
        relative: how far below the greatest number the result may be, relative to it.

    >>> round(greatest_real(lambda x: x * x <= 2.0), 10)
    1.4142135624
    """
    low, high = 0.0, start
    while satisfies(high):
        low, high = high, 2.0 * high
        if math.isinf(high):
            return high
    while low == 0.0:
        if high / 2.0 == 0.0:
            return 0.0
        if satisfies(high / 2.0):
            low = high / 2.0
        else:
            high /= 2.0
    return edge(satisfies, low, high, relative=relative)


def safe_root(
    excess: Callable[[float], float], good: float, bad: float, at_good: float, at_bad: float, *, narrow: float
) -> float:
    """Where a function crosses zero, on the side of ``good``, at which it is not negative.

    The search is ITP (Oliveira and Takahashi 2020). It takes at most two evaluations more than bisection, and
    on smooth functions about half as many.

    Guarantee: the result is ``good`` or a place where ``excess`` is not negative. If ``excess`` crosses zero
    once between the two ends, it does so within ``narrow`` of the result.

    Args:
        excess: the function.
        good: a place where ``excess`` is not negative.
        bad: a place where ``excess`` is negative, above or below ``good``.
        at_good: ``excess(good)``.
        at_bad: ``excess(bad)``.
        narrow: how near the crossing is enough; above 0.

    >>> round(safe_root(lambda x: x * x - 2.0, 2.0, 1.0, 2.0, -1.0, narrow=1e-12), 9)
    1.414213562
    """
    whole = abs(bad - good)
    left, bend = narrow * 2.0 ** math.ceil(math.log2(whole / narrow)), 0.2 / whole
    while abs(bad - good) > narrow:
        middle, half = 0.5 * (good + bad), 0.5 * abs(bad - good)
        falsi = good + (bad - good) * (at_good / (at_good - at_bad))
        toward = math.copysign(1.0, middle - falsi)
        nudged = falsi + toward * min(bend * (bad - good) ** 2, abs(middle - falsi))
        reach = max(0.0, left - half)
        place = nudged if abs(nudged - middle) <= reach else middle - toward * reach
        if not min(good, bad) < place < max(good, bad):
            place = middle
        left *= 0.5
        here = excess(place)
        if here >= 0.0:
            good, at_good = place, here
        else:
            bad, at_bad = place, here
    return good


def least_of_valley(
    function: Callable[[float], Any], low: float, high: float, *, sections: int = 60
) -> tuple[float, Any]:
    """The least value of a function with one valley between ``low`` and ``high``, by golden sections.

    Guarantee: the value is the function's at the place that is returned, and the least of all that were
    tried. If the function falls and then rises, its lowest place is within 0.618^``sections`` of the whole
    length of the result.

    Args:
        function: the function; its values need only be comparable.
        low: the lower end; it is not tried.
        high: the upper end; it is not tried.
        sections: how often the range is cut; each cut costs one call.

    >>> place, value = least_of_valley(lambda x: (x - 0.3) ** 2, 0.0, 1.0)
    >>> round(place, 6), round(value, 6)
    (0.3, 0.0)
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    best = min((at_left, left), (at_right, right), key=lambda pair: pair[0])
    for _ in range(sections):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
            best = min(best, (at_left, left), key=lambda pair: pair[0])
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
            best = min(best, (at_right, right), key=lambda pair: pair[0])
    return best[1], best[0]
