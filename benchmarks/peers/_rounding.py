"""Answers in few digits: the union bound over everything that could have been said (description length)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STARTS = np.unique(np.round(np.geomspace(1, 1e9, 2000))).astype(np.float64)


@dataclass(frozen=True)
class Rounding:
    """Answers are the middles of ``cells`` equal cells of [0, 1]."""

    cells: int

    def answers(self, means: Floats) -> Floats:
        """The middle of the cell of each mean; 1 belongs to the last cell."""
        result: Floats = (np.minimum(np.floor(means * self.cells), self.cells - 1) + 0.5) / self.cells
        return result


def rounding_error(rows: int, queries: int, beta: float) -> float:
    """The least τ with ln(2k) + (k−1) ln L − 2n(τ − 1/2L)² ≤ ln β, over the number of cells L."""
    return best_rounding(rows, queries, beta)[0]


def best_rounding(rows: int, queries: int, beta: float) -> tuple[float, Rounding]:
    """The error, and the cells that give it."""
    nats = math.log(2 * queries / beta) + (queries - 1) * np.log(_STARTS)
    errors = 0.5 / _STARTS + np.sqrt(nats / (2 * rows))
    best = int(np.argmin(errors))
    return min(1.0, float(errors[best])), Rounding(int(_STARTS[best]))


def most_rounded_queries(rows: int, error: float, beta: float) -> int:
    """The largest number of questions that keep ``error``."""
    queries = 0
    while rounding_error(rows, queries + 1, beta) <= error:
        queries += 1
    return queries


def evidence_nats(replies: int, symbols: int) -> float:
    """What EvidenceOS charges: ln |Y| for every reply, whatever it says."""
    return replies * math.log(symbols)


def evidence_error(rows: int, queries: int, beta: float) -> float:
    """EvidenceOS for k means: significance (β/k)·2^(−bits) before the last one, replies in the best number of
    symbols. The same number as :func:`rounding_error`: it is the code guard with a uniform prior and no
    guess."""
    spent = np.array([evidence_nats(queries - 1, int(symbols)) for symbols in _STARTS])
    errors = 0.5 / _STARTS + np.sqrt((math.log(2 * queries / beta) + spent) / (2 * rows))
    return min(1.0, float(np.min(errors)))
