"""Running an algorithm on many parts: in order, in parallel, with the same result and a bar to watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._tape import Tape

__all__ = ["Progress", "Workers", "cut", "effort", "ordered_subset", "run_all", "take"]

Workers = int | Executor
Progress = bool | Callable[[int, int], None]

# Jobs are handed out in bundles: enough of them to share the work evenly, few enough to cost nothing.
_BUNDLES_A_WORKER = 32


def effort(workers: Any, progress: Any, *, of: str) -> tuple[Workers, Progress]:
    """Check the two arguments that every compiler has: who works, and who is told."""
    if not isinstance(workers, Executor):
        workers = checks.whole(workers, "workers", of=of)
    if not (isinstance(progress, bool) or callable(progress)):
        raise InvalidArgument("progress", "True, False or a function of (done, total)", progress, of=of)
    return workers, progress


def run_all(
    task: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    *,
    workers: Workers = 1,
    progress: Progress = False,
    label: str = "parts",
) -> list[Any]:
    """``task(*job)`` for every job, in the order of the jobs whoever runs them.

    ``workers`` is a number of threads or any executor (a process pool, if the task can be pickled). The
    result does not depend on it, as long as a task depends on its job alone: randomness comes in with the
    job, as a branch of the tape. ``progress`` draws a bar if True; a function is called with (done, total).
    """
    with _meter(progress, len(jobs), label) as tell:
        if workers == 1 or len(jobs) < 2:
            results = []
            for job in jobs:
                results.append(task(*job))
                tell(1)
            return results
        if isinstance(workers, Executor):
            return _spread(workers, task, jobs, tell)
        with ThreadPoolExecutor(workers) as pool:
            return _spread(pool, task, jobs, tell, workers)


def _bundle(task: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [task(*job) for job in jobs]


def _spread(
    pool: Executor,
    task: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    tell: Callable[[int], None],
    workers: int = 8,
) -> list[Any]:
    size = max(1, len(jobs) // (_BUNDLES_A_WORKER * workers))
    bundles = [jobs[begin : begin + size] for begin in range(0, len(jobs), size)]
    futures: list[Future[list[Any]]] = [pool.submit(_bundle, task, bundle) for bundle in bundles]
    sizes = {future: len(bundle) for future, bundle in zip(futures, bundles, strict=True)}
    try:
        for future in as_completed(futures):
            future.result()
            tell(sizes[future])
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [result for future in futures for result in future.result()]


@contextmanager
def _meter(progress: Progress, total: int, label: str) -> Iterator[Callable[[int], None]]:
    """What to call with the number of jobs just done."""
    if progress is False:
        yield lambda count: None
        return
    done = 0
    if progress is not True:
        told = progress

        def count_up(count: int) -> None:
            nonlocal done
            done += count
            told(done, total)

        yield count_up
        return
    # Only who asks for a bar waits for rich to load.
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, transient=True) as bar:
        line = bar.add_task(label, total=total)
        yield lambda count: bar.advance(line, count)


def cut(rows: Any, parts: int, size: int) -> list[Any]:
    """The first ``parts`` × ``size`` rows in consecutive parts: by position alone, so one changed row changes
    one part."""
    return [rows[number * size : (number + 1) * size] for number in range(parts)]


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


def take(rows: Any, indices: npt.NDArray[np.int64]) -> Any:
    """The rows at these positions, in this order."""
    if hasattr(rows, "iloc"):
        return rows.iloc[indices]
    if isinstance(rows, (list, tuple)):
        return [rows[index] for index in indices]
    return rows[indices]
