"""Rows that arrive later: a new epoch with an account of its own, never a refill of the old one.

This module also decides which of the new rows are fresh and which may be used for training. To see whether
rows are new, it compares them with earlier rows. The comparison is paid for if it says something about rows
that can still be asked about (``docs/theory/epochs.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast import checks, rounding
from holdfast.asking import Asked, Failed, FixedPrice, Session, Settled, read_protected, reader
from holdfast.coding import look_nats
from holdfast.dependence import Dependence
from holdfast.engines import open_rows, unsealed
from holdfast.errors import InvalidArgument
from holdfast.guard._earlier import (
    PROTECTED,
    TRAINING,
    EarlierPart,
    EarlierRows,
    NewTable,
    can_be_compared,
)
from holdfast.guard._setup import Content, random_few
from holdfast.ledger import Book, BookError, EpochLink
from holdfast.records import Record
from holdfast.strategies import Setup

_LOOK = "look"
_CLOSED_BY_LOOK = (
    "A table for a later epoch contained rows of this account. That information is an answer, and this "
    "account has no price for it."
)


@dataclass(frozen=True, repr=False)
class Epoch(Record):
    """Which part of a growing table a guard answers about: the epoch with this ``number``, from 1.

    Guarantee: all intervals of this epoch hold with probability ``confidence``, and those of this and all
    earlier epochs with probability ``together``, by the union bound.
    Assumes: the rows of different epochs are independent, up to what the model of dependence charges for.
    """

    number: int
    confidence: float
    together: float

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Epoch:
        """The epoch that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        return cls._from_plain(values)

    @property
    def failure(self) -> float:
        """The probability that this and all earlier epochs together may fail."""
        return rounding.up(1 - self.together)

    @classmethod
    def of(cls, link: EpochLink | None, confidence: float) -> Epoch:
        """The epoch that a ``link`` names, or the first one."""
        if link is None:
            return cls(1, confidence, confidence)
        return cls(link.number, confidence, max(0.0, rounding.down(confidence - link.failure_before)))


@dataclass(frozen=True)
class NextEpoch:
    """The epoch that is opened after another one, with a book of its own. It is opened once, for the rows
    that the earlier book announced."""

    session: Session
    before: Book
    epoch: Epoch  # the epoch before
    ledger: str | Path | Book | None  # None: beside the book of the epoch before
    arrival: Arrival  # the table that the caller gives for it
    trains: bool  # whether the training part is made of earlier rows
    closed: bool  # whether the earlier account was closed for good when its rows were taken

    @property
    def number(self) -> int:
        """The number of the epoch that is opened."""
        return self.epoch.number + 1

    @cached_property
    def book(self) -> Book:
        """The book of the epoch that is opened."""
        if isinstance(self.ledger, Book):
            return self.ledger
        return self.before.of_epoch(self.number) if self.ledger is None else Book(self.ledger)

    def announce(self, facts: dict[str, Any]) -> EpochLink:
        """Write the rows of the next epoch into the earlier book, once.

        Refuses rows that are not new. Refuses a second announcement for other rows, or for a lost book.
        Whether rows are new is checked last, when nothing else is wrong with them.
        """
        content: Content = facts["data"]
        announcement = {
            "epoch": self.number,
            "rows": facts["rows"],
            "data": content.under(self.before.secret),
        }
        if self.before.about(EpochLink.ANNOUNCED, "act") is None:
            self.arrival.require_new()
        recorded = self.session.record("act", announcement, EpochLink.ANNOUNCED)
        if recorded not in (announcement, {**announcement, "data": content.former}):
            raise BookError(
                f"The account book {self.before.name} was followed by another epoch, about other rows. Open "
                "that one, and continue from it with next_epoch."
            )
        if closed_before_next(self.before) != self.closed:
            raise BookError(
                f"The account in {self.before.name} was closed for good while the next epoch was opened, "
                "so there is more to train on. Try again."
            )
        self.require_same_book()
        announced = self.before.about(EpochLink.ANNOUNCED, "act")
        assert announced is not None
        return EpochLink(
            number=self.number,
            before=self.before.identity,
            line=announced.sequence,
            digest=announced.digest,
            failure_before=self.epoch.failure,
            closed=self.closed,
        )

    def require_same_book(self) -> None:
        """Refuse to open the epoch a second time with another book than its own."""
        opened = self.before.about(EpochLink.OPENED, "act")
        if opened is None:
            return
        if self.book.opening is None or self.book.identity != opened.body["book"]:
            raise BookError(
                f"Epoch {self.number} was opened before, with an account of its own, and {self.book.name} is "
                "not its book. Restore that book: an account is never refilled."
            )

    def close_book(self) -> None:
        """Close the book of this epoch, unless the caller opened it."""
        if "book" in vars(self) and not isinstance(self.ledger, Book):
            self.book.close()

    def record_opening(self) -> None:
        """Record in the earlier book which book belongs to the next epoch."""
        self.session.record("act", {"book": self.book.identity}, EpochLink.OPENED)
        self.require_same_book()


