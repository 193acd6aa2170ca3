"""What a strategy is, and the choice of a strategy by its name.

A strategy prepares a question from public facts, then reads the rows once and says what leaves. Each strategy
is imported when it is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast import checks
from holdfast.answers import Left, Preview
from holdfast.coding import Account, Learned, Weights, training_share
from holdfast.dependence import Dependence, Independent
from holdfast.errors import InvalidArgument
from holdfast.readings import Part, Question, Reading

STRATEGIES = (
    "code",
    "agreed-code",
    "grid-code",
    "typical-laplace",
    "typical-gaussian",
    "transfer-gaussian",
    "split",
)
# Strategies that take guesses from a training part set rows aside; the others do not.
TRAINING_SHARES = {"code": training_share(Weights()), "agreed-code": 1 / 3}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a reading: its price in nats, whether it surprised, and all that leaves (None: a refusal
    that was paid for)."""

    price: float
    surprise: bool
    released: dict[str, Any] | None
    learned: Learned | None = None  # the prior from now on, if it learns


class Prepared(Protocol):
    """A question at one step, ready to be read: everything in it is public."""

    @property
    def question(self) -> Question:
        """The question."""

    @property
    def reading(self) -> Reading | None:
        """What is read; None if it is not one of the readings of :mod:`holdfast.readings`."""

    @property
    def worst_price(self) -> float:
        """The highest price of any outcome, in nats: it is reserved before reading."""

    @property
    def plan(self) -> dict[str, Any]:
        """The public numbers by which the book distinguishes this plan from others."""

    def preview(self) -> Preview:
        """What the question would cost and show."""

    def read(self, part: Part) -> Outcome:
        """Read the protected rows. No other method does."""

    def failed(self) -> Outcome:
        """The outcome if the rows cannot be read after all."""


class Preparing(Protocol):
    """What is needed of a strategy to ask questions. The rules of a board have this and nothing more."""

    @property
    def failure_closes(self) -> bool:
        """Whether a question that fails on the protected rows ends the account: True if a failure has no
        price."""

    @property
    def book_unit(self) -> str:
        """What the book counts the prices of questions in: "nats" or "answers"."""

    @property
    def joins(self) -> bool:
        """Whether single questions of several people that wait can share scans and writes."""

    def look(self, questions: Sequence[Question]) -> None:
        """Look at the free rows for what preparing these questions needs of them."""

    def prepare(self, question: Question, account: Account) -> Prepared:
        """Decide everything about a question without reading the protected rows, or refuse it."""


class Strategy(Preparing, Protocol):
    """How questions are answered on one dataset."""

    @property
    def theorem(self) -> str:
        """The theorem that certificates name."""

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
        others. Otherwise they are answered one by one."""

    def left(self, account: Account) -> Left:
        """What is left, in ``unit`` and in words."""


def default_share(strategy: str, weights: Weights) -> float:
    """The share of the rows that becomes the training part if none is given: the share that makes answers
    narrowest on the whole."""
    return training_share(weights) if strategy == "code" else TRAINING_SHARES.get(strategy, 0.0)


def choose_strategy(
    name: str, setup: Setup, *, failure: float, error: float | None, queries: Any, surprises: Any = None
) -> Strategy:
    """The strategy with this name. All but "code" need the number of ``queries`` in advance, and
    "agreed-code" needs the number of ``surprises`` as well."""
    rows = setup.protected.rows.count
    if (surprises is None) == (name == "agreed-code"):
        expected = "given: strategy 'agreed-code' counts them" if surprises is None else "left out"
        raise InvalidArgument("surprises", f"{expected} (strategy is {name!r})", surprises, of="Guard")
    if name == "code":
        if queries is not None:
            raise InvalidArgument("queries", "left out: strategy 'code' fixes no number", queries, of="Guard")
        from holdfast.strategies._code import CodeStrategy

        units = tuple(part.rows.count for part in setup.protected.units)
        return CodeStrategy(rows, setup.training, setup.pilot, setup.model, error, units, setup.bias)
    if queries is None:
        raise InvalidArgument(
            "queries", f"given: strategy {name!r} fixes the number of questions", None, of="Guard"
        )
    queries = checks.whole(queries, "queries", of="Guard")
    if name == "agreed-code":
        surprises = checks.whole(surprises, "surprises", at_least=0, at_most=queries, of="Guard")
    if name in ("agreed-code", "grid-code"):
        from holdfast.strategies._agreed import AgreedCode

        return AgreedCode.of(setup, queries, failure, surprises, error)
    model = setup.model or Independent(rows)
    if name == "split":
        from holdfast.strategies._fixed import Splitting

        return Splitting.of(queries, failure, model, error)
    from holdfast.strategies._noise import TransferNoise, TypicalNoise

    if name == "transfer-gaussian":
        return TransferNoise.of(queries, failure, model, error)
    return TypicalNoise.of(name.removeprefix("typical-"), queries, failure, model, error)


@dataclass(frozen=True)
class Setup:
    """Both parts of the rows, the model of the protected ones (None: independent), and what was agreed.

    ``bias`` is the probability of failure that is charged before the first question. A part of it is for
    splitting the rows. ``besides`` has the other parts by name."""

    protected: Part
    training: Part | None
    pilot: Part | None
    model: Dependence | None
    bias: float
    assumptions: tuple[str, ...]
    nullable: frozenset[str]
    facts: dict[str, Any]
    besides: dict[str, float]
