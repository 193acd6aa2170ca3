"""Routes about people and for owners: tokens, signing in, and changes while the service runs.

Every change is a line of a book.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, StreamingResponse

from holdfast.errors import InvalidArgument
from holdfast.registry import COOKIE, STATE_COOKIE, Service, SignIn, Unknown, terms_of
from holdfast.server._asking import described_dataset, streamed
from holdfast.server._requests import ExportBody, TermsBody, TokenBody, TokenChangeBody
from holdfast.server._routing import TheService, Who

router = APIRouter(prefix="/v1")


@router.get("/me")
def me(person: Who) -> dict[str, Any]:
    """Who the token stands for."""
    return person.to_dict()


@router.post("/tokens", status_code=201)
def issue(body: TokenBody, service: TheService, person: Who) -> dict[str, Any]:
    """Give someone a token. It is shown only this once."""
    name = body.dataset
    if person.dataset == "*" and name not in service.datasets.names():
        for kind, names in (("board", service.boards.names()), ("gate", service.gates.names())):
            if name in names:
                wanted = f"'{kind}:{name}' for the {kind}; '{name}' alone means a dataset, and there is none"
                raise InvalidArgument("dataset", wanted, name, of="a token")
    secret, holder = service.tokens.draft(**body.model_dump(), by=person)
    service.administration.record(person, "issue token", token=holder.to_dict())
    service.tokens.keep(secret, holder)
    return {**holder.to_dict(), "token": secret}


@router.get("/tokens")
def tokens(service: TheService, person: Who) -> list[dict[str, Any]]:
    """Everyone who has or had a token for something that this token reaches."""
    return [holder.to_dict() for holder in service.tokens.all(by=person)]


@router.delete("/tokens/{identity}", status_code=204)
def revoke(identity: str, service: TheService, person: Who) -> Response:
    """End a token now."""
    holder = service.tokens.find(identity, by=person)
    if holder is not None and not holder.revoked:
        service.administration.record(person, "revoke token", token=holder.to_dict())
    if not service.tokens.revoke(identity, by=person):
        raise Unknown("There is no such token.")
    return Response(status_code=204)


_Text = Annotated[str, Query(max_length=4_000)]


@router.get("/sign-in")
async def ways(service: TheService) -> dict[str, Any]:
    """How people can sign in here besides tokens."""
    sign_in = service.sign_in
    return {"provider": sign_in is not None and sign_in.provider is not None}


@router.get("/sign-in/start", include_in_schema=False)
async def start(request: Request, service: TheService) -> Response:
    """Send the browser to the provider."""
    sign_in = _required(service)
    address, cookie = await to_thread.run_sync(sign_in.begin, limiter=request.app.state.sign_in_threads)
    reply = RedirectResponse(address, status_code=303)
    # The browser comes back from another site, which does not send a stricter cookie.
    reply.set_cookie(
        STATE_COOKIE,
        cookie,
        max_age=600,
        path="/v1/sign-in",
        secure=sign_in.secure,
        httponly=True,
        samesite="lax",
    )
    return reply


@router.get("/sign-in/back", include_in_schema=False)
async def back(request: Request, service: TheService, state: _Text = "", code: _Text = "") -> Response:
    """Begin the session of a person who comes back from the provider."""
    sign_in, cookie = _required(service), request.cookies.get(STATE_COOKIE, "")
    session = await to_thread.run_sync(
        sign_in.finish, cookie, state, code, limiter=request.app.state.sign_in_threads
    )
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


BUNDLE_TYPE = "application/x-tar"
_KeyText = Annotated[str, Query(max_length=200)]


@router.get("/datasets/{name}/terms")
def terms(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """The terms that an owner can change: shares, rate, and who may give the report."""
    return terms_of(service.dataset(person, name).policy)


@router.patch("/datasets/{name}/terms")
def change_terms(name: str, body: TermsBody, service: TheService, person: Who) -> dict[str, Any]:
    """Change terms. The change holds from the next question on. Terms that are left out stay, and a share of
    null is removed."""
    changes = body.model_dump(exclude_unset=True)
    return terms_of(service.administration.change_terms(person, name, **changes))


@router.post("/datasets/{name}/close")
def close(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """End the account for good. Its answers stay readable."""
    service.administration.close_account(person, name)
    return described_dataset(service, person, name)


@router.post("/datasets/{name}/archive")
def archive(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Stop serving a dataset until it is unarchived. Its account stays as it is."""
    service.administration.archive(person, name)
    return _state(service, name)


