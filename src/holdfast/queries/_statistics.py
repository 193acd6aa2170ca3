"""The questions beyond means, shares and quantiles: ratios, differences, spreads and how values go
together."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from holdfast import engines
from holdfast.checks import real, reals, whole
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.queries._expression import Expression
from holdfast.queries._query import Nulls, Query, bounds_of, filter_of, groups_of, quantile

__all__ = [
    *("cdf", "correlation", "covariance", "difference", "histogram", "lift", "median", "ratio", "slope"),
    *("limits", "std", "variance"),
]

_MOST_BINS = 1_000


def median(
    expression: Any,
    *,
    where: Any = None,
    nulls: Nulls = None,
    guess: float | None = None,
    by: Any = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the median of an expression.

    >>> str(median("income"))
    'quantile(income, 0.5)'
    """
    return quantile(expression, 0.5, where=where, nulls=nulls, guess=guess, by=by, schema=schema)


def ratio(u: Any, v: Any, *, bounds: Any = None, **options: Any) -> Query:
    """Ask for the mean of ``u`` divided by the mean of ``v``, which is not negative: revenue a visit.

    >>> str(ratio("revenue", "visits", bounds={"revenue": (0, 500), "visits": (0, 30)}))
    'ratio(revenue, visits, 0, 500, 0, 30)'
    """
    query = _of_two("ratio", u, v, bounds, options)
    if query.other_bounds is not None and not query.other_bounds[0] >= 0:
        raise InvalidArgument(
            "bounds", "a range of the denominator that is not below zero", query.other_bounds, of="ratio"
        )
    return query


def covariance(x: Any, y: Any, *, bounds: Any = None, **options: Any) -> Query:
    """Ask for the covariance of two expressions.

    >>> str(covariance("age", "income", bounds={"age": (18, 90), "income": (0, 1e5)}))
    'covariance(age, income, 18, 90, 0, 100000)'
    """
    return _of_two("covariance", x, y, bounds, options)


def correlation(x: Any, y: Any, *, bounds: Any = None, **options: Any) -> Query:
    """Ask for the correlation of two expressions.

    >>> str(correlation("age", "income", bounds={"age": (18, 90), "income": (0, 1e5)}))
    'correlation(age, income, 18, 90, 0, 100000)'
    """
    return _of_two("correlation", x, y, bounds, options)


def slope(y: Any, x: Any, *, bounds: Any = None, **options: Any) -> Query:
    """Ask for the slope of ``y`` on ``x`` by least squares: how much ``y`` grows with one unit of ``x``.

    >>> str(slope("income", "age", bounds={"age": (18, 90), "income": (0, 1e5)}))
    'slope(income, age, 0, 100000, 18, 90)'
    """
    return _of_two("slope", y, x, bounds, options)


def variance(x: Any, *, bounds: Any = None, **options: Any) -> Query:
    """Ask for the variance of an expression.

    >>> str(variance("income", bounds=(0, 1e5)))
    'variance(income, 0, 100000)'
    """
    return _of_one("variance", x, bounds, options)


def std(x: Any, *, bounds: Any = None, **options: Any) -> Query:
    """Ask for the standard deviation of an expression.

    >>> str(std("income", bounds=(0, 1e5)))
    'std(income, 0, 100000)'
    """
    return _of_one("std", x, bounds, options)


def difference(x: Any, *, between: Any, bounds: Any = None, **options: Any) -> Query:
    """Ask for the mean of ``x`` in a first group of rows less its mean in a second one.

    ``between`` is two conditions, as a pair or as one text with a comma, or a column that has two values:
    then the later value is the first group. A condition as ``x`` counts 0 or 1 and needs no bounds.

    >>> str(difference("spend", between=("arm = 'b'", "arm = 'a'"), bounds=(0, 500)))
    "difference(spend, arm = 'b', arm = 'a', 0, 500)"
    """
    return _of_groups("difference", x, between, bounds, options)


def lift(x: Any, *, between: Any, bounds: Any = None, **options: Any) -> Query:
    """Ask how much larger the mean of ``x`` is in a first group of rows than in a second one, relative to the
    second: 0.1 is a tenth more. ``x`` is not negative; ``between`` is that of :func:`difference`.

    >>> str(lift("spend", between="arm = 'b', arm = 'a'", bounds=(0, 500)))
    "lift(spend, arm = 'b', arm = 'a', 0, 500)"
    """
    query = _of_groups("lift", x, between, bounds, options)
    if query.bounds is not None and not query.bounds[0] >= 0:
        raise InvalidArgument("bounds", "a range that is not below zero", query.bounds, of="lift")
    return query


