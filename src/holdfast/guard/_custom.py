"""A statistic of the caller's own, as a question."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.guard._question import StatisticQuestion
from holdfast.tails import Tail


def custom_question(
    function: Callable[[Any], float], *, tail: Tail, guess: Any, name: str | None
) -> StatisticQuestion:
    """The question behind ``guard.custom``; the same name is the same question, without one it is new."""
    if not callable(function):
        raise InvalidArgument("function", "a function of a data frame", function, of="Guard.custom")
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of="Guard.custom")
    label = name or getattr(function, "__name__", "statistic")
    return StatisticQuestion(
        key=hashlib.sha256(f"custom {name or secrets.token_hex(16)}".encode()).hexdigest(),
        text=f"custom({label})",
        low=-math.inf,
        high=math.inf,
        guess=None if guess is None else checks.real(guess, "guess", "(-inf, inf)", of="Guard.custom"),
        kind="custom",
        function=function,
        tail=tail,
    )
