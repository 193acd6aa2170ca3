"""Replies that were sent before, at hand as bytes: who polls an answer waits for no thread and no turn.

An answer never changes once it is in the book. So the reply to a question in the same words, to anybody who
may ask the dataset, is the same bytes. Everything else takes the long way: a question with a key or a wish of
its own, a dataset that is not open here or that was changed meanwhile, and whoever is to be refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.guard import Guard
from holdfast.server._roles import rule_of
from holdfast.server._tokens import Person

if TYPE_CHECKING:
    from holdfast.server._service import Service

# So many replies of each dataset are kept, and none that is longer than this.
_MOST_REPLIES = 4_096
_MOST_BYTES = 16 * 2**10
_PATH = re.compile(r"/v1/datasets/([^/]+)/questions")


class AskedRoute:
    """The route of a question, as logs and metrics name it."""

    path = "/v1/datasets/{name}/questions"


class Recorded:
    """The replies of one process, by guard and question.

    Guarantee: a reply is given only to who the table of roles lets ask the dataset, and only while the
    dataset is open here as it was when the reply was made.
    """

    def __init__(self) -> None:
        self._replies: WeakKeyDictionary[Guard, dict[str, bytes]] = WeakKeyDictionary()

    def keep(self, guard: Guard, question: str, reply: bytes) -> None:
        """Keep the reply to a question that has its answer in the book."""
        if len(reply) > _MOST_BYTES:
            return
        replies = self._replies.setdefault(guard, {})
        if len(replies) >= _MOST_REPLIES:
            replies.pop(next(iter(replies)), None)
        replies[question] = reply

    async def reply(
        self, service: Service, person: Person, path: str, headers: Mapping[str, str], body: bytes
    ) -> Response | None:
        """The reply to a request that was answered before in the same words; None for all others."""
        address = _PATH.fullmatch(path)
        if address is None or "idempotency-key" in headers:
            return None
        question = _question(headers, body)
        if question is None or not any(question in replies for replies in list(self._replies.values())):
            return None
        if service.tokens.remote:
            reply = await run_in_threadpool(self._found, service, person, address[1], question)
        else:
            reply = self._found(service, person, address[1], question)
        return None if reply is None else Response(reply, media_type="application/json")

    def _found(self, service: Service, person: Person, name: str, question: str) -> bytes | None:
        try:
            rule_of("POST", AskedRoute.path).require(person, name)
            dataset = service.datasets.at_hand(name)
        except HoldfastError:  # The long way says what is wrong.
            return None
        return None if dataset is None else self._replies.get(dataset.guard, {}).get(question)


def _question(headers: Mapping[str, str], body: bytes) -> str | None:
    """What a body asks, where it says nothing else."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        said = json.loads(body)
    except ValueError:
        return None
    if type(said) is not dict or list(said) != ["query"] or type(said["query"]) is not str:
        return None
    return str(said["query"])
