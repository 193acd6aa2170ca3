"""Several questions in one statement, where that reads less.

A statement that computes many questions in one pass over the rows is not faster for being one: DuckDB works
through its columns question by question anyway, and a filter inside an aggregate costs it two to five times
what the same filter costs in a ``WHERE``. What a pass shares is the reading of columns and the filter. So
questions go together that have the same filter and read the same columns, at most ``MOST_TOGETHER`` at a
time; on databases of others, which read whole rows, all that have the same filter; and on Spark, where every
statement is a job, all that there are.

Sixteen shares of one column are summed 2 to 3 times as fast together, with one filter 2.5 to 4 times (6 times
in PostgreSQL, 10 in Spark), clipped means hardly faster: their arithmetic is the work
(``benchmarks/batches.py``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engines import _sums
from holdfast.engines._database import DuckDB
from holdfast.engines._dialect import SCALE_BITS, Dialect
from holdfast.engines._spark import Spark
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
    rows.require_readable()
    found = _sums_of_tables(rows, questions)
    alone = [place for place in range(len(questions)) if place not in found]
    for group in _groups(rows, questions, squares, alone):
        if len(group) == 1:
            (one,) = group
            found[one.place] = rows.sums(one.question, squares=one.squares)
        else:
            found |= _together(rows, group)
    return [found[place] for place in range(len(questions))]


def _sums_of_tables(rows: Rows, questions: Sequence[Question]) -> dict[int, Sums]:
    """The sums of questions that are rows of a table, each table by one scan."""
    tables: dict[int, list[int]] = {}
    for place, question in enumerate(questions):
        if question.member is not None:
            tables.setdefault(id(question.member[0]), []).append(place)
    found = {}
    for places in tables.values():
        cells = {cell[0]: cell for cell in rows.cells(questions[places[0]].member[0], [(0, 0, 1)])}
        for place in places:
            question = questions[place]
            _, count, total, _, squares, *_ = cells.get(question.member[1], (0,) * 11)
            scale = 2**SCALE_BITS
            if question.kind == "share":
                scale, total = 1, total >> SCALE_BITS
                squares = total
            found[place] = Sums(count, total, squares, scale)
    return found


def _groups(
    rows: Rows,
    questions: Sequence[Question],
    squares: Sequence[bool],
    places: Sequence[int] | None = None,
) -> list[list[_Asked]]:
    """The questions by what they can share, in the order of the first of each group; those of some
    ``places``."""
    groups: dict[Hashable, list[_Asked]] = {}
    for place in range(len(questions)) if places is None else places:
        question, wanted = questions[place], squares[place]
        shape = _sums.shape_of(question, squares=wanted, count=rows.count)
        side = _Side.of(rows.values_statement(question), rows._database.dialect)
        key: Hashable = place
        if side is not None:
            columns = question.reads if isinstance(rows._database, DuckDB) else None
            passes = None if isinstance(rows._database.dialect, Spark) else side.passes
            key = (passes, side.source, columns)
        groups.setdefault(key, []).append(_Asked(place, question, wanted, shape, side))
    return [
        group[start : start + MOST_TOGETHER]
        for group in groups.values()
        for start in range(0, len(group), MOST_TOGETHER)
    ]


def _together(rows: Rows, group: list[_Asked]) -> dict[int, Sums]:
    database, shapes = rows._database, tuple(one.shape for one in group)
    sides = [one.side for one in group if one.side is not None]
    shared = len({side.passes for side in sides}) == 1
    before, after = database.prepared((shapes, shared), lambda: _aggregate(shapes, shared, database.dialect))
    for mark, one in enumerate(group):
        before, after = (_sums.fill(part, one.question, str(mark)) for part in (before, after))
    values = ", ".join(_values(sides, shared, database.dialect))
    (row,) = database.run(f"{before}(SELECT {values} FROM {sides[0].source}){after}")
    named = dict(zip(_names(shapes, shared), row, strict=True))
    return {
        one.place: _sums.collect(
            one.question,
            one.shape,
            tuple(named[_name(name, mark, shared)] for name in one.shape.names),
            count=rows.count,
            squares=one.squares,
        )
        for mark, one in enumerate(group)
    }


def _values(sides: list[_Side], shared: bool, dialect: Dialect) -> Iterator[str]:
    """The questions' expressions side by side; where each has a filter of its own, null for who does not
    pass."""
    for mark, side in enumerate(sides):
        own = side.value if shared or not side.passes else f"CASE WHEN {side.passes} THEN {side.value} END"
        yield f"{own} AS {dialect.quoted(f'value{mark}')}"
        if side.passes and not (shared and mark):
            yield f"{side.passes} AS {dialect.quoted(_name('passes', mark, shared))}"


def _name(name: str, mark: int, shared: bool) -> str:
    """What a column is called; who passes one filter passes it for all."""
    return name if shared and name in ("passes", "passed") else f"{name}{mark}"


def _names(shapes: tuple[Shape, ...], shared: bool) -> list[str]:
    named = (_name(name, mark, shared) for mark, shape in enumerate(shapes) for name in shape.names)
    return list(dict.fromkeys(named))


def _aggregate(shapes: tuple[Shape, ...], shared: bool, dialect: Dialect) -> Any:
    """One aggregate over the stand-in table, with a value for each question."""
    import ibis

    kinds = {f"value{m}": "boolean" if s.kind == "share" else "float64" for m, s in enumerate(shapes)}
    passes = {_name("passes", mark, shared): "boolean" for mark, shape in enumerate(shapes) if shape.filtered}
    values = ibis.table({**kinds, **passes}, name=_sums.VALUES)
    if shared and passes:
        values, passes = values.filter(values.passes), {}
    # What is used several times is computed once, unless that is as cheap as reading it.
    lowered = (_sums.lowered(values[f"value{m}"], shape, dialect, str(m)) for m, shape in enumerate(shapes))
    values = values.select(*passes, **_merged(lowered))
    if any(shape.computed for shape in shapes):
        values = dialect.stage(values)
    clipped = (_sums.clipped(values, shape, dialect, str(m)) for m, shape in enumerate(shapes))
    values = values.select(*passes, **_merged(clipped))
    counted = (_sums.counted(values, shape, dialect, str(m)) for m, shape in enumerate(shapes))
    values = values.select(*passes, **_merged(counted))
    if any(shape.squares for shape in shapes):
        values = dialect.stage(values)
    wanted = _merged(_sums.summed(values, shape, dialect, str(m)) for m, shape in enumerate(shapes))
    wanted |= {f"passed{name.removeprefix('passes')}": values[name].sum() for name in passes}
    wanted["passed"] = values.count()
    return values.aggregate(**{name: wanted[name] for name in _names(shapes, shared)})


def _merged(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}
