"""Markov networks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from holdfast.dependence._contraction import dobrushin
from holdfast.dependence._factors import Factor, factor, log_joint
from holdfast.dependence._network import Network
from holdfast.dependence._network_tails import Arrows
from holdfast.dependence._read_tables import pgmpy_values, read_nodes, read_table, refuse_model

_OF = "MarkovNetwork"
_FORM = "a list of factors (nodes, table) with table[x_nodes…] ≥ 0, or a discrete Markov network of pgmpy"


@dataclass(frozen=True, repr=False)
class MarkovNetwork(Network):
    """Rows whose joint law is proportional to a product of factors.

    ``model`` is a list of (nodes, table): ``table`` has an axis for each of the nodes, in that order, and
    numbers that are not negative and need not sum to anything. A pgmpy ``DiscreteMarkovNetwork`` is read as
    it is. Two rows are neighbours if some factor holds both.

    >>> alike = [[3.0, 1.0], [1.0, 3.0]]
    >>> ring = MarkovNetwork([((i, (i + 1) % 4), alike) for i in range(4)])
    >>> ring.blanket(0), round(ring.max_influence([1], 0), 6)
    ((1, 3), 1.349927)
    """

    name: ClassVar[str] = "Markov network"

    def _read(self) -> tuple[list[tuple[tuple[Any, ...], Any]], Sequence[Hashable]]:
        model = self.model
        if hasattr(model, "get_factors") and hasattr(model, "nodes"):
            listed: Any = [pgmpy_values(item, of=_OF) for item in model.get_factors()]
            named: dict[Hashable, None] = dict.fromkeys(model.nodes())
        elif isinstance(model, Iterable) and not isinstance(model, (str, bytes, Mapping)):
            listed, named = list(model), {}
        else:
            refuse_model(_FORM, model, of=_OF)
        plain = []
        for place, item in enumerate(listed):
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                refuse_model(f"{_FORM}: factor {place} is no pair", model, of=_OF)
            scope = read_nodes(item[0], f"one with the nodes of factor {place}", model, of=_OF)
            if not scope:
                refuse_model(f"one where factor {place} has at least one node", model, of=_OF)
            plain.append((scope, read_table(item[1], f"factor {place}", of=_OF)))
            named |= dict.fromkeys(scope)
        covered = {node for scope, _ in plain for node in scope}
        lonely = next((node for node in named if node not in covered), None)
        if not plain or lonely is not None:
            what = "at least one factor" if lonely is None else f"a factor of node {lonely!r}, which has none"
            refuse_model(f"{_FORM}, with {what}", model, of=_OF)
        return plain, list(named)

    def _checked(
        self, plain: Any, rows: Mapping[Hashable, int]
    ) -> tuple[tuple[int, ...], tuple[Factor, ...]]:
        cards: dict[Hashable, int] = {}
        factors = []
        for place, (scope, table) in enumerate(plain):
            if table.ndim != len(scope) or len(set(scope)) != len(scope):
                refuse_model(
                    f"one where factor {place}, over {scope}, has one axis for each node (it has "
                    f"{table.ndim})",
                    self.model,
                    of=_OF,
                )
            for node, size in zip(scope, table.shape, strict=True):
                if cards.setdefault(node, size) != size:
                    refuse_model(
                        f"one where node {node!r} has as many states in every factor ({cards[node]} and "
                        f"{size})",
                        self.model,
                        of=_OF,
                    )
            if not table.any():
                refuse_model(
                    f"one with some possible dataset (factor {place}, over {scope}, is zero)",
                    self.model,
                    of=_OF,
                )
            factors.append(factor([rows[node] for node in scope], table / table.max()))
        if any((table == 0.0).any() for _, table in plain):
            everything = log_joint(factors, (), [cards[node] for node in rows], of=_OF)
            if not np.isfinite(everything).all():
                refuse_model(
                    "one with some possible dataset (the factors leave none: the partition function is zero)",
                    self.model,
                    of=_OF,
                )
        return tuple(cards[node] for node in rows), tuple(factors)

    def _restricted(self, nodes: Sequence[Hashable]) -> Any:
        kept = set(nodes)
        return [(scope, table) for scope, table in self.model if scope[0] in kept]

    def _arrows(self) -> tuple[Sequence[int], Arrows] | None:
        """A tree hangs from any of its nodes, and each follows its parent."""
        tree = self._forest
        if tree is None:
            return None
        children: dict[int, list[tuple[int, float]]] = {row: [] for row in range(self.n)}
        for row, parent in enumerate(tree.parent):
            if parent >= 0:
                children[parent].append((row, dobrushin(tree.kernel(row))))
        return tree.order, children
