"""Several questions at once: reserved together, read in few scans, and answered as if one by one.

The sums over the protected rows do not depend on the account; the grid they are looked up on does. So the
worst prices of a few questions are put on disk first, then the rows are read for all of them, and then each
question is prepared against the account that the ones before it leave, priced, and recorded. What is
released is what would have been released one by one, for the same price. What was read for a question is
used only if its reservation covers the worst price it turns out to have; otherwise it is forgotten, the
reservation is given back, and the question is asked by itself. Nothing is given back because of what the rows
are: a question that fails on them is settled as failed. A crash leaves the reservations as spent, and nothing
released.

One person may ask several questions at once (:class:`Together`); and whoever has the turn answers for those
who wait behind it (:func:`answer_waiting`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from holdfast.engines import Rows, Sums, sums_of_all
from holdfast.errors import HoldfastError
from holdfast.guard._account import MICRO, Account
from holdfast.guard._ahead import Settled
from holdfast.guard._clean_room import Failed, read_protected
from holdfast.guard._code import CodeStrategy, PreparedCode
from holdfast.guard._question import Moments, Part, Question, TableQuestion
from holdfast.guard._readers import reader
from holdfast.guard._readings import LowVarianceMean
from holdfast.guard._session import Asked, Asker, ReadingFailed, Released, Session
from holdfast.guard._setup import Setup
from holdfast.guard._splitting import Splitting
from holdfast.guard._strategy import Outcome, Prepared, Strategy

MOST_TOGETHER = 16
"""A crash costs the worst prices of all questions that were being read, so they are not more than this."""

# Nats of room above the worst price of a question as it is reserved, for what its grid may be when its turn
# comes.
_ROOM = 1.0
# Where an error is promised a question is prepared three times here, which takes about as long as a scan of
# so many rows in memory.
_WORTH_SHARING = 8_000_000


class _ReadAhead:
    """Rows whose sums for some questions are known already."""

    def __init__(self, rows: Rows, known: dict[int, Sums]) -> None:
        self._rows = rows
        self._known = known

    def sums(self, question: Any, *, squares: bool = False) -> Sums:
        known = self._known[id(question)]
        if squares and known.squares is None:
            raise ValueError("the squares were not summed")
        return known if squares else replace(known, squares=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)


class Together:
    """Questions that are asked in order; :meth:`released` answers a few ahead where it can."""

    def __init__(
        self, asked: Sequence[tuple[Question, Asker]], session: Session, strategy: Strategy, setup: Setup
    ) -> None:
        self._questions = [question for question, _ in asked]
        # Whoever asks a question first pays for it.
        self._askers = {question.key: asker for question, asker in reversed(asked)}
        self._session = session
        self._strategy = strategy
        self._setup = setup
        self._released: dict[str, Released | ReadingFailed] = {}
        # A question that has rows of its own shares no scan.
        self._alone = isinstance(strategy, Splitting) or _scans_are_cheap(strategy, setup.protected.rows)

    def released(self, question: Question) -> Released | None:
        """What was released about the next question, where it and others could be answered together; None
        where it is to be asked by itself. Raises :class:`ReadingFailed` where it failed."""
        if question.key not in self._released and not self._alone:
            group = self._group(question)
            if len(group) > 1:
                self._answer(group)
        outcome = self._released.get(question.key)
        if isinstance(outcome, ReadingFailed):
            raise outcome
        return outcome

    def _group(self, first: Question) -> list[TableQuestion]:
        """The next new questions that are answered from sums, up to the first that is not."""
        group: dict[str, TableQuestion] = {}
        requests = set[str]()
        for question in self._questions[self._questions.index(first) :]:
            if question.key in group or self._session.released(question.key) is not None:
                continue
            request = self._askers[question.key].request
            # That a request was made before, for another question, is for who makes it to be told.
            known = request in requests or (request and self._session.requested(request) is not None)
            if known or not _is_summed(question) or len(group) == MOST_TOGETHER:
                break
            group[question.key] = cast(TableQuestion, question)
            requests |= {request} - {""}
        return list(group.values())

    def _answer(self, group: Sequence[TableQuestion]) -> None:
        try:
            self._setup.protected.rows.require_unchanged()
            _look_at_all(group, self._strategy, self._setup.training)
        except HoldfastError:
            outcomes: dict[str, Released | ReadingFailed] = {}
        else:
            askers = [self._askers[question.key] for question in group]
            outcomes = pass_together(self._session, self._strategy, group, self._setup.protected, askers)
        self._released |= outcomes
        self._alone = len(outcomes) < 2


@dataclass
class Joining:
    """A question that may be answered together with others that wait; ``alone`` once that did not work."""

    strategy: CodeStrategy
    question: TableQuestion
    asker: Asker
    alone: bool = False

    @classmethod
    def of(cls, strategy: object, question: Question, asker: Asker) -> Joining | None:
        """None where there is no scan to share, or where a promised error makes preparing a question, which
        is done more than once here, dearer than reading it."""
        if not (isinstance(strategy, CodeStrategy) and strategy.error is None and _is_summed(question)):
            return None
        return cls(strategy, cast(TableQuestion, question), asker)


def answer_waiting(session: Session, own: Joining, part: Part) -> Released | ReadingFailed | None:
    """Answer the question whose turn it is together with those that wait right behind it, and let these go;
    None where it has to be asked by itself."""
    group, waiting = {own.question.key: own}, session.waiting()
    for turn in waiting:
        other = None if turn.asked is None else turn.asked.joins
        if other is None or other.alone or own.alone or len(group) == MOST_TOGETHER:
            break
        group.setdefault(other.question.key, other)
    joined = list(group.values())
    outcomes = _pass_joined(session, joined, part) if len(joined) > 1 else {}
    for turn in waiting:
        if turn.asked is not None and turn.asked.key in outcomes:
            session.answer(turn, outcomes[turn.asked.key])
    for one in joined[len(outcomes) :]:
        one.alone = True
    if own.alone:
        own.strategy.look_ahead(own.question)
    return outcomes.get(own.question.key)


def _pass_joined(
    session: Session, joined: Sequence[Joining], part: Part
) -> dict[str, Released | ReadingFailed]:
    strategy, questions = joined[0].strategy, [one.question for one in joined]
    try:
        _look_at_all(questions, strategy, strategy.training)
    except Exception:
        return {}  # Whose question it was finds out by itself.
    return pass_together(session, strategy, questions, part, [one.asker for one in joined])


def _scans_are_cheap(strategy: Strategy, rows: Rows) -> bool:
    """Whether to prepare a question more than once takes longer than to read it by itself."""
    promised = isinstance(strategy, CodeStrategy) and strategy.error is not None
    return promised and not rows.stays and rows.count < _WORTH_SHARING


def _is_summed(question: Question) -> bool:
    return isinstance(question, TableQuestion) and question.kind in ("share", "mean")


def _look_at_all(questions: Sequence[TableQuestion], strategy: Strategy, training: Part | None) -> None:
    """Look at the training rows for several questions at once; what is seen there is free, and kept."""
    if training is None or not hasattr(strategy, "look_ahead"):
        return
    rows = training.rows
    wanted = [one for one in questions if one.guess is None and (rows, not one.binary) not in one.seen]
    squares = [not one.binary for one in wanted]
    found = sums_of_all(rows, [one.checked for one in wanted], squares)
    for one, with_squares, sums in zip(wanted, squares, found, strict=True):
        one.seen[rows, with_squares] = Moments.from_integers(
            sums.rows, sums.total, sums.squares, sums.scale, one.low, one.high
        )


def pass_together(
    session: Session,
    strategy: Strategy,
    questions: Sequence[TableQuestion],
    part: Part,
    askers: Sequence[Asker],
) -> dict[str, Released | ReadingFailed]:
    """Answer the first of these questions, as many as the account allows to be reserved together; up to one
    that is refused or fails. What came of each, by its key."""
    with reader() as name, session.turn():
        account, squared = session.account, set[str]()
        asked = [
            _asked(strategy, one, asker, name, place, account, squared)
            for place, (one, asker) in enumerate(zip(questions, askers, strict=True))
        ]
        ahead, reservations = session.reserve_all(asked)
        held = list(zip(questions, reservations, strict=False))
        seen = _read(part, [question for question, _ in held], squared)
        parts = [part] if seen is part else [seen, part]
        settled: list[Settled] = []
        for question, reservation in held:
            most = session.balance.open[reservation]["micro_nats"]
            one = _settled(strategy, question, reservation, most, ahead.account, parts)
            if one is None:
                break
            settled.append(one)
            ahead.settle(one.nats, most=one.most, surprise=one.surprise)
            if one.released is None:
                break
        released = session.settle_all(settled, reservations[len(settled) :])
        return {
            one.key: ReadingFailed(one.nats, closes=one.closes) if one.failed else line
            for one, line in zip(settled, released, strict=True)
        }


def _asked(
    strategy: Strategy,
    question: Question,
    asker: Asker,
    name: str,
    place: int,
    account: Account,
    squared: set[str],
) -> Asked[list[Prepared]]:
    """A question on its way to the account, to be reserved at the most it can cost whatever the ``place``
    questions before it turn out to be: a surprise is dearest, and widths have most classes, after nothing but
    confirmations. Where a promise limits what may be spent, it has to allow the question after the dearest
    outcomes, too. ``squared`` takes the keys of questions that are read with their squares."""
    experience = replace(account.experience, confirmed=account.experience.confirmed + place)
    calm = replace(account, steps=account.steps + place, experience=experience)
    unlimited = isinstance(strategy, CodeStrategy) and strategy.error is None

    def prepare(held: Account) -> list[Prepared]:
        found = [strategy.prepare(question, one) for one in ([calm] if unlimited else [calm, held])]
        if any(isinstance(one, PreparedCode) and isinstance(one.reading, LowVarianceMean) for one in found):
            squared.add(question.key)
        return found

    def worst(prepared: list[Prepared]) -> float:
        room = _ROOM if isinstance(prepared[0], PreparedCode) else 0.0
        return max(one.worst_price for one in prepared) + room

    return Asked(question.key, question.text, prepare, worst, name, asker, alone=strategy.failure_closes)


def _read(part: Part, questions: Sequence[TableQuestion], squared: set[str]) -> Part:
    """The protected rows with the sums of these questions at hand; without them where they cannot be read
    together, and each has to show by itself whether it can."""
    checked = [question.checked for question in questions]
    squares = [question.key in squared for question in questions]
    sums = read_protected(lambda: sums_of_all(part.rows, checked, squares), list)
    if isinstance(sums, Failed):
        return part
    known = {id(one): found for one, found in zip(checked, sums, strict=True)}
    return replace(part, rows=cast(Rows, _ReadAhead(part.rows, known)))


def _settled(
    strategy: Strategy,
    question: Question,
    reservation: int,
    held: int,
    account: Account,
    parts: Sequence[Part],
) -> Settled | None:
    """A question as it will be recorded; None where, for public reasons, it has to be asked by itself.

    It is read off the first of ``parts`` that it can be read off: sums that are at hand, or the rows
    themselves.
    """
    try:
        prepared = strategy.prepare(question, account)
    except Exception:
        return None
    most = math.ceil(prepared.worst_price * MICRO)
    if most > held:
        return None
    for part in parts:
        outcome = read_protected(partial(prepared.read, part), Outcome)
        if not isinstance(outcome, Failed):
            return Settled(question.key, reservation, outcome.price, most, outcome.surprise, outcome.released)
    closes = strategy.failure_closes
    return Settled(question.key, reservation, prepared.failure_price, most, True, None, True, closes)
