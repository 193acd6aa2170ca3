"""Scores per task: the one place in which files are opened, repeats are averaged and scores are checked.

Files were written by somebody else: sizes are limited, and no error shows what is in them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, ResultsRejected
from holdfast.records import Record

_LONGEST = 80  # characters of an id in a message
MOST_BYTES = 2**30


@dataclass(frozen=True, repr=False)
class Results(Record):
    """What one candidate achieved on each task; :func:`read_results` makes it.

    Guarantee: every score is a number from 0 to 1, and every task of the file has one.

    ``repr``, ``to_dict`` and a notebook show counts and names, and none of the sealed fields ``scores``,
    ``repeats``, ``outputs``, ``contents``. The number of repeats is sealed because some tools repeat only
    what fails.

    Args:
        scores: The score of each task id, from 0 to 1. Repeats are averaged.
        repeats: How many scores were averaged for each task id.
        outputs: A digest (SHA-256) of what the candidate answered to each task, over all repeats in order.
            None where the file does not have the answers of all tasks.
        clusters: The cluster of each task. None where the file names none.
        format: The format of the file, one of :data:`FORMATS`.
        version: The version of the format or of the tool, as far as the file says it.
        name: A name for the candidate, such as the name of the model. None where the file has none.
        contents: A digest of each task itself (question and target). It tells whether two files with the same
            ids are about the same tasks. A short target can be guessed from its digest, so keep it as secret
            as the targets. None where the file does not have the tasks.

    >>> Results({"a": 1.0, "b": 0.5}, {"a": 2, "b": 2}, None, None, "csv", "", "new prompt")
    Results(tasks=2, outputs=False, clusters=None, format='csv', version='', name='new prompt')
    """

    scores: dict[str, float] = field(repr=False)
    repeats: dict[str, int] = field(repr=False)
    outputs: dict[str, str] | None = field(repr=False)
    clusters: dict[str, str] | None = field(repr=False)
    format: str
    version: str
    name: str | None
    contents: dict[str, str] | None = field(default=None, repr=False)

    def _visible(self) -> dict[str, Any]:
        return {
            "tasks": len(self.scores),
            "outputs": self.outputs is not None,
            "clusters": None if self.clusters is None else len(set(self.clusters.values())),
            "format": self.format,
            "version": self.version,
            "name": self.name,
        }


def shown_id(task: str) -> str:
    """An id as a message shows it: in quotes, with control characters escaped, and not too long."""
    return repr(task if len(task) <= _LONGEST else f"{task[:_LONGEST]}…")


def names(options: Iterable[str]) -> str:
    """Names of metrics, columns or files in a message, at most ten of them."""
    listed = list(options)
    text = ", ".join(shown_id(option) for option in listed[:10])
    return text if len(listed) <= 10 else f"{text} and {len(listed) - 10:,} more"


def as_number(value: object) -> float | None:
    """The number that a file gives as a number, as true or false, or as text; None for anything else."""
    if isinstance(value, (bool, float)):
        return float(value)
    if isinstance(value, int):
        return float(value) if -1 <= value <= 2 else None  # A larger one is no score, and may be no float.
    if not isinstance(value, str) or len(value) > 50 or "_" in value:
        return None
    text = value.strip().lower()
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(text)
    except ValueError:
        return None


def missing_tasks(missing: Sequence[str], tasks: int, *, hint: str) -> ResultsRejected:
    """The error for tasks that have no score."""
    have = "has" if len(missing) == 1 else "have"
    return ResultsRejected(
        f"{len(missing):,} of {tasks:,} tasks {have} no score, for example {shown_id(missing[0])}. Every "
        f"task needs a score. {hint}"
    )


class Tally:
    """Collects the scores of a file, one call of :meth:`add` for each repeat of a task."""

    def __init__(self) -> None:
        self._scores: dict[str, list[float]] = {}
        self._answers: dict[str, Any] = {}
        self._clusters: dict[str, str] = {}
        self._contents: dict[str, str] = {}
        self._bad_score = self._answer_missing = False

    def add(
        self,
        task: str,
        score: object,
        *,
        answer: str | None = None,
        cluster: str | None = None,
        content: str | None = None,
    ) -> None:
        """Add one score; ``answer`` is what the candidate answered and ``content`` what it was asked."""
        number = as_number(score)
        if number is None or not 0 <= number <= 1:
            # The error is raised at the end of the file, so that it cannot say where the score was.
            self._bad_score = True
            number = math.nan
        self._scores.setdefault(task, []).append(number)
        if answer is None:
            self._answer_missing = True
        else:
            answer_bytes = answer.encode("utf-8", "surrogatepass")
            digest = self._answers.setdefault(task, hashlib.sha256())
            # The length distinguishes two answers from one.
            digest.update(len(answer_bytes).to_bytes(8, "big") + answer_bytes)
        if cluster is not None and self._clusters.setdefault(task, cluster) != cluster:
            raise ResultsRejected(
                f"The task {shown_id(task)} is in more than one cluster. Give all repeats of a task the same "
                "cluster."
            )
        if content is not None:
            digest_of_task = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
            if self._contents.setdefault(task, digest_of_task) != digest_of_task:
                raise ResultsRejected(
                    f"Two different tasks have the id {shown_id(task)}. Give every task an id of its own."
                )

    def results(self, format: str, version: str, name: str | None) -> Results:
        """The scores of all tasks, repeats averaged."""
        if not self._scores:
            raise ResultsRejected("There is no score in the file. Give a file with at least one task.")
        if self._bad_score:
            raise ResultsRejected("Every score must be a number from 0 to 1; at least one here is not.")
        return Results(
            scores={task: math.fsum(scores) / len(scores) for task, scores in self._scores.items()},
            repeats={task: len(scores) for task, scores in self._scores.items()},
            outputs=None
            if self._answer_missing
            else {task: digest.hexdigest() for task, digest in self._answers.items()},
            clusters=self._clusters or None,
            format=format,
            version=version,
            name=name,
            contents=self._contents or None,
        )


def too_large(name: str, size: int) -> ResultsRejected:
    """The error for a file, or a part of one, that is not read because of its size."""
    return ResultsRejected(f"{name} has {size:,} bytes; at most {MOST_BYTES:,} are read. Split the results.")


def check_size(path: Path) -> None:
    """Refuse a file that is too large to be read."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise too_large(f"The file {path.name}", size)


