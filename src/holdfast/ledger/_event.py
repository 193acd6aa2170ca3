"""One line of the book, and the digest that chains it to all lines before it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.records import Record


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
    """What is to be written: what happened, to which question, on whose request."""

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
    """One line of the book: what happened (``kind``, ``body``), to which question (``subject``), on whose
    request, and the ``digest`` that chains it to all lines before it."""

    sequence: int
    kind: str
    body: dict[str, Any]
    digest: str
    subject: str = ""
    request: str = ""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(body: dict[str, Any]) -> str:
    """The one text of a body: equal bodies give equal bytes."""
    return _CANONICAL.encode(body)


def digest_of(previous: str, sequence: int, kind: str, subject: str, request: str, body: str) -> str:
    """SHA-256 over the previous digest and everything a line says. No part holds a line break, so no two
    lines read alike."""
    return hashlib.sha256(
        f"{previous}\n{sequence}\n{kind}\n{subject}\n{request}\n{body}".encode()
    ).hexdigest()
