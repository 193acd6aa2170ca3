"""What public facts say about a question before any protected row is read, and which reading follows from
them.

The training part is free to look at: it gives the guess, how much single values spread, and how many rows a
filter lets through. Where the caller brings the guess, a small pilot of the training part gives the other
two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast import intervals
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.guard._question import Part, Question, StatisticQuestion, TableQuestion
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
# Wider than so many doublings is told as no bound at all: each doubling costs ln 2 nats.
_MOST_CLASSES = 32


@dataclass(frozen=True)
class Public:
    """What is public at one step: the nats, the number of protected rows, the training part (and a small
    pilot of it), and the tail of a mean in the question's range where the rows depend on each other (None:
    independent)."""

    nats: float
    rows: int
    training: Part | None
    pilot: Part | None
    tail: Tail | None


@dataclass(frozen=True)
class Expectation:
    """A guess, the standard deviation of its error, and the reading that will be used."""

    guess: float
    guess_error: float
    reading: Reading


def expect(question: Question, public: Public) -> Expectation:
    """Everything about a question that is decided before the protected rows are read."""
    if question.guess is None and (public.training is None or not question.in_training):
        raise QueryRejected(
            "There are no training rows to take a guess from: bring one with the question, as in guess=0.5 "
            f"({question.text})."
        )
    if isinstance(question, StatisticQuestion):
        return _expect_statistic(question, public)
    if question.kind == "quantile":
        return _expect_quantile(question, public)
    return _expect_mean(question, public)


def look_ahead(question: Question, training: Part | None, pilot: Part | None) -> bool:
    """Look at what :func:`expect` will need of the free rows; whether it needs no more of them then."""
    if not isinstance(question, TableQuestion) or question.kind == "quantile":
        return False
    part = training if question.guess is None else pilot
    if part is not None and (question.guess is None or not _needs_no_look(question)):
        _look(question, part)
    return True


def _needs_no_look(question: Question) -> bool:
    """Whether a guess says all there is to know of a question beforehand."""
    return question.binary and not question.filtered


@dataclass(frozen=True)
class _Sight:
    """What a look at training rows showed: ``passing`` of ``looked`` rows pass the filter, with this mean and
    spread.

    Without a look, half of the rows are supposed to pass, and to lie at either end of the range.
    """

    looked: int
    passing: int
    mean: float
    spread: float

    @property
    def share(self) -> float:
        """The share of rows that passes, with one more of each kind than was seen."""
        return (self.passing + 1) / (self.looked + 2)


def _look(question: Question, part: Part | None) -> _Sight:
    middle, width = (question.low + question.high) / 2, question.high - question.low
    if part is None or not question.in_training:
        return _Sight(0, 0, middle, width / 2)
    moments = question.moments(part, squares=not question.binary)
    mean = moments.mean if moments.rows else middle
    known = not question.binary and moments.rows > 1
    spread = math.sqrt(moments.variance) if known else _coin_spread(question, mean, moments.rows)
    return _Sight(part.rows.count, moments.rows, mean, spread)


def _coin_spread(question: Question, mean: float, rows: int) -> float:
    """The standard deviation of a value at one end of the range or the other, with one more of each than was
    seen."""
    width = question.high - question.low
    share = (min(max((mean - question.low) / width, 0.0), 1.0) * rows + 1) / (rows + 2)
    return width * math.sqrt(share * (1 - share))


def _expect_mean(question: Question, public: Public) -> Expectation:
    rows, width = public.rows, question.high - question.low
    if question.guess is None:
        sight = _look(question, public.training)
        guess, behind_guess = sight.mean, float(max(1, sight.passing))
    else:
        # A guess of the caller's own is taken to be as good as one from a fresh sample of the same size.
        guess, behind_guess = question.guess, math.inf
        if _needs_no_look(question):
            sight = _Sight(rows, rows, guess, _coin_spread(question, guess, rows))
        else:
            sight = _look(question, public.pilot)
    passing = max(1.0, rows * sight.share) if question.filtered else float(rows)
    floors = _count_floors(rows, sight) if question.filtered else (rows,)
    error = max(sight.spread * math.sqrt(1 / passing + 1 / min(behind_guess, passing)), width / (4 * passing))
    if public.tail is not None:
        error = max(error, _error_within(public.tail, public.nats))
        return Expectation(
            guess, error, MeanOfDependentRows(question, public.nats, floors, public.tail, rows)
        )
    if question.binary and not question.filtered:
        return Expectation(guess, error, ShareOfAll(question, public.nats, rows))
    plain = BoundedMean(question, public.nats, floors)
    if not question.binary and floors[0] > 1:
        variance = _largest_variance(sight, passing, width)
        radius = intervals.empirical_bernstein_radius(variance, floors[0], public.nats, width=width)
        if radius < plain.interval(guess, guess, 0).half_width:
            return Expectation(guess, error, LowVarianceMean(question, public.nats, _doubling(radius, width)))
    return Expectation(guess, error, plain)


def _count_floors(rows: int, sight: _Sight) -> tuple[int, ...]:
    """Class boundaries for the number of rows that pass: the predicted count less some room, then halves,
    then 0."""
    share = sight.share
    deviation = math.sqrt(rows * share * (1 - share) * (1 + rows / sight.looked)) if sight.looked else 0.0
    floors = [max(1, math.floor(rows * share - _ROOM * deviation))]
    while floors[-1] > 1:
        floors.append(floors[-1] // 2)
    return (*floors, 0)


def _largest_variance(sight: _Sight, passing: float, width: float) -> float:
    """The variance to be expected among the protected rows, with room: (x − μ)² is at most width²."""
    seen = max(1, sight.passing)
    room = _ROOM * width * sight.spread * math.sqrt(1 / passing + 1 / seen) + _ROOM**2 * width**2 / passing
    return min(sight.spread**2 + room, width**2 / 2)


def _doubling(first: float, limit: float) -> tuple[float, ...]:
    """Radii that double from ``first``; the last one is ``limit``, which always suffices."""
    radii = [first * 2.0**step for step in range(_MOST_CLASSES - 1)]
    return (*(radius for radius in radii if radius < limit), limit)


def _expect_statistic(question: StatisticQuestion, public: Public) -> Expectation:
    guess = question.guess
    if guess is None and public.training is not None:
        guess = question.value(public.training)
    if guess is None:
        raise AssertionError("expect() asks for a guess where there is no training part")
    return Expectation(guess, _error_within(question.tail, public.nats), DeclaredTail(question, public.nats))


def _error_within(tail: Tail, nats: float) -> float:
    """The error of a guess from a fresh sample, if both samples were normal with this tail's radius at these
    nats."""
    return math.sqrt(2) * tail.radius_at(nats) / math.sqrt(2 * (nats + math.log(2)))


def _expect_quantile(question: Question, public: Public) -> Expectation:
    reading = QuantileOfRows(question, public.nats, (math.inf,), public.rows, public.tail)
    lower, upper = reading.ranks(public.rows)
    if not question.filtered and (lower < 1 or upper > public.rows):
        raise NotEnoughRows(
            _rows_needed(reading), public.rows, what=f"The {question.level:g}-quantile at this step"
        )
    guess, radius = _seen_spacing(question, reading, public)
    guess = guess if question.guess is None else question.guess
    radius = max(radius, 2.0**-40 * max(1.0, abs(guess)))
    error = math.sqrt(2) * radius / math.sqrt(2 * (public.nats + math.log(2)))
    reading = QuantileOfRows(question, public.nats, _doubling(radius, math.inf), public.rows, public.tail)
    return Expectation(guess, error, reading)


def _seen_spacing(question: Question, reading: QuantileOfRows, public: Public) -> tuple[float, float]:
    """The quantile in the training part, and how far from it the order statistics lie that bound it among as
    many rows as will be read, a fifth farther out."""
    training, unseen = public.training, 2.0**-7 * max(1.0, abs(question.guess or 0.0))
    if training is None:
        return 0.0, unseen

    def wanted(count: int) -> list[int]:
        passing = max(1, round(public.rows * count / training.rows.count))
        lower, upper = reading.ranks(passing)
        reach = 1.2 * max(question.level - lower / passing, upper / passing - question.level)
        levels = (question.level - reach, question.level, question.level + reach)
        return [min(max(1, math.ceil(level * count)), count) for level in levels] if count else []

    _, values = question.order_statistics(training, wanted)
    if not values or not math.isfinite(values[1]):
        return 0.0, unseen
    spacing = max(values[1] - values[0], values[2] - values[1])
    return values[1], spacing if math.isfinite(spacing) else unseen


def _rows_needed(reading: QuantileOfRows) -> int:
    """The number of rows, up to a factor of two, from which both order statistics exist."""
    rows = reading.rows
    while True:
        rows *= 2
        lower, upper = reading.ranks(rows)
        if lower >= 1 and upper <= rows:
            return rows
