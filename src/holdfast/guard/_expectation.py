"""What public facts say about a question before any protected row is read, and which reading follows from them.

The training part is free to look at: it gives the guess, how much single values spread, and how many rows a filter lets
through. Where the caller brings the guess, a small pilot of the training part gives the other two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast import intervals
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.guard._question import Part, Question, StatisticQuestion
from holdfast.guard._readings import (
    BoundedMean,
    DeclaredTail,
    LowVarianceMean,
    MeanOfDependentRows,
    QuantileOfRows,
    Reading,
    ShareOfAll,
)
from holdfast.tails import Tail

# Room between what the training part predicts and where the next width class begins, in standard deviations.
_ROOM = 4.0
_RADIUS_CLASSES = 64


@dataclass(frozen=True)
class Expectation:
    """A guess, the standard deviation of its error, and the reading that will be used."""

    guess: float
    guess_error: float
    reading: Reading


@dataclass(frozen=True)
class _Sight:
    """What a look at training rows showed: ``passing`` of ``looked`` rows pass the filter, with this mean and spread."""

    looked: int
    passing: int
    mean: float
    spread: float


def _look(question: Question, part: Part | None) -> _Sight:
    """Look at training rows; without any, suppose half of the range and that half of the rows pass."""
    middle = (question.low + question.high) / 2
    if part is None:
        return _Sight(2, 1 if question.filtered else 2, middle, (question.high - question.low) / 2)
    moments = question.moments(part, squares=not question.binary)
    mean = moments.mean if moments.rows else middle
    spread = math.sqrt(moments.variance) if moments.variance >= 0 else _coin_spread(question, mean, moments.rows)
    return _Sight(part.rows.count, moments.rows, mean, spread)


def _coin_spread(question: Question, mean: float, rows: int) -> float:
    """The standard deviation of a value that is always at one end of the range, with one more of each kind than was seen."""
    width = question.high - question.low
    share = (min(max((mean - question.low) / width, 0.0), 1.0) * rows + 1) / (rows + 2)
    return width * math.sqrt(share * (1 - share))


def _count_floors(rows: int, sight: _Sight) -> tuple[int, ...]:
    """Class boundaries for the number of rows that pass: the predicted count less some room, then halves, then 0."""
    share = (sight.passing + 1) / (sight.looked + 2)
    deviation = math.sqrt(rows * share * (1 - share) * (1 + rows / sight.looked))
    floors = [max(1, math.floor(rows * share - _ROOM * deviation))]
    while floors[-1] > 1:
        floors.append(floors[-1] // 2)
    return (*floors, 0)


def _growing(first: float, limit: float) -> tuple[float, ...]:
    """Radii that double from ``first`` until ``limit``, which always suffices."""
    radii = [first]
    while radii[-1] < limit and len(radii) < _RADIUS_CLASSES - 1:
        radii.append(radii[-1] * 2)
    return (*(radius for radius in radii if radius < limit), limit)


def expect(
    question: Question, nats: float, *, rows: int, training: Part | None, pilot: Part | None, tail: Tail | None
) -> Expectation:
    """Everything decided before the protected rows are read, at failure probability exp(−nats).

    ``rows`` is the number of protected rows, ``tail`` the tail of a mean in the question's range when they depend on each
    other (None: independent).
    """
    if question.guess is None and training is None:
        raise QueryRejected(
            f"There is no training part to take a guess from: bring one, as in {question.text[:60]!r} with guess=0.5."
        )
    if isinstance(question, StatisticQuestion):
        return _expect_statistic(question, nats, training)
    if question.kind == "quantile":
        return _expect_quantile(question, nats, rows, training, tail)
    return _expect_mean(question, nats, rows, training, pilot, tail)


def _expect_mean(
    question: Question, nats: float, rows: int, training: Part | None, pilot: Part | None, tail: Tail | None
) -> Expectation:
    if question.guess is None:
        sight = _look(question, training)
        guess, seen = sight.mean, max(1, sight.passing)
    elif question.binary and not question.filtered:
        guess, seen = question.guess, rows
        sight = _Sight(2, 2, guess, _coin_spread(question, guess, rows))
    else:
        sight = _look(question, pilot)
        guess, seen = question.guess, rows
    floors = _count_floors(rows, sight) if question.filtered else (rows,)
    # A guess of the caller's own is taken to be as good as one from a fresh sample of the same size.
    expected = max(1.0, rows * sight.passing / sight.looked) if question.filtered else float(rows)
    error = sight.spread * math.sqrt(1 / expected + 1 / min(seen, expected))
    width = question.high - question.low
    error = max(error, width / (4 * expected))
    if tail is not None:
        return Expectation(guess, error, MeanOfDependentRows(question, nats, tail, rows, floors))
    if question.binary and not question.filtered:
        return Expectation(guess, error, ShareOfAll(question, nats, rows))
    plain = BoundedMean(question, nats, floors)
    if question.binary or floors[0] < 2:
        return Expectation(guess, error, plain)
    variance = sight.spread**2 + _ROOM * width * sight.spread * math.sqrt(1 / expected + 1 / max(1, sight.passing))
    variance = min(variance + width**2 * (_ROOM**2 / expected), width**2 / 2)
    radius = intervals.empirical_bernstein_radius(variance, floors[0], nats, width=width)
    if radius < plain.interval(guess, guess, 0).half_width:
        return Expectation(guess, error, LowVarianceMean(question, nats, _growing(radius, width)))
    return Expectation(guess, error, plain)


def _expect_statistic(question: StatisticQuestion, nats: float, training: Part | None) -> Expectation:
    guess = question.value(training) if question.guess is None and training is not None else question.guess
    # A tail with radius r at L nats is no wider than a normal with standard deviation r/√(2L).
    error = math.sqrt(2) * question.tail.radius_at(nats) / math.sqrt(2 * (nats + math.log(2)))
    return Expectation(guess, error, DeclaredTail(question, nats, question.tail))


def _expect_quantile(
    question: Question, nats: float, rows: int, training: Part | None, tail: Tail | None
) -> Expectation:
    level = question.checked.query.q
    reading = QuantileOfRows(question, nats, level, rows, (math.inf,), tail)
    lower, upper = reading.ranks(rows)
    if not question.filtered and (lower < 1 or upper > rows):
        raise NotEnoughRows(_rows_needed(reading, rows), rows, what=f"The {level:g}-quantile at this step")
    radius, guess = _seen_spacing(question, reading, rows, training)
    if question.guess is not None:
        guess = question.guess
    radius = max(radius, 2.0**-40 * max(1.0, abs(guess)))
    error = math.sqrt(2) * radius / math.sqrt(2 * nats)
    radii = _growing(radius, math.inf)
    return Expectation(guess, error, QuantileOfRows(question, nats, level, rows, radii, tail))


def _seen_spacing(question: Question, reading: QuantileOfRows, rows: int, training: Part | None) -> tuple[float, float]:
    """How far, in the training part, the order statistics lie from the quantile that bound it among ``rows`` rows."""
    if training is None:
        return 0.0, 0.0
    passing = 1.0

    def wanted(count: int) -> list[int]:
        lower, upper = reading.ranks(max(1, round(rows * count / training.rows.count)))
        expected = max(1, round(rows * count / training.rows.count))
        reach = 1.2 * max(reading.level - lower / expected, upper / expected - reading.level)
        levels = (reading.level - reach, reading.level, reading.level + reach)
        return [min(max(1, math.ceil(place * count)), count) for place in levels]

    count, values = question.order_statistics(training, wanted)
    if count == 0:
        return 0.0, 0.0
    return passing * max(values[1] - values[0], values[2] - values[1]), values[1]


def _rows_needed(reading: QuantileOfRows, rows: int) -> int:
    """The smallest power-of-two multiple of the rows at which both order statistics exist."""
    while True:
        rows *= 2
        lower, upper = reading.ranks(rows)
        if lower >= 1 and upper <= rows:
            return rows
