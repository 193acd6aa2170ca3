"""Questions that were fixed before any of them was answered: one batch, in which nobody pays for the others.

All questions of a batch are reserved in one step. From then on the book holds which they are and the account
that all of them are answered from. Each is then read and settled by itself. A question that fails does not
stop the others. After a crash whoever comes next goes on with the reservations that are left: what was read
and not recorded was never released. Proof: ``docs/theory/code-guard.md``, "Asked together".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.guard._account import MICRO, Account
from holdfast.guard._clean_room import Failed, read_protected
from holdfast.guard._question import Part, Question
from holdfast.guard._readers import reader
from holdfast.guard._seam import Preparing
from holdfast.guard._session import AlreadySettled, Asked, Asker, Session
from holdfast.guard._strategy import Outcome, Prepared


@dataclass(frozen=True)
class Member:
    """One question of a batch, who asks it, and public ``facts`` that are recorded with what is released."""

    question: Question
    asker: Asker
    facts: dict[str, Any] = field(default_factory=dict)


def pass_batch(session: Session, strategy: Preparing, members: Sequence[Member], part: Part) -> None:
    """Settle every question that is not settled yet; the session then has what was released about each.

    Assumes: no question was chosen with the help of another one's answer. The strategy's worst price does not
    grow while the batch goes on, but for what the account learns. To read a question runs no code of whoever
    asks it: a process that dies because of the rows would tell something about them, and here that is free.
    """
    first = {member.question.key: member for member in reversed(members)}
    ordered = [member for member in members if first[member.question.key] is member]
    with reader() as name, session.turn():
        session.read()
        _settle(session, strategy, ordered, part)  # What a crash left goes first: it is cheaper settled.
        session.reserve_batch([_asked(strategy, member, name) for member in ordered])
        _settle(session, strategy, ordered, part)


def _asked(strategy: Preparing, member: Member, name: str) -> Asked[list[Prepared]]:
    def prepare(account: Account) -> list[Prepared]:
        return [strategy.prepare(member.question, extreme) for extreme in account.extremes()]

    def worst(prepared: list[Prepared]) -> float:
        return max(extreme.worst_price for extreme in prepared)

    return Asked(member.question.key, member.question.text, prepare, worst, name, member.asker)


def _settle(session: Session, strategy: Preparing, members: Sequence[Member], part: Part) -> None:
    for member in members:
        reserved = session.in_batch(member.question.key)
        if reserved is not None:
            with suppress(AlreadySettled):
                _settle_one(session, strategy, member, part, *reserved)


def _settle_one(
    session: Session,
    strategy: Preparing,
    member: Member,
    part: Part,
    reservation: int,
    reserved: dict[str, Any],
) -> None:
    question, batch = member.question, reserved["batch"]
    prepared = strategy.prepare(question, session.batch_account(batch))
    if math.ceil(prepared.worst_price * MICRO) > reserved["micro_nats"]:
        # Others asked meanwhile, and the prior learned more from them than was reserved for.
        prepared = strategy.prepare(question, session.batch_account(batch, calm=True))
    outcome = read_protected(lambda: prepared.read(part), Outcome, silent=question.in_process)
    if isinstance(outcome, Failed):
        price, closes = prepared.failure_price, strategy.failure_closes
        session.settle(
            question.key, reservation, price, surprise=True, released=None, failed=True, closes=closes
        )
    else:
        released = None if outcome.released is None else {**outcome.released, **member.facts}
        session.settle(question.key, reservation, outcome.price, surprise=outcome.surprise, released=released)
