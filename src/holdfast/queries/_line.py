"""The one-line form of a question, as typed on a command line: ``mean(income, 0, 1e5, where = age > 40)``."""

from __future__ import annotations

import re
from typing import Any

from holdfast.errors import QueryRejected
from holdfast.queries._query import Query, mean, quantile, share

__all__ = ["read"]

_FORMS = {
    "share": "share(condition, where = ..., nulls = true|false|skip, guess = ...)",
    "mean": "mean(expression, lo, hi, where = ..., nulls = ..., guess = ...)",
    "quantile": "quantile(expression, q, where = ..., nulls = ..., guess = ...)",
}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*;?\s*\Z", re.DOTALL)
_OPTION = re.compile(r"\s*(where|nulls|guess|bounds|q)\s*=(?!=)\s*(.*)\Z", re.DOTALL | re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")


def read(text: str) -> Query:
    """Read a question from one line.

    >>> read("share(age > 40, where = sex = 'F')").where
    Expression("sex = 'F'")
    >>> read("mean(income, bounds=[0, 100000])") == read("mean(income, 0, 1e5)")
    True
    """
    call = _CALL.match(text)
    kind = call.group(1).lower() if call else ""
    if call is None or kind not in _FORMS:
        raise QueryRejected(f"Cannot read the question {text!r}; write {', '.join(_FORMS.values())}.")
    parts = _split(call.group(2))
    if not parts[0].strip():
        raise QueryRejected(f"The question {text!r} says nothing to compute; write {_FORMS[kind]}.")
    numbers: list[float] = []
    options: dict[str, Any] = {}
    for part in parts[1:]:
        option = _OPTION.match(part)
        if option is None:
            numbers.append(_number(part, kind))
            continue
        name, value = option.group(1).lower(), option.group(2).strip()
        if name in options:
            raise QueryRejected(f"The question {text!r} says {name} twice; write {_FORMS[kind]}.")
        options[name] = _option(name, value, kind)
    return _build(kind, parts[0], numbers, options)


def _split(inside: str) -> list[str]:
    """Split at the commas that are in no quotes, parentheses or brackets."""
    plain = _QUOTED.sub(lambda match: "_" * len(match.group()), inside)
    parts, depth, start = [], 0, 0
    for position, character in enumerate(plain):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(inside[start:position])
            start = position + 1
    return [*parts, inside[start:]]


def _number(text: str, kind: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QueryRejected(f"{text.strip()!r} is not a number here; write {_FORMS[kind]}.") from None


def _option(name: str, value: str, kind: str) -> Any:
    if name == "where":
        return value
    if name == "bounds":
        return [_number(part, kind) for part in _split(value.strip("[]() "))]
    if name == "nulls":
        word = value.strip("'\"").lower()
        return (
            {"true": True, "false": False, "skip": "skip"}[word]
            if word in ("true", "false", "skip")
            else _number(value, kind)
        )
    return _number(value, kind)


def _build(kind: str, expression: str, numbers: list[float], options: dict[str, Any]) -> Query:
    bounds, q = options.pop("bounds", None), options.pop("q", None)
    if kind == "share" and not numbers and bounds is None and q is None:
        return share(expression, **options)
    if (
        kind == "mean"
        and q is None
        and (len(numbers) == 2) + (bounds is not None) <= 1
        and len(numbers) in (0, 2)
    ):
        return mean(expression, bounds=bounds if bounds is not None else numbers or None, **options)
    if kind == "quantile" and bounds is None and len(numbers) + (q is not None) == 1:
        return quantile(expression, q if q is not None else numbers[0], **options)
    raise QueryRejected(f"Too few or too many numbers in a {kind}; write {_FORMS[kind]}.")
