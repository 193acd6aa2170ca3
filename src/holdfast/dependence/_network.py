"""Bayesian networks and Markov networks of rows: what a user gives, and how it is read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from holdfast.dependence._forgetting import dobrushin
from holdfast.dependence._graph import DependencyGraph
from holdfast.dependence._model import Split, check_split
from holdfast.dependence._network_base import (
    Arrows,
    Network,
    node_list,
    pgmpy_values,
    read_table,
    refuse_model,
)
from holdfast.dependence._quilts import Factor, factor, log_joint
from holdfast.tails import TailRow

_BAYESIAN = "BayesianNetwork"
_BAYESIAN_FORM = (
    "a mapping {node: (parents, table)} with table[x_parents…, x_node] the probability of x_node, or a "
    "discrete Bayesian network of pgmpy"
)
_MOST_SHARED = 300_000
_MARKOV = "MarkovNetwork"
_MARKOV_FORM = (
    "a list of factors (nodes, table) with table[x_nodes…] ≥ 0, or a discrete Markov network of pgmpy"
)


@dataclass(frozen=True, repr=False)
class BayesianNetwork(Network):
    """Rows that follow a Bayesian network: each depends on its parents alone, given all that came before.

    ``model`` maps each node to (parents, table): ``table`` has an axis for each parent, in that order, and a
    last one for the node. The probabilities along the last axis sum to one. So the table of a node with one
    parent is a transition matrix. A pgmpy ``DiscreteBayesianNetwork`` is read as it is.

    >>> coin, copy = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]
    >>> net = BayesianNetwork({"a": ([], coin), "b": (["a"], copy), "c": (["a"], copy)})
    >>> net.blanket("a"), round(net.max_influence(["b"], "a"), 6)
    (('b', 'c'), 2.079442)
    """

    name: ClassVar[str] = "Bayesian network"

    def _read(self) -> tuple[dict[Any, Any], Sequence[Hashable]]:
        plain = _from_pgmpy(self.model) if hasattr(self.model, "get_cpds") else self.model
        if not isinstance(plain, Mapping) or not plain:
            refuse_model(_BAYESIAN_FORM, self.model, of=_BAYESIAN)
        entries = {}
        for node, entry in plain.items():
            if not isinstance(entry, (tuple, list)) or len(entry) != 2:
                refuse_model(
                    f"{_BAYESIAN_FORM}: node {node!r} has no (parents, table)", self.model, of=_BAYESIAN
                )
            parents = node_list(entry[0], f"one with the parents of node {node!r}", self.model, of=_BAYESIAN)
            entries[node] = (parents, read_table(entry[1], f"the table of node {node!r}", of=_BAYESIAN))
        _check_parents(entries)
        return entries, list(entries)

    def _checked(
        self, plain: Any, rows: Mapping[Hashable, int]
    ) -> tuple[tuple[int, ...], tuple[Factor, ...]]:
        cards = {node: table.shape[-1] for node, (_, table) in plain.items()}
        factors: list[Factor] = [None] * len(rows)  # type: ignore[list-item]
        for node, (parents, table) in plain.items():
            shape = (*(cards[parent] for parent in parents), cards[node])
            if table.shape != shape:
                refuse_model(
                    f"a model in which the table of node {node!r} has the axes {shape}, its parents' states "
                    f"and its own (it has {table.shape})",
                    self.model,
                    of=_BAYESIAN,
                )
            sums = table.sum(axis=-1, keepdims=True)
            wrong = np.argwhere(~(np.abs(sums[..., 0] - 1.0) <= 1e-9))
            if len(wrong):
                where = tuple(int(value) for value in wrong[0])
                given = f" given {dict(zip(parents, where, strict=True))}" if parents else ""
                refuse_model(
                    f"a model whose probabilities sum to 1 (those of node {node!r}{given} sum to "
                    f"{float(sums[where].item())!r})",
                    self.model,
                    of=_BAYESIAN,
                )
            factors[rows[node]] = factor([*(rows[parent] for parent in parents), rows[node]], table / sums)
        return tuple(cards[node] for node in rows), tuple(factors)

    @property
    def _tables(self) -> dict[Any, tuple[tuple[Any, ...], Any]]:
        """(parents, table) of each node, as the model was read."""
        tables: Any = self.model
        return dict(tables)

    def _restricted(self, nodes: Sequence[Hashable]) -> Any:
        tables = self._tables
        return {node: tables[node] for node in nodes}

    @cached_property
    def parents(self) -> dict[Any, tuple[Any, ...]]:
        """The parents of each node."""
        tables = self._tables
        return {node: tables[node][0] for node in self.nodes}

    @cached_property
    def _order(self) -> list[int]:
        """The rows, parents before children."""
        order: list[int] = []
        placed: set[int] = set()
        for start in range(self.n):
            front = [start]
            while front:
                row = front[-1]
                waiting = [
                    above
                    for parent in self.parents[self.nodes[row]]
                    if (above := self._rows_by_node[parent]) not in placed
                ]
                if waiting:
                    front.extend(waiting)
                    continue
                front.pop()
                if row not in placed:
                    placed.add(row)
                    order.append(row)
        return order

    def _arrows(self) -> tuple[Sequence[int], Arrows]:
        children: dict[int, list[tuple[int, float]]] = {row: [] for row in range(self.n)}
        for node, (parents, table) in self._tables.items():
            for axis, parent in enumerate(parents):
                moved = np.moveaxis(table, axis, 0)
                theta = max(
                    (
                        float(np.abs(moved[a] - moved[b]).sum(axis=-1).max()) / 2.0
                        for a, b in combinations(range(len(moved)), 2)
                    ),
                    default=0.0,
                )
                children[self._rows_by_node[parent]].append((self._rows_by_node[node], theta))
        return self._order, children

    @cached_property
    def _sharing(self) -> DependencyGraph | None:
        """Rows joined where they descend from a common root; None if those are too many to list, or if all
        rows of every component do.

        Rows are functions of the independent choices at their ancestors, and two that share an ancestor share
        a root; so rows, and groups of rows, without a common root are independent.
        """
        if sum(not parents for parents in self.parents.values()) == len(self._components):
            return None
        sources: list[set[int]] = [set() for _ in range(self.n)]
        families: dict[int, list[int]] = {}
        count = 0
        for row in self._order:
            parents = [self._rows_by_node[parent] for parent in self.parents[self.nodes[row]]]
            sources[row] = {row} if not parents else set().union(*(sources[above] for above in parents))
            for source in sources[row]:
                families.setdefault(source, []).append(row)
                count += len(families[source])
            if count > _MOST_SHARED:
                return None
        pairs = {pair for family in families.values() for pair in combinations(family, 2)}
        everything = sum(len(component) * (len(component) - 1) // 2 for component in self._components)
        return DependencyGraph(sorted(pairs), n=self.n) if len(pairs) < everything else None

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        rows = super()._rows(lo, hi)
        return rows if self._sharing is None else (*rows, *self._sharing._rows(lo, hi))

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Whole components at random; in one component, two parts without a common root, the others dropped.

        Proof that the bias is 0: components are independent, and so are rows without a common root; either
        choice is made from the network alone.

        Args:
            rng: The source of random numbers.

        >>> coin, either = [0.5, 0.5], [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
        >>> net = BayesianNetwork({0: ([], coin), 1: ([0, 2], either), 2: ([], coin)})
        >>> parts = net.split(0.5, np.random.default_rng(0))
        >>> parts.dropped, parts.bias
        (1, 0.0)
        """
        share, rng, beta = check_split(share, rng, beta, of=_BAYESIAN)
        if len(self._components) > 1 or self._sharing is None:
            return super().split(share, rng, beta)
        parts = self._sharing.split(share, rng, beta)
        return Split(parts.train, parts.protected, parts.protected_model, 0.0, self.assumptions)


