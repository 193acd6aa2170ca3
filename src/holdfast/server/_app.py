"""The HTTP application around one service: all routes, the page, and probes for operators.

``/v1/live`` says that the process runs, and checks nothing else. ``/v1/ready`` says whether the service can
take requests now: its books can be reached, its disk written, its datasets opened, and it is not about to
stop. These checks run in a thread of their own, at most once a second, and stop after two seconds. So a probe
does not wait for questions, and questions do not wait for it. Replies name no dataset and no path, because
probes have no token.

The page consists of files that need no build step. Their headers allow only these files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib import resources
from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

import holdfast
from holdfast.errors import HoldfastError
from holdfast.ledger import read_heads
from holdfast.registry import Service
from holdfast.server import _admin_routes, _asking, _board_routes
from holdfast.server._admission import Admission, Limits
from holdfast.server._neighbours import Neighbours
from holdfast.server._observation import CONTENT_TYPE, COUNTED, Metrics, Observation, Tracing
from holdfast.server._replies import describe_replies
from holdfast.server._routing import TheService, authorize, install_problems
from holdfast.server._short_way import Gathering

_RESULT_SECONDS = 1.0
_CHECK_SECONDS = 2.0
_log = logging.getLogger("holdfast.server")


class Readiness:
    """The checks of one service.

    ``checks`` maps a name to a function. It returns None, or what is wrong in words that anyone may read. An
    exception counts as "failed". ``count_broken`` gets the number of datasets that cannot be opened.
    """

    def __init__(self, service: Service, count_broken: Callable[[int], None] = lambda number: None) -> None:
        self._service, self._count_broken = service, count_broken
        self._draining = False
        self._opened: set[str] = set()
        self._broken: set[str] = set()
        self._result: tuple[float, dict[str, str]] = (-_RESULT_SECONDS, {})
        self._so_far: dict[str, str] = {}  # The finished checks of the run that is under way.
        self._running: asyncio.Future[dict[str, str]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self.checks: dict[str, Callable[[], str | None]] = {
            "disk": self._disk,
            "books": self._books,
            "datasets": self._datasets,
            "service": self._ready,
        }

    def drain(self) -> None:
        """Report from now on that the service is not ready, because it is about to stop."""
        self._draining = True

    def close(self) -> None:
        """End the thread of the checks, without waiting for a check that hangs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def reply(self) -> tuple[int, dict[str, Any]]:
        """The status, 200 or 503, and each check by its name: "ok", or what is wrong."""
        if self._draining:
            return 503, {"status": "not ready", "checks": {"draining": "the service is about to stop"}}
        checked_at, checks = self._result
        if time.monotonic() - checked_at > _RESULT_SECONDS:
            checks = await self._checked()
        ready = all(words == "ok" for words in checks.values())
        return 200 if ready else 503, {"status": "ready" if ready else "not ready", "checks": checks}

    async def _checked(self) -> dict[str, str]:
        if self._running is None or self._running.done():
            self._so_far = {}
            self._running = asyncio.get_running_loop().run_in_executor(self._thread, self.run)
        finished, _ = await asyncio.wait([self._running], timeout=_CHECK_SECONDS)
        if not finished:
            so_far = dict(self._so_far)
            return {
                name: so_far.get(name, f"not finished within {_CHECK_SECONDS:g} s") for name in self.checks
            }
        return self._running.result()

    def run(self) -> dict[str, str]:
        """Run all checks now."""
        checks: dict[str, str] = {}
        self._so_far = checks
        for name, check in self.checks.items():
            checks[name] = self._outcome(name, check)
        self._result = time.monotonic(), checks
        return checks

    @staticmethod
    def _outcome(name: str, check: Callable[[], str | None]) -> str:
        try:
            return check() or "ok"
        except Exception as error:
            words = str(error) if isinstance(error, HoldfastError) else type(error).__name__
            _log.warning("the check %r of readiness failed: %s", name, words)
            return "failed; the log says more"

    def _disk(self) -> str | None:
        """Write, sync and remove a small file in the service's folder."""
        with tempfile.NamedTemporaryFile(dir=self._service.home, prefix=".ready-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return None

    def _books(self) -> str | None:
        read_heads(self._service.places.all_books)
        return None

    def _datasets(self) -> str | None:
        """Open datasets that are not open yet. The service is not ready only if no dataset can be opened:
        one broken dataset does not block the others."""
        names = set(self._service.datasets.names())
        for name in sorted(names - self._opened):
            try:
                self._service.datasets.get(name)
                self._opened.add(name)
            except HoldfastError as error:
                if name not in self._broken:
                    _log.error("dataset %s cannot be opened: %s", name, error)
                self._broken.add(name)
        self._broken &= names - self._opened
        self._count_broken(len(self._broken))
        if self._broken and self._broken == names:
            return f"none of {len(names)} datasets can be opened; the log says more"
        return None

    def _ready(self) -> str | None:
        """The check of the service itself: its store and the database of its books can be reached."""
        problems = self._service.ready()
        if not problems:
            return None
        _log.warning("the service is not ready: %s", problems)
        return "not ready; the log says more"


operator_router = APIRouter(prefix="/v1")


# Not in a thread: a probe is answered while all threads are busy.
@operator_router.get("/live")
async def live() -> dict[str, str]:
    """Whether the process runs. Checks nothing else."""
    return {"status": "live"}


@operator_router.get(
    "/ready", response_model=None, responses={503: {"description": "Not ready; checks say why."}}
)
async def ready(request: Request) -> JSONResponse:
    """Whether the service can take requests: 200 or 503, and each check."""
    readiness: Readiness = request.app.state.readiness
    status, checks = await readiness.reply()
    return JSONResponse(checks, status, headers={"Cache-Control": "no-store"})


@operator_router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """What the service does, in Prometheus' text format. Only for owners whose token reaches everything,
    because metrics cover all datasets."""
    all_metrics: Metrics = request.app.state.metrics
    return Response(all_metrics.text(), media_type=CONTENT_TYPE)


def _observe_requests(app: FastAPI, service: Service, tracing: Tracing) -> None:
    """Observe every request of an app, and add these routes. Call it after all other middleware is added, so
    that their replies also have a request id."""
    app.state.metrics = Metrics(lambda: service.places.all_books, counted=os.environ.get(COUNTED))
    app.state.readiness = Readiness(service, app.state.metrics.broken.set)
    app.include_router(operator_router)
    app.add_middleware(Observation, observe=app.state.metrics.observe, tracing=tracing)


page_router = APIRouter(include_in_schema=False)

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


# The files of the page: what a person does with one dataset, board or gate has a script of its own.
_SCRIPTS = (
    *("page", "tools", "dataset", "columns", "answers", "results", "report"),
    *("owner", "registering", "administration", "boards", "gates"),
)
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in _SCRIPTS},
}


