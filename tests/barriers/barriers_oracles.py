"""What several tests of barriers enumerate: units of a modulus, and the distance of two ranges of counts."""

from __future__ import annotations

import math

import numpy as np


def units(modulus: int) -> list[int]:
    """The numbers below the modulus without a common divisor with it."""
    return [u for u in range(modulus) if math.gcd(u, modulus) == 1]


def mismatch(a: np.ndarray, g: float) -> np.ndarray:
    """The length of [a, 2a) Δ [g, 2g) within [1, 2], for many a."""

    def length(low, high):
        return np.clip(np.minimum(high, 2.0) - np.maximum(low, 1.0), 0.0, None)

    both = length(np.maximum(a, g), np.minimum(2 * a, 2 * g))
    return length(a, 2 * a) + length(g, 2 * g) - 2 * both
