"""Quantiles of rows in units, or of a chain: which order statistics bound one, by a product of bets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast import queries
from holdfast.engines import SCALE_BITS
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.guard._question import Part, TableQuestion
from holdfast.guard._readings import Measured, Reading
from holdfast.intervals import Interval
from holdfast.statistics import Bets, Cells, Form, Mean, Steps

# Order statistics are tried at so many places on either side of the quantile, the farthest this many times as
# far out as the training part predicts.
_PLACES, _FARTHEST = 32, 4.0
_LN2 = math.log(2.0)
FARTHER = (1, 2, 4, 8, 16)
"""How much farther out order statistics are looked at where those that bound a quantile are tied with it."""
_TIED = 1 / 8
# A condition is 0 or 1, each in a cell of its own.
HALVES = (Steps(0, SCALE_BITS - 1, 2), Steps(0, 0, 1))
_SHARE = Form.of((0.0, 1.0, 0, 0, 0, 0), (1.0, 0, 0, 0, 0, 0))


@dataclass(frozen=True)
class QuantileByBets(Reading):
    """A quantile of rows in units, read in one ``layout``; or of a stationary chain of a ``norm`` above 0.

    For a fixed t, whether a row is below t is a condition, and its share among the rows that enter is a ratio
    of means. At a t above the quantile that share is at least ``level``. So no t lies above the quantile at
    which a product of bets shows that it is less, and the product falls in t. From above it is the same, with
    the share of rows that are at most t. So tied values are ends of the interval themselves.

    ``expected`` are the arms that the training part predicts, ``reach`` how far from the level, as a share of
    the rows that enter, the order statistics lie that bound the quantile, and ``trained`` what it shows of
    the rows below its own quantile and of those up to it. Where values are tied these differ.
    """

    question: TableQuestion
    layout: int | None
    norm: float
    expected: tuple[float, float]
    reach: float
    trained: tuple[Cells, Cells]

    @property
    def theorem(self) -> str:
        source = "for a stationary chain" if self.norm else "over independent units of rows"
        return f"order statistics, by a product of bets {source}"

    def around(self, low: float, high: float) -> Interval:
        return Interval(low - self.expected[0], high + self.expected[1])

    def estimate(self, part: Part) -> float:
        raise TypeError("a quantile is measured with its order statistics")

    def measured(self, part: Part) -> Measured | None:
        part = part if self.layout is None else part.units[self.layout]
        level = self.question.level
        steps = [_FARTHEST * self.reach * step / _PLACES for step in range(1, _PLACES + 1)]
        levels = [*(level - step for step in reversed(steps)), level, *(level + step for step in steps)]

        def wanted(count: int) -> list[int]:
            return [min(max(1, math.ceil(share * count)), count) for share in levels] if count else []

        count, values = self.question.order_statistics(part, wanted)
        if count == 0 or not all(map(math.isfinite, values)):
            return None
        middle = values[_PLACES]
        lower = _last(values[:_PLACES], lambda t: self._shows(part, t, above=False))
        upper = _last(values[:_PLACES:-1], lambda t: self._shows(part, t, above=True))
        if lower is None or upper is None:
            return None
        return Measured(middle, Interval(min(lower, middle), max(upper, middle)))

    def _shows(self, part: Part, t: float, *, above: bool) -> bool:
        """Whether the rows show that the share of rows below t is less than the level; with ``above``, that
        the share of rows up to t is more."""
        cells = share_up_to(self.question, t, "<=" if above else "<").cells(part, HALVES)
        cells = replace(cells, norm=self.norm, all_rows=part.rows.count)
        evidence, nats = Bets(cells, self.trained[above]), self.nats + _LN2
        if above:
            return evidence.lower(_SHARE, nats) > self.question.level
        return evidence.upper(_SHARE, nats) < self.question.level


def _last(places: Sequence[float], shows: Callable[[float], bool]) -> float | None:
    """The last of these places at which something is shown that holds at all places before; None where it is
    not shown at the first."""
    low, high = -1, len(places)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if shows(places[middle]) else (low, middle)
    return None if low < 0 else places[low]


def share_up_to(question: TableQuestion, t: float, op: str = "<=") -> TableQuestion:
    """The share of the rows of a quantile's question that are at most t, or less."""
    query = question.checked.query
    missing = query.missing <= t if op == "<=" else query.missing < t
    share = queries.share(
        f"({query.expression.text}) {op} {t!r}",
        where=None if query.where is None else query.where.text,
        nulls="skip" if query.nulls == "skip" else missing,
    )
    return TableQuestion.of(share.check(question.checked.columns, frozenset()))


