"""Several questions in one statement, where that reads less.

A statement that computes many questions in one pass over the rows is not faster for being one: DuckDB works
through its columns question by question anyway, and a filter inside an aggregate costs it two to five times
what the same filter costs in a ``WHERE``. What a pass shares is the reading of columns and the filter. So
questions go together that have the same filter and read the same columns, at most ``MOST_TOGETHER`` at a
time; on databases of others, which read whole rows, all that have the same filter.

Sixteen shares of one column are summed 2 to 3 times as fast together, with one filter 2.5 to 4 times (6 times
in PostgreSQL), clipped means hardly faster: their arithmetic is the work (``benchmarks/batches.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engines import _sums
from holdfast.engines._database import DuckDB
from holdfast.engines._dialect import Dialect
from holdfast.engines._sums import Question, Shape, Sums

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["MOST_TOGETHER", "sums_of_all"]

MOST_TOGETHER = 16
"""So many questions go into one statement at most."""


@dataclass(frozen=True)
class _Side:
    """A question's own expressions, taken out of the statement that computes them row by row."""

    value: str
    passes: str
    source: str

    @classmethod
    def of(cls, statement: str, dialect: Dialect) -> _Side | None:
        """None for a statement of several stages, or one that cannot be taken apart without doubt."""
        value, passes = (f" AS {dialect.quoted(name)}" for name in ("value", "passes"))
        plain = statement.startswith("SELECT ") and statement.count(" FROM ") == statement.count(value) == 1
        if not plain or statement.count(passes) > 1:
            return None
        inside, source = statement.removeprefix("SELECT ").split(" FROM ")
        own, rest = inside.split(value)
        if not rest:
            return cls(own, "", source)
        if not (rest.startswith(", ") and rest.endswith(passes)):
            return None
        return cls(own, rest.removeprefix(", ").removesuffix(passes), source)


@dataclass(frozen=True)
class _Asked:
    """A question in its place among the others."""

    place: int
    question: Question
    squares: bool
    shape: Shape
    side: _Side | None


def sums_of_all(rows: Rows, questions: Sequence[Question], squares: Sequence[bool]) -> list[Sums]:
    """The exact sums of several checked queries, the same integers as one by one, in few statements."""
    found: dict[int, Sums] = {}
    for group in _groups(rows, questions, squares):
        if len(group) == 1:
            (one,) = group
            found[one.place] = rows.sums(one.question, squares=one.squares)
        else:
            found |= _together(rows, group)
    return [found[place] for place in range(len(questions))]


def _groups(rows: Rows, questions: Sequence[Question], squares: Sequence[bool]) -> list[list[_Asked]]:
    """The questions by what they can share, in the order of the first of each group."""
    groups: dict[Hashable, list[_Asked]] = {}
    for place, (question, wanted) in enumerate(zip(questions, squares, strict=True)):
        shape = _sums.shape_of(question, squares=wanted, count=rows.count)
        side = _Side.of(_statement(rows, question), rows._database.dialect)
        key: Hashable = place
        if side is not None:
            columns = question.reads if isinstance(rows._database, DuckDB) else None
            key = (side.passes, side.source, columns)
        groups.setdefault(key, []).append(_Asked(place, question, wanted, shape, side))
    return [
        group[start : start + MOST_TOGETHER]
        for group in groups.values()
        for start in range(0, len(group), MOST_TOGETHER)
    ]


def _statement(rows: Rows, question: Question) -> str:
    known = (rows._name, rows.schema, rows._database.dialect)
    if known not in question.statements:
        question.statements[known] = rows._values(question)
    return question.statements[known]


def _together(rows: Rows, group: list[_Asked]) -> dict[int, Sums]:
    database, shapes = rows._database, tuple(one.shape for one in group)
    before, after = database.prepared(shapes, lambda: _aggregate(shapes, database.dialect))
    for mark, one in enumerate(group):
        before, after = (_sums.fill(part, one.question, str(mark)) for part in (before, after))
    sides = [one.side for one in group if one.side is not None]
    values = [f"{side.value} AS {database.dialect.quoted(f'value{mark}')}" for mark, side in enumerate(sides)]
    if sides[0].passes:
        values.append(f"{sides[0].passes} AS {database.dialect.quoted('passes')}")
    (row,) = database.run(f"{before}(SELECT {', '.join(values)} FROM {sides[0].source}){after}")
    named = dict(zip(_names(shapes), row, strict=True))
    return {
        one.place: _sums.collect(
            one.question,
            one.shape,
            tuple(named[_name(name, mark)] for name in one.shape.names),
            count=rows.count,
            squares=one.squares,
        )
        for mark, one in enumerate(group)
    }


def _name(name: str, mark: int) -> str:
    """How many rows pass is the same for all."""
    return name if name == "passed" else f"{name}{mark}"


def _names(shapes: tuple[Shape, ...]) -> list[str]:
    return list(dict.fromkeys(_name(name, mark) for mark, shape in enumerate(shapes) for name in shape.names))


def _aggregate(shapes: tuple[Shape, ...], dialect: Dialect) -> Any:
    """One aggregate over the stand-in table with a value for each question and one filter for all."""
    import ibis

    kinds = {f"value{m}": "boolean" if s.kind == "share" else "float64" for m, s in enumerate(shapes)}
    values = ibis.table({**kinds, "passes": "boolean"}, name=_sums.VALUES)
    if shapes[0].filtered:
        values = values.filter(values.passes)
    # What is used several times is computed once.
    if any(shape.kind == "mean" for shape in shapes):
        values = dialect.stage(values.select(*kinds))
    whole = {
        f"units{mark}": _sums.units(values[f"value{mark}"], shape.kind, dialect, str(mark))
        for mark, shape in enumerate(shapes)
    }
    values = values.select(**{name: values[name] for name in kinds}, **whole)
    if any(shape.squares for shape in shapes):
        values = dialect.stage(values)
    wanted = {"passed": values.count()} if shapes[0].filtered else {}
    for mark, shape in enumerate(shapes):
        units = values[f"units{mark}"]
        wanted |= {
            f"known{mark}": values[f"value{mark}"].count(),
            f"total{mark}": dialect.whole_sum(units) if shape.wide else units.sum(),
            f"squares{mark}": dialect.whole_sum(units * units),
        }
    return values.aggregate(**{name: wanted[name] for name in _names(shapes)})
