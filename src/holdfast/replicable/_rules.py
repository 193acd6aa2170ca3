"""Stumps: rules on one feature and one threshold, from a grid that is fixed before any data is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._elementary import Floats

__all__ = ["Rule", "Stumps", "threshold_grid"]

# Without bounds: zero and plus or minus powers of two, which serve features of any scale near 1.
_POWERS = 2.0 ** np.arange(-6, 7)


@dataclass(frozen=True, repr=False)
class Rule(Record):
    """``low`` where the feature is at most the threshold, ``high`` above; constant rules have no feature."""

    feature: int | None
    threshold: float | None
    low: Any
    high: Any

    def labels(self, table: Floats) -> npt.NDArray[Any]:
        """The label of each row."""
        if self.feature is None or self.threshold is None:
            return np.full(len(table), self.low)
        labels: npt.NDArray[Any] = np.where(table[:, self.feature] <= self.threshold, self.low, self.high)
        return labels


def threshold_grid(thresholds: Any, bounds: Any, features: int, *, of: str) -> Floats:
    """Thresholds for each feature, as an array of features by thresholds.

    Numbers are the thresholds themselves. A whole number divides the ``bounds``, (low, high) for all features
    or for each, into equal parts; without bounds the thresholds are 0 and ±2⁻⁶ … ±2⁶.
    """
    if not isinstance(thresholds, (int, np.integer)):
        values = np.sort(np.array(checks.reals(thresholds, "thresholds", "(-inf, inf)", of=of)))
        return np.tile(values, (features, 1))
    count = checks.whole(thresholds, "thresholds", at_most=10**6, of=of)
    if bounds is None:
        return np.tile(np.concatenate((-_POWERS[::-1], [0.0], _POWERS)), (features, 1))
    pairs = np.asarray(bounds, dtype=np.float64)
    if pairs.shape not in ((2,), (features, 2)) or not bool(np.isfinite(pairs).all()):
        raise InvalidArgument("bounds", "(low, high), one pair or one for each feature", bounds, of=of)
    low, high = np.broadcast_to(pairs, (features, 2)).T
    if not bool((low < high).all()):
        raise InvalidArgument("bounds", "with low below high", bounds, of=of)
    steps = np.arange(1, count + 1) / (count + 1)
    grid: Floats = low[:, None] + (high - low)[:, None] * steps
    return grid


class Stumps:
    """All stumps on some features and thresholds, and the constant rules, in a fixed order."""

    def __init__(self, features: npt.NDArray[np.int64], grid: Floats, labels: int) -> None:
        self._features = features
        self._grid = grid
        self._labels = labels
        self._pairs = [(low, high) for low in range(labels) for high in range(labels) if low != high]

    def __len__(self) -> int:
        return self._labels + self._grid.size * len(self._pairs)

    def errors(self, table: Floats, codes: npt.NDArray[np.int64]) -> Floats:
        """The share of rows each rule gets wrong; ``codes`` numbers the labels from 0."""
        totals = np.bincount(codes, minlength=self._labels)
        parts = [1.0 - totals / len(codes)]
        for feature, thresholds in zip(self._features, self._grid, strict=True):
            # How many rows of each label lie at or below each threshold.
            cells = np.searchsorted(thresholds, table[:, feature], side="left")
            size = len(thresholds) + 1
            counts = np.bincount(codes * size + cells, minlength=self._labels * size)
            below = counts.reshape(self._labels, size)[:, :-1].cumsum(axis=1)
            above = totals[:, None] - below
            right = np.stack([below[low] + above[high] for low, high in self._pairs], axis=1)
            parts.append(1.0 - right.ravel() / len(codes))
        return np.concatenate(parts)

    def rule(self, index: int, labels: npt.NDArray[Any]) -> Rule:
        """The rule at this place in the order, with its labels."""
        if index < self._labels:
            return Rule(None, None, labels[index], labels[index])
        cell, pair = divmod(index - self._labels, len(self._pairs))
        feature, place = divmod(cell, self._grid.shape[1])
        low, high = self._pairs[pair]
        return Rule(
            int(self._features[feature]), float(self._grid[feature, place]), labels[low], labels[high]
        )
