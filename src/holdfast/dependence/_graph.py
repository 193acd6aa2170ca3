"""Dependency graphs: rows that are independent unless an edge joins them.

The chromatic numbers of the graph bound the tail of a mean; a cut of the graph sets rows aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._model import (
    Dependence,
    Mask,
    Split,
    check_split,
    few,
    from_squared_differences,
)
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.tails import TailRow
from holdfast.typing import HasEdges

_JANSON = "Janson 2004, theorem 2.1"
_SWEEPS = 8
_LARGE = 500_000
Edges = NDArray[np.int64]

_FORMS = (
    "a list of pairs of row numbers together with n, a dictionary {row: neighbours}, a square numpy or "
    "scipy sparse matrix, or an object with nodes and edges"
)
# The linear program has one column for each maximal group; beyond these sizes the colouring alone is used.
_LARGEST_COMPONENT = 120
_MOST_GROUPS = 20_000
_MOST_PROGRAMS = 64
_LARGEST_COLOURING = 3_000_000


@dataclass(frozen=True, repr=False)
class DependencyGraph(Dependence):
    """Rows that may depend on each other are joined by an edge. Rows of which no two are joined are
    independent.

    ``graph`` is a list of pairs of row numbers (with ``n``), a dictionary {row: neighbours}, a square numpy
    or scipy sparse matrix whose non-zero entries are edges, or any object with ``nodes`` and ``edges``. Rows
    are numbered from 0.

    >>> five_cycle = DependencyGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], n=5)
    >>> round(five_cycle.chromatic.value, 9), five_cycle.chromatic.method
    (2.5, 'exact')
    """

    graph: HasEdges | Mapping[int, Iterable[int]] | Iterable[Any] = field(compare=False)
    n: int = None  # type: ignore[assignment]  # read from the graph where it says how many rows there are
    _content: bytes = field(init=False, repr=False)

    name: ClassVar[str] = "dependency graph"

    def __post_init__(self) -> None:
        n, edges = read_graph(self.graph, self.n)
        edges.setflags(write=False)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "graph", edges)
        object.__setattr__(self, "_content", edges.tobytes())

    @property
    def edges(self) -> Edges:
        """The edges as pairs of row numbers i < j, sorted."""
        return np.asarray(self.graph)

    def _content_of_law(self) -> tuple[Any, ...]:
        return self.n, self.edges

    @property
    def _parameters(self) -> tuple[str, ...]:
        degree = int(np.bincount(self.edges.ravel()).max()) if len(self.edges) else 0
        listed = few(self.edges, "", most=24) if len(self.edges) else ""
        return (f"{len(self.edges):,} edges{f' {listed}' if listed else ''}, at most {degree:,} at one row",)

    def _visible(self) -> dict[str, Any]:
        return {"n": self.n, "edges": self.edges.tolist()}

    def __repr__(self) -> str:
        return f"DependencyGraph(n={self.n}, edges={len(self.edges)})"

    @cached_property
    def chromatic(self) -> ChromaticNumber:
        """The fractional chromatic number, or a safe upper bound on it, and which of the two it is."""
        return chromatic_number(self.n, self.edges)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"Rows of which no two are joined by one of the graph's {len(self.edges):,} edges are mutually "
            "independent.",
        )

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        value, method = self.chromatic.value, self.chromatic.method
        spread = (hi - lo) ** 2
        cover = from_squared_differences(value * spread / self.n)
        rows = [TailRow("fractional chromatic number", f"{_JANSON}; χ = {value:.6g} ({method})", cover)]
        if self.chromatic.class_sizes:
            # Janson's proof before its last step, Cauchy–Schwarz: with groups A_j the exponent is −2t²/T²,
            # T = Σ_j √(Σ_{i∈A_j} c_i²), which is smaller where the groups differ much in size.
            total = float(np.sqrt(np.array(self.chromatic.class_sizes, dtype=float)).sum()) / self.n
            groups = from_squared_differences(total * total * spread)
            rows.append(
                TailRow("groups of a colouring", f"{_JANSON}, its proof with the groups' sizes", groups)
            )
        return tuple(rows)

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Two parts with no edge between them; the rows that would join them are dropped.

        Proof that the bias is 0: the cut is made from the graph alone, and two groups of rows without an edge
        between them are independent. That is more than ``mean_tail`` assumes (three fair coins, the third the
        sum of the other two, are pairwise independent), so the split states it as an assumption of its own.

        Args:
            rng: The source of random numbers.

        >>> path = DependencyGraph([(i, i + 1) for i in range(99)], n=100)
        >>> parts = path.split(0.5, np.random.default_rng(0))
        >>> parts.dropped, parts.bias
        (1, 0.0)
        """
        share, rng, _ = check_split(share, rng, beta, of="DependencyGraph")
        cut = best_cut(self.n, self.edges, share, rng)
        if cut is None:
            raise InvalidArgument(
                "dependence",
                "a graph that can be cut into two parts with no edge between them; here give the training "
                "part yourself (train=…) or bring a guess with every question",
                repr(self),
                reference="docs/theory/dependence.md, Setting a training part aside",
            )
        train, protected = cut
        place = np.cumsum(protected) - 1
        inside = protected[self.edges].all(axis=1)
        rest = DependencyGraph(
            place[self.edges[inside]], n=int(protected.sum()), extra_assumptions=self.extra_assumptions
        )
        joint = (
            "Two groups of rows with no edge of the given graph between them are independent of each other."
        )
        return Split(train, protected, rest, 0.0, (*self.assumptions, joint))


