"""What every notion of stability shares: checked numbers in, safe-side numbers out."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from typing import Any, Self

from holdfast import rounding
from holdfast.records import Record

_ULP = sys.float_info.epsilon


class Notion(Record, ABC):
    """A statement of stability. Its numbers are upper bounds: a smaller number is a stronger statement.

    Post-processing is free for every notion here: a function of the output alone, however random, keeps all
    numbers.
    """

    def _store(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _bound(cls, **values: Any) -> Self:
        """A computed statement, kept as it is: a probability of 1 may come out, though none may go in."""
        record = object.__new__(cls)
        record._store(**values)
        return record

    @property
    @abstractmethod
    def vacuous(self) -> bool:
        """Whether the statement says nothing: a probability in it has reached 1, or another number has left
        the range of floats and stands as infinity."""


def log(value: float) -> float:
    """The natural logarithm, −∞ at 0."""
    return math.log(value) if value > 0.0 else -math.inf


def exp_up(*terms: float) -> float:
    """exp of a sum as an upper bound on a probability: widened by the terms' rounding error, capped at 1."""
    total = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    if total == -math.inf:
        return 0.0
    slip = 4.0 * _ULP * math.fsum(abs(term) for term in terms if math.isfinite(term))
    return 1.0 if not total + slip < 0.0 else rounding.probability(math.exp(total + slip))
