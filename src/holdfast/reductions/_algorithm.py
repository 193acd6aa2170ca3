"""An algorithm as the compilers see it: something to run on parts of the rows, and what is promised of it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record
from holdfast.replicable import Result, Tape, tape_argument
from holdfast.stability import NODES, Notion, Path, Step, node_of
from holdfast.workers import Progress, Workers, checked, run_all

__all__ = [
    "SIMULATED",
    "Algorithm",
    "Progress",
    "Workers",
    "algorithm_argument",
    "cut",
    "distinct",
    "effort",
    "fresh_tape",
    "noise_seed",
    "ordered_subset",
    "ordered_subsets",
    "run_all",
    "settled",
    "simulation_argument",
    "take",
]


Floats = npt.NDArray[np.float64]


class OutcomeFields(TypedDict, total=False):
    """The fields of an :class:`Algorithm` about its outcomes and their probabilities."""

    outcomes: tuple[Any, ...] | None
    probabilities: Callable[[Any], Any] | None
    batch_probabilities: Callable[[Any], Any] | None
    law_error: float
    law_runs: int
    discretise: Callable[[Any], Any] | None


@dataclass(frozen=True, repr=False)
class Algorithm(Record):
    """``run(rows, tape)`` with a declared guarantee: what every compiler takes, and what it returns.

    ``rows_needed`` rows are read, the first ones given. ``failure`` bounds the probability of a wrong output.
    ``discretise`` turns an output into an outcome, where outputs are not discrete already. Compilers that
    sample from the law of the output need the finite list ``outcomes``, and one of: ``probabilities(rows)``,
    exact or within an expected total variation ``law_error``; or ``law_runs``, the number of runs with fresh
    coins from which the law is to be estimated. ``batch_probabilities(samples)`` may give the same laws for
    an array of many samples at once, one line for each; it saves time. A compiled algorithm remembers its
    ``steps``.

    Guarantee: ``guarantee`` and ``failure`` are those declared, or what a compiler proved from them.
    Assumes: what is declared is true (not checkable here; ``holdfast.audit`` can contradict it).
    Reference: SIS Definition 2.1.

    Args:
        name: What messages call it.
        start: The guarantee that the first of its steps began with; by default its own.

    >>> from holdfast.stability import DP
    >>> coin = Algorithm(lambda rows, tape: 0, rows_needed=3, guarantee=DP(0.0))
    >>> coin([1, 0, 1])
    0
    >>> coin
    Algorithm(name='algorithm', rows_needed=3, guarantee=DP(epsilon=0, delta=0), failure=0)
    """

    run: Callable[[Any, Tape], Any] = field(repr=False)
    name: str = field(default="algorithm", kw_only=True)
    rows_needed: int = field(kw_only=True)
    guarantee: Notion = field(kw_only=True)
    failure: float = field(default=0.0, kw_only=True)
    outcomes: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)
    probabilities: Callable[[Any], Any] | None = field(default=None, kw_only=True, repr=False)
    batch_probabilities: Callable[[Any], Any] | None = field(default=None, kw_only=True, repr=False)
    law_error: float = field(default=0.0, kw_only=True, repr=False)
    law_runs: int = field(default=0, kw_only=True, repr=False)
    discretise: Callable[[Any], Any] | None = field(default=None, kw_only=True, repr=False)
    start: Notion | None = field(default=None, kw_only=True, repr=False)
    steps: tuple[Step, ...] = field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        of = "Algorithm"
        if not callable(self.run):
            raise InvalidArgument("run", "a function of rows and tape", self.run, of=of)
        for name in ("probabilities", "batch_probabilities", "discretise"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InvalidArgument(name, "a function, or left out", getattr(self, name), of=of)
        node_of(self.guarantee, argument="guarantee", of=of)
        self._set(rows_needed=checks.whole(self.rows_needed, "rows_needed", of=of))
        self._set(failure=checks.real(self.failure, "failure", "[0, 1]", of=of))
        self._set(law_error=checks.real(self.law_error, "law_error", "[0, 1]", of=of))
        self._set(law_runs=checks.whole(self.law_runs, "law_runs", at_least=0, of=of))
        if self.law_error > 0.0 and self.probabilities is None:
            raise InvalidArgument("law_error", "0 unless probabilities are given", self.law_error, of=of)
        if self.batch_probabilities is not None and self.probabilities is None:
            expected = "left out unless probabilities are given"
            raise InvalidArgument("batch_probabilities", expected, self.batch_probabilities, of=of)
        self._set(start=self.guarantee if self.start is None else self.start)
        if self.outcomes is not None:
            self._set(outcomes=_distinct(self.outcomes, of))

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __call__(self, rows: Any, tape: Tape | None = None) -> Any:
        """The outcome on ``rows``, with the coins of ``tape`` (fresh ones if none is given)."""
        rows = self._enough(rows)
        tape = fresh_tape() if tape is None else tape_argument(tape, of=self.name)
        output = self.run(rows, tape)
        return settled(output if self.discretise is None else self.discretise(output))

    def law(self, rows: object, tape: Tape | None = None) -> Floats:
        """The probabilities of ``outcomes`` on these rows, over the algorithm's coins.

        Exact where ``probabilities`` is, otherwise within ``stated_error`` of the truth in expected total
        variation; ``tape`` holds the coins of the runs from which they are estimated.
        """
        rows = self._enough(rows)
        outcomes = self.finite(of="law")
        if self.probabilities is not None:
            law: Floats = _checked_laws([self.probabilities(rows)], 1, len(outcomes), of=self.name)[0]
            return law
        tape = fresh_tape() if tape is None else tape_argument(tape, of=self.name)
        place = {outcome: index for index, outcome in enumerate(outcomes)}
        counts = np.zeros(len(outcomes))
        for number in range(self.law_runs):
            outcome = self(rows, tape.branch(f"law {number}"))
            if outcome not in place:
                raise InvalidArgument("outcomes", "all that the algorithm can give", outcome, of=self.name)
            counts[place[outcome]] += 1.0
        return counts / self.law_runs

    def laws(self, samples: npt.NDArray[Any]) -> Floats:
        """The probabilities of ``outcomes`` on each of many samples of ``rows_needed`` rows, one line each.

        ``samples`` is an array with one sample for each entry of its first axis. Needs ``probabilities``.
        """
        outcomes = self.finite(of="laws")
        if self.probabilities is None:
            raise InvalidArgument("probabilities", "given: laws are not estimated here", None, of=self.name)
        if self.batch_probabilities is None:
            lines = [self.probabilities(sample) for sample in samples]
        else:
            lines = self.batch_probabilities(samples)
            if np.shape(lines) != (len(samples), len(outcomes)):
                expected = "a function that gives one line for each sample, one number for each outcome"
                raise InvalidArgument("batch_probabilities", expected, np.shape(lines), of=self.name)
        return _checked_laws(lines, len(samples), len(outcomes), of=self.name)

    @property
    def stated_error(self) -> float:
        """How far ``law`` is from the truth: a bound on the expected total variation, for any rows.

        Guarantee: ``law_error`` where probabilities are given; ½√((k − 1)/runs) for k outcomes estimated from
        runs, since each share has variance at most p(1 − p)/runs and Σ√(p(1 − p)) ≤ √(k − 1).
        """
        if self.probabilities is not None:
            return self.law_error
        most = len(self.finite(of="stated_error")) - 1
        return rounding.probability(0.5 * math.sqrt(most / self.law_runs))

    def finite(self, *, of: str) -> tuple[Any, ...]:
        """The outcomes, for a compiler that needs finitely many and their probabilities."""
        by = "SIS Theorem 3.17"
        if self.outcomes is None:
            expected = "given: this needs finitely many outcomes (see discretise)"
            raise InvalidArgument("outcomes", expected, None, of=of, reference=by)
        if self.probabilities is None and self.law_runs == 0:
            expected = "given, or law_runs, the runs to estimate them from"
            raise InvalidArgument("probabilities", expected, None, of=of, reference=by)
        return self.outcomes

    def explain(self) -> Path:
        """How the guarantee came about: each step with its theorem, conditions, price in rows and numbers."""
        factor = math.prod(step.rows for step in self.steps)
        to = node_of(self.guarantee, argument="guarantee", of="explain").name
        start = self.guarantee if self.start is None else self.start
        return Path(start, to, self.steps, self.guarantee, factor, self.rows_needed)

    def compiled(
        self,
        run: Callable[[Any, Tape], Any],
        *,
        guarantee: Notion,
        failure: float,
        theorem: str,
        kind: str,
        conditions: tuple[str, ...],
        parameters: Mapping[str, Any],
        rows_needed: int,
        **fields: Unpack[OutcomeFields],
    ) -> Self:
        """The algorithm that a compiler made of this one: ``run`` with what was proved, and one step more.

        Further ``fields`` are those of :class:`Algorithm`: the new outcomes and their probabilities.

        Args:
            theorem: What proves the guarantee.
            kind: The kind of the step, for the derivation.
            conditions: What is assumed and cannot be checked.
            parameters: The numbers that the step chose.
        """
        step = Step(
            source=node_of(self.guarantee, argument="guarantee", of="compiled").name,
            target=node_of(guarantee, argument="guarantee", of="compiled").name,
            theorem=theorem,
            kind=kind,
            conditions=conditions,
            rows=-(-rows_needed // self.rows_needed),
            parameters=dict(parameters),
            result=guarantee,
        )
        return type(self)(
            run,
            name=self.name,
            rows_needed=rows_needed,
            guarantee=guarantee,
            failure=failure,
            start=self.start,
            steps=(*self.steps, step),
            **fields,
        )

    def _enough(self, rows: Any) -> Any:
        if not (hasattr(rows, "__len__") and hasattr(rows, "__getitem__")):
            raise InvalidArgument("rows", "a sequence, an array or a data frame", rows, of=self.name)
        if len(rows) < self.rows_needed:
            raise NotEnoughRows(self.rows_needed, len(rows), what=self.name)
        return rows if len(rows) == self.rows_needed else rows[: self.rows_needed]


def algorithm_argument(value: object, notions: tuple[str, ...], *, of: str, by: str = "") -> Algorithm:
    """Return ``value`` if it is an Algorithm whose guarantee is one of the named notions."""
    if not isinstance(value, Algorithm):
        raise InvalidArgument("algorithm", "an Algorithm", value, of=of, reference=by)
    if node_of(value.guarantee, argument="guarantee", of=of).name not in notions:
        names = " or ".join(dict.fromkeys(NODES[name].type.__name__ for name in notions))
        raise InvalidArgument(
            "algorithm", f"an Algorithm that declares {names}", value.guarantee, of=of, reference=by
        )
    return value


def fresh_tape() -> Tape:
    """Coins that nobody else has."""
    return Tape(secrets.token_hex(16))


def settled(output: object) -> Any:
    """An outcome that can be counted: plain, hashable, and equal to itself."""
    if isinstance(output, Result):
        output = output.value
    if isinstance(output, (np.ndarray, np.generic)):
        output = output.tolist()
    if isinstance(output, (list, tuple)):
        return tuple(settled(item) for item in output)
    if isinstance(output, (set, frozenset)):
        return frozenset(settled(item) for item in output)
    if isinstance(output, dict):
        return tuple(sorted((settled(key), settled(item)) for key, item in output.items()))
    if isinstance(output, float):
        # One NaN for all of them, and one zero: an outcome must be equal to itself.
        return math.nan if math.isnan(output) else output + 0.0
    return output


def _distinct(outcomes: Any, of: str) -> tuple[Any, ...]:
    listed = tuple(settled(outcome) for outcome in outcomes)
    if not listed or len(set(listed)) < len(listed):
        raise InvalidArgument("outcomes", "a non-empty list without repetitions", outcomes, of=of)
    return listed


def _checked_laws(values: Any, samples: int, size: int, *, of: str) -> Floats:
    laws = np.asarray(values, dtype=np.float64)
    if laws.shape != (samples, size):
        expected = f"one number for each of {size} outcomes"
        raise InvalidArgument("probabilities", expected, laws.shape[1:], of=of)
    if not (np.all(laws >= 0.0) and np.all(np.abs(laws.sum(axis=1) - 1.0) <= 1e-9)):
        raise InvalidArgument("probabilities", "at least 0 and of sum 1", laws, of=of)
    return laws


def effort(workers: Any, progress: object, *, of: str) -> tuple[Workers, Progress]:
    """Check the two arguments that every compiler has: the workers, and the progress callback."""
    workers = checked(workers, of=of)
    if not (isinstance(progress, bool) or callable(progress)):
        raise InvalidArgument("progress", "True, False or a function of (done, total)", progress, of=of)
    return workers, progress


def cut(rows: Any, parts: int, size: int) -> list[Any]:
    """The first ``parts`` × ``size`` rows in consecutive parts: by position alone, so one changed row changes
    one part."""
    return [rows[number * size : (number + 1) * size] for number in range(parts)]


def distinct(samples: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The different samples among many, as an array, and how often each occurs.

    Samples are equal where their bytes are. Parts of few rows from a small domain repeat often.

    >>> samples, counts = distinct(np.array([[0, 1], [1, 1], [0, 1]]))
    >>> sorted(zip(samples.tolist(), counts.tolist()))
    [([0, 1], 2), ([1, 1], 1)]
    """
    flat = np.ascontiguousarray(samples).reshape(len(samples), -1)
    whole = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1])))[:, 0]
    _, first, counts = np.unique(whole, return_index=True, return_counts=True)
    return samples[first], counts


