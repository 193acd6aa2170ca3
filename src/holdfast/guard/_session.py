"""The seam between an account and its book: reserve before reading, record before releasing.

Every change of the account is an event in the book, and the account is what the events say. A reservation
that was never settled (a crash between reading and recording) counts as spent, at the dearest price its
question could have had.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Generic, TypeVar

from holdfast.guard._account import MICRO, Account
from holdfast.guard._ahead import Ahead, Settled, account_of
from holdfast.guard._former import failed_before, terms_to_compare
from holdfast.guard._prior import Experience
from holdfast.guard._readers import may_be_alive
from holdfast.guard._turns import Turn, Turns
from holdfast.ledger import Balance, Book, BookError, Closed, Entry, Event, Receipt, Stale

_Prepared = TypeVar("_Prepared")
_FORMAT = 2
_MOST_TRIES = 100
# A start reads no more lines than about this, however long the book is.
_CHECKPOINT_EVERY = 1_000
# How many seconds a question that another process is reading is waited for (longer than any time limit that
# makes sense), and how often it is looked after.
_PATIENCE = 120
_PAUSE = 0.005
# In a line that repeats an answer: the question that was answered.
_REPEATS = "repeats"

_CLOSED = "The account is closed; nothing more is answered from it."
_FAILED = (
    "A question could not be computed on the protected rows. With this strategy a failure is not paid for, "
    "so it ended the account. The answers given before keep their intervals."
)
_DIED = (
    "A process ended while it read the protected rows. With this strategy a failure is not paid for, so it "
    "ended the account. The answers given before keep their intervals."
)
_UNSETTLED = (
    "Another process has been reading a question of this account for minutes, or died while it did. With "
    "this strategy a failure ends the account, so nothing is answered until that question is settled. The "
    "answers given before keep their intervals."
)


@dataclass(frozen=True)
class Released:
    """One settled question as the book has it: its text, its price, and what was released, if it was."""

    key: str
    text: str
    micro_nats: int
    answer: dict[str, Any] | None
    receipt: Receipt | None


@dataclass(frozen=True)
class Asker:
    """On whose behalf a question is asked, where several people share one account.

    ``name`` is recorded with the price; ``request`` names one request, so that its repetition can be told;
    ``permit`` is asked with the balance and the dearest price, in whole micro-nats, before anything is
    reserved, and refuses by raising.
    """

    name: str = ""
    request: str = ""
    permit: Callable[[Balance, int], None] | None = None


NOBODY = Asker()


class ReadingFailed(Exception):
    """The rows could not be read. That is an outcome too: it was charged, and where ``closes`` it ended the
    account. What went wrong stays inside."""

    def __init__(self, price: float, *, closes: bool = False) -> None:
        self.price = price
        self.closes = closes
        super().__init__("the protected rows could not be read")


@dataclass(frozen=True)
class Asked(Generic[_Prepared]):
    """A question on its way to the account.

    ``prepare`` decides everything about it from the newest account without the protected rows, ``worst`` says
    what it can cost then, and ``reader`` is who reads it. Where preparing takes no time and needs nothing but
    the account it is ``quick``: then whoever is before it in the queue may do that. ``joins`` is what whoever
    has the turn needs to answer it together with its own; None where that cannot be. A question that is
    ``alone`` is reserved only once every other reading of the account is settled.
    """

    key: str
    text: str
    prepare: Callable[[Account], _Prepared]
    worst: Callable[[_Prepared], float]
    reader: str
    asker: Asker = NOBODY
    quick: bool = False
    joins: Any = None
    alone: bool = False


class AlreadySettled(BookError):
    """Another process settled this question of a batch meanwhile."""


class OtherTerms(BookError):
    """The book was opened for other data or another promise: ``differing`` names what is not the same."""

    def __init__(self, book: str, differing: list[str]) -> None:
        self.differing = differing
        super().__init__(
            f"The account book {book} was opened with other terms ({', '.join(differing)} differ). "
            "Use the same data and the same promise, or another book."
        )


class Session:
    """The account of one dataset, kept in a book that other processes may write to as well."""

    def __init__(self, book: Book, account: Account, agreed: dict[str, Any]) -> None:
        self._book = book
        self._failure = account.failure
        self.balance, self._last = book.start()
        self._checkpoint = self._last
        self._exact = self.balance.micro_nats / MICRO
        self._lock = RLock()
        self._left = False
        self._turns = Turns()
        self._others_reserved_at = 0
        self._begin({"format": _FORMAT, **agreed})

    def _begin(self, agreed: dict[str, Any]) -> None:
        """Open the book, or make sure that it was opened for the same data and the same promise."""
        self.read()
        if self._last == 0:
            try:
                # The nonce makes two books that agree on everything else two books.
                terms = {**agreed, "nonce": secrets.token_hex(16)}
                self._apply(self._book.append("open", terms, after=0))
            except Stale:
                self.read()
        opened = self._book.at(1).body
        compared = terms_to_compare(self._book, agreed, opened)
        differing = sorted(name for name in compared if opened.get(name) != compared[name])
        if differing:
            raise OtherTerms(self._book.name, differing)
        if not self.balance.closed and failed_before(self._book, agreed, opened):
            self.close_account(_FAILED)

    @property
    def account(self) -> Account:
        """The account with every open reservation counted as spent."""
        with self._lock:
            return self._account_of(self.balance, self._exact)

    def _account_of(self, balance: Balance, exact: float) -> Account:
        return account_of(self._failure, balance, exact)

    def turn(self, asked: Asked[Any] | None = None) -> AbstractContextManager[Turn]:
        """Wait until it is this question's turn: from reserving to settling there is one at a time."""
        return self._turns.take(asked)

    def waiting(self) -> list[Turn]:
        """Who waits for a turn, in order."""
        return self._turns.waiting()

    def answer(self, turn: Turn, outcome: Released | ReadingFailed) -> None:
        """Let someone who waits go with what came of their question."""
        self._turns.answer(turn, outcome)

    @property
    def shared(self) -> bool:
        """Whether another process reserved something in the last minute. What is held here counts as spent
        for its questions, so it should not be much."""
        return time.time() - self._others_reserved_at < Balance.window

    def close(self) -> None:
        """Close the book; what was read of it is remembered."""
        with self._lock:
            self._left = True
            self._book.close()

    def read(self) -> None:
        """Take in what was written to the book since the last look; nothing more once it was closed here."""
        with self._lock:
            if self._left:
                return
            for event in self._book.events(after=self._last):
                self._apply(event)
                if event.kind == "reserve":
                    self._others_reserved_at = event.body.get("at", 0)

    def record(self, kind: str, body: dict[str, Any], subject: str) -> dict[str, Any]:
        """Write down a line that costs nothing and is written once; returns what the book says, whoever
        wrote it."""
        for _ in range(_MOST_TRIES):
            known = self._book.about(subject, kind)
            if known is not None:
                return known.body
            with self._lock, suppress(Stale):
                self._apply(self._book.append(kind, body, after=self._last, subject=subject))
                return body
            self.read()
        raise BookError("The account book is too busy; nothing was written. Try again.")

    def record_next(self, kind: str, body: dict[str, Any], subject: str) -> int:
        """Write down a line that costs nothing and is the next of its subject; returns its number, from 1."""
        number = 1
        for _ in range(_MOST_TRIES):
            while self._book.about(f"{subject} {number}", kind) is not None:
                number += 1
            with self._lock, suppress(Stale):
                line = self._book.append(kind, body, after=self._last, subject=f"{subject} {number}")
                self._apply(line)
                return number
            self.read()
        raise BookError("The account book is too busy; nothing was written. Try again.")

    @property
    def left(self) -> bool:
        """Whether the book was closed here."""
        return self._left

    def close_account(self, because: str = "") -> None:
        """Write down that nothing more is answered from this account, and why if it was not the owner."""
        self.record("close", {"because": because} if because else {}, "account")

    def released(self, key: str) -> Released | None:
        """What the book has about a question that was settled; None if it has not been asked."""
        event = self._book.about(key, "release")
        return None if event is None else self._released(event)

    def requested(self, request: str) -> str | None:
        """The key of the question that a request asked before; None if the request is new."""
        event = self._book.requested(request)
        return None if event is None else event.subject

    def history(self, after: int = 0) -> Iterator[tuple[int, Released]]:
        """Everything that was released beyond line ``after`` of the book, in order, with its line."""
        self.read()
        for event in self._book.events(min(after, self._last)):
            if event.kind == "release":
                yield event.sequence, self._released(event)
            elif event.kind == "act" and _REPEATS in event.body:
                yield event.sequence, self._repeated(event)

    def repeat(self, released: Released, subject: str, asker: Asker, **facts: Any) -> Released:
        """Record that what was released answers another question too, with other public ``facts``; no rows
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
        included, and write nothing; refuses what that would refuse."""
        self.read()
        with self._lock:
            balance, account = self.balance.copy(), self.account
        return _reservation(asked, balance, account)[0]

    def reserve(self, asked: Asked[_Prepared]) -> tuple[_Prepared, int] | Released:
        """Prepare a question against the newest account and put its worst price on disk, in one step; or
        return what another process released about it meanwhile."""
        for _ in range(_MOST_TRIES):
            if (known := self._awaited(asked.key)) is not None:
                return known
            self._require_open(alone=asked.alone)
            with self._lock, suppress(Stale):
                if asked.alone and self.balance.open:
                    continue
                end = self._last  # To prepare may read on in the book; this account ends here.
                prepared, entry = _reservation(asked, self.balance, self.account)
                (event,) = self._book.append_all([entry], after=end)
                self._apply(event)
                return prepared, event.sequence
            self.read()
        raise BookError("The account book is too busy; nothing was charged. Try again.")

    def reserve_all(self, asked: Sequence[Asked[Any]]) -> tuple[Ahead, list[int]]:
        """Put the worst prices of several questions on disk in one step, as many from the first on as the
        account allows, each as if those before it cost the most they can; returns the account without them,
        and the lines that reserve them."""
        for _ in range(_MOST_TRIES):
            alone = any(one.alone for one in asked)
            self._require_open(alone=alone)
            with self._lock, suppress(Stale):
                if alone and self.balance.open:
                    continue
                end = self._last
                held, entries = Ahead(self._failure, self.balance, self._exact), []
                for one in asked:
                    try:
                        if self._being_read(one.key) or self._book.about(one.key, "release") is not None:
                            break
                        entries.append(_reservation(one, held.balance, held.account)[1])
                    except Exception:
                        break  # Refused at the worst; when it is its turn it is prepared anew.
                    held.reserve(end + len(entries), entries[-1])
                ahead = Ahead(self._failure, self.balance, self._exact)
                events = self._book.append_all(entries, after=end) if entries else []
                for event in events:
                    self._apply(event)
                return ahead, [event.sequence for event in events]
            self.read()
        raise BookError("The account book is too busy; nothing was charged. Try again.")

    def reserve_batch(self, asked: Sequence[Asked[_Prepared]]) -> None:
        """Put the worst prices of questions that are fixed by now on disk in one step, as one batch; those
        that were settled, or are in a batch already, are left out.

        Each is prepared against the account of the batch, so ``worst`` has to cover every state that the
        others can leave it in.
        """
        for _ in range(_MOST_TRIES):
            with self._lock, suppress(Stale):
                end = self._last
                new = [one for one in asked if not self._is_in_hand(one.key)]
                if new:
                    self._require_open(alone=False)
                account, batch, entries = self.account.for_batch(len(new)), self.balance.batch(len(new)), []
                for place, one in enumerate(new):
                    _, entry = _reservation(one, self.balance, account)
                    entry.body["batch"] = {**batch, "place": place}
                    entries.append(entry)
                for event in self._book.append_all(entries, after=end) if entries else []:
                    self._apply(event)
                return
            self.read()
        raise BookError("The account book is too busy; nothing was charged. Try again.")

    def _is_in_hand(self, key: str) -> bool:
        """Whether a question was settled, or is a question of a batch that goes on."""
        settled = any(self._book.about(key, kind) is not None for kind in ("release", "fail"))
        return settled or self.in_batch(key) is not None

    def in_batch(self, key: str) -> tuple[int, dict[str, Any]] | None:
        """The line that reserves a question as one of a batch and is not settled yet, whoever wrote it, and
        what it says."""
        with self._lock:
            lines = self.balance.open.items()
            mine = ((line, body) for line, body in lines if body["subject"] == key and "batch" in body)
            return next(mine, None)

    def batch_account(self, batch: dict[str, Any], *, calm: bool = False) -> Account:
        """The account that a question of a batch is answered from: what was spent, and how many were asked,
        before the batch; with the experience of now or (``calm``) the one in which a surprise is dearest."""
        account = Account(
            failure=self._failure,
            steps=batch["steps"],
            micro_nats=batch["micro_nats"],
            exact=batch["micro_nats"] / MICRO,
            experience=Experience(batch["confirmed"], batch["surprised"]),
            together=batch["questions"],
        )
        now = Experience(self.balance.confirmed, self.balance.surprised)
        return account.extremes()[0] if calm else replace(account, experience=now)

    def settle_all(self, settled: Sequence[Settled], returned: Sequence[int]) -> list[Released]:
        """Record what reserved questions cost and release, in order, and give back what was reserved for
        others of which nothing is released; in one step, before anyone sees any of it. A failure that ends
        the account ends it in the same step."""
        for _ in range(_MOST_TRIES):
            with self._lock, suppress(Stale):
                exact, total, entries = self._exact, self.balance.micro_nats, []
                for one in settled:
                    exact += one.nats
                    charge = min(max(0, math.ceil(exact * MICRO) - total), one.most)
                    total += charge
                    body = {
                        "reservation": one.reservation,
                        "micro_nats": charge,
                        "surprise": one.surprise,
                        "released": one.released,
                    }
                    entries.append(Entry("fail" if one.failed else "release", body, one.key))
                if any(one.closes for one in settled) and not self.balance.closed:
                    entries.append(_closing())
                for line in returned:
                    subject = self.balance.open[line]["subject"]
                    entries.append(Entry("return", {"reservation": line}, subject))
                texts = [self.balance.open[one.reservation]["text"] for one in settled]
                events = self._book.append_all(entries, after=self._last) if entries else []
                for event in events:
                    self._apply(event, exact=exact if event.kind in ("release", "fail") else None)
                self._perhaps_checkpoint()
                return [self._released(event, text) for event, text in zip(events, texts, strict=False)]
            self.read()
        raise BookError(
            "The account book is too busy to record the answers; they stay charged and are not released."
        )

    def settle(
        self,
        key: str,
        reservation: int,
        nats: float,
        *,
        surprise: bool,
        released: dict[str, Any] | None,
        failed: bool = False,
        closes: bool = False,
    ) -> Released:
        """Record what a reserved question really cost and what is released, before anyone sees it; and, in
        the same transaction, the reservation of the question that waits next, or that the failure ``closes``
        the account."""
        for _ in range(_MOST_TRIES):
            with self._lock, suppress(Stale):
                end = self._last
                reserved = self.balance.open.get(reservation)
                if reserved is None:
                    raise AlreadySettled("Another process has settled this question.")
                exact = self._exact + nats
                body = {
                    "reservation": reservation,
                    # The running total is rounded up; the reservation covers the price as it is.
                    "micro_nats": min(self._charge(exact), reserved["micro_nats"]),
                    "surprise": surprise,
                    "released": released,
                }
                entry = Entry("fail" if failed else "release", body, key)
                following = None if closes else self._following(entry, exact)
                entries = [entry] if following is None else [entry, following[2]]
                if closes and not self.balance.closed:
                    entries.append(_closing())
                event, *further = self._book.append_all(entries, after=end)
                self._apply(event, exact=exact)
                for line in further:
                    self._apply(line)
                if following is not None:
                    following[0].reserved = following[1], further[0].sequence
                self._perhaps_checkpoint()
                return self._released(event, text=reserved["text"])
            self.read()
        raise BookError(
            "The account book is too busy to record the answer; it stays charged and is not released."
        )

    def _charge(self, exact: float) -> int:
        """What takes the settled total to the next whole micro-nat above ``exact`` nats."""
        return max(0, math.ceil(exact * MICRO) - self.balance.micro_nats)

    def _following(self, entry: Entry, exact: float) -> tuple[Turn, Any, Entry] | None:
        """The question that waits next, prepared against the account as ``entry`` will leave it, and its
        reservation; None if it has to see to that itself."""
        turn = self._turns.next()
        if turn is None or turn.reserved is not None or turn.asked is None or not turn.asked.quick:
            return None
        key = turn.asked.key
        if key == entry.subject or self._being_read(key) or self._book.about(key, "release") is not None:
            return None
        later = self.balance.after(Event(self._last + 1, entry.kind, entry.body, "", entry.subject))
        try:
            return turn, *_reservation(turn.asked, later, self._account_of(later, exact))
        except Exception:
            return None  # A refusal is for its own thread to find.

    def _awaited(self, key: str) -> Released | None:
        """What was released about a question while this process waited for another that is reading it.

        Whoever reserved it may have died; after a while the question is asked anew, and charged anew.
        """
        while self._being_read(key):
            time.sleep(_PAUSE)
            self.read()
        return self.released(key)

    def _require_open(self, *, alone: bool) -> None:
        """Refuse if the account is closed. For a question that is ``alone``, wait until every other reading
        is settled, and refuse if one never will be: that its process died may tell about the rows."""
        if alone and self.balance.open:
            self.read()
        while True:
            with self._lock:
                others, closed = list(self.balance.open.values()) if alone else [], self.balance.closed
            if closed:
                closing = self._book.about("account", "close")
                because = "" if closing is None else closing.body.get("because", "")
                raise Closed(" ".join(filter(None, (_CLOSED, because))))
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
        with self._lock:
            return any(
                body["subject"] == key
                and time.time() - body["at"] < _PATIENCE
                and may_be_alive(body["reader"])
                for body in self.balance.open.values()
            )

    def _apply(self, event: Event, *, exact: float | None = None) -> None:
        self.balance.apply(event)
        self._last = event.sequence
        if event.kind == "checkpoint":
            self._checkpoint = event.sequence
        if event.kind in ("release", "fail"):
            # Written by another process, the unrounded price is not known; the charge is above it.
            self._exact = self.balance.micro_nats / MICRO if exact is None else exact

    def _perhaps_checkpoint(self) -> None:
        if self._last - self._checkpoint < _CHECKPOINT_EVERY:
            return
        with suppress(Stale):  # Someone else is writing; the next answer tries again.
            self._apply(self._book.checkpoint(self.balance, after=self._last))

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


def _reservation(asked: Asked[_Prepared], balance: Balance, account: Account) -> tuple[_Prepared, Entry]:
    """A question prepared against an account, and the line that reserves the most it can cost."""
    if balance.closed:
        raise Closed(_CLOSED)
    prepared = asked.prepare(account)
    price = math.ceil(asked.worst(prepared) * MICRO)
    if asked.asker.permit is not None:
        asked.asker.permit(balance, price)
    body: dict[str, Any] = {
        "text": asked.text,
        "micro_nats": price,
        "at": int(time.time()),
        "reader": asked.reader,
    }
    if asked.asker.name:
        body["by"] = asked.asker.name
    return prepared, Entry("reserve", body, asked.key, asked.asker.request)


def _closing() -> Entry:
    """The line that ends an account because a question failed."""
    return Entry("close", {"because": _FAILED}, "account")
