"""The HTTP application: routes, limits and problems around one service."""

from __future__ import annotations

from fastapi import Depends, FastAPI

import holdfast
from holdfast.server import (
    _asking,
    _batch_routes,
    _board_routes,
    _epoch_routes,
    _gate_routes,
    _operator_routes,
    _page,
    _people,
    _problems,
    _report_routes,
    _sign_in_routes,
)
from holdfast.server._access import TheService, authorize
from holdfast.server._limits import SizeLimit
from holdfast.server._service import Service
from holdfast.server._traces import Tracing

_MOST_BYTES = 64 * 2**20


def create_app(service: Service, *, tracing: Tracing | None = None) -> FastAPI:
    """The application that serves one :class:`Service`: HTTP under ``/v1``, described at ``/openapi.json``.

    Guarantee: every route but ``/v1/health``, ``/v1/live``, ``/v1/ready`` and ``/v1/key`` needs a valid
    token, and whatever is released about protected rows passes through the dataset's one account first.

    Args:
        service: what is served.
        tracing: where spans of requests go (default: nowhere; ``holdfast serve`` reads ``OTEL_*``).
    """
    app = FastAPI(
        title="Holdfast",
        version=holdfast.__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(authorize)],
    )
    app.state.service = service
    app.add_middleware(SizeLimit, most=_MOST_BYTES)
    _problems.install(app)

    @app.get("/v1/health")
    def health() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok", "version": holdfast.__version__}

    @app.get("/v1/key")
    def key(service: TheService) -> dict[str, str]:
        """The public key that receipts and exports are signed with."""
        return {"key": service.key.public}

    app.include_router(_people.router)
    app.include_router(_sign_in_routes.router)
    app.include_router(_asking.router)
    app.include_router(_batch_routes.router)
    app.include_router(_epoch_routes.router)
    app.include_router(_report_routes.router)
    app.include_router(_board_routes.router)
    app.include_router(_gate_routes.router)
    app.include_router(_page.router)
    _operator_routes.install(app, service, tracing or Tracing())
    return app