def ordered_subset(tape: Tape, size: int, total: int) -> npt.NDArray[np.int64]:
    """``size`` of the positions 0 … ``total`` − 1, every ordered choice equally likely.

    The first distinct ones of a sequence of independent positions: no permutation of all rows is needed.
    """
    count = size + size * size // total + 16
    while 2 * size <= total:
        drawn = tape.integers(count, total)
        first = np.unique(drawn, return_index=True)[1]
        if len(first) >= size:
            return drawn[np.sort(first)[:size]]
        count *= 2
    return tape.permutation(total)[:size]


def ordered_subsets(tape: Tape, count: int, size: int, total: int) -> npt.NDArray[np.int64]:
    """``count`` independent ordered choices of ``size`` of the positions 0 … ``total`` − 1, one a line.

    Lines with a repeated position are drawn again, so ``size``² must not be much more than ``total``.
    """
    chosen = tape.branch("try 0").integers(count * size, total).reshape(count, size)
    attempt = 0
    while True:
        ordered = np.sort(chosen, axis=1)
        again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if len(again) == 0:
            return chosen
        attempt += 1
        fresh = tape.branch(f"try {attempt}").integers(len(again) * size, total)
        chosen[again] = fresh.reshape(len(again), size)


def take(rows: Any, indices: npt.NDArray[np.int64]) -> Any:
    """The rows at these positions, in this order."""
    if hasattr(rows, "iloc"):
        return rows.iloc[indices]
    if isinstance(rows, (list, tuple)):
        return [rows[index] for index in indices]
    return rows[indices]


SIMULATED = "that nobody relies on this run: its noise is simulated from the tape and protects nothing"


def simulation_argument(simulation: object, *, of: str) -> bool:
    """Return ``simulation`` if it is True or False."""
    if not isinstance(simulation, bool):
        raise InvalidArgument("simulation", "True or False", simulation, of=of)
    return simulation


def noise_seed(tape: Tape) -> int:
    """A seed for simulated noise, from a branch of its own."""
    return int(tape.branch("noise").words(1)[0])