def best_cut(n: int, edges: Edges, share: float, rng: np.random.Generator) -> tuple[Mask, Mask] | None:
    """The best cut over several sweeps as (training part, protected part), or None for a complete graph.

    A sweep puts the rows in an order in which neighbours stand close (reverse Cuthill–McKee after a random
    renaming) and tries every prefix as the training part; the other rows that touch it are dropped. The best
    cut has the largest min(training / share, protected / (1 − share)). The order ends with a row of least
    degree and its neighbours, so unless all rows are joined the rows before those give a cut.
    """
    best, best_value = None, 0.0
    for _ in range(_SWEEPS if n + len(edges) <= _LARGE else 1):
        place = _places(n, edges, rng)
        value, train, protected = _sweep(n, place[edges], share)
        if value > best_value:
            best, best_value = (train[place], protected[place]), value
    return best


def _places(n: int, edges: Edges, rng: np.random.Generator) -> NDArray[np.int64]:
    """Where each row stands in the order of one sweep."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    renamed = rng.permutation(n)
    ends = renamed[edges]
    both = np.concatenate([ends, ends[:, ::-1]])
    matrix = csr_array((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n, n))
    place = np.empty(n, dtype=np.int64)
    place[reverse_cuthill_mckee(matrix, symmetric_mode=True)] = np.arange(n)
    return place[renamed]


def _sweep(n: int, ends: Edges, share: float) -> tuple[float, Mask, Mask]:
    """The best prefix, with the rows numbered in the order of the sweep."""
    rows = np.arange(n)
    first = rows.copy()
    np.minimum.at(first, ends.max(axis=1), ends.min(axis=1))
    # Row p outside the prefix of length k touches it when first[p] < k ≤ p.
    change = np.zeros(n + 2, dtype=np.int64)
    np.add.at(change, first + 1, 1)
    np.add.at(change, rows + 1, -1)
    prefix = np.arange(n + 1)
    touching = np.cumsum(change)[: n + 1]
    value = np.minimum(prefix / share, (n - prefix - touching) / (1.0 - share))
    k = int(value.argmax())
    return float(value[k]), rows < k, (rows >= k) & (first >= k)


def read_graph(
    graph: HasEdges | Mapping[int, Iterable[int]] | Iterable[Any], n: int | None
) -> tuple[int, Edges]:
    """The number of rows and the edges as sorted unique pairs i < j, without edges from a row to itself."""
    if n is not None:
        n = checks.whole(n, "n", of="DependencyGraph")
    if hasattr(graph, "tocoo") and hasattr(graph, "shape"):
        rows, pairs = _from_sparse(graph)
    elif hasattr(graph, "nodes") and hasattr(graph, "edges"):
        rows, pairs = _from_nodes(graph)
    elif isinstance(graph, Mapping):
        rows, pairs = _from_mapping(graph, n)
    elif (
        isinstance(graph, np.ndarray)
        and graph.ndim == 2
        and graph.shape[0] == graph.shape[1]
        and n in (None, len(graph))
    ):
        rows, pairs = _from_matrix(graph)
    elif n is not None and isinstance(graph, Iterable) and not isinstance(graph, (str, bytes)):
        rows, pairs = n, _as_pairs(graph)
    else:
        raise InvalidArgument("graph", _FORMS, graph, of="DependencyGraph")
    if n is not None and n != rows:
        raise InvalidArgument("n", f"{rows}, the number of rows of the graph", n, of="DependencyGraph")
    if rows < 1:
        raise InvalidArgument("graph", "a graph on at least one row", graph, of="DependencyGraph")
    return rows, _canonical(pairs, rows)


def _canonical(pairs: Edges, n: int) -> Edges:
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < n):
        outside = pairs[(pairs < 0) | (pairs >= n)][0]
        raise InvalidArgument(
            "graph", f"edges between row numbers 0 to {n - 1}", int(outside), of="DependencyGraph"
        )
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    keys = np.unique(pairs[:, 0] * n + pairs[:, 1])
    return np.stack(np.divmod(keys, n), axis=1)


def _as_pairs(edges: Iterable[Any]) -> Edges:
    numbers = edges if isinstance(edges, np.ndarray) else list(edges)
    if len(numbers) == 0:
        return np.empty((0, 2), dtype=np.int64)
    try:
        array = np.asarray(numbers)
    except ValueError:
        array = np.empty(0)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InvalidArgument(
            "graph", "edges that are pairs of row numbers (0, 1, …)", edges, of="DependencyGraph"
        )
    return array.astype(np.int64)


def _from_matrix(matrix: NDArray[Any]) -> tuple[int, Edges]:
    if matrix.dtype.kind not in "biuf" or not np.isfinite(matrix).all():
        raise InvalidArgument("graph", "a matrix of finite numbers", matrix, of="DependencyGraph")
    return len(matrix), np.argwhere(matrix != 0).astype(np.int64)


def _from_sparse(matrix: Any) -> tuple[int, Edges]:
    entries = matrix.tocoo()
    if matrix.shape[0] != matrix.shape[1] or not np.isfinite(entries.data).all():
        raise InvalidArgument("graph", "a square matrix of finite numbers", matrix, of="DependencyGraph")
    pairs = np.stack([entries.row, entries.col], axis=1).astype(np.int64)
    return int(matrix.shape[0]), pairs[entries.data != 0]


def _from_mapping(neighbours: Mapping[Any, Any], n: int | None) -> tuple[int, Edges]:
    rows = n if n is not None else _count_rows(list(neighbours))
    return rows, _as_pairs(
        list(chain.from_iterable(((i, j) for j in near) for i, near in neighbours.items()))
    )


def _from_nodes(graph: Any) -> tuple[int, Edges]:
    nodes = graph.nodes() if callable(graph.nodes) else graph.nodes
    edges = graph.edges() if callable(graph.edges) else graph.edges
    # Graphs with several edges between two nodes give a key as a third entry.
    return _count_rows(list(nodes)), _as_pairs([tuple(edge)[:2] for edge in edges])


def _count_rows(nodes: list[Any]) -> int:
    if {node for node in nodes if not isinstance(node, bool)} != set(range(len(nodes))):
        raise InvalidArgument(
            "graph",
            "a graph whose nodes are the row numbers 0 to n − 1, every row among them",
            nodes[:10],
            of="DependencyGraph",
        )
    return len(nodes)


@dataclass(frozen=True, repr=False)
class ChromaticNumber(Record):
    """An upper bound on the fractional chromatic number and how it was found.

    ``method`` is "exact" (linear programming over maximal groups, or a clique as large as the colouring),
    "greedy colouring" or "maximum degree + 1". ``class_sizes`` are the sizes of the groups of the colouring,
    a partition of the rows (empty where no colouring was made).

    Args:
        value: The bound, at least the true fractional chromatic number.
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
    groups = []
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
        groups.append(component)
    return groups


def _largest_over_components(near: list[list[int]], colours: NDArray[np.int64]) -> tuple[float, bool]:
    """The largest value over the connected components, and whether it is exact."""
    bounds = [(int(colours[component].max()) + 1, component) for component in _components(near)]
    bounds.sort(key=lambda pair: -pair[0])
    certain, unsure, solved = 1.0, 0.0, 0
    cached_numbers: dict[tuple[tuple[int, ...], ...], float | None] = {}
    for bound, component in bounds:
        if bound <= max(certain, unsure):
            break
        if bound <= 2:
            certain = 2.0
            continue
        place = {row: i for i, row in enumerate(sorted(component))}
        shape = tuple(tuple(sorted(place[other] for other in near[row])) for row in sorted(component))
        if shape not in cached_numbers:
            cached_numbers[shape] = None
            if len(component) <= _LARGEST_COMPONENT and solved < _MOST_PROGRAMS:
                solved += 1
                cached_numbers[shape] = _exact(shape, bound)
        value = cached_numbers[shape]
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
    members = []
    while mask:
        low = mask & -mask
        members.append(low.bit_length() - 1)
        mask ^= low
    return members


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
