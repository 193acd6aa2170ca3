"""The rows of a question by cells: counts, sums and extremes of whole numbers, by one grouped aggregate.

Each value is clipped to its bounds and becomes a whole number of units, as in a sum. Rows are grouped by the
number of their group and by the steps that their values fall into. The result is the same on every engine,
because only whole numbers are added and compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.engines._database import VALUES, number
from holdfast.engines._dialect import Dialect, exact
from holdfast.engines._sums import Edges, EngineQuery, compared_numbers, edge_places, scaled

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["cells_of", "unit_sums_of"]

_NAMES = ("rows", "x", "z", "xx", "xz", "zz", "least_x", "greatest_x", "least_z", "greatest_z")


@dataclass(frozen=True)
class _Shape:
    """The options that decide the statement around a question's own expressions."""

    values: int
    grouped: bool
    filtered: bool
    skips: bool
    share: bool = False  # whether the value is a condition
    units: bool = False  # whether rows are grouped by their units, and not by where their values lie
    clips: bool = False  # whether the rows are counted that have a value outside its bounds


def cells_of(
    rows: Rows,
    question: EngineQuery,
    steps: Sequence[tuple[int, int, int]],
    *,
    count_clipped: bool = False,
) -> list[tuple[int, ...]]:
    """The cells of a question that have rows. Each has its group, then the numbers that ``_NAMES`` lists;
    with ``count_clipped`` also how many of its rows have a value outside its bounds.

    ``steps`` says for each value where steps start, how many bits of units a step has, and how many steps
    there are. Reads the rows.

    Guarantee: the same whole numbers in the same order on every run and every engine.
    """
    shape = _shape_of(question, units=False)
    return _read(rows, question, replace(shape, clips=count_clipped), steps)


def unit_sums_of(rows: Rows, question: EngineQuery) -> list[tuple[int, ...]]:
    """The sums of a question over each unit and each of its groups, in the form of cells: the group, then
    the numbers that ``_NAMES`` lists, with zeros for the extremes. A unit is left out if none of its rows
    enters. Reads the rows.

    Guarantee: the same whole numbers in the same order on every run and every engine.
    """
    shape = _shape_of(question, units=True)
    return _read(rows, question, shape, [(0, 0, 1)] * shape.values)


def _shape_of(question: EngineQuery, *, units: bool) -> _Shape:
    values = 1 if question.other_bounds is None else 2
    share = question.kind == "share"
    return _Shape(values, question.grouped, question.filters, question.skips, share, units)


def _read(
    rows: Rows, question: EngineQuery, shape: _Shape, steps: Sequence[tuple[int, int, int]]
) -> list[tuple[int, ...]]:
    rows.require_readable()
    database = rows._database
    bounds = [question.bounds, *([] if question.other_bounds is None else [question.other_bounds])]
    numbers = compared_numbers(question)
    for mark, (own, (start, bits, count)) in enumerate(zip(bounds, steps, strict=False)):
        missing = question.missing if mark == 0 else own[0]
        numbers |= Edges.of(*own).named(str(mark))
        numbers |= {f"start{mark}": start, f"bits{mark}": bits, f"last{mark}": count - 1}
        numbers[f"missing{mark}"] = scaled(missing, *own)
    statement = rows.statement_of(
        question, shape, lambda: _aggregate(shape, database.dialect), with_unit=shape.units
    )
    # A database returns groups in any order. They are sorted, so floats computed from them are always equal.
    return sorted(_all_numbers(cell, shape) for cell in database.ask(statement, numbers))


def _whole_number(name: str, mark: int) -> Any:
    return number(f"{name}{mark}", whole=True).cast("int64")


