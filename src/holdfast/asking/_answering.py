"""Answers to checked questions: those that the account book has, new ones, and refusals.

The most recent answers are kept in memory. Older ones are made again from the book.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from holdfast import queries
from holdfast.answers import Answer, Certificate, Left, Preview
from holdfast.asking._asking import Member, answer_apart, answer_together, read_interrupted
from holdfast.asking._records import NOBODY, Asked, Asker, Interrupted, Released
from holdfast.asking._session import Session
from holdfast.coding import MICRO
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.ledger import Closed
from holdfast.readings import Part, Question, TableQuestion
from holdfast.records import amount
from holdfast.strategies import CLAIM, Prepared, Strategy

_CHECKED = (
    "Each answer's worst-case cost is recorded before the protected rows are read.",
    "Prices are computed without the protected rows. A refusal that depends on them is paid for.",
    "Sums are computed exactly, and intervals are rounded outward.",
)

INTERRUPTED = (
    "A process that was interrupted while it read the protected rows was not interrupted because of their "
    "values. Its question was read again, once, under the reservation that it had."
)
"""An account assumes this if one of its questions was read again."""

_STATEMENTS = {
    "all": "With probability {} every interval released from this account contains its true value, however "
    "the questions were chosen.",
    "each": "Each interval released from this account contains its true value with probability {}, however "
    "its question was chosen. Nothing is said about several intervals at once.",
}

_NOTHING_LEFT = "The account is closed: nothing more is answered from it."

# So many answers are kept in memory; older ones are read from the book when they are asked for again.
_REMEMBERED = 10_000

_OTHER_REQUEST = "This request was made before, with another question. Give each its own key."


class AccountState:
    """What an account has spent and has left, in the unit of its strategy; and refusals, which state both.

    ``error`` is the half-width that is promised, or None.
    """

    def __init__(self, session: Session, strategy: Strategy, error: float | None) -> None:
        self._session = session
        self._strategy = strategy
        self._error = error

    @property
    def spent(self) -> float:
        """What everyone who shares the account has spent so far."""
        self._session.read()
        return self._strategy.spent(self._session.account)

    @property
    def left(self) -> Left:
        """What is left of the promise: a number, and the same in words."""
        self._session.read()
        left = self._strategy.left(self._session.account)
        if not self._session.balance.closed:
            return left
        return Left(0.0, words=_NOTHING_LEFT, confirmed=0, surprises=0, unit=left.unit, total=left.total)

    def explained(self, rejected: QueryRejected) -> QueryRejected:
        """A refusal for which nothing was charged, with what the account has spent and left."""
        rejected.asked, rejected.spent, rejected.left = 0.0, self.spent, float(self.left)
        rejected.unit = self._strategy.unit
        return rejected

    def too_wide(self, text: str) -> BudgetSpent:
        """The refusal of a question whose answer would break the promise. It is paid for like an answer."""
        return BudgetSpent(
            f"{text}: the rows do not support an interval within the promised ±{self._error:g} here. Finding "
            "that out was charged as an answer; asking again costs nothing and says the same.",
            asked=0.0,
            spent=self.spent,
            left=float(self.left),
            unit=self._strategy.unit,
        )

    def not_computed(self, text: str, nats: float) -> QueryRejected:
        """The refusal of a question that failed on the protected rows: it has a price, or it closes the
        account."""
        cost, unit = self._strategy.cost(nats), self._strategy.unit
        consequence = f"That it failed cost {amount(cost, unit)}. Try it on guard.train first."
        if self._strategy.failure_closes:
            consequence = (
                "This strategy has no price for a failure, so the account is closed now, for everyone: "
                "nothing more is answered. The answers given before keep their intervals. In a new account, "
                "on fresh rows, first try every model and statistic on rows that are not protected."
            )
        return QueryRejected(
            f"{text} could not be computed on the protected rows. What went wrong is not shown, because it "
            f"may depend on them. {consequence}",
            asked=cost,
            spent=self.spent,
            left=0.0 if self._strategy.failure_closes else float(self.left),
            unit=unit,
        )


@dataclass(frozen=True)
class Records:
    """Makes answers and certificates from what the book recorded and what the account assumes. The strategy
    says what an answer cost, and in which unit."""

    confidence: float
    strategy: Strategy
    assumptions: tuple[str, ...]
    promise: str = "all"

    def answer(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer that a line of the book stands for. If ``asked`` is the same question in the same words,
        the text of the line is not parsed again."""
        recorded = released.answer or {}
        query: Any = released.text
        if isinstance(asked, TableQuestion) and asked.readable and asked.text == released.text:
            record = asked.checked.query
            query = record if record.guess is None else replace(record, guess=None)
        elif recorded["readable"]:
            query = queries.read(released.text)
        return Answer(
            value=recorded["value"],
            low=-math.inf if recorded["low"] is None else recorded["low"],
            high=math.inf if recorded["high"] is None else recorded["high"],
            confidence=self.confidence,
            cost=self.strategy.cost(released.micro_nats / MICRO),
            query=query,
            certificate=self.certificate(recorded["numbers"], interval=recorded["interval"]),
            guess=math.nan if recorded["guess"] is None else recorded["guess"],
            confirmed=recorded["confirmed"],
            notes=tuple(recorded["notes"]),
            receipt=released.receipt,
            unit=self.strategy.unit,
        )

    def certificate(self, numbers: dict[str, Any], *, interval: str = "") -> Certificate:
        """The statement, with these numbers."""
        return Certificate(
            statement=_STATEMENTS[self.promise].format(f"{self.confidence:.6g}"),
            theorem=self.strategy.theorem,
            numbers=numbers,
            checked=_CHECKED,
            assumed=self.assumptions,
            interval=interval,
        )


