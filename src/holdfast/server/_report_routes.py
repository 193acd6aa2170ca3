"""Routes about the last word: a report that ends an account, and the one that was given."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from holdfast.server._requests import ReportBody
from holdfast.server._routing import TheService, Who
from holdfast.server._storage import Unknown

router = APIRouter(prefix="/v1/datasets")


@router.post("/{name}/report")
def give(name: str, body: ReportBody, service: TheService, person: Who) -> dict[str, Any]:
    """Give the last word: close the account for everyone, then read the questions exactly.

    The policy says who may. A question that cannot be asked refuses the report, and the account stays open.
    A report is given once; the same questions return it again.
    """
    return service.dataset(person, name).report(person, body.questions).to_dict()


@router.get("/{name}/report")
def given(name: str, service: TheService, person: Who) -> dict[str, Any]:
    """The report that was given."""
    report = service.dataset(person, name).guard.reported
    if report is None:
        raise Unknown(f"There is no report on {name!r}: nobody has given one yet.")
    return report.to_dict()
