"""What Bayesian and Markov networks share: the law as a product of factors, one node for each row; tails,
quilts and privacy that follow from it.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from holdfast import rounding
from holdfast.dependence._chain_privacy import largest_below
from holdfast.dependence._clusters import Clusters
from holdfast.dependence._model import (
    GIVEN_TRAINING,
    Dependence,
    Split,
    check_split,
    from_squared_differences,
    row_differences,
)
from holdfast.dependence._network_privacy import Forest, WeakCoupling, couplings, forest, weak_coupling
from holdfast.dependence._privacy import (
    MechanismLike,
    Route,
    Routes,
    blanket_route,
    exact_leakage,
    group_route,
    quilt_route,
    refuse_domain,
    refused,
)
from holdfast.dependence._quilts import (
    Array,
    Factor,
    Graph,
    NetworkQuilts,
    Quilt,
    boundary,
    cells,
    connected_sets,
    count_sets,
    influence,
    largest_influence,
    log_joint,
    log_sum,
    refuse_many,
    side_of,
)
from holdfast.errors import InvalidArgument
from holdfast.tails import SubGaussian, TailRow
from holdfast.typing import ArrayLike, HasEdges

_WEAK = "docs/theory/networks.md, weakly coupled networks"
_TREES = "docs/theory/networks.md, Bayesian differential privacy"
Arrows = Mapping[int, Sequence[tuple[int, float]]]

_SLACK = 1.0 + 1e-9
_MOST_CONDITIONAL = 1 << 16
_DENSE = 600
_SWEEPS, _HOPELESS = 1000, 1e6


@dataclass(frozen=True, repr=False)
class Network(Dependence):
    """Rows whose joint law is a product of factors; a row is a node, its state all that questions look at.

    ``nodes`` are the nodes in the order of the table's rows; without it the order in which the model names
    them, or by number where they are the numbers 0 to n − 1. States are numbered from 0.
    """

    model: Mapping[Any, Any] | Iterable[Any] | HasEdges = field(compare=False)
    # Any: a node may be any hashable thing, as the model names it.
    nodes: tuple[Any, ...] = None  # type: ignore[assignment]  # read from the model where not given
    _content: bytes = field(init=False, repr=False)
    _cards: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _factors: tuple[Factor, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        plain, named = self._read()
        nodes = _in_row_order(named, self.nodes, of=type(self).__name__)
        cards, factors = self._checked(plain, {node: row for row, node in enumerate(nodes)})
        content = repr(nodes).encode() + b"".join(
            repr(item.scope).encode() + item.logs.tobytes() for item in factors
        )
        for name, value in (
            ("model", plain),
            ("nodes", nodes),
            ("_content", content),
            ("_cards", cards),
            ("_factors", factors),
        ):
            object.__setattr__(self, name, value)

    @abstractmethod
    def _read(self) -> tuple[Any, Sequence[Hashable]]:
        """The model in its plain form, and its nodes in the order in which it names them."""

    @abstractmethod
    def _checked(
        self, plain: Any, rows: Mapping[Hashable, int]
    ) -> tuple[tuple[int, ...], tuple[Factor, ...]]:
        """How many states each row has, and the factors."""

    @abstractmethod
    def _restricted(self, nodes: Sequence[Hashable]) -> Any:
        """The plain form of the part on ``nodes``, whole components of the network."""

    @abstractmethod
    def _arrows(self) -> tuple[Sequence[int], Arrows] | None:
        """Rows in an order in which each follows those that it depends on, and by how much; or None."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.nodes)

    @property
    def states(self) -> dict[Hashable, int]:
        """How many states each node has."""
        return dict(zip(self.nodes, self._cards, strict=True))

    @cached_property
    def _graph(self) -> dict[int, set[int]]:
        graph: dict[int, set[int]] = {row: set() for row in range(self.n)}
        for item in self._factors:
            for row in item.scope:
                graph[row].update(item.scope)
        for row, near in graph.items():
            near.discard(row)
        return graph

    @property
    def edges(self) -> tuple[tuple[Any, Any], ...]:
        """The pairs of nodes that share a factor: the moralised graph."""
        return tuple(
            (self.nodes[row], self.nodes[other])
            for row, near in self._graph.items()
            for other in sorted(near)
            if row < other
        )

    @cached_property
    def _components(self) -> list[list[int]]:
        components: list[list[int]] = []
        seen: set[int] = set()
        for row in range(self.n):
            if row not in seen:
                components.append(sorted(side_of(self._graph, row, frozenset())))
                seen.update(components[-1])
        return components

    def _content_of_law(self) -> tuple[Any, ...]:
        """The number of states of each row, and one table for each set of rows that share a factor, the
        largest number in it 1: factors have no order, and those of the same rows are multiplied."""
        tables: dict[tuple[int, ...], Array] = {}
        for item in self._factors:
            tables[item.scope] = tables[item.scope] + item.logs if item.scope in tables else item.logs
        listed = [(scope, np.exp(logs - logs.max()), np.isfinite(logs)) for scope, logs in tables.items()]
        return self._cards, *sorted(listed, key=lambda entry: entry[0])

    @property
    def _parameters(self) -> tuple[str, ...]:
        largest = max(self._cards, default=1)
        return (f"{len(self.edges):,} edges", f"{len(self._factors):,} tables", f"at most {largest:,} states")

    def _visible(self) -> dict[str, Any]:
        return {"nodes": list(self.nodes), "edges": self.edges}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, edges={len(self.edges)})"

    def _row(self, node: Any, argument: str, *, of: str) -> int:
        try:
            return self._rows_by_node[node]
        except (KeyError, TypeError):
            raise InvalidArgument(
                argument, f"a node of the network, such as {self.nodes[0]!r}", node, of=self._called(of)
            ) from None

    @cached_property
    def _rows_by_node(self) -> dict[Hashable, int]:
        return {node: row for row, node in enumerate(self.nodes)}

    def _called(self, method: str) -> str:
        return f"{type(self).__name__}.{method}"

    def _named(self, rows: Any) -> tuple[Any, ...]:
        return tuple(self.nodes[row] for row in sorted(rows))

    def blanket(self, i: Hashable) -> tuple[Any, ...]:
        """The Markov blanket: given these rows, that of node ``i`` is independent of all others (BDP 2.4)."""
        return self._named(self._graph[self._row(i, "i", of="blanket")])

    def quilts(self, i: Hashable, *, redundant: bool = False) -> tuple[Quilt, ...]:
        """Every Markov quilt of node ``i`` of which no row can be spared, the smallest nearby set first.

        There is one for each connected set that contains the node: its neighbours are the quilt. The blanket
        is the first, the empty quilt (everything connected is nearby) the last. With ``redundant`` every set
        of other rows is listed, with the largest remote set that it separates; those never give a better
        bound.
        Reference: BDP 2.4; ``docs/theory/networks.md``.
        """
        row = self._row(i, "i", of="quilts")
        of = self._called("quilts")
        others = set(range(self.n)) - {row}
        if redundant:
            refuse_many(2 ** len(others), of=of)
            sets = [
                {other for k, other in enumerate(sorted(others)) if pick >> k & 1}
                for pick in range(2 ** len(others))
            ]
            return tuple(self._quilt(row, side_of(self._graph, row, quilt), quilt) for quilt in sets)
        refuse_many(count_sets(self._graph, row), of=of)
        return tuple(
            self._quilt(row, side, set(boundary(self._graph, side)))
            for side in connected_sets(self._graph, row)
        )

    def _quilt(self, row: int, side: Any, quilt: set[int]) -> Quilt:
        remote = set(range(self.n)) - side - quilt
        return Quilt(self.nodes[row], self._named(quilt), self._named(side - {row}), self._named(remote))

    def max_influence(
        self,
        targets: Hashable | Iterable[Hashable],
        i: Hashable,
        given: Hashable | Iterable[Hashable] = (),
    ) -> float:
        """ln max P[targets | x, given]/P[targets | x', given] over all values, x and x' those of node ``i``.

        Guarantee: exact, by variable elimination, rounded up; infinite where a value of the targets is
        possible with x and not with x'.
        Assumes: the network (not checkable from the data).
        Reference: BDP (5) and (6).
        """
        of = "max_influence"
        row = self._row(i, "i", of=of)
        aims = self._several(targets, "targets", of=of)
        given_rows = self._several(given, "given", of=of)
        together = [row, *aims, *given_rows]
        if len(set(together)) < len(together):
            raise InvalidArgument(
                "targets", "apart from the node and from what is given", targets, of=self._called(of)
            )
        return influence(self._quilted.joint(row, aims, given_rows), len(aims)) if aims else 0.0

    def _several(self, nodes: Any, argument: str, *, of: str) -> list[int]:
        if isinstance(nodes, Hashable) and nodes in self._rows_by_node:
            return [self._rows_by_node[nodes]]
        if isinstance(nodes, (str, bytes)) or not np.iterable(nodes):
            self._row(nodes, argument, of=of)
        return [self._row(node, argument, of=of) for node in nodes]

    def quilt_influence(self, quilt: Quilt) -> float:
        """b of BDP Lemma 2: the largest max-influence on the ``quilt``, one of those that :meth:`quilts`
        lists, given any of the nearby rows or none."""
        of = "quilt_influence"
        if not isinstance(quilt, Quilt):
            raise InvalidArgument("quilt", "a Quilt, as quilts lists them", quilt, of=self._called(of))
        row = self._row(quilt.node, "quilt", of=of)
        aims, near = (self._several(rows, "quilt", of=of) for rows in (quilt.quilt, quilt.nearby))
        return largest_influence(self._quilted.joint(row, aims, near), len(aims)) if aims else 0.0

    @cached_property
    def _quilted(self) -> NetworkQuilts:
        return NetworkQuilts(
            self._factors, self._graph, self._cards, self._components, self._forest, type(self).__name__
        )

    def leakage(self, mechanism: MechanismLike) -> float:
        """The Bayesian DP of one mechanism on these rows, exactly, by enumeration.

        ``mechanism``: an array of probabilities with an axis for each row and a last one for the outputs, a
        dictionary {dataset: probabilities}, a ``LaplaceAnswer`` or an ``ExponentialChoice``.
        Guarantee: max over rows, known rows, values and outputs, rounded up; infinite where some output rules
        a value out.
        Assumes: the network (not checkable from the data).
        Reference: BDP (3) and (4).
        """
        of = self._called("leakage")
        refuse_domain(self._cards, of=of)
        law = log_joint(self._factors, range(self.n), self._cards, of=of)
        return exact_leakage(law - log_sum(law, axis=tuple(range(self.n))), mechanism, of=of)

    @cached_property
    def _forest(self) -> Forest | None:
        return forest(self._factors, self._graph, self._cards)

    _printed_route: ClassVar[str] = "quilt-paper"

    def _routes(self) -> Routes:
        return {
            "group": partial(group_route, max(map(len, self._components))),
            "coupling": partial(self._on_tree, Forest.bayesian_dp),
            "pairs": partial(self._on_tree, Forest.pairs_bdp),
            "dobrushin": self._weakly_coupled,
            "blanket": partial(self._blanket, 2.0),
            "quilt": partial(self._quilt_route, 2.0),
            "blanket-paper": partial(self._blanket, 4.0),
            "quilt-paper": partial(self._quilt_route, 4.0),
        }

    def _on_tree(self, bound: Callable[[Forest, float], float]) -> Route:
        tree = self._forest
        if tree is None:
            return refused("a network whose moralised graph has no loop", _TREES)
        forward = partial(bound, tree)
        return Route(forward, lambda epsilon: largest_below(epsilon, forward), _TREES)

    @cached_property
    def _weak(self) -> WeakCoupling | None:
        weights = couplings(self._factors, self._cards)
        return None if weights is None else weak_coupling(weights, self._graph, self._components)

    def _weakly_coupled(self) -> Route:
        if self._forest is not None:
            return self._on_tree(Forest.bayesian_dp)  # the same bound, leaves first
        if self._weak is None:
            return refused("factors that never vanish, and weak ones where a component is large", _WEAK)
        forward = self._weak.bayesian_dp
        return Route(forward, lambda epsilon: largest_below(epsilon, forward), _WEAK)

    def _blanket(self, weight: float) -> Route:
        if not self._quilted.blankets_fit:
            return refused("a network with smaller components", "BDP Lemma 3")
        return blanket_route(self._quilted.blanket_influence, weight)

    def _quilt_route(self, weight: float) -> Route:
        return quilt_route(self._quilted, weight)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"The rows, in the order of its {self.n:,} nodes, follow the given {self.name}, whose tables are "
            "taken as exact.",
        )

    @cached_property
    def _cached_arrows(self) -> tuple[Sequence[int], Arrows] | None:
        return self._arrows()

    @cached_property
    def _single_site(self) -> dict[tuple[int, int], float] | None:
        return single_site_influences(self._factors, self._graph, self._cards)

    def _spreads(self, c: Array) -> list[tuple[str, str, Array]]:
        """Every bound of McDiarmid's kind for differences c: its name, its theorem, and Γc, how far each step
        that reveals rows can move the statistic's expectation."""
        totals = np.array([c[component].sum() for component in self._components])
        bounds = [("independent components", "McDiarmid 1989, one step a component", totals)]
        if self._cached_arrows is not None:
            spread = along_arrows(*self._cached_arrows, self._components, c)
            theorem = "Kontorovich and Ramanan 2008, with interval lengths and Dobrushin coefficients"
            bounds.append(("contraction along the arrows", theorem, spread))
        influences = self._single_site
        compared = None if influences is None else by_comparison(influences, self._components, c)
        if compared is not None:
            theorem = "Kontorovich and Ramanan 2008, with Dobrushin's comparison of 1970"
            bounds.append(("influence of single rows", theorem, compared))
        return bounds

    @cached_property
    def _of_means(self) -> list[tuple[str, str, float]]:
        """Every bound for the mean of values in [0, 1]: its name, its theorem, Σ_i (Γc)_i²."""
        bounds = self._spreads(np.full(self.n, 1.0 / self.n))
        return [(name, theorem, rounding.up(float(spread @ spread))) for name, theorem, spread in bounds]

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        return tuple(
            TailRow(name, theorem, from_squared_differences(total * (hi - lo) ** 2))
            for name, theorem, total in self._of_means
        )

    def difference_tail(self, differences: ArrayLike) -> SubGaussian:
        """The tail of any statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ_i (Γc)_i²), for a statistic fixed in advance, with the
        best Γ that the network has: whole components, contraction along the arrows, single rows.
        Assumes: the network and the differences (not checkable from the data).
        Reference: ``docs/theory/networks.md``, "The tail of a mean".
        """
        c = row_differences(differences, self.n, of=type(self).__name__)
        smallest = min(float(spread @ spread) for _, _, spread in self._spreads(c))
        return from_squared_differences(rounding.up(smallest))

    def protected_only(self) -> Self:
        """The same model where the caller supplied the training part; its tables are not read again, and what
        was computed from them is kept."""
        same = copy.copy(self)
        object.__setattr__(same, "extra_assumptions", (*self.extra_assumptions, GIVEN_TRAINING))
        return same

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Whole components taken at random, as many as fit into ``share`` of the rows.

        Proof that the bias is 0: the components are independent, and the choice is made without the data.
        """
        check_split(share, rng, beta, of=type(self).__name__)
        if len(self._components) < 2:
            return super().split(share, rng, beta)
        parts = Clusters(tuple(map(len, self._components))).split(share, rng, beta)
        order = np.concatenate(self._components)
        train = np.zeros(self.n, dtype=np.bool_)
        train[order] = parts.train
        return Split(train, ~train, self._part(np.flatnonzero(~train)), 0.0, self.assumptions)

    def _part(self, rows: Any) -> Self:
        nodes = self._named(rows)
        return replace(self, model=self._restricted(nodes), nodes=nodes)


def _in_row_order(named: Sequence[Hashable], nodes: Any, *, of: str) -> tuple[Any, ...]:
    if nodes is None:
        if all(isinstance(node, int) for node in named) and set(named) == set(range(len(named))):
            return tuple(range(len(named)))
        return tuple(named)
    given = node_list(nodes, "the rows", nodes, of=of, argument="nodes")
    if len(given) != len(named) or set(given) != set(named):
        raise InvalidArgument("nodes", f"the model's {len(named)} nodes, each once", nodes, of=of)
    return given


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
    influences = {}
    for node, near in graph.items():
        scope = sorted({node, *near})
        axis = scope.index(node)
        logs = np.zeros([cards[member] for member in scope])
        for item in touching[node]:
            logs = logs + item.over(scope)
        law = np.exp(logs - log_sum(logs, axis=axis, keepdims=True))
        for other in near:
            moved = np.moveaxis(law, (axis, scope.index(other)), (0, 1))
            influences[node, other] = max(
                (
                    float(np.abs(moved[:, a] - moved[:, b]).sum(axis=0).max()) / 2.0
                    for a in range(cards[other])
                    for b in range(a)
                ),
                default=0.0,
            )
    return influences


def by_comparison(
    influences: Mapping[tuple[int, int], float], components: Sequence[Sequence[int]], c: Array
) -> Array | None:
    """Γc by Dobrushin's comparison, revealing the rows in order; None where it does not contract.

    Start from any coupling of the rows after i under two values of row i, and resample one row after the
    other by a maximal coupling of its law given the others. The probabilities r_j that row j differs come
    down to r ≤ Dr + D_·i on those rows, so r ≤ (1 − D)⁻¹D_·i.
    """
    reached = np.empty(len(c))
    for component in components:
        place = {node: k for k, node in enumerate(component)}
        entries = {(place[j], place[k]): value * _SLACK for (j, k), value in influences.items() if j in place}
        here = c[list(component)]
        spread = _in_order(entries, here) if len(component) <= _DENSE else _all_others(entries, here)
        if spread is None:
            return None
        reached[list(component)] = np.minimum(spread * _SLACK, here.sum())
    return reached


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


def refuse_model(expected: str, got: object, *, of: str) -> NoReturn:
    """The model is not what the network needs."""
    raise InvalidArgument("model", expected, got, of=of)


def node_list(
    nodes: object, what: str, model: object, *, of: str, argument: str = "model"
) -> tuple[Any, ...]:
    """A list of nodes; a text is not one, however many letters it has."""
    listed = None if isinstance(nodes, (str, bytes)) or not np.iterable(nodes) else tuple(nodes)
    if listed is None or not all(isinstance(node, Hashable) for node in listed):
        raise InvalidArgument(argument, f"{what} as a list of nodes", model, of=of)
    return listed


def read_table(table: object, what: str, *, of: str) -> Array:
    """A table of finite numbers, none negative, at least one state on each axis."""
    try:
        array = np.array(table, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if not array.ndim or not array.size or not np.isfinite(array).all() or not (array >= 0.0).all():
        raise InvalidArgument(
            "model", f"a model in which {what} holds finite numbers, none negative", table, of=of
        )
    array.setflags(write=False)
    return array


def pgmpy_values(table: object, *, of: str) -> tuple[list[Any], Array]:
    """The variables and the values of a discrete factor or conditional table of pgmpy."""
    variables, values = getattr(table, "variables", None), getattr(table, "values", None)
    if variables is None or values is None:
        refuse_model("a discrete network: every table has variables and values", table, of=of)
    return list(variables), read_table(values, f"the table over {list(variables)!r}", of=of)
