"""A question as the guard sees it: a name, a range, and the few numbers it reads off one part of the rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.engines import SCALE_BITS
from holdfast.tails import Tail

if TYPE_CHECKING:
    from holdfast.engines import Rows, Sums
    from holdfast.queries import CheckedQuery


@dataclass(frozen=True)
class Part:
    """The training or the protected rows; ``mask`` says which of the ``data_rows`` rows of the data they are
    (None: all). ``moments`` are those of questions that were summed together, by their keys."""

    rows: Rows
    training: bool
    data_rows: int
    mask: NDArray[np.bool_] | None = None
    moments: dict[str, Moments] = field(default_factory=dict, repr=False, compare=False)

    def column(self, name: str) -> NDArray[Any]:
        """One column as an array. Reads the rows."""
        return np.asarray(self.rows.frame([name])[name])


@dataclass(frozen=True)
class Moments:
    """How many rows passed the filter, their mean, and their variance with divisor rows − 1 where it was
    asked for. ``position`` is where in the range from low to high the mean lies, from 0 to 1; it is not
    rounded to the digits that a number of the size of low has."""

    rows: int
    mean: float
    variance: float
    position: float = math.nan

    @classmethod
    def from_integers(
        cls, rows: int, total: int, squares: int | None, scale: int, low: float, high: float
    ) -> Moments:
        """Exact integer sums of (value − low)/(high − low)·scale, turned into a mean and a variance by one
        division each."""
        if rows == 0:
            return cls(0, math.nan, math.nan)
        width, position = high - low, total / (rows * scale)
        mean = low + width * position
        if squares is None or rows < 2:
            return cls(rows, mean, math.nan, position)
        variance = width**2 * ((squares * rows - total * total) / (rows * (rows - 1) * scale**2))
        return cls(rows, mean, variance, position)


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """One question; ``low`` and ``high`` bound the statistic (infinite where nothing does)."""

    key: str
    text: str
    low: float
    high: float
    guess: float | None
    kind: str  # "share" | "mean" | "quantile" | "custom"
    filtered: bool = False
    resolution: float = 0.0  # how far the integer scaling may move the mean
    level: float = math.nan  # of a quantile
    notes: tuple[str, ...] = ()  # what else to know about the answer
    nats: float | None = None  # what it is wished to cost on average; None: as the account's rule has it

    @property
    def in_training(self) -> bool:
        """Whether the question can be put to the training part too."""
        return True

    @property
    def in_process(self) -> bool:
        """Whether answering runs code of the caller's in this process: a model, a function."""
        return True

    @property
    def binary(self) -> bool:
        """Whether each row counts 0 or 1."""
        return self.kind == "share"

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        """The count, mean and (with ``squares``) variance of the rows that pass. Reads ``part``."""
        raise TypeError(f"{self.kind} questions have no moments")

    def order_statistics(
        self, part: Part, ranks: Callable[[int], Sequence[int]]
    ) -> tuple[int, Sequence[float]]:
        """How many rows pass, and the values at the ranks wanted for that count. Reads ``part``."""
        raise TypeError(f"{self.kind} questions have no order statistics")

    @property
    @abstractmethod
    def record(self) -> Any:
        """What the answer shows as its query."""


@dataclass(frozen=True, kw_only=True)
class TableQuestion(Question):
    """A mean, share or quantile of an expression, computed where the rows live."""

    checked: CheckedQuery
    # What the training rows say does not change, and is looked at once: by the rows, and by what was read off
    # them (with squares or without; how many were ranked).
    seen: dict[Any, Moments] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, checked: CheckedQuery) -> TableQuestion:
        """The question a checked query asks."""
        query = checked.query
        low, high = (-math.inf, math.inf) if query.kind == "quantile" else checked.bounds
        return cls(
            key=query.key,
            text=query.text,
            low=low,
            high=high,
            guess=query.guess,
            kind=query.kind,
            filtered=checked.counts,
            level=math.nan if query.q is None else query.q,
            resolution=0.0 if query.kind != "mean" else 2.0**-SCALE_BITS * (high - low),
            checked=checked,
        )

    @property
    def in_process(self) -> bool:
        return False

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        known = self.seen.get((part.rows, squares)) if part.training else part.moments.get(self.key)
        if known is None:
            known = self.moments_of(part.rows.sums(self.checked, squares=squares))
            if part.training:
                self.seen[part.rows, squares] = known
        return known

    @property
    def is_sum(self) -> bool:
        """Whether sums over the rows answer it."""
        return self.kind in ("share", "mean")

    def moments_of(self, sums: Sums) -> Moments:
        """The moments that sums over the rows stand for."""
        return Moments.from_integers(sums.rows, sums.total, sums.squares, sums.scale, self.low, self.high)

    def order_statistics(
        self, part: Part, ranks: Callable[[int], Sequence[int]]
    ) -> tuple[int, Sequence[float]]:
        count, values = part.rows.order_statistics(self.checked, ranks)
        if part.training:
            self.seen[part.rows, "ranked"] = Moments(count, math.nan, math.nan)
        return count, values

    @property
    def record(self) -> Any:
        return self.checked.query


@dataclass(frozen=True, kw_only=True)
class StatisticQuestion(Question):
    """A statistic of the caller's own, computed in this process by ``function`` on a data frame, with a
    declared tail."""

    function: Callable[[Any], float]
    tail: Tail

    def value(self, part: Part) -> float:
        """The statistic of one part. Reads ``part``."""
        value = float(self.function(part.rows.frame()))
        if not math.isfinite(value):
            raise ValueError("the statistic is not a finite number")
        return value

    @property
    def record(self) -> Any:
        return self.text
