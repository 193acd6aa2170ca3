"""Routes for whoever operates the service: does it run, can it take requests, what does it do."""

from __future__ import annotations

import os

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from holdfast.server._observation import CONTENT_TYPE, COUNTED, Metrics, Observation, Tracing
from holdfast.server._readiness import Readiness
from holdfast.server._service import Service

router = APIRouter(prefix="/v1")


# Not in a thread: a probe is answered while all threads are busy.
@router.get("/live")
async def live() -> dict[str, str]:
    """Whether the process runs. Touches nothing."""
    return {"status": "live"}


@router.get("/ready", response_model=None, responses={503: {"description": "Not ready; checks say why."}})
async def ready(request: Request) -> JSONResponse:
    """Whether the service can take requests: 200 or 503, and each check."""
    readiness: Readiness = request.app.state.readiness
    status, checks = await readiness.reply()
    return JSONResponse(checks, status, headers={"Cache-Control": "no-store"})


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """What the service does, in Prometheus' text format. For owners whose token reaches everything: metrics
    speak of all datasets."""
    all_metrics: Metrics = request.app.state.metrics
    return Response(all_metrics.text(), media_type=CONTENT_TYPE)


def install(app: FastAPI, service: Service, tracing: Tracing) -> None:
    """Observe every request of an app, and add these routes. Call it after all other middleware: every reply
    has a request id then, those of the others included."""
    app.state.metrics = Metrics(lambda: service.places.all_books, counted=os.environ.get(COUNTED))
    app.state.readiness = Readiness(service)
    app.include_router(router)
    app.add_middleware(Observation, observe=app.state.metrics.observe, tracing=tracing)
