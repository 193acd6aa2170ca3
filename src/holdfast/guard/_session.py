"""The seam between an account and its book: reserve before reading, record before releasing.

Every change of the account is an event in the book, and the account is what the events say. A reservation
that was never settled (a crash between reading and recording) counts as spent, at the dearest price its
question could have had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from holdfast.guard._account import MICRO, Account
from holdfast.ledger import Book, BookError, Event, Stale

_Prepared = TypeVar("_Prepared")
_FORMAT = 1
_MOST_TRIES = 100


@dataclass(frozen=True)
class Released:
    """One settled question as the book has it: its text, its price, and what was released, if it was."""

    text: str
    micro_nats: int
    answer: dict[str, Any] | None


class Session:
    """The account of one dataset, kept in a book that other processes may write to as well."""

    def __init__(self, book: Book, account: Account, agreed: dict[str, Any]) -> None:
        self._book = book
        self._settled = account
        self._open: dict[int, dict[str, Any]] = {}
        self._last = 0
        self.released: dict[str, Released] = {}
        self._opened: dict[str, Any] | None = None
        self._begin({"format": _FORMAT, **agreed})

    def _begin(self, agreed: dict[str, Any]) -> None:
        """Open the book, or make sure that it was opened for the same data and the same promise."""
        self.read()
        if self._opened is None:
            try:
                self._apply(self._book.append("open", agreed, after=self._last))
            except Stale:
                self.read()
        differing = sorted(name for name in agreed if (self._opened or {}).get(name) != agreed[name])
        if differing:
            raise BookError(
                f"The account book {self._book.path} was opened with other terms "
                f"({', '.join(differing)} differ). "
                "Use the same data and the same promise, or another book."
            )

    @property
    def account(self) -> Account:
        """The account with every open reservation counted as spent."""
        settled, reserved = self._settled, sum(body["micro_nats"] for body in self._open.values())
        if not self._open:
            return settled
        return replace(
            settled,
            steps=settled.steps + len(self._open),
            micro_nats=settled.micro_nats + reserved,
            exact=settled.exact + reserved / MICRO,
        )

    def close(self) -> None:
        """Close the book."""
        self._book.close()

    def read(self) -> None:
        """Take in what was written to the book since the last look."""
        for event in self._book.events(after=self._last):
            self._apply(event)

    def reserve(
        self,
        key: str,
        text: str,
        prepare: Callable[[Account], _Prepared],
        worst: Callable[[_Prepared], float],
    ) -> tuple[_Prepared, int]:
        """Prepare a question against the newest account and put its worst price on disk, in one step."""
        for _ in range(_MOST_TRIES):
            account = self.account
            prepared = prepare(account)
            body = {"key": key, "text": text, "micro_nats": math.ceil(worst(prepared) * MICRO)}
            try:
                event = self._book.append("reserve", body, after=self._last)
            except Stale:
                self.read()
                continue
            self._apply(event)
            return prepared, event.sequence
        raise BookError("The account book is too busy; nothing was charged. Try again.")

    def settle(
        self,
        reservation: int,
        nats: float,
        *,
        surprise: bool,
        released: dict[str, Any] | None,
        failed: bool = False,
    ) -> int:
        """Record what a reserved question really cost and what is released, before anyone sees it; returns
        micro-nats."""
        for _ in range(_MOST_TRIES):
            charge, exact = self._settled.charge(nats), self._settled.exact + nats
            body = {
                "reservation": reservation,
                "micro_nats": charge,
                "surprise": surprise,
                "released": released,
            }
            try:
                event = self._book.append("fail" if failed else "release", body, after=self._last)
            except Stale:
                self.read()
                continue
            self._apply(event, exact=exact)
            return charge
        raise BookError(
            "The account book is too busy to record the answer; it stays charged and is not released."
        )

    def _apply(self, event: Event, *, exact: float | None = None) -> None:
        self._last = event.sequence
        body = event.body
        if event.kind == "open":
            self._opened = body
        elif event.kind == "reserve":
            self._open[event.sequence] = body
        elif event.kind in ("release", "fail"):
            reserved = self._open.pop(body["reservation"])
            self._settled = self._settled.after(body["micro_nats"], surprise=body["surprise"], exact=exact)
            if event.kind == "release":
                self.released[reserved["key"]] = Released(
                    reserved["text"], body["micro_nats"], body["released"]
                )
        else:
            raise BookError(f"The account book {self._book.path} has a line of unknown kind {event.kind!r}.")
