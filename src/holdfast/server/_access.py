"""Who asks: the service and the holder of the token, as every route takes them; and the one place where roles
are enforced."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from holdfast.server._roles import rule_of
from holdfast.server._service import Service
from holdfast.server._tokens import Person, Refused


# Plain functions would be given a thread each; a look-up by digest in a file takes less time than that.
async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def authorize(request: Request) -> None:
    """Let a request pass to its route if the table of roles allows it; the app asks this for every route."""
    rule = rule_of(request.method, request.scope["route"].path)
    if not rule.public:
        rule.require(await _holder(request), request.path_params.get("name"))


async def _holder(request: Request) -> Person:
    # Looked up once for a request: by the table of roles first, then by the route.
    if getattr(request.state, "person", None) is None:
        request.state.person = await _look_up(request)
    person: Person = request.state.person
    return person


async def _look_up(request: Request) -> Person:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Refused("Sign in with a token: Authorization: Bearer hf_…")
    service: Service = request.app.state.service
    if service.tokens.remote:
        return await run_in_threadpool(service.tokens.holder, secret)
    return service.tokens.holder(secret)


TheService = Annotated[Service, Depends(_service)]
Who = Annotated[Person, Depends(_holder)]
