"""Reading a graph, however it is given, as pairs of row numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.errors import InvalidArgument

Edges = NDArray[np.int64]

_FORMS = (
    "a list of pairs of row numbers together with n, a dictionary {row: neighbours}, a square numpy or "
    "scipy sparse matrix, or an object with nodes and edges"
)


def read_graph(graph: Any, n: Any) -> tuple[int, Edges]:
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
