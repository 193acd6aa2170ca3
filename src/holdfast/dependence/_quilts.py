"""Factors of a joint law, how much one row can move the others (max-influence), and Markov quilts: sets of
rows that separate a row from the remote ones (BDP 2.4).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.errors import InvalidArgument
from holdfast.records import Record

if TYPE_CHECKING:
    from holdfast.dependence._network_privacy import Forest

Array = NDArray[np.float64]

MOST_CELLS = 1 << 24
_EPS = float(np.finfo(float).eps)
MOST_QUILTS = 1 << 16
# Rough costs in microseconds, fixed numbers so that the same network always has the same bound.
_BLANKETS, _QUILTS = 4e6, 2e6
_PER_NODE, _PER_CELL = 100.0, 0.05


@dataclass(frozen=True, eq=False)
class Factor:
    """A function of the nodes in ``scope``, in rising order, one axis each; ``logs`` is its logarithm."""

    scope: tuple[int, ...]
    logs: Array

    def over(self, scope: Sequence[int]) -> Array:
        """The table with axes of length one for the other nodes of a larger scope, ready to be added."""
        sizes = dict(zip(self.scope, self.logs.shape, strict=True))
        return self.logs.reshape([sizes.get(node, 1) for node in scope])


def factor(scope: Sequence[int], table: Array) -> Factor:
    """A factor from a table of numbers, none negative, with its axes in the order of ``scope``."""
    order = np.argsort(scope, kind="stable")
    with np.errstate(divide="ignore"):
        return Factor(tuple(int(scope[k]) for k in order), np.log(np.transpose(table, order)))


def log_sum(logs: Array, axis: int | tuple[int, ...], *, keepdims: bool = False) -> Array:
    """ln Σ exp over ``axis``: nothing underflows, and ln 0 = −∞ stays what it is."""
    top = logs.max(axis=axis, keepdims=True)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(logs - top).sum(axis=axis, keepdims=True)) + top
    return total if keepdims else total.squeeze(axis)


def cells(nodes: Iterable[int], cards: Sequence[int]) -> int:
    """How large a table over these nodes is; a node with one state counts as two, an axis is not free."""
    return math.prod(max(2, cards[node]) for node in nodes)


def log_joint(factors: Iterable[Factor], keep: Sequence[int], cards: Sequence[int], *, of: str) -> Array:
    """ln of the product of ``factors``, summed over every node not in ``keep``, up to a constant.

    Exact, by variable elimination: the node whose removal makes the smallest table goes first. The largest
    table is known before the first one is made, and refused if it is beyond ``MOST_CELLS``.
    """
    factors = list(factors)
    order, largest = _elimination(factors, keep, cards)
    refuse_large(largest, "a network on which exact inference is small", of=of)
    shared: dict[int, list[Factor]] = {}
    waiting = {id(item): item for item in factors}
    for item in factors:
        for node in item.scope:
            shared.setdefault(node, []).append(item)
    for node in order:
        touching = [item for item in shared[node] if id(item) in waiting]
        scope, logs = _product(touching)
        message = Factor(
            tuple(other for other in scope if other != node), log_sum(logs, axis=scope.index(node))
        )
        for item in touching:
            del waiting[id(item)]
        waiting[id(message)] = message
        for other in message.scope:
            shared[other].append(message)
    whole = sorted(keep)
    total = np.zeros([cards[node] for node in whole])
    for item in waiting.values():
        total += item.over(whole)
    return np.transpose(total, [whole.index(node) for node in keep])


def refuse_large(size: int, what: str, *, of: str, argument: str = "model", most: int = MOST_CELLS) -> None:
    """Refuse an enumeration that would be too large, before it starts."""
    if size > most:
        raise InvalidArgument(argument, f"{what}: at most {most:,} numbers in one table", size, of=of)


def _product(factors: list[Factor]) -> tuple[list[int], Array]:
    scope = sorted({node for item in factors for node in item.scope})
    logs = factors[0].over(scope)
    for item in factors[1:]:
        logs = logs + item.over(scope)
    return scope, logs


def _elimination(factors: list[Factor], keep: Sequence[int], cards: Sequence[int]) -> tuple[list[int], int]:
    """An order in which to remove the other nodes, and the size of the largest table on the way."""
    near: dict[int, set[int]] = {}
    for item in factors:
        for node in item.scope:
            near.setdefault(node, set()).update(item.scope)
    kept = set(keep)
    largest = cells(keep, cards)
    heap = [(cells(near[node], cards), node) for node in near if node not in kept]
    heapq.heapify(heap)
    order = []
    while heap:
        size, node = heapq.heappop(heap)
        if node not in near or size != cells(near[node], cards):
            continue
        largest = max(largest, size)
        order.append(node)
        around = near.pop(node) - {node}
        for other in around:
            near[other] |= around
            near[other].discard(node)
            if other not in kept:
                heapq.heappush(heap, (cells(near[other], cards), other))
    return order, largest


def influence(logs: Array, targets: int) -> float:
    """ln max P[targets | a, known] / P[targets | b, known], from the ln of a joint table.

    Axis 0 is the row that moves, the next ``targets`` axes are the rows whose law is compared, the rest are
    known. Only values of the known rows that are possible with both a and b count; infinite where a target
    value is possible with one of them only.
    """
    if targets == 0 or logs.shape[0] < 2:
        return 0.0
    context = log_sum(logs, axis=tuple(range(1, targets + 1)), keepdims=True)
    possible = context > -np.inf
    with np.errstate(invalid="ignore"):
        given = logs - context
    high = np.where(possible, given, -np.inf).max(axis=0)
    low = np.where(possible, given, np.inf).min(axis=0)
    seen = high > -np.inf
    spread = float((high[seen] - low[seen]).max(initial=0.0))
    if spread == 0.0 or math.isinf(spread):
        return spread
    # Each logarithm is off by a few units in the last place of the largest that entered it.
    size = float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0))
    return rounding.up(spread + 16.0 * _EPS * size)


def largest_influence(logs: Array, targets: int) -> float:
    """The largest ``influence`` over all sets of the remaining rows that may be known besides.

    A last state "unknown" on each of those axes, the sum over the others, puts every set and every value of
    it into one table.
    """
    return influence(with_unknown(logs, range(targets + 1, logs.ndim)), targets)


def with_unknown(logs: Array, axes: range) -> Array:
    """The table with one more state on each of ``axes``: the sum over all the others."""
    for axis in axes:
        logs = np.concatenate([logs, log_sum(logs, axis=axis, keepdims=True)], axis=axis)
    return logs


@dataclass(frozen=True, repr=False)
class Quilt(Record):
    """A quilt of ``node``: every path from it to ``remote`` passes through ``quilt``; ``nearby`` is the rest.

    Given the rows of ``quilt``, the remote ones do not depend on the node's.
    """

    node: Hashable
    quilt: tuple[Any, ...]
    nearby: tuple[Any, ...]
    remote: tuple[Any, ...]

    @property
    def size(self) -> int:
        """The node and the nearby ones: how many rows change with it, |N| + 1 in BDP Lemma 2."""
        return len(self.nearby) + 1


Graph = Mapping[int, Set[int]]


def connected_sets(graph: Graph, node: int) -> Iterator[set[int]]:
    """Every connected set of rows that contains ``node``, the smallest first.

    Each set is the node's own side of one quilt: the neighbours of the set. No other quilts are needed. If a
    row of a quilt has no neighbour on the node's side, it can become a remote row. This changes no nearby
    row, and the influence on the smaller quilt is smaller.
    """
    rows: list[int] = []
    for mask in _connected_masks(graph, node, rows):
        yield {rows[place] for place in _bits(mask)}


def _connected_masks(graph: Graph, node: int, rows: list[int]) -> Iterator[int]:
    """The same, each set as the bits of a number; ``rows`` fills up with the row of each bit."""
    place: dict[int, int] = {}
    near: list[int] = []

    def bit(row: int) -> int:
        if row not in place:
            place[row] = len(rows)
            rows.append(row)
        return 1 << place[row]

    def neighbours(k: int) -> int:
        while len(near) <= k:
            near.append(sum(map(bit, sorted(graph[rows[len(near)]]))))
        return near[k]

    level = {bit(node): neighbours(0)}
    while level:
        yield from level
        larger: dict[int, int] = {}
        for mask, touching in level.items():
            for other in _bits(touching):
                grown = mask | 1 << other
                if grown not in larger:
                    larger[grown] = (touching | neighbours(other)) & ~grown
        level = larger


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def boundary(graph: Graph, side: Set[int]) -> list[int]:
    """The rows outside ``side`` that touch it."""
    return sorted({other for member in side for other in graph[member]} - side)


def side_of(graph: Graph, node: int, quilt: Set[int]) -> set[int]:
    """The rows that a path from ``node`` reaches without entering ``quilt``, the node included."""
    side, front = {node}, [node]
    while front:
        for other in graph[front.pop()]:
            if other not in side and other not in quilt:
                side.add(other)
                front.append(other)
    return side


def refuse_many(count: int, *, of: str, most: int = MOST_QUILTS) -> None:
    """Refuse to list too many quilts, before it starts."""
    if count > most:
        raise InvalidArgument("i", f"a row with at most {most:,} quilts to list", count, of=of)


def count_sets(graph: Graph, node: int) -> int:
    """How many connected sets contain ``node``; with loops counting stops above ``MOST_QUILTS``.

    Without loops a set takes or leaves each branch, and in the branch it takes one of its connected sets.
    """
    component = side_of(graph, node, frozenset())
    links = sum(len(graph[member]) for member in component) // 2
    if links == len(component) - 1:
        return _count_branch(graph, node)
    return sum(1 for _ in islice(_connected_masks(graph, node, []), MOST_QUILTS + 1))


def _count_branch(graph: Graph, node: int) -> int:
    order, parent = [node], {node: node}
    for member in order:
        for other in graph[member]:
            if other not in parent:
                parent[other] = member
                order.append(other)
    counts = dict.fromkeys(order, 1)
    for member in reversed(order[1:]):
        counts[parent[member]] *= 1 + counts[member]
    return counts[node]


@dataclass(frozen=True, eq=False)
class NetworkQuilts:
    """The smallest influence of a quilt of each size, for every row.

    Small networks: all quilts. Large ones: the nearest, as many for each row as fit into a few seconds for
    all of them; BDP Lemma 2 holds for any set of quilts. The empty quilt, with all rows that are connected to
    the row nearby, always counts.
    """

    factors: Sequence[Factor]
    graph: Graph
    cards: Sequence[int]
    components: Sequence[Sequence[int]]
    tree: Forest | None
    of: str

    @cached_property
    def _inside(self) -> dict[int, list[Factor]]:
        """The factors of each row's component."""
        groups: dict[int, list[Factor]] = {}
        for component in self.components:
            shared: list[Factor] = []
            for node in component:
                groups[node] = shared
        for item in self.factors:
            groups[item.scope[0]].append(item)
        return groups

    def quilt_influence(self, node: int, quilt: Sequence[int], nearby: Sequence[int]) -> float:
        """b = max over L ⊆ nearby of I(quilt ⇝ node | L); the three together are connected."""
        if not quilt:
            return 0.0
        rows = (node, *quilt, *nearby)
        joint = self.joint(node, quilt, nearby) if self.tree is None else self.tree.local(rows)
        return largest_influence(joint, len(quilt))

    def joint(self, node: int, first: Sequence[int], second: Sequence[int]) -> Array:
        """ln of the joint law of the node and the others, in this order, up to a constant."""
        asked = {node, *first, *second}
        factors = [
            item
            for inside in {id(self._inside[row]): self._inside[row] for row in asked}.values()
            for item in inside
        ]
        return log_joint(factors, (node, *first, *second), self.cards, of=self.of)

    @cached_property
    def _least(self) -> tuple[Array, Array]:
        """For every row the sizes of its quilts' own sides, and the smallest influence of each size."""
        budget = _QUILTS / len(self.cards)
        lines = {
            node: self._line(node, len(component), budget)
            for component in self.components
            for node in component
        }
        widest = max(map(len, lines.values()))
        sizes, influences = np.ones((len(lines), widest)), np.full((len(lines), widest), np.inf)
        for node, line in lines.items():
            sizes[node, : len(line)] = list(line)
            influences[node, : len(line)] = list(line.values())
        return sizes, influences

    def _line(self, node: int, whole: int, budget: float) -> dict[int, float]:
        line = {whole: 0.0}
        for side in connected_sets(self.graph, node):
            if len(side) == whole:
                break
            if len(side) == 1 and self.tree is not None:
                line[1] = float(self.tree.blanket_influences[node])
                if self._cheapest_beyond(node) > budget:
                    break
                continue
            quilt, nearby = boundary(self.graph, side), sorted(side - {node})
            budget -= self._cost(node, quilt, nearby, whole)
            if budget < 0.0 and not (len(side) == 1 and self.blankets_fit):
                break
            influence_here = self.quilt_influence(node, quilt, nearby)
            line[len(side)] = min(line.get(len(side), math.inf), influence_here)
        return line

    def _cost(self, node: int, quilt: Sequence[int], nearby: Sequence[int], whole: int) -> float:
        table = cells((node, *quilt), self.cards) * math.prod(self.cards[other] + 1 for other in nearby)
        looked_at = whole if self.tree is None else 1 + len(quilt) + len(nearby)
        return _PER_NODE * looked_at + _PER_CELL * min(table, MOST_CELLS * 1000)

    def _cheapest_beyond(self, node: int) -> float:
        """The least cost, on a tree, of a side that has more rows than ``node``. Listing the first such side
        to find out takes long if a neighbour has many neighbours."""
        return _PER_NODE * (len(self.graph[node]) + min(len(self.graph[other]) for other in self.graph[node]))

    @cached_property
    def blankets_fit(self) -> bool:
        """Whether there is time for every row's blanket; on a tree a blanket costs nothing."""
        if self.tree is not None:
            return True
        costs = (
            self._cost(node, sorted(self.graph[node]), (), len(component))
            for component in self.components
            for node in component
        )
        return sum(costs) <= _BLANKETS

    def bayesian_dp(self, epsilon: float, weight: float) -> float:
        """max over rows of min over quilts of (|N|+1)ε + ``weight``·b; rounded up."""
        sizes, influences = self._least
        return rounding.up(float((sizes * epsilon + weight * influences).min(axis=1).max()))

    def required_dp(self, epsilon: float, weight: float) -> float:
        """min over rows of max over quilts of (ε − ``weight``·b)/(|N|+1); rounded down."""
        sizes, influences = self._least
        return rounding.down(float(((epsilon - weight * influences) / sizes).max(axis=1).min()))

    @cached_property
    def blanket_influence(self) -> float:
        """The largest influence of a row on its blanket."""
        if self.tree is not None:
            return float(self.tree.blanket_influences.max())
        return max(self.quilt_influence(node, sorted(self.graph[node]), ()) for node in self.graph)
