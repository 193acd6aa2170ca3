"""The short way of a plain question: a body with only the question, sent without a key.

Most requests are plain. The short way uses the same table of roles, the same model of a body and the same
function as the long way. The long way goes through the framework, which takes much of the time of a short
question. All other requests take the long way, and get their errors there.

Plain questions about one dataset that arrive while others are answered wait for the same turn, without a
thread of their own. One thread then takes them all.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError
from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.registry import Dataset, Person, Service, rule_of
from holdfast.server import _asking
from holdfast.server._observation import watch_answers
from holdfast.server._requests import AskBody
from holdfast.server._routing import KNOWN, problem_of

# An event loop, and the name of a dataset.
_Place = tuple[asyncio.AbstractEventLoop, str]
# A dataset gives its thread back after this time, because other datasets may wait for a thread.
_MOST_SECONDS = 0.25
_PATH = re.compile(r"/v1/datasets/([^/]+)/questions")


class AskedRoute:
    """The route of a question, as logs and metrics name it."""

    path = "/v1/datasets/{name}/questions"


class PlainQuestion(NamedTuple):
    """The dataset that is asked, and the body of the request."""

    name: str
    body: AskBody

    async def recorded(self, service: Service, person: Person) -> Response | None:
        """The reply that was given before, if this person may ask; None if there is none. It needs no turn
        and no thread."""
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
        except KNOWN:  # The error is reported when the question is asked.
            return None
        return None if dataset is None else service.recorded.reply(dataset.guard, self.body.query)

    def reply(self, service: Service, person: Person) -> Response:
        """The reply or the problem, the same as from the route of questions."""
        try:
            acting = rule_of("POST", AskedRoute.path).require(person, self.name)
            return _asking.ask(self.name, self.body, service, acting)
        except KNOWN as error:
            return problem_of(error)


@dataclass
class _Waiting:
    """A question that has no reply yet, who asks it, and the context of its request."""

    question: PlainQuestion
    person: Person
    reply: asyncio.Future[Response]
    context: Context = field(default_factory=copy_context)

    def settle(self, reply: Response | BaseException) -> None:
        """Set the reply or the unexpected error, unless the client has gone."""
        if self.reply.done():
            return
        if isinstance(reply, Response):
            self.reply.set_result(reply)
        else:
            self.reply.set_exception(reply)


class Gathering:
    """The questions of each dataset that wait for a reply. One thread answers them, and then those that came
    meanwhile. ``threads`` is how many datasets can have a thread at a time.

    Guarantee: each question has the reply that it would have alone.
    """

    def __init__(self, service: Service, threads: int) -> None:
        self._service = service
        # Not the framework's pool: it can cancel its calls, so each call needs several event loop turns.
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="questions")
        # Waiting questions by event loop and dataset. A dataset is listed while a thread answers for it.
        self._waiting: dict[_Place, list[_Waiting]] = {}
        self._lock = Lock()

    async def reply(self, question: PlainQuestion, person: Person) -> Response:
        """The reply to a question, once there is one."""
        loop = asyncio.get_running_loop()
        waiting, place = _Waiting(question, person, loop.create_future()), (loop, question.name)
        with self._lock:
            others = self._waiting.get(place)
            if others is None:
                self._waiting[place] = []
            else:
                others.append(waiting)
        if others is None:
            self._threads.submit(self._answer, place, [waiting])
        return await waiting.reply

    def _answer(self, place: _Place, group: list[_Waiting]) -> None:
        """Answer a group in a thread, and then the questions that came meanwhile. The thread takes them
        itself: the event loop would let it wait."""
        end = time.monotonic() + _MOST_SECONDS
        while True:
            self._answer_group(place[0], group)
            with self._lock:
                group = self._waiting.pop(place)
                if not group:
                    return
                self._waiting[place] = []
            if time.monotonic() >= end:  # Other datasets may wait for a thread.
                self._threads.submit(self._answer, place, group)
                return

    def _answer_group(self, loop: asyncio.AbstractEventLoop, group: list[_Waiting]) -> None:
        """Answer a group, and hand its replies to the event loop."""
        replies: list[Response | BaseException]
        try:
            work = group[0].context.copy().run  # Each context is entered again, for its own answer.
            replies = [*work(_replies, self._service, group)]
        except BaseException as error:  # Nobody waits for ever.
            replies = [error] * len(group)
        with suppress(RuntimeError):  # The event loop has ended, and nobody waits any more.
            loop.call_soon_threadsafe(_settle, group, replies)


def _settle(group: list[_Waiting], replies: Sequence[Response | BaseException]) -> None:
    for waiting, reply in zip(group, replies, strict=True):
        waiting.settle(reply)


def _replies(service: Service, group: Sequence[_Waiting]) -> list[Response | Exception]:
    """The reply to each question about one dataset, or its unexpected error."""
    if len(group) > 1:
        try:
            return [*_replies_apart(service, group)]
        except Exception:  # Each question is then asked alone. Answers so far are in the book.
            pass
    replies: list[Response | Exception] = []
    for waiting in group:
        try:
            replies.append(waiting.context.run(waiting.question.reply, service, waiting.person))
        except Exception as error:
            replies.append(error)
    return replies


def _replies_apart(service: Service, group: Sequence[_Waiting]) -> list[Response]:
    """The replies to several questions, answered in one turn."""
    replies: dict[int, Response] = {}
    asked: dict[int, tuple[Person, str, Context]] = {}
    dataset: Dataset | None = None
    for place, waiting in enumerate(group):
        name, body = waiting.question
        try:
            acting = rule_of("POST", AskedRoute.path).require(waiting.person, name)
            dataset = service.dataset(acting, name)
            asked[place] = acting, body.query, waiting.context
        except KNOWN as error:
            replies[place] = problem_of(error)
    if dataset is not None:
        watch_answers(dataset.guard)
        for place, outcome in zip(asked, dataset.ask_apart(list(asked.values())), strict=True):
            if isinstance(outcome, HoldfastError):
                replies[place] = problem_of(outcome)
            else:
                replies[place] = _asking.reply_to(service, dataset, asked[place][1], outcome)
    return [replies[place] for place in range(len(group))]


def plain_question(method: str, path: str, headers: Mapping[str, str], body: bytes) -> PlainQuestion | None:
    """The question of a request; None if it is not plain."""
    address = _PATH.fullmatch(path) if method == "POST" else None
    if address is None or "idempotency-key" in headers:
        return None
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        fields = json.loads(body)
        if type(fields) is not dict or list(fields) != ["query"]:
            return None
        return PlainQuestion(address[1], AskBody.model_validate(fields))
    except (ValueError, ValidationError, RecursionError):
        return None
