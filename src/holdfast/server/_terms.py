"""Terms that an owner may change while people ask: shares, the rate, and who may give the report.

The account book decides: its last line about terms says what holds, so that a change is one write, every
process has it, and auditors see who made it. Terms hold for their epoch and for those after it, until one of
these has terms of its own. None of them touches what an answer guarantees: they say only who may ask how
much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.ledger import Book
from holdfast.server._policy import Policy

SUBJECT = "terms"
TERMS = ("shares", "rate", "report")


def terms_of(policy: Policy) -> dict[str, Any]:
    """The terms of a policy that can be changed."""
    return {name: getattr(policy, name) for name in TERMS}


def with_terms(policy: Policy, book: Book) -> Policy:
    """A policy with the terms that a book says hold now."""
    changed = book.about(SUBJECT, "act")
    return policy if changed is None else replace(policy, **changed.body[SUBJECT])


def changed_terms(
    policy: Policy,
    *,
    shares: dict[str, float | None] | None = None,
    rate: int | None = None,
    report: str | None = None,
) -> dict[str, Any]:
    """The terms of a policy after a change. Shares that are not named stay; a share of None is taken away, so
    that the account alone bounds whoever had it."""
    if shares is None and rate is None and report is None:
        raise InvalidArgument("shares", "given, or rate, or report: there is nothing to change", None)
    after = dict(policy.shares)
    for who, share in (shares or {}).items():
        if share is None:
            after.pop(who, None)
        else:
            after[who] = share
    changed = replace(
        policy,
        shares=after,
        rate=policy.rate if rate is None else rate,
        report=policy.report if report is None else report,
    )
    return terms_of(changed)
