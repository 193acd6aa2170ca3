"""Fair coins as the guard's own strategy sees them, without a database: thousands of runs in seconds.

Everything that decides validity is the product's own code (prior, account, grid, readings); only the sums of
the rows come from numpy instead of SQL.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from holdfast.guard._account import Account
from holdfast.guard._code import CodeStrategy
from holdfast.guard._question import Moments, Part, Question
from holdfast.guard._readings import Output
from holdfast.intervals import Interval


@dataclass(frozen=True)
class CountedRows:
    """Stands where a table would: only its number of rows is used."""

    count: int


@dataclass(frozen=True, kw_only=True)
class CountQuestion(Question):
    """A share whose count in each part is known to the test."""

    training_count: int = 0
    protected_count: int = 0

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        count = self.training_count if part.training else self.protected_count
        return Moments(part.rows.count, count / part.rows.count, float("nan"))

    @property
    def record(self) -> str:
        return self.text


def share(protected_count: int, *, training_count: int = 0, guess: float | None = None) -> CountQuestion:
    return CountQuestion(
        key="",
        text="share",
        low=0.0,
        high=1.0,
        guess=guess,
        kind="share",
        training_count=training_count,
        protected_count=protected_count,
    )


@dataclass
class CoinGuard:
    """One account over ``rows`` protected rows; ``charges`` False is the sabotaged twin that never pays."""

    rows: int
    training_rows: int = 0
    failure: float = 0.05
    charges: bool = True
    error: float | None = None
    account: Account = field(init=False)
    cell: float = field(init=False, default=math.nan)  # of the last question, as its preview would show

    def __post_init__(self) -> None:
        self.account = Account(self.failure)
        training = (
            Part(CountedRows(self.training_rows), training=True, data_rows=0) if self.training_rows else None
        )
        self.protected = Part(CountedRows(self.rows), training=False, data_rows=0)
        self.strategy = CodeStrategy(self.rows, training, training, None, self.error)

    def ask(self, question: Question) -> tuple[Interval, Output]:
        prepared = self.strategy.prepare(question, self.account)
        self.cell = prepared.grid.cell
        output = prepared.reading.output(self.protected, prepared.grid)
        price = prepared.price(output)
        after = self.account.after(
            self.account.charge(price), surprise=not output.confirmed, exact=self.account.exact + price
        )
        self.account = after if self.charges else replace(after, micro_nats=0, exact=0.0)
        return prepared.interval(output), output
