"""Cutting a graph into two parts with no edge between them, dropping as few rows as the sweep finds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.dependence._edges import Edges
from holdfast.dependence._split import Mask

_SWEEPS = 8
_LARGE = 500_000


def best_cut(n: int, edges: Edges, share: float, rng: np.random.Generator) -> tuple[Mask, Mask] | None:
    """The best cut over several sweeps as (training part, protected part), or None where no sweep finds one.

    A sweep puts the rows in an order in which neighbours stand close (reverse Cuthill–McKee after a random
    renaming) and tries every prefix as the training side; the rows of one side that touch the other are
    dropped. The best cut has the largest min(training / share, protected / (1 − share)).
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
    first, last = rows.copy(), rows.copy()
    low, high = ends.min(axis=1), ends.max(axis=1)
    np.minimum.at(first, high, low)
    np.maximum.at(last, low, high)
    prefix = np.arange(n + 1)
    # Outside the prefix of length k, row p touches it when first[p] < k ≤ p; inside, it touches the rest when
    # p < k ≤ last[p].
    outside = _covering(first, rows, n)
    inside = _covering(rows, last, n)
    keep_train = np.minimum(prefix / share, (n - prefix - outside) / (1.0 - share))
    keep_protected = np.minimum((prefix - inside) / share, (n - prefix) / (1.0 - share))
    if keep_train.max() >= keep_protected.max():
        k = int(keep_train.argmax())
        return float(keep_train[k]), rows < k, (rows >= k) & (first >= k)
    k = int(keep_protected.argmax())
    return float(keep_protected[k]), (rows < k) & (last < k), rows >= k


def _covering(start: NDArray[np.int64], stop: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """For every k, how many of the intervals start < k ≤ stop contain it."""
    change = np.zeros(n + 2, dtype=np.int64)
    np.add.at(change, start + 1, 1)
    np.add.at(change, stop + 1, -1)
    return np.cumsum(change)[: n + 1]
