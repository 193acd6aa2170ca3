"""Who asks: the service and the holder of the token, as every route takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Request

from holdfast.server._service import Service
from holdfast.server._tokens import Person, Refused

# Where the admission puts the person it has identified, so that nobody is looked up twice.
PERSON = "holdfast.person"


def identify(service: Service, headers: Mapping[str, str]) -> Person:
    """Who sends a request, by its headers alone: the body may not have arrived yet."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Refused("Sign in with a token: Authorization: Bearer hf_…")
    return service.tokens.holder(secret)


# Plain functions would be given a thread each; a look-up by digest takes less time than that.
async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _holder(request: Request) -> Person:
    person = request.scope.get(PERSON)
    return person if isinstance(person, Person) else identify(request.app.state.service, request.headers)


TheService = Annotated[Service, Depends(_service)]
Who = Annotated[Person, Depends(_holder)]
