"""The one way of asking: reserve, read, record, release, in this order, for every caller and every question.

1. Look at the free rows.
2. Prepare from the account, without the protected rows, and put the worst price on disk.
3. Read the protected rows.
4. Put what is released, and what it cost, on disk. Only then does an answer leave.

Questions that were fixed before any of them is answered are a batch: they take these steps together, and
nobody pays for the others. Questions of different people that wait for the same turn are no batch. They share
the scans and the two writes, and each has the account that those before it leave.

A question that fails on the rows does not stop the others. A crash after step 2 leaves the reservations open.
What was read and not recorded was never released. The next start, or the next person who asks the same,
continues each of them once, from the account that it was made from. A question that runs code of the caller,
such as a model, is not continued: a process that dies because of the rows would reveal something about them.
Its reservation stays spent, and it is asked again.
Proofs: ``docs/theory/code-guard.md``, "Asked together" and "Waiting for one turn";
``docs/theory/adaptive-validity.md``, "A question that was interrupted".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from holdfast import spans
from holdfast.asking._clean_room import Failed, read_protected, reader
from holdfast.asking._records import NOBODY, Asked, Asker, Interrupted, Reserved, Settled
from holdfast.asking._session import Session
from holdfast.coding import MICRO, Account
from holdfast.engines import Sums, sums_of_all
from holdfast.errors import HoldfastError
from holdfast.ledger import BookError, Stale
from holdfast.readings import Part, Question, TableQuestion, questions_counting_clipped
from holdfast.strategies import Outcome, Prepared, Preparing

# A crash costs the worst prices of all questions that were being read, so at most this many join.
_MOST_JOINED = 16


@dataclass(frozen=True)
class Member:
    """A question, who asks it, and public ``facts`` that are recorded with what is released."""

    question: Question
    asker: Asker = NOBODY
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class _Request:
    """Questions that somebody asks together, and their state; ``done`` once they are settled."""

    members: dict[str, Member]
    refused: dict[str, Exception] | None
    stop: bool
    joins: bool
    done: bool = False
    failed: dict[str, float] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)
    error: BaseException | None = None

    @property
    def questions(self) -> list[Question]:
        return [member.question for member in self.members.values()]


def answer_together(
    session: Session,
    strategy: Preparing,
    members: Sequence[Member],
    part: Part,
    *,
    refused: dict[str, Exception] | None = None,
    recorded: set[str] | None = None,
    stop: bool = False,
    on_turn: Callable[[], None] | None = None,
) -> dict[str, float]:
    """Settle questions that were fixed before any of them is answered. Afterwards the session has what was
    released about each. Returns the price in nats of each question that failed, by its key.

    The first refusal is raised before anything is charged. With ``refused`` it is stored there, by its key,
    and the others are answered, or with ``stop`` only those before it. ``recorded`` gets the keys of the
    questions that this call recorded, and not those that were in the book before or that another process
    recorded. ``on_turn`` is called once, when the turn of these questions comes.

    Assumes: no question was chosen with the help of another question's answer.
    """
    by_key = _by_key(members)
    if not by_key:
        return {}
    request = _Request(by_key, refused, stop, _may_join(strategy, list(by_key.values())))
    _answer_in_turn(session, strategy, [request], part, on_turn)
    if recorded is not None:
        recorded |= request.recorded
    if request.error is not None:
        raise request.error
    return request.failed


def answer_apart(
    session: Session,
    strategy: Preparing,
    members: Sequence[Member],
    part: Part,
    *,
    refused: dict[str, Exception],
    recorded: set[str],
    on_turn: Callable[[], None] | None = None,
) -> dict[str, float]:
    """Settle single questions that wait for the same turn, each as :func:`answer_together` settles a question
    alone. Nothing is assumed about how they were chosen. Refusals are stored in ``refused``."""
    requests = [
        _Request({key: member}, None, False, _may_join(strategy, [member]))
        for key, member in _by_key(members).items()
    ]
    _answer_in_turn(session, strategy, requests, part, on_turn)
    failed: dict[str, float] = {}
    for request in requests:
        recorded |= request.recorded
        failed |= request.failed
        if isinstance(request.error, HoldfastError):
            refused |= dict.fromkeys(request.members, request.error)
        elif request.error is not None:
            raise request.error
    return failed


def _by_key(members: Sequence[Member]) -> dict[str, Member]:
    """The questions in order, each once: the first person who asks it pays."""
    paying = {member.question.key: member for member in reversed(members)}
    return {member.question.key: paying[member.question.key] for member in members}


def _answer_in_turn(
    session: Session,
    strategy: Preparing,
    requests: Sequence[_Request],
    part: Part,
    on_turn: Callable[[], None] | None,
) -> None:
    """Wait for a turn of this account and answer requests, each with those that wait and can join it. An
    exception becomes the ``error`` of its request."""
    try:
        session.waiting.extend(requests)
        with session.turn():
            for request in requests:
                try:
                    if on_turn is not None and not request.done:
                        on_turn()
                        on_turn = None
                    while not request.done:
                        _answer_waiting(session, strategy, request, part)
                except Exception as error:
                    request.done, request.error = True, error
    finally:
        for request in requests:
            with suppress(ValueError):
                session.waiting.remove(request)


def _may_join(strategy: Preparing, members: Sequence[Member]) -> bool:
    """Whether a request is one question that can share scans and writes with others that wait."""
    single = len(members) == 1 and not members[0].facts
    return single and strategy.joins and _is_sum(members[0].question)


def _is_sum(question: Question) -> bool:
    return isinstance(question, TableQuestion) and question.is_sum


def _answer_waiting(session: Session, strategy: Preparing, request: _Request, part: Part) -> None:
    """Answer the request whose turn it is, together with those that wait and can join it."""
    joined = [request]
    if request.joins:
        keys = set(request.members)
        for waiting in list(session.waiting):
            # Of two equal questions the second waits: then it gets the answer of the first.
            if waiting.joins and not waiting.done and keys.isdisjoint(waiting.members):
                joined.append(waiting)
                keys.update(waiting.members)
            if len(joined) == _MOST_JOINED:
                break
    if len(joined) > 1 and _looked(strategy, joined):
        _answer_joined(session, strategy, joined, part)
    else:
        _answer_one(session, strategy, request, part)


def _looked(strategy: Preparing, requests: Sequence[_Request]) -> bool:
    """Look at the free rows for all these questions at once; False if that fails for one of them."""
    try:
        strategy.look([question for request in requests for question in request.questions])
    except Exception:  # The question that caused it raises it again by itself.
        return False
    return True


def _answer_one(session: Session, strategy: Preparing, request: _Request, part: Part) -> None:
    """Answer one request: one question, or a batch."""
    members = request.members
    strategy.look(request.questions)
    failed: dict[str, float | None] = {}
    with reader() as reader_name:
        session.read()
        asked = [_asked(strategy, member, reader_name) for member in members.values()]
        unfinished = True
        while unfinished:
            reserved = session.reserve(asked, refused=request.refused, stop=request.stop)
            # Interrupted questions are settled first: until then they count at their highest price.
            recorded = _read_and_record(session, strategy, members, reserved, part, reader_name)
            read = {settled.key for settled in recorded if not settled.unread}
            taken_up = {key for key, reservation in reserved.items() if reservation.interrupted is not None}
            unfinished = bool(taken_up) and (len(asked) > 1 or not taken_up <= read)
            request.recorded |= {settled.key for settled in recorded}
            failed |= {settled.key: settled.nats if settled.failed else None for settled in recorded}
    # Questions that were settled before, or by another process, have the outcome that the book records.
    failed |= {key: session.failed(key) for key in members if key not in failed}
    request.failed = {key: nats for key, nats in failed.items() if nats is not None}
    request.done = True


def read_interrupted(
    session: Session,
    strategy: Preparing,
    question_of: Callable[[Interrupted], Question | None],
    part: Part,
) -> None:
    """Read questions again that an interrupted process left behind: each once, and under its own
    reservation. ``question_of`` makes the question again. If it returns None, the reservation waits until
    somebody asks the same."""
    with session.turn(), reader() as reader_name:
        session.read()
        if session.balance.closed:
            return
        questions = {reservation.key: question_of(reservation) for reservation in session.interrupted()}
        members = {key: Member(question) for key, question in questions.items() if question is not None}
        strategy.look([member.question for member in members.values()])
        asked = [_asked(strategy, member, reader_name) for member in members.values()]
        try:
            reserved = session.take_up(asked)
        except Stale:  # Another process is writing and may continue them; the next question looks again.
            return
        _read_and_record(session, strategy, members, reserved, part, reader_name)


def _read_and_record(
    session: Session,
    strategy: Preparing,
    members: dict[str, Member],
    reserved: dict[str, Reserved[Prepared]],
    part: Part,
    reader_name: str,
) -> list[Settled]:
    """Read all reserved questions, and record them in order. Returns what this call recorded."""
    # The book marks an interrupted question before it is read again. Questions about a table are marked
    # together here, because one scan reads their sums. Each score is marked just before it is read.
    scanned = {
        key: reservation
        for key, reservation in reserved.items()
        if isinstance(members[key].question, TableQuestion)
    }
    others = {key: reservation for key, reservation in reserved.items() if key not in scanned}
    reserved = {**session.begin_again(scanned, reader_name), **others}
    part = with_sums(
        part, [members[key].question for key, reservation in reserved.items() if _by_sums(reservation)]
    )
    recorded: list[Settled] = []
    while reserved:
        for group in _recorded_together(members, reserved):
            to_read = session.begin_again(group, reader_name)
            recorded += session.settle(_read_in_order(session, strategy, members, to_read, part))
        # Another process may have settled one of them. The others are then read again, with that in the
        # account.
        reserved = {
            key: reservation
            for key, reservation in reserved.items()
            if session.is_open(reservation.line)
            and (reservation.interrupted is None or session.reads_again(reservation.line, reader_name))
        }
    return recorded


def _recorded_together(
    members: dict[str, Member], reserved: dict[str, Reserved[Prepared]]
) -> Iterator[dict[str, Reserved[Prepared]]]:
    """Questions in groups that are recorded in one step. Sums that follow each other are a group, because
    they are read in few scans. Every other question is a group of its own: the next one may be compared with
    it, as on a board."""
    sums: dict[str, Reserved[Prepared]] = {}
    for key, reservation in reserved.items():
        if _is_sum(members[key].question):
            sums[key] = reservation
            continue
        if sums:
            yield sums
            sums = {}
        yield {key: reservation}
    if sums:
        yield sums


def _read_in_order(
    session: Session,
    strategy: Preparing,
    members: dict[str, Member],
    reserved: dict[str, Reserved[Prepared]],
    part: Part,
) -> list[Settled]:
    """Read questions that have their reservations. Each question of a batch is prepared with what the
    account learned from those before it."""
    if len(reserved) == 1:
        ((key, reservation),) = reserved.items()
        if reservation.prepared is not None and reservation.interrupted is None:
            return [_settled(strategy, members[key], reservation.line, reservation.prepared, part)]
    account, settled = session.account, []
    for key, reservation in reserved.items():
        interrupted = reservation.interrupted
        if interrupted is not None:
            if reservation.batch is not None and interrupted.undisturbed:
                now = session.account_before(reservation.batch, account.learned, account.experience)
                interrupted = replace(interrupted, account=now)
            outcome = _settled_again(strategy, members[key], interrupted, part)
            if interrupted.account.learned != account.learned:
                outcome = replace(outcome, learned=None)  # Keep what the account has learned since.
        else:
            prepared = reservation.prepared
            if reservation.batch is not None:
                now = session.account_before(reservation.batch, account.learned, account.experience)
                prepared = strategy.prepare(members[key].question, now)
            assert prepared is not None
            outcome = _settled(strategy, members[key], reservation.line, prepared, part)
        account = account.after(0, surprise=outcome.surprise, learned=outcome.learned)
        settled.append(outcome)
    return settled


def _answer_joined(session: Session, strategy: Preparing, requests: Sequence[_Request], part: Part) -> None:
    """Answer single questions that wait for the same turn, in two writes and few scans. Each is answered from
    the account that those before it leave. A question for which this does not work is asked alone later."""
    requested = {key: request for request in requests for key in request.members}
    members = {key: request.members[key] for key, request in requested.items()}
    reserved: dict[str, Reserved[Prepared]] = {}
    settled: list[Settled] = []
    returned: list[int] = []
    with reader() as reader_name:
        session.read()
        asked = [_asked(strategy, member, reader_name) for member in members.values()]
        try:
            reserved = session.reserve(asked, in_turn=True)
            part = with_sums(
                part,
                [members[key].question for key, reservation in reserved.items() if _by_sums(reservation)],
            )
            account = session.account
            for key, reservation in reserved.items():
                # The account before the first question is the one of its reservation, and not an earlier one.
                account = account if reservation.before is None else reservation.before
                prepared = reservation.prepared
                if prepared is None:
                    prepared = _prepared_again(
                        session, strategy, members[key].question, reservation.line, account
                    )
                if prepared is None:
                    returned.append(reservation.line)
                    continue
                outcome = _settled(strategy, members[key], reservation.line, prepared, part)
                account = account.after(
                    account.charge(outcome.nats),
                    surprise=outcome.surprise,
                    exact=account.exact + outcome.nats,
                    learned=outcome.learned,
                )
                settled.append(outcome)
            recorded = session.settle(settled, returned=returned)
        except BookError as error:
            for key in reserved if settled else {}:
                requested[key].done, requested[key].error = True, error
            raise
    for outcome in recorded:
        requested[outcome.key].recorded.add(outcome.key)
    for outcome in settled:
        requested[outcome.key].done = True
        requested[outcome.key].failed = {outcome.key: outcome.nats} if outcome.failed else {}
    for request in requests:
        request.joins = request.joins and request.done


def _asked(strategy: Preparing, member: Member, reader_name: str) -> Asked[Prepared]:
    return Asked(
        member.question.key,
        member.question.text,
        prepare=partial(strategy.prepare, member.question),
        reader=reader_name,
        asker=member.asker,
        unit=strategy.book_unit,
        alone=strategy.failure_closes,
        runs_code=member.question.runs_code,
        wishes=member.question.wishes,
        in_order=member.question.in_order,
    )


def _prepared_again(
    session: Session, strategy: Preparing, question: Question, line: int, account: Account
) -> Prepared | None:
    """A question prepared from the present account. None if it is refused, or if its reservation does not
    cover what it may cost now."""
    try:
        prepared = strategy.prepare(question, account)
    except Exception:  # The question is asked alone later, and raises it again.
        return None
    enough = prepared.worst_price * MICRO <= session.balance.open[line]["micro_nats"]
    return prepared if enough else None


def _settled(strategy: Preparing, member: Member, line: int, prepared: Prepared, part: Part) -> Settled:
    """Read the rows for one question: what it reveals, and what that costs."""
    question = member.question
    with spans.step("read"):
        outcome = read_protected(partial(prepared.read, part), Outcome, silent=question.in_process)
    failed = isinstance(outcome, Failed)
    if isinstance(outcome, Failed):
        outcome = prepared.failed()
    return Settled(
        question.key,
        line,
        outcome.price,
        outcome.surprise,
        None if outcome.released is None else {**outcome.released, **member.facts},
        learned=outcome.learned,
        failed=failed,
        closes=failed and strategy.failure_closes,
    )


def _settled_again(strategy: Preparing, member: Member, interrupted: Interrupted, part: Part) -> Settled:
    """Read the rows for a question that was interrupted, exactly as it was planned.

    A question whose new plan differs is not read, and costs its worst price. The difference may depend on the
    rows if the machine ended processes because memory ran out. Then the question counts as failed: the plan
    has a price for that.
    """
    member = replace(member, question=member.question.with_wishes(interrupted.wishes))
    prepared = _as_planned(strategy, member.question, interrupted)
    if prepared is None:
        price, learned = interrupted.nats, None
    elif interrupted.memory:
        outcome = prepared.failed()
        price, learned = outcome.price, outcome.learned
    else:
        return _settled(strategy, member, interrupted.line, prepared, part)
    return Settled(
        interrupted.key,
        interrupted.line,
        price,
        surprise=True,
        released=None,
        learned=learned,
        failed=True,
        closes=strategy.failure_closes,
        unread=prepared is None,
    )


def _as_planned(strategy: Preparing, question: Question, interrupted: Interrupted) -> Prepared | None:
    """A question prepared from the account of its reservation. None if the plan is not the same, or if the
    reservation does not cover what it may cost."""
    try:
        prepared = strategy.prepare(question, interrupted.account)
    except HoldfastError:
        return None
    same = interrupted.plan is None or prepared.plan == interrupted.plan
    # The reserved worst price includes what others of the batch may teach.
    in_batch = interrupted.account.together > 1 and interrupted.undisturbed
    covered = in_batch or prepared.worst_price <= interrupted.nats
    return prepared if same and covered else None


def _by_sums(reserved: Reserved[Prepared]) -> bool:
    """Whether a question is read off sums, as far as its preparation shows."""
    reading = None if reserved.prepared is None else reserved.prepared.reading
    return reading is None or reading.by_sums


def with_sums(part: Part, questions: Sequence[Question]) -> Part:
    """The protected rows with the sums of several questions at hand. If these cannot be read together, the
    rows come without sums, and each question shows by itself whether it can be read."""
    summed = [
        question
        for question in questions
        if isinstance(question, TableQuestion) and _is_sum(question) and not part.units
    ]
    counting = [
        share for question in questions if question.clips for share in questions_counting_clipped(question)
    ]
    if len(summed) < 2 and not counting:
        return part
    # A mean that also counts its clipped values belongs to both.
    summed = list({question.key: question for question in (*summed, *counting)}.values())
    checked, squares = [question.checked for question in summed], [not question.binary for question in summed]
    sums: list[Sums] | Failed = read_protected(lambda: sums_of_all(part.rows, checked, squares), list)
    if isinstance(sums, Failed):
        return part
    moments = {
        question.key: question.moments_of(sums_of_question)
        for question, sums_of_question in zip(summed, sums, strict=True)
    }
    return replace(part, moments=moments)
