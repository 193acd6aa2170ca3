"""Who asks: the service and the holder of the token, as every route takes them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from holdfast.server._service import Service
from holdfast.server._tokens import Person, Refused


# Plain functions would be given a thread each; a look-up by digest takes less time than that.
async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _holder(request: Request) -> Person:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise Refused("Sign in with a token: Authorization: Bearer hf_…")
    service: Service = request.app.state.service
    return service.tokens.holder(secret)


TheService = Annotated[Service, Depends(_service)]
Who = Annotated[Person, Depends(_holder)]
