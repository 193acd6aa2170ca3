"""The processes of a service: where they listen, how one serves, how several are watched, and their
connections.

Workers are started anew, not forked, because a forked process lacks the threads of its parent. They share the
listening sockets, the folder and the books. Nothing that an answer rests on is in the memory of one of them:
accounts, rates of questions, tokens, sessions and registrations are in the books and the store, and questions
about one dataset take turns by a lock on a file.

Uvicorn times an idle connection after its first answer only. A client that opens thousands and sends half a
header to each would keep them all. So every connection is watched from its first moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import ipaddress
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Event, Thread, Timer, current_thread, main_thread
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.server._admission import Limits, SharedCounts, SharedMoments, share_buckets
from holdfast.server._app import create_app
from holdfast.server._observation import COUNTED, Metrics, logging_to, serve_metrics, tracing_from_environment
from holdfast.server._service import Service

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI


@dataclass(frozen=True)
class Settings:
    """What every process of a service is started with; see the options of ``holdfast serve``."""

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
        """The service of the folder, as this process knows it."""
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
        """What one process of so many may take on."""
        limits = Limits(
            connections=connections_here(self.per_address), connections_per_address=self.per_address
        )
        return limits.of_one_in(self.workers)


def serve_here(
    settings: Settings,
    service: Service,
    places: list[socket.socket],
    started: Callable[[int], None],
    *,
    scraped: list[socket.socket] | None = None,
    counts: SharedCounts | None = None,
    server: Callable[[Any], None] | None = None,
) -> None:
    """Serve in this process until a signal ends it. ``started`` is told the port once requests are taken,
    ``server`` the running server. ``scraped`` are sockets for metrics, ``counts`` the connections that all
    processes of the service have."""
    with ExitStack() as at_end:
        tracing = tracing_from_environment()
        at_end.callback(tracing.close)
        limits = settings.limits()
        app = create_app(service, limits=limits, tracing=tracing)
        at_end.callback(app.state.readiness.close)
        if scraped:
            at_end.enter_context(serve_metrics(app.state.metrics, scraped))
        _run(app, limits, places, settings.drain, started, counts, server)


@contextmanager
def stopped_by_signal() -> Iterator[None]:
    """Leave in order at SIGTERM: the server raises the signal again once it has stopped, and whoever started
    us expects status 0. Further signals do not interrupt the end."""
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

    class Announced(uvicorn.Server):
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets)  # type: ignore[arg-type]
            if self.started:
                started(self.servers[0].sockets[0].getsockname()[1])

        stopping = False

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Say that the service is about to stop, and stop after the time to drain. A second signal stops
            it now."""
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

    # Who asked what is in the book, and in no log. Who forwards requests is no business of ours either: a
    # token says who asks.
    config = uvicorn.Config(
        app,
        log_config=None,
        http=watched_protocol(limits, counts),
        ws="none",
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    # The event loop waits for Python's lock behind threads that compute, for up to this long behind each.
    sys.setswitchinterval(0.001)
    # What is here now stays until the end: no collection needs to look through it while people wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)  # A question leaves hardly anything behind that counting does not free.
    announced = Announced(config)
    if server is not None:
        server(announced)
    announced.run(sockets=places)


_log = logging.getLogger("holdfast.server")
_TICK = 0.2
# A worker that ends sooner than this after its start is started again only after a pause of the same length.
_SHORT_LIFE = 2.0
# How long workers may take to end besides the time to drain; whoever is still there is killed then.
_PATIENCE = 30.0


def supervise(
    settings: Settings,
    service: Service,
    places: list[socket.socket],
    scraped: list[socket.socket],
    started: Callable[[int], None],
) -> None:
    """Serve with several workers until a signal ends it, and start a worker again that died.

    ``started`` is told the port once every worker takes requests. A worker that cannot start at all ends the
    service.
    """
    with ExitStack() as at_end:
        counted = at_end.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-metrics-"))
        at_end.enter_context(_in_environment(COUNTED, counted))
        if scraped:
            metrics = Metrics(lambda: service.places.all_books, counted=counted)
            at_end.enter_context(serve_metrics(metrics, scraped))
        context = multiprocessing.get_context("spawn")
        numbers = context.RawArray("i", SharedCounts.size(settings.workers))
        counts = SharedCounts(numbers, settings.workers, secrets.token_bytes(16))
        buckets = SharedMoments(context.RawArray("d", SharedMoments.size()), secrets.token_bytes(16))
        workers = [
            _Worker(context, row, settings, places, counts, buckets) for row in range(settings.workers)
        ]
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
    """One worker, and the pipe by which it says that it serves and is told to stop."""

    def __init__(
        self,
        context: Any,
        row: int,
        settings: Settings,
        places: list[socket.socket],
        counts: SharedCounts,
        buckets: SharedMoments,
    ) -> None:
        self._context, self._row, self._settings = context, row, settings
        self._places, self._counts, self._buckets = places, counts, buckets
        self._again_at = 0.0
        self.start()

    def start(self) -> None:
        """Start it (again)."""
        self.pipe, theirs = self._context.Pipe()
        self.process = self._context.Process(
            target=work,
            args=(self._settings, self._places, self._counts, self._buckets, self._row, theirs),
            name=f"holdfast worker {self._row + 1}",
        )
        self.process.start()
        theirs.close()
        self._since = time.monotonic()

    def look_after(self) -> None:
        """Start it again if it died; after a pause, if it did not live long."""
        if self.process.is_alive():
            return
        now = time.monotonic()
        if not self._again_at:
            _log.error("worker %d ended (%s); another is started", self._row + 1, self.process.exitcode)
            self._counts.clear(self._row)
            self.pipe.close()
            self._again_at = now if now - self._since > _SHORT_LIFE else now + _SHORT_LIFE
        if now >= self._again_at:
            self._again_at = 0.0
            self.start()

    def tell(self, word: str) -> None:
        """Tell it to stop; one that is gone needs no telling."""
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
    """Stop all workers: in order, at once after a second signal, and by force where one does not end."""
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
    """A variable that processes started meanwhile have."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def work(
    settings: Settings,
    places: list[socket.socket],
    counts: SharedCounts,
    buckets: SharedMoments,
    row: int,
    pipe: Connection,
) -> None:
    """The work of one worker: serve until it is told to stop, or until whoever watches it is gone."""
    os.umask(0o077)
    counts.row = row
    share_buckets(buckets)
    with ExitStack() as at_end:
        at_end.enter_context(stopped_by_signal())
        at_end.enter_context(logging_to(settings.log_level, settings.log_format))
        service = settings.service()
        at_end.callback(service.close)

        def heed(server: Any) -> None:
            Thread(target=_heed, args=(pipe, server), name="heed", daemon=True).start()

        serve_here(settings, service, places, lambda port: pipe.send(port), counts=counts, server=heed)


def _heed(pipe: Connection, server: Any) -> None:
    """Stop the server when the pipe says so, or ends. Where a signal came first, it stops already."""
    while True:
        try:
            word = pipe.recv()
        except (EOFError, OSError):  # Whoever watches is gone.
            word = "stop"
        if word == "now" or not server.stopping:
            os.kill(os.getpid(), signal.SIGTERM)
        if word == "stop" and not _can_hear(pipe):
            return


def _can_hear(pipe: Connection) -> bool:
    """Wait until there is more to hear; False if there never will be."""
    try:
        return pipe.poll(None)
    except OSError:
        return False


# A name may stand for an address of a kind that this machine does not have.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def listen(host: str, port: int) -> list[socket.socket]:
    """A socket at every address that ``host`` stands for, all on one port; port 0 is a free one."""
    taken: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for kind, address in _addresses(host):
            try:
                taken.append(socket.create_server((address, port), family=kind))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refused = error
            else:
                port = taken[0].getsockname()[1]
        if not taken and refused is not None:
            raise refused
    except OSError as error:
        for place in taken:
            place.close()
        raise HoldfastError(
            f"Cannot listen on {host}, port {port}: {_words(error)}. Say another place with --host or --port "
            "(--port 0 finds a free one)."
        ) from None
    return taken


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise OSError(errno.EINVAL, "that is no name of a machine") from None
    return list(dict.fromkeys((kind, str(address[0])) for kind, _, _, _, address in places))


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there"
    if error.errno == errno.EACCES:
        return "ports below 1024 are for administrators"
    # What the system says may name the address again in brackets.
    return str(error.strerror).partition(" (")[0]


_LOOK_EVERY = 0.5
# How many bytes of an answer a client must read in a second.
_LEAST_READ = 256


class Connections:
    """The open connections of one server, and a watch over them.

    Guarantee: at most ``limits.connections`` are open, and ``limits.connections_per_address`` from one
    address. One that has sent no whole header after ``header_seconds``, or reads next to nothing of an
    answer for ``stalled_seconds``, is ended. Where all are taken, a new one takes the place of the one that
    has waited longest for a header, so that half-requests cannot shut others out.
    """

    def __init__(self, limits: Limits, counts: SharedCounts | None = None) -> None:
        self.limits = limits
        self._counts = counts
        self._open: dict[Any, str] = {}
        self._by_address: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None

    def enter(self, connection: Any, address: str) -> bool:
        """Take in a new connection; False if there is no room for it."""
        if self._of(address) >= self.limits.connections_per_address:
            return False
        if len(self._open) >= self.limits.connections and not self._make_room():
            return False
        self._open[connection] = address
        self._by_address[address] += 1
        if self._counts is not None:
            self._counts.add(address, 1)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._look_after())
        return True

    def leave(self, connection: Any) -> None:
        """Forget a connection that has ended."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if self._counts is not None:
                self._counts.add(address, -1)
            if not self._by_address[address]:
                del self._by_address[address]

    def _of(self, address: str) -> int:
        """How many connections an address has, in all processes of the service."""
        return self._by_address[address] if self._counts is None else self._counts.total(address)

    def _make_room(self) -> bool:
        waiting = [connection for connection in self._open if connection.awaits_header]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda connection: connection.since)
        self.leave(oldest)
        oldest.transport.abort()
        return True

    async def _look_after(self) -> None:
        """End the connections that do not get on; runs as long as there are any."""
        loop = asyncio.get_running_loop()
        while self._open:
            await asyncio.sleep(_LOOK_EVERY)
            now = loop.time()
            late = [connection for connection in self._open if connection.is_late(now, self.limits)]
            for connection in late:
                self.leave(connection)
                connection.transport.abort()


