"""Routes about people: who the token stands for, and the owner's giving and taking of tokens."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from holdfast.errors import InvalidArgument
from holdfast.server._access import TheService, Who
from holdfast.server._models import TokenBody
from holdfast.server._places import Unknown

router = APIRouter(prefix="/v1")


@router.get("/me")
def me(person: Who) -> dict[str, Any]:
    """Who the token stands for."""
    return person.to_dict()


@router.post("/tokens", status_code=201)
def issue(body: TokenBody, service: TheService, person: Who) -> dict[str, Any]:
    """Give someone a token; it is shown this once."""
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
    """Everyone who was given a token for what this one reaches."""
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
