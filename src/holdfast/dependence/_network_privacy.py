"""Bayesian differential privacy of networks.

Without loops (:class:`Forest`) the bound of a chain is carried along the tree. With loops it follows from how
strongly each pair of rows is coupled (:class:`WeakCoupling`). The coupling of two rows is the largest
logarithm δ of a cross ratio of their joint law given all others. It is kept as T = tanh(δ/4), the largest
total variation between two laws whose odds differ by e^δ. Rows are summed out one after the other. Summing
row w out turns T_uv into (T_uv + T_uw T_wv)/(1 + T_uv T_uw T_wv). It turns s_v, by what a change of row v
moves the mechanism, into s_v + 4 artanh(tanh(s_w/4) T_wv). What is left at row i is its bound. Where this
takes too long, every s ≥ ε + Ts is a bound. Proof: ``docs/theory/networks.md``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.dependence._chain_privacy import carried_by_pairs, pair_roots
from holdfast.dependence._quilts import Array, Factor, Graph, cells, log_sum

_SLACK = 1e-13
_EPS = float(np.finfo(float).eps)
Indices = NDArray[np.int64]
Couplings = Mapping[tuple[int, int], float]

# Each product and each quotient is off by a few units in the last place.
_WIDER = 1.0 + 1e-14
_MOST_TOGETHER = 1 << 16
# Fixed amounts of work, so that the same network always has the same bound.
_MOST_ROWS, _MOST_UPDATES = 200, 100_000_000


@dataclass(frozen=True, eq=False)
class Forest:
    """A network whose graph has no loop: ``order`` lists parents first, ``parent`` is −1 at the roots."""

    order: tuple[int, ...]
    parent: tuple[int, ...]
    alone: tuple[Array, ...]
    """ln of each node's own factors."""
    pairs: Mapping[int, Array]
    """ln of the factors of a node and its parent, the parent first."""

    @cached_property
    def _upward(self) -> tuple[tuple[Array, ...], dict[int, Array]]:
        """Each node's own factors with all of its branches, and the message that it sends to its parent."""
        belief = [logs.copy() for logs in self.alone]
        sent = {}
        for node in reversed(self.order):
            if self.parent[node] >= 0:
                message = log_sum(self.pairs[node] + belief[node], axis=1)
                message -= message.max()
                sent[node] = message
                belief[self.parent[node]] += message
        return tuple(belief), sent

    @cached_property
    def _whole(self) -> tuple[Array, ...]:
        """ln of each node's law, up to a constant."""
        belief, sent = self._upward
        whole = list(belief)
        for node in self.order:
            above = self.parent[node]
            if above >= 0:
                with np.errstate(invalid="ignore"):
                    rest = np.where(np.isfinite(sent[node]), whole[above] - sent[node], -np.inf)
                whole[node] = belief[node] + log_sum(self.pairs[node] + rest[:, None], axis=0)
                whole[node] -= whole[node].max()
        return tuple(whole)

    def local(self, rows: Sequence[int]) -> Array:
        """ln of the joint law of connected rows, up to a constant, one axis each: Π p_v Π p_uv/(p_u p_v)."""
        place = {node: axis for axis, node in enumerate(rows)}
        total = np.zeros([len(self.alone[node]) for node in rows])
        for node in rows:
            total = total + _on_axes(self._own[node], [place[node]], total.ndim)
            if self.parent[node] in place:
                axes = [place[self.parent[node]], place[node]]
                total = total + _on_axes(self._link[node], axes, total.ndim)
        return total

    @cached_property
    def _own(self) -> tuple[Array, ...]:
        return tuple(logs - log_sum(logs, axis=0) for logs in self._whole)

    @cached_property
    def _link(self) -> dict[int, Array]:
        """ln p_uv/(p_u p_v) of each node v and its parent u."""
        roots = {}
        for node, pair in self.pairs.items():
            above, here = self._whole[self.parent[node]], self._whole[node]
            with np.errstate(invalid="ignore"):
                kernel = pair + self._upward[0][node]
                kernel = kernel - log_sum(kernel, axis=1, keepdims=True)
                link = kernel - self._own[node]
            roots[node] = np.where(np.isfinite(above)[:, None] & np.isfinite(here), link, -np.inf)
        return roots

    def kernel(self, node: int) -> Array:
        """The law of ``node`` given its parent, one line for each possible value of the parent."""
        logs = self.pairs[node] + self._upward[0][node]
        logs = logs[np.isfinite(self._whole[self.parent[node]])]
        kernel: Array = np.exp(logs - log_sum(logs, axis=1, keepdims=True))
        return kernel

    @cached_property
    def _pair_roots(self) -> dict[int, tuple[Array, Array]]:
        """√κ of each edge for pairs of possible values of its upper and of its lower node."""
        influences = {}
        for node, pair in self.pairs.items():
            logs = pair[self._states[self.parent[node]]][:, self._states[node]]
            table = np.exp(logs - logs.max())
            possible = not ((table == 0.0) & np.isfinite(logs)).any()
            # An entry too small to distinguish from zero could make any cross ratio, so it makes them all
            # zero.
            influences[node] = (pair_roots(table) * possible, pair_roots(table.T) * possible)
        return influences

    @cached_property
    def _states(self) -> tuple[NDArray[np.int64], ...]:
        """The possible values of each node."""
        return tuple(np.flatnonzero(np.isfinite(logs)) for logs in self._whole)

    def bayesian_dp(self, epsilon: float) -> float:
        """The Bayesian DP of an ``epsilon``-DP mechanism: max over rows of ε + Σ L over their neighbours.

        L(u→v), what a change of row u does through its neighbour v, is ``carried`` at ε + Σ L(v→w) over v's
        other neighbours.
        """
        return self._plain_messages.bound(epsilon)

    def pairs_bdp(self, epsilon: float) -> float:
        """The same pair by pair: L(u→v) is a table over pairs of values of u, and what lies beyond v is the
        largest over pairs of values of v of the sum over its other neighbours. At most ``bayesian_dp``."""
        return self._pair_messages.bound(epsilon)

    @cached_property
    def _plain_messages(self) -> _Messages:
        return _messages(self.parent, lambda row, other: self._roots(row, other).min(keepdims=True).ravel())

    @cached_property
    def _pair_messages(self) -> _Messages:
        return _messages(self.parent, lambda row, other: _of_pairs(self._roots(row, other)))

    def _roots(self, row: int, other: int) -> Array:
        """√κ of the edge between two neighbours, for pairs of possible values of the first."""
        if self.parent[other] == row:
            return self._pair_roots[other][0]
        return self._pair_roots[row][1]

    @cached_property
    def blanket_influences(self) -> Array:
        """The max-influence of each row on its neighbours: max over its values a, b of Σ_v ln max_y
        P[v = y | a]/P[v = y | b], for given the row its neighbours are independent."""
        spreads = [np.zeros((len(here), len(here))) for here in self._states]
        sizes = np.ones(len(self.parent))
        for node, link in self._link.items():
            above = self.parent[node]
            table = link[self._states[above]][:, self._states[node]]
            size = float(np.abs(table[np.isfinite(table)]).max(initial=1.0))
            for row, ratios in ((above, table), (node, table.T)):
                spreads[row] += _log_ratios(ratios)
                sizes[row] += size
        most = np.array([float(spread.max(initial=0.0)) for spread in spreads])
        return np.array([rounding.up(value) for value in most + (most > 0.0) * 32.0 * _EPS * sizes])


