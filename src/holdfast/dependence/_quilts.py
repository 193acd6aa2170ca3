"""Markov quilts: sets of rows that keep a row apart from the remote ones (BDP 2.4)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice
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


def connected_sets(graph: Graph, node: int) -> Iterator[set[int]]:
    """Every connected set of rows that contains ``node``, the smallest first.

    With its neighbours as the quilt each is the node's own side of one, and no other quilts are needed: where
    a row of a quilt touches nothing on the node's side, leaving it to the remote rows changes no nearby row,
    and the influence on fewer rows is smaller.
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
    """Say before it starts that there are too many quilts to list."""
    if count > most:
        raise InvalidArgument("i", f"one with at most {most:,} quilts to list", count, of=of)


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
