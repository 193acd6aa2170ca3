"""Cutting rows into parts, and who runs an algorithm on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import InvalidArgument
from holdfast.replicable._tape import Tape
from holdfast.workers import Progress, Workers, checked, run_all

__all__ = [
    "Progress",
    "Workers",
    "cut",
    "distinct",
    "effort",
    "ordered_subset",
    "ordered_subsets",
    "run_all",
    "take",
]


def effort(workers: Any, progress: Any, *, of: str) -> tuple[Workers, Progress]:
    """Check the two arguments that every compiler has: who works, and who is told."""
    workers = checked(workers, of=of)
    if not (isinstance(progress, bool) or callable(progress)):
        raise InvalidArgument("progress", "True, False or a function of (done, total)", progress, of=of)
    return workers, progress


def cut(rows: Any, parts: int, size: int) -> list[Any]:
    """The first ``parts`` × ``size`` rows in consecutive parts: by position alone, so one changed row changes
    one part."""
    return [rows[number * size : (number + 1) * size] for number in range(parts)]


def distinct(samples: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The different samples among many, as an array, and how often each occurs.

    Samples are equal where their bytes are. Parts of few rows from a small domain repeat often.

    >>> samples, counts = distinct(np.array([[0, 1], [1, 1], [0, 1]]))
    >>> sorted(zip(samples.tolist(), counts.tolist()))
    [([0, 1], 2), ([1, 1], 1)]
    """
    flat = np.ascontiguousarray(samples).reshape(len(samples), -1)
    whole = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1])))[:, 0]
    _, first, counts = np.unique(whole, return_index=True, return_counts=True)
    return samples[first], counts


def ordered_subset(tape: Tape, size: int, total: int) -> npt.NDArray[np.int64]:
    """``size`` of the positions 0 … ``total`` − 1, every ordered choice equally likely.

    The first distinct ones of a sequence of independent positions: no permutation of all rows is needed.
    """
    count = size + size * size // total + 16
    while 2 * size <= total:
        drawn = tape.integers(count, total)
        first = np.unique(drawn, return_index=True)[1]
        if len(first) >= size:
            return drawn[np.sort(first)[:size]]
        count *= 2
    return tape.permutation(total)[:size]


def ordered_subsets(tape: Tape, count: int, size: int, total: int) -> npt.NDArray[np.int64]:
    """``count`` independent ordered choices of ``size`` of the positions 0 … ``total`` − 1, one a line.

    Lines with a repeated position are drawn again, so ``size``² must not be much more than ``total``.
    """
    chosen = tape.branch("try 0").integers(count * size, total).reshape(count, size)
    attempt = 0
    while True:
        ordered = np.sort(chosen, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(again) == 0:
            return chosen
        attempt += 1
        fresh = tape.branch(f"try {attempt}").integers(len(again) * size, total)
        chosen[again] = fresh.reshape(len(again), size)


def take(rows: Any, indices: npt.NDArray[np.int64]) -> Any:
    """The rows at these positions, in this order."""
    if hasattr(rows, "iloc"):
        return rows.iloc[indices]
    if isinstance(rows, (list, tuple)):
        return [rows[index] for index in indices]
    return rows[indices]
