"""Several questions in one request: asked together, so that none pays for what the others reveal."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from holdfast.coding import PRECISE_NATS
from holdfast.errors import HoldfastError
from holdfast.guard import Answer
from holdfast.server._observation import count_outcomes, watch_answers
from holdfast.server._requests import BatchBody, BatchQuestion
from holdfast.server._routing import TheService, Who, in_place

router = APIRouter(prefix="/v1/datasets")


@router.post("/{name}/batches", response_model=dict[str, Any])
def ask_all(name: str, body: BatchBody, service: TheService, person: Who) -> JSONResponse:
    """Answer several questions together: none pays for what the others reveal, and whoever asks later pays
    for all of them.

    All are read before the first is asked: a question that cannot be asked as written refuses them all, and
    nothing is charged. What is refused later is told in its place, under ``problem``; with ``stop`` nothing
    is asked after it. A question with a ``key`` returns the recorded answer when it is sent again with it.
    """
    asked = [
        (question.query, _request(person.identity, question.key), _wished(question))
        for question in body.questions
    ]
    dataset = service.dataset(person, name)
    watch_answers(dataset.guard)
    outcomes = dataset.ask_all(person, asked, stop=body.stop)
    answers = sum(isinstance(outcome, Answer) for outcome in outcomes)
    count_outcomes(answers, len(outcomes) - answers)
    return JSONResponse({"outcomes": [_told(outcome) for outcome in outcomes]})


def _wished(question: BatchQuestion) -> float | None:
    return PRECISE_NATS if question.precise and question.nats is None else question.nats


def _told(outcome: Answer | HoldfastError) -> dict[str, Any]:
    if isinstance(outcome, Answer):
        return {"answer": outcome.to_dict()}
    return {"problem": in_place(outcome)}


def _request(identity: str, key: str) -> str:
    return hashlib.sha256(f"{identity}\n{key}".encode()).hexdigest() if key else ""
