"""Signs of marginals from an agnostic learner, and what that costs the learner (SIS 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding, search
from holdfast.barriers._lower_bounds import sign_one_way_marginals_bound
from holdfast.errors import InvalidArgument
from holdfast.intervals import binomial_log_tail
from holdfast.records import Record
from holdfast.replicable import Tape, tape_argument
from holdfast.stability import Notion, Replicability

__all__ = ["LearnedSigns", "agnostic_bound", "marginals_from_learner", "overflow_probability"]

Floats = npt.NDArray[np.float64]
Learner = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int8], Tape], Any]


@dataclass(frozen=True, repr=False, eq=False)
class LearnedSigns(Record):
    """The learner's predictions at the d shattered points, or d ones if some point ran out of rows.

    ``overflow`` says whether it did; ``overflow_probability`` bounds how likely that was.

    Args:
        value: The sign of each marginal.
        examples: How many labelled examples the learner saw.
        rows: How many rows they were made of.
        tape: The tape, as text.
    """

    value: Floats
    overflow: bool
    overflow_probability: float
    examples: int
    rows: int
    tape: str

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.value, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """The record as a dictionary of plain values, ready for JSON."""
        return {**super().to_dict(), "value": self.value.tolist()}


def marginals_from_learner(
    samples: npt.ArrayLike, learner: Learner, *, examples: int, tape: Tape
) -> LearnedSigns:
    """Algorithm 9: signs of the marginals of ``samples``, by asking an agnostic learner.

    The tape draws ``examples`` points uniformly from d shattered points, 0 … d − 1; the k-th example at point
    j gets the k-th entry of column j as its label. ``learner(points, labels, tape)`` returns d predictions,
    or a function of an array of points.

    Guarantee: a learner that is (α, β)-accurate and ρ-replicable on ``examples`` examples gives an algorithm
    for signs of marginals that is (2α, β + overflow)-accurate and ρ-replicable, with the same ρ.
    Assumes: rows of a product distribution (not checkable), entries −1 and 1 (checked); a learner that takes
    all its coins from the tape.
    Reference: SIS Algorithm 9 and Theorem 5.9, which loses 0.0002 or 0.0004 of ρ where nothing is lost.

    >>> table = np.where(np.random.default_rng(1).random((60, 4)) < [0.9, 0.1, 0.8, 0.2], 1, -1)
    >>> majority = lambda points, labels, tape: np.sign(np.bincount(points, labels, minlength=4) + 0.5)
    >>> marginals_from_learner(table, majority, examples=100, tape=Tape("study-7")).value.tolist()
    [1.0, -1.0, 1.0, -1.0]
    """
    of, by = "marginals_from_learner", "SIS Algorithm 9"
    table = np.asarray(samples)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iuf" or not (np.abs(table) == 1).all():
        raise InvalidArgument("samples", "a table of −1 and 1", "something else (not shown)", of=of)
    examples = checks.whole(examples, "examples", of=of, by=by)
    tape = tape_argument(tape, of=of)
    rows, d = table.shape
    points = tape.branch("points").integers(examples, d)
    counts = np.bincount(points, minlength=d)
    overflow = bool(counts.max() > rows)
    value = np.ones(d)
    if not overflow:
        labels = table[_occurrence(points, counts), points].astype(np.int8)
        hypothesis = learner(points, labels, tape.branch("learner"))
        value = _predictions(hypothesis(np.arange(d)) if callable(hypothesis) else hypothesis, d)
    return LearnedSigns(
        value=value,
        overflow=overflow,
        overflow_probability=overflow_probability(d, rows=rows, examples=examples),
        examples=examples,
        rows=rows,
        tape=str(tape),
    )


def overflow_probability(d: int, *, rows: int, examples: int) -> float:
    """How likely it is that some of ``d`` points is drawn more than ``rows`` times among ``examples`` draws.

    Guarantee: an upper bound, d·P(Bin(examples, 1/d) > rows) with the exact tail, at most 1.
    Assumes: independent uniform draws.
    Reference: SIS Theorem 5.9, the event E.

    >>> overflow_probability(10, rows=30, examples=100)
    6.047038482305362e-08
    """
    of, by = "overflow_probability", "SIS Theorem 5.9"
    d = checks.whole(d, "d", at_most=10**12, of=of, by=by)
    rows = checks.whole(rows, "rows", at_least=0, of=of, by=by)
    examples = checks.whole(examples, "examples", at_most=2**60, of=of, by=by)
    if rows >= examples:
        return 0.0
    if not (rows + 1) * d > examples:
        return 1.0
    nats = 460.0
    tail = binomial_log_tail(examples - rows - 1, examples, 1.0 - 1.0 / d, 1.0 / d, nats)
    return rounding.probability(math.exp(min(0.0, tail + math.log(d))))


def agnostic_bound(vc: int, *, accuracy: float, beta: float, stability: Notion, method: str = "sharp") -> int:
    """Examples that any replicable agnostic learner needs for a class of VC dimension ``vc``.

    Guarantee: an agnostic learner that is (accuracy, beta)-accurate and as replicable as ``stability`` says
    reads at least this many examples: with fewer, Algorithm 9 would find signs of ``vc`` marginals from fewer
    rows than ``sign_one_way_marginals_bound`` allows. Of order vc²/(α²ρ² ln(1/ρ)), without a logarithm of vc.
    Assumes: a Replicability; 0 where nothing is proved.
    Reference: SIS Theorem 5.6, which states Ω̃(vc²); constants: Holdfast.

    Args:
        accuracy: How far from the truth the result may be.
        beta: How often the result may be farther from the truth than the accuracy, at most.
        method: "sharp", or "paper" for the constants as printed.

    >>> agnostic_bound(100, accuracy=0.01, beta=0.001, stability=Replicability(0.0001))
    982459233838
    """
    of, by = "agnostic_bound", "SIS Theorem 5.6"
    vc = checks.whole(vc, "vc", at_most=10**9, of=of, by=by)
    accuracy = checks.real(accuracy, "accuracy", "(0, 0.5]", of=of, by=by)
    beta = checks.real(beta, "beta", "[0, 1]", of=of, by=by)
    if not isinstance(stability, Replicability):
        raise InvalidArgument("stability", "Replicability", stability, of=of, reference=by)
    best = 0
    for overflow in np.geomspace(1e-6, 0.1, 11):
        total = min(1.0, beta + float(overflow))
        rows = sign_one_way_marginals_bound(
            vc, accuracy=2.0 * accuracy, beta=total, stability=stability, method=method
        )
        if rows > 1:
            best = max(best, 1 + _most_examples(vc, rows - 1, float(overflow)))
    return best


def _most_examples(d: int, rows: int, overflow: float) -> int:
    """The most examples that overflow ``rows`` rows with at most this probability."""

    def fits(examples: int) -> bool:
        return examples <= 2**60 and overflow_probability(d, rows=rows, examples=examples) <= overflow

    return search.whole_edge(fits, rows, rows * d + 1)


def _occurrence(points: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How often the point of each example was drawn before it."""
    order = np.argsort(points, kind="stable")
    seen = np.empty_like(points)
    seen[order] = np.arange(len(points)) - np.repeat(np.cumsum(counts) - counts, counts)
    return seen


def _predictions(values: Any, d: int) -> Floats:
    predicted = np.asarray(values, dtype=np.float64)
    if predicted.shape != (d,) or not (np.abs(predicted) <= 1.0).all():
        raise InvalidArgument(
            "learner", f"one that predicts {d} numbers in [-1, 1]", values, of="marginals_from_learner"
        )
    return predicted