class Answering:
    """Answers the questions of one account from its ``protected`` rows, and calls callbacks with new answers.

    ``question_again`` makes the question of an interrupted reservation again, or returns None. ``look`` is
    called before new questions are asked, with one question for each set of columns. It looks at free rows
    only.
    """

    def __init__(
        self,
        session: Session,
        strategy: Strategy,
        protected: Part,
        records: Records,
        state: AccountState,
        *,
        question_again: Callable[[Interrupted], Question | None],
        look: Callable[[Iterable[Question]], None],
    ) -> None:
        self._session = session
        self._strategy = strategy
        self._protected = protected
        self._records = records
        self._state = state
        self._question_again = question_again
        self._look = look
        self._looked: set[frozenset[str] | None] = {None}  # the columns that ``look`` was called for
        self._recent: dict[str, Answer] = {}
        self._callbacks: dict[object, Callable[[Answer], object]] = {}

    def answer(self, question: Question, asker: Asker = NOBODY) -> Answer:
        """The answer to one question; a refusal is raised."""
        (answer,) = self.answers([Member(question, asker)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def all_answers(self, questions: Iterable[Question]) -> list[Answer]:
        """The answers to questions that are asked together; a refusal is raised."""
        answers = []
        for outcome in self.answers([Member(question) for question in questions]):
            if isinstance(outcome, Exception):
                raise outcome
            answers.append(outcome)
        return answers

    def answers(
        self,
        members: Sequence[Member],
        *,
        refused: dict[str, Exception] | None = None,
        stop: bool = False,
        apart: bool = False,
    ) -> list[Answer | HoldfastError]:
        """The answer to each question, or why it has none; with ``stop`` only up to the first refusal. The
        questions are a batch. With ``apart`` they are not: they only wait for the same turn."""
        new: dict[str, Member] = {}
        outcomes: dict[str, Answer | HoldfastError] = {}
        requested: dict[str, str] = {}
        for member in members:
            question, request = member.question, member.asker.request
            asked_before = (
                {self._session.requested(request), requested.setdefault(request, question.key)}
                if request
                else set()
            )
            if not asked_before <= {None, question.key}:
                outcomes[question.key] = self._state.explained(QueryRejected(_OTHER_REQUEST))
            elif question.key not in outcomes and (earlier := self.recorded(question)) is not None:
                outcomes[question.key] = earlier
            elif question.key not in outcomes:
                new.setdefault(question.key, member)
            if stop and isinstance(outcomes.get(question.key), Exception):
                break
        if new:
            outcomes |= self._new_answers(list(new.values()), refused, stop=stop, apart=apart)
        return _in_order(members, outcomes, stop=stop)

    def recorded(self, question: Question) -> Answer | BudgetSpent | None:
        """The answer that was given before, or the same refusal; None for a new question."""
        if (answer := self._recent.get(question.key)) is not None:
            return answer
        released = self._session.released(question.key)
        return None if released is None else self._settled(released, question)

    def history(self, after: int = 0) -> Iterator[tuple[int, Answer]]:
        """Every answer after line ``after`` of the book, in order, with its line."""
        for line, released in self._session.history(after):
            # A line without an interval is a failure or a claim.
            if released.answer is not None and CLAIM not in released.answer:
                yield line, self._recall(released)

    def claims(self) -> Iterator[Released]:
        """Every claim that was tested, in order."""
        for _, released in self._session.history():
            if released.answer is not None and CLAIM in released.answer:
                yield released

    def claim(self, question: Question, asker: Asker) -> Released:
        """What the book says about one claim; a new claim is tested first."""
        if self._session.released(question.key) is None:
            self._protected.rows.require_unchanged()
            try:
                failed = answer_together(
                    self._session, self._strategy, [Member(question, asker)], self._protected
                )
            except QueryRejected as rejected:
                raise self._state.explained(rejected) from None
            if question.key in failed:
                raise self._state.not_computed(question.text, failed[question.key])
        released = self._session.released(question.key)
        assert released is not None
        return released

    def preview(self, question: Question, asker: Asker) -> Preview:
        """What a question would cost and show; reads no protected rows and writes nothing."""
        asked: Asked[Prepared] = Asked(
            question.key,
            question.text,
            prepare=partial(self._strategy.prepare, question),
            reader="",
            asker=asker,
        )
        earlier, unit = self.recorded(question), self._strategy.unit
        if isinstance(earlier, Answer):
            return Preview(question.record, earlier.guess, earlier.low, earlier.high, known=True, unit=unit)
        refusal: HoldfastError | None = earlier
        if refusal is None:
            try:
                preview = self._session.preview(asked).preview()
                notes = question.notes
                if isinstance(question, TableQuestion):
                    notes = (*notes, *question.not_in_training())
                return replace(preview, why=" ".join((preview.why, *notes)).strip())
            except QueryRejected as rejected:
                raise self._state.explained(rejected) from None
            except (BudgetSpent, Closed) as error:
                refusal = error
        guess = math.nan if question.guess is None else question.guess
        return Preview(
            question.record, guess, question.low, question.high, allowed=False, unit=unit, why=str(refusal)
        )

    def on_answer(self, callback: Callable[[Answer], object]) -> Callable[[], None]:
        """Call ``callback`` with every new answer. Returns a function that stops the calls."""
        if not callable(callback):
            raise InvalidArgument("callback", "a function of one answer", callback, of="Guard.on_answer")

        key = object()  # The same callback may be given twice.

        def stop() -> None:
            self._callbacks.pop(key, None)

        self._callbacks[key] = callback
        return stop

    def call_callbacks(self, answers: Sequence[tuple[Answer, Asker]]) -> None:
        """Call all callbacks with the new answers, and then raise the first error of a callback."""
        errors: list[Exception] = []
        for answer, asker in answers:
            for callback in tuple(self._callbacks.values()):
                try:
                    if asker.context is None:
                        callback(answer)
                    else:
                        asker.context.run(callback, answer)
                except Exception as error:
                    errors.append(error)
        if not errors:
            return
        first, *others = errors
        for other in others:
            first.add_note(f"Another callback call failed too. {type(other).__name__}: {other}")
        first.add_note("The answer is in the account book. Ask again to get it for free.")
        raise first

    def read_interrupted(self) -> None:
        """Read interrupted questions again: each once, and under its own reservation."""
        if not self._session.interrupted():
            return
        self._protected.rows.require_unchanged()
        read_interrupted(self._session, self._strategy, self._question_again, self._protected)

    def _settled(self, released: Released, asked: Question | None = None) -> Answer | BudgetSpent:
        """The answer, or the refusal, of a settled question. Neither changes any more."""
        if released.answer is None:
            return self._state.too_wide(released.text)
        return self._recall(released, asked)

    def _recall(self, released: Released, asked: Question | None = None) -> Answer:
        """The answer that a line of the book stands for; made once while it is in memory."""
        answer = self._recent.get(released.key)
        if answer is None:
            answer = self._recent[released.key] = self._records.answer(released, asked)
            if len(self._recent) > _REMEMBERED:
                self._recent.pop(next(iter(self._recent)), None)
        return answer

    def _new_answers(
        self, members: Sequence[Member], refused: dict[str, Exception] | None, *, stop: bool, apart: bool
    ) -> dict[str, Answer | HoldfastError]:
        """Ask new questions: as a batch if the strategy can, else one by one; or ``apart``."""
        unseen: dict[frozenset[str] | None, Question] = {}
        for member in members:
            if member.question.reads not in self._looked:
                unseen.setdefault(member.question.reads, member.question)
        if unseen:
            self._look(unseen.values())
            self._looked.update(unseen)
        outcomes: dict[str, Answer | HoldfastError] = {}
        groups = [members] if self._strategy.together or apart else [[member] for member in members]
        ask: Callable[..., dict[str, float]] = answer_apart if apart else partial(answer_together, stop=stop)
        for group in groups:
            recorded: set[str] = set()
            try:
                self._protected.rows.require_unchanged()
                failed = ask(
                    self._session,
                    self._strategy,
                    group,
                    self._protected,
                    refused=refused,
                    recorded=recorded,
                    on_turn=self.read_interrupted,
                )
            except QueryRejected as rejected:
                raise self._state.explained(rejected) from None
            new_answers: list[tuple[Answer, Asker]] = []
            refusals = False
            for member in group:
                key = member.question.key
                outcome = self._outcome(member.question, failed, refused or {})
                if outcome is not None:
                    outcomes[key] = outcome
                if isinstance(outcome, Exception):
                    refusals = True
                elif outcome is not None and key in recorded:
                    new_answers.append((outcome, member.asker))
            self.call_callbacks(new_answers)
            if refusals and (stop or refused is None):
                break
        return outcomes

    def _outcome(
        self, question: Question, failed: dict[str, float], refused: dict[str, Exception]
    ) -> Answer | HoldfastError | None:
        """The outcome of a new question; None if it was not asked after all."""
        refusal = refused.get(question.key)
        if isinstance(refusal, QueryRejected):
            return self._state.explained(refusal)
        if isinstance(refusal, HoldfastError):
            return refusal
        released = self._session.released(question.key)
        if released is not None:
            return self._settled(released, question)
        if question.key not in failed:
            return None
        return self._state.not_computed(question.text, failed[question.key])


def _in_order(
    members: Sequence[Member], outcomes: dict[str, Answer | HoldfastError], *, stop: bool
) -> list[Answer | HoldfastError]:
    ordered: list[Answer | HoldfastError] = []
    for member in members:
        outcome = outcomes.get(member.question.key)
        if outcome is None:
            break  # Nothing was asked from here on.
        ordered.append(outcome)
        if stop and isinstance(outcome, Exception):
            break
    return ordered
