"""The question itself: a frozen record that says all there is to say, and nothing about the data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast import engines
from holdfast.checks import choice, real, reals
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.queries._checked import CheckedQuery, check
from holdfast.queries._expression import Expression
from holdfast.queries._nodes import show, truth
from holdfast.records import Record

__all__ = [
    "KINDS",
    "TRAIN",
    "Nulls",
    "Query",
    "bounds_of",
    "filter_of",
    "groups_of",
    "mean",
    "quantile",
    "share",
]

Nulls = float | bool | str | None

KINDS = (
    *("mean", "share", "quantile", "ratio", "difference", "lift", "variance", "std"),
    *("covariance", "correlation", "slope", "cdf", "histogram"),
)
"""What may be asked for."""
TRAIN = "train"
"""Bounds that the training part is to propose."""
_UNBOUNDED = ("share", "quantile", "cdf", "histogram")
_ANYWHERE = (-1.7976931348623157e308, 1.7976931348623157e308)


@dataclass(frozen=True, repr=False)
class Query(Record):
    """One question about a table; made by the functions of :mod:`holdfast.queries`, or by :func:`read`.

    ``expression`` is what is asked about. Some kinds are about an ``other`` value of each row too, and some
    compare ``groups`` of rows, each given by a condition; a row is in the first group whose condition is true
    of it. A question ``by`` some columns is one question for each of their values. The ``bins`` of a
    histogram are their number, or their edges.

    ``nulls`` says what a row without a value counts as: a number (for a share True or False), or ``"skip"``
    to leave such rows out. Left open, the question is refused where nulls are to be expected; where one turns
    up all the same it counts as the lowest value there is (``bounds[0]``, False, for a quantile minus
    infinity). In the filter ``where`` a null does not pass. Values outside ``bounds`` are clipped.
    """

    kind: str
    expression: Expression
    bounds: tuple[float, float] | None = None
    q: float | None = None
    where: Expression | None = None
    nulls: Nulls = None
    guess: float | None = None
    other: Expression | None = None
    other_bounds: tuple[float, float] | None = None
    groups: tuple[Expression, ...] = ()
    by: tuple[Expression, ...] = ()
    trained_bounds: bool = False
    bins: int | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            choice(self.kind, "kind", KINDS, of="Query")
        for name in ("expression", "where", "other"):
            part = getattr(self, name)
            if not isinstance(part, Expression) and (name == "expression" or part is not None):
                wanted = "an Expression (queries.mean, share, quantile and read make queries from text)"
                raise InvalidArgument(name, wanted, part, of="Query")
        if self.where is not None and self.where.node == truth(True):
            object.__setattr__(self, "where", None)

    @property
    def is_table(self) -> bool:
        """Whether the answer is a table: one row for each group, or for each bin."""
        return bool(self.by) or self.kind == "histogram"

    @property
    def needs_bounds(self) -> bool:
        """Whether it is still to be said where values are clipped."""
        return self.bounds is None and self.kind not in _UNBOUNDED

    @property
    def statistic(self) -> str:
        """What is computed, by name: the kind, or "weighted mean"."""
        return "weighted mean" if self.kind == "mean" and self.other is not None else self.kind

    @property
    def values(self) -> tuple[Expression, ...]:
        """The values of a row that are computed with."""
        return (self.expression,) if self.other is None else (self.expression, self.other)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Every expression of the question."""
        where = () if self.where is None else (self.where,)
        return (*self.values, *self.groups, *where, *self.by)

    @property
    def missing(self) -> float:
        """What a row without a value counts as, unless it is skipped."""
        if isinstance(self.nulls, (bool, int, float)):
            return float(self.nulls)
        if self.kind == "quantile":
            return -math.inf
        return self.bounds[0] if self.bounds else 0.0

    @property
    def text(self) -> str:
        """The question in canonical form, without the guess: what is asked, not what is expected."""
        return f"{self.kind}({', '.join([*self._subject(), *self._options(self.nulls)])})"

    @property
    def key(self) -> str:
        """The same for the same question: SHA-256 of the canonical form of everything but the guess."""
        nulls = self.nulls if self.nulls == "skip" else self.missing
        asked = f"{self.kind}({', '.join([*self._subject(), *self._options(nulls)])})"
        return hashlib.sha256(asked.encode()).hexdigest()

    def _subject(self) -> list[str]:
        numbers: tuple[float, ...] = (*(self.bounds or ()), *(self.other_bounds or ()))
        numbers += () if self.q is None else (self.q,)
        numbers += (self.bins,) if isinstance(self.bins, int) else self.bins or ()
        listed = self.values if self.kind != "mean" else (self.expression,)
        return [*(part.text for part in (*listed, *self.groups)), *map(show, numbers)]

    def _options(self, nulls: Nulls) -> list[str]:
        options = ["bounds = train"] if self.trained_bounds else []
        if self.kind == "mean" and self.other is not None:
            options.append(f"weights = {self.other.text}")
        if self.by:
            listed = ", ".join(part.text for part in self.by)
            options.append(f"by = {listed if len(self.by) == 1 else f'({listed})'}")
        if self.where is not None:
            options.append(f"where = {self.where.text}")
        if nulls is not None:
            options.append(f"nulls = {nulls if isinstance(nulls, str) else _constant(nulls)}")
        return options

    def __str__(self) -> str:
        guess = [] if self.guess is None else [f"guess = {show(self.guess)}"]
        return f"{self.kind}({', '.join([*self._subject(), *self._options(self.nulls), *guess])})"

    def check(self, schema: Mapping[str, engines.Column], nullable: Collection[str] = ()) -> CheckedQuery:
        """Check the question against a schema, without touching data; ``nullable`` names columns seen to hold
        nulls.

        Raises :class:`~holdfast.errors.QueryRejected` that says what to write instead: an unknown column, a
        kind that does not fit, a value that may be missing while the question does not say what missing
        values count as.
        """
        return check(self, schema, nullable)


