"""How far apart two ranges of counts are, for the tests of every implicit sampler."""

from __future__ import annotations

import numpy as np


def mismatch(a: np.ndarray, g: float) -> np.ndarray:
    """The length of [a, 2a) Δ [g, 2g) within [1, 2], for many a."""

    def length(low, high):
        return np.clip(np.minimum(high, 2.0) - np.maximum(low, 1.0), 0.0, None)

    both = length(np.maximum(a, g), np.minimum(2 * a, 2 * g))
    return length(a, 2 * a) + length(g, 2 * g) - 2 * both
