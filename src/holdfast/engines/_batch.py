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

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.engines import _sums
from holdfast.engines._database import DuckDB
from holdfast.engines._dialect import SCALE_BITS, Dialect
from holdfast.engines._spark import Spark
from holdfast.engines._statements import Statement, renamed
from holdfast.engines._sums import EngineQuery, Shape, Sums

if TYPE_CHECKING:
    from holdfast.engines._rows import Rows

__all__ = ["MOST_TOGETHER", "sums_of_all"]

MOST_TOGETHER = 16
"""So many questions go into one statement at most."""


@dataclass(frozen=True, eq=False)
class _Side:
    """A question's own expressions, out of the tree that computes them row by row."""

    value: Any
    passes: Any | None
    source: Any

    @classmethod
    def of(cls, tree: Any) -> _Side | None:
        """None for a tree of several stages."""
        from sqlglot import exp

        source = tree.find(exp.From)
        named = {part.alias_or_name: part.unalias() for part in tree.expressions}
        several = {key for key, part in tree.args.items() if part} - {
            "expressions",
            source.key,
            source.arg_key,
        }
        if (
            several
            or not isinstance(source.this, exp.Table)
            or not {"value"} <= set(named) <= {"value", "passes"}
        ):
            return None
        return cls(named["value"], named.get("passes"), source)


@dataclass(frozen=True)
class _Asked:
    """A question in its place among the others."""

    place: int
    question: EngineQuery
    squares: bool
    shape: Shape
    side: _Side | None


def sums_of_all(rows: Rows, questions: Sequence[EngineQuery], squares: Sequence[bool]) -> list[Sums]:
    """The exact sums of several checked queries, the same integers as one by one, in few statements."""
    rows.require_readable()
    sums = _sums_of_tables(rows, questions)
    if len(questions) == 1 and not sums:
        return [rows.sums(questions[0], squares=squares[0])]
    others = [place for place in range(len(questions)) if place not in sums]
    for group in _groups(rows, questions, squares, others):
        if len(group) == 1:
            (alone,) = group
            sums[alone.place] = rows.sums(alone.question, squares=alone.squares)
        else:
            sums |= _together(rows, group)
    return [sums[place] for place in range(len(questions))]


def _sums_of_tables(rows: Rows, questions: Sequence[EngineQuery]) -> dict[int, Sums]:
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
    questions: Sequence[EngineQuery],
    squares: Sequence[bool],
    places: Sequence[int] | None = None,
) -> list[list[_Asked]]:
    """The questions by what they can share, in the order of the first of each group; those of some
    ``places``."""
    groups: dict[Hashable, list[_Asked]] = {}
    for place in range(len(questions)) if places is None else places:
        question, wanted = questions[place], squares[place]
        shape = _sums.shape_of(question, squares=wanted, count=rows.count)
        side = _Side.of(rows.values_tree(question))
        key: Hashable = place
        if side is not None:
            columns = question.reads if isinstance(rows._database, DuckDB) else None
            passes = None if isinstance(rows._database.dialect, Spark) else question.nodes.get("passes")
            key = (passes, rows.read_by(question), columns)
        groups.setdefault(key, []).append(_Asked(place, question, wanted, shape, side))
    return [
        group[start : start + MOST_TOGETHER]
        for group in groups.values()
        for start in range(0, len(group), MOST_TOGETHER)
    ]


def _together(rows: Rows, group: list[_Asked]) -> dict[int, Sums]:
    database, shapes = rows._database, tuple(asked.shape for asked in group)
    shared = len({asked.question.nodes.get("passes") for asked in group}) == 1
    patterns = tuple(asked.question.pattern for asked in group)
    statement: Statement = rows.compiled(
        (patterns, shapes, shared),
        lambda: database.around(
            _values([asked.side for asked in group if asked.side is not None], shared),
            (shapes, shared),
            lambda: _aggregate(shapes, shared, database.dialect),
        ),
    )
    numbers: dict[str, float] = {}
    for mark, asked in enumerate(group):
        numbers |= _sums.numbers_of(asked.question, str(mark))
    (row,) = database.ask(statement, numbers)
    named = dict(zip(_names(shapes, shared), row, strict=True))
    return {
        asked.place: _sums.collect(
            asked.question,
            asked.shape,
            tuple(named[_name(name, mark, shared)] for name in asked.shape.names),
            count=rows.count,
            squares=asked.squares,
        )
        for mark, asked in enumerate(group)
    }


def _values(sides: list[_Side], shared: bool) -> Any:
    """The questions' expressions side by side; where each has a filter of its own, null for who does not
    pass."""
    from sqlglot import exp

    listed = []
    for mark, side in enumerate(sides):
        value, passes = (
            None if part is None else renamed(part, lambda name, mark=mark: f"{name}{mark}")  # type: ignore[misc]
            for part in (side.value, side.passes)
        )
        own = value if shared or passes is None else exp.Case().when(passes, value)
        listed.append(exp.alias_(own, f"value{mark}", quoted=True))
        if passes is not None and not (shared and mark):
            listed.append(exp.alias_(passes, _name("passes", mark, shared), quoted=True))
    return exp.select(*listed).from_(sides[0].source.this.copy())


def _name(name: str, mark: int, shared: bool) -> str:
    """What a column is called; who passes one filter passes it for all."""
    return name if shared and name in ("passes", "passed") else f"{name}{mark}"


def _names(shapes: tuple[Shape, ...], shared: bool) -> list[str]:
    named = (_name(name, mark, shared) for mark, shape in enumerate(shapes) for name in shape.names)
    return list(dict.fromkeys(named))


def _aggregate(shapes: tuple[Shape, ...], shared: bool, dialect: Dialect) -> Any:
    """One aggregate over the table ``VALUES``, with a value for each question."""
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
