"""The way in: who asks is checked before the body is read, and the body before a turn is taken.

1. A path that is open to everybody is answered at once. 2. The token is checked by the headers alone. A
stranger's body is never read. 3. The body is read within its route's limit and at a minimum rate. It holds no
turn and no thread meanwhile. 4. The request waits for a turn of its dataset, board or gate, and runs.

Whoever is refused before the body was read gets ``Connection: close``: the rest is not wanted.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.server._limits import Limits, largest_body, needs_token, place_of
from holdfast.server._people import Forbidden, Person, Refused
from holdfast.server._rate import FreeRate, TooMany
from holdfast.server._routing import PERSON, identify, problem
from holdfast.server._service import Service
from holdfast.server._short_way import AskedRoute, Gathering, PlainQuestion, plain_question
from holdfast.server._turns import Busy, Turns

_API_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_CLOSE = {"Connection": "close"}
_WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# What costs its sender nothing: a request that was refused as it is. Long ones take longer to refuse.
_REJECTED = frozenset({400, 404, 422})
_BYTES_A_TOKEN = 1_024
_MOST_COUNTED = 64 * 1_024


class _TooLarge(Exception):
    """The body has more bytes than the route takes."""


class _TooSlow(Exception):
    """The body arrives more slowly than it must."""


class _Gone(Exception):
    """The client has hung up."""


class Admission:
    """Lets requests in, by the limits of a service.

    Guarantee: no byte of a body is read for a request without a valid token, no body has more bytes than its
    route takes, and open paths never wait.
    """

    def __init__(self, app: ASGIApp, *, service: Service, limits: Limits) -> None:
        self._app, self._service, self._limits = app, service, limits
        self._turns = Turns(limits)
        self._gathering = Gathering(service, limits.running)
        self._free = FreeRate(limits.free_per_minute)
        self._held = 0  # bytes of all bodies that are being read or worked on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith("/v1"):
            send = _with_headers(send)
        headers = Headers(scope=scope)
        person: Person | None = None
        if needs_token(path):
            try:
                person = await identify(self._service, headers, scope["method"])
            except Refused as refusal:
                status, kind = (401, "not-signed-in")
                if isinstance(refusal, Forbidden):
                    status, kind = (403, "not-allowed")
                await problem(status, kind, str(refusal), headers=_CLOSE)(scope, receive, send)
                return
            scope[PERSON] = person
        most = largest_body(scope["method"], path) if person is not None else 0
        if (response := self._refused_by_length(headers, most)) is not None:
            await response(scope, receive, send)
            return
        if person is None:
            await self._app(scope, _nothing, send)
            return
        if scope["method"] in _WRITING:
            try:
                self._free.require(person.account)
            except TooMany as refusal:
                response = problem(429, "too-many-questions", str(refusal), headers=_CLOSE, wait=refusal.wait)
                await response(scope, receive, send)
                return
        await self._admit(person, most, scope, receive, send)

    def _refused_by_length(self, headers: Headers, most: int) -> Any:
        """The refusal of a request whose header says that its body is too large; None for others."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and len(length) < 19 and int(length) > most:
            return _too_large(most)
        if most == 0 and "transfer-encoding" in headers:
            return _too_large(most)
        return None

    async def _admit(self, person: Person, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(receive, most)
        except _TooLarge:
            await _too_large(most)(scope, receive, send)
            return
        except _TooSlow:
            words = "The request's body arrived too slowly. Send it again over a faster connection."
            await problem(408, "too-slow", words, headers=_CLOSE)(scope, receive, send)
            return
        except Busy as busy:
            await _busy(busy)(scope, receive, send)
            return
        except _Gone:
            return
        try:
            question = plain_question(scope["method"], scope["path"], Headers(scope=scope), body)
            if question is not None:
                scope["route"] = AskedRoute
                reply = await question.recorded(self._service, person)
                if reply is not None:
                    await reply(scope, receive, send)
                    return
            await self._in_turn(person, body, question, scope, receive, send)
        finally:
            self._held -= len(body)

    async def _in_turn(
        self,
        person: Person,
        body: bytes,
        question: PlainQuestion | None,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            async with self._turns.turn(place_of(scope["path"]), person.account):
                if question is not None:
                    reply = await self._gathering.reply(question, person)
                    await reply(scope, receive, noted)
                else:
                    await self._app(scope, _replayed(body, receive), noted)
            if scope["method"] in _WRITING and (status in _REJECTED or scope["path"].endswith("/preview")):
                self._free.take(person.account, 1 + min(len(body), _MOST_COUNTED) / _BYTES_A_TOKEN)
        except Busy as busy:
            await _busy(busy)(scope, receive, send)

    async def _body(self, receive: Receive, most: int) -> bytes:
        """The whole body; its bytes are counted as held until the request has ended."""
        loop, limits = asyncio.get_running_loop(), self._limits
        started, parts, arrived = loop.time(), [], 0
        try:
            while True:
                due = started + limits.body_seconds + arrived / limits.body_rate
                message = await _in_time(receive, due - loop.time())
                if message["type"] == "http.disconnect":
                    raise _Gone
                part: bytes = message.get("body", b"")
                arrived += len(part)
                self._held += len(part)
                parts.append(part)
                if arrived > most:
                    raise _TooLarge
                if self._held > limits.body_bytes:
                    raise Busy("The service is reading many large requests. Try again in a moment.", 2.0)
                if not message.get("more_body", False):
                    return b"".join(parts)
        except BaseException:
            self._held -= arrived
            raise


async def _in_time(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        raise _TooSlow from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives a body that was read before, and then whatever comes after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _nothing() -> Message:
    """The body of a request that has none."""
    return {"type": "http.request", "body": b"", "more_body": False}


def _too_large(most: int) -> Any:
    words = f"A request like this may have at most {most:,} bytes." if most else "This takes no body."
    return problem(413, "too-large", words, headers=_CLOSE)


def _busy(busy: Busy) -> Any:
    return problem(503, "busy", str(busy), wait=busy.wait)


def _with_headers(send: Send) -> Send:
    """A ``send`` that tells browsers and proxies to keep nothing of what the API says."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _API_HEADERS.items():
                headers[name] = value
        await send(message)

    return sent
