"""One process of a service: its settings, its server, and an end in order."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer, current_thread, main_thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from types import FrameType

    from fastapi import FastAPI

    from holdfast.server import Service
    from holdfast.server._limits import Limits
    from holdfast.server._shared_counts import SharedCounts


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
        from holdfast.server import Service

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
        from holdfast.server._connections import connections_here
        from holdfast.server._limits import Limits

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
    from holdfast.server import create_app
    from holdfast.server._metrics import serve_metrics
    from holdfast.server._traces import tracing_from_environment

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

    from holdfast.server._connections import watched_protocol

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
    announced = Announced(config)
    if server is not None:
        server(announced)
    announced.run(sockets=places)
