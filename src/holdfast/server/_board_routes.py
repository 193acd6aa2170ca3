"""Routes about boards and gates.

Boards: registering, submitting, the standing, finalists, unblinding, the final. Gates: registering,
submitting a candidate, the line of promotions, verdicts, the report.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from holdfast.engines import shown
from holdfast.guard import Submission
from holdfast.registry import GivenResults, Person, Received, Service
from holdfast.server._asking import streamed
from holdfast.server._requests import (
    PARQUET,
    BoardBody,
    CandidateBody,
    FinalistsBody,
    GateBody,
    openapi_body,
    read_body,
    read_predictions,
)
from holdfast.server._routing import KNOWN, TheService, Who, in_place

boards_router = APIRouter(prefix="/v1/boards")


@boards_router.post("", status_code=201)
def register(body: BoardBody, service: TheService, person: Who) -> dict[str, Any]:
    """Open a board on a table of labels."""

    def record() -> None:
        service.administration.record(person, "register", board=body.name, source=shown(body.source))

    service.boards.register(body.name, body.source, body.terms(), blind=body.blind, record=record)
    return _described_board(service, body.name)


@boards_router.get("")
def boards(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The boards this token reaches, with their standing."""
    return [_listed(service, name) for name in service.boards.names() if person.reaches("board", name)]


@boards_router.get("/{name}")
def board(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """One board: its standing with certified intervals, and the final once there is one."""
    service.board(person, name)
    return _described_board(service, name)


@boards_router.get("/{name}/ids")
def ids(name: str, service: TheService, person: Who) -> list[Any]:
    """Every id that a submission needs a prediction for."""
    return service.board(person, name).ids


@boards_router.post(
    "/{name}/submissions",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                kind: {"schema": {"type": "string"}} for kind in ("text/csv", PARQUET, "application/json")
            },
        }
    },
)
async def submit(name: str, request: Request, service: TheService, person: Who) -> dict[str, Any]:
    """Submit predictions as CSV, Parquet or JSON with the columns ``id`` and ``prediction``."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def score(content: bytes) -> dict[str, Any]:
        # A board that is scoring holds locks, so even looking it up does not run on the event loop.
        board = service.board(person, name)
        table = read_predictions(
            kind, content, ids=board.rows + board.sealed_rows, text=board.labels_are_text
        )
        return _reply_to(service.boards.submit(name, person, table))

    return await run_in_threadpool(score, await request.body())


@boards_router.get("/{name}/submissions")
def submissions(
    name: str,
    service: TheService,
    person: Who,
    skip: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 1_000,
    newest: bool = False,
) -> list[dict[str, Any]]:
    """Submissions, in order or the ``newest`` first, each with its reply and whether its submitter chose it
    as a finalist. People see their own submissions; owners and auditors see all."""
    board = service.board(person, name)
    by = None if person.role in ("owner", "auditor") else person.account
    all_submissions = service.boards.submissions(name, by)
    listed = (all_submissions[::-1] if newest else all_submissions)[skip : skip + limit]
    chosen = {account: board.finalists(account) for account in {entry.by for entry in listed}}
    return [{**_reply_to(entry), "finalist": entry.key in chosen[entry.by]} for entry in listed]


@boards_router.get("/{name}/finalists")
def finalists(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Which of their own submissions a person chose for the final, and how many may be chosen."""
    board = service.board(person, name)
    return {"finalists": list(board.finalists(person.account)), "most_finalists": board.most_finalists}


@boards_router.put("/{name}/finalists")
def choose_finalists(name: str, body: FinalistsBody, service: TheService, person: Who) -> dict[str, Any]:
    """Choose which of your own submissions are in the final. You can change the choice until then. If you
    choose none, your best submission is in the final."""
    board = service.board(person, name)
    chosen = service.boards.choose_finalists(name, person, body.submissions)
    return {"finalists": list(chosen), "most_finalists": board.most_finalists}


