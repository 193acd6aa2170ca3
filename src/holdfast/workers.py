"""Many independent jobs: in order, in processes, or on a cluster, with the same results wherever they run.

Every ``workers`` argument is one of

* a whole number: so many processes of this machine, by joblib (1: no process but this one),
* an executor of ``concurrent.futures``, which you close yourself,
* a ``dask.distributed.Client``,
* the module ``ray`` after ``ray.init()``.

A job carries everything it depends on, also its randomness: a seed, or a branch of a tape of its own. So its
result does not depend on where or when it runs, or on other jobs. There is one exception: a linear algebra
library may add in another order if it has another number of threads. Set ``OMP_NUM_THREADS`` to prevent this.
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

# Jobs are sent in bundles: enough bundles to share the work evenly, few enough to cost almost nothing, and
# each so small that little is lost when the machine stops.
_BUNDLES_A_WORKER = 8
_LARGEST_BUNDLE = 64
_UNKNOWN_COUNT = 8
_PATIENCE = 0.1


def checked(workers: Workers, *, of: str) -> Workers:
    """``workers``, after a check that jobs can run there.

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
    except InvalidArgument as refusal:
        expected = f"{refusal.expected}, an executor, a Dask client or the module ray"
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
        progress_meter(progress, len(jobs), label) as report,
        closing(as_finished(task, jobs, workers=workers)) as finished,
    ):
        for bundle in finished:
            results.update(bundle)
            report(len(bundle))
    return [results[place] for place in range(len(jobs))]


def as_finished(
    task: Task, jobs: Sequence[Job], *, workers: Workers = 1, at_once: int = _LARGEST_BUNDLE
) -> Finished:
    """The results by the place of their job, some at a time, as they are finished.

    A worker gets at most ``at_once`` jobs at a time; use 1 for jobs that take long. An error in a job is
    raised here, and no further job is started. No further job is started either when the iterator is closed,
    for example by Ctrl-C.

    Args:
        task: Called with the arguments of a job.
        jobs: The arguments of each job.
        workers: A whole number, an executor, a Dask client or the module ``ray``.
    """
    worker_count = _worker_count(workers)
    size = max(1, min(at_once, len(jobs) // (_BUNDLES_A_WORKER * worker_count)))
    bundles = [
        dict(enumerate(jobs[begin : begin + size], start=begin)) for begin in range(0, len(jobs), size)
    ]
    if isinstance(workers, int) and (workers == 1 or len(jobs) < 2):
        return _here(task, bundles)
    can_be_sent = _can_be_sent(task, generators_allowed=False)
    if _is_ray(workers):
        return _by_ray(workers, task, bundles)
    if isinstance(workers, int):
        if can_be_sent and _can_be_sent(bundles[0], generators_allowed=True):
            return _by_joblib(workers, task, bundles)
        return _by_threads(workers, task, bundles)
    if isinstance(workers, Executor):
        return _by_executor(workers, task, bundles)
    # The task goes to the cluster of Dask once, not with every bundle.
    return _by_executor(workers.get_executor(pure=False), workers.scatter(task, hash=False), bundles)


def _work(task: Task, bundle: Bundle) -> dict[int, Any]:
    return {place: task(*job) for place, job in bundle.items()}


def _here(task: Task, bundles: list[Bundle]) -> Finished:
    """One job after another in this process. Results of slow jobs are given one by one."""
    for bundle in bundles:
        results, started = {}, time.monotonic()
        for place, job in bundle.items():
            results[place] = task(*job)
            if time.monotonic() - started > _PATIENCE:
                yield results
                results, started = {}, time.monotonic()
        if results:
            yield results


def _by_joblib(workers: int, task: Task, bundles: list[Bundle]) -> Finished:
    from joblib import Parallel, delayed

    # The processes share the memory of large arrays. A job that writes into such an array writes into a copy.
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
    sent_task, work = ray.put(task), ray.remote(_work)
    pending = [work.remote(sent_task, bundle) for bundle in bundles]
    try:
        while pending:
            (finished,), pending = ray.wait(pending)
            try:
                result = ray.get(finished)
            except ray.exceptions.RayTaskError as failure:
                raise getattr(failure, "cause", None) or failure from None
            yield result
    finally:
        for reference in pending:
            ray.cancel(reference)


def _is_dask(workers: object) -> TypeGuard[DaskClient]:
    """Whether it is a client of Dask. If it is, Dask is already imported."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(workers, distributed.Client)


def _is_ray(workers: object) -> TypeGuard[ModuleType]:
    return workers is not None and workers is sys.modules.get("ray")


def _worker_count(workers: Workers) -> int:
    """How many workers there are, as far as that is known."""
    if isinstance(workers, int):
        return workers
    if _is_dask(workers):
        return max(1, sum(int(threads) for threads in workers.nthreads().values()))
    if _is_ray(workers):
        return max(1, int(workers.cluster_resources().get("CPU", 1)))
    return _UNKNOWN_COUNT


def _can_be_sent(thing: Any, *, generators_allowed: bool) -> bool:
    """Whether an object can be sent to another process. Lambdas and closures can; an open connection cannot.

    An object that is sent to every process must not hold a random generator: the generator would start in the
    same state everywhere, so the same draws would count as independent ones. With ``generators_allowed``, as
    for a single job, it may hold one.
    """
    import random

    import cloudpickle
    import numpy as np

    generators = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)

    class Inspector(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, part: Any) -> Any:
            if isinstance(part, generators) and not generators_allowed:
                raise _HoldsGenerator(type(part).__name__)
            return super().reducer_override(part)

    try:
        Inspector(_Discard()).dump(thing)
    except _HoldsGenerator as generator:
        raise InvalidArgument(
            "workers",
            f"1 for a function that holds a random generator of its own (a {generator}). A function that "
            "draws from the generator or the tape that it receives may have many",
            "more",
        ) from None
    except Exception:  # an object may refuse with an error of any kind
        return False
    return True


class _Discard:
    """A file that discards what is written to it."""

    def write(self, data: Any) -> None:
        """Discard ``data``."""


class _HoldsGenerator(Exception):
    """The object holds a random generator. The message is the class of the generator."""


@contextmanager
def progress_meter(
    progress: Progress, total: int, label: str, *, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of jobs that have just finished. ``done`` jobs finished before.

    Args:
        progress: True for a bar, or a function of (done, total).
        total: How many jobs there are.
        label: What the bar says.
    """
    if progress is False or progress is None:
        yield lambda count: None
        return
    if progress is not True:
        finished, callback = done, progress

        def count_finished(count: int) -> None:
            nonlocal finished
            finished += count
            callback(finished, total)

        count_finished(0)
        yield count_finished
        return
    # rich is slow to load, and only a progress bar needs it.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        line = bars.add_task(label, total=total, completed=done)
        yield lambda count: bars.advance(line, count)