@dataclass(frozen=True)
class ExpectedQuantile:
    """What is expected of a quantile in units: its guess, the deviation of the guess's error, how well the
    logarithm of an arm is known, and its reading but for the classes of its arms."""

    guess: float
    error: float
    arm_error: float
    reading: QuantileByBets


def expected_quantile(
    question: TableQuestion,
    nats: float,
    rows: int,
    training: Part | None,
    layout: int | None,
    norm: float = 0.0,
) -> ExpectedQuantile:
    """What the training part, in units or as a chain, predicts of a quantile of so many protected rows."""
    if training is None:
        raise QueryRejected(
            f"{question.text} needs training rows where rows are not independent: leave training_share as it "
            "is, or give train=."
        )
    (middle,) = _order(question, training, [question.level])
    ratio = rows / max(1, training.rows.count)
    below, upto = (
        replace(
            share_up_to(question, middle, op).cells(training, HALVES).times(ratio), norm=norm, all_rows=rows
        )
        for op in ("<", "<=")
    )
    reach = max(Mean().interval(Bets(cells, cells), nats).half_width for cells in (below, upto))
    if not 0 < reach < min(question.level, 1 - question.level):
        raise NotEnoughRows(
            math.ceil(2 * rows * reach / min(question.level, 1 - question.level)) if reach < 1 else 4 * rows,
            rows,
            what=f"The {question.level:g}-quantile at this step",
        )
    levels = [question.level + side * factor * reach for side in (-1, 1) for factor in FARTHER]
    values = _order(question, training, levels)
    guess = middle if question.guess is None else question.guess
    least = 2.0**-40 * max(1.0, abs(guess))
    arms = spacing(middle, values[: len(FARTHER)], values[len(FARTHER) :])
    expected = max(arms[0], least), max(arms[1], least)
    behind = 1.0 if question.guess is not None else 1 + 1 / ratio
    error = sum(expected) / 2 / math.sqrt(2 * (nats + _LN2)) * math.sqrt(1 + behind)
    between = max(1.0, 2 * reach * upto.count)
    reading = QuantileByBets(question, nats, None, layout, norm, expected, reach, (below, upto))
    return ExpectedQuantile(guess, error, math.sqrt((1 + 1 / ratio) / between), reading)


def spacing(middle: float, below: Sequence[float], above: Sequence[float]) -> tuple[float, float]:
    """How far the first of the order statistics below and above a quantile are from it. Where they are tied
    with it, a part of the way to the nearest farther out that are not."""
    lower, upper = (
        lengths[0] or _TIED * next((length for length in lengths if length > 0), 0.0)
        for lengths in ([middle - value for value in below], [value - middle for value in above])
    )
    return lower, upper


def _order(question: TableQuestion, training: Part, levels: Sequence[float]) -> list[float]:
    """The values of the training rows at these levels."""
    _, values = question.order_statistics(
        training,
        lambda count: [min(max(1, math.ceil(level * count)), count) for level in levels] if count else [],
    )
    if not values or not all(map(math.isfinite, values)):
        raise QueryRejected(f"No training row has a finite value for {question.text}.")
    return [float(value) for value in values]
