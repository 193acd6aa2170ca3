"""A question in the form in which it is answered: a key, a range, and the few numbers that it takes from one
part of the rows."""

from __future__ import annotations

import hashlib
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.engines import SCALE_BITS
from holdfast.errors import InvalidArgument
from holdfast.intervals import Interval
from holdfast.queries import Query, limits
from holdfast.statistics import (
    NO_AXIS,
    Axis,
    Cells,
    Contrast,
    Correlation,
    Covariance,
    Lift,
    Ratio,
    Slope,
    Statistic,
    Steps,
    UnitCells,
    Variance,
    WeightedMean,
)
from holdfast.tails import Tail

if TYPE_CHECKING:
    from holdfast.engines import Rows, Sums
    from holdfast.queries import CheckedQuery
    from holdfast.readings._by_cells import Trained
    from holdfast.readings._clipping import Clipping


_FILTERED = "Rows for which the filter is false or null do not enter."
_UNUSED_GUESS = "Your guess was not used: this strategy answers without one."


@dataclass(frozen=True)
class Part:
    """The training or the protected rows.

    ``mask`` says which of the ``data_rows`` rows of the data they are (None: all). ``moments`` are those of
    questions that were summed together, by the keys of the questions. ``clipped`` lists keys of shares of
    clipped values. A scan by cells counts these values too, and puts the shares among the moments.

    ``units`` has the same rows divided into independent units, once for each way that the model of the rows
    offers: clusters, or several layouts of blocks. In such a part no unit has more than ``largest`` rows, and
    ``within`` says which rows of the undivided part lie in a unit (None: all)."""

    rows: Rows
    training: bool
    data_rows: int
    mask: NDArray[np.bool_] | None = None
    units: tuple[Part, ...] = ()
    largest: int = 1
    within: NDArray[np.bool_] | None = None
    moments: dict[str, Moments] = field(default_factory=dict, repr=False, compare=False)
    clipped: tuple[str, ...] = ()

    def column(self, name: str) -> NDArray[Any]:
        """One column as an array. Reads the rows."""
        return np.asarray(self.rows.frame([name])[name])


