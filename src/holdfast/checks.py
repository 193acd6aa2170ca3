"""The checks of arguments, with one form of error message. Every numeric argument is checked here and becomes
a plain Python number.

Comparisons are written ``if not low <= value <= high``, so that NaN fails every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, TypeVar

from holdfast.errors import InvalidArgument

__all__ = ["choice", "real", "reals", "whole"]

Word = TypeVar("Word", bound=str)


@lru_cache(maxsize=256)
def _bounds(domain: str) -> tuple[float, bool, float, bool]:
    """Read ``"[0, 1)"`` as (0.0, closed, 1.0, open)."""
    low, high = domain[1:-1].split(",")
    return float(low), domain[0] == "[", float(high), domain[-1] == "]"


def _as_float(value: Any) -> float:
    """The value as a float; NaN if it is not a number, or too large for a float."""
    if type(value) is float:
        return value
    # A check for an abstract class takes several times as long as converting a plain number.
    if type(value) is not int and (not isinstance(value, Real) or isinstance(value, bool)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def real(value: object, argument: str, domain: str, *, of: str = "", by: str = "") -> float:
    """Return ``value`` as a float if it is a finite number in ``domain``, written like ``"(0, 1]"``.

    Raises :class:`InvalidArgument` naming the argument, the domain, the theorem ``by`` that sets it, and the
    value.

    Args:
        argument: The name of the argument, for the message.
        of: The function or class that the message names.
    """
    low, low_closed, high, high_closed = _bounds(domain)
    number = _as_float(value)
    above = number >= low if low_closed else number > low
    below = number <= high if high_closed else number < high
    if not (above and below and math.isfinite(number)):
        expected = f"a number in {domain}"
        if argument == "confidence" and 1 < number < 100:
            expected += f"; {number:g} per cent is {number / 100:g}"
        raise InvalidArgument(argument, expected, value, of=of, reference=by)
    return number


def whole(
    value: object,
    argument: str,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    huge: bool = False,
    of: str = "",
    by: str = "",
) -> int:
    """Return ``value`` as an int if it is a whole number in range; ``1e6`` counts as whole, ``True`` does
    not. A number that is too large for a float is refused, because it would overflow in formulas. With
    ``huge`` it is allowed: some numbers, such as keys, are used in no formula.

    Args:
        argument: The name of the argument, for the message.
        at_least: The least number allowed.
        at_most: The largest number allowed. None for no limit.
        of: The function or class that the message names.
        by: The theorem that sets the limits, for the message.
    """
    nearest = _as_float(value)
    exact = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
    if nearest.is_integer() or (huge and exact):
        number = int(value) if isinstance(value, Integral) else int(nearest)
        if number >= at_least and (at_most is None or number <= at_most):
            return number
    expected = f"a whole number of at least {at_least}"
    if at_most is not None:
        expected += f" and at most {at_most}"
    elif isinstance(value, Integral) and exact and int(value) > at_least:
        expected += " that a float can hold"
    raise InvalidArgument(argument, expected, value, of=of, reference=by)


def reals(values: object, argument: str, domain: str, *, of: str = "", by: str = "") -> list[float]:
    """Return a non-empty sequence of numbers, each in ``domain``.

    Args:
        values: What the caller gave.
        argument: The name of the argument, for the message.
        of: The function or class that the message names.
        by: The theorem that sets the limits, for the message.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(argument, f"a sequence of numbers in {domain}", values, of=of, reference=by)
    numbers = [
        real(value, f"{argument}[{place}]", domain, of=of, by=by) for place, value in enumerate(values)
    ]
    if not numbers:
        raise InvalidArgument(argument, "a sequence with at least one number", values, of=of, reference=by)
    return numbers


def choice(value: Word, argument: str, options: tuple[str, ...], *, of: str = "", by: str = "") -> Word:
    """Return ``value`` if it is one of the named options.

    Args:
        argument: The name of the argument, for the message.
        options: The words that are allowed.
        of: The function or class that the message names.
        by: The theorem that sets the limits, for the message.
    """
    if not isinstance(value, str) or value not in options:
        expected = "one of " + ", ".join(repr(option) for option in options)
        raise InvalidArgument(argument, expected, value, of=of, reference=by)
    return value
