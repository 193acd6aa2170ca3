"""Every request, observed once: its id, its line in the log, its numbers in the metrics, its trace.

What is observed is the route's template and never the path, the status, and the duration in coarse steps.
None of it depends on what is asked beyond the kind of question, and none on protected rows beyond the time
it took (docs/guides/operation.md says what that can reveal).
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakSet

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.guard import Guard
from holdfast.server._logs import REQUESTS
from holdfast.server._traces import Tracing

STEPS = (0.05, 0.25, 1.0, 5.0, 30.0)
"""The steps of durations, in seconds: anything finer is not recorded."""

_ID = re.compile(r"(?!hf_)[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_log = logging.getLogger(REQUESTS)


@dataclass
class Request:
    """What is known of one request when it ends. ``new_answers`` were recorded for it; ``answers`` and
    ``refusals`` are what its reply holds, where the route says so."""

    id: str
    method: str
    route: str = "unmatched"
    status: int = 500
    seconds: float = 0.0
    received: int = 0
    sent: int = 0
    new_answers: int = 0
    answers: int | None = None
    refusals: int = 0

    @property
    def step(self) -> float | None:
        """The duration as it is recorded: the step it is below; None beyond the last."""
        return next((step for step in STEPS if self.seconds <= step), None)


_current: ContextVar[Request | None] = ContextVar("holdfast_request", default=None)
_watched: WeakSet[Guard] = WeakSet()


def watch_answers(guard: Guard) -> None:
    """Count the new answers of a guard for the request that asks for them; calling it again changes
    nothing."""
    if guard not in _watched:
        _watched.add(guard)
        guard.on_answer(_count_new)


def count_outcomes(answers: int, refusals: int = 0) -> None:
    """Say how many answers and refusals the reply to the current request holds, where it is not one."""
    request = _current.get()
    if request is not None:
        request.answers, request.refusals = answers, refusals


def _count_new(answer: object) -> None:
    request = _current.get()
    if request is not None:
        request.new_answers += 1


class Observation:
    """Gives every request an id, and tells the log, the metrics and the traces when it ends.

    ``X-Request-Id`` is taken from the request where it has 8 to 64 letters, digits, dots, dashes or
    underscores; else one is made. It is on every reply.
    """

    def __init__(self, app: ASGIApp, *, observe: Callable[[Request], None], tracing: Tracing) -> None:
        self._app, self._observe, self._tracing = app, observe, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        request = Request(_request_id(headers.get("x-request-id", "")), method)
        started = time.monotonic()

        async def counted_receive() -> Message:
            message = await receive()
            request.received += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request.id
            request.sent += len(message.get("body", b""))
            await send(message)

        token = _current.set(request)
        try:
            with self._tracing.request(headers, request.method) as span:
                try:
                    await self._app(scope, counted_receive, counted_send)
                finally:
                    request.route = getattr(scope.get("route"), "path", "unmatched")
                    span.end_request(request.route, request.status)
        finally:
            _current.reset(token)
            request.seconds = time.monotonic() - started
            self._observe(request)
            _log.info(
                "request",
                extra={
                    "request_id": request.id,
                    "method": request.method,
                    "route": request.route,
                    "status": request.status,
                    "duration": f">{STEPS[-1]:g}s" if request.step is None else f"<={request.step:g}s",
                },
            )


def _request_id(given: str) -> str:
    return given if _ID.fullmatch(given) else secrets.token_hex(8)