def _constant(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-inf" if value == -math.inf else show(value)


def mean(
    expression: Any,
    *,
    bounds: Any = None,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
    weights: Any = None,
    by: Any = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the mean of an expression, its values clipped to ``bounds``; with ``weights``, which are not
    negative, for the weighted mean. Then ``bounds`` names both ranges: {"x": (0, 10), "w": (0, 2)}.

    >>> str(mean("income", bounds=(0, 1e5), where="age > 40"))
    'mean(income, 0, 100000, where = age > 40)'
    """
    read = Expression.read(expression, schema=schema)
    if weights is not None:
        return _weighted_mean(expression, weights, bounds, where, nulls, guess, by, schema)
    if bounds is None:
        raise QueryRejected(
            f"The mean of {read.text!r} needs bounds: no number of rows can tell the mean of unbounded "
            f"values. Write bounds=(lo, hi), on the command line mean({read.text}, lo, hi); "
            "values outside are clipped."
        )
    (limits,) = bounds_of((expression, read), given=bounds, of="mean")
    if nulls is not None and nulls != "skip":
        if isinstance(nulls, (bool, str)):
            raise InvalidArgument("nulls", "a number within the bounds, or 'skip'", nulls, of="mean")
        nulls = _within(nulls, "nulls", limits or _ANYWHERE, "mean")
    return Query(
        kind="mean",
        expression=read,
        bounds=limits,
        trained_bounds=limits is None,
        where=filter_of(where, schema),
        nulls=nulls,
        guess=None if guess is None else _within(guess, "guess", limits or _ANYWHERE, "mean"),
        by=groups_of(by, schema),
    )


def _weighted_mean(
    expression: Any,
    weights: Any,
    bounds: Any,
    where: Any,
    nulls: Nulls,
    guess: float | None,
    by: Any,
    schema: engines.Schema | None,
) -> Query:
    read, heavy = (Expression.read(one, schema=schema) for one in (expression, weights))
    limits, range_of_weights = bounds_of((expression, read), (weights, heavy), given=bounds, of="mean")
    if range_of_weights is not None and not range_of_weights[0] >= 0:
        raise InvalidArgument(
            "bounds", "a range of the weights that is not below zero", range_of_weights, of="mean"
        )
    if nulls is not None and nulls != "skip":
        raise InvalidArgument("nulls", "'skip', or left out: rows have weights too", nulls, of="mean")
    return Query(
        kind="mean",
        expression=read,
        bounds=limits,
        trained_bounds=limits is None,
        where=filter_of(where, schema),
        nulls=nulls,
        guess=None if guess is None else _within(guess, "guess", limits or _ANYWHERE, "mean"),
        other=heavy,
        other_bounds=range_of_weights,
        by=groups_of(by, schema),
    )


def share(
    condition: Any,
    *,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
    by: Any = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the share of rows for which a condition is true.

    >>> str(share("NOT age <= 40", guess=0.5))
    'share(age > 40, guess = 0.5)'
    """
    if not (nulls is None or nulls == "skip" or isinstance(nulls, bool)):
        raise InvalidArgument("nulls", "True, False or 'skip'", nulls, of="share")
    return Query(
        kind="share",
        expression=Expression.read(condition, schema=schema),
        where=filter_of(where, schema),
        nulls=nulls,
        guess=None if guess is None else real(guess, "guess", "[0, 1]", of="share"),
        by=groups_of(by, schema),
    )


def quantile(
    expression: Any,
    q: float,
    *,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
    by: Any = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the ``q``-quantile of an expression, 0 < q < 1.

    >>> str(quantile("income", 0.5))
    'quantile(income, 0.5)'
    """
    if nulls is not None and nulls != "skip":
        if isinstance(nulls, (bool, str)):
            raise InvalidArgument("nulls", "a number, or 'skip'", nulls, of="quantile")
        nulls = real(nulls, "nulls", "(-inf, inf)", of="quantile")
    return Query(
        kind="quantile",
        expression=Expression.read(expression, schema=schema),
        q=real(q, "q", "(0, 1)", of="quantile"),
        where=filter_of(where, schema),
        nulls=nulls,
        guess=None if guess is None else real(guess, "guess", "(-inf, inf)", of="quantile"),
        by=groups_of(by, schema),
    )


def filter_of(where: Any, schema: engines.Schema | None) -> Expression | None:
    """The filter, read."""
    return None if where is None else Expression.read(where, schema=schema)


def groups_of(by: Any, schema: engines.Schema | None) -> tuple[Expression, ...]:
    """The columns that a question is asked by: one, or two of them."""
    if by is None:
        return ()
    listed = by if isinstance(by, (list, tuple)) else [by]
    if not 1 <= len(listed) <= 2:
        raise InvalidArgument("by", "one column or two", by)
    return tuple(Expression.read(one, schema=schema) for one in listed)


def unbounded(of: str, texts: Sequence[str]) -> QueryRejected:
    """The refusal of a question that does not say where values are clipped."""
    each = ", a dict with a pair for each" if len(texts) > 1 else ""
    return QueryRejected(
        f"The {of} of {' and '.join(texts)} needs bounds: no number of rows can tell it of unbounded values. "
        f"Write bounds=(lo, hi){each}, or bounds='train' to have them proposed by the training part; values "
        "outside are clipped."
    )


def bounds_of(*values: tuple[Any, Expression], given: Any, of: str) -> list[tuple[float, float] | None]:
    """The range of each value, from a pair (lo, hi) for all of them, a pair for each, or a dict with a pair
    for each, by what was written or by its canonical text. None where the training part is to say it."""
    texts = [read.text for _, read in values]
    if given is None:
        raise unbounded(of, texts)
    if isinstance(given, str) and given == TRAIN:
        return [None] * len(values)
    if isinstance(given, Mapping):
        pairs = [
            given.get(w if isinstance(w, str) else read.text, given.get(read.text)) for w, read in values
        ]
        if any(pair is None for pair in pairs):
            raise InvalidArgument(
                "bounds", f"a dict with a pair for each of {', '.join(texts)}", given, of=of
            )
        return [_bounds(pair, of) for pair in pairs]
    numbers = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(values) > 1 and len(numbers) == len(values) and all(isinstance(one, Sequence) for one in numbers):
        return [_bounds(pair, of) for pair in numbers]
    if len(values) > 1 and len(numbers) == 2 * len(values):
        return [_bounds(numbers[start : start + 2], of) for start in range(0, len(numbers), 2)]
    return [_bounds(given, of)] * len(values)


def _bounds(bounds: Any, of: str) -> tuple[float, float]:
    pair = reals(bounds, "bounds", "(-inf, inf)", of=of)
    # Variances are squares of the range, other statistics squares of squares, and must not leave the floats.
    least, most = (1e-150, 1e152) if of == "mean" else (1e-60, 1e60)
    if len(pair) != 2 or not least < pair[1] - pair[0] < most:
        wanted = f"two numbers lo < hi, between {least:g} and {most:g} apart"
        raise InvalidArgument("bounds", wanted, bounds, of=of)
    return pair[0] + 0.0, pair[1] + 0.0


def _within(value: Any, argument: str, limits: tuple[float, float], of: str) -> float:
    return real(value, argument, f"[{limits[0]!r}, {limits[1]!r}]", of=of) + 0.0
