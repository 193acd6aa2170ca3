"""Models fitted to training rows: a Markov chain, and a Bayesian network of given structure.

The error of the fit is in every bound: each holds for all models that the training rows leave possible.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, rounding
from holdfast.dependence._clusters import Clusters
from holdfast.dependence._forgetting import Forgetting, budgets, forgets, one_step, radii, slowest
from holdfast.dependence._mixing import Layout, Series, block_tail
from holdfast.dependence._model import (
    MOST_ROWS,
    Dependence,
    Split,
    all_fresh,
    bound_to,
    check_split,
    column_names,
    from_squared_differences,
    state_is,
    whole_steps,
)
from holdfast.dependence._network_base import along_arrows
from holdfast.dependence._quilts import side_of
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import show
from holdfast.tails import TailRow

Runs = tuple[tuple[int, ...], ...]

MOST_STATES = 50
_CHAIN = "FittedChain"
_STARTS = ("any", "stationary", "after a gap")
_LONGER = (2, 4, 8, 16, 64, 256, 1024, 4096)
_NETWORK = "FittedNetwork"


@dataclass(frozen=True, repr=False)
class FittedChain(Series):
    """Rows in order that follow a Markov chain of which only counted transitions are known.

    The transition matrix may be any in a region around the observed frequencies, and every bound holds for
    the slowest chain in it. The region misses the true matrix with probability at most 1 − ``confidence``,
    which is ``failure``: charge it to the confidence of what is said with the model. ``fit`` makes one from a
    table.

    ``counts[i][j]`` is how often state j followed state i in one trajectory. For a chain of higher ``order``
    a row of ``counts`` belongs to a run of that many states: ``runs`` lists them, as numbers of states.
    ``states`` names the states (without it, numbers), ``columns`` the columns whose values they are (None:
    all columns). ``start`` is "any", "stationary" (declared), or "after a gap": the rows follow a gap whose
    bias has been charged, so that they count as stationary. ``by_bic`` and ``declared`` only choose
    sentences for the certificate: the order was proposed by BIC; the states were declared and not read off
    the rows. ``n`` is the number of rows that the model is about, None until ``with_rows`` or a guard gives
    it.

    >>> chain = FittedChain([[15_000, 800], [800, 15_000]])
    >>> bounds = np.exp(chain.log_remembered([1, 2, 10, 100]))
    >>> bounds.round(4).tolist(), round(chain.failure, 6)
    ([0.9149, 0.837, 0.4109, 0.0001], 0.002)
    """

    counts: NDArray[np.int64] = field(compare=False)
    n: int = None  # type: ignore[assignment]  # until it is bound to a table
    states: tuple[Any, ...] = field(default=(), kw_only=True)
    order: int = field(default=1, kw_only=True)
    runs: Runs = field(default=(), kw_only=True)
    confidence: float = field(default=0.998, kw_only=True)
    columns: frozenset[str] | None = field(default=None, kw_only=True)
    start: str = field(default="any", kw_only=True)
    by_bic: bool = field(default=False, kw_only=True)
    declared: bool = field(default=False, kw_only=True)
    _content: bytes = field(init=False, repr=False)

    name: ClassVar[str] = "fitted Markov chain"

    def __post_init__(self) -> None:
        counts = _read_counts(self.counts)
        order = checks.whole(self.order, "order", of=_CHAIN)
        size = counts.shape[1]
        states = tuple(self.states) or tuple(range(size))
        if len(states) != size or len(set(states)) != size:
            raise InvalidArgument("states", f"{size} different states", self.states, of=_CHAIN)
        for name, value in (
            ("counts", counts),
            ("order", order),
            ("states", states),
            ("runs", _read_runs(self.runs, order, counts)),
            ("confidence", checks.real(self.confidence, "confidence", "(0, 1)", of=_CHAIN)),
            ("start", checks.choice(self.start, "start", _STARTS, of=_CHAIN)),
            ("_content", counts.tobytes()),
        ):
            object.__setattr__(self, name, value)
        if self.columns is not None:
            object.__setattr__(self, "columns", frozenset(column_names(self.columns, of=_CHAIN)))
        if self.n is not None:
            object.__setattr__(self, "n", checks.whole(self.n, "n", at_most=MOST_ROWS, of=_CHAIN))
        if _forgetting_of(self._content, self.runs, size, self.failure) is None:
            expected = _longer(counts, self.runs, self.fitted_rows, self.failure)
            raise InvalidArgument("counts", expected, counts.tolist(), of=_CHAIN)

    @property
    def failure(self) -> float:
        """The probability that the region misses the true transition matrix: 1 − ``confidence``."""
        return 1.0 - self.confidence

    @property
    def fitted_rows(self) -> int:
        """How many training rows the chain was fitted to."""
        return int(self.counts.sum()) + self.order

    @property
    def _memory(self) -> Forgetting:
        memory = _forgetting_of(self._content, self.runs, self.counts.shape[1], self.failure)
        assert memory is not None  # A model without one is refused when it is made.
        return memory

    def contains(self, transition: ArrayLike) -> bool:
        """Whether a transition matrix, with the rows and columns of ``counts``, lies in the region.

        >>> FittedChain([[900, 100], [100, 900]]).contains([[0.9, 0.1], [0.5, 0.5]])
        False
        """
        matrix = np.asarray(transition, dtype=float)
        allowed = _allowed(self.runs, self.counts.shape[1])
        if matrix.shape != self.counts.shape or not (matrix[~allowed] == 0.0).all():
            return False
        frequencies = self.counts / self.counts.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(frequencies > 0.0, frequencies * np.log(frequencies / matrix), 0.0)
        return bool((terms.sum(axis=1) <= budgets(self.counts, allowed, self.failure)).all())

    def _visible(self) -> dict[str, Any]:
        return {
            "columns": None if self.columns is None else sorted(self.columns),
            "states": len(self.states),
            "order": self.order,
            "fitted_rows": self.fitted_rows,
            "confidence": self.confidence,
            "start": self.start,
            "n": self.n,
        }

    def _content_of_law(self) -> tuple[Any, ...]:
        named = None if self.columns is None else sorted(self.columns)
        names = [show(state) for state in self.states]
        runs = np.array(self.runs, dtype=np.int64)
        return self.counts, self.n, names, self.order, runs, self.confidence, named, self.start

    @property
    def _parameters(self) -> tuple[str, ...]:
        listed = ", ".join(map(show, self.states[:12])) + (", …" if len(self.states) > 12 else "")
        words = [f"order {self.order}", f"{len(self.states)} states ({listed})"]
        words.append(f"fitted to {self.fitted_rows:,} rows at confidence {self.confidence:g}")
        half = self._first_below(math.log(0.5))
        if half is not None:
            words.append(f"half forgotten after {half:,} rows at the latest")
        return tuple(words)

    @property
    def _stated(self) -> tuple[str, ...]:
        last = "state" if self.order == 1 else f"{self.order} states"
        proposed = ", as BIC proposed on the training rows; nothing covers that choice" if self.by_bic else ""
        listed = "that were declared" if self.declared else "that the training rows show"
        others = f"No state occurs other than the {len(self.states)} {listed}"
        if self.order > 1:
            others += f", and no run of {self.order} states other than the {len(self.runs):,} that they show"
        starts = ("The chain starts at its stationary law.",) if self.start == "stationary" else ()
        return (
            f"The rows, in the order of the table, follow a Markov chain of order {self.order}: given all "
            f"rows before, those before the table too, the next state depends on the last {last} alone, in "
            f"the same way at all times. The order is assumed{proposed}.",
            f"The {self.fitted_rows:,} training rows that the chain was fitted to follow the same chain, in "
            "order and without gaps.",
            f"{others}.",
            *(() if self.columns is None else (state_is(self.columns),)),
            f"The transition probabilities are not assumed: bounds hold for all that the training rows "
            f"support, except with probability {self.failure:.3g}, which is charged.",
            *starts,
        )

    def _about(self, n: int) -> Self:
        return replace(self, n=n)

    def _after_gap(self, n: int) -> Self:
        return replace(self, n=n, start="after a gap")

    def log_remembered(self, steps: ArrayLike) -> NDArray[np.float64]:
        """ln θ of ``steps`` steps, for the slowest chain in the region; any start.

        For a chain of order k the rows from t + steps on begin with a run of k states, the last of which is
        k − 1 places later; so θ is that of steps + k − 1 steps of the chain on runs.
        """
        return self._memory.log_theta_at(whole_steps(steps))

    @property
    def operator_norm(self) -> float | None:
        """A bound on the norm of the transition matrix on mean-zero functions in L²(π): √θ of one step, and θ
        for two states. None for a chain that may start anywhere, for higher orders, and where the bound is
        1."""
        if self.start == "any" or self.order > 1:
            return None
        log_theta = float(self.log_remembered(1))
        norm = rounding.up(math.exp(log_theta if len(self.states) == 2 else log_theta / 2.0))
        return norm if norm < 1.0 else None

    def layouts(self, beta: float = 0.05) -> tuple[Layout, ...]:
        """Ways to cut these rows into blocks. There is none if the chain may start anywhere: then the blocks
        have different means."""
        return () if self.start == "any" else super().layouts(beta)

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        n, spread = bound_to(self, of="mean_tail"), hi - lo
        total, squares = self._memory.row_sums(n)
        scale = spread / n
        theorem = f"Kontorovich and Ramanan 2008, with interval lengths and ‖Γ‖ ≤ {total:.6g}"
        rows = [TailRow("Dobrushin contraction", theorem, from_squared_differences(squares * scale * scale))]
        if self.start != "any":
            thin, factor = self._thinned()
            theorem = f"Fan, Jiang and Sun 2021, theorem 1, on every {thin}-th row, with factor {factor:.6g}"
            tail = from_squared_differences(factor * spread * spread / n)
            rows.append(TailRow("stationary chain", theorem, tail))
        if n >= 2:
            mixing = block_tail(self.log_remembered, n, spread)
            rows.append(TailRow("β-mixing blocks", "Yu 1994, lemma 4.1, with the best block length", mixing))
        return tuple(rows)

    def _thinned(self) -> tuple[int, float]:
        """The g with the least g(1 + λ_g)/(1 − λ_g), and that, rounded up.

        λ_g, the norm of P^g on mean-zero functions in L²(π), is at most √θ_g, and θ_g for two states.
        """
        logs = np.append(self._memory.log_theta[1:], self._memory.log_block)
        two_states = self.order == 1 and len(self.states) == 2
        norms = np.exp(logs if two_states else logs / 2.0) * (1.0 + 1e-15)
        with np.errstate(divide="ignore"):
            factors = np.arange(1, len(norms) + 1) * (1.0 + norms) / np.maximum(0.0, 1.0 - norms)
        best = int(np.argmin(factors))
        return best + 1, rounding.up(float(factors[best]) * (1.0 + 1e-12))


def _read_counts(counts: Any) -> NDArray[np.int64]:
    try:
        array = np.asarray(counts)
        whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and (array == np.round(array)).all())
    except (TypeError, ValueError):
        whole = False
    if not whole or array.ndim != 2 or array.shape[1] < 2 or not (array >= 0).all():
        raise InvalidArgument(
            "counts", "a matrix of whole numbers, none negative, for at least two states", counts, of=_CHAIN
        )
    checked = array.astype(np.int64)
    if not checked.any(axis=1).all():
        row = int(np.flatnonzero(~checked.any(axis=1))[0])
        raise InvalidArgument(
            "counts",
            f"counts in which every state is left at least once (row {row} is empty)",
            counts,
            of=_CHAIN,
        )
    checked.setflags(write=False)
    return checked


def _read_runs(runs: Any, order: int, counts: NDArray[np.int64]) -> Runs:
    """Check the runs of states that the rows of ``counts`` belong to, and that no other run follows."""
    size = counts.shape[1]
    if not runs and order == 1 and len(counts) == size:
        return tuple((state,) for state in range(size))
    checked = tuple(tuple(int(state) for state in run) for run in runs)
    fits = (
        len(checked) == len(set(checked)) == len(counts)
        and all(len(run) == order for run in checked)
        and all(0 <= state < size for run in checked for state in run)
        and (order > 1 or checked == tuple((state,) for state in range(size)))
    )
    if not fits or counts[~_allowed(checked, size)].any():
        raise InvalidArgument(
            "runs",
            f"the runs of {order} of the {size} states, one for each row of counts, that may occur",
            runs,
            of=_CHAIN,
        )
    return checked


def _allowed(runs: Runs, size: int) -> NDArray[np.bool_]:
    """Which states may follow which run: those after which the last states are a run again."""
    listed = set(runs)
    return np.array([[(*run[1:], state) in listed for state in range(size)] for run in runs])


@lru_cache(maxsize=64)
def _forgetting_of(content: bytes, runs: Runs, size: int, failure: float) -> Forgetting | None:
    """The slowest forgetting in the region. It is cached, because a model is copied for each part of a
    table."""
    counts = np.frombuffer(content, dtype=np.int64).reshape(len(runs), size)
    return _slowest_of(counts, runs, failure)


def _slowest_of(counts: NDArray[Any], runs: Runs, failure: float) -> Forgetting | None:
    """The slowest forgetting in the region; None if half of it takes longer than the training part itself.

    However short the training part, chains of its region forget in the end if its frequencies do; but so late
    that nothing could be said with them.
    """
    order, allowed = len(runs[0]), _allowed(runs, counts.shape[1])
    budget = budgets(counts, allowed, failure)
    radius = radii(counts, allowed, budget)
    matrix = _on_runs(counts, runs)
    budget = np.where(allowed.sum(axis=1) > 1, budget, 0.0)
    first = one_step(matrix, budget, radius, sets=order == 1)
    memory = slowest(matrix, budget, radius, first, order - 1)
    if memory is None or memory.log_theta_at(np.array(int(counts.sum()))) > math.log(0.5):
        return None
    return memory


def _on_runs(counts: NDArray[Any], runs: Runs) -> NDArray[np.float64]:
    """The observed frequencies as a transition matrix from run to run."""
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    place = {run: i for i, run in enumerate(runs)}
    matrix = np.zeros((len(runs), len(runs)))
    for i, run in enumerate(runs):
        for state in np.flatnonzero(counts[i]).tolist():
            matrix[i, place[*run[1:], state]] = frequencies[i, state]
    return matrix


def _longer(counts: NDArray[np.int64], runs: Runs, rows: int, failure: float) -> str:
    """How many training rows would be enough, if these leave chains possible that never forget."""
    remedy = "join states (fewer values in the columns), or declare Mixing(rate)"
    if not forgets(_on_runs(counts, runs)):
        return (
            "those of a chain that forgets its start. This one stays in one group of states, or goes round "
            f"in a circle, and no number of rows helps: {remedy}"
        )
    for longer in _LONGER:
        if _slowest_of(counts * float(longer), runs, failure) is not None:
            more = f"about {float(f'{rows * longer:.1g}'):,.0f} would do"
            break
    else:
        more = f"{rows * _LONGER[-1]:,} would not be enough"
    return (
        "those of a longer training part. This one is too short to show that the chain forgets: it has "
        f"{rows:,} rows, {more}. Give more training rows, {remedy}"
    )


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
        object.__setattr__(
            self, "confidence", checks.real(self.confidence, "confidence", "(0, 1)", of=_NETWORK)
        )
        content = repr([(node, parents, counts.tolist()) for node, (parents, counts) in tables.items()])
        object.__setattr__(self, "_content", content)
        if self.n is not None:
            rows = checks.whole(self.n, "n", at_most=MOST_ROWS, of=_NETWORK)
            if rows % len(tables):
                raise InvalidArgument("n", f"whole families of {len(tables)} rows", self.n, of=_NETWORK)
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

    def influence(self, parent: Hashable, child: Hashable) -> float:
        """How far a change of ``parent`` moves the law of its ``child``, at most, in total variation."""
        if (parent, child) not in self._influences:
            raise InvalidArgument("child", "a member with an arrow from the parent", child, of=_NETWORK)
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

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Whole families at random, as many as fit into ``share`` of the rows.

        Proof that the bias is 0: families are independent, and the choice is made without the data.

        Args:
            rng: The source of random numbers.
        """
        share, rng, beta = check_split(share, rng, beta, of=_NETWORK)
        bound_to(self, of="split")
        if self.families < 2:
            raise NotEnoughRows(2, self.families, what="Setting a training part aside", unit="families")
        parts = Clusters((len(self.tables),) * self.families).split(share, rng, beta)
        rest = replace(self, n=int(parts.protected.sum()))
        return Split(parts.train, parts.protected, rest, 0.0, self.assumptions)

    def fresh(self, beta: float = 0.05) -> Split:
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
        raise InvalidArgument("tables", "a mapping {member: (parents, counts)}", tables, of=_NETWORK)
    checked: dict[Any, tuple[tuple[Any, ...], NDArray[np.int64]]] = {}
    total = None
    for node, entry in tables.items():
        parents = tuple(entry[0])
        counts = np.array(entry[1])
        late = [parent for parent in parents if parent not in checked]
        if late or len(set(parents)) != len(parents):
            raise InvalidArgument(
                "tables",
                f"tables in which the parents of {node!r} stand before it, each once",
                list(tables),
                of=_NETWORK,
            )
        shape = tuple(checked[parent][1].shape[-1] for parent in parents)
        whole = counts.dtype.kind in "iu" and (counts >= 0).all()
        if not whole or counts.ndim != len(parents) + 1 or counts.shape[:-1] != shape or not counts.size:
            raise InvalidArgument(
                "tables", f"tables with counts of {node!r} on the axes {(*shape, '…')}", entry[1], of=_NETWORK
            )
        total = int(counts.sum()) if total is None else total
        if counts.sum() != total or not total:
            raise InvalidArgument(
                "tables",
                f"tables in which {node!r} is counted in each of the {total:,} families",
                entry[1],
                of=_NETWORK,
            )
        counts = counts.astype(np.int64)
        counts.setflags(write=False)
        checked[node] = (parents, counts)
    return checked
