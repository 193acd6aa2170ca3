"""Cutting a graph into two parts with no edge between them, dropping as few rows as the sweep finds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.dependence._edges import Edges
from holdfast.dependence._split import Mask

_SWEEPS = 8
_LARGE = 500_000


def best_cut(n: int, edges: Edges, share: float, rng: np.random.Generator) -> tuple[Mask, Mask] | None:
    """The best cut over several sweeps as (training part, protected part), or None for a complete graph.

    A sweep puts the rows in an order in which neighbours stand close (reverse Cuthill–McKee after a random
    renaming) and tries every prefix as the training part; the other rows that touch it are dropped. The best
    cut has the largest min(training / share, protected / (1 − share)). The order ends with a row of least
    degree and its neighbours, so unless all rows are joined the rows before those give a cut.
    """
    best, best_value = None, 0.0
    for _ in range(_SWEEPS if n + len(edges) <= _LARGE else 1):
        place = _places(n, edges, rng)
        value, train, protected = _sweep(n, place[edges], share)
        if value > best_value:
            best, best_value = (train[place], protected[place]), value
    return best


def _places(n: int, edges: Edges, rng: np.random.Generator) -> NDArray[np.int64]:
    """Where each row stands in the order of one sweep."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    renamed = rng.permutation(n)
    ends = renamed[edges]
    both = np.concatenate([ends, ends[:, ::-1]])
    matrix = csr_array((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n, n))
    place = np.empty(n, dtype=np.int64)
    place[reverse_cuthill_mckee(matrix, symmetric_mode=True)] = np.arange(n)
    return place[renamed]


def _sweep(n: int, ends: Edges, share: float) -> tuple[float, Mask, Mask]:
    """The best prefix, with the rows numbered in the order of the sweep."""
    rows = np.arange(n)
    first = rows.copy()
    np.minimum.at(first, ends.max(axis=1), ends.min(axis=1))
    # Row p outside the prefix of length k touches it when first[p] < k ≤ p.
    change = np.zeros(n + 2, dtype=np.int64)
    np.add.at(change, first + 1, 1)
    np.add.at(change, rows + 1, -1)
    prefix = np.arange(n + 1)
    touching = np.cumsum(change)[: n + 1]
    value = np.minimum(prefix / share, (n - prefix - touching) / (1.0 - share))
    k = int(value.argmax())
    return float(value[k]), rows < k, (rows >= k) & (first >= k)
