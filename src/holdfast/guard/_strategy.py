"""What a strategy is: it prepares a question from public facts, then reads the rows once and says what
leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.coding import Account, Learned
from holdfast.guard._answer import Left, Preview
from holdfast.guard._question import Part, Question


@dataclass(frozen=True)
class Outcome:
    """What came of reading: its price in nats, whether it surprised, and all that leaves (None: a paid
    refusal)."""

    price: float
    surprise: bool
    released: dict[str, Any] | None
    learned: Learned | None = None  # what the prior is from now on, where it learns


class Prepared(Protocol):
    """A question at one step, ready to be read: everything it holds is public."""

    @property
    def question(self) -> Question:
        """The question."""

    @property
    def worst_price(self) -> float:
        """The dearest outcome there is, in nats: what is reserved before reading."""

    @property
    def plan(self) -> dict[str, Any]:
        """The public numbers by which the book tells this plan from others."""

    def preview(self) -> Preview:
        """What the question would cost and show."""

    def read(self, part: Part) -> Outcome:
        """Read the protected rows. The only place that does."""

    def failed(self) -> Outcome:
        """What comes of it if the rows cannot be read after all."""


class Strategy(Protocol):
    """How questions are answered on one dataset."""

    @property
    def theorem(self) -> str:
        """The theorem on certificates."""

    @property
    def failure_closes(self) -> bool:
        """Whether a question that fails on the protected rows ends the account: True where no price is set
        for a failure."""

    @property
    def unit(self) -> str:
        """What the account counts, in words for people: "nats" or "answers"."""

    def spent(self, account: Account) -> float:
        """What was spent so far, in ``unit``."""

    def cost(self, price: float) -> float:
        """What an answer took from the account, in ``unit``, if the book charged this price for it."""

    @property
    def together(self) -> bool:
        """Whether questions that are fixed in advance are answered as a batch, in which nobody pays for the
        others; else they are answered one by one."""

    @property
    def joins(self) -> bool:
        """Whether single questions of several people that wait can share scans and writes."""

    def look(self, questions: Sequence[Question]) -> None:
        """Look at the free rows for what preparing these questions needs of them."""

    def prepare(self, question: Question, account: Account) -> Prepared:
        """Decide everything about a question without reading the protected rows, or refuse it."""

    def left(self, account: Account) -> Left:
        """What is left, in ``unit`` and in words."""
