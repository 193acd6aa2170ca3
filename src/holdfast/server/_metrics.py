"""Metrics in Prometheus' text format: what a service does, and nothing that depends on protected values.

Counts are of requests, lines and bytes. Durations are counted in five coarse steps, and their sum adds up
the steps, not the durations: an exact sum would tell how long a single request took. Memory is rounded up to
64 MiB. There is no label for a question or a person.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    make_wsgi_app,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

import holdfast
from holdfast.ledger import BookError, LineCounter
from holdfast.server._observation import STEPS, Request

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which the processes of a service count."""

MEMORY_STEP = 64 * 2**20
_EPOCH = re.compile(r"(.+)\.epoch-(\d+)")
_OTHER_BOOKS = re.compile(r"board-.*|.*\.gate|service\.admin")
_QUESTIONS = re.compile(r"/v1/datasets/\{name\}/(questions|batches|tables|curves|discoveries)")
_REFUSED = (403, 409, 422, 429)


class Metrics:
    """The metrics of one service.

    Args:
        books: returns the folder of account books, or the PostgreSQL URL they are in, when it is needed.
        counted: the folder in which the processes of the service count, where there are several. Each of them
            then tells what all of them did.
    """

    def __init__(self, books: Callable[[], str | Path], *, counted: str | None = None) -> None:
        # They would tell exactly when a route was first used.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = own = CollectorRegistry()
        if counted is not None:
            # What all processes count is read from their files; their own registries are for counting only.
            own = CollectorRegistry()
            MultiProcessCollector(self.registry, counted)  # type: ignore[no-untyped-call]
        self._requests = Counter(
            "holdfast_requests", "Finished requests.", ["route", "method", "status"], registry=own
        )
        self._durations = Histogram(
            "holdfast_request_duration_seconds",
            "Durations of requests in coarse steps; the sum adds up the steps.",
            ["route"],
            buckets=STEPS,
            registry=own,
        )
        self._bytes = Counter(
            "holdfast_bytes", "Bytes of bodies, received and sent.", ["direction"], registry=own
        )
        self._questions = Counter(
            "holdfast_questions",
            "Questions by what came of them: answered (new), cached, refused or failed.",
            ["kind", "outcome"],
            registry=own,
        )
        version = Gauge(
            "holdfast_info", "The version that runs.", ["version"], registry=own, multiprocess_mode="max"
        )
        version.labels(holdfast.__version__).set(1)
        started = Gauge(
            "holdfast_start_time_seconds", "When the service started.", registry=own, multiprocess_mode="min"
        )
        started.set(int(time.time()))
        self.registry.register(_Memory(counted))
        self.registry.register(_Books(books))

    def observe(self, request: Request) -> None:
        """Count a finished request."""
        self._requests.labels(request.route, request.method, str(request.status)).inc()
        step = request.step
        # Beyond the last step one more is counted: no exact duration enters the sum.
        self._durations.labels(request.route).observe(STEPS[-1] + 1 if step is None else step)
        self._bytes.labels("received").inc(request.received)
        self._bytes.labels("sent").inc(request.sent)
        kind = _QUESTIONS.fullmatch(request.route)
        if kind is not None and request.method == "POST":
            for outcome, number in _outcomes(kind[1], request).items():
                self._questions.labels(kind[1], outcome).inc(number)

    def text(self) -> bytes:
        """All metrics as text."""
        return bytes(generate_latest(self.registry))


def _outcomes(kind: str, request: Request) -> dict[str, int]:
    if request.status in _REFUSED:
        return {"refused": 1}
    if request.status >= 500:
        return {"failed": 1}
    if request.status != 200:
        return {}
    if kind in ("curves", "discoveries"):  # A guard does not say which of these are new.
        return {"answered": 1}
    answers = 1 if request.answers is None else request.answers
    cached = max(0, answers - request.new_answers)
    return {"answered": request.new_answers, "cached": cached, "refused": request.refusals}


