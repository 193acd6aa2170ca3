"""Lower confidence bounds on ε at δ, for any two laws that can be sampled.

An event that separates the two laws is chosen from samples of both, and tested on other samples. So the
choice of the event does not affect validity, only power. Therefore many candidates are tried: half-lines of
every coordinate, of distances between coordinates, of the direction that separates the means and of an
estimated likelihood ratio, and sets of single outputs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from holdfast import checks, rounding
from holdfast.audit._finding import (
    Finding,
    Running,
    claim_argument,
    confidence_argument,
    function_name,
    result_key,
    subject_of,
)
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.workers import Progress, Workers

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_MOST_COORDINATES = 32
_MOST_IN_PAIRS = 8
_BINS = 32
_THRESHOLDS = 256
# The best of many candidates is partly lucky. A stricter level reduces that bias.
_STRICTER = 1000


@dataclass(frozen=True)
class _Draws:
    """One trial: outputs of both laws, from generators of their own."""

    a: Callable[..., Any]
    b: Callable[..., Any]
    batch: int | None

    def __call__(self, number: int, rng: np.random.Generator) -> list[list[Any]]:
        return [self._drawn(law, child) for law, child in zip((self.a, self.b), rng.spawn(2), strict=True)]

    def _drawn(self, law: Callable[..., Any], rng: np.random.Generator) -> list[Any]:
        if self.batch is None:
            return [plain_output(law(rng))]
        outputs = law(rng, self.batch)
        if len(outputs) != self.batch:
            raise InvalidArgument("batch", f"the number of outputs drawn, {len(outputs)}", self.batch)
        return [plain_output(output) for output in outputs]


def indistinguishability(
    a: Callable[..., Any],
    b: Callable[..., Any],
    trials: int,
    *,
    delta: float = 0.0,
    epsilon: float | None = None,
    confidence: float = 0.99,
    batch: int | None = None,
    name: str | None = None,
    seed: int = 0,
    workers: Workers = 1,
    resume: str | Path | None = None,
    progress: Progress = False,
) -> Finding:
    """A lower confidence bound on the ε for which two laws are (ε, ``delta``)-indistinguishable.

    ``a(rng)`` and ``b(rng)`` draw one output each, say of a mechanism on two neighbouring tables; a mechanism
    with coins of its own may ignore ``rng``. Outputs are numbers, arrays, or anything discrete, None
    included. Half of the ``trials`` choose the event that tells the laws apart best, the other half count it.
    With ``batch``, ``a(rng, batch)`` draws that many outputs at once, and a trial is one batch: small δ needs
    millions of outputs. ``epsilon`` is what is claimed. ``workers``, ``resume`` and ``progress`` are those of
    :func:`replicability`.

    Guarantee: with probability ≥ ``confidence`` over the trials, a and b are not (ε, δ)-indistinguishable for
    any ε below ``low``, whatever they are. Nothing is bounded from above: a small ``low`` may mean that no
    telling event was found.
    Assumes: independent draws (not checkable for a mechanism that keeps its coins).
    Reference: ``docs/theory/typical-stability.md`` for indistinguishability; Jagielski, Ullman and Oprea 2020
    for the audit; exact limits by Clopper and Pearson.

    Args:
        name: What the finding calls the subject. None takes it from the functions.
        seed: The seed of the trials.

    >>> noisy = lambda value, scale: lambda rng: value + rng.laplace(scale=scale)
    >>> indistinguishability(noisy(0, 1), noisy(1, 1), 4000, epsilon=1.0).verdict
    'not refuted'
    >>> indistinguishability(noisy(0, 0.7), noisy(1, 0.7), 4000, epsilon=1.0).verdict
    'refuted'
    """
    of = "indistinguishability"
    trials = checks.whole(trials, "trials", at_least=4, of=of)
    delta = checks.real(delta, "delta", "[0, 1)", of=of)
    confidence = confidence_argument(confidence, of=of)
    seed = checks.whole(seed, "seed", at_least=0, of=of)
    claim = claim_argument(epsilon, "epsilon", "[0, inf)", of=of)
    size = None if batch is None else checks.whole(batch, "batch", of=of)
    about = {"a": function_name(a), "b": function_name(b), "batch": size}
    drawn = Running(of, seed, workers, resume, progress).run(_Draws(a, b, size), trials, about)
    half = trials // 2
    chosen = best_event(_outputs(drawn[:half], 0), _outputs(drawn[:half], 1), delta, (1 - confidence) / 2)
    counts, counted = _count(chosen, [_outputs(drawn[half:], side) for side in (0, 1)])
    likelier, other = counts[::-1] if chosen.swapped else counts
    low, estimate = _epsilon(likelier, other, counted, delta, confidence)
    second, first = ("a", "b") if chosen.swapped else ("b", "a")
    return Finding(
        of,
        subject_of(name, a, b),
        "ε" if delta == 0 else f"ε at δ = {delta:g}",
        trials,
        estimate,
        low,
        math.inf,
        confidence,
        claim,
        statement=f"The event that {chosen.words}, chosen on other trials, happened {likelier:,} times in "
        f"{counted:,} under {first} and {other:,} times under {second}.",
        assumes=("The draws are independent, with fresh coins in each.",),
        seed=seed,
        details={"delta": delta, "event": chosen.words, "likelier under": first, "counted": counted}
        | {"in a": counts[0], "in b": counts[1]},
    )


def _outputs(drawn: list[list[list[Any]]], side: int) -> Outputs:
    return Outputs([output for trial in drawn for output in trial[side]])


def _count(event: OutputEvent, sides: list[Outputs]) -> tuple[list[int], int]:
    return [int(event.contains(side).sum()) for side in sides], len(sides[0].drawn)


def _epsilon(likelier: int, other: int, counted: int, delta: float, confidence: float) -> tuple[float, float]:
    """The lower limit and the plain estimate of ln((P − δ)/Q)."""
    # One-sided limits with half of the error each: the two-sided interval with all of it has the same ends.
    nats = -math.log1p(-confidence)
    low = clopper_pearson(likelier, counted, nats).low - delta
    high = clopper_pearson(other, counted, nats).high
    share, other_share = likelier / counted - delta, other / counted
    if not share > other_share:
        estimate = 0.0
    else:
        estimate = math.log(share / other_share) if other_share > 0 else math.inf
    return (max(0.0, rounding.down(math.log(low / high))) if low > high else 0.0), estimate


def plain_output(output: Any) -> list[float] | str:
    """An output as JSON keeps it: a list of numbers, or a text that stands for anything else."""
    if hasattr(output, "guarantee") and hasattr(output, "value"):
        output = output.value
    if isinstance(output, Real) and not isinstance(output, (bool, np.bool_)):
        output = [output]
    if isinstance(output, (list, tuple, np.ndarray)):
        array = np.asarray(output)
        if array.dtype.kind in "fiu" and array.size and np.isfinite(array).all():
            return [float(number) for number in array.ravel()]
    return result_key(output)


@dataclass(frozen=True)
class Outputs:
    """Outputs of one law, in the order they were drawn."""

    drawn: list[list[float] | str]

    @cached_property
    def length(self) -> int:
        """How many numbers most outputs consist of; 0 where they are no numbers."""
        return Counter(0 if isinstance(output, str) else len(output) for output in self.drawn).most_common(1)[
            0
        ][0]

    def halves(self) -> tuple[Outputs, Outputs]:
        """The first and the second half."""
        middle = len(self.drawn) // 2
        return Outputs(self.drawn[:middle]), Outputs(self.drawn[middle:])

    def numbers(self, length: int) -> Floats:
        """A line for each output; NaN, which no half-line contains, where it is something else."""
        nothing = [np.nan] * length
        lines = [
            nothing if isinstance(output, str) or len(output) != length else output for output in self.drawn
        ]
        return np.array(lines, dtype=np.float64).reshape(len(lines), length)

    @cached_property
    def labels(self) -> list[str]:
        """Each output as a text."""
        return [output if isinstance(output, str) else repr(output) for output in self.drawn]


@dataclass(frozen=True)
class OutputEvent:
    """A set of outputs; ``swapped`` where it is likelier under the second law."""

    words: str
    contains: Callable[[Outputs], Bools]
    swapped: bool


def lower_epsilon(inside: Any, outside: Any, drawn: int, delta: float, error: float) -> Any:
    """ln((P̲ − δ)/Q̄) with one-sided limits at ``error`` each, from counts among ``drawn``: for choosing
    only."""
    low = np.where(inside > 0, special.betaincinv(np.maximum(inside, 1), drawn - inside + 1.0, error), 0.0)
    high = np.where(
        outside < drawn, special.betaincinv(outside + 1.0, np.maximum(drawn - outside, 1.0), 1 - error), 1.0
    )
    return np.log(np.maximum(low - delta, 1e-300) / high)


def best_event(first: Outputs, second: Outputs, delta: float, error: float) -> OutputEvent:
    """The event that promises the largest lower limit on ε at ``delta``, in either direction.

    Scores are fitted to one half of the outputs and compared on the other: a score looks too good on what it
    was fitted to.
    """
    error /= _STRICTER
    fitting, judging = zip(first.halves(), second.halves(), strict=True)
    candidates = [*_atoms(*fitting, *judging, delta, error)]
    length = first.length or second.length
    if length:
        a, b = (side.numbers(length) for side in judging)
        for words, score in _scores(*(side.numbers(length) for side in fitting)):
            candidates.extend(_half_lines(words, score, length, score(a), score(b), delta, error))
    best = max(candidates, key=lambda candidate: candidate[0], default=None)
    return OutputEvent("everything", _everything, False) if best is None else best[1]


def _everything(outputs: Outputs) -> Bools:
    return np.ones(len(outputs.drawn), dtype=bool)


def _atoms(
    a: Outputs, b: Outputs, judge_a: Outputs, judge_b: Outputs, delta: float, error: float
) -> Iterator[tuple[float, OutputEvent]]:
    """Sets of single outputs, the most telling first; nothing where hardly any output occurs twice."""
    fitted = Counter(a.labels), Counter(b.labels)
    judged = Counter(judge_a.labels), Counter(judge_b.labels)
    outputs = sorted(set().union(*fitted, *judged))
    if 2 * len(outputs) > len(a.drawn) + len(b.drawn):
        return
    fitted_counts, counts = (
        np.array([[side[label] for label in outputs] for side in sides], dtype=np.float64)
        for sides in (fitted, judged)
    )
    for swapped in (False, True):
        ratio = (fitted_counts[0] + 0.5) / (fitted_counts[1] + 0.5)
        order = np.argsort(ratio if swapped else -ratio, kind="stable")
        likelier, other = counts[::-1] if swapped else counts
        bounds = lower_epsilon(
            np.cumsum(likelier[order]), np.cumsum(other[order]), len(judge_a.drawn), delta, error
        )
        size = int(np.argmax(bounds)) + 1
        chosen = frozenset(outputs[place] for place in order[:size])
        yield float(bounds[size - 1]), OutputEvent(_set_words(chosen), _Within(chosen), swapped)


@dataclass(frozen=True)
class _Within:
    chosen: frozenset[str]

    def __call__(self, outputs: Outputs) -> Bools:
        return np.array([label in self.chosen for label in outputs.labels])


def _set_words(chosen: Iterable[str]) -> str:
    shown = sorted(chosen)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f"the output is {', '.join(text[:40] for text in shown[:3])}{more}"


Score = Callable[[Floats], Floats]


def _scores(a: Floats, b: Floats) -> Iterator[tuple[str, Score]]:
    width = a.shape[1]
    for place in range(min(width, _MOST_COORDINATES)):
        yield f"number {place + 1}" if width > 1 else "the number", _Coordinate(place)
    yield "the estimated likelihood ratio", _Likelihood.fitted(a, b)
    if width == 1:
        return
    yield "the direction between the means", _direction(a, b)
    if width <= _MOST_IN_PAIRS:
        for first, second in combinations(range(width), 2):
            yield (
                f"the distance of numbers {first + 1} and {second + 1}",
                _Distance(first, second),
            )


@dataclass(frozen=True)
class _Coordinate:
    place: int

    def __call__(self, numbers: Floats) -> Floats:
        return numbers[:, self.place]


@dataclass(frozen=True)
class _Distance:
    first: int
    second: int

    def __call__(self, numbers: Floats) -> Floats:
        return np.abs(numbers[:, self.first] - numbers[:, self.second])


def _direction(a: Floats, b: Floats) -> Score:
    """Fisher's linear discriminant."""
    a, b = a[~np.isnan(a[:, 0])], b[~np.isnan(b[:, 0])]
    if len(a) < 2 or len(b) < 2:
        return lambda numbers: numbers.sum(axis=1)
    covariance = np.atleast_2d(np.cov(a.T)) + np.atleast_2d(np.cov(b.T))
    weights = np.linalg.pinv(covariance) @ (a.mean(axis=0) - b.mean(axis=0))
    return lambda numbers: np.asarray(numbers @ weights)


