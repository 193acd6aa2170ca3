"""The two parts of a reusable holdout, and the exact mean of a question on either.

A question is a function of all rows of a part that gives one value in [0, 1] for each, or a share or mean of
an expression. Values are counted in whole steps of 2⁻²⁴, so a mean is a ratio of whole numbers and changing
one of n rows moves it by at most 1/n, without any rounding. Or it is a statistic of any kind with a declared
sensitivity; it is then taken in units of n times that, in which one row moves it by at most 1/n too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import checks, queries
from holdfast.engines import SCALE_BITS, open_rows, require_unsealed
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.guard._columns import require_columns
from holdfast.queries import CheckedQuery, Query

if TYPE_CHECKING:
    from holdfast.engines import Rows

RESOLUTION = 2.0**-SCALE_BITS
_SCALE = 2**SCALE_BITS
_WHOLE_MEANS = (
    "A reusable holdout answers shares and means over all rows, with bounds (0, 1) and without a filter: "
    "write a filtered question as a share of all rows, and a mean as (x - lo) / (hi - lo)."
)


class NotValues(ValueError):
    """A function did not give one number in [0, 1] for each row."""


@dataclass(frozen=True)
class Sums:
    """``total`` steps of 1/``scale`` over ``rows`` values, and the sum of their squares."""

    rows: int
    total: int
    squares: int
    scale: int

    @classmethod
    def of(cls, values: Any, rows: int) -> Sums:
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


@dataclass(frozen=True)
class FunctionOfRows:
    """A function of the caller's own."""

    function: Callable[[Any], Any]
    text: str
    key: str | None = None
    unit: Fraction = Fraction(1)

    def level(self, part: RowsOf) -> Fraction:
        """The mean on one part, exactly. Reads the part."""
        return self.sums(part).mean

    def sums(self, part: RowsOf) -> Sums:
        """Its values on one part, added up. Reads the part."""
        return Sums.of(self.function(part.shown()), part.count)


@dataclass(frozen=True)
class Expression:
    """A share or mean of an expression over the columns."""

    checked: CheckedQuery
    unit: Fraction = Fraction(1)

    def level(self, part: RowsOf) -> Fraction:
        """The mean on one part, exactly. Reads the part."""
        return self.sums(part).mean

    @property
    def text(self) -> str:
        """The question in words."""
        return self.checked.query.text

    @property
    def key(self) -> str:
        """The same for the same question in other words."""
        return self.checked.query.key

    def sums(self, part: RowsOf) -> Sums:
        """Its values on one part, added up. Reads the part."""
        if part.rows is None:
            raise NotValues
        found = part.rows.sums(self.checked, squares=False)
        return Sums(found.rows, found.total, 0, found.scale)


@dataclass(frozen=True)
class Statistic:
    """Any number that a function makes of all rows, in units of n times its declared sensitivity."""

    function: Callable[[Any], Any]
    text: str
    unit: Fraction
    key: str | None = None

    def level(self, part: RowsOf) -> Fraction:
        """Its value on one part in these units, exactly. Reads the part."""
        value = np.asarray(self.function(part.shown()))
        if value.shape != () or value.dtype.kind not in "iuf" or not np.isfinite(value):
            raise NotValues
        return Fraction(value.item()) / self.unit


Asked = FunctionOfRows | Expression | Statistic


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
        """What a function is given: a pandas frame for a table, else an object like the one that was brought.
        It is a copy, or cannot be written to: whatever a function does to it, the rows stay as they are."""
        if self._sealed:
            require_unsealed()
        if isinstance(self._own, np.ndarray) and not self._own.dtype.hasobject:
            return self._own.view()
        return copy.deepcopy(self._own)


def _copy(data: Any, argument: str, *, of: str) -> Any:
    """The rows as our own. An array is copied once and cannot be written to; anything else is copied for
    every function that sees it. An array in a file that was opened for reading stays there."""
    if isinstance(data, np.memmap) and not data.flags.writeable:
        return data
    if isinstance(data, np.ndarray) and not data.dtype.hasobject:
        own = np.array(data)
        own.flags.writeable = False
        return own
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

    def statistic(self, f: Any, sensitivity: Any, *, of: str) -> Statistic:
        """A statistic of the caller's own, with how far one holdout row can move it."""
        sensitivity = checks.real(sensitivity, "sensitivity", "(0, inf)", of=of)
        if isinstance(f, (str, Query)) or not callable(f):
            raise InvalidArgument("f", "a function of the rows, where a sensitivity is declared", f, of=of)
        name = getattr(f, "__name__", type(f).__name__)
        return Statistic(f, f"{name}(rows)", self.holdout.count * Fraction(sensitivity))

    def question(self, f: Any, *, of: str) -> FunctionOfRows | Expression:
        """What ``f`` asks: a function, a query record or a text; refused here without reading the holdout."""
        if isinstance(f, (str, Query)):
            return self._expression(f)
        if not callable(f):
            raise InvalidArgument("f", "a function of the rows, a query or a text", f, of=of)
        return FunctionOfRows(f, f"mean({getattr(f, '__name__', type(f).__name__)})")

    def _expression(self, f: str | Query) -> Expression:
        query = queries.read(f) if isinstance(f, str) else f
        if self.holdout.rows is None or self.train.rows is None:
            raise QueryRejected(
                "Only tables with named columns can be asked by text; give a function of the rows."
            )
        checked = query.check(self.holdout.rows.schema, self.train.rows.nullable_columns())
        if checked.kind not in ("share", "mean") or checked.counts or checked.bounds != (0.0, 1.0):
            raise QueryRejected(f"{query.text} cannot be asked here. {_WHOLE_MEANS}")
        return Expression(checked)

    def level_in_training(self, question: Asked) -> Fraction:
        """The value on the training rows, in the question's units; what is wrong with it shows here."""
        if not isinstance(question, Statistic):
            return self.in_training(question).mean
        try:
            return question.level(self.train)
        except NotValues:
            raise QueryRejected(
                f"{question.text} has a declared sensitivity and must give one finite number for the "
                "training rows."
            ) from None

    def in_training(self, question: FunctionOfRows | Expression) -> Sums:
        """The question on the training rows; whatever is wrong with it shows here, where it costs nothing."""
        try:
            return question.sums(self.train)
        except NotValues:
            raise QueryRejected(
                f"{question.text} must give one number in [0, 1] for each of the {self.train.count:,} "
                "training rows, and no NaN."
            ) from None
