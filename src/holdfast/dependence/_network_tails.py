"""How a change of one row spreads over a network: totals for bounds of McDiarmid's kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from holdfast.dependence._factors import Array, Factor, cells, log_sum
from holdfast.dependence._quilts import Graph

Arrows = Mapping[int, Sequence[tuple[int, float]]]

_SLACK = 1.0 + 1e-9
_MOST_CONDITIONAL = 1 << 16
_DENSE = 600
_SWEEPS, _HOPELESS = 1000, 1e6


def along_arrows(
    order: Sequence[int], children: Arrows, components: Sequence[Sequence[int]], c: Array
) -> Array:
    """Γc, revealing parents before children: (Γc)_i = c_i + Σ_v θ_iv (Γc)_v over i's children v.

    θ_iv bounds the total variation between the laws of v for two values of i, its other parents the same. Run
    two copies from two values of row i, each node by a maximal coupling: a node whose parents agree agrees,
    and one whose parents differ in D differs with probability at most Σ_{p∈D} θ_pv. Rows that i's arrows do
    not reach have the law that the earlier rows give them. No row moves more than its whole component.
    """
    total = np.empty(len(c))
    for component in components:
        total[list(component)] = c[list(component)].sum()
    spread = np.zeros(len(c))
    for node in reversed(order):
        reached = c[node] + sum(theta * spread[child] for child, theta in children[node])
        spread[node] = min(total[node], reached * _SLACK)
    return spread


def single_site_influences(
    factors: Sequence[Factor], graph: Graph, cards: Sequence[int]
) -> dict[tuple[int, int], float] | None:
    """D_jk: the largest total variation between the laws of row j given all others, for two values of row k.

    None where a factor vanishes, so that some of these laws are not defined, or a table would be large.
    """
    touching: dict[int, list[Factor]] = {node: [] for node in graph}
    for item in factors:
        if not np.isfinite(item.logs).all():
            return None
        for node in item.scope:
            touching[node].append(item)
    if any(cells({node, *near}, cards) > _MOST_CONDITIONAL for node, near in graph.items()):
        return None
    found = {}
    for node, near in graph.items():
        scope = sorted({node, *near})
        axis = scope.index(node)
        logs = np.zeros([cards[member] for member in scope])
        for item in touching[node]:
            logs = logs + item.over(scope)
        law = np.exp(logs - log_sum(logs, axis=axis, keepdims=True))
        for other in near:
            moved = np.moveaxis(law, (axis, scope.index(other)), (0, 1))
            found[node, other] = max(
                (
                    float(np.abs(moved[:, a] - moved[:, b]).sum(axis=0).max()) / 2.0
                    for a in range(cards[other])
                    for b in range(a)
                ),
                default=0.0,
            )
    return found


def by_comparison(
    influences: Mapping[tuple[int, int], float], components: Sequence[Sequence[int]], c: Array
) -> Array | None:
    """Γc by Dobrushin's comparison, revealing the rows in order; None where it does not contract.

    Start from any coupling of the rows after i under two values of row i, and resample one row after the
    other by a maximal coupling of its law given the others. The probabilities r_j that row j differs come
    down to r ≤ Dr + D_·i on those rows, hence r ≤ (1 − D)⁻¹D_·i.
    """
    found = np.empty(len(c))
    for component in components:
        place = {node: k for k, node in enumerate(component)}
        entries = {(place[j], place[k]): value * _SLACK for (j, k), value in influences.items() if j in place}
        here = c[list(component)]
        spread = _in_order(entries, here) if len(component) <= _DENSE else _all_others(entries, here)
        if spread is None:
            return None
        found[list(component)] = np.minimum(spread * _SLACK, here.sum())
    return found


def _in_order(entries: Mapping[tuple[int, int], float], c: Array) -> Array | None:
    """Grow (1 − D)⁻¹ by one row at a time, from the last to the first."""
    size = len(c)
    matrix = np.zeros((size, size))
    for (j, k), value in entries.items():
        matrix[j, k] = value
    inverse = np.zeros((size, size))
    spread = np.empty(size)
    for i in range(size - 1, -1, -1):
        rest = inverse[i + 1 :, i + 1 :]
        column = rest @ matrix[i + 1 :, i]
        row = matrix[i, i + 1 :] @ rest
        spread[i] = c[i] + float(c[i + 1 :] @ column)
        pivot = 1.0 - float(matrix[i, i + 1 :] @ column)
        if i and not pivot > 1e-6:
            return None
        inverse[i, i] = 1.0 / pivot if i else 1.0
        inverse[i, i + 1 :] = row / pivot
        inverse[i + 1 :, i] = column / pivot
        rest += np.outer(column, row) / pivot
    return spread


def _all_others(entries: Mapping[tuple[int, int], float], c: Array) -> Array | None:
    """A vector g ≥ c + Dᵀg: a bound with all other rows free, which a large component can afford.

    Any such g > 0 proves that the powers of D die out, and bounds their sum.
    """
    from scipy.sparse import csr_array

    pairs = np.array(list(entries), dtype=np.int64).reshape(-1, 2)
    matrix = csr_array((np.array(list(entries.values())), (pairs[:, 1], pairs[:, 0])), shape=(len(c), len(c)))
    spread = c.copy()
    for _ in range(_SWEEPS):
        step = c + matrix @ spread
        if (step <= spread * (1.0 + 1e-7)).all():
            candidate = spread * (1.0 + 1e-3)
            return candidate if (c + matrix @ candidate <= candidate).all() else None
        if not step.max() <= _HOPELESS * c.sum():
            return None
        spread = step
    return None
