"""The HTTP application: routes, limits and problems around one service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio.to_thread
from fastapi import Depends, FastAPI

import holdfast
from holdfast.server import (
    _admin_routes,
    _asking,
    _batch_routes,
    _board_routes,
    _epoch_routes,
    _operator_routes,
    _page,
    _report_routes,
)
from holdfast.server._admission import Admission
from holdfast.server._limits import Limits
from holdfast.server._observation import Tracing
from holdfast.server._replies import describe_replies
from holdfast.server._routing import TheService, authorize, install_problems
from holdfast.server._service import Service

# For the page and for answers that are sent in blocks.
_SPARE_THREADS = 16


def _threads_for(limits: Limits) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """As many threads as requests may run: whoever has a turn must not wait for a thread as well."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, limits.running + _SPARE_THREADS)
        yield

    return lifespan


def create_app(service: Service, *, limits: Limits | None = None, tracing: Tracing | None = None) -> FastAPI:
    """The application that serves one :class:`Service`: HTTP under ``/v1``, described at ``/openapi.json``.

    Guarantee: every route that the table of roles does not list as open needs a valid token, and whatever is
    released about protected rows passes through the dataset's one account first. No byte of a body is read
    for a request without a valid token.

    Args:
        service: What is served.
        limits: How much one client, and all of them together, may ask at a time.
        tracing: Where spans of requests go (default: nowhere; ``holdfast serve`` reads ``OTEL_*``).
    """
    limits = limits or Limits()
    app = FastAPI(
        title="Holdfast",
        version=holdfast.__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=_threads_for(limits),
        dependencies=[Depends(authorize)],
    )
    app.state.service = service
    app.add_middleware(Admission, service=service, limits=limits)
    install_problems(app)

    # On the event loop, without a thread: it answers whatever the threads are busy with.
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
    app.include_router(_batch_routes.router)
    app.include_router(_epoch_routes.router)
    app.include_router(_report_routes.router)
    app.include_router(_board_routes.boards_router)
    app.include_router(_board_routes.gates_router)
    app.include_router(_page.router)
    _operator_routes.install(app, service, tracing or Tracing())
    describe_replies(app)
    return app
