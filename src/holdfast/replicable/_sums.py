"""The law of a sum of independent non-negative terms, rounded up to a lattice so that tails are upper
bounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["law_of_sum"]

Floats = npt.NDArray[np.float64]

# Each transform errs by less than this in every cell; see the remark in law_of_sum.
_TRANSFORM_ERROR = 1e-14


def _product(first: Floats, second: Floats) -> Floats:
    """The convolution of two laws, cut off at the length of the lattice."""
    size = 1 << (2 * first.size - 1).bit_length()
    both = np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size)[: first.size]
    cut: Floats = np.maximum(both, 0.0)
    return cut


def law_of_sum(cumulative: npt.ArrayLike, count: int) -> Floats:
    """Probabilities that the sum of ``count`` independent terms is 0, 1, …, N lattice steps.

    ``cumulative[i]`` is P(term ≤ i steps). Every term is rounded up to the lattice, so the sum of the
    first i + 1 returned numbers is a lower bound on P(sum ≤ i steps), up to 1e-14·N·count; what is
    missing from 1 lies beyond N.

    >>> law_of_sum([0.5, 1.0, 1.0], 2).round(12).tolist()
    [0.25, 0.5, 0.25]
    """
    single = np.diff(np.asarray(cumulative, dtype=np.float64), prepend=0.0)
    total: Floats | None = None
    power = np.maximum(single, 0.0)
    while count:
        if count & 1:
            total = power if total is None else _product(total, power)
        count >>= 1
        if count:
            power = _product(power, power)
    if total is None:
        raise ValueError("a sum needs at least one term")
    lower: Floats = np.maximum(total - _TRANSFORM_ERROR, 0.0)
    return lower
