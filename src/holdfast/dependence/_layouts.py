"""Layouts: ways to cut a series into blocks that are nearly independent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.records import Record

LogRemembered = Callable[[NDArray[np.int64]], NDArray[np.float64]]

# A series is cut into blocks in at most so many ways, each twice as long as the one before.
_MOST_LAYOUTS = 6
# With fewer blocks no interval is worth having.
_FEWEST_BLOCKS = 12


@dataclass(frozen=True, repr=False)
class Layout(Record):
    """A way to cut a series into ``blocks`` blocks of ``length`` rows, with ``gap`` rows left out after each.

    Guarantee: the joint law of the blocks is within total variation ``price`` of the law in which they are
    independent, each with its own marginal.
    Assumes: the model that it was made for.
    Reference: ``docs/theory/dependence.md``, "Blocks".
    """

    length: int
    gap: int
    blocks: int
    price: float

    @property
    def rows(self) -> int:
        """How many rows lie in blocks."""
        return self.length * self.blocks


def blocks_in(n: int, length: int, gap: int) -> int:
    """How many whole blocks fit into ``n`` rows."""
    return (n + gap) // (length + gap)


def price_of(log_remembered: LogRemembered, blocks: int, gap: int) -> float:
    """How far, in total variation, blocks with gaps are from independent, by the telescoping sum."""
    if blocks < 2:
        return 0.0
    remembered = float(log_remembered(np.array([gap + 1]))[0])
    return min(1.0, rounding.up((blocks - 1) * math.exp(remembered)))


def layouts_of(log_remembered: LogRemembered, n: int, allowance: float) -> tuple[Layout, ...]:
    """Up to six layouts of ``n`` rows in order whose prices sum to at most ``allowance``.

    The blocks of the first are a quarter as long as a gap; those of each next one are twice as long. Long
    blocks leave few rows out, and short ones keep a unit's range small.
    """
    each = allowance / _MOST_LAYOUTS
    first = _least_gap(log_remembered, n, 1, each)
    if first is None:
        return ()
    layouts = []
    length = max(1, first // 4)
    for _ in range(_MOST_LAYOUTS):
        gap = _least_gap(log_remembered, n, length, each)
        if gap is None or (blocks := blocks_in(n, length, gap)) < _FEWEST_BLOCKS:
            break
        layouts.append(Layout(length, gap, blocks, price_of(log_remembered, blocks, gap)))
        length *= 2
    return tuple(layouts)


def _least_gap(log_remembered: LogRemembered, n: int, length: int, allowance: float) -> int | None:
    """The shortest gap at which blocks of this length cost at most ``allowance``; None where none does."""

    def fits(gap: int) -> bool:
        return price_of(log_remembered, blocks_in(n, length, gap), gap) <= allowance

    high = 1
    while not fits(high):
        high *= 2
        if high >= n:
            return None
    low = 0 if high == 1 else high // 2
    if fits(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
