"""Routes about gates: registering, submitting a candidate, the line of promotions, verdicts, the report."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from holdfast.server._access import TheService, Who
from holdfast.server._asking import streamed
from holdfast.server._gates import GivenResults
from holdfast.server._models import CandidateBody, GateBody
from holdfast.server._service import Service
from holdfast.server._uploads import described, read_body

router = APIRouter(prefix="/v1/gates")


@router.post("", status_code=201, openapi_extra=described(GateBody))
async def register(request: Request, service: TheService, person: Who) -> dict[str, Any]:
    """Open a gate for an incumbent: its scores are in a file among the sources, or in the body."""
    return await run_in_threadpool(_register, service, await request.body())


def _register(service: Service, content: bytes) -> dict[str, Any]:
    body = read_body(GateBody, content)
    given = None if body.results is None else GivenResults(**body.results.model_dump())
    service.gates.register(
        body.name,
        source=body.source,
        results=given,
        reading=body.reading.model_dump(exclude_none=True),
        **body.terms(),
    )
    return _described(service, body.name)


@router.get("")
def gates(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The gates this token reaches, each with its line of promotions."""
    return [_described(service, name) for name in service.gates.names() if person.reaches("gate", name)]


@router.get("/{name}")
def gate(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """One gate: its terms, where it stands, and the line of promotions with their margins. No scores."""
    service.gate(person, name)
    return _described(service, name)


@router.get("/{name}/tasks")
def tasks(name: str, service: TheService, person: Who) -> list[str]:
    """The id of every task that a candidate needs a score for."""
    return list(service.gate(person, name).gate.tasks)


@router.post("/{name}/submissions", response_model=dict[str, Any], openapi_extra=described(CandidateBody))
async def submit(name: str, request: Request, service: TheService, person: Who) -> JSONResponse:
    """Compare a candidate with the incumbent, and promote it if it is shown to be better.

    Returns the verdict and nothing else. The same name again has its first verdict (``repeated``), free of
    charge, and the new scores are not looked at.
    """

    def compare(content: bytes) -> dict[str, Any]:
        service.gate(person, name)
        body = read_body(CandidateBody, content)
        return service.gates.submit(name, person, body.name, body.scores, body.outputs).to_dict()

    return JSONResponse(await run_in_threadpool(compare, await request.body()))


@router.get("/{name}/verdicts")
def verdicts(
    name: str,
    service: TheService,
    person: Who,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Verdicts in order, a page at a time; ``after`` is the last line of the page before."""
    page = service.gate(person, name).gate.history_page(after, limit)
    listed = [{"line": line, **verdict.to_dict()} for line, verdict in page.items()]
    return {"verdicts": listed, "after": max(page, default=after)}


@router.post("/{name}/report")
def report(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Close the gate for good, then tell the exact score of every version. Asking again returns the same."""
    return service.gate(person, name).gate.report().to_dict()


@router.get("/{name}/book")
def book(name: str, service: TheService, person: Who) -> StreamingResponse:
    """The whole account book, as an export that anyone can verify offline with the public key."""
    return streamed(service.gate(person, name).book, name)


def _described(service: Service, name: str) -> dict[str, Any]:
    opened = service.gates.get(name)
    return {
        "name": name,
        **opened.gate.status(),
        "versions": [version.to_dict() for version in opened.gate.promotions],
        "reading": opened.gate.reading,
        "rate": opened.rate,
    }
