"""Independent trials: the same results for any number of workers, and no finished trial is ever run twice."""

from __future__ import annotations

import inspect
import json
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.errors import InvalidArgument

# One trial: its number and its own generator, to a value that JSON can write without loss.
Trial = Callable[[int, np.random.Generator], Any]
Progress = bool | Callable[[int, int], None]

_LARGEST_CHUNK = 64


@dataclass(frozen=True)
class Running:
    """How trials are run: none of it changes what they find but ``seed``."""

    of: str
    seed: int = 0
    workers: Any = 1
    resume: str | Path | None = None
    progress: Progress = False

    def run(self, trial: Trial, trials: int, about: dict[str, Any]) -> list[Any]:
        """The results of trials 0, 1, …, each with its own child of the seed sequence.

        ``about`` says what is audited; a file of finished trials is taken up only by the same audit.
        """
        workers = checks.whole(self.workers, "workers", of=self.of)
        journal = (
            None
            if self.resume is None
            else Journal(Path(self.resume), {"audit": self.of, "seed": self.seed, **about})
        )
        done = {} if journal is None else journal.finished
        pending = [number for number in range(trials) if number not in done]
        with _shown(self.progress, self.of, trials) as tick:
            tick(trials - len(pending))
            for results in _chunks(trial, self.seed, pending, workers):
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


def _chunk(trial: Trial, seed: int, numbers: list[int]) -> dict[int, Any]:
    return {
        number: trial(number, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))))
        for number in numbers
    }


def _chunks(trial: Trial, seed: int, pending: list[int], workers: int) -> Iterator[dict[int, Any]]:
    size = max(1, min(_LARGEST_CHUNK, len(pending) // (8 * workers)))
    parts = [pending[start : start + size] for start in range(0, len(pending), size)]
    if workers == 1:
        yield from (_chunk(trial, seed, part) for part in parts)
        return
    executor = _executor(trial, workers)
    try:
        for future in as_completed([executor.submit(_chunk, trial, seed, part) for part in parts]):
            yield future.result()
    finally:
        executor.shutdown(cancel_futures=True)


def _executor(trial: Trial, workers: int) -> Executor:
    """Processes; threads for what cannot be sent to another process, such as a lambda."""
    try:
        pickle.dumps(trial)
    except (pickle.PicklingError, AttributeError, TypeError):
        return ThreadPoolExecutor(workers)
    return ProcessPoolExecutor(workers)


@contextmanager
def _shown(progress: Progress, of: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, calls to the given function, or nothing."""
    if progress is False or progress is None:
        yield lambda finished: None
        return
    if progress is not True:
        done = 0

        def tell(finished: int) -> None:
            nonlocal done
            done += finished
            progress(done, total)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(of, total=total)
        yield lambda finished: bars.advance(task, finished)


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
