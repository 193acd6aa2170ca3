"""Who asks: the service and the holder of the token, as every route takes them; and the one place where roles
are enforced."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import SimpleCookie
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from holdfast.server._roles import rule_of
from holdfast.server._service import Service
from holdfast.server._sign_in import COOKIE, PAGE_HEADER
from holdfast.server._tokens import Forbidden, Person, Refused

# Where the admission puts the person it has identified, so that nobody is looked up twice.
PERSON = "holdfast.person"


async def identify(service: Service, headers: Mapping[str, str], method: str) -> Person:
    """Who sends a request, by its headers alone: the body may not have arrived yet."""
    if service.tokens.remote:
        return await run_in_threadpool(_identified, service, headers, method)
    return _identified(service, headers, method)


def _identified(service: Service, headers: Mapping[str, str], method: str) -> Person:
    """A token, else a proxy that is trusted, else the session of a browser."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret:
        return service.tokens.holder(secret)
    sign_in = service.sign_in
    if sign_in is not None:
        person = sign_in.forwarded(headers)
        if person is not None:
            return person
        session = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        if session is not None:
            if method not in ("GET", "HEAD") and headers.get(PAGE_HEADER) is None:
                raise Forbidden("A request of a session that changes something needs the header X-Holdfast.")
            return sign_in.holder(session.value)
    raise Refused("Sign in with a token: Authorization: Bearer hf_…")


# Plain functions would be given a thread each; a look-up by digest in a file takes less time than that.
async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def authorize(request: Request) -> None:
    """Let a request pass to its route if the table of roles allows it; the app asks this for every route."""
    rule = rule_of(request.method, request.scope["route"].path)
    if not rule.public:
        person = await _holder(request)
        request.state.person = rule.require(person, request.path_params.get("name"))


async def _holder(request: Request) -> Person:
    # The admission looked the person up, by the headers; the table of roles says as what they act.
    if getattr(request.state, "person", None) is None:
        person = request.scope.get(PERSON)
        request.state.person = person if isinstance(person, Person) else await _look_up(request)
    acting: Person = request.state.person
    return acting


async def _look_up(request: Request) -> Person:
    return await identify(request.app.state.service, request.headers, request.method)


TheService = Annotated[Service, Depends(_service)]
Who = Annotated[Person, Depends(_holder)]
