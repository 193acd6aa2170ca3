"""The design of a replicable statistic: what both laboratories fix before they see a row.

Every statistic takes ``accuracy``, ``rho`` and ``beta`` and finds from them how many rows it needs. With
fewer rows it refuses or, if asked for its best effort, says what these rows still promise. A :class:`Design`
holds all this; the arguments are checked here, and the :class:`Result` that a statistic returns is made here.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from holdfast import checks, search
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record, plain
from holdfast.replicable._tape import Floats, Tape
from holdfast.stability import Replicability

__all__ = [
    "MOST_ROWS",
    "Band",
    "Design",
    "Kept",
    "Result",
    "bounds_argument",
    "chance",
    "least_rows",
    "promise_arguments",
    "smallest_design",
    "table_argument",
    "values_argument",
    "way_named",
]

MOST_ROWS = 2**48
"""The largest size that the learners look for."""
_LARGEST_SIZE = 2**62
if TYPE_CHECKING:
    from typing_extensions import TypeVar as WithDefault

    # A plain ``Result`` in an annotation means a result with any value.
    Value = WithDefault("Value", default=Any)
else:
    Value = TypeVar("Value")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Design(ABC):
    """The promise of a statistic, and the rows that keep it.

    Two samples of ``rows`` rows give different results with probability at most ``rho``; a result is farther
    than ``accuracy`` from the truth with probability at most ``beta``. A statistic adds what its randomness
    needs, such as the width of a grid. This depends on the promise alone and never on a sample.
    """

    accuracy: float | None
    rho: float
    beta: float
    rows: int

    @abstractmethod
    def mismatch(self, rows: int) -> float:
        """An upper bound on the probability that two samples of ``rows`` rows give different results."""

    @abstractmethod
    def failure(self, rows: int) -> float:
        """An upper bound on the probability that a result of ``rows`` rows is too far from the truth."""

    def keeps_promise(self) -> bool:
        """Whether ``rows`` rows keep ``rho`` and ``beta``."""
        return self.failure(self.rows) <= self.beta and self.mismatch(self.rows) <= self.rho

    def kept_by(self, rows: int, *, best_effort: bool, what: str, fewest: int | None = None) -> Kept:
        """What ``rows`` rows keep of the promise.

        Too few rows are refused unless ``best_effort`` is true. Then ``fewest`` rows are needed, or one.
        ``what`` names the result in the message.
        """
        least = (fewest or 1) if best_effort else self.rows
        if rows < least:
            raise NotEnoughRows(self.rows if fewest is None else least, rows, what=what)
        if rows >= self.rows:
            return Kept(self.accuracy, self.rho, self.beta, rows)
        return Kept(self.accuracy, self.mismatch(rows), self.failure(rows), rows)


@dataclass(frozen=True)
class Band(Design):
    """A design whose shared cutoffs for a share of the rows are uniform between ``low`` and ``high``."""

    low: float
    high: float

    def keeps_promise(self) -> bool:
        return self.low < self.high and super().keeps_promise()

    def cutoffs(self, uniforms: Floats) -> Floats:
        """The cutoffs that the tape's ``uniforms`` pick."""
        return self.low + (self.high - self.low) * uniforms


@dataclass(frozen=True)
class Kept:
    """What the rows at hand keep of a promise: all of it, or for a best effort what they can."""

    accuracy: float | None
    rho: float
    beta: float
    rows: int

    def result(
        self, value: Value, tape: Tape, details: dict[str, Any], *, accuracy: float | None = None
    ) -> Result[Value]:
        """The result with this promise; ``accuracy`` is given where the design has it in another unit."""
        reached = self.accuracy if accuracy is None else accuracy
        return Result(value, Replicability(self.rho), reached, self.beta, self.rows, str(tape), details)


AnyDesign = TypeVar("AnyDesign", bound=Design)


def smallest_design(
    at: Callable[[int], AnyDesign], argument: str, value: Any, *, of: str, by: str = "", unit: str = "rows"
) -> AnyDesign:
    """The design ``at(n)`` with the least n that keeps its promise; errors blame ``argument``."""
    return at(least_rows(lambda n: at(n).keeps_promise(), argument, value, of=of, by=by, unit=unit))


def least_rows(
    enough: Callable[[int], bool],
    argument: str,
    value: Any,
    *,
    of: str,
    by: str = "",
    start: int = 1,
    most: int = _LARGEST_SIZE,
    unit: str = "rows",
) -> int:
    """The least size from ``start`` that is ``enough``; where none up to ``most`` is, blame ``argument``."""
    rows = search.least_whole(enough, above=start - 1, most=most)
    if rows is None:
        power = str(most.bit_length() - 1).translate(_SUPERSCRIPTS)
        expected = f"large enough for some sample below 2{power} {unit}"
        raise InvalidArgument(argument, expected, value, of=of, reference=by)
    return rows


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedWay = TypeVar("NamedWay", bound=_Named)


def way_named(ways: Sequence[NamedWay], name: str, *, of: str) -> NamedWay:
    """The way of this name among the ``ways`` of a plan."""
    for way in ways:
        if way.name == name:
            return way
    raise InvalidArgument("name", " or ".join(way.name for way in ways), name, of=of)


