"""Arguments that every replicable statistic takes, read the same way by all of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record, plain
from holdfast.replicable._tape import Floats
from holdfast.stability import Replicability

__all__ = [
    "MOST_ROWS",
    "Result",
    "bounds_argument",
    "chance",
    "enough_rows",
    "least_whole",
    "table_argument",
    "values_argument",
]


def chance(value: Any, argument: str, *, of: str, by: str) -> float:
    """A probability that is neither 0 nor 1, such as ``rho`` or ``beta``."""
    return checks.real(value, argument, "(0, 1)", of=of, by=by)


def bounds_argument(bounds: Any, *, of: str, by: str) -> tuple[float, float]:
    """Two finite numbers, the lower first."""
    pair = checks.reals(bounds, "bounds", "(-inf, inf)", of=of, by=by)
    if len(pair) != 2 or not pair[0] < pair[1] or not math.isfinite(pair[1] - pair[0]):
        raise InvalidArgument("bounds", "two numbers, the lower first", bounds, of=of, reference=by)
    return pair[0], pair[1]


def values_argument(x: Any, low: float, high: float, *, of: str, by: str) -> Floats:
    """A vector of numbers from ``low`` to ``high``; NaN and infinity are refused."""
    expected = f"a sequence of numbers between {low:g} and {high:g}"
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("x", expected, x, of=of, reference=by) from None
    if values.ndim != 1 or not ((values >= low) & (values <= high)).all():
        raise InvalidArgument("x", expected, x, of=of, reference=by)
    return values


def enough_rows(rows: int, needed: int, *, best_effort: bool, what: str) -> bool:
    """Whether the rows suffice; too few are refused unless the best effort was asked for, and none always."""
    if rows == 0 or (rows < needed and not best_effort):
        raise NotEnoughRows(needed, rows, what=what)
    return rows >= needed


def table_argument(x: Any, *, of: str) -> npt.NDArray[np.float64]:
    """``x`` as rows × coordinates of finite numbers; a plain list is one coordinate."""
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise InvalidArgument("x", "a table of finite numbers, one row an observation", x, of=of)
    return values


_MOST = 2**62
MOST_ROWS = 2**48
"""No table is larger: a size beyond it is none."""


def least_whole(holds: Callable[[int], bool], start: int = 1, *, most: int = _MOST) -> int | None:
    """The n ≥ ``start`` with ``holds(n)`` and not ``holds(n − 1)``, by doubling and bisection; None beyond
    ``most``.

    ``holds`` should be false up to some number and true from there on.
    """
    low, high = start - 1, start
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


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
class Result(Record):
    """A value that another laboratory with the same tape and fresh rows will get again, bit for bit.

    ``guarantee.rho`` bounds the probability that the two differ; ``accuracy`` and ``beta`` say how far the
    value may be from the truth and with what probability it is farther; ``tape`` is the text to print in the
    paper. A result stands for its value: ``float``, ``len``, indexing, iteration and ``==`` go to it.

    Guarantee: what ``guarantee``, ``accuracy`` and ``beta`` say.
    Assumes: what the statistic assumes.
    Reference: see each statistic.

    >>> result = Result(0.25, Replicability(0.1), 0.05, 0.01, rows=5847, tape="tape:holdfast-1:study-7")
    >>> float(result), result == 0.25
    (0.25, True)
    """

    value: Any
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
        again, near = 1 - self.guarantee.rho, None if self.beta is None else 1 - self.beta
        promise = f"another sample and this tape give exactly this with probability {again:g} or more"
        if self.accuracy is not None and near is not None:
            promise += f"; it is within {self.accuracy:g} of the truth with probability {near:g} or more"
        return f"{self.value} ({promise}; {self.rows:,} rows; {self.tape})"

    def to_dict(self) -> dict[str, Any]:
        """The result as a dictionary of plain values, ready for JSON."""
        visible = self._visible()
        visible["value"] = _listed(self.value)
        visible["details"] = {key: _listed(item) for key, item in self.details.items()}
        return {name: plain(item) for name, item in visible.items()}

    def __eq__(self, other: object) -> bool:
        theirs = other.value if isinstance(other, Result) else other
        if isinstance(self.value, np.ndarray) or isinstance(theirs, np.ndarray):
            return bool(np.array_equal(np.asarray(self.value), np.asarray(theirs)))
        return bool(self.value == theirs)

    def __hash__(self) -> int:
        value = self.value
        return hash((value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __contains__(self, item: object) -> bool:
        return item in self.value

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]
