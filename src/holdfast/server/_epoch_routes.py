"""Routes about epochs: rows that arrived later, with an account of their own."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Header

from holdfast.server._policy import Arrived
from holdfast.server._requests import EpochBody
from holdfast.server._routing import TheService, Who

router = APIRouter(prefix="/v1/datasets")


@router.post("/{name}/epochs", status_code=201)
def open_epoch(
    name: str,
    body: EpochBody,
    service: TheService,
    person: Who,
    key: Annotated[str, Header(alias="Idempotency-Key", max_length=200)] = "",
) -> dict[str, Any]:
    """Open an epoch for rows that arrived since the newest one. It has an account of its own, and no earlier
    account changes; the same Idempotency-Key returns the epoch that was opened. From then on NAME is the new
    epoch, and NAME@1 the first."""
    service.dataset(person, name)
    request = hashlib.sha256(f"{person.identity}\n{key}".encode()).hexdigest() if key else ""
    return service.datasets.next_epoch(name, Arrived(**body.model_dump()), request).standing()


@router.get("/{name}/epochs")
def epochs(name: str, service: TheService, person: Who) -> list[dict[str, Any]]:
    """Every epoch of a dataset: since when it is open, and what is left of its account."""
    service.dataset(person, name)
    return [epoch.standing() for epoch in service.datasets.epochs(name)]
