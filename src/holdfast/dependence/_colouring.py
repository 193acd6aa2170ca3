"""Covering a graph by groups of pairwise non-adjacent rows: the fractional chromatic number, bounds on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import rounding
from holdfast.dependence._edges import Edges
from holdfast.records import Record

# The linear program has one column for each maximal group; beyond these sizes the colouring alone is used.
_LARGEST_COMPONENT = 120
_MOST_GROUPS = 20_000
_MOST_PROGRAMS = 64
_LARGEST_COLOURING = 3_000_000


@dataclass(frozen=True, repr=False)
class ChromaticNumber(Record):
    """An upper bound on the fractional chromatic number and how it was found.

    ``method`` is "exact" (linear programming over maximal groups, or a clique as large as the colouring),
    "greedy colouring" or "maximum degree + 1". ``class_sizes`` are the sizes of the groups of the colouring,
    a partition of the rows (empty where no colouring was made).
    """

    value: float
    method: str
    class_sizes: tuple[int, ...]


def chromatic_number(n: int, edges: Edges) -> ChromaticNumber:
    """The fractional chromatic number of a graph, exact if it is small, else a safe upper bound.

    Guarantee: ``value`` is never below the fractional chromatic number.
    Reference: Scheinerman and Ullman 1997, chapter 3 (the linear program); Matula and Beck 1983
    (smallest-last order).

    >>> five_cycle = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]])
    >>> found = chromatic_number(5, five_cycle)
    >>> round(found.value, 9), found.method
    (2.5, 'exact')
    """
    if n + len(edges) > _LARGEST_COLOURING:
        degrees = np.bincount(edges.ravel(), minlength=n)
        return ChromaticNumber(float(degrees.max() + 1), "maximum degree + 1", ())
    near = neighbour_lists(n, edges)
    colours = np.array(_greedy(near), dtype=np.int64)
    value, exact = _largest_over_components(near, colours)
    sizes = tuple(int(size) for size in np.bincount(colours))
    return ChromaticNumber(value, "exact" if exact else "greedy colouring", sizes)


def neighbour_lists(n: int, edges: Edges) -> list[list[int]]:
    """For every row, its neighbours."""
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in edges.tolist():
        near[i].append(j)
        near[j].append(i)
    return near


def _greedy(near: list[list[int]]) -> list[int]:
    """Colour the rows in smallest-last order: at most maximum degree + 1 colours, and two on a forest."""
    degree = [len(adjacent) for adjacent in near]
    buckets: list[list[int]] = [[] for _ in range(max(degree) + 1)]
    for row, size in enumerate(degree):
        buckets[size].append(row)
    removed = [False] * len(near)
    order: list[int] = []
    lowest = 0
    while len(order) < len(near):
        while not buckets[lowest]:
            lowest += 1
        row = buckets[lowest].pop()
        if removed[row] or degree[row] != lowest:
            continue
        removed[row] = True
        order.append(row)
        for other in near[row]:
            if not removed[other]:
                degree[other] -= 1
                buckets[degree[other]].append(other)
        lowest = max(0, lowest - 1)
    colour = [-1] * len(near)
    for row in reversed(order):
        taken = {colour[other] for other in near[row]}
        colour[row] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colour


def _components(near: list[list[int]]) -> list[list[int]]:
    seen = [False] * len(near)
    found = []
    for start in range(len(near)):
        if seen[start]:
            continue
        seen[start] = True
        component = [start]
        for row in component:
            for other in near[row]:
                if not seen[other]:
                    seen[other] = True
                    component.append(other)
        found.append(component)
    return found


def _largest_over_components(near: list[list[int]], colours: NDArray[np.int64]) -> tuple[float, bool]:
    """The largest value over the connected components, and whether it is exact."""
    bounds = [(int(colours[component].max()) + 1, component) for component in _components(near)]
    bounds.sort(key=lambda pair: -pair[0])
    certain, unsure, solved = 1.0, 0.0, 0
    known: dict[tuple[tuple[int, ...], ...], float | None] = {}
    for bound, component in bounds:
        if bound <= max(certain, unsure):
            break
        if bound <= 2:
            certain = 2.0
            continue
        place = {row: i for i, row in enumerate(sorted(component))}
        shape = tuple(tuple(sorted(place[other] for other in near[row])) for row in sorted(component))
        if shape not in known:
            known[shape] = None
            if len(component) <= _LARGEST_COMPONENT and solved < _MOST_PROGRAMS:
                solved += 1
                known[shape] = _exact(shape, bound)
        value = known[shape]
        if value is None:
            unsure = max(unsure, float(bound))
        else:
            certain = max(certain, value)
    return max(certain, unsure), certain >= unsure


def _exact(near: tuple[tuple[int, ...], ...], colours: int) -> float | None:
    """The value for one component, or None where there are too many maximal groups."""
    if colours == _greedy_clique(near):
        return float(colours)
    groups = _maximal_groups(near)
    return None if groups is None else min(float(colours), _program(len(near), groups))


def _greedy_clique(near: tuple[tuple[int, ...], ...]) -> int:
    """The size of some clique, a lower bound on the chromatic number."""
    adjacent = [set(rows) for rows in near]
    largest = 1
    for start in range(len(near)):
        common, size = set(adjacent[start]), 1
        while common:
            row = max(common, key=lambda r: len(adjacent[r] & common))
            common &= adjacent[row]
            size += 1
        largest = max(largest, size)
    return largest


def _maximal_groups(near: tuple[tuple[int, ...], ...]) -> list[int] | None:
    """All maximal groups of pairwise non-adjacent rows as bit masks (Bron–Kerbosch), or None if too many."""
    everything = (1 << len(near)) - 1
    apart = [everything & ~(1 << row) & ~sum(1 << other for other in near[row]) for row in range(len(near))]
    groups: list[int] = []
    stack = [(0, everything, 0)]
    while stack:
        group, open_rows, closed = stack.pop()
        if not open_rows and not closed:
            groups.append(group)
            if len(groups) > _MOST_GROUPS:
                return None
            continue
        pivot = max(_bits(open_rows | closed), key=lambda row: (apart[row] & open_rows).bit_count())
        for row in _bits(open_rows & ~apart[pivot]):
            bit = 1 << row
            stack.append((group | bit, open_rows & apart[row], closed & apart[row]))
            open_rows &= ~bit
            closed |= bit
    return groups


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _program(n: int, groups: list[int]) -> float:
    """The least total weight of groups that cover every row; the solver's error is put on the safe side."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    members = [_bits(group) for group in groups]
    columns = np.repeat(np.arange(len(groups)), [len(rows) for rows in members])
    cover: Any = csr_array(
        (np.ones(len(columns)), (np.concatenate(members), columns)), shape=(n, len(groups))
    )
    weights = np.maximum(linprog(np.ones(len(groups)), A_ub=-cover, b_ub=-np.ones(n), method="highs").x, 0.0)
    # Dividing by the least covered row makes the weights a true cover, whatever the solver's tolerance.
    return rounding.up(float(weights.sum() / (cover @ weights).min()))