@router.post("/datasets/{name}/unarchive")
def unarchive(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """Serve an archived dataset again."""
    service.administration.unarchive(person, name)
    return _state(service, name)


@router.delete("/datasets/{name}")
def delete(
    name: str, service: TheService, person: Who, confirm: Annotated[str, Query(max_length=100)] = ""
) -> dict[str, Any]:
    """End every account of a dataset and stop serving it for good. ``confirm`` repeats its name. Its account
    books stay, and its rows stay refused."""
    service.administration.delete(person, name, confirm=confirm)
    return _state(service, name)


@router.post("/datasets/{name}/export", response_class=StreamingResponse)
def export(name: str, body: ExportBody, service: TheService, person: Who) -> StreamingResponse:
    """A dataset in one file: its registration and its account books, without its rows. With ``to``, the key
    of another service, the account ends here and that service continues it."""
    with ExitStack() as stack:
        file = stack.enter_context(service.bundles.exported(person, name, body.to))
        at_end = stack.pop_all()

    def blocks() -> Iterator[bytes]:
        with at_end, file.open("rb") as content:
            while block := content.read(1 << 20):
                yield block

    headers = {"Content-Disposition": f'attachment; filename="{name}.tar"'}
    return StreamingResponse(blocks(), media_type=BUNDLE_TYPE, headers=headers)


@router.post("/imports", status_code=201)
async def take_in(
    request: Request, service: TheService, person: Who, key: _KeyText, name: _KeyText = ""
) -> dict[str, Any]:
    """Register the dataset of a file that the service with this public ``key`` exported. Its rows must be
    among the sources."""
    content = io.BytesIO(await request.body())

    def work() -> dict[str, Any]:
        return service.bundles.take_in(person, content, sender=key, name=name or None).to_dict()

    return await run_in_threadpool(work)


@router.get("/states")
def states(service: TheService, person: Who) -> list[dict[str, Any]]:
    """The datasets that this token reaches and that are archived or deleted."""
    return [
        {"name": name, "state": state, "since": since}
        for name, (state, since) in service.datasets.states.all().items()
        if person.reaches("dataset", name)
    ]


@router.patch("/tokens/{identity}")
def change_token(identity: str, body: TokenChangeBody, service: TheService, person: Who) -> dict[str, Any]:
    """Change the role of a token, what it reaches, or how long it lasts. Its holder stays."""
    changes = body.model_dump(exclude_unset=True)
    changed = service.tokens.changed(identity, by=person, **changes)
    if changed is None:
        raise Unknown("There is no such token.")
    service.administration.record(person, "change token", token=changed.to_dict())
    service.tokens.write(changed)
    return changed.to_dict()


@router.get("/administration")
def acts(
    service: TheService,
    person: Who,
    after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """What owners did, in order, a page at a time; ``after`` is the last line of the page before."""
    lines = service.administration.lines(after, limit)
    return {"acts": lines, "after": max((line["line"] for line in lines), default=after)}


@router.get("/administration/ledger", response_class=Response)
def acts_exported(service: TheService, person: Who) -> StreamingResponse:
    """The book of all acts of owners, as an export that anyone can verify offline."""
    return streamed(service.administration.book, "administration")


def _state(service: Any, name: str) -> dict[str, Any]:
    return {"name": name, "state": service.datasets.states.of(name) or "served"}
