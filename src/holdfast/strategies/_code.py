"""The code guard: no noise, any fixed-query interval, pay for what an answer reveals.

A question is prepared from public facts alone: the guess, the reading, the cells, and the price of every
possible output. Then the rows are read once, the output is found, and its interval is released. Nothing else
is released. Proof: ``docs/theory/code-guard.md``, "The theorem".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from holdfast import search
from holdfast.answers import Left, Preview, perhaps_too_wide, tells_nothing
from holdfast.coding import (
    Account,
    Alphabet,
    Grid,
    LadderAlphabet,
    Output,
    after_expected,
    best_half_cell,
)
from holdfast.dependence import Dependence
from holdfast.errors import BudgetSpent, QueryRejected
from holdfast.intervals import Interval
from holdfast.readings import (
    Clipping,
    CurveQuestion,
    CurveReading,
    Expectation,
    Part,
    PublicFacts,
    Question,
    Reading,
    clipping_of,
    curve_by_bets,
    curve_reading,
    expect,
    keys_counted_by_cells,
    look,
    require_values_inside,
)
from holdfast.strategies._discover import (
    ClaimQuestion,
    PreparedClaim,
    claim_level,
    require_one_rate,
)
from holdfast.strategies._left import (
    Capacity,
    EvenShare,
    describe_unlimited,
    forecast_tail,
    tail_of_bounded_mean,
    widest_question,
)
from holdfast.strategies._strategy import Outcome
from holdfast.tails import Tail

# A cell may be so wide that the promise is kept wherever the statistic lies. Such a cell is used if half of
# it is at least this many deviations of the guess's error. Otherwise a cell is used that keeps the promise
# near the guess only. If the statistic then lies far from the guess, the answer is refused, and the refusal
# is paid for.
_COMFORT = 3.0


@dataclass(frozen=True)
class PreparedCode:
    """A question at one step, ready to be read: everything here is public.

    ``error`` is the promised half-width; None if none was promised. ``clipping`` is None if the answer says
    nothing about clipped values.
    """

    question: Question
    account: Account
    reading: Reading
    alphabet: Alphabet | LadderAlphabet
    error: float | None
    clipping: Clipping | None = None

    @cached_property
    def grid(self) -> Grid:
        """The cells."""
        return self.alphabet.grid

    def interval(self, output: Output) -> Interval:
        """The interval that an output stands for, clipped to the values the statistic can take."""
        return self.reading.interval(*self.grid.edges(output.cell), output)

    def price(self, output: Output) -> float:
        """The price of an output in nats, if no more is clipped than was predicted."""
        price = self.alphabet.price(output)
        return price if self.clipping is None else price + self.clipping.price(False)

    @property
    def failure_price(self) -> float:
        """The price in nats if the rows cannot be read."""
        return self.alphabet.failure_price

    @property
    def worst_price(self) -> float:
        """The highest price in the whole alphabet, a failure included, whatever others of its batch
        reveal."""
        worst = self.alphabet.worst_price(self.account.together - 1)
        return worst if self.clipping is None else worst + self.clipping.price(True)

    def keeps(self, places: Iterable[float], *, likely: bool = True) -> bool:
        """Whether the interval keeps the promised error if the statistic is at any of these places. Its arms
        are as long as they rarely are or, if not ``likely``, as long as expected."""
        cells = (self.grid.edges(self.grid.index(place)) for place in places)
        return self.error is None or all(
            self.reading.widest(*edges, likely=likely).half_width <= self.error for edges in cells
        )

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book distinguishes this plan from others."""
        arms = self.reading.arms
        return {
            "guess": self.grid.guess,
            "cell": self.grid.cell,
            "nats": self.reading.nats,
            "interval": self.reading.theorem,
            "arms": None if arms is None else [arms.error, arms.step, arms.first, arms.last],
        }

    def half_width_near_guess(self) -> float:
        """The widest half-width to expect near the guess: a forecast from public facts."""
        cells = (self.grid.edges(self.grid.index(place)) for place in _near(self.grid))
        return max(self.reading.widest(*edges, likely=False).half_width for edges in cells)

    def preview(self) -> Preview:
        """What the question would cost and show."""
        interval, question = self.interval(Output(0)), self.question
        sure = self.error is None or (self.reading.arms is None and self.keeps(_all_over(self.grid)))
        return Preview(
            query=self.question.record,
            guess=self.grid.guess,
            low=interval.low,
            high=interval.high,
            cell=self.grid.cell,
            if_confirmed=self.price(Output(0)),
            if_surprised=self.price(self.alphabet.nearest_surprise),
            at_most=self.worst_price,
            why=tells_nothing(interval.low, interval.high, question.low, question.high)
            if sure or self.error is None
            else perhaps_too_wide(self.error),
        )

    def read(self, part: Part) -> Outcome:
        """Read the rows once. What leaves depends on the output and on public facts, and on nothing else."""
        reading, alphabet, grid, clipping = self.reading, self.alphabet, self.grid, self.clipping
        if not reading.by_sums:  # A scan by cells also counts clipped values, among the moments.
            part = replace(part, moments=dict(part.moments), clipped=keys_counted_by_cells(self.question))
        output = reading.output(part, grid)
        beyond = clipping is not None and clipping.beyond(part)
        interval = reading.interval(*grid.edges(output.cell), output)
        surprise, price, middle = alphabet.surprises(output), alphabet.price(output), grid.middle(output.cell)
        learned = alphabet.after(output)
        notes: tuple[str, ...] = ()
        if clipping is not None:
            price += clipping.price(beyond)
            notes = (clipping.note(part.rows.count),) if beyond else ()
        if self.error is not None and interval.half_width > self.error:
            return Outcome(price, surprise, None, learned)
        return Outcome(price, surprise, self._released(output, interval, middle, notes, surprise), learned)

    def failed(self) -> Outcome:
        """The outcome if the rows could not be read."""
        return Outcome(
            price=self.failure_price, surprise=True, released=None, learned=self.alphabet.after(None)
        )

    def _released(
        self, output: Output, interval: Interval, middle: float, notes: tuple[str, ...], surprise: bool
    ) -> dict[str, Any]:
        question, account, guess = self.question, self.account, self.grid.guess
        value = (question.low + question.high) / 2 if output.whole else middle
        if not math.isfinite(value):
            value = guess
        numbers: dict[str, Any] = {
            "question": account.steps + 1,
            **({"asked together": account.together} if account.together > 1 else {}),
            "nats spent before": account.spent,
            "nats of this interval": self.reading.nats,
            "cell": self.grid.cell,
            "cells from the guess": output.cell,
        }
        if self.reading.arms is not None:
            numbers["class of the arms"] = "the whole range" if output.whole else output.arm
        return question.released(
            value=min(max(value, question.low), question.high),
            interval=interval,
            guess=guess,
            confirmed=not surprise,
            theorem=self.reading.theorem,
            numbers=numbers,
            more=notes,
        )