class _Memory:
    """What the processes of the service hold in memory, rounded up: the exact size may depend on the rows
    that they read. ``counted`` is the folder in which they count, and names them."""

    def __init__(self, counted: str | None = None) -> None:
        self._counted = counted

    def collect(self) -> Iterator[Any]:
        sizes = [resident_bytes(process) for process in self._processes()]
        size = -(-sum(sizes) // MEMORY_STEP) * MEMORY_STEP
        yield GaugeMetricFamily(
            "holdfast_memory_bytes", "Memory of the service, in 64 MiB steps.", value=size
        )

    def _processes(self) -> Sequence[int | None]:
        if self._counted is None:
            return [None]
        names = (path.stem.rpartition("_")[2] for path in Path(self._counted).glob("counter_*.db"))
        return sorted(int(name) for name in names if name.isdecimal())


def resident_bytes(process: int | None = None) -> int:
    """The memory of a process in bytes, of this one unless another is named; where the system does not say,
    the most it ever had. 0 for one that is gone."""
    try:
        place = Path(f"/proc/{process or 'self'}/statm")
        pages = int(place.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        if process is not None:
            return 0
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    import resource

    return pages * resource.getpagesize()


class _Books:
    """What the books say, read when the metrics are asked for: the same in every process that shares them."""

    def __init__(self, books: Callable[[], str | Path]) -> None:
        self._books = books
        self._counter: LineCounter | None = None
        self._lock = Lock()

    def describe(self) -> list[Any]:
        """Nothing: the books are read only when somebody asks."""
        return []

    def collect(self) -> Iterator[Any]:
        reachable = GaugeMetricFamily("holdfast_books_reachable", "1 if the account books can be read.")
        try:
            with self._lock:  # Two scrapes at a time would count lines twice.
                self._counter = self._counter or LineCounter(self._books())
                books = self._counter.read()
        except BookError:
            reachable.add_metric([], 0)
            yield reachable
            return
        reachable.add_metric([], 1)
        yield reachable
        lines = CounterMetricFamily("holdfast_book_lines", "Lines of a book.", labels=["book"])
        answers = CounterMetricFamily("holdfast_book_answers", "Answers that a book holds.", labels=["book"])
        failed = CounterMetricFamily("holdfast_book_failures", "Questions that failed.", labels=["book"])
        open_ = GaugeMetricFamily("holdfast_open_reservations", "Reservations not settled.", labels=["book"])
        epochs: dict[str, int] = {}
        for book in books:
            lines.add_metric([book.name], book.sequence)
            answers.add_metric([book.name], book.answered)
            failed.add_metric([book.name], book.kinds.get("fail", 0))
            open_.add_metric([book.name], book.open)
            if not _OTHER_BOOKS.fullmatch(book.name):
                epoch = _EPOCH.fullmatch(book.name)
                dataset, number = (book.name, 1) if epoch is None else (epoch[1], int(epoch[2]))
                epochs[dataset] = max(epochs.get(dataset, 0), number)
        yield from (lines, answers, failed, open_)
        newest = GaugeMetricFamily("holdfast_epochs", "The newest epoch of a dataset.", labels=["dataset"])
        for dataset, number in sorted(epochs.items()):
            newest.add_metric([dataset], number)
        yield newest


class _Quiet(WSGIRequestHandler):
    """Logs nothing, and waits for nobody longer than ten seconds."""

    timeout = 10

    def log_message(self, format: str, *arguments: Any) -> None:
        """Scrapes are not logged."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, place: socket.socket) -> None:
        super().__init__(place.getsockname()[:2], _Quiet, bind_and_activate=False)
        self.socket.close()
        self.socket = place
        host, self.server_port = place.getsockname()[:2]
        self.server_name = str(host)
        self.setup_environ()


@contextmanager
def serve_metrics(metrics: Metrics, places: list[socket.socket]) -> Iterator[None]:
    """Serve the metrics at sockets of their own for a while, each in a thread: a scrape waits for nobody who
    asks."""
    servers = [_Server(place) for place in places]
    for server in servers:
        server.set_app(make_wsgi_app(metrics.registry))
        Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    try:
        yield
    finally:
        for server in servers:
            server.shutdown()
