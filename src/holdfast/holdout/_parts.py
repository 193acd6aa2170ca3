"""What the reusable holdout is made of: its two parts, its exact noise, and how far an answer may be off.

A question is a function of all rows of a part that gives one value in [0, 1] for each, or a share or mean of
an expression. Values are counted in whole steps of 2⁻²⁴, so a mean is a ratio of whole numbers, and changing
one of n rows moves it by at most 1/n, without any rounding. A statistic of any other kind declares its
sensitivity. It is measured in units of n times that, so one row moves it by at most 1/n too.

The three noises (threshold, comparison, answer) are Laplace noise rounded to whole steps of one grid. The
difference and the value they are added to are rounded to that grid first, and one row moves either by at most
``moved`` steps. A round runs from one refresh of the threshold to the next. It costs ``moved`` steps on the
threshold, twice as many on the comparison that fires, and once as many on the answer: 9/4 · moved/unit in all
for scales of 1, 2 and 4 units. The unit is the least number of steps for which that is at most 9/(4·noise·n).

Half-widths hold together and are fixed in advance. Round r begins after the r-th release. Within a round all
answers are training values, so its questions are a function of the first r rounds alone. Only what those
rounds revealed is paid for: nothing in round 0. Each round may fail with probability β/((r+1)(r+2)): half of
it for the means of the holdout, a quarter each for the comparisons and for the released answer.
Proof: ``docs/theory/reusable-holdout.md``.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holdfast import checks, queries, rounding
from holdfast.coding import Weights
from holdfast.dependence import Dependence
from holdfast.engines import SCALE_BITS, open_rows, require_unsealed
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.guard import require_columns
from holdfast.mechanisms import Noise
from holdfast.queries import CheckedQuery, Query
from holdfast.stability import BayesianDP
from holdfast.tails import Tail

if TYPE_CHECKING:
    from holdfast.engines import Rows


# If a step is at least 2⁻³² of the noise, values in [0, 1] are below 2⁵³ steps: floats hold them exactly.
_RESOLUTION = 32
_MOST_UNITS = 2**40


@dataclass(frozen=True)
class SparseNoise:
    """Noise of at least ``scale`` for ``rows`` holdout rows; comparisons have twice, answers 4 times it."""

    scale: float
    rows: int

    @cached_property
    def grid(self) -> float:
        """One step, a power of two that depends on the scale alone."""
        return math.ldexp(1.0, math.frexp(self.scale)[1] - 1 - _RESOLUTION)

    @cached_property
    def moved(self) -> int:
        """By how many steps one row can move a rounded mean."""
        return math.ceil(1 / (self.rows * Fraction(self.grid)))

    @cached_property
    def unit(self) -> int:
        """The scale of the threshold's noise in steps."""
        steps = math.ceil(self.moved * self.rows * Fraction(self.scale))
        if steps > _MOST_UNITS:
            raise InvalidArgument(
                "noise", f"at most 10¹² for all rows together ({self.rows:,} here)", self.scale
            )
        return steps

    def epsilon(self, rounds: int) -> float:
        """The privacy parameter of so many rounds: at most 9/(4·noise·n) for each."""
        return rounding.up(9 * rounds * self.moved / (4 * self.unit))

    def _noise(self, units: int) -> Noise:
        return Noise("laplace", units * self.unit * self.grid, self.grid)

    @cached_property
    def threshold(self) -> Noise:
        """The noise of the threshold, drawn once a round."""
        return self._noise(1)

    @cached_property
    def comparison(self) -> Noise:
        """The noise of each difference of training and holdout."""
        return self._noise(2)

    @cached_property
    def answer(self) -> Noise:
        """The noise of a released value."""
        return self._noise(4)

    @property
    def farthest(self) -> float:
        """The largest difference that floats hold in whole steps. Larger ones are replaced by it."""
        return math.ldexp(self.grid, 52)

    def on_grid(self, value: Fraction) -> float:
        """A number of [−farthest, farthest] rounded to whole steps, without any other error."""
        return math.floor(value / Fraction(self.grid) + Fraction(1, 2)) * self.grid