def chance(value: float, argument: str, *, of: str, by: str) -> float:
    """A probability that is neither 0 nor 1, such as ``rho`` or ``beta``."""
    return checks.real(value, argument, "(0, 1)", of=of, by=by)


def promise_arguments(
    accuracy: float,
    rho: float,
    beta: float,
    within: str = "(0, 1)",
    *,
    of: str,
    by: str,
    name: str = "accuracy",
) -> tuple[float, float, float]:
    """The three numbers of a promise; ``accuracy``, called ``name`` in messages, lies ``within`` a range."""
    return (
        checks.real(accuracy, name, within, of=of, by=by),
        chance(rho, "rho", of=of, by=by),
        chance(beta, "beta", of=of, by=by),
    )


def bounds_argument(bounds: Sequence[float], *, of: str, by: str) -> tuple[float, float]:
    """Two finite numbers, the lower first."""
    pair = checks.reals(bounds, "bounds", "(-inf, inf)", of=of, by=by)
    if len(pair) != 2 or not pair[0] < pair[1] or not math.isfinite(pair[1] - pair[0]):
        raise InvalidArgument("bounds", "two numbers, the lower first", bounds, of=of, reference=by)
    return pair[0], pair[1]


def values_argument(x: npt.ArrayLike, low: float, high: float, *, of: str, by: str) -> Floats:
    """A vector of numbers from ``low`` to ``high``; NaN and infinity are refused."""
    expected = f"a sequence of numbers between {low:g} and {high:g}"
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("x", expected, x, of=of, reference=by) from None
    if values.ndim != 1 or not ((values >= low) & (values <= high)).all():
        raise InvalidArgument("x", expected, x, of=of, reference=by)
    return values


def table_argument(x: npt.ArrayLike, *, of: str) -> npt.NDArray[np.float64]:
    """``x`` as rows × coordinates of finite numbers; a plain list is one coordinate."""
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise InvalidArgument("x", "a table of finite numbers, one row an observation", x, of=of)
    return values


def _settled(value: Any) -> Any:
    """Numpy scalars become Python's; arrays become read-only copies."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        fixed = value.copy()
        fixed.flags.writeable = False
        return fixed
    return value


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, repr=False, eq=False)
class Result(Record, Generic[Value]):
    """A value that another laboratory with the same tape and fresh rows will get again, bit for bit.

    ``guarantee.rho`` bounds the probability that the two differ; ``accuracy`` and ``beta`` say how far the
    value may be from the truth and with what probability it is farther; ``tape`` is the text to print in the
    paper. A result stands for its value: ``float``, ``len``, indexing, iteration and ``==`` go to it.

    Guarantee: what ``guarantee``, ``accuracy`` and ``beta`` say.
    Assumes: what the statistic assumes.
    Reference: see each statistic.

    Args:
        value: What the statistic found.
        rows: How many rows were read.
        details: What else the statistic says, such as the rows it needed.

    >>> result = Result(0.25, Replicability(0.1), 0.05, 0.01, rows=5847, tape="tape:holdfast-1:study-7")
    >>> float(result), result == 0.25
    (0.25, True)
    """

    value: Value
    guarantee: Replicability
    accuracy: float | None
    beta: float | None
    rows: int
    tape: str
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _settled(self.value))
        object.__setattr__(self, "tape", str(self.tape))
        object.__setattr__(self, "details", {key: _settled(item) for key, item in self.details.items()})

    def __str__(self) -> str:
        """The value and what is promised about it, in words."""
        promise = (
            "another sample and this tape give exactly this with probability "
            f"{1 - self.guarantee.rho:g} or more"
        )
        if self.accuracy is not None and self.beta is not None:
            near = f"{1 - self.beta:g}"
            promise += f"; it is within {self.accuracy:g} of the truth with probability {near} or more"
        return f"{self.value} ({promise}; {self.rows:,} rows; {self.tape})"

    def to_dict(self) -> dict[str, Any]:
        """The result as a dictionary of plain values, ready for JSON."""
        visible = self._visible()
        visible["value"] = _listed(self.value)
        visible["details"] = {key: _listed(item) for key, item in self.details.items()}
        return {name: plain(item) for name, item in visible.items()}

    def __eq__(self, other: object) -> bool:
        other_value = other.value if isinstance(other, Result) else other
        if isinstance(self.value, np.ndarray) or isinstance(other_value, np.ndarray):
            return bool(np.array_equal(np.asarray(self.value), np.asarray(other_value)))
        return bool(self.value == other_value)

    def __hash__(self) -> int:
        value = self.value
        return hash((value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value)

    def _any(self) -> Any:
        """The value, for operations that only some values have."""
        return self.value

    def __float__(self) -> float:
        return float(self._any())

    def __int__(self) -> int:
        return int(self._any())

    def __index__(self) -> int:
        return operator.index(self._any())

    def __bool__(self) -> bool:
        return bool(self.value)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        return len(self._any())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._any())

    def __contains__(self, item: object) -> bool:
        return item in self._any()

    def __getitem__(self, key: Any) -> Any:
        return self._any()[key]
