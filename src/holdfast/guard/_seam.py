"""The one way through: reserve, read, record, release, in this order, whoever asks and whatever is asked."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.guard._account import Account
from holdfast.guard._clean_room import Failed, read_protected
from holdfast.guard._question import Part, Question
from holdfast.guard._readers import reader
from holdfast.guard._session import Asked, Asker, ReadingFailed, Released, Session
from holdfast.guard._strategy import Outcome, Prepared
from holdfast.guard._together import Joining, answer_waiting


class Preparing(Protocol):
    """What is needed of a strategy here."""

    @property
    def failure_closes(self) -> bool:
        """Whether a question that fails on the protected rows ends the account."""

    def prepare(self, question: Question, account: Account) -> Prepared:
        """Decide everything about a question without reading the protected rows, or refuse it."""


def pass_through(
    session: Session, strategy: Preparing, question: Question, part: Part, asker: Asker, **facts: Any
) -> Released:
    """Answer a question from the account; ``facts`` are public and recorded with what is released."""
    joins = Joining.of(strategy, question, asker) if not (facts or session.shared) else None
    # A strategy that has this looks at the free rows before it is the question's turn, and says whether
    # preparing it needs nothing more than the account then. For questions that join others that is done
    # together.
    look_ahead = getattr(strategy, "look_ahead", None)
    quick = joins is None and look_ahead is not None and look_ahead(question)
    with reader() as name:
        asked: Asked[Prepared] = Asked(
            question.key,
            question.text,
            prepare=lambda account: strategy.prepare(question, account),
            worst=lambda prepared: prepared.worst_price,
            reader=name,
            asker=asker,
            quick=quick,
            joins=joins,
            alone=strategy.failure_closes,
        )
        with session.turn(asked) as turn:
            reserved = turn.answered or turn.reserved
            if reserved is None and joins is not None:
                reserved = answer_waiting(session, joins, part)
            if reserved is None:
                reserved = session.reserve(asked)
            if isinstance(reserved, Released):
                return reserved
            if isinstance(reserved, ReadingFailed):
                raise reserved
            prepared, reservation = reserved
            outcome = read_protected(lambda: prepared.read(part), Outcome, silent=question.in_process)
            if isinstance(outcome, Failed):
                failed = ReadingFailed(prepared.failure_price, closes=strategy.failure_closes)
                session.settle(
                    question.key,
                    reservation,
                    failed.price,
                    surprise=True,
                    released=None,
                    failed=True,
                    closes=failed.closes,
                )
                raise failed
            released = None if outcome.released is None else {**outcome.released, **facts}
            return session.settle(
                question.key, reservation, outcome.price, surprise=outcome.surprise, released=released
            )