RESOLUTION = 2.0**-SCALE_BITS
_SCALE = 2**SCALE_BITS
_WHOLE_MEANS = (
    "A reusable holdout answers shares and means over all rows, with bounds (0, 1) and without a filter: "
    "write a filtered question as a share of all rows, and a mean as (x - lo) / (hi - lo)."
)


class NotValues(ValueError):
    """A function did not give one number in [0, 1] for each row."""


@dataclass(frozen=True)
class ValueSums:
    """``total`` steps of 1/``scale`` over ``rows`` values, and the sum of their squares."""

    rows: int
    total: int
    squares: int
    scale: int

    @classmethod
    def of(cls, values: Any, rows: int) -> ValueSums:
        """Check and add up one value in [0, 1] for each of ``rows`` rows."""
        array = np.asarray(values)
        if array.shape != (rows,) or array.dtype.kind not in "biuf":
            raise NotValues
        if array.dtype.kind == "b":
            ones = int(np.count_nonzero(array))
            return cls(rows, ones, ones, 1)
        if not bool(((array >= 0) & (array <= 1)).all()):
            raise NotValues
        if array.dtype.kind in "iu":
            ones = int(array.sum())
            return cls(rows, ones, ones, 1)
        steps = np.rint(array.astype(np.float64) * _SCALE).astype(np.int64)
        return cls(rows, int(steps.sum()), int((steps * steps).sum(dtype=object)), _SCALE)

    @property
    def mean(self) -> Fraction:
        """The mean, exactly."""
        return Fraction(self.total, self.rows * self.scale)


class ValuesOfRows(ABC):
    """A question that gives one value in [0, 1] for each row. Its level is their mean."""

    one_number: ClassVar[bool] = False
    gives: ClassVar[str] = "one number in [0, 1] for each holdout row"
    unit: ClassVar[Fraction] = Fraction(1)

    @abstractmethod
    def sums(self, part: RowsOf) -> ValueSums:
        """The values on one ``part``, added up. Reads the part."""

    def level(self, part: RowsOf) -> Fraction:
        """The mean on one part, exactly. Reads the part."""
        return self.sums(part).mean

    def must_give(self, rows: int) -> str:
        """What a function must return on so many training rows, in words."""
        return f"must give one number in [0, 1] for each of the {rows:,} training rows, and no NaN."


@dataclass(frozen=True)
class FunctionOfRows(ValuesOfRows):
    """A function of the caller's own."""

    function: Callable[[Any], Any]
    text: str
    key: str | None = None

    def sums(self, part: RowsOf) -> ValueSums:
        """The values on one ``part``, added up. Reads the part."""
        return ValueSums.of(self.function(part.shown()), part.count)


@dataclass(frozen=True)
class ExpressionOfRows(ValuesOfRows):
    """A share or mean of an expression over the columns."""

    checked: CheckedQuery

    @property
    def text(self) -> str:
        """The question in words."""
        return self.checked.query.text

    @property
    def key(self) -> str:
        """The same for the same question in other words."""
        return self.checked.query.key

    def sums(self, part: RowsOf) -> ValueSums:
        """The values on one ``part``, added up. Reads the part."""
        if part.rows is None:
            raise NotValues
        sums = part.rows.sums(self.checked, squares=False)
        return ValueSums(sums.rows, sums.total, 0, sums.scale)


@dataclass(frozen=True)
class StatisticOfRows:
    """Any number that a function computes from all rows, in units of n times its declared sensitivity."""

    function: Callable[[Any], Any]
    text: str
    unit: Fraction
    key: str | None = None

    one_number: ClassVar[bool] = True
    gives: ClassVar[str] = "one finite number for the holdout"

    def level(self, part: RowsOf) -> Fraction:
        """Its value on one part in these units, exactly. Reads the part."""
        value = np.asarray(self.function(part.shown()))
        if value.shape != () or value.dtype.kind not in "iuf" or not np.isfinite(value):
            raise NotValues
        return Fraction(value.item()) / self.unit

    def must_give(self, rows: int) -> str:
        """What a function must return on the training rows, in words."""
        return "has a declared sensitivity and must give one finite number for the training rows."