@cache
def _content(name: str) -> bytes:
    return resources.files("holdfast.server").joinpath("page", name).read_bytes()


# Anybody may ask for these, so they take no thread, and are read once.
def _add_file_route(path: str, name: str, kind: str) -> None:
    @page_router.get(path, name=name)
    async def file() -> Response:
        return Response(_content(name), media_type=kind, headers=_HEADERS)


for _path, (_name, _kind) in _FILES.items():
    _add_file_route(_path, _name, _kind)


def _add_description_route(app: FastAPI) -> None:
    """Describe the app at ``/openapi.json``. The description is written once, because anybody may ask for
    it."""
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    @cache
    def description_text() -> bytes:
        return json.dumps(app.openapi(), ensure_ascii=False).encode()

    async def description(request: Request) -> Response:
        return Response(description_text(), media_type="application/json", headers=headers)

    app.add_route("/openapi.json", description, include_in_schema=False)


# For the page and for answers that are sent in blocks.
_SPARE_THREADS = 16
# Signing in waits for the provider, and needs no token. So it has threads of its own.
_SIGN_IN_THREADS = 4


# The framework's own telemetry would export exact times, and messages and tracebacks of errors, which may
# depend on protected rows. Ours is in ``_observation.py``. Versions before this option ignore it.
_NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def _lifespan(
    limits: Limits, gathering: Gathering, neighbours: Neighbours | None, tracing: Tracing
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """The lifespan of the app. It sets the number of threads: one for each request that may run, so a request
    with a turn does not wait for a thread. It also lets other workers pass questions on to this one."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, limits.running + _SPARE_THREADS)
        if neighbours is not None:
            await neighbours.start(gathering.reply, tracing)
        yield
        if neighbours is not None:
            neighbours.close()

    return lifespan


def create_app(
    service: Service,
    *,
    limits: Limits | None = None,
    tracing: Tracing | None = None,
    neighbours: Neighbours | None = None,
) -> FastAPI:
    """The application that serves one :class:`Service`: HTTP under ``/v1``, described at ``/openapi.json``.

    Guarantee: every route that the table of roles does not list as open needs a valid token. Everything that
    is released about protected rows is charged to the dataset's one account first. No byte of a body is read
    for a request without a valid token.

    Args:
        service: What is served.
        limits: How much one client, and all of them together, may ask at a time.
        tracing: Where spans of requests go (default: nowhere; ``holdfast serve`` reads ``OTEL_*``).
        neighbours: The other workers of the service (default: there are none).
    """
    limits, tracing = limits or Limits(), tracing or Tracing()
    gathering = Gathering(service, limits.running)
    app = FastAPI(
        title="Holdfast",
        version=holdfast.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # The address of a redirection would be the Host that the client sent.
        lifespan=_lifespan(limits, gathering, neighbours, tracing),
        telemetry=_NO_TELEMETRY,
        dependencies=[Depends(authorize)],
    )
    app.state.service = service
    app.state.sign_in_threads = anyio.CapacityLimiter(_SIGN_IN_THREADS)
    app.add_middleware(Admission, service=service, limits=limits, gathering=gathering, neighbours=neighbours)
    install_problems(app)

    # On the event loop, without a thread: it answers even if all threads are busy.
    @app.get("/v1/health")
    async def health() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok", "version": holdfast.__version__}

    @app.get("/v1/key")
    async def key(service: TheService) -> dict[str, str]:
        """The public key that receipts and exports are signed with."""
        return {"key": service.key.public}

    app.include_router(_admin_routes.router)
    app.include_router(_asking.router)
    app.include_router(_board_routes.boards_router)
    app.include_router(_board_routes.gates_router)
    app.include_router(page_router)
    _observe_requests(app, service, tracing)
    describe_replies(app)
    _add_description_route(app)
    return app