def parse_json(text: str | bytes, name: str) -> Any:
    """The JSON value of a text. The error says nothing that is in the text, not even where it went wrong:
    that may be at a score."""
    problem = ""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = error.msg.split(":")[0].lower()
    except UnicodeDecodeError:
        problem = "the text is not UTF-8"
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:
        problem = "a number in it is too long"
    # Raised here and not above: the errors of json hold the whole text, scores included.
    raise ResultsRejected(f"{name} is not valid JSON: {problem}. Was the file cut off?")


def as_written_by(tool: str, read: Callable[[], Results]) -> Results:
    """The results that ``read`` returns. A part of the file that is of another type than ``tool`` writes
    gives one sentence: the error of Python could show what is in the file."""
    try:
        return read()
    except HoldfastError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        pass
    raise ResultsRejected(f"The file does not have the form that {tool} writes. Was it edited by hand?")


def read_json(path: Path) -> Any:
    """The JSON value of a file."""
    check_size(path)
    return parse_json(path.read_bytes(), f"The file {path.name}")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, with their numbers."""
    check_size(path)
    with path.open("rb") as file:
        for number, line_bytes in enumerate(file, 1):
            line = _decoded(line_bytes.removeprefix(b"\xef\xbb\xbf") if number == 1 else line_bytes)
            if line is None:
                raise ResultsRejected(f"Line {number:,} of {path.name} is not UTF-8. Save the file as UTF-8.")
            yield number, line


def _decoded(line_bytes: bytes) -> str | None:
    try:
        return line_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return None
