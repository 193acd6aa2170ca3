"""What public facts say about a question before any protected row is read, and which reading follows.

The training part is free to look at. It gives the guess, how much single values spread, and how many rows a
filter lets through. If the caller gives the guess, a small pilot of the training part gives the other two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from holdfast import intervals
from holdfast.coding import ArmClasses, guess_deviation
from holdfast.engines import sums_of_all
from holdfast.errors import NotEnoughRows, QueryRejected
from holdfast.intervals import Interval
from holdfast.readings._by_cells import (
    FARTHER,
    ByCells,
    Trained,
    even_steps,
    expected_quantile,
    interval_of,
    require_training,
    spacing,
)
from holdfast.readings._clipping import possible_clipping
from holdfast.readings._question import (
    CellQuestion,
    Moments,
    Part,
    Question,
    StatisticQuestion,
    TableQuestion,
)
from holdfast.readings._readings import (
    DeclaredTail,
    MeanByBets,
    MeanOfDependentRows,
    QuantileOfRows,
    Ranks,
    Reading,
    Share,
    ShareOfChain,
    bets_interval,
)
from holdfast.statistics import AUC, Mean, Statistic
from holdfast.tails import Tail

# How well the logarithm of an arm is known beforehand, at best and at worst.
_ARM_ERRORS = (0.01, 0.5)
# Without training rows an average of bets is used, for so many standard deviations: half of the range, then
# half of that, and so on.
_UNSEEN_SPREADS = 5
# For bets larger than this, the bound by two sums makes arms longer by two hundredths or more.
_LARGE_BET = 0.1
_FEW_SEEN = 30  # training rows that enter
# In ranges of this size the fourth power of a value is still a float.
_SQUARED = (1e-60, 1e60)
# The deviation of the absolute value of a normal error is this many times its mean.
_BOX_ERROR = 0.75
# A training part shows whether a filter lets anything through if it has at least so many rows, and at least
# one row for so many protected ones.
_ENOUGH_LOOKED, _MOST_FOR_ONE = 30, 10
# If training values do not vary at all, this part of the range is used as their deviation.
_LEAST_DEVIATION = 1e-6


@dataclass(frozen=True)
class PublicFacts:
    """What is known about the rows without reading protected ones: the nats of a question, the number of
    protected rows, the training part (and a small pilot of it), and the tail of a mean in the question's
    range if rows depend on each other (None: independent).

    ``tail_of`` gives the tail of a mean in any other range. With ``by_cells`` a mean may be read off cells if
    that is narrower. ``units`` are the numbers of protected rows that are in units, one for each way to
    divide them. ``norm`` is the operator norm of a stationary chain."""

    nats: float
    rows: int
    training: Part | None
    pilot: Part | None
    tail: Tail | None
    tail_of: Callable[[float, float], Tail] | None = None
    by_cells: bool = False
    units: tuple[int, ...] = ()
    norm: float | None = None

    def in_units(self, layout: int) -> PublicFacts:
        """The same about rows in units, for one of the ways to divide them."""
        training = None if self.training is None else self.training.units[layout]
        return replace(
            self,
            rows=self.units[layout],
            training=training,
            pilot=training,
            tail=None,
            tail_of=None,
            units=(),
            norm=None,
        )

    @property
    def rows_a_training_row(self) -> float:
        """How many protected rows there are for one training row; 1 without a training part. Then we assume
        that a guess is as good as one from a fresh sample of the same size."""
        return 1.0 if self.training is None else self.rows / max(1, self.training.rows.count)


@dataclass(frozen=True)
class Expectation:
    """A guess, the standard deviation of its error, and the reading that will be used."""

    guess: float
    guess_error: float
    reading: Reading


def expect(question: Question, public: PublicFacts) -> Expectation:
    """Everything about a question that is decided before the protected rows are read."""
    if question.guess is None and (public.training is None or not question.in_training):
        if question.vague:
            return _expect_anything(question, public)
        raise QueryRejected(
            "There are no training rows to take a guess from: bring one with the question, as in guess=0.5 "
            f"({question.text})."
        )
    if isinstance(question, StatisticQuestion):
        return _expect_statistic(question, public)
    if question.by_place:
        # Bets on a chain need the same function of every state.
        public = replace(public, norm=None)
    if isinstance(question, CellQuestion) and (public.units or public.norm is not None):
        return _narrowest(question, public)
    return _expect_alone(question, public)


def _expect_alone(question: Question, public: PublicFacts) -> Expectation:
    """What is expected of a question that is read off single rows."""
    if question.kind == "quantile":
        return _expect_quantile(question, public)
    if isinstance(question, CellQuestion) and question.statistic is not None:
        return _expect_by_cells(question, question.statistic, public)
    return _expect_mean(question, public)


def _narrowest(question: CellQuestion, public: PublicFacts) -> Expectation:
    """The reading for which the training part predicts the narrowest interval: over units, by the operator
    norm of a chain, or by the tail of the model. Without a training part nothing is predicted. Then the
    reading is by bets on the middle one of the layouts, which is hardly ever wider than the tail."""
    layouts: list[int | None] = list(range(len(public.units)))
    if public.training is None and question.kind == "quantile":
        return _expect_alone(question, replace(public, units=(), norm=None))
    if public.training is None:
        usual = None if public.norm is not None else layouts[len(layouts) // 2]
        return _expect_by_bets(question, public, usual)
    layouts += [] if public.norm is None else [None]
    expectations = [partial(_expect_by_bets, question, public, layout) for layout in layouts]
    if not isinstance(question.statistic, AUC):
        expectations.append(partial(_expect_alone, question, replace(public, units=(), norm=None)))
    candidates, refusal = [], None
    for expectation in expectations:
        try:
            candidates.append(expectation())
        except (QueryRejected, NotEnoughRows) as error:
            refusal = refusal or error
    if not candidates:
        assert refusal is not None
        raise refusal
    return min(candidates, key=lambda expected: expected.reading.around(*[expected.guess] * 2).half_width)


def _expect_by_bets(question: CellQuestion, public: PublicFacts, layout: int | None) -> Expectation:
    """What is expected of a question that is read by bets on units, or on the states of a chain."""
    if isinstance(question.statistic, AUC):
        raise QueryRejected(
            f"{question.text} needs independent rows, because it compares pairs of them. Ask for accuracy, a "
            "Brier score or a log loss."
        )
    norm = public.norm or 0.0 if layout is None else 0.0
    inside = replace(public, tail=None, tail_of=None) if layout is None else public.in_units(layout)
    if question.kind == "quantile" and isinstance(question, TableQuestion):
        quantile = expected_quantile(question, public.nats, inside.rows, inside.training, layout, norm)
        arms = _classes(quantile.arm_error, math.inf)
        return Expectation(quantile.guess, quantile.error, replace(quantile.reading, arms=arms))
    expected = _expect_by_cells(question, question.statistic or Mean(), inside, layout, norm)
    if norm and question.binary and not question.filtered:
        return replace(expected, reading=ShareOfChain(question, public.nats, None, public.rows, norm))
    return expected


def _expect_anything(question: Question, public: PublicFacts) -> Expectation:
    """Without training rows and guess: the guess is the middle of the range, and its error a large part of
    it."""
    width = question.high - question.low
    guessed = replace(question, guess=(question.low + question.high) / 2)
    return replace(expect(guessed, public), guess_error=width / 4)


def look(
    questions: Sequence[Question], training: Part | None, pilot: Part | None, *, in_units: bool = False
) -> None:
    """Read the free rows for :func:`expect`, and for what may be clipped, for several questions in few scans.
    The result is kept with the question. Questions about rows ``in_units`` are looked at one by one, when
    they are prepared."""
    to_look_at = [] if in_units else [*questions]
    for question in questions:
        clipping = possible_clipping(question, training) if question.clips else None
        to_look_at += [] if clipping is None else clipping.parts
    summed = {
        id(question): question
        for question in to_look_at
        if isinstance(question, TableQuestion)
        and question.is_sum
        and (question.guess is None or not _needs_no_look(question))
    }
    for part, guessed in ((training, False), (pilot, True)):
        if part is None:
            continue
        rows, new, squares = part.rows, [], []
        for question in summed.values():
            spread = question.kind != "share"
            if (question.guess is not None) == guessed and (rows, spread) not in question.facts.moments:
                new.append(question)
                squares.append(spread)
        if not new:
            continue
        all_sums = sums_of_all(rows, [question.checked for question in new], squares)
        for question, spread, sums in zip(new, squares, all_sums, strict=True):
            question.facts.moments[rows, spread] = question.moments_of(sums)


def _needs_no_look(question: Question) -> bool:
    """Whether a guess alone says everything about a question beforehand."""
    return question.binary and not question.filtered


@dataclass(frozen=True)
class _Sight:
    """What a look at training rows showed: ``passing`` of ``looked`` rows pass the filter, with this mean and
    spread.

    Without a look, half of the rows are assumed to pass, and to lie at either end of the range.
    """

    looked: int
    passing: int
    mean: float
    spread: float

    @property
    def share(self) -> float:
        """The share of rows that pass, with one more passing and one more failing than was seen."""
        return (self.passing + 1) / (self.looked + 2)

    def count_error(self, rows: int) -> float:
        """The standard deviation of the logarithm of how many of ``rows`` pass."""
        return math.sqrt((1 - self.share) / self.share * (1 / rows + 1 / (self.looked + 1)))


def _look(question: Question, part: Part | None) -> _Sight:
    middle, width = (question.low + question.high) / 2, question.high - question.low
    if part is None or not question.in_training:
        return _Sight(0, 0, middle, width / 2)
    moments = question.moments(part, squares=not question.binary)
    mean = moments.mean if moments.rows else middle
    has_spread = not question.binary and moments.rows > 1
    spread = math.sqrt(moments.variance) if has_spread else _coin_spread(question, mean, moments.rows)
    return _Sight(part.rows.count, moments.rows, mean, spread)


def require_rows_enter(question: Question, looked: int, passing: int, rows: int) -> None:
    """Refuse a question that no training row enters, if that says that hardly any protected row does. Its
    answer would say nothing and cost much. A caller who gives a guess means it, and is not refused."""
    enough_looked = looked >= _ENOUGH_LOOKED and rows <= _MOST_FOR_ONE * looked
    if question.guess is not None or not question.filtered or passing or not enough_looked:
        return
    raise QueryRejected(
        f"None of {looked:,} training rows enters {question.text}: none passes the filter, or has a value. "
        "So hardly any protected row would, and the answer would say nothing. Check the filter on "
        "guard.train. If the question is right, ask with a guess of your own: guess=..."
    )


def _coin_spread(question: Question, mean: float, rows: int) -> float:
    """The standard deviation of a value that is at one end of the range or the other, with one more at each
    end than was seen."""
    width = question.high - question.low
    share = (min(max((mean - question.low) / width, 0.0), 1.0) * rows + 1) / (rows + 2)
    return width * math.sqrt(share * (1 - share))


def _expect_mean(question: Question, public: PublicFacts) -> Expectation:
    rows, width = public.rows, question.high - question.low
    if question.guess is None:
        sight = _look(question, public.training)
        require_rows_enter(question, sight.looked, sight.passing, public.rows)
        guess, behind_guess = sight.mean, float(max(1, sight.passing))
    else:
        # We assume that a caller's own guess is as good as one from a fresh sample of the same size.
        guess, behind_guess = question.guess, math.inf
        if _needs_no_look(question):
            sight = _Sight(rows, rows, guess, _coin_spread(question, guess, rows))
        else:
            sight = _look(question, public.pilot)
    passing = max(1.0, rows * sight.share) if question.filtered else float(rows)
    count_error = sight.count_error(rows) if question.filtered else 0.0
    error = max(sight.spread * math.sqrt(1 / passing + 1 / min(behind_guess, passing)), width / (4 * passing))
    if public.tail is not None:
        share = passing / rows
        error = max(error, _error_within(public.tail, public) / math.sqrt(share))
        radius = public.tail.radius_at(public.nats) / share
        arms = _classes(count_error, width / radius) if question.filtered else None
        return Expectation(
            guess, error, MeanOfDependentRows(question, public.nats, arms, public.tail, rows, share)
        )
    if question.binary:
        return Expectation(guess, error, _share(question, public, guess, round(passing), count_error))
    reading = _by_bets(question, public, guess, error, sight, passing, count_error)
    enough_seen = public.by_cells and sight.passing >= _FEW_SEEN
    if (
        enough_seen
        and isinstance(question, CellQuestion)
        and _cells_are_narrower(question, public, reading, guess)
    ):
        return _expect_by_cells(question, Mean(), public)
    return Expectation(guess, error, reading)


def _cells_are_narrower(
    question: CellQuestion, public: PublicFacts, reading: MeanByBets, guess: float
) -> bool:
    """Whether cells give a narrower interval than two sums. Two sums only bound the product of the bets, and
    the bound is far below it if a bet may lose more than a tenth of what it has. The rows of a table are read
    in one scan, by sums."""
    table = isinstance(question, TableQuestion) and question.checked.member is not None
    squared = _SQUARED[0] < question.high - question.low < _SQUARED[1]
    if public.training is None or not question.in_training or table or not squared:
        return False
    lower, upper = (max(side) for side in reading.rates)
    return max(lower * (guess - question.low), upper * (question.high - guess)) > _LARGE_BET


def _share(question: Question, public: PublicFacts, guess: float, passing: int, count_error: float) -> Share:
    if not question.filtered:
        return Share(question, public.nats, None, public.rows)
    # A guess in the middle has the longest arms, so no class is missing if the guess is at an end.
    even_interval = intervals.binomial_interval(passing // 2, passing // 2, passing, public.nats)
    return Share(question, public.nats, _classes(count_error / 2, 1 / even_interval.half_width), passing)


def _by_bets(
    question: Question,
    public: PublicFacts,
    guess: float,
    error: float,
    sight: _Sight,
    passing: float,
    count_error: float,
) -> MeanByBets:
    low, high, rows = question.low, question.high, max(1, round(passing))
    seen, width = sight.looked > 0, high - low
    # The mean of the training rows is a better centre for the bets than the caller's guess.
    middle = min(max(sight.mean if seen else guess, low), high)
    spreads = [sight.spread / 2**halving for halving in range(1 if seen else _UNSEEN_SPREADS)]
    reach = min(3 * error, width) if seen else width
    chosen = [
        intervals.e_mean_rates(middle, spread**2, rows, public.nats, lo=low, hi=high, reach=reach)
        for spread in spreads
    ]
    rates = tuple(lower for lower, _ in chosen), tuple(upper for _, upper in chosen)
    predicted = bets_interval(question, Moments(rows, middle, sight.spread**2), public.nats, rates)
    assert predicted is not None
    # An arm is cut off at an end of the range, but the statistic may turn out to be elsewhere.
    least = math.sqrt(
        2 * (public.nats + math.log(2)) * max(sight.spread**2 / rows, (width / (2 * rows)) ** 2)
    )
    expected = max(middle - predicted.low, least), max(predicted.high - middle, least)
    spread_error = width / max(sight.spread, width / rows) * math.sqrt(1 / rows + 1 / max(1, sight.passing))
    arm_error = math.hypot(count_error / 2, spread_error / 4)
    arms = _classes(arm_error if seen else math.inf, width / min(expected))
    return MeanByBets(question, public.nats, arms, rates, expected)


def _classes(arm_error: float, longest: float) -> ArmClasses:
    """Classes for arms that are predicted up to this relative error; the longest is so many times as long."""
    return ArmClasses.predicted(min(max(arm_error, _ARM_ERRORS[0]), _ARM_ERRORS[1]), longest)


def _expect_statistic(question: StatisticQuestion, public: PublicFacts) -> Expectation:
    guess = question.guess
    if guess is None and public.training is not None:
        guess = question.value(public.training)
    if guess is None:
        raise AssertionError("expect() asks for a guess where there is no training part")
    error = _error_within(question.tail, public)
    return Expectation(guess, error, DeclaredTail(question, public.nats, None))


def _error_within(tail: Tail, public: PublicFacts) -> float:
    """The error of a guess from the training part, if guess and statistic were normal with this tail's radius
    at these nats."""
    return guess_deviation(tail, public.nats, public.rows_a_training_row)


def _expect_by_cells(
    question: CellQuestion,
    statistic: Statistic,
    public: PublicFacts,
    layout: int | None = None,
    norm: float = 0.0,
) -> Expectation:
    tail, rows = public.tail_of, public.rows
    bounded = math.isfinite(question.high - question.low)
    width = question.high - question.low if bounded else math.inf
    if public.training is None or not question.in_training:
        require_training(question, statistic)
        steps = even_steps(question)
        # With a caller's own guess nothing else is known, so arms are as long as they can be.
        guess, arm = question.guess or 0.0, width / 2 if bounded else max(1.0, abs(question.guess or 0.0))
        reading = ByCells(
            question,
            public.nats,
            _classes(math.inf, math.inf),
            statistic,
            steps,
            None,
            (arm, arm),
            tail,
            rows,
            layout,
            norm,
        )
        return Expectation(guess, arm / math.sqrt(2 * (public.nats + math.log(2))), reading)
    rows_looked_at = public.training.rows
    trained = question.facts.cells.get(rows_looked_at) or Trained.of(question, public.training)
    question.facts.cells[rows_looked_at] = trained
    trained = trained.of_chain(norm) if norm else trained
    predicted = trained.protected(rows)
    value = statistic.estimate(predicted)
    deviation = statistic.deviation(predicted) if math.isfinite(value) else math.inf
    if not math.isfinite(deviation):
        raise QueryRejected(
            f"The training rows say nothing about {question.text}: no row enters it, or its values do not "
            "vary. Ask about more rows, or check the filter and the groups on guard.train."
        )
    interval, box_error = _predicted_interval(statistic, trained, public)
    least = math.sqrt(2 * (public.nats + math.log(2))) * max(
        deviation, _LEAST_DEVIATION * _size(question, value)
    )
    longest = width if bounded else 1e3 * least
    expected = tuple(min(max(arm, least), longest) for arm in (value - interval.low, interval.high - value))
    arms = _classes(math.hypot(trained.arm_error(statistic, rows), box_error), width / min(expected))
    reading = ByCells(
        question,
        public.nats,
        arms,
        statistic,
        trained.steps,
        predicted,
        (expected[0], expected[1]),
        tail,
        rows,
        layout,
        norm,
    )
    behind = 1.0 if question.guess is not None else max(1.0, public.rows_a_training_row)
    error = least / math.sqrt(2 * (public.nats + math.log(2))) * math.sqrt(1 + behind)
    guess = value if question.guess is None else question.guess
    return Expectation(min(max(guess, question.low), question.high), error, reading)


def _predicted_interval(
    statistic: Statistic, trained: Trained, public: PublicFacts
) -> tuple[Interval, float]:
    """The expected interval, around the value that the training part shows. Also how well the logarithm of
    its arms is known, as far as boxes add to them."""
    cells, tail, rows = trained.protected(public.rows), public.tail_of, public.rows
    least = interval_of(statistic, cells, cells, public.nats, tail, rows)
    if not statistic.needs_training:
        return least, 0.0
    other = trained.another_sample(public.rows)
    typical = interval_of(statistic, other, cells, public.nats, tail, rows)
    value, moved = statistic.estimate(cells), statistic.estimate(other)
    below, above = moved - typical.low, typical.high - moved
    grown = max(_grown(below, value - least.low), _grown(above, least.high - value))
    return Interval(value - below, value + above), _BOX_ERROR * grown


def _grown(length: float, least: float) -> float:
    """How much the logarithm of an arm grew."""
    return max(0.0, math.log(length / least)) if 0 < least <= length < math.inf else 0.0


def _size(question: CellQuestion, value: float) -> float:
    """About how large the statistic can be."""
    bounded = math.isfinite(question.high - question.low)
    return question.high - question.low if bounded else max(1.0, abs(value))


def _expect_quantile(question: Question, public: PublicFacts) -> Expectation:
    ranks = Ranks(question.level, public.nats, public.rows, public.tail)
    lower, upper = ranks.bounds(public.rows)
    if not question.filtered and (lower < 1 or upper > public.rows):
        raise NotEnoughRows(
            _rows_needed(ranks), public.rows, what=f"The {question.level:g}-quantile at this step"
        )
    guess, expected, passing = _seen_spacing(question, ranks, public)
    guess = guess if question.guess is None else question.guess
    least = 2.0**-40 * max(1.0, abs(guess))
    expected = max(expected[0], least), max(expected[1], least)
    deviations = math.sqrt(2 * (public.nats + math.log(2)))
    error = (expected[0] + expected[1]) / 2 / deviations * math.sqrt(1 + public.rows_a_training_row)
    lower, upper = ranks.bounds(passing)
    between = max(1.0, (upper - lower) / 2)
    arms = _classes(math.sqrt((1 + public.rows_a_training_row) / between), math.inf)
    return Expectation(guess, error, QuantileOfRows(question, public.nats, arms, ranks, expected))


def _seen_spacing(
    question: Question, ranks: Ranks, public: PublicFacts
) -> tuple[float, tuple[float, float], int]:
    """The quantile in the training part; how far below and above it the order statistics lie that bound it
    among the rows that will be read; and how many rows that are. If values are so tied that these order
    statistics equal the quantile, a part of the distance to the nearest different ones is used."""
    training, unseen = public.training, 2.0**-7 * max(1.0, abs(question.guess or 0.0))
    if training is None:
        return 0.0, (unseen, unseen), public.rows
    passing = public.rows

    def ranks_for(count: int) -> list[int]:
        nonlocal passing
        passing = max(1, round(public.rows * count / training.rows.count))
        lower, upper = (rank / passing - question.level for rank in ranks.bounds(passing))
        reaches = [*(lower * factor for factor in FARTHER), 0.0, *(upper * factor for factor in FARTHER)]
        levels = [question.level + reach for reach in reaches]
        return [min(max(1, math.ceil(level * count)), count) for level in levels] if count else []

    count, values = question.order_statistics(training, ranks_for)
    require_rows_enter(question, training.rows.count, count, public.rows)
    if not values or not all(map(math.isfinite, values)):
        return 0.0, (unseen, unseen), passing
    middle, steps = values[len(FARTHER)], len(FARTHER)
    return middle, spacing(middle, values[:steps], values[steps + 1 :]), passing


def _rows_needed(ranks: Ranks) -> int:
    """A number of rows, at most twice the least, with which both order statistics exist."""
    rows = ranks.rows
    while True:
        rows *= 2
        lower, upper = ranks.bounds(rows)
        if lower >= 1 and upper <= rows:
            return rows
