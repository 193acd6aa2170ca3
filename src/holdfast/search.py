"""The searches of the library. What they return is always on the safe side.

Each search returns a place that was tried and that satisfies what was asked. A wrong belief about the
function (that it changes sides once, or has one valley) can make the result larger than necessary, never
invalid. There are three kinds:

* A whole number: :func:`least_whole` and :func:`whole_edge` for a condition, :func:`whole_root` for a
  function that is costly to compute.
* A real number: :func:`least_real`, :func:`greatest_real` and :func:`edge` for a condition,
  :func:`least_root` and :func:`safe_root` for a function that crosses zero.
* The least value: :func:`least_of_valley` of a function with one valley, :func:`least_in_box` of a function
  of several numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "edge",
    "greatest_real",
    "least_in_box",
    "least_of_valley",
    "least_real",
    "least_root",
    "least_whole",
    "safe_root",
    "whole_edge",
    "whole_root",
]

# A place that was tried, and the value there.
_Try = tuple[float, float]
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_MOST_TRIES = 400


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


def whole_edge(satisfies: Callable[[int], bool], good: int, bad: int, *, guess: int | None = None) -> int:
    """The last whole number on the way from ``good`` to ``bad`` that satisfies a condition.

    Guarantee: the result is ``good`` or satisfies the condition. If the condition changes once between the
    two, the next number does not satisfy it.

    Args:
        satisfies: the condition; neither end is tried.
        good: a number that is known to satisfy it.
        bad: a number that is known not to satisfy it, above or below ``good``.
        guess: where the condition may change. A guess that is nearly right saves most of the calls.

    >>> whole_edge(lambda n: n * n <= 2_000, good=0, bad=2_000)
    44
    """
    step = 1 if bad > good else -1
    while abs(bad - good) > 1:
        guessed = guess is not None and min(good, bad) < guess < max(good, bad)
        middle = guess if guess is not None and guessed else (good + bad) // 2
        if satisfies(middle):
            good = middle
        else:
            bad = middle
        # From a guess the steps grow until they pass the change. What they have enclosed is halved.
        guess = None if not guessed else middle + step if good == middle else middle - step
        step *= 4
    return good


def whole_root(
    value_at: Callable[[int], float],
    target: float,
    *,
    start: int,
    growth: float,
    most: int,
    tolerance: float = 0.0,
) -> int | None:
    """The last whole number at which a function is at most ``target``, with few calls.

    The function grows or falls about like a power of its argument. A positive ``growth`` asks for the largest
    number (0 if there is none, ``most`` if all are allowed). A negative one asks for the least (None if
    there is none up to ``most``).

    Guarantee: the function is at most ``target`` at the result. If the function is monotone, the result is
    at most a relative ``tolerance`` from the last number where it is so.

    Args:
        value_at: the function, of whole numbers from 1.
        target: the largest value that is allowed.
        start: the first number to try.
        growth: the power of the argument that the function is about proportional to. It may be wrong: then
            the search takes more calls.
        most: the largest number to try.
        tolerance: how far from the last number the result may be, relative to it.

    >>> whole_root(lambda n: 3.0 / math.sqrt(n), 0.01, start=100, growth=-0.5, most=10**9)
    90000
    """
    good: tuple[int, float] | None = None
    bad: tuple[int, float] | None = None
    place = min(max(1, start), most)
    for step in range(_MOST_TRIES):
        value = value_at(place)
        if value <= target:
            good = (place, value)
        else:
            bad = (place, value)
        if good is None or bad is None:
            beyond = _beyond(place, value, target, growth, most)
            if beyond is None:
                return _at_the_end(good is not None, most, rising=growth > 0.0)
            place = beyond
            continue
        low, high = sorted((good[0], bad[0]))
        if high - low <= max(1.0, tolerance * high):
            break
        place = _between(good, bad, target, step % 3)
    return good[0] if good else None


def _at_the_end(all_allowed: bool, most: int, *, rising: bool) -> int | None:
    """The result if all numbers up to ``most`` are allowed, or if none is."""
    if rising:
        return most if all_allowed else 0
    return 1 if all_allowed else None


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
    low, high, rising = (bad, good, True) if bad < good else (good, bad, False)
    near = absolute
    while True:
        if relative:
            near = max(absolute, relative * max(abs(low), abs(high)))
        middle = (low + high) / 2.0
        if high - low <= near or not low < middle < high:
            return high if rising else low
        if satisfies(middle) == rising:
            high = middle
        else:
            low = middle


def least_real(
    satisfies: Callable[[float], bool],
    *,
    start: float = 1.0,
    most: float = math.inf,
    growth: float = 2.0,
    relative: float = 1e-12,
) -> float | None:
    """The least positive number that satisfies a condition, a little too large; None where none does.

    Guarantee: the result satisfies the condition. If every larger number than one that satisfies it does so
    too, no number below (1 − ``relative``) times the result satisfies it.

    Args:
        satisfies: the condition.
        start: the first number to try.
        most: the largest number to try.
        growth: by which factor the next number to try is larger, above 1, until one satisfies the condition.
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
        low, high = high, min(growth * high, most)
        if math.isinf(high) or high <= low:
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

    Each try is where a parabola through the last three tries crosses zero (Chandrupatla 1997). It is kept so
    near the middle that the search never falls behind bisection by more than two evaluations (as in ITP,
    Oliveira and Takahashi 2020). On smooth functions it takes about a third of the evaluations of bisection.

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
    newest, opposite = (good, at_good), (bad, at_bad)
    share = at_good / (at_good - at_bad)
    # How wide the bracket may be after each step.
    allowed = 2.0 * narrow * 2.0 ** math.ceil(math.log2(abs(bad - good) / narrow))
    while (width := abs(opposite[0] - newest[0])) > narrow:
        middle, reach = 0.5 * (newest[0] + opposite[0]), max(0.0, allowed - 0.5 * width)
        # Near an end, a try half of ``narrow`` inside closes the bracket.
        least = 0.45 * narrow / width
        place = newest[0] + min(max(share, least), 1.0 - least) * (opposite[0] - newest[0])
        place = min(max(place, middle - reach), middle + reach)
        if not min(newest[0], opposite[0]) < place < max(newest[0], opposite[0]):
            place = middle
        if place in (newest[0], opposite[0]):
            break  # There is no number between the two.
        allowed *= 0.5
        before, newest = newest, (place, excess(place))
        if (newest[1] >= 0.0) != (before[1] >= 0.0):
            before, opposite = opposite, before
        share = _crossing(newest, opposite, before)
    return newest[0] if newest[1] >= 0.0 else opposite[0]