def _aggregate(shape: _Shape, dialect: Dialect) -> Any:
    """One grouped aggregate over the table ``VALUES``, with places for bounds and steps."""
    import ibis

    names = ("value", "other")[: shape.values]
    columns = {**dict.fromkeys(names, "float64"), "group": "float64", "passes": "boolean", "unit": "string"}
    if shape.share:
        columns["value"] = "boolean"
    values = ibis.table(columns, name=VALUES)
    if shape.filtered:
        values = values.filter(values.passes)
    if shape.grouped:
        values = values.filter(values.group.notnull())
    if shape.skips:
        values = values.filter(*(_has_value(values[name], shape) for name in names))
    apart = {"group": dialect.nearest(values.group)} if shape.grouped else {}
    if shape.units:
        apart["unit"] = values.unit
    present = {f"present{mark}": _has_value(values[name], shape) for mark, name in enumerate(names)}
    below = {
        f"below{mark}": dialect.below(
            dialect.as_number(values[name]) if shape.share else values[name], edge_places(str(mark))
        )
        for mark, name in enumerate(names)
    }
    outside = {"outside": _outside(values, names)} if shape.clips else {}
    values = dialect.stage(values.select(**apart, **present, **below, **outside))
    units = {}
    for mark in range(shape.values):
        edges = edge_places(str(mark))
        clipped = dialect.nearest(dialect.clipped(values[f"below{mark}"], edges) * edges.slope)
        units[f"units{mark}"] = values[f"present{mark}"].ifelse(clipped, _whole_number("missing", mark))
    values = dialect.stage(values.select(*apart, *outside, **units))
    places = {}
    if not shape.units:
        places = {f"place{mark}": _place(values[f"units{mark}"], mark) for mark in range(shape.values)}
        values = dialect.stage(values.mutate(**places))
    grouped = values.group_by(*apart, *places).aggregate(**_aggregates(values, shape, dialect))
    return grouped.select(*(["group"] if shape.grouped else []), *_names_of(shape))


def _outside(values: Any, names: Sequence[str]) -> Any:
    """1 for a row with a value outside its bounds, else 0. A row without a value gets 0."""
    import ibis

    clipped = []
    for mark, name in enumerate(names):
        edges, value = edge_places(str(mark)), values[name].nullif(exact(math.nan))
        clipped += [value < edges.lo, value > edges.hi]
    yes, no = (ibis.literal(number, type="int64") for number in (1, 0))
    return ibis.cases(*((condition, yes) for condition in clipped), else_=no)


def _has_value(value: Any, shape: _Shape) -> Any:
    """Whether a row has a value. NaN counts as missing."""
    return value.notnull() if shape.share else value.nullif(exact(math.nan)).notnull()


def _place(units: Any, mark: int) -> Any:
    import ibis

    from_start = ibis.greatest(units - _whole_number("start", mark), ibis.literal(0, type="int64"))
    # PostgreSQL shifts by 32-bit numbers only.
    return ibis.least(from_start >> _whole_number("bits", mark).cast("int32"), _whole_number("last", mark))


def _names_of(shape: _Shape) -> tuple[str, ...]:
    names = [
        name
        for name in _NAMES
        if (shape.values == 2 or "z" not in name) and not (shape.units and "_" in name)
    ]
    return (*names, *(["outside"] if shape.clips else []))


def _aggregates(values: Any, shape: _Shape, dialect: Dialect) -> dict[str, Any]:
    x = values.units0
    columns = {"rows": values.count(), "x": dialect.whole_sum(x), "xx": dialect.whole_sum(x * x)}
    if not shape.units:
        columns |= {"least_x": x.min(), "greatest_x": x.max()}
    if shape.clips:
        columns["outside"] = values.outside.sum()
    if shape.values == 2:
        z = values.units1
        columns |= {"z": dialect.whole_sum(z), "xz": dialect.whole_sum(x * z), "zz": dialect.whole_sum(z * z)}
        if not shape.units:
            columns |= {"least_z": z.min(), "greatest_z": z.max()}
    return columns


def _all_numbers(cell: Sequence[Any], shape: _Shape) -> tuple[int, ...]:
    """The numbers of one cell in their order, with zeros for those that the question does not have."""
    listed = [int(value) for value in cell]
    group = listed.pop(0) if shape.grouped else 0
    named = dict(zip(_names_of(shape), listed, strict=True))
    outside = (named["outside"],) if shape.clips else ()
    return (group, *(named.get(name, 0) for name in _NAMES), *outside)
