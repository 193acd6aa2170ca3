"""Independent trials: the same results for any number of workers, and no finished trial is ever run twice."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import workers as hands
from holdfast.errors import InvalidArgument
from holdfast.workers import Progress, Workers

__all__ = ["Journal", "Progress", "Running", "Trial", "Workers", "takes_second"]

# One trial: its number and its own generator, to a value that JSON can write without loss.
Trial = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True)
class Running:
    """How trials are run: none of it changes what they find but ``seed``."""

    of: str
    seed: int = 0
    workers: Workers = 1
    resume: str | Path | None = None
    progress: Progress = False

    def run(self, trial: Trial, trials: int, about: dict[str, Any]) -> list[Any]:
        """The results of trials 0, 1, …, each with its own child of the seed sequence.

        ``about`` says what is audited; a file of finished trials is taken up only by the same audit.
        """
        workers = hands.checked(self.workers, of=self.of)
        journal = (
            None
            if self.resume is None
            else Journal(Path(self.resume), {"audit": self.of, "seed": self.seed, **about})
        )
        done = {} if journal is None else journal.finished
        pending = [number for number in range(trials) if number not in done]
        work = hands.spread(_Seeded(trial, self.seed), [(number,) for number in pending], workers=workers)
        with (
            hands.meter(self.progress, trials, self.of, done=trials - len(pending)) as tick,
            closing(work) as finished,
        ):
            for bundle in finished:
                results = {pending[place]: result for place, result in bundle.items()}
                done.update(results)
                if journal is not None:
                    journal.add(results)
                tick(len(results))
        return [done[number] for number in range(trials)]


class Journal:
    """A JSON-lines file of finished trials: a line about the audit, then one for each trial."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self._path = path
        self.finished: dict[int, Any] = {}
        about = json.loads(json.dumps(about))
        if path.exists() and path.stat().st_size:
            self._take_up(about)
        else:
            path.write_text(json.dumps(about) + "\n", encoding="utf-8")

    def _take_up(self, about: dict[str, Any]) -> None:
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]  # a line that was cut off while being written is run again
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()] or [None]
            self.finished = {int(line["trial"]): line["result"] for line in lines}
        except (ValueError, KeyError, TypeError):
            first = None
        if first != about:
            raise InvalidArgument(
                "resume", f"a file of finished trials of this audit, {about}", str(self._path)
            )
        if len(whole) < len(data):
            os.truncate(self._path, len(whole))

    def add(self, results: dict[int, Any]) -> None:
        """Keep finished trials."""
        lines = [json.dumps({"trial": number, "result": result}) + "\n" for number, result in results.items()]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)


class _Seeded:
    """A trial by its number: a generator of its own, whoever runs it and whatever ran before."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self._trial, self._seed = trial, seed

    def __call__(self, number: int) -> Any:
        child = np.random.SeedSequence(self._seed, spawn_key=(number,))
        return self._trial(number, np.random.default_rng(child))


def takes_second(function: Callable[..., Any], name: str) -> bool:
    """Whether a function wants a second argument: it requires one, or calls it ``name``."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    return positional[1].default is inspect.Parameter.empty or positional[1].name == name