def closed_before_next(book: Book) -> bool:
    """Whether an account was closed for good before the next epoch was announced."""
    closing, announced = book.about("account", "close"), book.about(EpochLink.ANNOUNCED, "act")
    return closing is not None and (announced is None or closing.sequence < announced.sequence)


def next_confidence(epoch: Epoch, confidence: float | None, together: float | None) -> float:
    """The confidence of the next epoch: as given, or such that all epochs that may follow keep ``together``.

    Epoch e takes one part in e + 1 of the failure probability that is left. From β left before epoch e the
    epochs i ≥ e take β·e/(i(i+1)), which is β in all, however many follow.
    """
    if together is None:
        chosen = epoch.confidence if confidence is None else confidence
        return checks.real(chosen, "confidence", "(0, 1)", of="Guard.next_epoch")
    if confidence is not None:
        raise InvalidArgument(
            "together", "left out where confidence is given", together, of="Guard.next_epoch"
        )
    goal = checks.real(together, "together", "(0, 1)", of="Guard.next_epoch")
    left = rounding.down(1 - goal - epoch.failure)
    if not left > 0:
        raise InvalidArgument(
            "together",
            f"below {epoch.together:.6g}, the confidence of the epochs so far",
            together,
            of="Guard.next_epoch",
            reference="docs/theory/epochs.md",
        )
    return 1 - rounding.down(left / (epoch.number + 2))


# So many rows of each earlier part are copied for training. More rows would hardly improve the guesses.
_MOST_TRAINING = 5_000_000


def require_model(setup: Setup, dependence: Dependence | None, *, closed: bool) -> None:
    """Refuse rows without a stated model, and rows that depend on an account that may still be asked."""
    if dependence is None and setup.model is not None:
        raise InvalidArgument(
            "dependence",
            f"given, because the earlier rows had a model ({setup.model.name}): give a model of the new rows",
            None,
            of="Guard.next_epoch",
        )
    if dependence is not None and not closed and _reaches_back(dependence):
        raise InvalidArgument(
            "dependence",
            "independent from epoch to epoch while the earlier account is open: answers about these rows "
            "would reveal something about the earlier ones. Close that account for good first "
            "(guard.close_account())",
            dependence,
            of="Guard.next_epoch",
            reference="docs/theory/epochs.md",
        )


def _reaches_back(model: Dependence) -> bool:
    """Whether answers about new rows can reveal something about earlier rows."""
    return model.follows_training or (model.n is not None and model.fresh().bias > 0)


def earlier_rows(setup: Setup, *, closed: bool) -> Any:
    """What the next epoch may train on: the training part, and the protected rows once their account is
    closed for good. None if there is nothing."""
    import pandas

    parts = [setup.training] if setup.training is not None else []
    if closed:
        parts.append(setup.protected)
    with unsealed():  # Protected rows enter only if their account is closed, so nobody can ask about them.
        frames = [random_few(part, _MOST_TRAINING, 0).rows.frame() for part in parts]
    return pandas.concat(frames, ignore_index=True) if frames else None


@dataclass(frozen=True)
class EpochAccount:
    """The account of an epoch; ``priced`` if it can pay for a comparison of its rows."""

    number: int
    session: Session
    in_memory: bool
    priced: bool
    alone: bool  # whether a reading that is never settled ends the account
    unit: str = "nats"  # what its book counts

    @property
    def closed(self) -> bool:
        """Whether this account never answers again: it was closed for good, or it was in memory and no longer
        exists."""
        self.session.read()
        return self.session.balance.closed or (self.session.book_closed and self.in_memory)