def cdf(
    x: Any,
    *,
    where: Any = None,
    nulls: Nulls = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the whole distribution of an expression at once: which share of it is at most t, for all t.

    >>> str(cdf("income"))
    'cdf(income)'
    """
    return Query(
        "cdf", Expression.read(x, schema=schema), where=filter_of(where, schema), nulls=_skip(nulls, "cdf")
    )


def histogram(
    x: Any,
    bins: Any = 10,
    *,
    where: Any = None,
    nulls: Nulls = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the share of rows in each bin, read off :func:`cdf`. ``bins`` is their number, over what the
    training part shows, or their edges.

    >>> str(histogram("income", [0, 1e4, 1e5]))
    'histogram(income, 0, 10000, 100000)'
    """
    if isinstance(bins, (list, tuple)) or hasattr(bins, "__len__"):
        edges = reals(bins, "bins", "(-inf, inf)", of="histogram")
        if not 2 <= len(edges) <= _MOST_BINS + 1 or any(a >= b for a, b in pairwise(edges)):
            raise InvalidArgument(
                "bins", "a number of bins, or at least two edges that grow", bins, of="histogram"
            )
        divided: int | tuple[float, ...] = tuple(edge + 0.0 for edge in edges)
    else:
        divided = whole(bins, "bins", at_most=_MOST_BINS, of="histogram")
    return Query(
        "histogram",
        Expression.read(x, schema=schema),
        where=filter_of(where, schema),
        nulls=_skip(nulls, "histogram"),
        bins=divided,
    )


def limits(query: Query) -> tuple[float, float]:
    """Between what the statistic lies, whatever the rows are."""
    low, high = query.bounds or (-math.inf, math.inf)
    width = high - low
    across = 0.0 if query.other_bounds is None else query.other_bounds[1] - query.other_bounds[0]
    ranges = {
        "mean": (low, high),
        "share": (0.0, 1.0),
        "difference": (-width, width),
        "lift": (-1.0, math.inf),
        "variance": (0.0, (width / 2) ** 2),
        "std": (0.0, width / 2),
        "covariance": (-width * across / 4, width * across / 4),
        "correlation": (-1.0, 1.0),
    }
    if query.kind == "ratio" and query.other_bounds is not None:
        return _quotients((low, high), query.other_bounds)
    return ranges.get(query.kind, (-math.inf, math.inf))


def _quotients(u: tuple[float, float], v: tuple[float, float]) -> tuple[float, float]:
    if v[0] > 0:
        ends = [numerator / denominator for numerator in u for denominator in v]
        return min(ends), max(ends)
    return 0.0 if u[0] >= 0 else -math.inf, 0.0 if u[1] <= 0 else math.inf


def _of_one(kind: str, x: Any, bounds: Any, options: dict[str, Any]) -> Query:
    read = Expression.read(x, schema=options.get("schema"))
    (own,) = bounds_of((x, read), given=bounds, of=kind)
    return _query(kind, options, own is None, expression=read, bounds=own)


def _of_two(kind: str, x: Any, y: Any, bounds: Any, options: dict[str, Any]) -> Query:
    first, second = (Expression.read(one, schema=options.get("schema")) for one in (x, y))
    own, others = bounds_of((x, first), (y, second), given=bounds, of=kind)
    return _query(kind, options, own is None, expression=first, bounds=own, other=second, other_bounds=others)


def _of_groups(kind: str, x: Any, between: Any, bounds: Any, options: dict[str, Any]) -> Query:
    from holdfast.queries._line import split_at_commas

    schema = options.get("schema")
    read = Expression.read(x, schema=schema)
    parts = split_at_commas(between) if isinstance(between, str) else between
    listed = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    if not 1 <= len(listed) <= 2:
        raise InvalidArgument("between", "two conditions, or a column with two values", between, of=kind)
    groups = tuple(Expression.read(one, schema=schema) for one in listed)
    if len(groups) == 2 and groups[0] == groups[1]:
        raise QueryRejected(f"Both groups of the {kind} are {groups[0].text!r}; name two different ones.")
    if bounds is None and (read.is_condition or read.column is not None):
        # A condition counts 0 or 1. A column may hold conditions, which is known where the table is.
        own = (0.0, 1.0) if read.is_condition else None
        return _query(kind, options, False, expression=read, bounds=own, groups=groups)
    (own,) = bounds_of((x, read), given=bounds, of=kind)
    return _query(kind, options, own is None, expression=read, bounds=own, groups=groups)


def _query(
    kind: str,
    options: dict[str, Any],
    trained: bool,
    *,
    expression: Expression,
    bounds: tuple[float, float] | None,
    other: Expression | None = None,
    other_bounds: tuple[float, float] | None = None,
    groups: tuple[Expression, ...] = (),
) -> Query:
    schema = options.get("schema")
    known = ("where", "nulls", "guess", "by", "schema")
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise InvalidArgument(
            unknown, f"left out: {kind} takes {', '.join(known[:-1])}", options[unknown], of=kind
        )
    query = Query(
        kind=kind,
        expression=expression,
        bounds=bounds,
        trained_bounds=trained,
        where=filter_of(options.get("where"), schema),
        nulls=_skip(options.get("nulls"), kind),
        other=other,
        other_bounds=other_bounds,
        groups=groups,
        by=groups_of(options.get("by"), schema),
    )
    guess = options.get("guess")
    if guess is None:
        return query
    low, high = limits(query)
    domain = f"{'(' if math.isinf(low) else '['}{low!r}, {high!r}{')' if math.isinf(high) else ']'}"
    expected = real(guess, "guess", domain, of=kind)
    object.__setattr__(query, "guess", expected + 0.0)
    return query


def _skip(nulls: Nulls, kind: str) -> Nulls:
    if nulls is not None and nulls != "skip":
        raise InvalidArgument("nulls", "'skip', or left out", nulls, of=kind)
    return nulls
