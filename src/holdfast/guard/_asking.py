"""The one way of asking: reserve, read, record, release, in this order, whoever asks and whatever is asked.

Questions that are fixed by now are answered together: one, or a batch in which nobody pays for the others.

1. Look at the free rows for all of them.
2. Prepare each from the account, without the protected rows, and put the worst prices on disk.
3. Read the protected rows, in as few scans as there are different filters.
4. Put what is released, and what it cost, on disk. Only then does an answer leave.

A question that fails on the rows does not stop the others. A crash after 2 leaves the reservations as spent.
Whoever asks the same batch again goes on with them: what was read and not recorded was never released.
Proof: ``docs/theory/code-guard.md``, "Asked together".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from holdfast.coding import Account
from holdfast.engines import Sums, sums_of_all
from holdfast.guard._clean_room import Failed, read_protected
from holdfast.guard._question import Part, Question, TableQuestion
from holdfast.guard._readers import reader
from holdfast.guard._session import NOBODY, Asked, Asker, Reserved, Session, Settled
from holdfast.guard._strategy import Outcome, Prepared


class Preparing(Protocol):
    """What is needed of a strategy here."""

    @property
    def failure_closes(self) -> bool:
        """Whether a question that fails on the protected rows ends the account."""

    def look(self, questions: Sequence[Question]) -> None:
        """Look at the free rows for what preparing these questions needs of them."""

    def prepare(self, question: Question, account: Account) -> Prepared:
        """Decide everything about a question without reading the protected rows, or refuse it."""


@dataclass(frozen=True)
class Member:
    """A question, who asks it, and public ``facts`` that are recorded with what is released."""

    question: Question
    asker: Asker = NOBODY
    facts: dict[str, Any] = field(default_factory=dict)


def answer_together(
    session: Session,
    strategy: Preparing,
    members: Sequence[Member],
    part: Part,
    *,
    refused: dict[str, Exception] | None = None,
    stop: bool = False,
) -> dict[str, float]:
    """Settle questions that were fixed before any of them is answered; the session then has what was released
    about each. Returns what it cost, in nats, that a question failed, by the keys of those that did.

    The first refusal is raised before anything is charged; with ``refused`` it is put there, by its key, and
    the others are answered, or with ``stop`` only those before it.

    Assumes: no question was chosen with the help of another one's answer. To read one of several runs no code
    of whoever asks it: a process that dies because of the rows would tell something about them, and a batch
    is gone on with for nothing.
    """
    ordered = {member.question.key: member for member in reversed(members)}  # Who asks first pays.
    ordered = {member.question.key: ordered[member.question.key] for member in members}
    strategy.look([member.question for member in ordered.values()])
    with reader() as name, session.turn():
        session.read()
        asked = [_asked(strategy, member, name) for member in ordered.values()]
        waiting = session.reserve(asked, refused=refused, stop=stop)
        settled = _read(session, strategy, {key: ordered[key] for key in waiting}, waiting, part)
        session.settle(settled)
    return {one.key: one.nats for one in settled if one.failed}


def _asked(strategy: Preparing, member: Member, name: str) -> Asked[Prepared]:
    return Asked(
        member.question.key,
        member.question.text,
        prepare=partial(strategy.prepare, member.question),
        worst=lambda prepared: prepared.worst_price,
        reader=name,
        asker=member.asker,
        alone=strategy.failure_closes,
    )


def _read(
    session: Session,
    strategy: Preparing,
    members: dict[str, Member],
    reserved: dict[str, Reserved[Prepared]],
    part: Part,
) -> list[Settled]:
    """Read the rows for all questions, and find what each reveals after those before it."""
    part = _summed(part, [member.question for member in members.values()])
    account, settled = session.account, []
    for key, member in members.items():
        prepared, batch = reserved[key].prepared, reserved[key].batch
        if batch is not None:
            now = session.batch_account(batch, account.learned, account.experience)
            prepared = strategy.prepare(member.question, now)
        assert prepared is not None
        silent = member.question.in_process
        outcome = read_protected(partial(prepared.read, part), Outcome, silent=silent)
        failed = isinstance(outcome, Failed)
        if isinstance(outcome, Failed):
            outcome = prepared.failed()
        released = None if outcome.released is None else {**outcome.released, **member.facts}
        settled.append(
            Settled(
                key,
                reserved[key].line,
                outcome.price,
                outcome.surprise,
                released,
                learned=outcome.learned,
                failed=failed,
                closes=failed and strategy.failure_closes,
            )
        )
        account = account.after(0, surprise=outcome.surprise, learned=outcome.learned)
    return settled


def _summed(part: Part, questions: Sequence[Question]) -> Part:
    """The protected rows with the sums of several questions at hand; without them where they cannot be read
    together, and each has to show by itself whether it can."""
    summed = [one for one in questions if isinstance(one, TableQuestion) and one.is_sum]
    if len(summed) < 2:
        return part
    checked, squares = [one.checked for one in summed], [not one.binary for one in summed]
    sums: list[Sums] | Failed = read_protected(lambda: sums_of_all(part.rows, checked, squares), list)
    if isinstance(sums, Failed):
        return part
    moments = {one.key: one.moments_of(found) for one, found in zip(summed, sums, strict=True)}
    return replace(part, moments=moments)