def address_of(transport: asyncio.BaseTransport) -> str:
    """Who is at the other end, as far as connections are counted: an IPv4 address, or an IPv6 network, of
    which one client has 2**64 addresses."""
    peer = transport.get_extra_info("peername")
    text = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)


def connections_here(per_address: int) -> int:
    """How many connections this process may have open: a few times as many as one address, and half of the
    files that it may open at most. Its soft limit on these is raised as far as the system lets it."""
    wanted = max(Limits.connections, 2 * per_address)
    try:
        import resource
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < min(hard, 4 * wanted):
        most = 4 * wanted if hard == resource.RLIM_INFINITY else min(hard, 4 * wanted)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else max(16, min(wanted, soft // 2))


def watched_protocol(limits: Limits, counts: SharedCounts | None = None) -> type[asyncio.Protocol]:
    """Uvicorn's HTTP protocol with a watch over its connections: the ``http`` of a ``uvicorn.Config``.
    ``counts`` are shared with the other processes of the service, where there are any."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol  # type: ignore[assignment]

    connections = Connections(limits, counts)

    class Watched(Protocol):
        """One connection. ``since`` is when it began to wait for a header; ``_unread`` is how much of an
        answer the client had left unread, and when."""

        _admitted = False
        _header_bytes = 0
        _unread: tuple[float, int] | None = None
        since = 0.0

        @property
        def awaits_header(self) -> bool:
            """Whether no request of this connection is being answered."""
            return self.cycle is None or bool(self.cycle.response_complete)

        def is_late(self, now: float, limits: Limits) -> bool:
            """Whether the client has kept this connection for too long without getting on."""
            unread = self.transport.get_write_buffer_size()
            if unread == 0:
                self._unread = None
                return self.awaits_header and now - self.since > limits.header_seconds
            if self._unread is None or unread < self._unread[1] - _LEAST_READ * limits.stalled_seconds:
                self._unread = now, unread
            return now - self._unread[0] > limits.stalled_seconds

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.since = self.loop.time()
            if not connections.enter(self, address_of(transport)):
                self.transport = transport
                transport.abort()
                return
            self._admitted = True
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._admitted:
                connections.leave(self)
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if not self._admitted or self.transport.is_closing():
                return
            self._header_bytes += len(data)
            super().data_received(data)
            if not self.awaits_header:
                self._header_bytes = 0
            elif self._header_bytes > limits.header_bytes:
                self.transport.abort()

        def on_response_complete(self) -> None:
            self.since = self.loop.time()
            self._header_bytes = 0
            super().on_response_complete()

        def resume_writing(self) -> None:
            self._unread = None  # Most of what was written before has been read.
            super().resume_writing()

    return Watched
