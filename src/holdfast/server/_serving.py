"""The processes of a service: how one serves, and how several are watched.

Workers are started as new processes, not forked, because a forked process lacks the threads of its parent.
They share the listening sockets, the folder and the books. No answer depends on the memory of one worker:
accounts, rates of questions, tokens, sessions and registrations are in the books and the store. Questions
about one dataset take turns with a lock on a file.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Event, Thread, Timer, current_thread, main_thread
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.registry import Service
from holdfast.server._admission import Limits, SharedCounts, SharedMoments, share_buckets
from holdfast.server._app import create_app
from holdfast.server._connections import Entrance, connections_here, watched_protocol
from holdfast.server._neighbours import Homes, Neighbours
from holdfast.server._observation import COUNTED, Metrics, logging_to, serve_metrics, tracing_from_environment

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

    from fastapi import FastAPI


@dataclass(frozen=True)
class Settings:
    """The settings of every process of a service; see the options of ``holdfast serve``."""

    home: Path
    sources: Path | None
    books: str | None
    allow: tuple[str, ...]
    key: Path | None
    sign_in: Path | None
    log_level: str
    log_format: str
    drain: float
    per_address: int
    workers: int = 1

    def service(self, *, replace_key: bool = False) -> Service:
        """The service of the folder, for this process."""
        return Service(
            self.home,
            sources=self.sources,
            books=self.books,
            allow=self.allow,
            key=self.key,
            replace_key=replace_key,
            sign_in=self.sign_in,
            shared=self.workers > 1,
        )

    def limits(self) -> Limits:
        """The limits of one process."""
        limits = Limits(
            connections=connections_here(self.per_address), connections_per_address=self.per_address
        )
        return limits.of_one_in(self.workers)


@dataclass(frozen=True)
class Shared:
    """What the workers of a service share on their machine: their connections by address, the rest of each
    person's rate of free requests, the homes of datasets, and a folder for the sockets between them."""

    counts: SharedCounts
    buckets: SharedMoments
    homes: Homes
    folder: Path

    @classmethod
    def of(cls, workers: int, context: Any, folder: Path) -> Shared:
        """Memory for so many workers."""
        key = secrets.token_bytes(16)
        return cls(
            SharedCounts(context.RawArray("i", SharedCounts.size(workers)), workers, key),
            SharedMoments(context.RawArray("d", SharedMoments.size()), key),
            Homes(context.RawArray("B", Homes.size()), workers, key),
            folder,
        )


def serve_here(
    settings: Settings,
    service: Service,
    places: list[socket.socket],
    started: Callable[[int], None],
    *,
    scraped: list[socket.socket] | None = None,
    shared: Shared | None = None,
    server: Callable[[Any], None] | None = None,
) -> None:
    """Serve in this process until a signal ends it. Once requests are taken, ``started`` is called with the
    port, and ``server`` with the running server. ``scraped`` are sockets for metrics. ``shared`` is what the
    workers share."""
    with ExitStack() as at_end:
        tracing = tracing_from_environment()
        at_end.callback(tracing.close)
        limits = settings.limits()
        neighbours = None if shared is None else Neighbours(shared.folder, shared.counts.row, shared.homes)
        app = create_app(service, limits=limits, tracing=tracing, neighbours=neighbours)
        at_end.callback(app.state.readiness.close)
        if scraped:
            at_end.enter_context(serve_metrics(app.state.metrics, scraped))
        _run(app, limits, places, settings.drain, started, None if shared is None else shared.counts, server)


@contextmanager
def stopped_by_signal() -> Iterator[None]:
    """End with status 0 at SIGTERM, as the parent process expects. The server raises the signal again once it
    has stopped. Further signals do not interrupt the end."""
    leaving = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal leaving
        leaving = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    if current_thread() is not main_thread():  # Signals are for the main thread.
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if not leaving:
            signal.signal(signal.SIGTERM, before)


