"""What all routes share: who asks, the one place where roles are enforced, and replies to errors.

Errors become problem+json (RFC 9457): their kind, their text, and the state of the account.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http.cookies import SimpleCookie
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast import errors
from holdfast.ledger import BookError, Closed
from holdfast.registry import (
    COOKIE,
    PAGE_HEADER,
    Archived,
    ArchiveError,
    Broken,
    Conflict,
    Deleted,
    Forbidden,
    NoProvider,
    Overtaken,
    Person,
    Refused,
    Service,
    StoreError,
    TooMany,
    Unknown,
    rule_of,
)

_NEEDS_PAGE_HEADER = (
    "A request of a browser without a token that changes something needs the header X-Holdfast."
)

# The admission puts the identified person here, so that no person is looked up twice.
PERSON = "holdfast.person"


async def identify(service: Service, headers: Mapping[str, str], method: str) -> Person:
    """Who sends a request, by its headers alone: the body may not have arrived yet."""
    if service.tokens.remote:
        return await run_in_threadpool(_identified, service, headers, method)
    return _identified(service, headers, method)


def _identified(service: Service, headers: Mapping[str, str], method: str) -> Person:
    """The person of a token, else of a trusted proxy, else of the session of a browser."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret:
        return service.tokens.holder(secret)
    sign_in = service.sign_in
    if sign_in is not None:
        changes = method not in ("GET", "HEAD") and headers.get(PAGE_HEADER) is None
        person = sign_in.forwarded(headers)
        if person is not None:
            # The browser sends the proxy's cookie for every site. Programs say no origin.
            if changes and (headers.get("origin") or headers.get("sec-fetch-site")):
                raise Forbidden(_NEEDS_PAGE_HEADER)
            return person
        session = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        if session is not None:
            if changes:
                raise Forbidden(_NEEDS_PAGE_HEADER)
            return sign_in.holder(session.value)
    raise Refused("Sign in with a token: Authorization: Bearer hf_…")


# Each plain function would get a thread. A look-up by digest in a file takes less time than that.
async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def authorize(request: Request) -> None:
    """Let a request pass to its route if the table of roles allows it. The app calls this for every route."""
    rule = rule_of(request.method, request.scope["route"].path)
    if not rule.public:
        person = await _holder(request)
        request.state.person = rule.require(person, request.path_params.get("name"))


async def _holder(request: Request) -> Person:
    # The admission identified the person by the headers. The table of roles gives the role they act in.
    if getattr(request.state, "person", None) is None:
        person = request.scope.get(PERSON)
        request.state.person = person if isinstance(person, Person) else await _look_up(request)
    acting: Person = request.state.person
    return acting


async def _look_up(request: Request) -> Person:
    return await identify(request.app.state.service, request.headers, request.method)


TheService = Annotated[Service, Depends(_service)]
Who = Annotated[Person, Depends(_holder)]


_log = logging.getLogger("holdfast.server")

# The first class that fits decides. Messages of these errors say nothing about protected rows.
_KINDS: list[tuple[type[Exception], int, str]] = [
    (errors.BudgetSpent, 403, "budget-spent"),
    (errors.QueryRejected, 422, "question-rejected"),
    (errors.NotEnoughRows, 422, "not-enough-rows"),
    (errors.InvalidArgument, 422, "invalid-argument"),
    (errors.MissingExtra, 501, "missing-extra"),
    (TooMany, 429, "too-many-questions"),
    (Unknown, 404, "not-found"),
    (Forbidden, 403, "not-allowed"),
    (Refused, 401, "not-signed-in"),
    (Overtaken, 409, "another-epoch"),
    (Archived, 409, "archived"),
    (Deleted, 410, "deleted"),
    (Conflict, 409, "conflict"),
    (ArchiveError, 422, "not-a-bundle"),
    (Closed, 409, "account-closed"),
    (BookError, 503, "account-book"),
    (StoreError, 503, "service-store"),
    (NoProvider, 503, "no-provider"),
    (errors.DatabaseAway, 503, "database-away"),
    (Broken, 503, "broken"),
]


KNOWN = tuple(kind for kind, _, _ in _KINDS)


def problem(
    status: int, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """The reply for one problem. Numbers that are not finite are left out."""
    headers = {**(headers or {}), **({"WWW-Authenticate": "Bearer"} if status == 401 else {})}
    if more.get("wait") is not None:
        headers["Retry-After"] = str(math.ceil(more["wait"]))
    body = _body(status, kind, detail, **more)
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def problem_of(error: Exception, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The reply for a known error."""
    status, kind, detail, more = _described(error)
    return problem(status, kind, detail, headers=headers, **more)


def in_place(error: Exception) -> dict[str, Any]:
    """A known error as a part of a larger reply."""
    status, kind, detail, more = _described(error)
    return _body(status, kind, detail, **more)


def _body(status: int, kind: str, detail: str, **more: Any) -> dict[str, Any]:
    extra = {
        name: value
        for name, value in more.items()
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }
    body = {
        "type": f"urn:holdfast:{kind}",
        "title": kind.replace("-", " "),
        "status": status,
        "detail": detail,
    }
    return {**body, **extra}


def _described(error: Exception) -> tuple[int, str, str, dict[str, Any]]:
    """Status, kind and words of a known error, its class, and those of its values that may leave the service.

    The given value of an argument is left out: it may name a path of the server.
    """
    status, kind = next((status, kind) for type_, status, kind in _KINDS if isinstance(error, type_))
    if status == 503:
        # The place of the book is only for the owner.
        _log.error("%s", error)
        if isinstance(error, (StoreError, Broken, NoProvider, errors.DatabaseAway)):
            return status, kind, str(error), {"error": type(error).__name__}
        words = "The account book cannot be used; nothing is answered until it can."
        return status, kind, words, {"error": "BookError"}
    names: tuple[str, ...] = ("asked", "spent", "left", "unit", "argument", "extra", "wait")
    if isinstance(error, errors.NotEnoughRows):
        names = ("needed", "got", "what")
    more = {name: getattr(error, name, None) for name in names}
    return status, kind, str(error), {"error": type(error).__name__, **more}


class UnexpectedErrors:
    """Answers unexpected errors. Their messages may depend on protected rows, so only the class is logged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            route = getattr(scope.get("route"), "path", "an unknown route")
            _log.error("unexpected %s at %s", type(error).__name__, route)
            if not started:
                words = "Something went wrong inside. Nothing was released."
                await problem(500, "internal", words)(scope, receive, send)


def install_problems(app: FastAPI) -> None:
    """Answer every error of an app with a problem."""
    app.add_middleware(UnexpectedErrors)

    async def known_error(request: Request, error: Exception) -> JSONResponse:
        return problem_of(error)

    async def malformed(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return problem(422, "malformed-request", f"{place}: {first['msg']}", argument=place)

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, "http", str(error.detail))

    for kind in KNOWN:
        app.add_exception_handler(kind, known_error)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, http)
