"""Records compare by their values, on every version of Python."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from holdfast.records import Record


@dataclass(frozen=True, repr=False)
class Guessed(Record):
    value: float
    guess: float = math.nan
    note: str = field(default="", compare=False)


def test_no_guess_is_the_same_as_no_guess():
    """NaN stands for no guess. Dataclasses of Python 3.13 compare field by field, where NaN is not NaN."""
    assert Guessed(1.0) == Guessed(1.0, note="not compared")
    assert hash(Guessed(1.0)) == hash(Guessed(1.0))
    assert Guessed(1.0) != Guessed(2.0)
    assert Guessed(1.0) != Guessed(1.0, guess=0.5)
    assert Guessed(1.0) != 1.0