HoldoutQuestion = FunctionOfRows | ExpressionOfRows | StatisticOfRows


class RowsOf:
    """One part: a table as :class:`~holdfast.guard.Guard` takes it, or an array or other object with a length
    that only functions can read.

    The rows are copied once, so that changes to ``data`` do not reach them.
    """

    def __init__(self, data: Any, argument: str, *, of: str) -> None:
        self.rows: Rows | None = None
        try:
            self.rows = open_rows(data).stored()
        except QueryRejected:
            if isinstance(data, (str, dict)) or not isinstance(data, Sized):
                raise
        self._own: Any = _copy(data, argument, of=of) if self.rows is None else self.rows.frame()
        self._sealed = False
        self.count = len(data) if self.rows is None else self.rows.count
        if not self.count > 0:
            raise InvalidArgument(argument, "at least one row", data, of=of)

    def seal(self) -> None:
        """From here on these rows are read in the clean room only."""
        self._sealed = True
        if self.rows is not None:
            self.rows.seal()

    def shown(self) -> Any:
        """The argument of a function: a pandas frame for a table, else an object like the given one. It is a
        copy, or read-only: whatever a function does to it, the rows stay as they are."""
        if self._sealed:
            require_unsealed()
        if isinstance(self._own, np.ndarray) and not self._own.dtype.hasobject:
            return self._own.view()
        return copy.deepcopy(self._own)


def _copy(data: Any, argument: str, *, of: str) -> Any:
    """Our own copy of the rows. An array is copied once and is read-only. Anything else is copied for every
    function that sees it. An array in a file that was opened for reading stays there."""
    if isinstance(data, np.memmap) and not data.flags.writeable:
        return data
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        copied = np.array(data)
        copied.flags.writeable = False
        return copied
    try:
        return copy.deepcopy(data)
    except Exception:
        pass
    raise InvalidArgument(argument, "rows that can be copied: an array, a list or a table", type(data), of=of)


class TwoParts:
    """The training rows, which are free to look at, and the holdout."""

    def __init__(self, train: Any, holdout: Any, *, of: str) -> None:
        self.train = RowsOf(train, "train", of=of)
        self.holdout = RowsOf(holdout, "holdout", of=of)
        self.holdout.seal()
        if self.train.rows is not None and self.holdout.rows is not None:
            require_columns(
                self.holdout.rows.schema, "the holdout", self.train.rows.schema, "the training part"
            )

    def statistic(self, f: Any, sensitivity: Any, *, of: str) -> StatisticOfRows:
        """The caller's own statistic, with how far one holdout row can move it."""
        sensitivity = checks.real(sensitivity, "sensitivity", "(0, inf)", of=of)
        if isinstance(f, (str, Query)) or not callable(f):
            raise InvalidArgument("f", "a function of the rows, where a sensitivity is declared", f, of=of)
        name = getattr(f, "__name__", type(f).__name__)
        return StatisticOfRows(f, f"{name}(rows)", self.holdout.count * Fraction(sensitivity))

    def question(self, f: Any, *, of: str) -> FunctionOfRows | ExpressionOfRows:
        """The question of ``f``: a function, a query record or a text. Refused here without reading the
        holdout."""
        if isinstance(f, (str, Query)):
            return self._expression(f)
        if not callable(f):
            raise InvalidArgument("f", "a function of the rows, a query or a text", f, of=of)
        return FunctionOfRows(f, f"mean({getattr(f, '__name__', type(f).__name__)})")

    def _expression(self, f: str | Query) -> ExpressionOfRows:
        query = queries.read(f) if isinstance(f, str) else f
        if self.holdout.rows is None or self.train.rows is None:
            raise QueryRejected(
                "Only tables with named columns can be asked by text; give a function of the rows."
            )
        checked = query.check(self.holdout.rows.schema, self.train.rows.nullable_columns())
        if checked.kind not in ("share", "mean") or checked.counts or checked.bounds != (0.0, 1.0):
            raise QueryRejected(f"{query.text} cannot be asked here. {_WHOLE_MEANS}")
        return ExpressionOfRows(checked)

    def level_in_training(self, question: HoldoutQuestion) -> Fraction:
        """The value on the training rows, in the question's units. Errors of the function are raised here."""
        with self._refusing(question):
            return question.level(self.train)

    def sums_in_training(self, question: FunctionOfRows) -> ValueSums:
        """The values of a ``question`` on the training rows, added up. Wrong values are refused here."""
        with self._refusing(question):
            return question.sums(self.train)

    @contextmanager
    def _refusing(self, question: HoldoutQuestion) -> Iterator[None]:
        """Refuse a question that does not fit the training rows. That costs nothing."""
        try:
            yield
        except NotValues:
            raise QueryRejected(f"{question.text} {question.must_give(self.train.count)}") from None