def _crossing(newest: _Try, opposite: _Try, before: _Try) -> float:
    """Where the inverse of a function is zero, as a share of the way from ``newest`` to ``opposite``: on the
    parabola through three tries, or half of the way if the tries do not lie as those of a monotone one."""
    (near, at_near), (far, at_far), (last, at_last) = newest, opposite, before
    change = at_last - at_far
    if last == far or change == 0.0 or not math.isfinite(change):
        return 0.5
    place, value = (near - far) / (last - far), (at_near - at_far) / change
    monotone = 0.0 <= place <= 1.0 and 1.0 - math.sqrt(1.0 - place) < value < math.sqrt(place)
    if not monotone or at_near in (at_far, at_last):
        return 0.5
    first = at_near / (at_far - at_near) * at_last / (at_far - at_last)
    return first + (last - near) / (far - near) * at_near / (at_last - at_near) * at_far / (at_last - at_far)


def least_root(
    excess: Callable[[float], float], *, start: float, most: float, growth: float = 2.0, relative: float
) -> float | None:
    """The least positive number at which a growing function is not negative, a little too large; None where
    there is none up to ``most``.

    Guarantee: ``excess`` is not negative at the result. If it changes its sign once, it does so within
    ``relative`` times the result.

    Args:
        excess: the function; its values may be infinite.
        start: the first number to try; at least 0.
        most: the largest number to try.
        growth: by which factor the next number to try is larger, above 1, until one will do.
        relative: how far above the least number the result may be, relative to it; above 0.

    >>> round(least_root(lambda x: x * x - 2.0, start=0.1, most=9.0, relative=1e-9), 8)
    1.41421356
    """
    bad, good = 0.0, min(start, most)
    at_bad, at_good = -math.inf, excess(good)
    while not at_good >= 0.0:
        further = min(growth * good, most)
        if not good < further < math.inf:
            return None
        bad, at_bad, good = good, at_good, further
        at_good = excess(good)
    # The first number may have been far too large.
    while bad == 0.0 and (nearer := good / 2.0) > 0.0:
        at_nearer = excess(nearer)
        if at_nearer >= 0.0:
            good, at_good = nearer, at_nearer
        else:
            bad, at_bad = nearer, at_nearer
    if bad == 0.0:
        return good
    return safe_root(excess, good, bad, at_good, at_bad, narrow=max(relative * bad, 5e-324))


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


def least_in_box(
    function: Callable[[Floats], Floats],
    box: tuple[tuple[float, float], ...],
    *,
    points: int,
    rounds: int,
    shrink: float,
) -> tuple[float, ...]:
    """The place in a box where a function of several numbers is least, by grids that close in on the best
    point so far.

    Guarantee: the place is in the box, and the function is there the least on the last grid. Nothing more:
    use it where every place is valid and a better one is only more precise.

    Args:
        function: takes an array with a row for each number and a column for each place to try, and returns a
            value for each place.
        box: the lower and the upper end of each number.
        points: how many values of each number a grid has.
        rounds: how many grids are tried.
        shrink: by which factor each grid is smaller than the one before, below 1.

    >>> place = least_in_box(
    ...     lambda at: (at[0] - 0.3) ** 2 + (at[1] + 2.0) ** 2,
    ...     ((0.0, 1.0), (-5.0, 5.0)),
    ...     points=9,
    ...     rounds=30,
    ...     shrink=0.5,
    ... )
    >>> [round(number, 6) for number in place]
    [0.3, -2.0]
    """
    import numpy as np

    low, high = np.array(box).T[..., None]
    centre, half = (low + high)[:, 0] / 2.0, (high - low)[:, 0] / 2.0
    axis = np.linspace(-1.0, 1.0, points)
    offsets = np.stack(np.meshgrid(*[axis] * len(box), indexing="ij")).reshape(len(box), -1)
    for _ in range(rounds):
        places = np.clip(centre[:, None] + half[:, None] * offsets, low, high)
        centre = places[:, int(np.argmin(function(places)))]
        half = half * shrink
    return tuple(float(number) for number in centre)
