"""Blankets, quilts and max-influence of single rows of a chain, however long it is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast import checks, rounding
from holdfast.dependence._factors import Array
from holdfast.dependence._quilts import Quilt, refuse_many
from holdfast.errors import InvalidArgument

_EPS = float(np.finfo(float).eps)
_MOST_NUMBERS = 1 << 22


def row_number(row: Any, n: int, argument: str, *, of: str) -> int:
    """Rows are numbered from 0."""
    return checks.whole(row, argument, at_least=0, at_most=n - 1, of=f"MarkovChain.{of}")


def row_numbers(rows: Any, n: int, argument: str, *, of: str) -> list[int]:
    """One row or several, in rising order."""
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)) else [rows]
    return sorted(row_number(row, n, argument, of=of) for row in listed)


def chain_quilts(row: int, n: int) -> tuple[Quilt, ...]:
    """The quilts (i−a, i+b), (i−a), (i+b) and the empty one, the smallest nearby set first."""
    refuse_many((row + 1) * (n - row), of="MarkovChain.quilts", most=_MOST_NUMBERS // n)
    sides = [(left, right) for left in range(row - 1, -2, -1) for right in range(row + 1, n + 1)]
    sides.sort(key=lambda pair: (pair[1] - pair[0], -pair[0]))
    return tuple(
        Quilt(
            row,
            tuple(end for end in (left, right) if 0 <= end < n),
            tuple(other for other in range(left + 1, right) if other != row),
            (*range(left), *range(right + 1, n)),
        )
        for left, right in sides
    )


def chain_influence(transition: Array, start: Array, row: int, targets: list[int], known: list[int]) -> float:
    """ln max P[targets | x, known]/P[targets | x', known] over values of the rows, x and x' those of ``row``.

    Given x_i the sides are independent. On each only the nearest row counts: a known one cuts the rest off, a
    target takes the rest with it, up to what the first known row beyond it says about the target itself.
    """
    if set(targets) & set(known) or row in targets or row in known or len(set(targets)) < len(targets):
        raise InvalidArgument(
            "targets", "apart from the row and from what is given", targets, of="MarkovChain.max_influence"
        )
    if not targets:
        return 0.0

    def steps(count: int) -> Array:
        power: Array = np.linalg.matrix_power(transition, count)
        return power

    right = _side(
        row,
        [other for other in targets if other > row],
        [other for other in known if other > row],
        lambda near: steps(near - row),
        lambda near, far: steps(far - near) if far is not None else np.ones((len(start), 1)),
    )
    law = start @ steps(row)

    def before(near: int) -> Array:
        """P[x_near | x_row] up to a factor of x_near alone: P^{row−near}(x_near, x_row) / P[x_row]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(law[:, None] > 0.0, steps(row - near).T / law[:, None], 0.0)

    def beyond(near: int, far: int | None) -> Array:
        if far is None:
            return (start @ steps(near))[:, None]
        return np.where((start @ steps(far))[:, None] > 0.0, steps(near - far), 0.0).T

    left = _side(
        row,
        [other for other in reversed(targets) if other < row],
        [other for other in reversed(known) if other < row],
        before,
        beyond,
    )
    left, right = np.broadcast_arrays(left, right, np.empty((len(law), len(law))))[:2]
    possible = (law > 0.0) & (law[:, None] > 0.0) & (left > -np.inf) & (right > -np.inf)
    spread = float((left[possible] + right[possible]).max(initial=0.0))
    longest = max(abs(other - row) for other in (*targets, *known))
    if spread == 0.0 or math.isinf(spread):
        return spread
    return rounding.up(spread + 16.0 * longest * len(start) * _EPS)


def _side(row: int, targets: list[int], known: list[int], step: Any, beyond: Any) -> Array:
    """ln of the largest ratio for x and x' on one side; −∞ where what is known rules out one of them.

    ``targets`` and ``known`` stand nearest first. With t the nearest target and k the first known row beyond
    it, P[x_t | x, x_k] ∝ step(x, x_t)·beyond(x_t, x_k).
    """
    if not targets and not known:
        return np.zeros((1, 1))
    if not targets or (known and abs(known[0] - row) < abs(targets[0] - row)):
        return _compatible(step(known[0]))
    near = targets[0]
    far = known[0] if known else None
    joint = step(near)[:, :, None] * beyond(near, far)[None]
    total = joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(joint) - np.log(total)
    size = len(joint)
    found = np.full((size, size), -np.inf)
    for x in range(size):
        for other in range(size):
            both = (total[x, 0] > 0.0) & (total[other, 0] > 0.0)
            top, bottom = logs[x][:, both], logs[other][:, both]
            seen = top > -np.inf
            if seen.any():
                found[x, other] = (top[seen] - bottom[seen]).max()
    return found


def _compatible(step: Array) -> Array:
    """0 where some value of the known row is possible with both, −∞ elsewhere."""
    reached = (step > 0.0).astype(float)
    result: Array = np.where(reached @ reached.T > 0.0, 0.0, -np.inf)
    return result
