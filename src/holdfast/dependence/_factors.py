"""Factors of a joint law, in logarithms, and sums over the nodes that are not asked about."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument

Array = NDArray[np.float64]

MOST_CELLS = 1 << 24


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
    """Say before it starts that an enumeration would be too large, and how large."""
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
