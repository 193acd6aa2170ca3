"""The questions, one function each: means, shares and quantiles, ratios, differences, spreads and how values
go together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, TypedDict, Unpack, cast

from holdfast import engines
from holdfast.checks import real, reals, whole
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.queries._expression import Expression, ExpressionSource
from holdfast.queries._query import TRAIN, Nulls, Query, limits
from holdfast.typing import ArrayLike, BoundsLike

__all__ = [
    *("cdf", "correlation", "covariance", "difference", "histogram", "lift", "mean", "median", "quantile"),
    *("ratio", "share", "slope", "std", "unbounded", "variance"),
]

OneOrMore: TypeAlias = ExpressionSource | Sequence[ExpressionSource]
_MOST_BINS = 1_000


class Options(TypedDict, total=False):
    """The further options of a question; see :func:`share` for the meaning of each."""

    where: ExpressionSource | None
    nulls: Nulls
    guess: float | None
    by: OneOrMore | None
    schema: engines.Schema | None


_ANYWHERE = (-1.7976931348623157e308, 1.7976931348623157e308)


def mean(
    expression: ExpressionSource,
    *,
    bounds: BoundsLike = None,
    where: ExpressionSource | None = None,
    nulls: Nulls = None,
    guess: float | None = None,
    weights: ExpressionSource | None = None,
    by: OneOrMore | None = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the mean of an expression, its values clipped to ``bounds``; with ``weights``, which are not
    negative, for the weighted mean. Then ``bounds`` names both ranges: {"x": (0, 10), "w": (0, 2)}.

    Args:
        expression: The value of each row.
        bounds: Where values are clipped: (lo, hi), or "train" to let the training part propose it.
        weights: The weight of each row; without it all rows weigh the same.
        where: A condition; only rows for which it is true enter.
        nulls: What a row without a value counts as, within the bounds, or "skip" to leave it out.
        guess: The answer that you expect; by default the training part gives it.
        by: A column, or two: one question for each of their values.
        schema: The columns of the table, for expressions of ibis that are not bound to one.

    >>> str(mean("income", bounds=(0, 1e5), where="age > 40"))
    'mean(income, 0, 100000, where = age > 40)'
    """
    read = Expression.read(expression, schema=schema)
    if weights is not None:
        return _weighted_mean(expression, weights, bounds, where, nulls, guess, by, schema)
    if bounds is None:
        raise QueryRejected(
            f"The mean of {read.text!r} needs bounds: no number of rows is enough for the mean of unbounded "
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
    expression: ExpressionSource,
    weights: ExpressionSource,
    bounds: BoundsLike,
    where: ExpressionSource | None,
    nulls: Nulls,
    guess: float | None,
    by: OneOrMore | None,
    schema: engines.Schema | None,
) -> Query:
    read, read_weights = (Expression.read(source, schema=schema) for source in (expression, weights))
    limits, range_of_weights = bounds_of((expression, read), (weights, read_weights), given=bounds, of="mean")
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
        other=read_weights,
        other_bounds=range_of_weights,
        by=groups_of(by, schema),
    )


