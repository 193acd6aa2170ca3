"""An account that goes ahead of its book, where all it may come to is reserved already."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast.guard._account import MICRO, Account
from holdfast.guard._prior import Experience
from holdfast.ledger import Balance, Entry, Event


def account_of(failure: float, balance: Balance, exact: float) -> Account:
    """The account a balance stands for, with every open reservation counted as spent."""
    reserved = balance.reserved
    return Account(
        failure=failure,
        steps=balance.confirmed + balance.surprised + len(balance.open),
        micro_nats=balance.micro_nats + reserved,
        exact=exact + reserved / MICRO,
        experience=Experience(balance.confirmed, balance.surprised),
    )


@dataclass(frozen=True)
class Settled:
    """A question of several, as it will be recorded: ``most`` is its own worst price, in whole micro-nats.
    Where it ``failed`` nothing is released, and where that ``closes`` the account nothing more is asked."""

    key: str
    reservation: int
    nats: float
    most: int
    surprise: bool
    released: dict[str, Any] | None
    failed: bool = False
    closes: bool = False


class Ahead:
    """The account as it will be, question by question; the balance it starts from stays as it is."""

    def __init__(self, failure: float, balance: Balance, exact: float) -> None:
        self._failure = failure
        self._exact = exact
        self.balance = balance.copy()

    @property
    def account(self) -> Account:
        """The account at this point."""
        return account_of(self._failure, self.balance, self._exact)

    def reserve(self, line: int, entry: Entry) -> None:
        """Count a question at the most it can cost."""
        self.balance.apply(Event(line, entry.kind, entry.body, "", entry.subject))

    def settle(self, nats: float, *, most: int, surprise: bool) -> None:
        """Count a question at what it cost, exactly as the book will."""
        self._exact += nats
        charge = max(0, math.ceil(self._exact * MICRO) - self.balance.micro_nats)
        self.balance.micro_nats += min(charge, most)
        self.balance.surprised += surprise
        self.balance.confirmed += not surprise