@dataclass(frozen=True)
class Arrival:
    """A table that the caller gives for the epoch after another, and the rows to compare it with.

    ``accounts`` are the open accounts of all epochs so far, the newest last. ``setup`` and ``book`` belong to
    the newest epoch. ``trains`` says whether its training part was made of earlier rows.
    """

    data: Any = field(repr=False)
    setup: Setup = field(repr=False)
    book: Book = field(repr=False)
    accounts: tuple[EpochAccount, ...] = field(repr=False)
    trains: bool

    @property
    def _newest(self) -> EpochAccount:
        return self.accounts[-1]

    @property
    def earlier(self) -> EarlierRows:
        """The digests of the rows of all epochs so far, and which of their accounts are closed by now."""
        return self._with_closed(self._digested)

    def _with_closed(self, earlier: EarlierRows) -> EarlierRows:
        closed = {account.number for account in self.accounts if account.closed}
        epochs = (replace(epoch, closed=epoch.closed or epoch.number in closed) for epoch in earlier.epochs)
        return replace(earlier, epochs=tuple(epochs))

    @cached_property
    def _before(self) -> EarlierRows:
        return EarlierRows.before(self.book)

    @cached_property
    def _digested(self) -> EarlierRows:
        return self._with_newest(trains=self.trains and bool(self._before.epochs))

    @cached_property
    def _compared(self) -> EarlierRows:
        """The rows that the new ones are compared with. If the new table lacks columns, the rows at hand are
        compared by the columns that it has: those of the newest epoch, and all that it trains on."""
        assert self._table is not None
        columns = self._table.rows.columns
        if set(self.setup.protected.rows.columns) <= set(columns):
            return self._digested
        return self._with_newest(only=columns)

    def _with_newest(self, **options: Any) -> EarlierRows:
        """The rows of all epochs so far. Reads the rows of the newest one. The text of an error is not shown,
        because it may depend on the rows."""
        number = self._newest.number
        rows = read_protected(lambda: self._before.with_epoch(number, self.setup, **options), EarlierRows)
        if not isinstance(rows, Failed):
            return rows
        raise BookError(
            f"The rows of epoch {self._newest.number} could not be read, so new rows cannot be compared with "
            "them. Open the epoch again."
        )

    @cached_property
    def _table(self) -> NewTable | None:
        rows = open_rows(self.data)
        return NewTable(rows, self._before.key) if can_be_compared(rows) else None

    @property
    def missing(self) -> list[int]:
        """The epochs whose rows the new ones are not compared with."""
        numbers = range(1, self._newest.number + 1)
        if self._table is None:
            return list(numbers)
        columns = set(self._table.rows.columns)
        compared = {
            epoch.number
            for epoch in self._compared.epochs
            if any(part.sketch and part.columns and columns.issuperset(part.columns) for part in epoch.parts)
        }
        return [number for number in numbers if number not in compared]

    def require_new(self) -> None:
        """Refuse a table that contains rows of an earlier epoch.

        First come rows that everybody may know: all training parts, and the protected rows of accounts that
        are closed for good. That is free. Then come the protected rows of accounts that may still be asked. A
        refusal says something about those rows, so their account pays for it.
        """
        if self._table is None:
            return
        self.require_no_public_rows()
        for number in self._open_epochs():
            price = self._compare_protected(number)
            if price is not None:
                raise self._refused(number, PROTECTED, f"This reveals something about them, and {price}.")

    def require_no_public_rows(self) -> None:
        """Refuse a table that contains rows that everybody may know. Free, and writes nothing."""
        repeated = self._repeated_public_rows()
        if repeated is not None:
            raise self._refused(*repeated)

    def _repeated_public_rows(self) -> tuple[int, str] | None:
        """The first epoch and part with rows in the new table that everybody may know."""
        for epoch in self._with_closed(self._compared).epochs if self._table is not None else ():
            for part in epoch.parts:
                if (part.name == TRAINING or epoch.closed) and self._is_repeated(part):
                    return epoch.number, part.name
        return None

    def _open_epochs(self) -> list[int]:
        """The epochs whose accounts may still be asked. All of them must be at hand."""
        at_hand = {account.number for account in self.accounts if not account.session.book_closed}
        numbers = [epoch.number for epoch in self._with_closed(self._compared).epochs if not epoch.closed]
        for number in numbers:
            if number not in at_hand:
                raise BookError(
                    f"The account of epoch {number} may still be asked, and its book is not open here: a "
                    "comparison with its rows could not be recorded. Open that epoch with its book, "
                    "continue with next_epoch to this one, and then give the new rows."
                )
        return numbers

    def _compare_protected(self, number: int) -> str | None:
        """Whether the new table contains protected rows of an epoch that may still be asked about. No:
        returns None, and costs nothing. Yes: is paid for, and returns in words how.

        The price of a "yes" is reserved before the comparison, and returned after a "no".
        """
        account = next(account for account in self.accounts if account.number == number)
        session, next_number = account.session, self._newest.number + 1
        look = session.record_next("act", {"epoch": next_number}, _LOOK)
        price = look_nats(look) if account.priced else 0.0
        key = f"{_LOOK} {look}"
        with reader() as reader_name, session.turn():
            comparison = Asked(
                key,
                f"whether the rows of epoch {next_number} are new",
                prepare=lambda _: FixedPrice(price),
                reader=reader_name,
                unit=account.unit,
                alone=account.alone,
            )
            line = session.reserve([comparison])[key].line
            # A comparison that fails also says something about the rows: it counts as a "yes".
            repeated = read_protected(lambda: self._has_protected_rows(number), bool) is not False
            if repeated and account.priced:
                session.settle([Settled(key, line, price, surprise=True, released=None, failed=True)])
            else:
                if repeated:
                    session.close_account(_CLOSED_BY_LOOK)
                session.settle([], returned=[line])
        if not repeated:
            return None
        return f"cost {price:.3g} nats in their account" if account.priced else "closed their account"

    def _has_protected_rows(self, number: int) -> bool:
        """Whether the new table contains protected rows of an epoch."""
        (epoch,) = (epoch for epoch in self._compared.epochs if epoch.number == number)
        return any(self._is_repeated(part) for part in epoch.parts if part.name != TRAINING)

    def _is_repeated(self, part: EarlierPart) -> bool:
        assert self._table is not None
        return part.occurs_in(self._table)

    def _refused(self, number: int, part: str, price: str = "") -> InvalidArgument:
        assert self._table is not None
        return InvalidArgument(
            "data",
            f"the rows that arrived since. It has rows of epoch {number} again (of its {part}): leave those "
            f"out{f'. {price}' if price else ''}",
            f"{self._table.rows.count:,} rows",
            of="Guard.next_epoch",
            reference="docs/theory/epochs.md",
        )
