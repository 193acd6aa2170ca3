"""Sums that are exact: values scaled to whole numbers and added as whole numbers, in any order and on any
engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.engines._builtin import builtin, exact
from holdfast.records import Record

__all__ = ["SCALE_BITS", "Question", "Sums", "scaled"]

SCALE_BITS = 24
"""A mean's values are rounded to multiples of (hi - lo) / 2**24, half up: each is off by at most (hi - lo) ·
2**-25 and a few units in the last place of a float, so the mean of the scaled values is within (hi - lo) ·
3.1e-8 of the mean of the clipped ones."""

# Whole numbers up to 2**53 are added exactly by floats, in any order; beyond that many rows the engine adds
# integers.
_EXACT_IN_FLOATS = 2**53


class Question(Protocol):
    """What an engine needs of a checked query; see :class:`holdfast.queries.CheckedQuery`."""

    @property
    def kind(self) -> str: ...
    @property
    def bounds(self) -> tuple[float, float]: ...
    @property
    def counts(self) -> bool: ...
    @property
    def skips(self) -> bool: ...
    @property
    def missing(self) -> float: ...
    def value(self, table: Any) -> Any: ...
    def passes(self, table: Any) -> Any | None: ...


@dataclass(frozen=True, repr=False)
class Sums(Record):
    """Exact sums over the rows that enter an answer.

    ``total`` is the sum of the whole numbers that stand for the values, each between 0 and ``scale``, and
    ``squares`` the sum of their squares (None unless asked for). The mean in the question's own units is lo +
    (hi - lo) · total / (rows · scale).
    """

    rows: int
    total: int
    squares: int | None
    scale: int


def _factor(lo: float, hi: float) -> float:
    return float(2**SCALE_BITS) / (hi - lo)


def scaled(value: float, lo: float, hi: float) -> int:
    """The whole number that stands for one value: the same arithmetic as the engine's, step by step."""
    if value <= lo:
        return 0
    return 2**SCALE_BITS if value >= hi else math.floor((value - lo) * _factor(lo, hi) + 0.5)


def _scaled_column(values: Any, question: Question) -> Any:
    import ibis

    lo, hi = question.bounds
    inside = builtin("floor")((values - exact(lo)) * exact(_factor(lo, hi)) + 0.5)
    return ibis.cases((values <= exact(lo), 0.0), (values >= exact(hi), float(2**SCALE_BITS)), else_=inside)


def plan(table: Any, question: Question, *, count: int, squares: bool) -> Any:
    """One aggregate over the table; its columns are read back by :func:`collect`."""
    passes = question.passes(table)
    chosen = table if passes is None else table.filter(passes)
    values = chosen.select(value=question.value(chosen))
    units = (
        values.value.cast("float64") if question.kind == "share" else _scaled_column(values.value, question)
    )
    if squares:
        values = values.mutate(units=units)
        units = values.units
    wanted: dict[str, Any] = {}
    if passes is not None:
        wanted["passed"] = values.count()
    if question.skips or _weight(question) > 0:
        wanted["known"] = values.value.count()
    wanted["total"] = (units if count * _scale(question) <= _EXACT_IN_FLOATS else units.cast("int64")).sum()
    if squares:
        wanted["squares"] = (units * units).cast("int64").sum()
    return values.aggregate(**wanted)


def _scale(question: Question) -> int:
    return 1 if question.kind == "share" else 2**SCALE_BITS


def _weight(question: Question) -> int:
    """The whole number that stands for a row without a value."""
    if question.skips:
        return 0
    return int(question.missing) if question.kind == "share" else scaled(question.missing, *question.bounds)


def collect(
    question: Question, names: tuple[str, ...], row: tuple[Any, ...], *, count: int, squares: bool
) -> Sums:
    """The sums from the one row that the aggregate returned; rows without a value enter as the question
    says."""
    found = {name: int(value or 0) for name, value in zip(names, row, strict=True)}
    passed = found.get("passed", count)
    known = found.get("known", passed)
    weight = _weight(question)
    return Sums(
        rows=known if question.skips else passed,
        total=found["total"] + weight * (passed - known),
        squares=found["squares"] + weight * weight * (passed - known) if squares else None,
        scale=_scale(question),
    )
