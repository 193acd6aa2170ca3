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

__all__ = ["Nulls", "Query", "mean", "quantile", "share"]

Nulls = float | bool | str | None


@dataclass(frozen=True, repr=False)
class Query(Record):
    """One question about a table; made by :func:`mean`, :func:`share`, :func:`quantile` or :func:`read`.

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

    def __post_init__(self) -> None:
        choice(self.kind, "kind", ("mean", "share", "quantile"), of="Query")
        for name in ("expression", "where"):
            part = getattr(self, name)
            if not isinstance(part, Expression) and (name == "expression" or part is not None):
                wanted = "an Expression (queries.mean, share, quantile and read make queries from text)"
                raise InvalidArgument(name, wanted, part, of="Query")
        if self.where is not None and self.where.node == truth(True):
            object.__setattr__(self, "where", None)

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
        numbers = self.bounds if self.bounds is not None else () if self.q is None else (self.q,)
        return [self.expression.text, *map(show, numbers)]

    def _options(self, nulls: Nulls) -> list[str]:
        options = []
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
    bounds: Sequence[float] | None = None,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the mean of an expression, its values clipped to ``bounds``.

    >>> str(mean("income", bounds=(0, 1e5), where="age > 40"))
    'mean(income, 0, 100000, where = age > 40)'
    """
    read = Expression.read(expression, schema=schema)
    if bounds is None:
        raise QueryRejected(
            f"The mean of {read.text!r} needs bounds: no number of rows can tell the mean of unbounded "
            f"values. Write bounds=(lo, hi), on the command line mean({read.text}, lo, hi); "
            "values outside are clipped."
        )
    limits = _bounds(bounds)
    if nulls is not None and nulls != "skip":
        if isinstance(nulls, (bool, str)):
            raise InvalidArgument("nulls", "a number within the bounds, or 'skip'", nulls, of="mean")
        nulls = _within(nulls, "nulls", limits, "mean")
    return Query(
        kind="mean",
        expression=read,
        bounds=limits,
        where=_where(where, schema),
        nulls=nulls,
        guess=None if guess is None else _within(guess, "guess", limits, "mean"),
    )


def share(
    condition: Any,
    *,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
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
        where=_where(where, schema),
        nulls=nulls,
        guess=None if guess is None else real(guess, "guess", "[0, 1]", of="share"),
    )


def quantile(
    expression: Any,
    q: float,
    *,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
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
        where=_where(where, schema),
        nulls=nulls,
        guess=None if guess is None else real(guess, "guess", "(-inf, inf)", of="quantile"),
    )


def _where(where: Any, schema: engines.Schema | None) -> Expression | None:
    return None if where is None else Expression.read(where, schema=schema)


def _bounds(bounds: Sequence[float]) -> tuple[float, float]:
    pair = reals(bounds, "bounds", "(-inf, inf)", of="mean")
    # Variances are squares of the range, and must not leave the floats.
    if len(pair) != 2 or not 1e-150 < pair[1] - pair[0] < 1e152:
        raise InvalidArgument(
            "bounds", "two numbers lo < hi, between 1e-150 and 1e152 apart", bounds, of="mean"
        )
    return pair[0] + 0.0, pair[1] + 0.0


def _within(value: Any, argument: str, limits: tuple[float, float], of: str) -> float:
    return real(value, argument, f"[{limits[0]!r}, {limits[1]!r}]", of=of) + 0.0
