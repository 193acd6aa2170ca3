"""The one-line form of a question, as typed on a command line: ``mean(income, 0, 1e5, where = age > 40)``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holdfast.errors import QueryRejected
from holdfast.queries import _verbs
from holdfast.queries._query import TRAIN, Query
from holdfast.queries._reader import MOST_CHARACTERS
from holdfast.queries._verbs import mean, quantile, share

__all__ = ["FORMS", "read", "split_at_commas"]

_MORE = "where = ..., nulls = skip, guess = ...)"
FORMS = {
    "share": "share(condition, where = ..., nulls = true|false|skip, guess = ...)",
    "mean": "mean(expression, lo, hi, where = ..., nulls = ..., guess = ...)",
    "quantile": "quantile(expression, q, where = ..., nulls = ..., guess = ...)",
    "median": "median(expression, where = ..., nulls = ..., guess = ...)",
    "ratio": f"ratio(u, v, lo of u, hi of u, lo of v, hi of v, {_MORE}",
    "difference": f"difference(expression, condition, condition, lo, hi, {_MORE}",
    "lift": f"lift(expression, condition, condition, lo, hi, {_MORE}",
    "variance": f"variance(expression, lo, hi, {_MORE}",
    "std": f"std(expression, lo, hi, {_MORE}",
    "covariance": f"covariance(x, y, lo of x, hi of x, lo of y, hi of y, {_MORE}",
    "correlation": f"correlation(x, y, lo of x, hi of x, lo of y, hi of y, {_MORE}",
    "slope": f"slope(y, x, lo of y, hi of y, lo of x, hi of x, {_MORE}",
    "cdf": "cdf(expression, where = ..., nulls = skip)",
    "histogram": "histogram(expression, number of bins or edges, where = ..., nulls = skip)",
}
"""How each question is written."""
# How many expressions come before the numbers, at least and at most.
_EXPRESSIONS = {"difference": (2, 3), "lift": (2, 3)} | dict.fromkeys(
    ("ratio", "covariance", "correlation", "slope"), (2, 2)
)
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*+;?\s*+\Z", re.DOTALL)
_OPTION = re.compile(
    r"\s*(where|nulls|guess|bounds|q|weights|by)\s*=(?!=)\s*(.*)\Z", re.DOTALL | re.IGNORECASE
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")


def read(text: str) -> Query:
    """Read a question from ``text``, one line.

    >>> read("share(age > 40, where = sex = 'F')").where
    Expression("sex = 'F'")
    >>> read("mean(income, bounds=[0, 100000])") == read("mean(income, 0, 1e5)")
    True
    """
    if len(text) > MOST_CHARACTERS:
        raise QueryRejected(
            f"The question has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read; put part "
            "of it in a column of its own."
        )
    call = _CALL.match(text)
    kind = call.group(1).lower() if call else ""
    if call is None or kind not in FORMS:
        kinds = ", ".join(FORMS)
        count = " A count is a share of the rows: ask for that." if kind == "count" else ""
        raise QueryRejected(
            f"Cannot read the question {text!r}; write {FORMS['share']}, or one of {kinds}.{count}"
        )
    parts = split_at_commas(call.group(2))
    if not parts[0].strip():
        raise QueryRejected(f"The question {text!r} says nothing to compute; write {FORMS[kind]}.")
    expressions, numbers = [parts[0]], []
    least, most = _EXPRESSIONS.get(kind, (1, 1))
    options: dict[str, Any] = {}
    for place, part in enumerate(parts[1:], start=1):
        option = _OPTION.match(part)
        if option is None and place < most and (place < least or not _is_number(part)):
            expressions.append(part)
            continue
        if option is None:
            numbers.append(_number(part, kind))
            continue
        name, value = option.group(1).lower(), option.group(2).strip()
        if name in options:
            raise QueryRejected(f"The question {text!r} says {name} twice; write {FORMS[kind]}.")
        options[name] = _option(name, value, kind)
    if len(expressions) < least:
        raise QueryRejected(f"The question {text!r} names too few expressions; write {FORMS[kind]}.")
    return _build(kind, expressions, numbers, options)


def split_at_commas(inside: str) -> list[str]:
    """Split at the commas that stand outside quotes, parentheses and brackets."""
    without_quotes = _QUOTED.sub(lambda match: "_" * len(match.group()), inside)
    parts, depth, start = [], 0, 0
    for position, character in enumerate(without_quotes):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(inside[start:position])
            start = position + 1
    return [*parts, inside[start:]]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str, kind: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QueryRejected(f"{text.strip()!r} is not a number here; write {FORMS[kind]}.") from None


def _option(name: str, value: str, kind: str) -> Any:
    if name in ("where", "weights"):
        return value
    if name == "by":
        listed = value.startswith("(") and value.endswith(")")
        return split_at_commas(value[1:-1]) if listed else value
    if name == "bounds" and value.strip("'\"").lower() == TRAIN:
        return TRAIN
    if name == "bounds":
        return [_number(part, kind) for part in split_at_commas(value.strip("[]() "))]
    if name == "nulls":
        word = value.strip("'\"").lower()
        return (
            {"true": True, "false": False, "skip": "skip"}[word]
            if word in ("true", "false", "skip")
            else _number(value, kind)
        )
    return _number(value, kind)


def _build(kind: str, expressions: list[str], numbers: list[float], options: dict[str, Any]) -> Query:
    bounds, q = options.pop("bounds", None), options.pop("q", None)
    ways = (len(numbers) > 0) + (bounds is not None)  # how often the bounds are written, one way or the other
    first, limits = expressions[0], numbers if bounds is None else bounds
    count = 0 if isinstance(limits, str) else len(limits)
    if kind in ("share", "median", "cdf") and not ways and q is None:
        builders: dict[str, Callable[..., Query]] = {
            "share": share,
            "median": _verbs.median,
            "cdf": _verbs.cdf,
        }
        return builders[kind](first, **_checked(kind, options))
    if kind == "histogram" and bounds is None and q is None and numbers:
        return _verbs.histogram(first, numbers[0] if count == 1 else numbers, **_checked(kind, options))
    if kind == "quantile" and bounds is None and len(numbers) + (q is not None) == 1:
        return quantile(first, q if q is not None else numbers[0], **_checked(kind, options))
    if kind not in ("share", "quantile", "median", "cdf", "histogram") and q is None and ways <= 1:
        if kind == "mean" and (count in (0, 2) or "weights" in options):
            return mean(first, bounds=limits or None, **options)
        if kind in ("difference", "lift") and count in (0, 2):
            compare = _verbs.difference if kind == "difference" else _verbs.lift
            return compare(first, between=expressions[1:], bounds=limits or None, **_checked(kind, options))
        if kind in ("variance", "std") and count in (0, 2):
            verb = _verbs.variance if kind == "variance" else _verbs.std
            return verb(first, bounds=limits or None, **_checked(kind, options))
        if kind in _OF_TWO and count in (0, 2, 4):
            return _OF_TWO[kind](*expressions, bounds=limits or None, **_checked(kind, options))
    raise QueryRejected(f"Too few or too many numbers in a {kind}; write {FORMS[kind]}.")


_OF_TWO: dict[str, Callable[..., Query]] = {
    "ratio": _verbs.ratio,
    "covariance": _verbs.covariance,
    "correlation": _verbs.correlation,
    "slope": _verbs.slope,
}


def _checked(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options. Refuses options that the verb does not have."""
    unknown = next(
        (
            name
            for name in options
            if name == "weights" or (kind in ("cdf", "histogram") and name not in ("where", "nulls"))
        ),
        None,
    )
    if unknown is not None:
        raise QueryRejected(f"A {kind} has no {unknown}; write {FORMS[kind]}.")
    return options
