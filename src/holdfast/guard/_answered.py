"""The answers that were given: kept at hand while they are remembered, else made again from the book."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import BudgetSpent
from holdfast.guard._answer import Answer
from holdfast.guard._question import Question
from holdfast.guard._release import Records
from holdfast.guard._session import Released, Session

# So many answers are kept at hand; older ones are read from the book when they are asked for again.
_REMEMBERED = 10_000


class Answered:
    """What one account answered; ``too_wide`` makes the refusal of a question whose answer would have broken
    the promise."""

    def __init__(self, session: Session, records: Records, too_wide: Callable[[str], BudgetSpent]) -> None:
        self._session = session
        self._records = records
        self._too_wide = too_wide
        self._at_hand: dict[str, Answer] = {}

    def known(self, question: Question) -> Answer | None:
        """The answer that was given before, if this is the same question."""
        if (answer := self._at_hand.get(question.key)) is not None:
            return answer
        released = self._session.released(question.key)
        return None if released is None else self.settled(released, question)

    def settled(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer, or the same refusal, that a settled question has once and for all."""
        if released.answer is None:
            raise self._too_wide(released.text)
        return self.recall(released, asked)

    def recall(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer a line of the book stands for, made once while it is remembered."""
        answer = self._at_hand.get(released.key)
        if answer is None:
            answer = self._at_hand[released.key] = self._records.answer(released, asked)
            if len(self._at_hand) > _REMEMBERED:
                self._at_hand.pop(next(iter(self._at_hand)), None)
        return answer