def share(
    condition: ExpressionSource,
    *,
    where: ExpressionSource | None = None,
    nulls: Nulls = None,
    guess: float | None = None,
    by: OneOrMore | None = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the share of rows for which a condition is true.

    Args:
        condition: What is true or false of each row.
        where: A condition; only rows for which it is true enter.
        nulls: What a row counts as whose condition is null: True, False, or "skip" to leave it out.
        guess: The answer that you expect; by default the training part gives it.
        by: A column, or two: one question for each of their values.
        schema: The columns of the table, for expressions of ibis that are not bound to one.

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
    expression: ExpressionSource,
    q: float,
    *,
    where: ExpressionSource | None = None,
    nulls: Nulls = None,
    guess: float | None = None,
    by: OneOrMore | None = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the ``q``-quantile of an expression, 0 < q < 1.

    Args:
        expression: The value of each row.
        q: Which quantile: 0.5 is the median.
        where: A condition; only rows for which it is true enter.
        nulls: What a row without a value counts as, or "skip" to leave it out.
        guess: The answer that you expect; by default the training part gives it.
        by: A column, or two: one question for each of their values.
        schema: The columns of the table, for expressions of ibis that are not bound to one.

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


def median(
    expression: ExpressionSource,
    *,
    where: ExpressionSource | None = None,
    nulls: Nulls = None,
    guess: float | None = None,
    by: OneOrMore | None = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the median of an expression.

    Args:
        expression: The value of each row.
        where: A condition; only rows for which it is true enter.
        nulls: What a row without a value counts as, or "skip" to leave it out.
        guess: The answer that you expect; by default the training part gives it.
        by: A column, or two: one question for each of their values.
        schema: The columns of the table, for expressions of ibis that are not bound to one.

    >>> str(median("income"))
    'quantile(income, 0.5)'
    """
    return quantile(expression, 0.5, where=where, nulls=nulls, guess=guess, by=by, schema=schema)


def ratio(
    u: ExpressionSource, v: ExpressionSource, *, bounds: BoundsLike = None, **options: Unpack[Options]
) -> Query:
    """Ask for the mean of ``u`` divided by the mean of ``v``, which is not negative: revenue a visit.

    Args:
        u: The value above the line.
        v: The value below the line.
        bounds: Where values are clipped: (lo, hi) for both, a dict with a pair for each, or "train".
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(ratio("revenue", "visits", bounds={"revenue": (0, 500), "visits": (0, 30)}))
    'ratio(revenue, visits, 0, 500, 0, 30)'
    """
    query = _of_two("ratio", u, v, bounds, options)
    if query.other_bounds is not None and not query.other_bounds[0] >= 0:
        raise InvalidArgument(
            "bounds", "a range of the denominator that is not below zero", query.other_bounds, of="ratio"
        )
    return query


def covariance(
    x: ExpressionSource, y: ExpressionSource, *, bounds: BoundsLike = None, **options: Unpack[Options]
) -> Query:
    """Ask for the covariance of two expressions.

    Args:
        x: The first value of each row.
        y: The second value of each row.
        bounds: Where values are clipped: (lo, hi) for both, a dict with a pair for each, or "train".
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(covariance("age", "income", bounds={"age": (18, 90), "income": (0, 1e5)}))
    'covariance(age, income, 18, 90, 0, 100000)'
    """
    return _of_two("covariance", x, y, bounds, options)


def correlation(
    x: ExpressionSource, y: ExpressionSource, *, bounds: BoundsLike = None, **options: Unpack[Options]
) -> Query:
    """Ask for the correlation of two expressions.

    Args:
        x: The first value of each row.
        y: The second value of each row.
        bounds: Where values are clipped: (lo, hi) for both, a dict with a pair for each, or "train".
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(correlation("age", "income", bounds={"age": (18, 90), "income": (0, 1e5)}))
    'correlation(age, income, 18, 90, 0, 100000)'
    """
    return _of_two("correlation", x, y, bounds, options)


def slope(
    y: ExpressionSource, x: ExpressionSource, *, bounds: BoundsLike = None, **options: Unpack[Options]
) -> Query:
    """Ask for the slope of ``y`` on ``x`` by least squares: how much ``y`` grows with one unit of ``x``.

    Args:
        y: The value that is explained.
        x: The value that explains it.
        bounds: Where values are clipped: (lo, hi) for both, a dict with a pair for each, or "train".
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(slope("income", "age", bounds={"age": (18, 90), "income": (0, 1e5)}))
    'slope(income, age, 0, 100000, 18, 90)'
    """
    return _of_two("slope", y, x, bounds, options)


def variance(x: ExpressionSource, *, bounds: BoundsLike = None, **options: Unpack[Options]) -> Query:
    """Ask for the variance of an expression.

    Args:
        x: The value of each row.
        bounds: Where values are clipped: (lo, hi), or "train" to let the training part propose it.
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(variance("income", bounds=(0, 1e5)))
    'variance(income, 0, 100000)'
    """
    return _of_one("variance", x, bounds, options)


def std(x: ExpressionSource, *, bounds: BoundsLike = None, **options: Unpack[Options]) -> Query:
    """Ask for the standard deviation of an expression.

    Args:
        x: The value of each row.
        bounds: Where values are clipped: (lo, hi), or "train" to let the training part propose it.
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(std("income", bounds=(0, 1e5)))
    'std(income, 0, 100000)'
    """
    return _of_one("std", x, bounds, options)


def difference(
    x: ExpressionSource,
    *,
    between: OneOrMore,
    bounds: BoundsLike = None,
    **options: Unpack[Options],
) -> Query:
    """Ask for the mean of ``x`` in a first group of rows less its mean in a second one.

    ``between`` is two conditions, as a pair or as one text with a comma, or a column that has two values:
    then the later value is the first group. A condition as ``x`` counts 0 or 1 and needs no bounds.

    Args:
        bounds: Where values are clipped: (lo, hi), or "train" to let the training part propose it.
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(difference("spend", between=("arm = 'b'", "arm = 'a'"), bounds=(0, 500)))
    "difference(spend, arm = 'b', arm = 'a', 0, 500)"
    """
    return _of_groups("difference", x, between, bounds, options)


def lift(
    x: ExpressionSource,
    *,
    between: OneOrMore,
    bounds: BoundsLike = None,
    **options: Unpack[Options],
) -> Query:
    """Ask how much larger the mean of ``x`` is in a first group of rows than in a second one, relative to the
    second: 0.1 is a tenth more. ``x`` is not negative; ``between`` is that of :func:`difference`.

    Args:
        bounds: Where values are clipped: (lo, hi), or "train" to let the training part propose it.
        **options: ``where``, ``nulls`` ("skip" only), ``guess``, ``by`` and ``schema``, as for :func:`share`.

    >>> str(lift("spend", between="arm = 'b', arm = 'a'", bounds=(0, 500)))
    "lift(spend, arm = 'b', arm = 'a', 0, 500)"
    """
    query = _of_groups("lift", x, between, bounds, options)
    if query.bounds is not None and not query.bounds[0] >= 0:
        raise InvalidArgument("bounds", "a range that is not below zero", query.bounds, of="lift")
    return query


def cdf(
    x: ExpressionSource,
    *,
    where: ExpressionSource | None = None,
    nulls: Nulls = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the whole distribution of an expression at once: which share of it is at most t, for all t.

    Args:
        x: The value of each row.
        where: A condition; only rows for which it is true enter.
        nulls: "skip" to leave out rows without a value.
        schema: The columns of the table, for expressions of ibis that are not bound to one.

    >>> str(cdf("income"))
    'cdf(income)'
    """
    return Query(
        "cdf", Expression.read(x, schema=schema), where=filter_of(where, schema), nulls=_skip(nulls, "cdf")
    )


def histogram(
    x: ExpressionSource,
    bins: int | ArrayLike = 10,
    *,
    where: ExpressionSource | None = None,
    nulls: Nulls = None,
    schema: engines.Schema | None = None,
) -> Query:
    """Ask for the share of rows in each bin, read off :func:`cdf`. ``bins`` is their number, over what the
    training part shows, or their edges.

    Args:
        x: The value of each row.
        bins: The number of bins, or their edges.
        where: A condition; only rows for which it is true enter.
        nulls: "skip" to leave out rows without a value.
        schema: The columns of the table, for expressions of ibis that are not bound to one.

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


def _of_one(kind: str, x: ExpressionSource, bounds: BoundsLike, options: Options) -> Query:
    read = Expression.read(x, schema=options.get("schema"))
    (own,) = bounds_of((x, read), given=bounds, of=kind)
    return _query(kind, options, own is None, expression=read, bounds=own)


def _of_two(
    kind: str, x: ExpressionSource, y: ExpressionSource, bounds: BoundsLike, options: Options
) -> Query:
    first, second = (Expression.read(source, schema=options.get("schema")) for source in (x, y))
    own, others = bounds_of((x, first), (y, second), given=bounds, of=kind)
    return _query(kind, options, own is None, expression=first, bounds=own, other=second, other_bounds=others)


def _of_groups(
    kind: str,
    x: ExpressionSource,
    between: OneOrMore,
    bounds: BoundsLike,
    options: Options,
) -> Query:
    from holdfast.queries._line import split_at_commas

    schema = options.get("schema")
    read = Expression.read(x, schema=schema)
    parts = split_at_commas(between) if isinstance(between, str) else between
    listed = _listed(parts)
    if not 1 <= len(listed) <= 2:
        raise InvalidArgument("between", "two conditions, or a column with two values", between, of=kind)
    groups = tuple(Expression.read(condition, schema=schema) for condition in listed)
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
    options: Options,
    trained: bool,
    *,
    expression: Expression,
    bounds: tuple[float, float] | None,
    other: Expression | None = None,
    other_bounds: tuple[float, float] | None = None,
    groups: tuple[Expression, ...] = (),
) -> Query:
    schema = options.get("schema")
    allowed = ("where", "nulls", "guess", "by", "schema")
    unknown = next((name for name in options if name not in allowed), None)
    if unknown is not None:
        raise InvalidArgument(
            unknown,
            f"left out: {kind} takes {', '.join(allowed[:-1])}",
            dict(options)[unknown],
            of=kind,
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


def filter_of(where: ExpressionSource | None, schema: engines.Schema | None) -> Expression | None:
    """The filter, read."""
    return None if where is None else Expression.read(where, schema=schema)


def groups_of(by: OneOrMore | None, schema: engines.Schema | None) -> tuple[Expression, ...]:
    """The columns that a question is asked by: one, or two of them."""
    if by is None:
        return ()
    listed = _listed(by)
    if not 1 <= len(listed) <= 2:
        raise InvalidArgument("by", "one column or two", by)
    return tuple(Expression.read(column, schema=schema) for column in listed)


def _listed(sources: OneOrMore) -> list[ExpressionSource]:
    return [*sources] if isinstance(sources, (list, tuple)) else [cast("ExpressionSource", sources)]


def unbounded(of: str, texts: Sequence[str]) -> QueryRejected:
    """The refusal of a question that does not say where values are clipped: ``of`` is its kind, and ``texts``
    are its values."""
    or_dict = ", a dict with a pair for each" if len(texts) > 1 else ""
    return QueryRejected(
        f"The {of} of {' and '.join(texts)} needs bounds: no number of rows is enough for unbounded values. "
        f"Write bounds=(lo, hi){or_dict}, or bounds='train' to have them proposed by the training part; "
        "values outside are clipped."
    )


def bounds_of(
    *values: tuple[ExpressionSource, Expression], given: BoundsLike, of: str
) -> list[tuple[float, float] | None]:
    """The range of each value, from a pair (lo, hi) for all of them, a pair for each, or a dict with a pair
    for each, by what was written or by its canonical text. None where the training part proposes it."""
    texts = [read.text for _, read in values]
    if given is None:
        raise unbounded(of, texts)
    if isinstance(given, str) and given == TRAIN:
        return [None] * len(values)
    if isinstance(given, Mapping):
        pairs = [
            given.get(source if isinstance(source, str) else read.text, given.get(read.text))
            for source, read in values
        ]
        if any(pair is None for pair in pairs):
            raise InvalidArgument(
                "bounds", f"a dict with a pair for each of {', '.join(texts)}", given, of=of
            )
        return [_bounds(pair, of) for pair in pairs]
    numbers = list(given) if isinstance(given, (list, tuple)) else [given]
    if (
        len(values) > 1
        and len(numbers) == len(values)
        and all(isinstance(pair, Sequence) for pair in numbers)
    ):
        return [_bounds(pair, of) for pair in numbers]
    if len(values) > 1 and len(numbers) == 2 * len(values):
        return [_bounds(numbers[start : start + 2], of) for start in range(0, len(numbers), 2)]
    return [_bounds(given, of)] * len(values)


def _bounds(bounds: Any, of: str) -> tuple[float, float]:
    pair = reals(bounds, "bounds", "(-inf, inf)", of=of)
    # Variances are squares of the range, other statistics squares of squares, and must not leave the floats.
    least, most = (1e-150, 1e152) if of == "mean" else (1e-60, 1e60)
    if len(pair) != 2 or not least < pair[1] - pair[0] < most:
        expected = f"two numbers lo < hi, between {least:g} and {most:g} apart"
        raise InvalidArgument("bounds", expected, bounds, of=of)
    return pair[0] + 0.0, pair[1] + 0.0


def _within(value: Any, argument: str, limits: tuple[float, float], of: str) -> float:
    return real(value, argument, f"[{limits[0]!r}, {limits[1]!r}]", of=of) + 0.0
