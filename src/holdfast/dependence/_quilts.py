"""Markov quilts: sets of rows that keep a row apart from the remote ones (BDP 2.4)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.records import Record

MOST_QUILTS = 1 << 16


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


def connected_sets(graph: Graph, node: int) -> Iterator[frozenset[int]]:
    """Every connected set of rows that contains ``node``, the smallest first.

    With its neighbours as the quilt each is the node's own side of one, and no other quilts are needed: where
    a row of a quilt touches nothing on the node's side, leaving it to the remote rows changes no nearby row,
    and the influence on fewer rows is smaller.
    """
    level = [frozenset((node,))]
    yield level[0]
    while level:
        larger: dict[frozenset[int], None] = {}
        for side in level:
            for other in boundary(graph, side):
                grown = side | {other}
                if grown not in larger:
                    larger[grown] = None
                    yield grown
        level = list(larger)


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


def refuse_many(count: int, *, of: str) -> None:
    """Say before it starts that there are too many quilts to list."""
    if count > MOST_QUILTS:
        raise InvalidArgument("node", f"a node with at most {MOST_QUILTS:,} quilts to list", count, of=of)


def count_sets(graph: Graph, node: int) -> int:
    """How many connected sets contain ``node``: exact without loops, else counted up to the limit.

    Without loops a set takes or leaves each branch, and in the branch it takes one of its connected sets.
    Counting the others stops early: once there are too many, the number given is the largest possible, that
    of all sets of connected rows.
    """
    component = side_of(graph, node, frozenset())
    links = sum(len(graph[member]) for member in component) // 2
    if links == len(component) - 1:
        return _count_branch(graph, node)
    for count, _ in enumerate(connected_sets(graph, node), start=1):
        if count > MOST_QUILTS:
            return int(2 ** (len(component) - 1))
    return count


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
