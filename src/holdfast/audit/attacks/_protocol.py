"""What an attacker asks, whom, and what came of it; and conditions on one row as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.errors import BudgetSpent
from holdfast.records import Record

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class AttackQuestion:
    """One value in [0, 1] for each row; its mean over the population, ``truth``, is known to the simulation.

    An answerer calls the question with the rows it holds. ``guess`` is what the attacker suggests, for
    answerers that take guesses. ``condition`` writes a question whose values are 0 and 1 as a condition on
    one row, given the names of the columns, for answerers that read text.

    Args:
        values: Takes the rows and returns a value in [0, 1] for each of them.
        name: A short name.
    """

    values: Callable[[Rows], Any]
    truth: float
    guess: float | None = None
    name: str = "question"
    condition: Callable[[Sequence[str]], str] | None = None

    def __call__(self, rows: Rows) -> Floats:
        """The value of each row."""
        return np.asarray(self.values(rows), dtype=np.float64)


class Answerer(Protocol):
    """The side that is attacked. It returns a number, or an answer with ``value``, ``low`` and ``high``."""

    def __call__(self, question: AttackQuestion, /) -> Any:
        """The answer to one question; :class:`~holdfast.errors.BudgetSpent` ends the attack."""


@dataclass(frozen=True, repr=False)
class Attack(Record):
    """The answers that an attack received, question by question, beside the truth.

    ``lows`` and ``highs`` are NaN where the answerer gave no interval. Where it refused to continue,
    ``refused`` is the refusal and the answers are those before it. Iterating gives (interval, truth) pairs,
    which is what ``coverage`` takes.

    Args:
        name: A short name.
        answers: The answers in order.
        truths: The true value of each question.
        details: Further numbers of the attack by name.
    """

    name: str
    answers: tuple[float, ...]
    truths: tuple[float, ...]
    lows: tuple[float, ...] = field(default=(), repr=False)
    highs: tuple[float, ...] = field(default=(), repr=False)
    refused: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """How far the last answer is above its truth; NaN after a refusal, or if nothing was asked."""
        return math.nan if self.refused or not self.answers else self.answers[-1] - self.truths[-1]

    @property
    def error(self) -> float:
        """The largest distance of an answer from its truth."""
        return max(
            (abs(answer - truth) for answer, truth in zip(self.answers, self.truths, strict=True)),
            default=0.0,
        )

    @property
    def missed(self) -> int:
        """How many intervals do not contain their truth; those that were not given are not counted."""
        return sum(not low <= truth <= high for (low, high), truth in self if not math.isnan(low))

    def __iter__(self) -> Iterator[tuple[tuple[float, float], float]]:
        return iter(
            [
                ((low, high), truth)
                for low, high, truth in zip(self.lows, self.highs, self.truths, strict=True)
            ]
        )

    def __repr__(self) -> str:
        end = "refused" if self.refused else f"gained {self.gain:+.4g}"
        return f"Attack({self.name}: {len(self.answers)} answers, {end}, largest error {self.error:.4g})"


class Transcript:
    """Asks questions and keeps every answer beside its truth."""

    def __init__(self, answer: Answerer | None) -> None:
        self._answer = answer
        self.answers: list[tuple[float, float, float, float]] = []

    def ask(self, question: AttackQuestion) -> float:
        """The answer's value."""
        if self._answer is None:
            raise TypeError("there is nobody to ask")
        return self.hear(self._answer(question), question.truth)

    def hear(self, answer: Any, truth: float) -> float:
        """The value of an answer about ``truth``."""
        value = float(answer.value if hasattr(answer, "value") else answer)
        self.answers.append(
            (value, truth, getattr(answer, "low", math.nan), getattr(answer, "high", math.nan))
        )
        return value

    def on_edge(self, at: float) -> float:
        """A guess whose cell begins at ``at``, for an answerer that has cells and says how wide they are."""
        cell = getattr(self._answer, "cell", 0.0)
        return min(1.0, at + (cell / 2 if cell > 0 else 0.0))


def carried_out(name: str, answer: Answerer | None, moves: Callable[[Transcript], dict[str, Any]]) -> Attack:
    """The attack that ``moves`` makes, up to a refusal if there is one."""
    transcript = Transcript(answer)
    details: dict[str, Any] = {}
    refused = ""
    try:
        details = moves(transcript)
    except BudgetSpent as refusal:
        refused = str(refusal) or "refused"
    values, truths, lows, highs = (
        zip(*transcript.answers, strict=True) if transcript.answers else ((), (), (), ())
    )
    return Attack(name, values, truths, lows, highs, refused, details)


def expected_share(columns: int, rows: int, deviations: float = 2.0) -> float:
    """How often a vote of fair coins is right on the rows that chose its signs, Φ(√(2 columns / (π rows))),
    less so many standard deviations."""
    return (1 + math.erf(math.sqrt(columns / (math.pi * rows)))) / 2 - 0.5 * deviations / math.sqrt(rows)


def quoted_column(name: str) -> str:
    """A column's name, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def total(terms: Sequence[str]) -> str:
    """A sum that nests only as deep as the logarithm of its length."""
    if len(terms) <= 2:
        return " + ".join(terms) or "0"
    middle = len(terms) // 2
    return f"({total(terms[:middle])}) + ({total(terms[middle:])})"


def weighted(names: Sequence[str], weights: Sequence[float]) -> str:
    """Σ weight · column."""
    pairs = zip(names, weights, strict=True)
    return total([f"{float(weight)!r} * {quoted_column(name)}" for name, weight in pairs])
