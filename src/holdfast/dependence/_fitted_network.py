"""A Bayesian network of given structure, fitted to many families of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._best import TailRow
from holdfast.dependence._clusters import Clusters
from holdfast.dependence._model import MOST_ROWS, Dependence, bound_to, from_squared_differences
from holdfast.dependence._network_tails import along_arrows
from holdfast.dependence._quilts import side_of
from holdfast.dependence._region import budgets, one_step, radii
from holdfast.dependence._split import Split, all_fresh, check_split
from holdfast.errors import InvalidArgument, NotEnoughRows

_OF = "FittedNetwork"


@dataclass(frozen=True, repr=False)
class FittedNetwork(Dependence):
    """Families of rows that follow one Bayesian network of which only counts are known.

    ``tables`` maps each member of a family, parents before children, to (parents, counts): ``counts`` has an
    axis for each parent and a last one for the member, and says how often each of its states was seen with
    each of theirs, over independent families. The table that the model is about holds family after family,
    one row a member, in any order; a row's state is everything the questions may look at. ``n`` is its number
    of rows, None until ``with_rows`` or a guard gives it.

    The tables of probabilities may be any in a region around the observed frequencies. It misses the true
    ones with probability at most 1 − ``confidence``; that is ``failure``.

    >>> copies = [[900, 100], [150, 850]]
    >>> families = FittedNetwork({"mother": ((), [1000, 1000]), "child": (("mother",), copies)})
    >>> round(families.influence("mother", "child"), 3), families.with_rows(40).families
    (0.835, 20)
    """

    tables: Mapping[Any, tuple[tuple[Any, ...], NDArray[np.int64]]] = field(compare=False)
    n: int = None  # type: ignore[assignment]  # until it is bound to a table
    confidence: float = field(default=0.998, kw_only=True)
    _content: str = field(init=False, repr=False)

    name: ClassVar[str] = "fitted network"

    def __post_init__(self) -> None:
        tables = _read_tables(self.tables)
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "confidence", checks.real(self.confidence, "confidence", "(0, 1)", of=_OF))
        content = repr([(node, parents, counts.tolist()) for node, (parents, counts) in tables.items()])
        object.__setattr__(self, "_content", content)
        if self.n is not None:
            rows = checks.whole(self.n, "n", at_most=MOST_ROWS, of=_OF)
            if rows % len(tables):
                raise InvalidArgument("n", f"whole families of {len(tables)} rows", self.n, of=_OF)
            object.__setattr__(self, "n", rows)

    @property
    def failure(self) -> float:
        """The probability that the region misses one of the true tables: 1 − ``confidence``."""
        return 1.0 - self.confidence

    @property
    def members(self) -> tuple[Any, ...]:
        """The members of a family, parents before children."""
        return tuple(self.tables)

    @property
    def families(self) -> int:
        """How many families the table holds."""
        return bound_to(self, of="families") // len(self.tables)

    @property
    def fitted_families(self) -> int:
        """How many families the network was fitted to."""
        return int(next(iter(self.tables.values()))[1].sum())

    def with_rows(self, n: int) -> Self:
        """The same model about ``n`` rows, which are whole families."""
        return replace(self, n=n) if self.n is None else super().with_rows(n)

    def _visible(self) -> dict[str, Any]:
        return {
            "members": len(self.tables),
            "arrows": sum(len(parents) for parents, _ in self.tables.values()),
            "fitted_families": self.fitted_families,
            "confidence": self.confidence,
            "n": self.n,
        }

    def _content_of_law(self) -> tuple[Any, ...]:
        place = {node: row for row, node in enumerate(self.tables)}
        listed = [([place[parent] for parent in parents], counts) for parents, counts in self.tables.values()]
        return listed, self.n, self.confidence

    @property
    def _parameters(self) -> tuple[str, ...]:
        strongest = max(self._influences.values(), default=0.0)
        return (
            f"families of {len(self.tables)} rows",
            f"{len(self._influences)} arrows with influence up to {strongest:.6g}",
            f"fitted to {self.fitted_families:,} families at confidence {self.confidence:g}",
        )

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"The rows stand family by family, one row for each of {len(self.tables)} members. Families are "
            "independent and follow one Bayesian network.",
            f"The given {len(self._influences)} arrows are all that there are: given its parents, a member "
            "is independent of all others but its descendants.",
            f"The {self.fitted_families:,} training families are independent and follow the same network. "
            "No member has states that they do not show.",
            "The probabilities are not assumed: bounds hold for all that the training families support, "
            f"except with probability {self.failure:.3g}, which is charged.",
        )

    @cached_property
    def _influences(self) -> dict[tuple[Any, Any], float]:
        """For each arrow, the largest total variation between the laws of the child for two values of the
        parent, the other parents the same, over all tables in the region."""
        rows_in_all = sum(counts[..., 0].size for parents, counts in self.tables.values() if parents)
        influences = {}
        for node, (parents, counts) in self.tables.items():
            if not parents:
                continue
            flat = counts.reshape(-1, counts.shape[-1])
            apart = _worst_distances(flat, self.failure * len(flat) / rows_in_all)
            places = np.arange(len(flat)).reshape(counts.shape[:-1])
            for axis, parent in enumerate(parents):
                moved = np.moveaxis(places, axis, 0)
                pairs = combinations(range(len(moved)), 2)
                influences[parent, node] = max(
                    (float(apart[moved[a].ravel(), moved[b].ravel()].max()) for a, b in pairs), default=0.0
                )
        return influences

    def influence(self, parent: Any, child: Any) -> float:
        """How far a change of ``parent`` moves the law of its ``child``, at most, in total variation."""
        if (parent, child) not in self._influences:
            raise InvalidArgument("child", "a member with an arrow from the parent", child, of=_OF)
        return self._influences[parent, child]

    @cached_property
    def _spreads(self) -> list[tuple[str, str, float]]:
        """Every bound for the sum over one family of values in [0, 1]: its name, its theorem, Σ_i (Γ1)_i²."""
        place = {node: row for row, node in enumerate(self.tables)}
        children: dict[int, list[tuple[int, float]]] = {row: [] for row in place.values()}
        graph: dict[int, set[int]] = {row: set() for row in place.values()}
        for (parent, node), theta in self._influences.items():
            children[place[parent]].append((place[node], theta))
            graph[place[parent]].add(place[node])
            graph[place[node]].add(place[parent])
        components = []
        seen: set[int] = set()
        for row in graph:
            if row not in seen:
                components.append(sorted(side_of(graph, row, frozenset())))
                seen.update(components[-1])
        spread = along_arrows(list(place.values()), children, components, np.ones(len(place)))
        whole = float(sum(len(component) ** 2 for component in components))
        theorem = "Kontorovich and Ramanan 2008, with interval lengths and Dobrushin coefficients"
        return [
            ("independent components", "McDiarmid 1989, one step a component", whole),
            ("contraction along the arrows", theorem, rounding.up(float(spread @ spread))),
        ]

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        n = bound_to(self, of="mean_tail")
        scale = (hi - lo) ** 2 * self.families / n**2
        return tuple(
            TailRow(name, theorem, from_squared_differences(total * scale))
            for name, theorem, total in self._spreads
        )

    def split(self, share: Any, rng: Any, beta: Any = 0.05) -> Split:
        """Whole families at random, as many as fit into ``share`` of the rows.

        Proof that the bias is 0: families are independent, and the choice is made without the data.
        """
        share, rng, beta = check_split(share, rng, beta, of=_OF)
        bound_to(self, of="split")
        if self.families < 2:
            raise NotEnoughRows(2, self.families, what="Setting a training part aside", unit="families")
        parts = Clusters((len(self.tables),) * self.families).split(share, rng, beta)
        rest = replace(self, n=int(parts.protected.sum()))
        return Split(parts.train, parts.protected, rest, 0.0, self.assumptions)

    def fresh(self, beta: Any = 0.05) -> Split:
        """Every row: a family belongs to one epoch as a whole."""
        bound_to(self, of="fresh")
        return all_fresh(
            self, "No family has rows in two epochs, and families of different epochs are independent."
        )


def _worst_distances(counts: NDArray[np.int64], failure: float) -> NDArray[np.float64]:
    """The largest total variation between two rows of a table, over the region.

    A row that was never seen may be anything.
    """
    size = counts.shape[1]
    if size == 1:
        return np.zeros((len(counts), len(counts)))
    leaving = counts.sum(axis=1, keepdims=True)
    allowed = np.ones(counts.shape, dtype=np.bool_)
    frequencies = np.where(leaving > 0, counts / np.maximum(leaving, 1), 1.0 / size)
    budget = budgets(counts, allowed, failure)
    return one_step(frequencies, budget, radii(counts, allowed, budget), sets=True)


def _read_tables(tables: Any) -> dict[Any, tuple[tuple[Any, ...], NDArray[np.int64]]]:
    """Check the tables of counts: parents first, axes that fit, every family counted in every table."""
    if not isinstance(tables, Mapping) or not tables:
        raise InvalidArgument("tables", "a mapping {member: (parents, counts)}", tables, of=_OF)
    checked: dict[Any, tuple[tuple[Any, ...], NDArray[np.int64]]] = {}
    total = None
    for node, entry in tables.items():
        parents = tuple(entry[0])
        counts = np.array(entry[1])
        late = [parent for parent in parents if parent not in checked]
        if late or len(set(parents)) != len(parents):
            raise InvalidArgument(
                "tables",
                f"one where the parents of {node!r} stand before it, each once",
                list(tables),
                of=_OF,
            )
        shape = tuple(checked[parent][1].shape[-1] for parent in parents)
        whole = counts.dtype.kind in "iu" and (counts >= 0).all()
        if not whole or counts.ndim != len(parents) + 1 or counts.shape[:-1] != shape or not counts.size:
            raise InvalidArgument(
                "tables", f"one with counts of {node!r} on the axes {(*shape, '…')}", entry[1], of=_OF
            )
        total = int(counts.sum()) if total is None else total
        if counts.sum() != total or not total:
            raise InvalidArgument(
                "tables", f"one where {node!r} is counted in each of the {total:,} families", entry[1], of=_OF
            )
        counts = counts.astype(np.int64)
        counts.setflags(write=False)
        checked[node] = (parents, counts)
    return checked