def _run(
    app: FastAPI,
    limits: Limits,
    places: list[socket.socket],
    drain: float,
    started: Callable[[int], None],
    counts: SharedCounts | None,
    server: Callable[[Any], None] | None,
) -> None:
    import uvicorn

    draining = Event()
    protocol: Callable[..., asyncio.Protocol]
    protocol, connections = watched_protocol(limits, counts)

    class Announced(uvicorn.Server):
        stopping = False
        entrance: Entrance | None = None

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(places if counts is None else [])
            if counts is not None and self.started:
                self.entrance = Entrance(places, self._protocol, counts)
            if self.started:
                started(places[0].getsockname()[1])

        def _protocol(self) -> asyncio.Protocol:
            return protocol(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if self.entrance is not None:
                self.entrance.close()
            connections.stop()
            await super().shutdown(sockets)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Report that the service is about to stop, and stop after the time to drain. A second signal
            stops it now."""
            self.stopping = True
            if drain and not draining.is_set():
                draining.set()
                app.state.readiness.drain()
                timer = Timer(drain, lambda: super(Announced, self).handle_exit(sig, frame))
                timer.daemon = True
                timer.start()
                return
            app.state.readiness.drain()
            super().handle_exit(sig, frame)

    # The book records who asked what; no log does. Headers of proxies are not used: a token says who asks.
    config = uvicorn.Config(
        app,
        log_config=None,
        http=protocol,
        ws="none",
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    # The event loop waits for Python's lock while threads compute: up to this long for each thread.
    sys.setswitchinterval(0.001)
    # What is here now stays until the end: no collection needs to look through it while people wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)  # A question leaves hardly anything that reference counting does not free.
    announced = Announced(config)
    if server is not None:
        server(announced)
    try:
        announced.run(sockets=places)
    finally:
        gc.unfreeze()  # What stays until the interpreter ends is reported as a leak by DuckDB.


_log = logging.getLogger("holdfast.server")
_TICK = 0.2
# A worker that ends sooner than this after its start is started again only after a pause of the same length.
_SHORT_LIFE = 2.0
# How long workers may take to end besides the time to drain. Workers that still run then are killed.
_PATIENCE = 30.0


def supervise(
    settings: Settings,
    service: Service,
    places: list[socket.socket],
    scraped: list[socket.socket],
    started: Callable[[int], None],
) -> None:
    """Serve with several workers until a signal ends it. A worker that died is started again.

    ``started`` is called with the port once every worker takes requests. A worker that cannot start at all
    ends the service.
    """
    with ExitStack() as at_end:
        counted = at_end.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-metrics-"))
        at_end.enter_context(_in_environment(COUNTED, counted))
        if scraped:
            metrics = Metrics(lambda: service.places.all_books, counted=counted)
            at_end.enter_context(serve_metrics(metrics, scraped))
        folder = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-workers-")))
        context = multiprocessing.get_context("spawn")
        shared = Shared.of(settings.workers, context, folder)
        workers = [_Worker(context, row, settings, places, shared) for row in range(settings.workers)]
        with _signals() as received:
            try:
                _await_start(workers, received)
                started(places[0].getsockname()[1])
                while not received:
                    wait([worker.process.sentinel for worker in workers], timeout=_TICK)
                    for worker in workers:
                        worker.look_after()
            finally:
                _stop(workers, received, settings.drain)


class _Worker:
    """One worker and its pipe. The worker reports through it that it serves, and receives the order to
    stop."""

    def __init__(
        self,
        context: Any,
        row: int,
        settings: Settings,
        places: list[socket.socket],
        shared: Shared,
    ) -> None:
        self._context, self._row, self._settings = context, row, settings
        self._places, self._shared = places, shared
        self._again_at = 0.0
        self.start()

    def start(self) -> None:
        """Start it (again)."""
        self.pipe, theirs = self._context.Pipe()
        self.process = self._context.Process(
            target=work,
            args=(self._settings, self._places, self._shared, self._row, theirs),
            name=f"holdfast worker {self._row + 1}",
        )
        self.process.start()
        theirs.close()
        self._since = time.monotonic()

    def look_after(self) -> None:
        """Start it again if it died. If it died soon after its start, wait before that."""
        if self.process.is_alive():
            return
        now = time.monotonic()
        if not self._again_at:
            _log.error("worker %d ended (%s); another is started", self._row + 1, self.process.exitcode)
            self._shared.counts.clear(self._row)
            self.pipe.close()
            self._again_at = now if now - self._since > _SHORT_LIFE else now + _SHORT_LIFE
        if now >= self._again_at:
            self._again_at = 0.0
            self.start()

    def tell(self, word: str) -> None:
        """Send it an order to stop. A worker that has ended is skipped."""
        with suppress(OSError):
            self.pipe.send(word)


def _await_start(workers: list[_Worker], received: list[int]) -> None:
    """Wait until every worker takes requests."""
    waiting = list(workers)
    while waiting and not received:
        wait([place for worker in waiting for place in (worker.pipe, worker.process.sentinel)], timeout=_TICK)
        for worker in list(waiting):
            if worker.pipe.poll():
                try:
                    worker.pipe.recv()
                except EOFError:
                    pass
                else:
                    waiting.remove(worker)
                    continue
            if not worker.process.is_alive():
                raise HoldfastError("A worker could not start. What it says is above.")


def _stop(workers: list[_Worker], received: list[int], drain: float) -> None:
    """Stop all workers, at once after a second signal. A worker that does not end is killed."""
    for worker in workers:
        worker.tell("stop")
    hurried, end = len(received) > 1, time.monotonic() + drain + _PATIENCE
    while running := [worker for worker in workers if worker.process.is_alive()]:
        if len(received) > 1 and not hurried:
            hurried, end = True, time.monotonic() + _PATIENCE
            for worker in running:
                worker.tell("now")
        if time.monotonic() > end:
            for worker in running:
                worker.process.kill()
        wait([worker.process.sentinel for worker in running], timeout=_TICK)
    for worker in workers:
        worker.process.join()


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals to stop that arrived."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _in_environment(name: str, value: str) -> Iterator[None]:
    """An environment variable for the processes that are started meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def work(settings: Settings, places: list[socket.socket], shared: Shared, row: int, pipe: Connection) -> None:
    """The work of one worker: serve until the order to stop arrives, or until the process that watches it
    ends."""
    os.umask(0o077)
    shared.counts.row = row
    share_buckets(shared.buckets)
    with ExitStack() as at_end:
        at_end.enter_context(stopped_by_signal())
        at_end.enter_context(logging_to(settings.log_level, settings.log_format))
        service = settings.service()
        at_end.callback(service.close)

        over, end = multiprocessing.Pipe(duplex=False)

        def heed(server: Any) -> None:
            thread = Thread(target=_heed, args=(pipe, over, server), name="heed", daemon=True)
            at_end.callback(thread.join)
            at_end.callback(end.close)
            thread.start()

        serve_here(settings, service, places, lambda port: pipe.send(port), shared=shared, server=heed)


def _heed(pipe: Connection, over: Connection, server: Any) -> None:
    """Stop the server when the pipe says so or ends. Return when ``over`` ends. After a signal, the server is
    already stopping."""
    watched = True
    while watched and over not in wait([pipe, over]):
        try:
            word = pipe.recv()
        except (EOFError, OSError):  # The process that watches has ended.
            word, watched = "stop", False
        if word == "now" or not server.stopping:
            os.kill(os.getpid(), signal.SIGTERM)
