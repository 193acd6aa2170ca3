"""Networks without a loop: exact messages, the law of a child given its parent, the chain bound on trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.dependence._coupling import carried
from holdfast.dependence._factors import Array, Factor, log_sum
from holdfast.dependence._pairs import carried_by_pairs, pair_roots

_SLACK = 1e-13


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
        found = {}
        for node, pair in self.pairs.items():
            above, here = self._whole[self.parent[node]], self._whole[node]
            with np.errstate(invalid="ignore"):
                kernel = pair + self._upward[0][node]
                kernel = kernel - log_sum(kernel, axis=1, keepdims=True)
                link = kernel - self._own[node]
            found[node] = np.where(np.isfinite(above)[:, None] & np.isfinite(here), link, -np.inf)
        return found

    def kernel(self, node: int) -> Array:
        """The law of ``node`` given its parent, one line for each possible value of the parent."""
        logs = self.pairs[node] + self._upward[0][node]
        logs = logs[np.isfinite(self._whole[self.parent[node]])]
        kernel: Array = np.exp(logs - log_sum(logs, axis=1, keepdims=True))
        return kernel

    @cached_property
    def roots(self) -> dict[int, float]:
        """√κ of each edge, by its lower node: the least over pairs of values that are possible."""
        return {node: float(upper.min()) for node, (upper, _) in self._pair_roots.items()}

    @cached_property
    def _pair_roots(self) -> dict[int, tuple[Array, Array]]:
        """√κ of each edge for pairs of possible values of its upper and of its lower node."""
        found = {}
        for node, pair in self.pairs.items():
            logs = pair[self._states[self.parent[node]]][:, self._states[node]]
            table = np.exp(logs - logs.max())
            known = not ((table == 0.0) & np.isfinite(logs)).any()
            # An entry too small to tell from zero could make any cross ratio, so it makes them all zero.
            found[node] = (pair_roots(table) * known, pair_roots(table.T) * known)
        return found

    @cached_property
    def _states(self) -> tuple[NDArray[np.int64], ...]:
        """The possible values of each node."""
        return tuple(np.flatnonzero(np.isfinite(logs)) for logs in self._whole)

    def bayesian_dp(self, epsilon: float) -> float:
        """The Bayesian DP of an ``epsilon``-DP mechanism: max over rows of ε + Σ L over their neighbours.

        L(u→v), what a change of row u does through its neighbour v, is ``carried`` at ε + Σ L(v→w) over v's
        other neighbours; first the branches below each node, then the one above.
        """
        size = len(self.order)
        below = [0.0] * size
        down = [0.0] * size
        for node in reversed(self.order):
            above = self.parent[node]
            if above >= 0:
                down[node] = carried(rounding.up(epsilon + below[node]), self.roots[node])
                below[above] += down[node]
        total = below
        for node in self.order:
            above = self.parent[node]
            if above >= 0:
                rest = max(0.0, total[above] - down[node]) + _SLACK * total[above]
                total[node] += carried(rounding.up(epsilon + rest), self.roots[node])
        return rounding.up(epsilon + max(total))

    def pairs_bdp(self, epsilon: float) -> float:
        """The same pair by pair: L(u→v) is a table over pairs of values of u, and what lies beyond v is the
        largest over pairs of values of v of the sum over its other neighbours. At most ``bayesian_dp``."""
        total = [np.zeros((len(here), len(here))) for here in self._states]
        down = {}
        for node in reversed(self.order):
            above = self.parent[node]
            if above >= 0:
                down[node] = carried_by_pairs(epsilon + float(total[node].max()), self._pair_roots[node][0])
                total[above] = total[above] + down[node]
        for node in self.order:
            above = self.parent[node]
            if above >= 0:
                rest = float((total[above] - down[node]).max()) + _SLACK * float(total[above].max())
                beyond = epsilon + max(0.0, rest)
                total[node] = total[node] + carried_by_pairs(beyond, self._pair_roots[node][1])
        bound = rounding.up((epsilon + max(float(table.max()) for table in total)) * (1.0 + _SLACK))
        return min(bound, self.bayesian_dp(epsilon))


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
