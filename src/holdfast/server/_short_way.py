"""The short way of a plain question: a body that says what is asked and nothing else, without a key.

Most requests are such. They meet the same table of roles, the same model of a body and the same function as
on the long way through the framework, which takes a third of the time that a question takes in all. Whatever
is not plain, or not well formed, takes the long way, and is told there what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError
from starlette.responses import Response

from holdfast.server import _asking
from holdfast.server._models import AskBody
from holdfast.server._problems import KNOWN, problem_of
from holdfast.server._roles import rule_of
from holdfast.server._service import Service
from holdfast.server._tokens import Person

_PATH = re.compile(r"/v1/datasets/([^/]+)/questions")


class AskedRoute:
    """The route of a question, as logs and metrics name it."""

    path = "/v1/datasets/{name}/questions"


class PlainQuestion(NamedTuple):
    """The dataset that is asked, and the body of the request."""

    name: str
    body: AskBody

    async def recorded(self, service: Service, person: Person) -> Response | None:
        """The reply that was given before, for whoever may ask; it needs no turn and no thread. None where
        there is none."""
        if not service.recorded.has(self.body.query):
            return None
        if service.tokens.remote:
            reply = await run_in_threadpool(self._recorded, service, person)
        else:
            reply = self._recorded(service, person)
        return None if reply is None else Response(reply, media_type="application/json")

    def _recorded(self, service: Service, person: Person) -> bytes | None:
        try:
            rule_of("POST", AskedRoute.path).require(person, self.name)
            dataset = service.datasets.at_hand(self.name)
        except KNOWN:  # Whoever asks is told what is wrong when it is asked.
            return None
        return None if dataset is None else service.recorded.reply(dataset.guard, self.body.query)

    async def asked(self, service: Service, person: Person) -> Response:
        """The reply, or the problem, that the route of questions gives."""
        try:
            acting = rule_of("POST", AskedRoute.path).require(person, self.name)
            return await run_in_threadpool(_asking.ask, self.name, self.body, service, acting)
        except KNOWN as error:
            return problem_of(error)


def plain_question(method: str, path: str, headers: Mapping[str, str], body: bytes) -> PlainQuestion | None:
    """What a request asks, if it is plain."""
    address = _PATH.fullmatch(path) if method == "POST" else None
    if address is None or "idempotency-key" in headers:
        return None
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        said = json.loads(body)
        if type(said) is not dict or list(said) != ["query"]:
            return None
        return PlainQuestion(address[1], AskBody.model_validate(said))
    except (ValueError, ValidationError, RecursionError):
        return None
