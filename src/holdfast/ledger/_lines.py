"""The lines of a book, the digest that chains each to all lines before it, and what they add up to, in whole
micro-nats."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.records import Record

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
# Lines that say something and cost nothing: opening and closing, acts of the owner, and checkpoints.
_FREE = ("open", "close", "act", "checkpoint")
# In an open reservation: the line that says that it is read again.
_AGAIN = "again"
# In an act: the public key of the service that goes on with the account, and, there, that it does.
HANDED_OVER, TAKEN_OVER = "handed_over", "taken_over"
# What prices are counted in, by millionths.
UNITS = ("nats", "answers")


class BookError(HoldfastError):
    """The account book cannot be trusted or cannot be opened; nothing is answered until that is settled."""


class Stale(HoldfastError):
    """Someone else wrote to the book meanwhile: read the new events and try again."""


class Closed(BookError):
    """The account was ended for good; what was answered stays, nothing new is answered."""


def closed_book(name: str, *, kept: bool = True) -> BookError:
    """The refusal of a book that was closed by its own process, and what to do."""
    if kept:
        rest = "; what it says is kept. To go on, open a guard on the same data with the same ledger."
    else:
        rest = ", and its account with it. An account that is to outlive its guard needs a ledger=path."
    return BookError(f"The account book {name} was closed here{rest}")


class Entry(NamedTuple):
    """A line to write: what happened, to which question, on whose request."""

    kind: str
    body: dict[str, Any]
    subject: str = ""
    request: str = ""


class Line(NamedTuple):
    """An event exactly as it is stored; ``body`` is canonical JSON."""

    sequence: int
    kind: str
    subject: str
    request: str
    body: str
    digest: str

    def follows(self, previous: str) -> bool:
        """Whether the digest is right after a line with the digest ``previous``."""
        return self.digest == digest_of(previous, *self[:-1])

    def event(self) -> Event:
        """The event this line stands for."""
        return Event(self.sequence, self.kind, json.loads(self.body), self.digest, self.subject, self.request)


@dataclass(frozen=True, repr=False)
class Event(Record):
    """Line ``sequence`` of the book: what happened (``kind``, ``body``), to which question (``subject``), on
    whose ``request``, and the ``digest`` that chains it to all lines before it."""

    sequence: int
    kind: str
    body: dict[str, Any]
    digest: str
    subject: str = ""
    request: str = ""


def canonical(body: dict[str, Any]) -> str:
    """The one text of a body: equal bodies give equal bytes."""
    return _CANONICAL.encode(body)


def digest_of(previous: str, sequence: int, kind: str, subject: str, request: str, body: str) -> str:
    """SHA-256 over the previous digest and everything a line says. No part holds a line break, so no two
    lines read alike."""
    return hashlib.sha256(
        f"{previous}\n{sequence}\n{kind}\n{subject}\n{request}\n{body}".encode()
    ).hexdigest()


class Balance:
    """The running sum of a book: what was spent, by whom, and what is reserved and not settled yet.

    ``micro_nats`` counts settled questions only; ``reserved`` those whose outcome is unknown, at the dearest
    price they could have. Whoever asks names themselves in ``by``; a question without a name counts for "".
    ``recent`` are the times of each person's reservations, and of other lines that say when and by whom, of
    the last minute that they asked in; checkpoints do not carry them. ``learned`` is what the prior of the
    account learned, as the last line that says so has it.

    A question that was interrupted may be read *again*, once, under its own reservation. ``interrupted``
    counts such readings.

    The prices of a book are all nats or all answers, in millionths: ``unit`` says which. It is None where
    only lines of earlier versions were read, which do not say.

    An account that was *handed over* is closed where it was, and open again once the service that it was
    handed to says that it goes on with it. ``handed_over`` is the public key of that service meanwhile.

    The reservations of a *batch* follow each other without a gap. Each says how many there are, its place
    among them, and the state of the account before the first, from which all of them are answered.

    Args:
        state: What :meth:`to_dict` returned at a checkpoint, to go on from there; without it nothing was
            spent.
    """

    window = 60  # seconds

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self.confirmed: int = state.get("confirmed", 0)
        self.surprised: int = state.get("surprised", 0)
        self.micro_nats: int = state.get("micro_nats", 0)
        self.people: dict[str, int] = dict(state.get("people", {}))
        self.open: dict[int, dict[str, Any]] = {
            int(sequence): body for sequence, body in state.get("open", {}).items()
        }
        self.reserved = sum(int(body["micro_nats"]) for body in self.open.values())
        self.unit: str | None = state.get("unit")
        self.closed: bool = state.get("closed", False)
        self.learned: list[list[int]] | None = state.get("learned")
        self.interrupted: int = state.get("interrupted", 0)
        self.handed_over: str | None = state.get(HANDED_OVER)
        self.recent: dict[str, deque[int]] = {}

    def spent_by(self, person: str) -> int:
        """Micro-nats that one ``person`` spent or holds reserved."""
        held = sum(int(body["micro_nats"]) for body in self.open.values() if body.get("by", "") == person)
        return self.people.get(person, 0) + held

    def apply(self, event: Event) -> None:
        """Add one more line, an ``event``. A line that does not fit what came before is refused."""
        body = event.body
        self._require_batch(event)
        self._require_before(event)
        if self.closed and event.kind == "reserve":  # What was reserved before may still be settled.
            raise BookError(f"The account book goes on at line {event.sequence} after it was closed.")
        if event.kind == "reserve":
            if not (isinstance(body.get("micro_nats"), int) and body["micro_nats"] >= 0):
                raise _unfit(event)
            self._require_unit(event, self.unit)
            self.open[event.sequence] = {"subject": event.subject, **body}
            self.reserved += body["micro_nats"]
            self.note(event)
        elif event.kind in ("release", "fail"):
            reserved = self.open.pop(body.get("reservation", -1), {"micro_nats": -1})
            paid = body.get("micro_nats")
            if not (isinstance(paid, int) and 0 <= paid <= reserved["micro_nats"]):
                raise _unfit(event)
            self._require_unit(event, reserved.get("unit"))
            self.reserved -= reserved["micro_nats"]
            person = reserved.get("by", "")
            self.micro_nats += paid
            self.people[person] = self.people.get(person, 0) + paid
            self.surprised += bool(body["surprise"])
            self.confirmed += not body["surprise"]
            self.learned = body.get("learned", self.learned)
        elif event.kind == "again":
            left = self.open.get(body.get("reservation", -1))
            if left is None or _AGAIN in left:
                raise _unfit(event)
            taken_up = {"reader": body["reader"], "at": body["at"], _AGAIN: event.sequence}
            self.open[body["reservation"]] = {**left, **taken_up}
            self.interrupted += 1
        elif event.kind == "return":
            returned = self.open.pop(body.get("reservation", -1), None)
            if returned is None:
                raise _unfit(event)
            self.reserved -= returned["micro_nats"]
        elif event.kind in _FREE:
            self.closed = self.closed or event.kind == "close"
            self._hand_over(event)
            if "at" in body:
                self.note(event)
        else:
            raise BookError(f"The account book has a line {event.sequence} of unknown kind {event.kind!r}.")

    def _require_unit(self, event: Event, before: str | None) -> None:
        """Refuse a price in another unit than those before it."""
        unit = event.body.get("unit", before)
        if unit not in (None, *UNITS) or (before is not None and unit != before):
            raise _unfit(event)
        self.unit = unit if unit is not None else self.unit

    def _hand_over(self, event: Event) -> None:
        """Close an account that another service goes on with, and open it where that one does."""
        if event.kind == "act" and HANDED_OVER in event.body:
            if self.closed or self.open:
                raise _unfit(event)
            self.closed, self.handed_over = True, event.body[HANDED_OVER]
        elif event.kind == "act" and TAKEN_OVER in event.body:
            if self.handed_over != event.body[TAKEN_OVER]:
                raise _unfit(event)
            self.closed, self.handed_over = False, None
        elif event.kind == "close":
            self.handed_over = None

    def batch(self, questions: int) -> dict[str, Any]:
        """What the first reservation of a batch of this many ``questions`` says, if it is the next line."""
        return {"questions": questions, "place": 0, **self.before}

    @property
    def before(self) -> dict[str, int]:
        """The state of the account that a question is answered from, if its reservation is the next line."""
        return {
            "steps": self.confirmed + self.surprised + len(self.open),
            "micro_nats": self.micro_nats + self.reserved,
            "confirmed": self.confirmed,
            "surprised": self.surprised,
        }

    def _require_before(self, event: Event) -> None:
        """Refuse a reservation that claims another account than the one it was made from."""
        if event.kind != "reserve":
            return
        before, learned = event.body.get("before", self.before), event.body.get("learned", self.learned)
        if before != self.before or learned != self.learned:
            raise _unfit(event)

    def _require_batch(self, event: Event) -> None:
        """Refuse a batch with a gap, and one that claims another account than the one it begins with."""
        batch = event.body.get("batch") if event.kind == "reserve" else None
        previous = self.open.get(event.sequence - 1, {}).get("batch")
        if previous is not None and previous["place"] + 1 < previous["questions"]:
            fits = batch == {**previous, "place": previous["place"] + 1}
        elif batch is not None:
            questions = batch["questions"]
            fits = isinstance(questions, int) and questions > 0 and batch == self.batch(questions)
        else:
            fits = True
        if not fits:
            raise _unfit(event)

    def note(self, event: Event) -> None:
        """Remember when somebody asked in an ``event``, and forget what was a minute before that."""
        times, at = self.recent.setdefault(event.body.get("by", ""), deque()), event.body.get("at", 0)
        times.append(at)
        while at - times[0] >= self.window:
            times.popleft()

    def copy(self) -> Balance:
        """The same balance, that can go on by itself."""
        same = copy(self)
        same.people, same.open = dict(self.people), dict(self.open)
        same.recent = {person: deque(times) for person, times in self.recent.items()}
        return same

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint records; ``Balance(state)`` goes on from it."""
        return {
            "confirmed": self.confirmed,
            "surprised": self.surprised,
            "micro_nats": self.micro_nats,
            **({} if self.unit is None else {"unit": self.unit}),
            "people": dict(sorted(self.people.items())),
            "open": {str(sequence): body for sequence, body in sorted(self.open.items())},
            "closed": self.closed,
            **({} if self.learned is None else {"learned": self.learned}),
            **({"interrupted": self.interrupted} if self.interrupted else {}),
            **({HANDED_OVER: self.handed_over} if self.handed_over else {}),
        }


def _unfit(event: Event) -> BookError:
    return BookError(
        f"The account book has a line {event.sequence} ({event.kind}) that does not fit the lines before it."
    )
