"""The quilts of every row of a network, as far as there is time for them (BDP Lemmas 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast import rounding
from holdfast.dependence._factors import MOST_CELLS, Array, Factor, cells, log_joint
from holdfast.dependence._influence import largest_influence
from holdfast.dependence._quilts import Graph, boundary, connected_sets
from holdfast.dependence._tree import Forest

# Rough costs in microseconds, fixed numbers so that the same network always has the same bound.
_BLANKETS, _QUILTS = 4e6, 2e6
_PER_NODE, _PER_CELL = 100.0, 0.05


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
            found = self.quilt_influence(node, quilt, nearby)
            line[len(side)] = min(line.get(len(side), math.inf), found)
        return line

    def _cost(self, node: int, quilt: Sequence[int], nearby: Sequence[int], whole: int) -> float:
        table = cells((node, *quilt), self.cards) * math.prod(self.cards[other] + 1 for other in nearby)
        looked_at = whole if self.tree is None else 1 + len(quilt) + len(nearby)
        return _PER_NODE * looked_at + _PER_CELL * min(table, MOST_CELLS * 1000)

    def _cheapest_beyond(self, node: int) -> float:
        """On a tree, what a side with the row and others costs at least: listing the first such side alone
        takes long where a neighbour has many neighbours."""
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
