"""Bayesian differential privacy of networks with loops, from how strongly each pair of rows is coupled.

The coupling of two rows is the largest logarithm δ of a cross ratio of their joint law given all others, here
as T = tanh(δ/4), the largest total variation between two laws whose odds differ by e^δ. Rows are summed out
one after the other. Summing row w out turns T_uv into (T_uv + T_uw T_wv)/(1 + T_uv T_uw T_wv), and by what a
change of row v moves the mechanism, s_v, into s_v + 4 artanh(tanh(s_w/4) T_wv). What is left at row i is its
bound. Where this takes too long, every s ≥ ε + Ts is a bound. Proof: ``docs/theory/networks.md``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.dependence._factors import Array, Factor, cells
from holdfast.dependence._quilts import Graph

Indices = NDArray[np.int64]
Couplings = Mapping[tuple[int, int], float]

# Each product and each quotient is off by a few units in the last place.
_WIDER = 1.0 + 1e-14
_MOST_TOGETHER = 1 << 16
# Fixed amounts of work, so that the same network always has the same bound.
_MOST_ROWS, _MOST_UPDATES = 200, 100_000_000


def couplings(factors: Sequence[Factor], cards: Sequence[int]) -> dict[tuple[int, int], float] | None:
    """T for every pair of rows that share a factor, each once; None where a factor vanishes."""
    if not all(np.isfinite(item.logs).all() for item in factors):
        return None
    shared: dict[tuple[int, int], list[Factor]] = {}
    for item in factors:
        for place, first in enumerate(item.scope):
            for second in item.scope[place + 1 :]:
                shared.setdefault((first, second), []).append(item)
    return {pair: _coupling(pair, items, cards) for pair, items in shared.items()}


def _coupling(pair: tuple[int, int], items: list[Factor], cards: Sequence[int]) -> float:
    """tanh(δ/4), rounded up; factors that would make a large table together are bounded one by one."""
    scope = sorted({row for item in items for row in item.scope})
    if cells(scope, cards) <= _MOST_TOGETHER:
        together = np.zeros([cards[row] for row in scope])
        for item in items:
            together = together + item.over(scope)
        ratio = _log_cross_ratio(together, scope.index(pair[0]), scope.index(pair[1]))
    else:
        ratio = sum(
            _log_cross_ratio(item.logs, item.scope.index(pair[0]), item.scope.index(pair[1]))
            for item in items
        )
    return min(1.0, rounding.up(math.tanh(rounding.up(ratio / 4.0))))


def _log_cross_ratio(logs: Array, first: int, second: int) -> float:
    """max ln t(a,y)t(b,z)/(t(b,y)t(a,z)) over values of two axes and of all others, rounded up."""
    table = np.moveaxis(logs, (first, second), (0, 1))
    most = max(float(np.ptp(table - line, axis=1).max()) for line in table)
    if most == 0.0:
        return 0.0
    return rounding.up(most + 8.0 * float(np.finfo(float).eps) * float(np.abs(logs).max()))


@dataclass(frozen=True, eq=False)
class _Step:
    """One row summed out of each of several copies of a component, each for another row that stays."""

    source: Indices
    target: Indices
    weight: Array
    cap: float


@dataclass(frozen=True, eq=False)
class WeakCoupling:
    """The bound of every component: by summing rows out, or by a multiple of ε."""

    eliminated: tuple[tuple[int, tuple[_Step, ...]], ...]
    """For each component so treated its number of rows and the steps for all of them at once."""
    factor: float
    """For the other components: what the parameter is multiplied by."""

    def bayesian_dp(self, epsilon: float) -> float:
        """The Bayesian DP of an ``epsilon``-DP mechanism, rounded up."""
        most = self.factor * epsilon
        for size, steps in self.eliminated:
            moved = np.full(size * size, epsilon)
            for step in steps:
                before = moved[step.source]
                with np.errstate(divide="ignore"):
                    added = 4.0 * np.arctanh(np.minimum(1.0, np.tanh(before / 4.0) * step.weight * _WIDER))
                after = moved[step.target] + np.minimum(before, added * _WIDER)
                moved[step.target] = np.minimum(after * _WIDER, step.cap * epsilon)
            most = max(most, float(moved.reshape(size, size).diagonal().max()))
        return rounding.up(most)


def weak_coupling(
    weights: Couplings, graph: Graph, components: Sequence[Sequence[int]]
) -> WeakCoupling | None:
    """The bounds of all components; None where one is too large to sum out and not weakly coupled."""
    eliminated = []
    factor = 1.0
    for component in components:
        if len(component) == 1:
            continue
        steps = _sum_out(weights, graph, component) if len(component) <= _MOST_ROWS else None
        if steps is not None:
            eliminated.append((len(component), steps))
            continue
        largest = _largest_total(weights, component)
        if largest is None:
            return None
        factor = max(factor, min(largest, float(len(component))))
    return WeakCoupling(tuple(eliminated), factor)


def _dense(weights: Couplings, component: Sequence[int]) -> Array:
    place = {row: k for k, row in enumerate(component)}
    matrix = np.zeros((len(component), len(component)))
    for (first, second), weight in weights.items():
        if first in place:
            matrix[place[first], place[second]] = matrix[place[second], place[first]] = weight
    return matrix


def _sum_out(weights: Couplings, graph: Graph, component: Sequence[int]) -> tuple[_Step, ...] | None:
    """The steps for every row of a component that stays, the farthest other rows first; None where the
    updates would be too many."""
    size = len(component)
    place = {row: k for k, row in enumerate(component)}
    start = _dense(weights, component)
    near = [[place[other] for other in sorted(graph[row])] for row in component]
    listed: list[list[tuple[Indices, Indices, Array]]] = [[] for _ in range(size - 1)]
    updates = 0
    for stays in range(size):
        matrix = start.copy()
        for number, gone in enumerate(reversed(_nearest_first(near, stays)[1:])):
            touched = np.flatnonzero(matrix[gone])
            weight = matrix[gone, touched]
            updates += len(touched) ** 2
            if updates > _MOST_UPDATES:
                return None
            listed[number].append(
                (np.full(len(touched), stays * size + gone), stays * size + touched, weight)
            )
            through = np.outer(weight, weight)
            block = matrix[np.ix_(touched, touched)]
            block = np.minimum(1.0, (block + through) / (1.0 + block * through) * _WIDER)
            np.fill_diagonal(block, 0.0)
            matrix[np.ix_(touched, touched)] = block
            matrix[gone] = matrix[:, gone] = 0.0
    steps = []
    for number, entries in enumerate(listed):
        source, target, weight = (np.concatenate(part) for part in zip(*entries, strict=True))
        steps.append(_Step(source, target, weight, number + 2.0))
    return tuple(steps)


def _nearest_first(near: Sequence[Sequence[int]], start: int) -> list[int]:
    order, seen = [start], {start}
    for row in order:
        for other in near[row]:
            if other not in seen:
                seen.add(other)
                order.append(other)
    return order


def _largest_total(weights: Couplings, component: Sequence[int]) -> float | None:
    """The largest entry of a vector s > 0 with s ≥ 1 + Ts, or None where there is none: that it is one is
    checked, however it was found."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import MatrixRankWarning, spsolve

    place = {row: k for k, row in enumerate(component)}
    inside = {pair: weight for pair, weight in weights.items() if pair[0] in place}
    first, second = (np.array([place[pair[side]] for pair in inside]) for side in (0, 1))
    values = np.array(list(inside.values()))
    size = len(component)
    matrix = csc_array(
        (np.tile(values, 2), (np.concatenate([first, second]), np.concatenate([second, first]))),
        shape=(size, size),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatrixRankWarning)
        total = spsolve((eye_array(size) - matrix).tocsc(), np.ones(size)) * (1.0 + 1e-9)
    if not (total > 0.0).all() or not (total >= (1.0 + matrix @ total) * (1.0 + 1e-12)).all():
        return None
    return rounding.up(float(total.max()))
