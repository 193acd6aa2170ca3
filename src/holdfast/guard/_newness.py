"""Whether the rows that are brought for the next epoch are new: a look at earlier rows, which is paid for
where it says something about rows that can still be asked about (``docs/theory/epochs.md``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from holdfast.coding import look_nats
from holdfast.engines import open_rows
from holdfast.errors import InvalidArgument
from holdfast.guard._clean_room import Failed, read_protected, reader
from holdfast.guard._earlier import (
    PROTECTED,
    TRAINING,
    EarlierPart,
    EarlierRows,
    NewTable,
    can_be_compared,
)
from holdfast.guard._session import Asked, Session, Settled
from holdfast.guard._setup import Setup
from holdfast.ledger import Book, BookError

_LOOK = "look"
_CLOSED_BY_LOOK = (
    "Rows of it were brought again for a later epoch, and that they were is an answer that has no price here."
)


@dataclass(frozen=True)
class EpochAccount:
    """The account of an epoch; ``priced`` where it can pay for a look at its rows."""

    number: int
    session: Session
    in_memory: bool
    priced: bool
    alone: bool  # whether a reading that is never settled ends it

    @property
    def closed(self) -> bool:
        """Whether nothing more is ever answered from it: it was closed for good, or was in memory and is
        gone."""
        self.session.read()
        return self.session.balance.closed or (self.session.left and self.in_memory)


@dataclass(frozen=True)
class Arrival:
    """A table that is brought for the epoch after another, and what it has to be compared with.

    ``accounts`` are those of all epochs so far that are at hand, the newest last; ``setup`` and ``book`` are
    the newest one's, and ``trains`` says whether its training part was made of earlier rows.
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
        """The rows of all epochs so far, by their digests, and which of their accounts are closed by now."""
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
        """The rows that the new ones are compared with. Where the new table lacks columns, those that are at
        hand are compared by the others: the newest epoch's, and all that it trains on."""
        assert self._table is not None
        columns = self._table.rows.columns
        if set(self.setup.protected.rows.columns) <= set(columns):
            return self._digested
        return self._with_newest(only=columns)

    def _with_newest(self, **how: Any) -> EarlierRows:
        """Reads the rows of the newest epoch. What goes wrong with that stays inside, because it may depend
        on them."""
        number = self._newest.number
        every = read_protected(lambda: self._before.with_epoch(number, self.setup, **how), EarlierRows)
        if not isinstance(every, Failed):
            return every
        raise BookError(
            f"The rows of epoch {self._newest.number} could not be read, so new rows cannot be compared with "
            "them. Open the epoch anew, and try again."
        )

    @cached_property
    def _table(self) -> NewTable | None:
        rows = open_rows(self.data)
        return NewTable(rows, self._before.key) if can_be_compared(rows) else None

    @property
    def missing(self) -> list[int]:
        """The epochs whose rows the new ones are not compared with."""
        every = range(1, self._newest.number + 1)
        if self._table is None:
            return list(every)
        columns = set(self._table.rows.columns)
        compared = {
            epoch.number
            for epoch in self._compared.epochs
            if any(part.sketch and part.columns and columns.issuperset(part.columns) for part in epoch.parts)
        }
        return [number for number in every if number not in compared]

    def require_new(self) -> None:
        """Refuse a table that has rows of an earlier epoch again.

        What may be known to everybody is compared first, and that is free: all training parts, and the
        protected rows of accounts that are closed for good. Then come the protected rows of accounts that may
        still be asked; a refusal says something about those, and is paid for in their account.
        """
        if self._table is None:
            return
        self.require_not_known()
        for number in self._open_epochs():
            price = self._look(number)
            if price is not None:
                raise self._refused(number, PROTECTED, f"That says something about them, and {price}.")

    def require_not_known(self) -> None:
        """Refuse a table that has rows again which may be known to everybody. Free, and writes nothing."""
        known = self._known_again()
        if known is not None:
            raise self._refused(*known)

    def _known_again(self) -> tuple[int, str] | None:
        """The first epoch and part of which everybody may know that its rows come again."""
        for epoch in self._with_closed(self._compared).epochs if self._table is not None else ():
            for part in epoch.parts:
                if (part.name == TRAINING or epoch.closed) and self._comes_again(part):
                    return epoch.number, part.name
        return None

    def _open_epochs(self) -> list[int]:
        """The epochs whose accounts may still be asked; all of those have to be at hand."""
        at_hand = {account.number for account in self.accounts if not account.session.left}
        numbers = [epoch.number for epoch in self._with_closed(self._compared).epochs if not epoch.closed]
        for number in numbers:
            if number not in at_hand:
                raise BookError(
                    f"The account of epoch {number} may still be asked, and its book is not open here: a "
                    "look at its rows could not be written down. Open that epoch with its book, go on from "
                    "it with next_epoch to this one, and bring the new rows then."
                )
        return numbers

    def _look(self, number: int) -> str | None:
        """Compare with protected rows that may still be asked about: "no" is free and returns None, "yes" is
        paid for and returns how.

        What "yes" costs is in the account before the look, and is given back after a "no".
        """
        account = next(account for account in self.accounts if account.number == number)
        session, later = account.session, self._newest.number + 1
        look = session.record_next("act", {"epoch": later}, _LOOK)
        price = look_nats(look) if account.priced else 0.0
        key = f"{_LOOK} {look}"
        with reader() as name, session.turn():
            asked = Asked(
                key,
                f"whether the rows of epoch {later} are new",
                prepare=lambda _: price,
                worst=lambda nats: nats,
                reader=name,
                alone=account.alone,
            )
            line = session.reserve([asked])[key].line
            # A comparison that fails says something too: it counts as a "yes".
            again = read_protected(lambda: self._hidden_again(number), bool) is not False
            if again and account.priced:
                session.settle([Settled(key, line, price, surprise=True, released=None, failed=True)])
            else:
                if again:
                    session.close_account(_CLOSED_BY_LOOK)
                session.settle([], returned=[line])
        if not again:
            return None
        return f"cost {price:.3g} nats in their account" if account.priced else "closed their account"

    def _hidden_again(self, number: int) -> bool:
        """Whether protected rows of an epoch come again."""
        (epoch,) = (epoch for epoch in self._compared.epochs if epoch.number == number)
        return any(self._comes_again(part) for part in epoch.parts if part.name != TRAINING)

    def _comes_again(self, part: EarlierPart) -> bool:
        assert self._table is not None
        return part.again_in(self._table)

    def _refused(self, number: int, part: str, price: str = "") -> InvalidArgument:
        assert self._table is not None
        return InvalidArgument(
            "data",
            f"the rows that arrived since, and has rows of epoch {number} again (of its {part}): leave those "
            f"out{f'. {price}' if price else ''}",
            f"{self._table.rows.count:,} rows",
            of="Guard.next_epoch",
            reference="docs/theory/epochs.md",
        )
