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
    service.require(person)
    name = body.dataset
    if name in service.boards.names() and name not in service.datasets.names():
        wanted = f"'board:{name}' for the board; '{name}' alone means a dataset, and there is none"
        raise InvalidArgument("dataset", wanted, name, of="a token")
    secret, holder = service.tokens.issue(**body.model_dump())
    return {**holder.to_dict(), "token": secret}


@router.get("/tokens")
def tokens(service: TheService, person: Who) -> list[dict[str, Any]]:
    """Everyone who was given a token."""
    service.require(person)
    return [holder.to_dict() for holder in service.tokens.all()]


@router.delete("/tokens/{identity}", status_code=204)
def revoke(identity: str, service: TheService, person: Who) -> Response:
    """End a token now."""
    service.require(person)
    if not service.tokens.revoke(identity):
        raise Unknown("There is no such token.")
    return Response(status_code=204)
