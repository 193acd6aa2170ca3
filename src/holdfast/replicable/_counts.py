"""A random threshold for a count, uniform on the scale where every binomial count is equally noisy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

from holdfast.records import Record

__all__ = ["CountThreshold"]

Floats = npt.NDArray[np.float64]

_SLICES = 256


@dataclass(frozen=True, repr=False)
class CountThreshold(Record):
    """A threshold among ``low`` … ``high`` for a count of ``trials``, ``high`` below half of them.

    θ is uniform between arcsin √((low+1)/(n+1)) and arcsin √((high+2)/(n+1)), and the threshold is
    ⌊(n+1) sin²θ⌋ − 1. Two independent counts with the same binomial law lie on different sides of it
    with probability at most ``mismatch``, whatever the law (docs/theory/replicable-estimation.md).
    """

    trials: int
    low: int
    high: int

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The least and the largest θ."""
        low, high = (math.asin(math.sqrt(i / (self.trials + 1))) for i in (self.low + 1, self.high + 2))
        return low, high

    @property
    def mismatch(self) -> float:
        """P(count ≤ threshold < count' or the other way round) ≤ 1/√(3(n+1)) / arc, for every binomial
        law."""
        start, stop = self._ends
        return 1.0 / (math.sqrt(3.0 * (self.trials + 1)) * (stop - start))

    def __call__(self, coin: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The threshold that a uniform coin picks."""
        start, stop = self._ends
        angle = start + (stop - start) * np.asarray(coin, dtype=np.float64)
        drawn = np.floor((self.trials + 1) * np.sin(angle) ** 2).astype(np.int64) - 1
        kept: npt.NDArray[np.int64] = np.clip(drawn, self.low, self.high)
        return kept

    def below(self, share: float) -> float:
        """P(Bin(n, share) ≤ threshold), over count and threshold; an upper bound."""
        upper = self(np.arange(1, _SLICES + 1) / _SLICES)
        return float(bdtr(upper.astype(np.float64), self.trials, share).mean())

    def above(self, share: float) -> float:
        """P(Bin(n, share) > threshold), over count and threshold; an upper bound."""
        lower = self(np.arange(_SLICES) / _SLICES)
        return float(bdtrc(lower.astype(np.float64), self.trials, share).mean())