@dataclass(frozen=True)
class CodeStrategy:
    """How the code guard prepares a question for one dataset."""

    rows: int
    training: Part | None
    pilot: Part | None
    model: Dependence | None
    error: float | None
    units: tuple[int, ...] = ()  # how many protected rows are in units, for each way to divide them
    bias: float = 0.0  # how far the rows are from what the proofs assume, in total variation

    failure_closes = False  # A failure is one of the outputs that have a price.

    theorem = "the code guard (docs/theory/code-guard.md)"
    unit = book_unit = "nats"
    together = True

    @cached_property
    def joins(self) -> bool:
        """Whether single questions of several people can share scans and writes. Not under a promised error:
        there, preparing a question twice takes longer than reading it."""
        return self.error is None

    def spent(self, account: Account) -> float:
        """Nats spent so far."""
        return account.spent

    def cost(self, price: float) -> float:
        """The price of an answer, in nats."""
        return price

    @cached_property
    def capacity(self) -> Capacity | None:
        """How many nats the promised error allows; None if none was promised."""
        if self.error is None:
            return None
        tail = None if self.model is None else forecast_tail(self.model, self.units)
        return Capacity.of(self.error, self.rows, tail)

    def left(self, account: Account) -> Left:
        """What is left of the promise, in nats and in words."""
        question = widest_question(self.model, guessed=self.training is not None)
        try:
            half_width = self.prepare_code(question, account).interval(Output(0)).half_width
        except BudgetSpent:
            half_width = math.inf
        if self.capacity is None:
            half_width_after = partial(self._half_width_after, question, account)
            return describe_unlimited(question, half_width, half_width_after)
        best = self._best_if_too_wide(question, account) if math.isinf(half_width) else None
        return self.capacity.describe(
            account, question, half_width, "" if best is None else self._too_few_rows(best)
        )

    def _half_width_after(self, question: Question, account: Account, questions: int) -> float:
        """The half-width of a question after others whose guesses are as good as expected: a forecast."""
        expected = expect(question, self._public(question, account.nats()))
        arm = expected.reading.around(expected.guess, expected.guess).half_width
        later = after_expected(account, expected.guess_error, arm, questions)
        return self.prepare_code(question, later).interval(Output(0)).half_width

    def look(self, questions: Sequence[Question]) -> None:
        """Look at the training rows for what preparing these questions needs of them."""
        look(questions, self.training, self.pilot, in_units=bool(self.units))

    def prepare(self, question: Question, account: Account) -> PreparedCode | PreparedClaim:
        """Decide everything about a question without reading the protected rows.

        Raises :class:`BudgetSpent` if even a confirmed guess would be wider than the promised error.
        """
        if isinstance(question, ClaimQuestion):
            return self._claim(question, account)
        return self.prepare_code(question, account)

    def prepare_code(self, question: Question, account: Account) -> PreparedCode:
        """As :meth:`prepare`, for every question but a claim."""
        expected = self._expected(question, account.nats())
        if question.clips:
            require_values_inside(question, self.training)
        if self.error is None:
            interval = expected.reading.around(expected.guess, expected.guess)
            arm = interval.high / 2 - interval.low / 2  # A forecast needs no rounding to one side.
            half_cell = best_half_cell(account, expected.guess_error, arm, nats=question.nats)
            return self._on_grid(question, account, expected, half_cell)
        if question.nats is not None:
            half_cell = best_half_cell(account, expected.guess_error, 0.0, nats=question.nats)
            finer = self._on_grid(question, account, expected, half_cell)
            if finer.keeps(_near(finer.grid)):
                return finer
        everywhere = self._widest(question, account, expected, _all_over)
        if everywhere is not None and everywhere.grid.cell >= 2 * _COMFORT * expected.guess_error:
            return everywhere
        near = self._nearby(question, account, expected)
        if near is None:
            raise self._refusal(account, question)
        return near

    def _claim(self, question: ClaimQuestion, account: Account) -> PreparedClaim:
        require_one_rate(account.learned, question.rate)
        if not question.rate > self.bias:
            raise QueryRejected(
                f"A rate of {question.rate:g} must be above {self.bias:.3g}, the distance of these rows from "
                "independent units. Ask with a larger rate."
            )
        level = claim_level(account, question.rate - self.bias)
        # A one-sided test at α′ is one side of the interval at 2α′, if each side has half of the error.
        reading = self.exact(question.about, max(0.0, level - math.log(2)))
        if not reading.halves:
            reading = self.exact(question.about, level)
        return PreparedClaim(question, reading, level, account.learned)

    def _expected(self, question: Question, nats: float) -> Expectation:
        if isinstance(question, CurveQuestion):
            return Expectation(0.0, 0.5, self._curve(question, nats))
        return expect(question, self._public(question, nats))

    def _curve(self, question: CurveQuestion, nats: float) -> CurveReading:
        """The narrowest available reading of a whole distribution."""
        training = self.training
        if self.model is None or training is None:
            return curve_reading(question, self.rows, training.rows.count if training else 0, nats)
        readings = [
            curve_by_bets(question, nats, rows, training.units[layout], layout, 0.0)
            for layout, rows in enumerate(self.units)
            if training.units[layout].rows.count
        ]
        norm = self.model.operator_norm
        if norm is not None and training.rows.count:
            readings.append(curve_by_bets(question, nats, self.rows, training, None, norm))
        return min(readings, key=lambda reading: reading.expected)

    def _nearby(self, question: Question, account: Account, expected: Expectation) -> PreparedCode | None:
        """The widest cell that keeps the promise near the guess: with room for its arms, or else without."""
        with_room = self._widest(question, account, expected, _near)
        if with_room is not None or expected.reading.arms is None:
            return with_room
        return self._widest(question, account, expected, _near, likely=False)

    def exact(self, question: Question, nats: float) -> Reading:
        """The reading of a question of a report, after which nothing is asked. It needs no guess: the
        training part only chooses what makes the interval narrow."""
        no_guess = question.guess is None and (self.training is None or not question.in_training)
        if no_guess:
            bounded = math.isfinite(question.low + question.high)
            question = replace(question, guess=(question.low + question.high) / 2 if bounded else 0.0)
        return self._expected(question, nats).reading

    def _public(self, question: Question, nats: float) -> PublicFacts:
        """The public facts about a question at so many nats."""
        tail_of = None if self.model is None else partial(tail_of_bounded_mean, self.model)
        return PublicFacts(
            nats,
            self.rows,
            self.training,
            self.pilot,
            self._tail(question),
            tail_of,
            by_cells=True,
            units=self.units,
            norm=None if self.model is None else self.model.operator_norm,
        )

    def _tail(self, question: Question) -> Tail | None:
        """The tail of a mean in the question's range, if rows depend on each other. A quantile is read off
        shares."""
        bounds = {
            "share": (0.0, 1.0),
            "mean": (question.low, question.high),
            "quantile": (0.0, 1.0),
        }
        if self.model is None or question.kind not in bounds:
            return None
        if isinstance(question, EvenShare):
            return forecast_tail(self.model, self.units)
        return tail_of_bounded_mean(self.model, *bounds[question.kind])

    def _widest(
        self,
        question: Question,
        account: Account,
        expected: Expectation,
        places: Callable[[Grid], Iterable[float]],
        *,
        likely: bool = True,
    ) -> PreparedCode | None:
        """The widest cell, up to a thousandth, that keeps the promise at these places. It reveals least."""
        assert self.error is not None

        def keeps(half_cell: float) -> bool:
            candidate = self._on_grid(question, account, expected, half_cell)
            return candidate.keeps(places(candidate.grid), likely=likely)

        most = 2 * self.error
        half_cell = search.edge(keeps, 0.0, most, relative=0.0, absolute=most * 2.0**-12)
        return self._on_grid(question, account, expected, half_cell) if half_cell > 0 else None

    def _on_grid(
        self, question: Question, account: Account, expected: Expectation, half_cell: float
    ) -> PreparedCode:
        # A curve has one cell: its band follows from the arms alone.
        cell = 4.0 if question.kind == "cdf" else 2 * half_cell
        grid = Grid(question.low, question.high, expected.guess, cell)
        alphabet = Alphabet(grid, expected.guess_error, expected.reading.arms, account.learned)
        clipping = clipping_of(question, self.training) if question.clips else None
        return PreparedCode(question, account, expected.reading, alphabet, self.error, clipping)

    def _refusal(self, account: Account, question: Question) -> BudgetSpent:
        """Explain the refusal: either too much was spent, or the question could never have been answered."""
        left = self.capacity.left(account) if self.capacity else None
        best = self._best_if_too_wide(question, account)
        if best is not None:
            reason = (
                f": {self._too_few_rows(best)}. Promise a wider error, bring more rows, or ask in larger "
                "units."
            )
        else:
            reason = (
                f" cannot be answered within the promised ±{self.error:g} any more: {account.spent:.3g} nats "
                f"are spent on {account.steps} questions, and {left:.3g} are left for a share. Questions "
                "that were answered before stay free. New ones need a wider promise or fresh rows."
            )
        return BudgetSpent(f"{question.text}{reason}", asked=0.0, spent=account.spent, left=left)

    def _best_if_too_wide(self, question: Question, account: Account) -> float | None:
        """The half-width of this answer if it was the first of the account. None if it keeps the promise."""
        unused = Account(account.failure, weights=account.weights)
        expected = expect(question, self._public(question, unused.nats()))
        if self._nearby(question, unused, expected) is not None:
            return None
        return self._on_grid(question, unused, expected, (self.error or 1.0) / 1000).half_width_near_guess()

    def _too_few_rows(self, best: float) -> str:
        return (
            f"{self.rows:,} protected rows cannot give ±{self.error:g}; the best here is about "
            f"±{float(f'{best:.2g}'):,g}"
        )


def _near(grid: Grid) -> Iterable[float]:
    """Places around the guess. One of them is the nearest to the middle of the range, where intervals are
    widest."""
    around = tuple(grid.middle(cell) for cell in (-2, 0, 2))
    if not math.isfinite(grid.low + grid.high):
        return around
    return (*around, min(max((grid.low + grid.high) / 2, around[0]), around[2]))


def _all_over(grid: Grid) -> Iterable[float]:
    """Places all over the range: no interval is wider than those near one of these places. Intervals are
    widest around the middle of the range."""
    if not math.isfinite(grid.low + grid.high):
        return _near(grid)
    middle = (grid.low + grid.high) / 2
    return (grid.guess, middle - grid.cell, middle, middle + grid.cell)
