"""The connection of an account and its book: reserve before reading, record before releasing.

Every change of the account is an event in the book, and the account is what the events say. A reservation
that is not settled counts as spent, at the highest price its question could have. If its process was
interrupted, it is continued once, from the account that it was made from.
Proof: ``docs/theory/adaptive-validity.md``, "A question that was interrupted".
"""

from __future__ import annotations

import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from threading import RLock
from typing import Any, TypeVar

from holdfast import spans
from holdfast.asking._clean_room import Turn, may_be_alive
from holdfast.asking._records import (
    CLOSED,
    FAILED,
    WISHES,
    Asked,
    Asker,
    Interrupted,
    OtherTerms,
    PreparedQuestion,
    Released,
    Reserved,
    Settled,
    account_before,
    closing,
    failed_before,
    given_up,
    interrupted_in,
    lines_of,
    reservation_of,
    terms_to_compare,
)
from holdfast.coding import MICRO, Account, Experience, Learned
from holdfast.errors import HoldfastError
from holdfast.ledger import Balance, Book, BookError, Closed, Entry, Event, Receipt, Stale

_Prepared = TypeVar("_Prepared", bound=PreparedQuestion)
_FORMAT = 2
_MOST_TRIES = 100
# A start reads about so many lines at most, however long the book is.
_CHECKPOINT_EVERY = 1_000
# How many seconds to wait for a question that another process is reading (longer than any sensible time
# limit), and how many seconds to pause between two looks.
_PATIENCE = 120
_PAUSE = 0.005
# Micro-nats above the worst price of a question that is reserved behind others: if those turn out to cost
# less, its cells may be finer.
_ROOM = 8 * MICRO
# At most so many releases are kept in memory for those who asked.
_MOST_FRESH = 256
# Key in a line that repeats an answer: the question that was answered.
_REPEATS = "repeats"
# The kind of a line that says that a reservation is read again. An open reservation has the same key then.
_AGAIN = "again"

_REPORTED = "It ended with a report. To continue, bring new rows and open the next epoch."
_DIED = (
    "A process ended while it read the protected rows. This strategy has no price for a failure, so it "
    "closed the account. The answers given before keep their intervals."
)
_UNSETTLED = (
    "Another process has been reading a question of this account for minutes, or died while it did. With "
    "this strategy a failure closes the account, so nothing is answered until that question is settled. The "
    "answers given before keep their intervals."
)


