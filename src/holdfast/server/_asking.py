"""Routes about datasets: registering, previews, questions, history, certificate, ledger, close."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import JSONResponse, StreamingResponse

from holdfast import ledger
from holdfast.engines import shown
from holdfast.guard import Answer
from holdfast.server._datasets import Dataset
from holdfast.server._observation import count_outcomes, watch_answers
from holdfast.server._people import Person
from holdfast.server._policy import Policy
from holdfast.server._requests import AskBody, ClaimBody, DatasetBody
from holdfast.server._routing import KNOWN, TheService, Who, in_place
from holdfast.server._service import Service
from holdfast.server._storage import named

router = APIRouter(prefix="/v1/datasets")

_IdempotencyKey = Annotated[str, Header(alias="Idempotency-Key", max_length=200)]


@router.post("", status_code=201)
def register(body: DatasetBody, service: TheService, person: Who) -> dict[str, Any]:
    """Protect a table."""
    service.datasets.register(body.name, body.source, Policy(**body.policy.model_dump()))
    service.administration.record(person, "register", dataset=body.name, source=shown(body.source))
    return described(service, person, body.name)


@router.get("")
def datasets(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The datasets this token reaches, and what is left of each."""
    return [_listed(service, person, name) for name in service.visible(person)]


@router.get("/{name}")
def dataset(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """One dataset: its columns, its promise, what is spent and what is left."""
    return described(service, person, name)


# A response that is ready needs no second thread to look through it: these two routes are the busy ones.
@router.post("/{name}/preview", response_model=dict[str, Any])
def preview(name: str, body: AskBody, service: TheService, person: Who) -> JSONResponse:
    """What a question would cost and show. Never opens the protected rows, charges nothing."""
    found = service.dataset(person, name)
    return JSONResponse(found.preview(person, body.query, precise=body.precise, nats=body.nats).to_dict())


@router.post("/{name}/questions", response_model=dict[str, Any])
def ask(
    name: str, body: AskBody, service: TheService, person: Who, key: _IdempotencyKey = ""
) -> JSONResponse:
    """Answer a question. The same question, or the same Idempotency-Key, returns the recorded answer and
    costs nothing."""
    request = hashlib.sha256(f"{person.identity}\n{key}".encode()).hexdigest() if key else ""
    found = service.dataset(person, name)
    watch_answers(found.guard)
    answer = found.ask(person, body.query, request, precise=body.precise, nats=body.nats)
    if request or body.nats is not None or body.precise:
        return JSONResponse(answer.to_dict())
    return reply_to(service, found, body.query, answer)


def reply_to(service: Service, dataset: Dataset, question: str, answer: Answer) -> JSONResponse:
    """The reply to a plain question, which is kept for whoever asks in the same words."""
    reply = JSONResponse(answer.to_dict())
    service.recorded.keep(dataset.guard, question, bytes(reply.body))
    return reply


@router.post("/{name}/tables", response_model=dict[str, Any])
def table(name: str, body: AskBody, service: TheService, person: Who) -> JSONResponse:
    """Answer a question by the values of a column, such as share(late, by = carrier): one question for each
    value, asked together. Those that were answered before cost nothing."""
    found = service.dataset(person, name)
    watch_answers(found.guard)
    answers = found.table(person, body.query, precise=body.precise, nats=body.nats)
    count_outcomes(len(answers))
    return JSONResponse(answers.to_dict())


@router.post("/{name}/curves", response_model=dict[str, Any])
def curve(name: str, body: AskBody, service: TheService, person: Who) -> JSONResponse:
    """Tell a whole distribution, such as cdf(income): the share of rows up to each of 64 points, in one
    band."""
    found = service.dataset(person, name)
    return JSONResponse(found.curve(person, body.query, precise=body.precise, nats=body.nats).to_dict())


@router.post("/{name}/discoveries", response_model=dict[str, Any])
def discover(name: str, body: ClaimBody, service: TheService, person: Who) -> JSONResponse:
    """Test a claim, such as mean(income, 0, 1e5) > 3e4: of all that is found, few are false, in
    expectation."""
    found = service.dataset(person, name)
    return JSONResponse(found.discover(person, body.claim, body.rate).to_dict())


@router.get("/{name}/discoveries")
def discoveries(name: str, service: TheService, person: Who) -> list[dict[str, Any]]:
    """Every claim of the account that was tested, in order."""
    found = service.dataset(person, name)
    return [one.to_dict() for one in found.guard.discoveries]


@router.get("/{name}/history")
def history(
    name: str,
    service: TheService,
    person: Who,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Answers of the account in order, a page at a time; ``after`` is the last line of the page before."""
    found = service.dataset(person, name).guard.history_page(after, limit)
    answers = [{"line": line, **answer.to_dict()} for line, answer in found.items()]
    return {"answers": answers, "after": max(found, default=after)}


@router.get("/{name}/train")
def train(name: str, service: TheService, person: Who) -> Response:
    """The training part as Parquet, free to look at; nothing if there is none."""
    rows = service.dataset(person, name).guard.training_rows()
    buffer = io.BytesIO()
    if rows is not None:
        rows.to_parquet(buffer, index=False)
    return Response(buffer.getvalue(), media_type="application/vnd.apache.parquet")


@router.get("/{name}/columns")
def columns(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """The columns with their kinds, what the training rows show of each, and which ones only number the rows.
    Free: says nothing about the protected rows."""
    dataset = service.dataset(person, name)
    return {"columns": dataset.columns, "training_rows": dataset.training_rows}


@router.get("/{name}/certificate")
def certificate(
    name: str,
    service: TheService,
    person: Who,
    form: Annotated[Literal["json", "in-toto"], Query(alias="format")] = "json",
) -> dict[str, Any]:
    """What all answers together rest on; as ``in-toto`` in a signed DSSE envelope that also says how the book
    ends, for people who verify without Holdfast."""
    found = service.dataset(person, name)
    said = found.guard.certificate.to_dict()
    return ledger.envelope(found.book, certificate=said, name=name) if form == "in-toto" else said


@router.get("/{name}/ledger")
def export(name: str, service: TheService, person: Who) -> StreamingResponse:
    """The whole account book, as an export that anyone can verify offline with the public key. Archived and
    deleted datasets have theirs too."""
    if named(name)[0] not in service.datasets.states.all():
        return streamed(service.dataset(person, name).book, name)
    return streamed(service.datasets.book_of(name), name, close=True)


@router.get("/{name}/verify")
def verify(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """The book as the service itself verifies it, and that it goes on where the epoch before it says; anyone
    can do the same offline."""
    last = service.dataset(person, name).guard.epoch.number
    books = [one.book for one in service.datasets.epochs(name)[:last]]
    with ExitStack() as at_end:
        exports = [at_end.enter_context(_exported(book)) for book in books[-2:]]
        found = ledger.verify_epochs(exports, service.key.public)[-1]
    return {**found.to_dict(), "whole": found.whole, "key": service.key.public}


def streamed(book: ledger.Book, name: str, *, close: bool = False) -> StreamingResponse:
    """An account book as an export that is saved under this name."""

    def blocks() -> Iterator[bytes]:
        with ExitStack() as at_end:
            if close:
                at_end.callback(book.close)
            file = at_end.enter_context(at_end.enter_context(_exported(book)).open("rb"))
            while block := file.read(1 << 20):
                yield block

    headers = {"Content-Disposition": f'attachment; filename="{name}.jsonl"'}
    return StreamingResponse(blocks(), media_type="application/jsonl", headers=headers)


@contextmanager
def _exported(book: ledger.Book) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        ledger.export(book, path)
        yield path


def _listed(service: Service, person: Person, name: str) -> dict[str, Any]:
    """A dataset in the list of all: one that cannot be opened is listed as broken, and hides no other."""
    try:
        return described(service, person, name)
    except KNOWN as error:
        return {"name": name, "broken": in_place(error)["detail"]}


def described(service: Service, person: Person, name: str) -> dict[str, Any]:
    """A dataset as a person sees it: its columns, its promise, what is spent and what is left."""
    found = service.dataset(person, name)
    guard, left, closed = found.guard, found.guard.left, found.guard.closed
    return {
        "name": name,
        "rows": guard.rows,
        "columns": {column: about.kind for column, about in guard.schema.items()},
        "confidence": guard.confidence,
        "error": guard.error,
        "strategy": found.policy.strategy,
        "promise": found.policy.promise,
        "expect": found.policy.expect,
        "spent": guard.spent,
        **left.to_dict(),
        "share": found.policy.shares.get(person.account),
        "share_left": found.share_left(person),
        "share_unit": found.policy.share_unit,
        "closed": closed,
        "reported": closed and guard.reported is not None,
        "may_report": found.policy.may_report(person),
        "epoch": guard.epoch.to_dict(),
        "epochs": [one.standing() for one in service.datasets.epochs(name)],
    }
