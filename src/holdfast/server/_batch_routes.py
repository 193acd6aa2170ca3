"""Several questions in one request: answered in order, in few scans, and at the prices of one by one."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from holdfast.server._access import TheService, Who
from holdfast.server._models import BatchBody
from holdfast.server._problems import KNOWN, in_place

router = APIRouter(prefix="/v1/datasets")


@router.post("/{name}/batches", response_model=dict[str, Any])
def ask_all(name: str, body: BatchBody, service: TheService, person: Who) -> JSONResponse:
    """Answer several questions in order, each at the price it has by itself after those before it.

    All are read before the first is asked: a question that cannot be asked as written refuses them all, and
    nothing is charged. What is refused later is told in its place, under ``problem``; with ``stop`` nothing
    is asked after it. A question with a ``key`` returns the recorded answer when it is sent again with it.
    """
    asked = [(one.query, _request(person.identity, one.key)) for one in body.questions]
    outcomes: list[dict[str, Any]] = []
    for answer in service.dataset(person, name, "analyst").ask_all(person, asked):
        try:
            outcomes.append({"answer": answer().to_dict()})
        except KNOWN as error:
            outcomes.append({"problem": in_place(error)})
            if body.stop:
                break
    return JSONResponse({"outcomes": outcomes})


def _request(identity: str, key: str) -> str:
    return hashlib.sha256(f"{identity}\n{key}".encode()).hexdigest() if key else ""
