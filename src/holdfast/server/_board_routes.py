"""Routes about boards: registering, submitting, the standing, the end of a blind phase, the final."""

from __future__ import annotations

import io
import json
import math
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from holdfast.errors import QueryRejected
from holdfast.guard import Submission
from holdfast.server._access import TheService, Who
from holdfast.server._models import BoardBody
from holdfast.server._service import Service

router = APIRouter(prefix="/v1/boards")

_READERS = ("analyst", "auditor")


@router.post("", status_code=201)
def register(body: BoardBody, service: TheService, person: Who) -> dict[str, Any]:
    """Open a board on a table of labels."""
    service.require(person)
    service.boards.register(body.name, body.source, body.terms(), blind=body.blind)
    return _described(service, body.name)


@router.get("")
def boards(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The boards this token reaches, with their standing."""
    return [_described(service, name) for name in service.boards.names() if person.reaches(name)]


@router.get("/{name}")
def board(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """One board: its standing with certified intervals, and the final once there is one."""
    service.board(person, name, *_READERS)
    return _described(service, name)


@router.get("/{name}/ids")
def ids(name: str, service: TheService, person: Who) -> list[Any]:
    """Every id that a submission has to have a prediction for."""
    return service.board(person, name, *_READERS).ids


@router.post(
    "/{name}/submissions",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                kind: {"schema": {"type": "string"}}
                for kind in ("text/csv", "application/vnd.apache.parquet", "application/json")
            },
        }
    },
)
async def submit(name: str, request: Request, service: TheService, person: Who) -> dict[str, Any]:
    """Submit predictions as CSV, Parquet or JSON with the columns ``id`` and ``prediction``."""
    board = service.board(person, name, "analyst")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    content = await request.body()

    def score() -> dict[str, Any]:
        told = service.boards.submit(name, person, _table(kind, content, text=board.labels_are_text))
        if isinstance(told, Submission):
            receipt = None if told.receipt is None else told.receipt.to_dict()
            return {**told.to_dict(), "better": told.better, "receipt": receipt}
        return {**told.to_dict(), "blind": True}

    return await run_in_threadpool(score)


@router.post("/{name}/unblind")
def unblind(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """End the blind phase: everything that waited is scored as one batch. What could not be scored is listed
    under ``unscored``. It can be called again after a crash."""
    service.board(person, name)
    unscored = service.boards.unblind(name)
    return {**_described(service, name), "unscored": [submission.to_dict() for submission in unscored]}


@router.post("/{name}/final")
def final(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Score each person's best submission on the sealed part, once."""
    service.board(person, name)
    service.boards.final(name)
    return _described(service, name)


def _described(service: Service, name: str) -> dict[str, Any]:
    found, blind = service.boards.get(name), service.boards.blind(name)
    better = "more" if found.upward else "less"
    words = f"{found.metric}, {better} is better; scored on {found.rows:,} rows in steps of {found.step:.3g}"
    if blind:
        words += f"; blind: {service.boards.waiting(name)} submissions wait"
    return {
        "name": name,
        "metric": found.metric,
        "rows": found.rows,
        "step": found.step,
        "confidence": found.confidence,
        "blind": blind,
        "words": words,
        "standing": [entry.to_dict() for entry in found.standing],
        "final": [entry.to_dict() for entry in found.final()] if found.finished else None,
    }


def _table(kind: str, content: bytes, *, text: bool) -> Any:
    """A table from what was sent; nothing in it is ever run. CSV has no kinds: ids are texts, predictions are
    where the labels are, and only an empty prediction is missing."""
    import pandas

    try:
        if kind == "text/csv":
            texts = {"id": str, "prediction": str} if text else {"id": str}
            missing = {"prediction": [""]}
            return pandas.read_csv(io.BytesIO(content), dtype=texts, na_values=missing, keep_default_na=False)
        if kind == "application/vnd.apache.parquet":
            return pandas.read_parquet(io.BytesIO(content))
        if kind == "application/json":
            said = json.loads(content, parse_constant=lambda _: math.nan)
            return pandas.DataFrame(said)
    except Exception:
        raise QueryRejected(f"The submission could not be read as {kind}.", asked=0.0) from None
    raise QueryRejected(
        "Send predictions as text/csv, application/vnd.apache.parquet or application/json; the Content-Type "
        f"was {kind or 'missing'!r}.",
        asked=0.0,
    )
