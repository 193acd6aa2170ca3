"""Routes about signing in by a provider: out to it, back from it, and out again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from holdfast.server._access import TheService, Who
from holdfast.server._places import Unknown
from holdfast.server._service import Service
from holdfast.server._sign_in import COOKIE, STATE_COOKIE, SignIn

router = APIRouter(prefix="/v1")

_Text = Annotated[str, Query(max_length=4_000)]


@router.get("/sign-in")
async def ways(service: TheService) -> dict[str, Any]:
    """How people can sign in here besides tokens."""
    sign_in = service.sign_in
    return {"provider": sign_in is not None and sign_in.provider is not None}


@router.get("/sign-in/start", include_in_schema=False)
def start(service: TheService) -> Response:
    """Send the browser to the provider."""
    sign_in = _required(service)
    address, kept = sign_in.begin()
    reply = RedirectResponse(address, status_code=303)
    # The way back comes from another site, which a stricter cookie would not survive.
    reply.set_cookie(
        STATE_COOKIE,
        kept,
        max_age=600,
        path="/v1/sign-in",
        secure=sign_in.secure,
        httponly=True,
        samesite="lax",
    )
    return reply


@router.get("/sign-in/back", include_in_schema=False)
def back(request: Request, service: TheService, state: _Text = "", code: _Text = "") -> Response:
    """Take in whoever comes back from the provider."""
    sign_in = _required(service)
    session = sign_in.finish(request.cookies.get(STATE_COOKIE, ""), state, code)
    reply = RedirectResponse("/", status_code=303)
    reply.delete_cookie(STATE_COOKIE, path="/v1/sign-in")
    reply.set_cookie(COOKIE, session, path="/", secure=sign_in.secure, httponly=True, samesite="strict")
    return reply


@router.post("/sign-out", status_code=204)
def out(request: Request, service: TheService) -> Response:
    """End this session. Tokens stay as they are."""
    session = request.cookies.get(COOKIE)
    if service.sign_in is not None and session:
        service.sign_in.end(session)
    reply = Response(status_code=204)
    reply.delete_cookie(COOKIE, path="/")
    return reply


@router.delete("/sessions/{identity}", status_code=204)
def end(identity: str, service: TheService, person: Who) -> Response:
    """End all sessions of a person now."""
    service.administration.record(person, "end sessions", of=identity[:200])
    if service.sign_in is None or not service.sign_in.end_all(identity):
        raise Unknown("There is no such session.")
    return Response(status_code=204)


def _required(service: Service) -> SignIn:
    if service.sign_in is None or service.sign_in.provider is None:
        raise Unknown("Nobody signs in by a provider here. Use a token.")
    return service.sign_in