class Session:
    """The account of one dataset, kept in a book that other processes may write to as well."""

    def __init__(self, book: Book, account: Account, agreed: dict[str, Any]) -> None:
        self._book = book
        self._start = account
        self.balance, self._last = book.start()
        self._checkpoint = self._last
        self._exact = self.balance.micro_nats / MICRO
        self._lock = RLock()
        self._book_closed = False
        self._turn = Turn(book.turns)
        self._fresh: dict[str, tuple[Event, str]] = {}  # releases that were written here, and their texts
        self._unreleased: set[str] = set()  # questions without a release, up to the last line that was read
        self.waiting: deque[Any] = deque()  # requests of this process that have no turn yet
        self._learned: tuple[list[Any] | None, Learned] = (None, Learned())
        self._begin({"format": _FORMAT, **agreed})

    def _begin(self, agreed: dict[str, Any]) -> None:
        """Open the book, or make sure that it was opened for the same data and the same promise."""
        self.read()
        if self._last == 0:
            try:
                # The nonce makes two books differ even if they agree on everything else.
                terms = {**agreed, "nonce": secrets.token_hex(16)}
                self._write([Entry("open", terms)], after=0)
            except Stale:
                self.read()
        opened = self._book.at(1).body
        compared = terms_to_compare(self._book, agreed, opened)
        differing = sorted(name for name in compared if opened.get(name) != compared[name])
        if differing:
            raise OtherTerms(self._book.name, differing)
        if not self.balance.closed and failed_before(self._book, agreed, opened):
            self.close_account(FAILED)

    @property
    def account(self) -> Account:
        """The account with every open reservation counted as spent."""
        with self._lock:
            return self._account_of(self.balance)

    def _account_of(self, balance: Balance) -> Account:
        reserved = balance.reserved
        return replace(
            self._start,
            steps=balance.confirmed + balance.surprised + len(balance.open),
            micro_nats=balance.micro_nats + reserved,
            exact=self._exact + reserved / MICRO,
            experience=Experience(balance.confirmed, balance.surprised),
            learned=self._learned_of(balance),
        )

    def _learned_of(self, balance: Balance) -> Learned:
        """What the account has learned; computed again only if the book has something new."""
        written, learned = self._learned
        if balance.learned is not written:
            learned = Learned() if balance.learned is None else Learned.from_list(balance.learned)
            self._learned = balance.learned, learned
        return learned

    def turn(self) -> AbstractContextManager[Any]:
        """Wait until it is this question's turn: one question at a time is reserved, read and settled. A
        question that is prepared while another is read must assume that one's maximum cost."""
        return self._turn.held()

    def close(self) -> None:
        """Close the book; what was read from it stays in memory."""
        with self._lock:
            self._book_closed = True
            self._book.close()

    def read(self) -> None:
        """Apply the events that were added since the last read, unless this process has closed the book."""
        with self._lock:
            if self._book_closed:
                return
            for event in self._book.events(after=self._last):
                self.balance.apply(event)
                self._counted(event)

    def record(self, kind: str, body: dict[str, Any], subject: str) -> dict[str, Any]:
        """Write a line that costs nothing, once. Returns what the book says, whoever wrote it."""
        for _ in range(_MOST_TRIES):
            recorded = self._book.about(subject, kind)
            if recorded is not None:
                return recorded.body
            with self._lock, suppress(Stale):
                self._write([Entry(kind, body, subject)])
                return body
            self.read()
        raise _too_busy("nothing was written")

    def record_newest(self, body: Callable[[], dict[str, Any] | None], subject: str) -> None:
        """Write an act that may replace an earlier one about the same subject. ``body`` makes it from the
        book as it is at that moment. It refuses by raising, and returns None if there is nothing to write."""
        for _ in range(_MOST_TRIES):
            with self._lock, suppress(Stale):
                act = body()
                if act is not None:
                    self._write([Entry("act", act, subject)])
                return
            self.read()
        raise _too_busy("nothing was written")

    def record_next(self, kind: str, body: dict[str, Any], subject: str) -> int:
        """Write the next line of a subject, which costs nothing. Returns its number, from 1."""
        number = 1
        for _ in range(_MOST_TRIES):
            while self._book.about(f"{subject} {number}", kind) is not None:
                number += 1
            with self._lock, suppress(Stale):
                self._write([Entry(kind, body, f"{subject} {number}")])
                return number
            self.read()
        raise _too_busy("nothing was written")

    @property
    def book_closed(self) -> bool:
        """Whether this process has closed the book."""
        return self._book_closed

    def close_account(self, because: str = "") -> None:
        """Record that this account answers nothing more, and why if the owner did not close it."""
        self.record("close", {"because": because} if because else {}, "account")

    def close_for_report(
        self,
        subject: str,
        body: Callable[[Account], dict[str, Any]],
        *,
        permit: Callable[[Balance, int], None] | None,
    ) -> dict[str, Any] | None:
        """End the account, and write the questions of its report in the same step. Returns what the book says
        about the report, whoever wrote it; None if the account was closed without a report."""
        for _ in range(_MOST_TRIES):
            recorded = self._book.about(subject, "act")
            if recorded is not None:
                return recorded.body
            with self._lock, suppress(Stale):
                end = self._last
                if self.balance.closed:
                    return None
                if permit is not None:
                    permit(self.balance, 0)
                act = body(self.account)
                lines = [Entry("close", {"because": _REPORTED}, "account"), Entry("act", act, subject)]
                self._write(lines, after=end)
                return act
            self.read()
        raise _too_busy("nothing was written")

    def act_about(self, subject: str) -> tuple[int, dict[str, Any], Receipt | None] | None:
        """A line that costs nothing and is written only once: its number, its content, and its receipt."""
        event = self._book.about(subject, "act")
        return None if event is None else (event.sequence, event.body, self._book.receipt(event))

    def released(self, key: str) -> Released | None:
        """What the book has about a settled question; None if it has not been asked."""
        if (fresh := self._fresh.pop(key, None)) is not None:
            return self._released(*fresh)
        with self._lock:
            event = self._book.about(key, "release")
            if event is None:
                if len(self._unreleased) >= _MOST_FRESH:
                    self._unreleased.clear()
                self._unreleased.add(key)
        return None if event is None else self._released(event)

    def failed(self, key: str) -> float | None:
        """The price in nats of a question that failed; None if it did not fail, or was answered all the
        same."""
        event = self._book.about(key, "fail")
        if event is None or self._book.about(key, "release") is not None:
            return None
        return float(event.body["micro_nats"]) / MICRO

    def is_open(self, line: int) -> bool:
        """Whether the reservation at a line is not settled yet."""
        with self._lock:
            return line in self.balance.open

    def requested(self, request: str) -> str | None:
        """The key of the question that a request asked before; None if the request is new."""
        event = self._book.requested(request)
        return None if event is None else event.subject

    def history(self, after: int = 0) -> Iterator[tuple[int, Released]]:
        """Everything that was released after line ``after`` of the book, in order, with its line."""
        for event in self.events(after):
            released = self.released_by(event)
            if released is not None:
                yield event.sequence, released

    def events(self, after: int = 0) -> Iterator[Event]:
        """Every line of the book after line ``after``, in order."""
        self.read()
        return self._book.events(min(after, self._last))

    def released_by(self, event: Event) -> Released | None:
        """What a line of the book releases; None if it is a line of another kind."""
        if event.kind == "release":
            return self._released(event)
        if event.kind == "act" and _REPEATS in event.body:
            return self._repeated(event)
        return None

    def repeat(self, released: Released, subject: str, asker: Asker, **facts: Any) -> Released:
        """Record that a released answer also answers another question, with other public ``facts``. No rows
        are read, and it costs nothing."""
        event = self._book.about(subject, "act")
        if event is None:
            if asker.permit is not None:
                with self._lock:
                    asker.permit(self.balance, 0)
            body = {_REPEATS: released.key, "facts": facts, "at": int(time.time()), "by": asker.name}
            self.record("act", body, subject)
            event = self._book.about(subject, "act")
        if event is None:
            raise BookError(f"The account book {self._book.name} has lost a line that was just written.")
        return self._repeated(event)

    def preview(self, asked: Asked[_Prepared]) -> _Prepared:
        """Prepare a question against the newest account exactly as :meth:`reserve` would, its worst price
        included, and write nothing. Refuses what :meth:`reserve` would refuse."""
        self.read()
        with self._lock:
            balance, account = self.balance.copy(), self.account
        return reservation_of(asked, balance, account)[0]

    def reserve(
        self,
        asked: Sequence[Asked[_Prepared]],
        *,
        refused: dict[str, Exception] | None = None,
        stop: bool = False,
        in_turn: bool = False,
    ) -> dict[str, Reserved[_Prepared]]:
        """Write the worst prices of one question, or of a batch, to disk in one step. The questions do not
        change any more. Returns the reservations to read, by the key of their question. Questions that were
        settled before are left out.

        If one of the questions was interrupted, only interrupted questions are returned, with the
        reservations that they have. Nothing new is reserved before those are settled. If another process is
        reading one of the questions, this waits for it.

        The first refusal is raised, and nothing is written. With ``refused`` the refusal is stored there, by
        the key of its question, and the other questions are reserved; with ``stop`` only those before it.

        ``in_turn`` is for single questions that wait for the same turn. Each is prepared as if those before
        it cost the most they can. The first refusal ends the list. Questions that were interrupted, or that
        another process is reading, are left out: nobody waits for another person's question.
        """
        with spans.step("reserve"):
            return self._reserve_in_turn(asked) if in_turn else self._reserve_fixed(asked, refused, stop=stop)

    def _reserve_fixed(
        self, asked: Sequence[Asked[_Prepared]], refused: dict[str, Exception] | None, *, stop: bool
    ) -> dict[str, Reserved[_Prepared]]:
        alone = any(question.alone for question in asked)
        for _ in range(_MOST_TRIES):
            for question in asked:
                self._await(question.key)
                if refused is not None:
                    refused.pop(question.key, None)  # A question refused at the last try may be allowed now.
            try:
                self._require_open(alone=alone, keys=[question.key for question in asked])
            except Closed as closed:
                if refused is None:
                    raise
                keys = [question.key for question in asked if not self._has(question.key, ("release",))]
                refused.update(dict.fromkeys(keys[:1] if stop else keys, closed))
                return {}
            with self._lock, suppress(Stale):
                if self.balance.open and (taken_up := self.take_up(asked)):
                    return taken_up
                if alone and self.balance.open:
                    continue
                end = self._last  # Preparing may read more of the book; this account ends here.
                # A question that failed alone may be asked again. In a batch a failure is final: after a
                # crash the same batch is asked again.
                kinds = ("release",) if len(asked) == 1 else ("release", "fail")
                new = [question for question in asked if not self._has(question.key, kinds)]
                prepared, entries = self._reservations(new, refused, stop=stop)
                reserved: dict[str, Reserved[_Prepared]] = {}
                for event in self._write(entries, after=end):
                    batch = event.body.get("batch")
                    final = prepared[event.subject] if batch is None else None
                    reserved[event.subject] = Reserved(event.sequence, final, batch)
                return reserved
            self.read()
        raise _too_busy("nothing was charged")

    def _reserve_in_turn(self, asked: Sequence[Asked[_Prepared]]) -> dict[str, Reserved[_Prepared]]:
        for _ in range(_MOST_TRIES):
            self._require_open()
            with self._lock, suppress(Stale):
                end, before = self._last, self.account
                new = [question for question in asked if self._is_new(question.key)]
                prepared, entries = self._reservations_in_turn(new)
                reserved: dict[str, Reserved[_Prepared]] = {}
                for event in self._write(entries, after=end):
                    reserved[event.subject] = Reserved(
                        event.sequence, prepared.get(event.subject), before=None if reserved else before
                    )
                return reserved
            self.read()
        raise _too_busy("nothing was charged")

    def _is_new(self, key: str) -> bool:
        """Whether a question has no answer, and no reservation to wait for or to continue."""
        if self._being_read(key) or self._interrupted_reservations(key):
            return False
        return not self._has(key, ("release",))

    def _reservations(
        self, asked: Sequence[Asked[_Prepared]], refused: dict[str, Exception] | None, *, stop: bool
    ) -> tuple[dict[str, _Prepared], list[Entry]]:
        """The questions of a batch, prepared against the account that all of them are answered from, and the
        lines that reserve the most they can cost."""
        while True:
            alone = len(asked) == 1  # No other question follows, so nothing needs to be reserved before it.
            account, balance = self.account, self.balance
            batch: dict[str, Any] = {}
            if not alone:
                account, balance = account.for_batch(len(asked)), balance.copy()
                batch = self.balance.batch(len(asked))
            prepared: dict[str, _Prepared] = {}
            entries: list[Entry] = []
            for place, question in enumerate(asked):
                try:
                    prepared[question.key], entry = reservation_of(question, balance, account)
                except HoldfastError as refusal:
                    if refused is None:
                        raise
                    refused[question.key] = refusal
                    if stop:
                        break
                    continue
                entries.append(entry)
                if not alone:
                    line = self._last + len(entries)
                    balance.apply(Event(line, entry.kind, dict(entry.body), "", question.key))
                    del entry.body["before"]
                    entry.body.pop("plan", None)
                    entry.body["batch"] = {**batch, "place": place}
            if len(entries) == len(asked):
                return prepared, entries
            # The batch is smaller now, so it is prepared again.
            asked = [question for question in asked if question.key in prepared]

    def _reservations_in_turn(
        self, asked: Sequence[Asked[_Prepared]]
    ) -> tuple[dict[str, _Prepared], list[Entry]]:
        """Questions prepared one after the other, and the lines that reserve the most they can cost. Only the
        first preparation is final: what the questions before the others really cost is not known yet."""
        balance = self.balance.copy()
        prepared: dict[str, _Prepared] = {}
        entries: list[Entry] = []
        for question in asked:
            try:
                question_prepared, entry = reservation_of(question, balance, self._account_of(balance))
            except Exception:
                break  # The question is asked alone later, and raises it again.
            if entries:
                entry.body["micro_nats"] += _ROOM
                entry.body.pop("plan", None)
            else:
                prepared[question.key] = question_prepared
            entries.append(entry)
            balance.apply(Event(self._last + len(entries), entry.kind, entry.body, "", question.key))
        return prepared, entries

    def _has(self, key: str, kinds: Sequence[str]) -> bool:
        """Whether the book has a line of one of these ``kinds`` about a question."""
        # The key was looked up a moment ago. A line that was written since is read before it counts.
        looked_up = {"release"} if key in self._unreleased else set()
        return any(self._book.about(key, kind) is not None for kind in kinds if kind not in looked_up)

    def _interrupted_reservations(self, key: str) -> dict[int, dict[str, Any]]:
        """The reservations of a question that no process is reading, by line. Some were read again already.
        Reservations of questions that run code are not among them: the end of their process may depend on the
        rows."""
        return {
            line: body
            for line, body in self.balance.open.items()
            if body["subject"] == key and WISHES in body and not _is_read(body)
        }

    def interrupted(self) -> list[Interrupted]:
        """The reservations that no process reads any more and that can be read again."""
        if not self.balance.open:
            return []
        with self._lock:
            bodies = {line: body for line, body in self.balance.open.items() if WISHES in body}
            return [self._interrupted(line, body) for line, body in bodies.items() if not _is_read(body)]

    def _interrupted(self, line: int, body: dict[str, Any]) -> Interrupted:
        return interrupted_in(self.balance, line, body, self._start)

    def take_up(self, asked: Sequence[Asked[_Prepared]]) -> dict[str, Reserved[_Prepared]]:
        """The interrupted reservations of these questions, to be read again after :meth:`begin_again`.

        A question that was interrupted a second time is settled at its worst price. So is a question that
        must be ``in_order``, if the account has learned something since. Raises :class:`Stale` if another
        process wrote.
        """
        with self._lock:
            entries: list[Entry] = []
            taken_up: dict[str, Reserved[_Prepared]] = {}
            for question in asked:
                for line, body in self._interrupted_reservations(question.key).items():
                    late = question.in_order and body.get("learned") != self.balance.learned
                    if _AGAIN in body or late:
                        entries += given_up(question, line, body, closed=self.balance.closed)
                    else:
                        interrupted = self._interrupted(line, body)
                        taken_up[question.key] = Reserved(line, None, body.get("batch"), interrupted)
            self._write(entries)
            return taken_up

    def begin_again(
        self, reserved: dict[str, Reserved[_Prepared]], reader: str
    ) -> dict[str, Reserved[_Prepared]]:
        """Record that ``reader`` reads these questions again, before it does. Returns all but those that
        another process has continued or settled."""
        for _ in range(_MOST_TRIES):
            with self._lock, suppress(Stale):
                if all(reservation.interrupted is None for reservation in reserved.values()):
                    return reserved
                to_read, entries = {}, []
                for key, reservation in reserved.items():
                    waiting = self.balance.open.get(reservation.line)
                    if reservation.interrupted is None or self.reads_again(reservation.line, reader):
                        to_read[key] = reservation
                    elif waiting is not None and _AGAIN not in waiting:
                        to_read[key] = reservation
                        body = {"reservation": reservation.line, "reader": reader, "at": int(time.time())}
                        entries.append(Entry(_AGAIN, body, key))
                self._write(entries)
                return to_read
            self.read()
        raise _too_busy("nothing was read again")

    def reads_again(self, line: int, reader: str) -> bool:
        """Whether the book says that this reader reads an interrupted question, which is not settled yet."""
        body = self.balance.open.get(line, {})
        return _AGAIN in body and body["reader"] == reader

    def account_before(self, before: dict[str, Any], learned: Learned, experience: Experience) -> Account:
        """The account that a reservation was made from: what was spent, and how many questions were asked,
        before it or before its batch; with what was learned."""
        return account_before(self._start, before, learned, experience)

    def settle(
        self,
        settled: Sequence[Settled],
        *,
        returned: Sequence[int] = (),
        unless: Callable[[], bool] | None = None,
    ) -> list[Settled]:
        """Record what reserved questions really cost and what is released.

        All is written in order and in one step, before anyone sees it. ``returned`` are the lines of
        reservations of which nothing is released: those are given back. A failure that ends the account ends
        it in the same step. Returns what was recorded.

        If another process settled one of the questions meanwhile, its record stays, and none of them is
        recorded: each price depends on the others, and the book now says something else. ``unless`` looks at
        public lines of the book. If it is true, nothing is recorded and all reservations are given back.
        """
        with spans.step("settle"):
            for _ in range(_MOST_TRIES):
                with self._lock, suppress(Stale):
                    return self._settle_all(settled, returned, unless)
                self.read()
        raise BookError(
            "The account book is too busy to record the answers; they stay charged and are not released."
        )

    def _settle_all(
        self, settled: Sequence[Settled], returned: Sequence[int], unless: Callable[[], bool] | None
    ) -> list[Settled]:
        """One try of :meth:`settle`; raises :class:`Stale` if somebody else wrote to the book meanwhile."""
        waiting = self.balance.open
        all_wait = all(question.line in waiting for question in settled)
        recorded = list(settled) if all_wait else []
        given_back = [line for line in returned if line in waiting]
        if unless is not None and unless():
            given_back += [question.line for question in recorded]
            recorded = []
        exact, total, closes = self._exact, self.balance.micro_nats, False
        entries: list[Entry] = []
        texts: dict[str, str] = {}
        for question in recorded:
            reserved = waiting[question.line]
            texts[question.key] = reserved["text"]
            exact += question.nats
            # The running total is rounded up; the reservation covers the price as it is.
            charge = min(max(0, math.ceil(exact * MICRO) - total), reserved["micro_nats"])
            total += charge
            closes = closes or question.closes
            entries += lines_of(question, reserved, charge)
        if closes and not self.balance.closed:
            entries.append(closing())
        for line in given_back:
            entries.append(Entry("return", {"reservation": line}, waiting[line]["subject"]))
        for event in self._write(entries, exact=exact):
            if event.kind == "release":
                self._remember(event, texts[event.subject])
        for question in recorded:
            if question.learned is not None and self.balance.learned is not None:
                self._learned = self.balance.learned, question.learned
        self._perhaps_checkpoint()
        return recorded

    def _remember(self, event: Event, text: str) -> None:
        """Keep a release in memory for those who wait for it, so that nobody needs to look it up again."""
        if len(self._fresh) >= _MOST_FRESH:
            self._fresh.pop(next(iter(self._fresh)), None)
        self._fresh[event.subject] = event, text

    def _await(self, key: str) -> None:
        """Wait while another process is reading a question.

        That process may have died. After a while the question is asked again, and charged again.
        """
        while self._being_read(key):
            time.sleep(_PAUSE)
            self.read()

    def _require_open(self, *, alone: bool = False, keys: Sequence[str] = ()) -> None:
        """Refuse if the account is closed. With ``alone``, wait until every other reading is settled, except
        interrupted readings of the questions with these ``keys``. If a reading will never be settled, refuse:
        the death of its process may reveal something about the rows."""
        if not self.balance.open and not self.balance.closed:
            return
        if alone:
            self.read()
        while True:
            with self._lock:
                own = {line for key in keys for line in self._interrupted_reservations(key)}
                others = [body for line, body in self.balance.open.items() if alone and line not in own]
                closed = self.balance.closed
            if closed:
                closing = self._book.about("account", "close")
                because = "" if closing is None else closing.body.get("because", "")
                raise Closed(" ".join(filter(None, (CLOSED, because))))
            if not others:
                return
            if not all(may_be_alive(body["reader"]) for body in others):
                self.close_account(_DIED)
            elif any(time.time() - body["at"] >= _PATIENCE for body in others):
                raise Closed(_UNSETTLED)
            else:
                time.sleep(_PAUSE)
            self.read()

    def _being_read(self, key: str) -> bool:
        if not self.balance.open:
            return False
        with self._lock:
            return any(body["subject"] == key and _is_read(body) for body in self.balance.open.values())

    def _write(
        self, entries: Sequence[Entry], *, after: int | None = None, exact: float | None = None
    ) -> list[Event]:
        """Write lines to the book in one step and count them. Raises :class:`Stale` if the book does not end
        at line ``after``, which by default is the last line that was read."""
        if not entries:
            return []
        events = self._book.append_all(entries, after=self._last if after is None else after)
        for event in events:
            self.balance.apply(event)
            self._counted(event, exact)
        return events

    def _counted(self, event: Event, exact: float | None = None) -> None:
        """Update the counters after a line that the balance has counted."""
        self._last = event.sequence
        if event.kind == "checkpoint":
            self._checkpoint = event.sequence
        if event.kind == "release":
            self._unreleased.discard(event.subject)
        if event.kind in ("release", "fail"):
            # If another process wrote it, the unrounded price is not known; the charge is not below it.
            self._exact = self.balance.micro_nats / MICRO if exact is None else exact

    def _perhaps_checkpoint(self) -> None:
        if self._last - self._checkpoint < _CHECKPOINT_EVERY:
            return
        with suppress(Stale):  # Someone else is writing; the next answer tries again.
            event = self._book.checkpoint(self.balance, after=self._last)
            self.balance.apply(event)
            self._counted(event)

    def _released(self, event: Event, text: str | None = None) -> Released:
        body = event.body
        if text is None:
            text = str(self._book.at(body["reservation"]).body["text"])
        return Released(event.subject, text, body["micro_nats"], body["released"], self._book.receipt(event))

    def _repeated(self, event: Event) -> Released:
        original = self.released(event.body[_REPEATS])
        if original is None or original.answer is None:
            raise BookError(
                f"The account book {self._book.name} repeats an answer at line {event.sequence} that it does "
                "not have."
            )
        answer = {**original.answer, **event.body["facts"]}
        return Released(event.subject, original.text, 0, answer, self._book.receipt(event))


def _too_busy(consequence: str) -> BookError:
    """The error if other processes were quicker at every try to write."""
    return BookError(f"The account book is too busy; {consequence}. Try again.")


def _is_read(body: dict[str, Any]) -> bool:
    """Whether the process that made a reservation may still read it."""
    return time.time() - body["at"] < _PATIENCE and may_be_alive(body["reader"])