_LN2 = math.log(2.0)
# Of a round's share: what max-information may fail. Each is valid; the best counts.
_PARTS = (0.5, 0.25, 0.1, 0.03, 0.01, 1e-3)


@dataclass(frozen=True)
class Promise:
    """Half-widths for one holdout; ``queries`` is the number of questions if it is fixed, else None."""

    model: Dependence
    noise: SparseNoise
    cut: float
    failure: float
    queries: int | None
    _chosen: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def tail(self) -> Tail:
        """How far a mean that was fixed in advance is from its expectation."""
        return self.model.share_tail()

    @cached_property
    def statistic_tail(self) -> Tail:
        """How far a statistic is from its expectation, if one row moves it by at most 1/n."""
        return self.model.statistic_tail()

    def step_nats(self, step: int) -> float:
        """ln(1/w), where w is the weight of a question among all that may come."""
        return Weights().nats(step) if self.queries is None else math.log(self.queries)

    def _round_nats(self, releases: int) -> float:
        return math.log((releases + 1) * (releases + 2)) - math.log(self.failure)

    def deviation(self, step: int, releases: int, *, statistic: bool = False) -> float:
        """How far the holdout's value may be from its expectation."""
        if releases not in self._chosen:
            self._chosen[releases] = self._chosen_nats(releases)
        nats = self._chosen[releases] + self.step_nats(step)
        if statistic:
            return self.statistic_tail.radius_at(nats)
        return self.tail.radius_at(nats) + RESOLUTION

    def _chosen_nats(self, releases: int) -> float:
        """Nats of a question of this round besides its weight: its share, and what earlier rounds
        revealed."""
        share = self._round_nats(releases) + _LN2
        if releases == 0:
            return share
        revealed = BayesianDP(self.revealed(releases))
        best = min(
            revealed.max_information(self.model.n, part * math.exp(-share)).bits * _LN2 - math.log1p(-part)
            for part in _PARTS
        )
        return rounding.up(share + best)

    def revealed(self, rounds: int) -> float:
        """What this number of rounds reveals about all rows together, as a Bayesian privacy parameter."""
        return self.model.joint_epsilon(self.noise.epsilon(rounds), of="ReusableHoldout")

    def kept(self, step: int, releases: int) -> float:
        """How far a training value that was let through may be from the holdout's mean.

        Threshold noise less comparison noise exceeds z with probability below ⅔ exp(−z/2σ).
        """
        nats = self._round_nats(releases) + math.log(8 / 3) + self.step_nats(step)
        comparison = self.noise.comparison
        return self.cut + comparison.scale * max(0.0, nats) + 2 * comparison.grid

    def noisy(self, releases: int) -> float:
        """How far a released value may be from the holdout's mean."""
        answer = self.noise.answer
        return answer.scale * (self._round_nats(releases) + math.log(4)) + answer.grid

    def half_width(self, step: int, releases: int, *, released: bool, statistic: bool = False) -> float:
        """How far an answer may be from the expectation of its question, in the question's units."""
        to_holdout = self.noisy(releases) if released else self.kept(step, releases)
        return rounding.up(to_holdout + self.deviation(step, releases, statistic=statistic))
