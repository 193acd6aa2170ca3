"""A Markov chain fitted to training rows, with the error of the fit in every bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._best import TailRow
from holdfast.dependence._contraction import Forgetting
from holdfast.dependence._layouts import Layout
from holdfast.dependence._mixing import Series, block_tail
from holdfast.dependence._model import (
    MOST_ROWS,
    bound_to,
    column_names,
    from_squared_differences,
    state_is,
    whole_steps,
)
from holdfast.dependence._region import budgets, one_step, radii, slowest
from holdfast.dependence._transition import forgets
from holdfast.errors import InvalidArgument
from holdfast.records import show

Runs = tuple[tuple[int, ...], ...]

MOST_STATES = 50
_OF = "FittedChain"
_STARTS = ("any", "stationary", "after a gap")
_LONGER = (2, 4, 8, 16, 64, 256, 1024, 4096)


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
        order = checks.whole(self.order, "order", of=_OF)
        size = counts.shape[1]
        states = tuple(self.states) or tuple(range(size))
        if len(states) != size or len(set(states)) != size:
            raise InvalidArgument("states", f"{size} different states", self.states, of=_OF)
        for name, value in (
            ("counts", counts),
            ("order", order),
            ("states", states),
            ("runs", _read_runs(self.runs, order, counts)),
            ("confidence", checks.real(self.confidence, "confidence", "(0, 1)", of=_OF)),
            ("start", checks.choice(self.start, "start", _STARTS, of=_OF)),
            ("_content", counts.tobytes()),
        ):
            object.__setattr__(self, name, value)
        if self.columns is not None:
            object.__setattr__(self, "columns", frozenset(column_names(self.columns, of=_OF)))
        if self.n is not None:
            object.__setattr__(self, "n", checks.whole(self.n, "n", at_most=MOST_ROWS, of=_OF))
        if _forgetting_of(self._content, self.runs, size, self.failure) is None:
            expected = _longer(counts, self.runs, self.fitted_rows, self.failure)
            raise InvalidArgument("counts", expected, counts.tolist(), of=_OF)

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
        return cast(Forgetting, memory)  # A model without one is refused when it is made.

    def contains(self, transition: Any) -> bool:
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

    def log_remembered(self, steps: Any) -> NDArray[np.float64]:
        """ln θ of so many steps, for the slowest chain in the region; any start.

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

    def layouts(self, beta: Any = 0.05) -> tuple[Layout, ...]:
        """Ways to cut these rows into blocks; none for a chain that may start anywhere, whose blocks have
        means of their own."""
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
            "counts", "a matrix of whole numbers, none negative, for at least two states", counts, of=_OF
        )
    checked = array.astype(np.int64)
    if not checked.any(axis=1).all():
        row = int(np.flatnonzero(~checked.any(axis=1))[0])
        raise InvalidArgument(
            "counts",
            f"counts in which every state is left at least once (row {row} is empty)",
            counts,
            of=_OF,
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
            of=_OF,
        )
    return checked


def _allowed(runs: Runs, size: int) -> NDArray[np.bool_]:
    """Which states may follow which run: those after which the last states are a run again."""
    listed = set(runs)
    return np.array([[(*run[1:], state) in listed for state in range(size)] for run in runs])


@lru_cache(maxsize=64)
def _forgetting_of(content: bytes, runs: Runs, size: int, failure: float) -> Forgetting | None:
    """The slowest forgetting in the region; kept, since a model is copied for each part of a table."""
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
    """What training rows would do in place of those that leave chains possible which never forget."""
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