@dataclass(frozen=True)
class _Likelihood:
    """The sum over coordinates of the log ratio of two histograms."""

    edges: list[Floats]
    ratios: list[Floats]

    @classmethod
    def fitted(cls, a: Floats, b: Floats) -> _Likelihood:
        edges, ratios = [], []
        for column in range(a.shape[1]):
            pooled = np.concatenate([a[:, column], b[:, column]])
            pooled = pooled[~np.isnan(pooled)]
            inner = np.unique(np.quantile(pooled, np.linspace(0, 1, _BINS + 1)[1:-1]))
            counts = [
                np.bincount(np.searchsorted(inner, side[:, column]), minlength=len(inner) + 1)
                for side in (a, b)
            ]
            edges.append(inner)
            ratios.append(np.log((counts[0] + 1.0) / (counts[1] + 1.0)))
        return cls(edges, ratios)

    def __call__(self, numbers: Floats) -> Floats:
        total = np.zeros(len(numbers))
        for column, (inner, ratio) in enumerate(zip(self.edges, self.ratios, strict=True)):
            total += ratio[np.searchsorted(inner, numbers[:, column])]
        return np.where(np.isnan(numbers[:, 0]), np.nan, total)


@dataclass(frozen=True)
class _HalfLine:
    score: Score
    length: int
    threshold: float
    above: bool

    def __call__(self, outputs: Outputs) -> Bools:
        scores = self.score(outputs.numbers(self.length))
        with np.errstate(invalid="ignore"):
            return scores > self.threshold if self.above else scores <= self.threshold


def _half_lines(
    words: str, score: Score, length: int, at_a: Floats, at_b: Floats, delta: float, error: float
) -> Iterator[tuple[float, OutputEvent]]:
    sides = [np.sort(side[~np.isnan(side)]) for side in (at_a, at_b)]
    pooled = np.sort(np.concatenate(sides))
    if not len(pooled):
        return
    tails = np.geomspace(0.5 / len(pooled), 0.5, _THRESHOLDS // 2)
    thresholds = np.unique(pooled[((len(pooled) - 1) * np.concatenate([tails, 1 - tails])).astype(int)])
    below = [np.searchsorted(side, thresholds, side="right").astype(np.float64) for side in sides]
    for above in (False, True):
        counts = [len(side) - low if above else low for side, low in zip(sides, below, strict=True)]
        for swapped in (False, True):
            likelier, other = counts[::-1] if swapped else counts
            bounds = lower_epsilon(likelier, other, len(at_a), delta, error)
            best = int(np.argmax(bounds))
            threshold = float(thresholds[best])
            words_of_event = f"{words} is {'above' if above else 'at most'} {threshold:.6g}"
            yield (
                float(bounds[best]),
                OutputEvent(words_of_event, _HalfLine(score, length, threshold, above), swapped),
            )