@dataclass(frozen=True)
class Moments:
    """How many rows passed the filter, their mean, and their variance with divisor rows − 1 if it was asked
    for.

    ``position`` is where in the range from low to high the mean lies, from 0 to 1. It keeps digits that the
    mean itself loses if low is large. ``clipped`` is how many values lay outside their bounds, if that was
    counted."""

    rows: int
    mean: float
    variance: float
    position: float = math.nan
    clipped: int | None = None

    @classmethod
    def from_integers(
        cls, rows: int, total: int, squares: int | None, scale: int, low: float, high: float
    ) -> Moments:
        """Exact integer sums of (value − low)/(high − low)·scale, turned into a mean and a variance by one
        division each."""
        if rows == 0:
            return cls(0, math.nan, math.nan)
        width, position = high - low, total / (rows * scale)
        mean = low + width * position
        if squares is None or rows < 2:
            return cls(rows, mean, math.nan, position)
        variance = width**2 * ((squares * rows - total * total) / (rows * (rows - 1) * scale**2))
        return cls(rows, mean, variance, position)


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """One question; ``low`` and ``high`` bound the statistic (infinite if nothing bounds it)."""

    key: str
    text: str
    low: float
    high: float
    guess: float | None
    kind: str  # the name of the statistic: "share", "mean", "quantile", "custom", "ratio", ...
    filtered: bool = False
    resolution: float = 0.0  # how far the integer scaling may move the mean
    level: float = math.nan  # the level of a quantile
    notes: tuple[str, ...] = ()  # further remarks about the answer
    nats: float | None = None  # the average cost that the caller wants; None: by the account's rule
    clips: bool = False  # whether one of its values may lie outside its bounds

    readable: ClassVar[bool] = False  # whether the text reads as a question

    @property
    def in_training(self) -> bool:
        """Whether the question can be put to the training part too."""
        return True

    @property
    def vague(self) -> bool:
        """Whether it may be asked without any guess."""
        return False

    @property
    def reads(self) -> frozenset[str] | None:
        """The columns that it reads; None if they are not known."""
        return None

    @property
    def by_place(self) -> bool:
        """Whether the value of a row depends on its place too, as for an array of predictions."""
        return False

    @property
    def in_process(self) -> bool:
        """Whether answering handles values in this process, where code may print them or warn about them."""
        return True

    @property
    def runs_code(self) -> bool:
        """Whether answering runs the caller's code: a model, a function."""
        return self.in_process

    @property
    def binary(self) -> bool:
        """Whether each row counts 0 or 1."""
        return self.kind == "share"

    @property
    def wishes(self) -> dict[str, Any]:
        """The caller's additions to the question, as the book keeps them."""
        return {"guess": self.guess, "nats": self.nats}

    def with_wishes(self, wishes: dict[str, Any]) -> Self:
        """The same question with other additions."""
        return replace(self, **wishes)

    @property
    def in_order(self) -> bool:
        """Whether the possible answers depend on all answers before."""
        return False

    @property
    def remarks(self) -> list[str]:
        """Further remarks about an answer: public facts."""
        return [*self.notes, *[_FILTERED] * self.filtered]

    def released(
        self,
        *,
        value: float,
        interval: Interval,
        guess: float | None,
        confirmed: bool,
        theorem: str,
        numbers: dict[str, Any],
        more: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Everything that leaves with an answer, as the book keeps it. The rows decide which remarks ``more``
        contains."""
        unused = guess is None and self.guess is not None
        return {
            "value": value,
            "low": interval.low if math.isfinite(interval.low) else None,
            "high": interval.high if math.isfinite(interval.high) else None,
            "guess": guess,
            "confirmed": confirmed,
            "readable": self.readable,
            "interval": theorem,
            "numbers": numbers,
            "notes": [*self.remarks, *more, *[_UNUSED_GUESS] * unused],
        }

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        """The count, mean and (with ``squares``) variance of the rows that pass. Reads ``part``."""
        raise TypeError(f"{self.kind} questions have no moments")

    def order_statistics(
        self, part: Part, ranks: Callable[[int], Sequence[int]]
    ) -> tuple[int, Sequence[float]]:
        """How many rows pass, and the values at the ranks that ``ranks`` returns for that count. Reads
        ``part``."""
        raise TypeError(f"{self.kind} questions have no order statistics")

    @property
    @abstractmethod
    def record(self) -> Any:
        """The query that the answer shows."""


@dataclass
class TrainingFacts:
    """What training rows say about one question, each fact by the rows that it is about. The facts do not
    change, so each is looked up once.

    ``moments`` also have the variance if their key says True. ``ranked`` has the number of values that were
    ranked. ``cells`` and ``clipping`` are as in the readings that use them.
    """

    moments: dict[tuple[Rows, bool], Moments] = field(default_factory=dict)
    ranked: dict[Rows, int] = field(default_factory=dict)
    cells: dict[Rows, Trained] = field(default_factory=dict)
    clipping: dict[Rows, Clipping] = field(default_factory=dict)

    def without_any(self) -> list[Rows]:
        """The rows of which none enters the question."""
        entering: list[tuple[Rows, float]] = [(rows, count) for rows, count in self.ranked.items()]
        entering += [(rows, moments.rows) for (rows, _), moments in self.moments.items()]
        entering += [(rows, trained.rows) for rows, trained in self.cells.items()]
        entering += [(rows, clipping.rows) for rows, clipping in self.clipping.items()]
        return [rows for rows, count in entering if count == 0]


@dataclass(frozen=True, kw_only=True)
class CellQuestion(Question):
    """A question that can be read off the cells of the rows. ``axes`` are the declared ranges of its values.
    ``statistic`` is computed from cells (None if sums or order statistics are read). ``facts`` is what the
    training rows say about it."""

    axes: tuple[Axis, Axis] = (NO_AXIS, NO_AXIS)
    statistic: Statistic | None = None
    facts: TrainingFacts = field(default_factory=TrainingFacts, repr=False, compare=False)

    @abstractmethod
    def cells(self, part: Part, steps: tuple[Steps, Steps]) -> Cells:
        """The rows of one part by cells. Reads ``part``."""


@dataclass(frozen=True, kw_only=True)
class TableQuestion(CellQuestion):
    """A statistic of expressions, computed where the rows live."""

    checked: CheckedQuery
    is_sum: bool = False  # whether sums over the rows answer it

    @classmethod
    def of(cls, checked: CheckedQuery) -> TableQuestion:
        """The question of a checked query."""
        query = checked.query
        low, high = limits(query)
        return cls(
            key=query.key,
            text=query.text,
            low=low,
            high=high,
            guess=query.guess,
            kind=checked.kind,
            axes=axes_of(query),
            statistic=_STATISTICS.get(checked.kind),
            filtered=checked.counts,
            level=math.nan if query.q is None else query.q,
            resolution=0.0 if checked.kind != "mean" else 2.0**-SCALE_BITS * (high - low),
            clips=query.kind not in ("share", "quantile", "cdf"),
            is_sum=checked.kind in ("share", "mean"),
            checked=checked,
        )

    readable = True
    # A database reads it, and no code of the caller.
    in_process = runs_code = by_place = in_order = False
    in_training = True

    @property
    def reads(self) -> frozenset[str]:
        return self.checked.reads

    @property
    def remarks(self) -> list[str]:
        query = self.checked.query
        remarks = [*self.notes, *self._clipped()] if self.clips else [*self.notes]
        if self.kind == "quantile" and self.checked.nulls_unspecified:
            remarks.append("A missing value counts as less than any other.")
        if query.where is not None:
            remarks.append(_FILTERED)
        if query.nulls == "skip":
            remarks.append("Rows without a value do not enter.")
        return [*remarks, *self.not_in_training()] if self.filtered else remarks

    def _clipped(self) -> list[str]:
        """The note about clipped values."""
        query = self.checked.query
        ranges = [query.bounds, query.other_bounds]
        if query.bounds is None:
            return []
        missing = f"; a missing one counts as {query.bounds[0]:g}" if self.checked.nulls_unspecified else ""
        if query.other_bounds is None:
            return [f"Values outside [{query.bounds[0]:g}, {query.bounds[1]:g}] are clipped{missing}."]
        outside = " and ".join(
            f"{value.text} outside [{ends[0]:g}, {ends[1]:g}]"
            for value, ends in zip(query.values, ranges, strict=True)
            if ends is not None
        )
        return [f"Values of {outside} are clipped{missing}."]

    def not_in_training(self) -> tuple[str, ...]:
        """A note if no training row that was looked at enters the question."""
        counts = [rows.count for rows in self.facts.without_any()] if self.filtered else []
        if not counts:
            return ()
        return (
            f"None of {max(counts):,} training rows enters this question: none passes the filter, or has a "
            "value. They say nothing about it.",
        )

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        key = part.rows, squares
        moments = self.facts.moments.get(key) if part.training else part.moments.get(self.key)
        if moments is None:
            moments = self.moments_of(part.rows.sums(self.checked, squares=squares))
            if part.training:
                self.facts.moments[key] = moments
        return moments

    def cells(self, part: Part, steps: tuple[Steps, Steps]) -> Cells:
        if part.rows.unit is not None:
            return UnitCells.of_units(
                self.axes, part.rows.unit_sums(self.checked), part.largest, part.rows.count
            )
        if not part.clipped:
            return Cells.of(self.axes, part.rows.cells(self.checked, steps))
        counted = part.rows.cells(self.checked, steps, count_clipped=True)
        rows, outside = (sum(cell[place] for cell in counted) for place in (1, -1))
        for key in part.clipped:
            part.moments[key] = Moments(rows, outside / rows if rows else math.nan, math.nan)
        return Cells.of(self.axes, [cell[:-1] for cell in counted])

    def moments_of(self, sums: Sums) -> Moments:
        """The moments that follow from sums over the rows."""
        moments = Moments.from_integers(sums.rows, sums.total, sums.squares, sums.scale, self.low, self.high)
        return moments if sums.clipped is None else replace(moments, clipped=sums.clipped)

    def order_statistics(
        self, part: Part, ranks: Callable[[int], Sequence[int]]
    ) -> tuple[int, Sequence[float]]:
        count, values = part.rows.order_statistics(self.checked, ranks)
        if part.training:
            self.facts.ranked[part.rows] = count
        return count, values

    @property
    def record(self) -> Any:
        return self.checked.query


_STATISTICS: dict[str, Statistic] = {
    "weighted mean": WeightedMean(),
    "ratio": Ratio(),
    "difference": Contrast((1.0, -1.0)),
    "lift": Lift(),
    "variance": Variance(),
    "std": Variance(root=True),
    "covariance": Covariance(),
    "correlation": Correlation(),
    "slope": Slope(),
}


def axes_of(query: Query) -> tuple[Axis, Axis]:
    """The declared ranges of a question's values."""
    units = 2**SCALE_BITS
    first = Axis(*(query.bounds or (0.0, 1.0)), units)
    return first, NO_AXIS if query.other_bounds is None else Axis(*query.other_bounds, units)


@dataclass(frozen=True, kw_only=True)
class StatisticQuestion(Question):
    """The caller's own statistic, computed in this process by ``function`` on a data frame, with a declared
    tail."""

    function: Callable[[Any], float]
    tail: Tail

    def value(self, part: Part) -> float:
        """The statistic of one part. Reads ``part``."""
        value = float(self.function(part.rows.frame()))
        if not math.isfinite(value):
            raise ValueError("the statistic is not a finite number")
        return value

    @property
    def record(self) -> Any:
        return self.text


def custom_question(
    function: Callable[[Any], float], *, tail: Tail, guess: Any, name: str | None
) -> StatisticQuestion:
    """The question behind ``guard.custom``. The same name is the same question; without a name it is new."""
    if not callable(function):
        raise InvalidArgument("function", "a function of a data frame", function, of="Guard.custom")
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of="Guard.custom")
    label = name or getattr(function, "__name__", "statistic")
    return StatisticQuestion(
        key=hashlib.sha256(f"custom {name or secrets.token_hex(16)}".encode()).hexdigest(),
        text=f"custom({label})",
        low=-math.inf,
        high=math.inf,
        guess=None if guess is None else checks.real(guess, "guess", "(-inf, inf)", of="Guard.custom"),
        kind="custom",
        function=function,
        tail=tail,
    )
