"""Many independent jobs: in order, in processes, or on a cluster, with the same results wherever they run.

``workers`` is everywhere one of

* a whole number: so many processes of this machine, by joblib (1: no process but this one),
* an executor of ``concurrent.futures``, which you close yourself,
* a ``dask.distributed.Client``,
* the module ``ray`` after ``ray.init()``.

A job carries everything it depends on, its randomness too (a seed or a branch of a tape of its own), so that
its result cannot depend on where, when or beside what it runs. The one thing out of reach is a linear algebra
library that adds in another order when it has another number of threads; ``OMP_NUM_THREADS`` settles that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from types import ModuleType
from typing import Any, Protocol, TypeAlias, TypeGuard

from holdfast import checks
from holdfast.errors import InvalidArgument

__all__ = ["Progress", "Workers", "as_finished", "checked", "progress_meter", "run_all"]


class DaskClient(Protocol):
    """A ``dask.distributed.Client``."""

    def get_executor(self, **kwargs: Any) -> Any: ...

    def scatter(self, data: Any, **kwargs: Any) -> Any: ...

    def nthreads(self) -> Any: ...


Workers: TypeAlias = int | Executor | DaskClient | ModuleType
"""A whole number, an executor, a Dask client or the module ``ray``."""

Progress = bool | Callable[[int, int], None]
"""True draws a bar on stderr; a function is called with (done, total); False is silent."""

Task = Callable[..., Any]
Job = tuple[Any, ...]
Bundle = dict[int, Job]
Finished = Generator[dict[int, Any], None, None]

# Jobs are handed out in bundles: enough of them to share the work evenly, few enough to cost nothing, and
# each small enough that little is lost when the machine stops.
_BUNDLES_A_WORKER = 8
_LARGEST_BUNDLE = 64
_UNKNOWN = 8
_PATIENCE = 0.1


def checked(workers: Workers, *, of: str) -> Workers:
    """``workers`` if somebody of that kind can work.

    Args:
        of: The function that the message names.
    """
    if isinstance(workers, Executor) or _is_dask(workers):
        return workers
    if _is_ray(workers):
        if workers.is_initialized():
            return workers
        raise InvalidArgument("workers", "the module ray after ray.init()", workers, of=of)
    try:
        return checks.whole(workers, "workers", of=of)
    except InvalidArgument as wrong:
        expected = f"{wrong.expected}, an executor, a Dask client or the module ray"
        raise InvalidArgument("workers", expected, workers, of=of) from None


def run_all(
    task: Task,
    jobs: Sequence[Job],
    *,
    workers: Workers = 1,
    progress: Progress = False,
    label: str = "jobs",
) -> list[Any]:
    """``task(*job)`` for every job, in the order of the jobs whoever runs them.

    Args:
        jobs: The arguments of each job.
        workers: A whole number, an executor, a Dask client or the module ``ray``.
        progress: True for a bar, or a function of (done, total).
        label: What the bar says.

    >>> run_all(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    results: dict[int, Any] = {}
    with (
        progress_meter(progress, len(jobs), label) as tell,
        closing(as_finished(task, jobs, workers=workers)) as finished,
    ):
        for bundle in finished:
            results.update(bundle)
            tell(len(bundle))
    return [results[place] for place in range(len(jobs))]


def as_finished(
    task: Task, jobs: Sequence[Job], *, workers: Workers = 1, at_once: int = _LARGEST_BUNDLE
) -> Finished:
    """The results by the place of their job, some at a time, as they are finished.

    Nobody is given more than ``at_once`` jobs before the next are handed out: 1 for jobs that take long.
    An error in a job ends everything and is raised here; what was not begun is not begun any more. The same
    holds when the iterator is closed, as it is by Ctrl-C.

    Args:
        task: Called with the arguments of a job.
        jobs: The arguments of each job.
        workers: A whole number, an executor, a Dask client or the module ``ray``.
    """
    hands = _hands(workers)
    size = max(1, min(at_once, len(jobs) // (_BUNDLES_A_WORKER * hands)))
    bundles = [
        dict(enumerate(jobs[begin : begin + size], start=begin)) for begin in range(0, len(jobs), size)
    ]
    if isinstance(workers, int) and (workers == 1 or len(jobs) < 2):
        return _here(task, bundles)
    travels = _travels(task, of_its_own=False)
    if _is_ray(workers):
        return _by_ray(workers, task, bundles)
    if isinstance(workers, int):
        if travels and _travels(bundles[0], of_its_own=True):
            return _by_joblib(workers, task, bundles)
        return _by_threads(workers, task, bundles)
    if isinstance(workers, Executor):
        return _by_executor(workers, task, bundles)
    # The task goes to the cluster of Dask once, not with every bundle.
    return _by_executor(workers.get_executor(pure=False), workers.scatter(task, hash=False), bundles)


def _work(task: Task, bundle: Bundle) -> dict[int, Any]:
    return {place: task(*job) for place, job in bundle.items()}


def _here(task: Task, bundles: list[Bundle]) -> Finished:
    """One after another; slow jobs are reported one by one."""
    for bundle in bundles:
        results, begun = {}, time.monotonic()
        for place, job in bundle.items():
            results[place] = task(*job)
            if time.monotonic() - begun > _PATIENCE:
                yield results
                results, begun = {}, time.monotonic()
        if results:
            yield results


def _by_joblib(workers: int, task: Task, bundles: list[Bundle]) -> Finished:
    from joblib import Parallel, delayed

    # Large arrays are lent to the processes: a job that writes into its own writes into a copy.
    pool = Parallel(workers, backend="loky", return_as="generator_unordered", mmap_mode="c", batch_size=1)
    with closing(pool(delayed(_work)(task, bundle) for bundle in bundles)) as finished:
        yield from finished


def _by_threads(workers: int, task: Task, bundles: list[Bundle]) -> Finished:
    with ThreadPoolExecutor(workers) as pool:
        yield from _by_executor(pool, task, bundles)


def _by_executor(pool: Executor, task: Any, bundles: list[Bundle]) -> Finished:
    futures = [pool.submit(_work, task, bundle) for bundle in bundles]
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def _by_ray(ray: Any, task: Task, bundles: list[Bundle]) -> Finished:
    sent, work = ray.put(task), ray.remote(_work)
    waiting = [work.remote(sent, bundle) for bundle in bundles]
    try:
        while waiting:
            (first,), waiting = ray.wait(waiting)
            try:
                result = ray.get(first)
            except ray.exceptions.RayTaskError as failed:
                raise getattr(failed, "cause", None) or failed from None
            yield result
    finally:
        for reference in waiting:
            ray.cancel(reference)


def _is_dask(workers: object) -> TypeGuard[DaskClient]:
    """Whether it is a client of Dask, which is loaded already if it is."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(workers, distributed.Client)


def _is_ray(workers: object) -> TypeGuard[ModuleType]:
    return workers is not None and workers is sys.modules.get("ray")


def _hands(workers: Workers) -> int:
    """How many work at the same time, as far as that is known."""
    if isinstance(workers, int):
        return workers
    if _is_dask(workers):
        return max(1, sum(int(threads) for threads in workers.nthreads().values()))
    if _is_ray(workers):
        return max(1, int(workers.cluster_resources().get("CPU", 1)))
    return _UNKNOWN


def _travels(sent: Any, *, of_its_own: bool) -> bool:
    """Whether another process can be given this: lambdas and closures can, an open connection cannot.

    What is sent only once must hold no generator: it would begin at the same state in every process, and the
    same draws would be mistaken for new ones. A job may have one of its own.
    """
    import random

    import cloudpickle
    import numpy as np

    generators = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)

    class Look(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, inside: Any) -> Any:
            if isinstance(inside, generators) and not of_its_own:
                raise _GeneratorInside(type(inside).__name__)
            return super().reducer_override(inside)

    try:
        Look(_Nowhere()).dump(sent)
    except _GeneratorInside as generator:
        raise InvalidArgument(
            "workers",
            f"1 for a function that holds a random generator of its own (a {generator}). A function that "
            "draws from the generator or the tape that it receives may have many",
            "more",
        ) from None
    except Exception:  # an object may refuse with an error of any kind
        return False
    return True


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> None:
        """Forget it."""


class _GeneratorInside(Exception):
    """Found one; the message is its kind."""


@contextmanager
def progress_meter(
    progress: Progress, total: int, label: str, *, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """What to call with the number of jobs just finished; ``done`` were finished before.

    Args:
        progress: True for a bar, or a function of (done, total).
        total: How many jobs there are.
        label: What the bar says.
    """
    if progress is False or progress is None:
        yield lambda count: None
        return
    if progress is not True:
        finished, report = done, progress

        def tell(count: int) -> None:
            nonlocal finished
            finished += count
            report(finished, total)

        tell(0)
        yield tell
        return
    # rich is slow to load, and only a progress bar needs it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        line = bars.add_task(label, total=total, completed=done)
        yield lambda count: bars.advance(line, count)