def _log_ratios(logs: Array) -> Array:
    """max over y of logs[a, y] − logs[b, y], for all rows a and b; y impossible with a do not count."""
    with np.errstate(invalid="ignore"):
        ratios = logs[:, None, :] - logs[None, :, :]
    largest: Array = np.where(np.isfinite(logs)[:, None, :], ratios, -np.inf).max(axis=2)
    return largest


def _of_pairs(table: Array) -> Array:
    """The entries of a symmetric table for pairs of different values; a row with one value has one pair, of
    that value and itself."""
    pairs: Array = table[_upper_triangle(len(table))] if len(table) > 1 else table.ravel()
    return pairs


@lru_cache(maxsize=16)
def _upper_triangle(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, columns = np.triu_indices(size, 1)
    return rows, columns


@dataclass(frozen=True, eq=False)
class _Level:
    """Rows whose messages can be computed at once. Each row has a stretch of numbers, one for each pair of
    its values, and each edge to the next level one for each pair of the upper row's values."""

    rows: slice
    row_starts: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    edges: slice
    edge_starts: NDArray[np.int64]
    edge_counts: NDArray[np.int64]
    upper: NDArray[np.int64]
    """Where the numbers of the upper row stand, for each number of an edge."""
    roots_down: Array
    roots_up: Array


@dataclass(frozen=True, eq=False)
class _Messages:
    """What each row carries to each neighbour: two passes over the levels of a forest, from the leaves to the
    middle and back, each level at once."""

    levels: tuple[_Level, ...]
    row_size: int
    edge_size: int
    slack: float

    def bound(self, epsilon: float) -> float:
        """max over rows and pairs of their values of ε + Σ L over neighbours, rounded up."""
        total, down = np.zeros(self.row_size), np.empty(self.edge_size)
        wider = 1.0 + self.slack
        for level in self.levels:
            beyond = epsilon + np.maximum.reduceat(total[level.rows], level.row_starts) * wider
            message = carried_by_pairs(np.repeat(beyond, level.edge_counts), level.roots_down)
            down[level.edges] = message
            np.add.at(total, level.upper, message)
        for level in reversed(self.levels):
            others = total[level.upper] * wider - down[level.edges]
            beyond = epsilon + np.maximum(0.0, np.maximum.reduceat(others, level.edge_starts))
            total[level.rows] += carried_by_pairs(np.repeat(beyond, level.row_counts), level.roots_up)
        return rounding.up((epsilon + float(total.max())) * wider)


def _messages(parent: Sequence[int], roots: Callable[[int, int], Array]) -> _Messages:
    """The levels of a forest; ``roots(u, v)`` is √κ of the edge u–v, one for each pair of values of u.

    Leaves go first, then what has become a leaf, down to the middle of each tree: so a path of n rows has n/2
    levels, and a bushy tree has few. How far sums over many neighbours may be off is in ``slack``.
    """
    levels, upper, middles = _from_leaves(parent)
    degrees = np.zeros(len(parent), dtype=np.int64)
    for node, above in upper.items():
        degrees[[node, above]] += 1
    tables = {node: (roots(above, node), roots(node, above)) for node, above in upper.items()}
    widths = dict.fromkeys(middles, 1)
    for node, above in upper.items():
        widths[above], widths[node] = len(tables[node][0]), len(tables[node][1])
    listed = [node for level in levels for node in level]
    starts = dict(
        zip(
            [*listed, *middles],
            accumulate((widths[node] for node in [*listed, *middles]), initial=0),
            strict=False,
        )
    )
    built = []
    edge_place = 0
    for level in levels:
        down, up = ([tables[node][side] for node in level] for side in (0, 1))
        edge_counts, row_counts = (np.array([len(table) for table in side]) for side in (down, up))
        first, last = starts[level[0]], starts[level[-1]] + len(up[-1])
        edge_end = edge_place + int(edge_counts.sum())
        places = [np.arange(starts[upper[node]], starts[upper[node]] + widths[upper[node]]) for node in level]
        built.append(
            _Level(
                slice(first, last),
                np.cumsum(row_counts) - row_counts,
                row_counts,
                slice(edge_place, edge_end),
                np.cumsum(edge_counts) - edge_counts,
                edge_counts,
                np.concatenate(places),
                np.concatenate(down),
                np.concatenate(up),
            )
        )
        edge_place = edge_end
    slack = _SLACK + 2.0 * _EPS * float(degrees.max(initial=0))
    return _Messages(tuple(built), sum(widths.values()), edge_place, slack)


def _from_leaves(parent: Sequence[int]) -> tuple[list[list[int]], dict[int, int], list[int]]:
    """The nodes in rounds, each a leaf when those before it are gone; the neighbour each leaves behind; and
    the last node of every tree."""
    degree = [0] * len(parent)
    near = [0] * len(parent)  # the exclusive or of all neighbours: of a leaf, its only one
    for node, above in enumerate(parent):
        if above >= 0:
            degree[node] += 1
            degree[above] += 1
            near[node] ^= above
            near[above] ^= node
    levels: list[list[int]] = []
    upper: dict[int, int] = {}
    middles: list[int] = []
    front = [node for node, count in enumerate(degree) if count <= 1]
    while front:
        level, following = [], []
        for node in front:
            if degree[node] == 0:
                middles.append(node)
                continue
            above = near[node]
            upper[node] = above
            level.append(node)
            near[above] ^= node
            degree[above] -= 1
            if degree[above] == 1:
                following.append(above)
        if level:
            levels.append(level)
        front = following
    return levels, upper, middles


def _on_axes(table: Array, axes: list[int], dimensions: int) -> Array:
    """The table with its axes at these places among ``dimensions``."""
    order = np.argsort(axes)
    shape = [1] * dimensions
    for axis, size in zip(axes, table.shape, strict=True):
        shape[axis] = size
    return np.transpose(table, order).reshape(shape)


def forest(factors: Sequence[Factor], graph: Mapping[int, Set[int]], cards: Sequence[int]) -> Forest | None:
    """The network as a forest, each tree hanging from its first node; None if its graph has a loop."""
    size = len(cards)
    if sum(len(near) for near in graph.values()) // 2 >= size:
        return None
    parent = [-1] * size
    order: list[int] = []
    seen = [False] * size
    for start in range(size):
        if seen[start]:
            continue
        seen[start] = True
        front = [start]
        while front:
            node = front.pop()
            order.append(node)
            for other in sorted(graph[node]):
                if other == parent[node]:
                    continue
                if seen[other]:
                    return None
                seen[other], parent[other] = True, node
                front.append(other)
    alone = [np.zeros(card) for card in cards]
    pairs = {node: np.zeros((cards[parent[node]], cards[node])) for node in order if parent[node] >= 0}
    for item in factors:
        if len(item.scope) == 1:
            alone[item.scope[0]] += item.logs
        elif len(item.scope) == 2:
            first, second = item.scope
            if parent[second] == first:
                pairs[second] += item.logs
            else:
                pairs[first] += item.logs.T
    return Forest(tuple(order), tuple(parent), tuple(alone), pairs)


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
    """The largest entry of a vector s > 0 with s ≥ 1 + Ts; None if no such vector exists. The solver's
    result is checked, so its errors do no harm."""
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
