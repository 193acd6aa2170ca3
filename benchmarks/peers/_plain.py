"""Naive reuse and splitting: what everyone does, and what is certainly valid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from holdfast.stability import split_error

Floats = NDArray[np.float64]


def non_adaptive_error(rows: int, queries: int, beta: float) -> float:
    """√(ln(2k/β)/2n): the error of k questions that were all fixed in advance, which no method for adaptive
    ones is expected to beat."""
    return math.sqrt(math.log(2 * queries / beta) / (2 * rows))


def splitting_error(rows: int, queries: int, beta: float) -> float:
    """Every question on rows of its own, Hoeffding at β/k: any peer's first choice, and ours."""
    return split_error(rows, queries, beta)


def naive_answers(holdout: Floats) -> Floats:
    """The means over all rows, whoever asks."""
    return holdout.copy()
