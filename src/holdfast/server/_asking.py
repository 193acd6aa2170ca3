"""Routes about datasets: registering, previews, questions, batches, epochs, history, certificate, book,
report.

Questions of a batch are asked together, so that none pays for what the others reveal.
"""

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
from holdfast.coding import PRECISE_NATS
from holdfast.engines import shown
from holdfast.errors import HoldfastError
from holdfast.guard import Answer
from holdfast.records import plain
from holdfast.registry import Arrived, Dataset, Person, Policy, Service, Unknown, named
from holdfast.server._observation import count_outcomes, watch_answers
from holdfast.server._requests import (
    AskBody,
    BatchBody,
    BatchQuestion,
    ClaimBody,
    DatasetBody,
    EpochBody,
    ReportBody,
)
from holdfast.server._routing import KNOWN, TheService, Who, in_place

router = APIRouter(prefix="/v1/datasets")

# A forecast of so many questions takes a tenth of a second.
_MOST_AFTER = 10_000
_IdempotencyKey = Annotated[str, Header(alias="Idempotency-Key", max_length=200)]


@router.post("", status_code=201)
def register(body: DatasetBody, service: TheService, person: Who) -> dict[str, Any]:
    """Protect a table."""

    def record() -> None:
        service.administration.record(person, "register", dataset=body.name, source=shown(body.source))

    service.datasets.register(body.name, body.source, Policy(**body.policy.model_dump()), record=record)
    return described_dataset(service, person, body.name)