@boards_router.post("/{name}/unblind")
def unblind(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """End the blind phase: all waiting submissions are scored as one batch. Those that could not be scored
    are listed under ``unscored``. It can be called again after a crash."""
    service.board(person, name)
    if service.boards.blind(name):
        service.administration.record(person, "end blind phase", board=name)
    unscored = service.boards.unblind(name)
    return {**_described_board(service, name), "unscored": [submission.to_dict() for submission in unscored]}


@boards_router.post("/{name}/final")
def final(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Score what each person chose, or their best submission, on the sealed part, once."""
    service.board(person, name)
    service.boards.final(name, record=lambda: service.administration.record(person, "final", board=name))
    return _described_board(service, name)


def _reply_to(submission: Submission | Received) -> dict[str, Any]:
    """The reply to a submission: what was released, or only that it waits."""
    if isinstance(submission, Received):
        return {**submission.to_dict(), "blind": True}
    receipt = None if submission.receipt is None else submission.receipt.to_dict()
    return {**submission.to_dict(), "better": submission.better, "receipt": receipt}


def _listed(service: Service, name: str) -> dict[str, Any]:
    """A board in the list of all boards. If it cannot be opened, it is listed as broken, and the others are
    still listed."""
    try:
        return _described_board(service, name)
    except KNOWN as error:
        return {"name": name, "broken": in_place(error)["detail"]}


def _described_board(service: Service, name: str) -> dict[str, Any]:
    board, blind = service.boards.get(name), service.boards.blind(name)
    better = "more" if board.upward else "less"
    comparison = "compared row by row with the best" if board.compare == "paired" else "scored"
    words = f"{board.metric}, {better} is better; {comparison} on {board.rows:,} rows"
    words += f" in steps of {board.step:.3g}"
    if blind:
        words += f"; blind: {service.boards.waiting(name)} submissions wait"
    return {
        "name": name,
        "metric": board.metric,
        "compare": board.compare,
        "upward": board.upward,
        "rows": board.rows,
        "step": board.step,
        "confidence": board.confidence,
        "sealed_rows": board.sealed_rows,
        "most_finalists": board.most_finalists,
        "blind": blind,
        "words": words,
        "standing": [entry.to_dict() for entry in board.standing],
        "final": [entry.to_dict() for entry in board.final()] if board.finished else None,
    }


gates_router = APIRouter(prefix="/v1/gates")


@gates_router.post("", status_code=201, name="register", openapi_extra=openapi_body(GateBody))
async def register_gate(request: Request, service: TheService, person: Who) -> dict[str, Any]:
    """Open a gate for an incumbent: its scores are in a file among the sources, or in the body."""
    return await run_in_threadpool(_registered_gate, service, person, await request.body())


def _registered_gate(service: Service, person: Person, content: bytes) -> dict[str, Any]:
    body = read_body(GateBody, content)
    incumbent_results = None if body.results is None else GivenResults(**body.results.model_dump())

    def record() -> None:
        service.administration.record(person, "register", gate=body.name)

    service.gates.register(
        body.name,
        source=body.source,
        results=incumbent_results,
        record=record,
        reading=body.reading.model_dump(exclude_none=True),
        **body.terms(),
    )
    return _described_gate(service, body.name)


@gates_router.get("")
def gates(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The gates this token reaches, each with its line of promotions."""
    return [_described_gate(service, name) for name in service.gates.names() if person.reaches("gate", name)]


@gates_router.get("/{name}")
def gate(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """One gate: its terms, where it stands, and the line of promotions with their margins. No scores."""
    service.gate(person, name)
    return _described_gate(service, name)


@gates_router.get("/{name}/tasks")
def tasks(name: str, service: TheService, person: Who) -> list[str]:
    """The id of every task that a candidate needs a score for."""
    return list(service.gate(person, name).gate.tasks)


@gates_router.post(
    "/{name}/submissions",
    name="submit",
    response_model=dict[str, Any],
    openapi_extra=openapi_body(CandidateBody),
)
async def submit_candidate(name: str, request: Request, service: TheService, person: Who) -> JSONResponse:
    """Compare a candidate with the incumbent, and promote it if it is shown to be better.

    Returns the verdict and nothing else. The same name again has its first verdict (``repeated``), free of
    charge, and the new scores are ignored.
    """

    def compare(content: bytes) -> dict[str, Any]:
        service.gate(person, name)
        body = read_body(CandidateBody, content)
        return service.gates.submit(name, person, body.name, body.scores, body.outputs).to_dict()

    return JSONResponse(await run_in_threadpool(compare, await request.body()))


@gates_router.get("/{name}/verdicts")
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


@gates_router.post("/{name}/report")
def report(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Close the gate for good, then give the exact score of every version. Asking again returns the same."""
    gate = service.gate(person, name).gate
    if not gate.closed:
        service.administration.record(person, "close", gate=name)
    return gate.report().to_dict()


@gates_router.get("/{name}/book")
def book(name: str, service: TheService, person: Who) -> StreamingResponse:
    """The whole account book, as an export that anyone can verify offline with the public key."""
    return streamed(service.gate(person, name).book, name)


def _described_gate(service: Service, name: str) -> dict[str, Any]:
    opened = service.gates.get(name)
    return {
        "name": name,
        **opened.gate.status(),
        "versions": [version.to_dict() for version in opened.gate.promotions],
        "reading": opened.gate.reading,
        "rate": opened.rate,
    }
