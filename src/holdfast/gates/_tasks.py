"""What a gate is about: its tasks and terms, and the scores of one version on them, kept beside its book.

Everything that a caller gives is checked here, against public facts only. What does not fit is refused before
anything is charged, and no message names a score.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.coding import Account, Weights
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.guard import Content
from holdfast.intervals import Interval, clopper_pearson, gain_steps, mean_interval, units_needed
from holdfast.ledger import Book, BookError
from holdfast.records import amount

Floats = NDArray[np.float64]
_MOST_NAME = 200


@dataclass(frozen=True)
class GateDefinition:
    """The tasks of a gate. They are kept beside the book, because ids may be private."""

    ids: tuple[str, ...]
    groups: tuple[str, ...] | None
    weight: str
    binary: bool
    promise: str
    confidence: float
    step: float
    minimum: float
    inputs: str
    expect: float | None
    name: str
    reading: dict[str, str]
    contents: tuple[str, ...] | None

    def to_bytes(self) -> bytes:
        """The definition as it is kept."""
        return json.dumps(vars(self), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> GateDefinition:
        """What was kept."""
        stored = json.loads(content)
        for name in ("ids", "groups", "contents"):
            stored[name] = _tuple(stored[name])
        return cls(**stored)

    @property
    def most_steps(self) -> int:
        return math.ceil((1 - self.minimum) / self.step) + 1

    @property
    def units(self) -> int:
        """How many independent units there are."""
        return len(self.ids) if self.groups is None else len(set(self.groups))

    def margin(self, steps: int) -> float:
        return min(1.0, self.minimum + steps * self.step)

    def steps_shown(self, differences: Floats, nats: float) -> int | None:
        """How many steps of gain the differences show; None where they show no gain."""
        sums, sizes = self._by_unit(differences)
        return gain_steps(
            sums, nats=nats, step=self.step, least=self.minimum, sizes=sizes, binary=self.binary
        )

    def mean(self, values: Floats, nats: float, lowest: float = 0.0) -> tuple[float, Interval]:
        """The mean of values of at most 1 and at least ``lowest``, and an interval for its expectation."""
        sums, sizes = self._by_unit(values)
        value = float(sums.sum() / (sums.size if sizes is None else sizes.sum()))
        if self.binary and lowest == 0:
            return value, clopper_pearson(int(sums.sum()), sums.size, nats)
        return value, mean_interval(sums, nats, lo=lowest, hi=1.0, sizes=sizes)

    def _by_unit(self, values: Floats) -> tuple[Floats, Floats | None]:
        """The sums of the units and their sizes; None where each unit counts once."""
        if self.groups is None:
            return values, None
        _, unit = np.unique(np.array(self.groups), return_inverse=True)
        sums = np.bincount(unit, weights=values).astype(np.float64)
        sizes = np.bincount(unit).astype(np.float64)
        return (sums / sizes, None) if self.weight == "clusters" else (sums, sizes)

    def require_same_tasks(self, contents: Mapping[Any, Any] | None) -> None:
        """Refuse results about other tasks with the same ids, where both files show what the tasks were."""
        if contents is None or self.contents is None:
            return
        other_tasks = [
            task for task, digest in zip(self.ids, self.contents, strict=True) if contents.get(task) != digest
        ]
        if other_tasks:
            raise QueryRejected(
                f"{amount(len(other_tasks), 'tasks')} are not the ones this gate was opened for, for example "
                f"{other_tasks[0]!r}: it has the id of another task. Another task set is another gate."
            )

    def require_enough_tasks(self) -> None:
        """Refuse a gate whose first candidate could not be promoted even if it solved every task."""
        nats = Account(1 - self.confidence, weights=Weights(expect=self.expect)).nats()
        if self.steps_shown(np.ones(len(self.ids)), nats) is not None:
            return
        needed = units_needed(nats, least=self.minimum, binary=self.binary)
        if needed <= self.units:
            raise QueryRejected(
                f"The sizes of these {self.units:,} clusters differ too much: the largest cluster decides "
                "the result, and no candidate could be promoted. Use weight='clusters', or split large "
                "clusters if their tasks are independent."
            )
        unit = "tasks" if self.groups is None else "clusters"
        raise NotEnoughRows(needed, self.units, what="This gate", unit=unit)


@dataclass(frozen=True)
class Candidate:
    """The scores of one version in the order of the tasks, and digests of its outputs if they are given."""

    values: Floats
    outputs: tuple[str, ...] | None

    @classmethod
    def of(cls, ids: Sequence[str], given_scores: GivenScores) -> Candidate:
        """Scores that fit the tasks. What does not fit is refused without naming a score."""
        by_task = _by_task(given_scores.scores, ids, "scores")
        values = np.array([_average(by_task[task]) for task in ids])
        if not ((values >= 0) & (values <= 1)).all():
            raise QueryRejected(
                "Every score must be a number from 0 to 1, and at least one here is not. This message does "
                "not say which, because scores are sealed. Divide points by the most that a task can have."
            )
        if given_scores.outputs is None:
            return cls(values, None)
        answers = _by_task(given_scores.outputs, ids, "outputs")
        digests = tuple(hashlib.sha256(str(answers[task]).encode()).hexdigest() for task in ids)
        return cls(values, digests)

    @property
    def is_binary(self) -> bool:
        return bool(np.isin(self.values, (0.0, 1.0)).all())

    def to_bytes(self) -> bytes:
        return json.dumps({"outputs": self.outputs, "scores": self.values.tolist()}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Candidate:
        stored = json.loads(content)
        return cls(np.array(stored["scores"]), _tuple(stored["outputs"]))


class TaskScores(Protocol):
    """Scores by task id, and what else :class:`holdfast.results.Results` knows about them."""

    @property
    def scores(self) -> Mapping[Any, Any]:
        """Task id to score, or to a list of scores."""


class GivenScores(NamedTuple):
    """What a caller gives about one version. ``contents`` are digests of the tasks themselves."""

    scores: Mapping[Any, Any]
    outputs: Mapping[Any, Any] | None
    name: str | None
    contents: Mapping[Any, Any] | None

    @classmethod
    def of(cls, scores: Any, outputs: Any, argument: str, of: str) -> GivenScores:
        """The parts of a mapping, or of :class:`holdfast.results.Results` and what is like it."""
        if outputs is not None and not isinstance(outputs, Mapping):
            kind = type(outputs)
            raise InvalidArgument("outputs", "a mapping from task id to what was answered", kind, of=of)
        if isinstance(scores, Mapping):
            return cls(scores, outputs, None, None)
        if isinstance(getattr(scores, "scores", None), Mapping):
            answers = getattr(scores, "outputs", None) if outputs is None else outputs
            return cls(
                scores.scores, answers, getattr(scores, "name", None), getattr(scores, "contents", None)
            )
        raise InvalidArgument(
            argument,
            "a mapping from task id to score, or the Results of holdfast.results.read_results",
            type(scores),
            of=of,
        )


def task_ids(tasks: Iterable[Any]) -> tuple[str, ...]:
    if isinstance(tasks, (str, bytes)) or not isinstance(tasks, Iterable):
        raise InvalidArgument("tasks", "a sequence of task ids", tasks, of="Gate")
    ids = sorted(str(task) for task in tasks)
    repeated = sorted({task for task, following in itertools.pairwise(ids) if task == following})
    if repeated:
        raise QueryRejected(
            f"{amount(len(repeated), 'task ids')} occur more than once, for example {repeated[0]!r}. Give "
            "every task an id of its own."
        )
    if not ids:
        raise InvalidArgument("tasks", "at least one task id", tasks, of="Gate")
    return tuple(ids)


def _by_task(values: Mapping[Any, Any], ids: Sequence[str], name: str) -> dict[str, Any]:
    """Values by task id, if they are there for exactly these tasks."""
    by_task = {str(task): value for task, value in values.items()}
    if len(by_task) < len(values):
        raise QueryRejected(f"Two task ids of the {name} are the same as text, such as 1 and '1'.")
    expected = set(ids)
    missing, unknown = sorted(expected - set(by_task)), sorted(set(by_task) - expected)
    if missing:
        could_not = " A task that the candidate could not do has the score 0." if name == "scores" else ""
        raise QueryRejected(
            f"{len(missing):,} of {len(ids):,} tasks are missing from the {name}, for example "
            f"{missing[0]!r}. Give all of them.{could_not}"
        )
    if unknown:
        raise QueryRejected(
            f"The {name} have {amount(len(unknown), 'tasks')} that this gate does not know, for example "
            f"{unknown[0]!r}. Another task set is another gate."
        )
    return by_task


def text_of_each(values: Any, ids: Sequence[str], name: str) -> tuple[str, ...] | None:
    """A text for each task, in the order of the tasks; None where nothing is given."""
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise InvalidArgument(name, "a mapping from task id to text", type(values).__name__, of="Gate")
    by_task = _by_task(values, ids, name)
    return tuple(str(by_task[task]) for task in ids)


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _average(score: Any) -> float:
    """A score, or the mean of repeats; NaN for what is neither, which is refused with the rest."""
    repeats = list(score) if isinstance(score, (list, tuple, np.ndarray)) else [score]
    try:
        numbers = [float(value) for value in repeats]
    except (TypeError, ValueError, OverflowError):
        return math.nan
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        return math.nan
    return math.fsum(numbers) / len(numbers)


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME or not name.isprintable():
        raise InvalidArgument("name", f"a printable text of at most {_MOST_NAME} characters", name, of="Gate")
    return name


def default_step(tasks: int) -> float:
    """About five tasks, rounded up to 1, 2 or 5 times a power of ten."""
    target = 5 / tasks
    power = 10.0 ** math.floor(math.log10(target))
    return min(1.0, next(factor * power for factor in (1, 2, 5, 10) if factor * power >= target - 1e-12))


def content_of(content: bytes) -> Content:
    """The digest of ``content`` that is kept, as the lines of a book have it."""
    return Content(hashlib.sha256(content).digest(), None)


def store_content(book: Book, content: bytes) -> None:
    """Keep ``content`` beside the book, under its own keyed digest: nothing kept before is overwritten."""
    book.keep(f"gate {content_of(content).under(book.secret)}", content)


def stored_content(book: Book, digest: str) -> bytes:
    """What was kept beside the ``book`` under this ``digest``."""
    content = book.kept(f"gate {digest}")
    if content is None or content_of(content).under(book.secret) != digest:
        raise BookError(f"The account book {book.name} has lost scores of this gate, or they were changed.")
    return content