@router.get("")
def datasets(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The datasets this token reaches, and what is left of each."""
    return [_listed(service, person, name) for name in service.visible(person)]


@router.get("/{name}")
def dataset(
    name: str,
    service: TheService,
    person: Who,
    after: Annotated[int | None, Query(ge=0, le=_MOST_AFTER)] = None,
) -> dict[str, Any]:
    """One dataset: its columns, its promise, what is spent and what is left. With ``after`` also the
    half-width that a share is expected to have after that many more questions."""
    if after is None:
        return described_dataset(service, person, name)
    half_width = plain(service.dataset(person, name).guard.left.share_half_width_after(after))
    return {**described_dataset(service, person, name), "share_half_width_after": half_width}


# These two routes are the busiest. They return a finished response, so the framework need not convert it.
@router.post("/{name}/preview", response_model=dict[str, Any])
def preview(name: str, body: AskBody, service: TheService, person: Who) -> JSONResponse:
    """What a question would cost and show. It never opens the protected rows and charges nothing."""
    dataset = service.dataset(person, name)
    return JSONResponse(dataset.preview(person, body.query, precise=body.precise, nats=body.nats).to_dict())


@router.post("/{name}/questions", response_model=dict[str, Any])
def ask(
    name: str, body: AskBody, service: TheService, person: Who, key: _IdempotencyKey = ""
) -> JSONResponse:
    """Answer a question. The same question, or the same Idempotency-Key, returns the recorded answer and
    costs nothing."""
    request = _request_id(person.identity, key)
    dataset = service.dataset(person, name)
    watch_answers(dataset.guard)
    answer = dataset.ask(person, body.query, request, precise=body.precise, nats=body.nats)
    if request or body.nats is not None or body.precise:
        return JSONResponse(answer.to_dict())
    return reply_to(service, dataset, body.query, answer)


def reply_to(service: Service, dataset: Dataset, question: str, answer: Answer) -> JSONResponse:
    """The reply to a plain question. It is kept for the next person who asks in the same words."""
    reply = JSONResponse(answer.to_dict())
    service.recorded.keep(dataset.guard, question, bytes(reply.body))
    return reply


@router.post("/{name}/tables", response_model=dict[str, Any])
def table(name: str, body: AskBody, service: TheService, person: Who) -> JSONResponse:
    """Answer a question by the values of a column, such as share(late, by = carrier): one question for each
    value, asked together. Questions that were answered before cost nothing."""
    dataset = service.dataset(person, name)
    watch_answers(dataset.guard)
    answers = dataset.table(person, body.query, precise=body.precise, nats=body.nats)
    count_outcomes(len(answers))
    return JSONResponse(answers.to_dict())


@router.post("/{name}/curves", response_model=dict[str, Any])
def curve(name: str, body: AskBody, service: TheService, person: Who) -> JSONResponse:
    """Answer a question for a whole distribution, such as cdf(income): the share of rows up to each of 64
    points, in one band."""
    dataset = service.dataset(person, name)
    return JSONResponse(dataset.curve(person, body.query, precise=body.precise, nats=body.nats).to_dict())


@router.post("/{name}/discoveries", response_model=dict[str, Any])
def discover(name: str, body: ClaimBody, service: TheService, person: Who) -> JSONResponse:
    """Test a claim, such as mean(income, 0, 1e5) > 3e4. In expectation, few of all discovered claims are
    false."""
    dataset = service.dataset(person, name)
    return JSONResponse(dataset.discover(person, body.claim, body.rate).to_dict())


@router.get("/{name}/discoveries")
def discoveries(name: str, service: TheService, person: Who) -> list[dict[str, Any]]:
    """Every claim of the account that was tested, in order."""
    dataset = service.dataset(person, name)
    return [discovery.to_dict() for discovery in dataset.guard.discoveries]


@router.get("/{name}/history")
def history(
    name: str,
    service: TheService,
    person: Who,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Answers of the account in order, a page at a time; ``after`` is the last line of the page before."""
    page = service.dataset(person, name).guard.history_page(after, limit)
    answers = [{"line": line, **answer.to_dict()} for line, answer in page.items()]
    return {"answers": answers, "after": max(page, default=after)}


@router.get("/{name}/train")
def train(name: str, service: TheService, person: Who) -> Response:
    """The training rows as Parquet. Looking at them is free. Empty if there are none."""
    rows = service.dataset(person, name).guard.training_rows()
    buffer = io.BytesIO()
    if rows is not None:
        rows.to_parquet(buffer, index=False)
    return Response(buffer.getvalue(), media_type="application/vnd.apache.parquet")


@router.get("/{name}/columns")
def columns(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """The columns with their kinds, what the training rows show of each, and which ones only number the rows.
    This is free and says nothing about the protected rows."""
    dataset = service.dataset(person, name)
    return {"columns": dataset.columns, "training_rows": dataset.training_rows}


@router.get("/{name}/certificate")
def certificate(
    name: str,
    service: TheService,
    person: Who,
    form: Annotated[Literal["json", "in-toto"], Query(alias="format")] = "json",
) -> dict[str, Any]:
    """What all answers together rest on. With ``in-toto`` it comes in a signed DSSE envelope that also says
    how the book ends, for people who verify without Holdfast."""
    dataset = service.dataset(person, name)
    certificate = dataset.guard.certificate.to_dict()
    if form == "json":
        return certificate
    return ledger.envelope(dataset.book, certificate=certificate, name=name)


@router.get("/{name}/ledger")
def export(name: str, service: TheService, person: Who) -> StreamingResponse:
    """The whole account book, as an export that anyone can verify offline with the public key. This works for
    archived and deleted datasets too."""
    if named(name)[0] not in service.datasets.states.all():
        return streamed(service.dataset(person, name).book, name)
    return streamed(service.datasets.book_of(name), name, close=True)


@router.get("/{name}/verify")
def verify(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Verify the book, and that it continues where the epoch before it says. Anyone can do the same
    offline."""
    number = service.dataset(person, name).guard.epoch.number
    books = [epoch.book for epoch in service.datasets.epochs(name)[:number]]
    with ExitStack() as at_end:
        exports = [at_end.enter_context(_exported(book)) for book in books[-2:]]
        verification = ledger.verify_epochs(exports, service.key.public)[-1]
    return {**verification.to_dict(), "whole": verification.whole, "key": service.key.public}


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
    """A dataset in the list of all datasets. If it cannot be opened, it is listed as broken, and the others
    are still listed."""
    try:
        return described_dataset(service, person, name)
    except KNOWN as error:
        return {"name": name, "broken": in_place(error)["detail"]}


def described_dataset(service: Service, person: Person, name: str) -> dict[str, Any]:
    """A dataset as a person sees it: its columns, its promise, what is spent and what is left."""
    dataset = service.dataset(person, name)
    guard, left, closed = dataset.guard, dataset.guard.left, dataset.guard.closed
    return {
        "name": name,
        "rows": guard.rows,
        "columns": {column: about.kind for column, about in guard.schema.items()},
        "confidence": guard.confidence,
        "error": guard.error,
        "strategy": dataset.policy.strategy,
        "promise": dataset.policy.promise,
        "expect": dataset.policy.expect,
        "spent": guard.spent,
        **left.to_dict(),
        "share": dataset.policy.shares.get(person.account),
        "share_left": dataset.share_left(person),
        "share_unit": dataset.policy.share_unit,
        "closed": closed,
        "reported": closed and guard.reported is not None,
        "may_report": dataset.policy.may_report(person),
        "epoch": guard.epoch.to_dict(),
        "epochs": [epoch.standing() for epoch in service.datasets.epochs(name)],
    }


@router.post("/{name}/batches", response_model=dict[str, Any])
def ask_all(name: str, body: BatchBody, service: TheService, person: Who) -> JSONResponse:
    """Answer several questions together. None pays for what the others reveal, but later questions pay for
    all of them.

    All questions are parsed before the first is asked. If one cannot be asked as written, all are refused and
    nothing is charged. A question that is refused later has its ``problem`` in its place; with ``stop``
    nothing is asked after it. A question with a ``key`` returns the recorded answer when it is sent again
    with the same key.
    """
    questions = [
        (question.query, _request_id(person.identity, question.key), _wanted_nats(question))
        for question in body.questions
    ]
    dataset = service.dataset(person, name)
    watch_answers(dataset.guard)
    outcomes = dataset.ask_all(person, questions, stop=body.stop)
    answers = sum(isinstance(outcome, Answer) for outcome in outcomes)
    count_outcomes(answers, len(outcomes) - answers)
    return JSONResponse({"outcomes": [_outcome(outcome) for outcome in outcomes]})


def _wanted_nats(question: BatchQuestion) -> float | None:
    return PRECISE_NATS if question.precise and question.nats is None else question.nats


def _outcome(outcome: Answer | HoldfastError) -> dict[str, Any]:
    if isinstance(outcome, Answer):
        return {"answer": outcome.to_dict()}
    return {"problem": in_place(outcome)}


def _request_id(identity: str, key: str) -> str:
    return hashlib.sha256(f"{identity}\n{key}".encode()).hexdigest() if key else ""


@router.post("/{name}/epochs", status_code=201)
def open_epoch(
    name: str,
    body: EpochBody,
    service: TheService,
    person: Who,
    key: _IdempotencyKey = "",
) -> dict[str, Any]:
    """Open an epoch for rows that arrived since the newest one. It has an account of its own, and no earlier
    account changes. The same Idempotency-Key returns the epoch that was opened. From then on NAME is the new
    epoch, and NAME@1 the first."""
    service.dataset(person, name)
    arrived = Arrived(**body.model_dump())

    def record(number: int) -> None:
        about = {"dataset": f"{named(name)[0]}@{number}", "source": shown(body.source)}
        service.administration.record(person, "open epoch", **about)

    request = _request_id(person.identity, key)
    return service.datasets.next_epoch(name, arrived, request, record=record).standing()


@router.get("/{name}/epochs")
def epochs(name: str, service: TheService, person: Who) -> list[dict[str, Any]]:
    """Every epoch of a dataset: since when it is open, and what is left of its account."""
    service.dataset(person, name)
    return [epoch.standing() for epoch in service.datasets.epochs(name)]


@router.post("/{name}/report")
def give(name: str, body: ReportBody, service: TheService, person: Who) -> dict[str, Any]:
    """Give the report: close the account for everyone, then read the questions exactly.

    The policy says who may do this. If a question cannot be asked, the report is refused and the account
    stays open. A report is given once; the same questions return it again.
    """
    return service.dataset(person, name).report(person, body.questions).to_dict()


@router.get("/{name}/report")
def given(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """The report that was given."""
    report = service.dataset(person, name).guard.reported
    if report is None:
        raise Unknown(f"There is no report on {name!r}: nobody has given one yet.")
    return report.to_dict()