def _check_parents(entries: Mapping[Any, tuple[tuple[Any, ...], Any]]) -> None:
    """Every parent is a node, none twice, and following parents never returns."""
    for node, (parents, _) in entries.items():
        for parent in parents:
            if parent not in entries:
                refuse_model(
                    f"a model whose parents are nodes (node {node!r} has the unknown parent {parent!r})",
                    list(entries),
                    of=_BAYESIAN,
                )
        if len(set(parents)) != len(parents):
            refuse_model(f"a model in which node {node!r} has each parent once", list(parents), of=_BAYESIAN)
    done: set[Any] = set()
    for start in entries:
        path: dict[Any, None] = {}
        front = [(start, False)]
        while front:
            node, leaving = front.pop()
            if leaving:
                del path[node]
                done.add(node)
                continue
            if node in path:
                cycle = list(path)[list(path).index(node) :]
                arrows = " → ".join(repr(member) for member in [node, *reversed(cycle)])
                refuse_model(f"a model without a cycle ({arrows})", list(entries), of=_BAYESIAN)
            if node in done:
                continue
            path[node] = None
            front.append((node, True))
            front.extend((parent, False) for parent in entries[node][0])


def _from_pgmpy(model: Any) -> dict[Any, Any]:
    plain = {}
    for node in model.nodes():
        table = model.get_cpds(node)
        if table is None:
            refuse_model(f"a model with a table for every node (node {node!r} has none)", model, of=_BAYESIAN)
        variables, values = pgmpy_values(table, of=_BAYESIAN)
        if variables[0] != node:
            refuse_model(f"a model in which node {node!r} has its own table", model, of=_BAYESIAN)
        plain[node] = (variables[1:], np.moveaxis(values, 0, -1))
    return plain


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
            listed: Any = [pgmpy_values(item, of=_MARKOV) for item in model.get_factors()]
            named: dict[Hashable, None] = dict.fromkeys(model.nodes())
        elif isinstance(model, Iterable) and not isinstance(model, (str, bytes, Mapping)):
            listed, named = list(model), {}
        else:
            refuse_model(_MARKOV_FORM, model, of=_MARKOV)
        plain = []
        for place, item in enumerate(listed):
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                refuse_model(f"{_MARKOV_FORM}: factor {place} is not a pair", model, of=_MARKOV)
            scope = node_list(item[0], f"one with the nodes of factor {place}", model, of=_MARKOV)
            if not scope:
                refuse_model(f"a model in which factor {place} has at least one node", model, of=_MARKOV)
            plain.append((scope, read_table(item[1], f"factor {place}", of=_MARKOV)))
            named |= dict.fromkeys(scope)
        covered = {node for scope, _ in plain for node in scope}
        lonely = next((node for node in named if node not in covered), None)
        if not plain or lonely is not None:
            what = "at least one factor" if lonely is None else f"a factor of node {lonely!r}, which has none"
            refuse_model(f"{_MARKOV_FORM}, with {what}", model, of=_MARKOV)
        return plain, list(named)

    def _checked(
        self, plain: Any, rows: Mapping[Hashable, int]
    ) -> tuple[tuple[int, ...], tuple[Factor, ...]]:
        cards: dict[Hashable, int] = {}
        factors = []
        for place, (scope, table) in enumerate(plain):
            if table.ndim != len(scope) or len(set(scope)) != len(scope):
                refuse_model(
                    f"a model in which factor {place}, over {scope}, has one axis for each node (it has "
                    f"{table.ndim})",
                    self.model,
                    of=_MARKOV,
                )
            for node, size in zip(scope, table.shape, strict=True):
                if cards.setdefault(node, size) != size:
                    refuse_model(
                        f"a model in which node {node!r} has as many states in every factor ({cards[node]} "
                        f"and {size})",
                        self.model,
                        of=_MARKOV,
                    )
            if not table.any():
                refuse_model(
                    f"a model with some possible dataset (factor {place}, over {scope}, is zero)",
                    self.model,
                    of=_MARKOV,
                )
            factors.append(factor([rows[node] for node in scope], table / table.max()))
        if any((table == 0.0).any() for _, table in plain):
            everything = log_joint(factors, (), [cards[node] for node in rows], of=_MARKOV)
            if not np.isfinite(everything).all():
                refuse_model(
                    "a model with some possible dataset (the factors leave none: the partition function is "
                    "zero)",
                    self.model,
                    of=_MARKOV,
                )
        return tuple(cards[node] for node in rows), tuple(factors)

    def _restricted(self, nodes: Sequence[Hashable]) -> Any:
        kept = set(nodes)
        factors: Any = self.model
        return [(scope, table) for scope, table in factors if scope[0] in kept]

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
