"""Answerers to attack: plain averages, the code guard on counts, and any guard through its public methods.

The code guard on counts runs thousands of simulated accounts in seconds. Everything that decides validity is
the product's own code (prior, account, grid, readings); only the counts come from arrays instead of a
database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holdfast.audit.attacks._protocol import Answerer, AttackQuestion, Rows
from holdfast.boards import LadderStrategy
from holdfast.coding import Account, Output, Weights
from holdfast.dependence import Dependence
from holdfast.engines import Rows as TableRows
from holdfast.errors import InvalidArgument
from holdfast.intervals import Interval, hoeffding
from holdfast.readings import Moments, Part, Question
from holdfast.records import Record
from holdfast.strategies import CodeStrategy, PreparedCode
from holdfast.tails import BoundedDifferences, Tail, TailRow

if TYPE_CHECKING:
    from holdfast.guard import Guard


@dataclass(frozen=True, repr=False)
class AttackAnswer(Record):
    """An answer with its interval."""

    value: float
    low: float
    high: float


def naive(rows: Rows, *, failure: float | None = None) -> Answerer:
    """Plain averages over the same rows, again and again; with ``failure``, each with a Hoeffding interval
    that ignores the others.

    Args:
        rows: The rows.
    """

    def answer(question: AttackQuestion) -> Any:
        value = float(question(rows).mean())
        if failure is None:
            return value
        interval = hoeffding(value, len(rows), -math.log(failure))
        return AttackAnswer(value, interval.low, interval.high)

    return answer


class CodeAnswerer:
    """The code guard (``docs/theory/code-guard.md``) on questions whose values are 0 and 1, thousands of
    answers in a second.

    Guesses come from ``training`` rows where there are some and the question brings none. ``tail`` is that
    of a mean of values in [0, 1] on these rows where they are not independent. ``cell`` is the width of the
    last cell, which is public; the first question, which nothing chose, finds it out.

    Guarantee: that of ``Guard``, whose code decides everything but how rows are counted.
    Assumes: independent rows, or rows with this ``tail`` (not checkable).
    Reference: ``docs/theory/code-guard.md``, "The theorem".

    Args:
        failure: The probability that any interval may miss.
        charges: Whether questions cost nats. False removes the protection, for experiments.
    """

    def __init__(
        self,
        rows: Rows,
        training: Rows | None = None,
        *,
        failure: float = 0.05,
        tail: Tail | None = None,
        charges: bool = True,
    ) -> None:
        self._rows, self._training = rows, training
        self._guard = CountedGuard(
            len(rows),
            0 if training is None else len(training),
            failure=failure,
            charges=charges,
            tail=tail,
        )
        self.cell = 0.0

    def __call__(self, question: AttackQuestion) -> AttackAnswer:
        guess, training_count = question.guess, 0
        if self._training is not None:
            training_count = _count(question, self._training)
            guess = training_count / len(self._training) if guess is None else guess
        guess = 0.5 if guess is None else guess
        share = CountedShare(protected=_count(question, self._rows), training=training_count, guess=guess)
        interval, output = self._guard.ask(share)
        self.cell = self._guard.cell
        return AttackAnswer(min(1.0, max(0.0, guess + output.cell * self.cell)), interval.low, interval.high)


def _count(question: AttackQuestion, rows: Rows) -> int:
    values = question(rows)
    if not np.isin(values, (0.0, 1.0)).all():
        raise InvalidArgument("question", "a question whose values are 0 and 1", values, of="CodeAnswerer")
    return int(values.sum())


def through(guard: Guard, *, tail: Tail | None = None) -> Answerer:
    """A guard as an answerer, with any strategy; its columns are those of the attack's rows, in their order.

    A question that can be written as a condition is asked as ``guard.share``; any other as ``guard.custom``
    on the frame, with ``tail`` (independent rows without it), which not every strategy answers.
    """
    mean_tail = BoundedDifferences(1 / guard.rows, guard.rows) if tail is None else tail
    names = list(guard.schema)

    def answer(question: AttackQuestion) -> Any:
        if question.condition is not None:
            return guard.share(question.condition(names), guess=question.guess)

        def statistic(frame: Any) -> float:
            return float(question(frame.to_numpy()).mean())

        return guard.custom(statistic, tail=mean_tail, guess=question.guess)

    return answer


@dataclass(frozen=True, repr=False)
class _GivenTail(Dependence):
    """A model of which only the tail of a share is known."""

    n: int
    tail: Tail
    name: ClassVar[str] = "Rows with a given tail"

    @property
    def _stated(self) -> tuple[str, ...]:
        return ("A share of the rows has the tail that is given.",)

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        return (TailRow("given", "", self.tail),)

    def mean_tail(self, lo: float = 0.0, hi: float = 1.0) -> Tail:
        """The tail of a share."""
        return self.tail


@dataclass(frozen=True, kw_only=True)
class CountedShare(Question):
    """A share whose count in each part is known."""

    key: str = ""
    text: str = "share"
    low: float = 0.0
    high: float = 1.0
    guess: float | None = None
    kind: str = "share"
    training: int = 0
    protected: int

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        count = self.training if part.training else self.protected
        share = count / part.rows.count
        return Moments(part.rows.count, share, math.nan, share)

    @property
    def record(self) -> Any:
        return self.text


@dataclass
class CountedGuard:
    """One account over ``rows`` protected rows, which have this ``tail`` where they are not independent. With
    ``charges=False`` it never pays: the twin a test must catch."""

    rows: int
    training_rows: int = 0
    failure: float = 0.05
    error: float | None = None
    charges: bool = True
    tail: Tail | None = None
    weights: Weights = field(default_factory=Weights)
    account: Account = field(init=False)
    cell: float = field(init=False, default=math.nan)

    def __post_init__(self) -> None:
        self.account = Account(self.failure, weights=self.weights)
        training = _part(self.training_rows, training=True) if self.training_rows else None
        self._protected = _part(self.rows, training=False)
        self._strategy = CodeStrategy(self.rows, training, training, None, self.error)
        if self.tail is not None:
            self._strategy = replace(self._strategy, model=_GivenTail(self.rows, self.tail))

    def ask(self, question: CountedShare) -> tuple[Interval, Output]:
        """The released interval and output; ``cell`` is then the step of the grid that was used."""
        prepared, output = self.reveal(question)
        return prepared.interval(output), output

    def ask_all(self, questions: Sequence[CountedShare]) -> list[tuple[Interval, Output]]:
        """The same for a batch: questions that are fixed before the first of them is answered."""
        batch = self.account.for_batch(len(questions))
        answers = []
        for question in questions:
            account = replace(batch, experience=self.account.experience, learned=self.account.learned)
            prepared, output = self.reveal(question, account)
            answers.append((prepared.interval(output), output))
        return answers

    def reveal(self, question: CountedShare, account: Account | None = None) -> tuple[PreparedCode, Output]:
        """The output, charged, and what it was prepared from; the interval is not computed yet.

        ``account`` is what it is answered from, if that is not the account as it is now.
        """
        prepared = self._strategy.prepare_code(question, self.account if account is None else account)
        output = prepared.reading.output(self._protected, prepared.grid)
        charged = _charged(self.account, prepared, output)
        self.account = charged if self.charges else replace(charged, micro_nats=0, exact=0.0)
        self.cell = prepared.grid.cell
        return prepared, output


@dataclass
class CountedBoard:
    """A board of ``rows`` labels, none of them sealed, to which submissions are counts of right answers."""

    rows: int
    failure: float = 0.05
    start: float = 0.0
    account: Account = field(init=False)
    best: float = field(init=False)

    def __post_init__(self) -> None:
        self.account, self.best = Account(self.failure), self.start
        self._live = _part(self.rows, training=False)
        self._strategy = LadderStrategy(self.rows, 1 / math.sqrt(self.rows), True, lambda: self.best)

    def submit(self, right: int) -> tuple[Interval, bool]:
        """The released interval, and whether the submission beat the best by a step."""
        prepared = self._strategy.prepare(CountedShare(protected=right), self.account)
        output = prepared.reading.output(self._live, prepared.grid)
        self.account = _charged(self.account, prepared, output)
        self.best = prepared.grid.middle(output.cell)
        return prepared.interval(output), prepared.alphabet.surprises(output)


class _RowCount(TableRows):
    """A table of which only the number of rows is known: counts are simulated for more rows than memory
    holds."""

    def __init__(self, count: int) -> None:
        self.count = count


def _part(rows: int, *, training: bool) -> Part:
    return Part(_RowCount(rows), training=training, data_rows=rows)


def _charged(account: Account, prepared: PreparedCode, output: Output) -> Account:
    price = prepared.price(output)
    return account.after(
        account.charge(price),
        surprise=prepared.alphabet.surprises(output),
        exact=account.exact + price,
        learned=prepared.alphabet.after(output),
    )
