"""The rows of a table, in a database. The schema and the number of rows are public. Everything else is read
by one aggregate for each question.

After protected rows are sealed, they can be read only inside the clean room. The guard seals its protected
rows when it is opened, and enters the room once for each paid question. A read from anywhere else is a
programming error, and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.engines import _sums
from holdfast.engines._cells import cells_of, unit_sums_of
from holdfast.engines._database import Database, DuckDB, Statement
from holdfast.engines._dialect import load_sql
from holdfast.engines._native import Native
from holdfast.engines._parts import (
    UnitSizes,
    in_blocks,
    in_clusters,
    in_numbered_units,
    rows_at,
    sizes_of,
    some_by_place,
    split_by_key,
    split_by_place,
    split_rows,
    store,
    unit_codes,
)
from holdfast.engines._row_digests import content_of, digests_of, hashes_of, numbering_of, plain_columns
from holdfast.engines._schema import Schema, by_kind_only, first_that_fails, unstorable_column
from holdfast.engines._sums import EngineQuery, Sums
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.typing import ArrayLike, TableLike

__all__ = ["Rows", "require_unsealed", "unsealed"]


_inside: ContextVar[bool] = ContextVar("inside the clean room", default=False)

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_MOST_COMPILED = 1_000
# Tables of at most this many values (rows times columns) are copied once, because questions are then several
# times faster; at eight bytes a value that is 400 MB, which a laptop has to spare.
_MOST_COPIED = 50_000_000


@contextmanager
def unsealed() -> Iterator[None]:
    """Let this thread read sealed rows until the block ends."""
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)


def require_unsealed() -> None:
    """Refuse to read sealed rows from outside."""
    if not _inside.get():
        raise RuntimeError("Protected rows are sealed: they are read in the clean room of the guard only.")


def _by_column(
    method: Callable[Concatenate[Rows, _Arguments], _Result],
) -> Callable[Concatenate[Rows, _Arguments], _Result]:
    """Decorate a method that reads rows before there is an account. If it fails, the error names the column
    that cannot be read, and quotes no value."""

    @wraps(method)
    def named(rows: Rows, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return method(rows, *args, **kwargs)
        except HoldfastError:
            raise
        except Exception:
            column = first_that_fails(rows.columns, lambda name: rows._arrow([name]))
            if column is None:
                raise
        raise unstorable_column(column)

    return by_kind_only(named)


class Watch(Protocol):
    """Checks something that must not change."""

    def change(self) -> str | None:
        """What has changed, in words, or None."""


class Rows:
    """The rows of one table, in the order in which they came.

    Made by :func:`holdfast.engines.open_rows`. ``schema`` and ``count`` are public facts. The reads,
    :meth:`sums`, :meth:`cells`, :meth:`order_statistics` and :meth:`frame`, are the only ways to the values.
    All but the last return the same result on every run, with any number of threads.

    Args:
        database: Where statements about the rows run.
        name: What the table is called there.
        schema: The columns.
        count: The number of rows.
        native: How rows are given back as the kind of table that was opened.
        held: The table that was opened, where it is in memory.
        watch: Notices that rows which stay where they are have changed.
        placed: The name of the same rows with their places in their files, if they have any.
        with_nan: The name of the same rows with NaN where the others have null, if there is one.
        where: Where rows live that were not brought along, in words.
        stays: Whether questions go there.
        public_categories: The columns whose categories may be shown.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        schema: Schema,
        count: int,
        native: Native,
        held: TableLike | None = None,
        *,
        watch: Watch | None = None,
        placed: str | None = None,
        with_nan: str | None = None,
        where: str = "",
        stays: bool = False,
        public_categories: frozenset[str] = frozenset(),
    ) -> None:
        self._database = database
        self._name = name
        self._native = native
        self._held = held
        self._watch = watch
        self._placed = placed
        self._with_nan = with_nan
        self.where = where
        self.stays = stays
        self.public_categories = public_categories
        self._sealed = False
        self._compiled: dict[Hashable, Any] = {}
        # All rows as an arrow table, kept from the digest of a small table to the copy that follows it.
        self._in_memory: Any | None = None
        # The SQL of a query for a part of these rows, chosen without their values; None without a rule.
        self.chosen: Callable[[float], str] | None = None
        # The column that says which unit a row belongs to; None where every row is a unit.
        self.unit: str | None = None
        self.schema = schema
        self.count = count

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.schema)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Rows({self.count:,} rows, {self.schema!r})"

    def seal(self) -> None:
        """From now on, allow reads only in the clean room (:func:`holdfast.engines.unsealed`)."""
        self._sealed = True

    def require_readable(self) -> None:
        """Refuse to read sealed rows from outside the clean room."""
        if self._sealed:
            require_unsealed()

    def sums(self, question: EngineQuery, *, squares: bool = False) -> Sums:
        """The exact sums of a checked ``question`` of kind mean or share, by one aggregate; with ``squares``,
        also of squares.

        Guarantee: the same integers on every run, whatever the number of threads; a share counts exactly, a
        mean's values are clipped to the bounds and rounded to multiples of (hi - lo) / 2**24 first (see
        ``SCALE_BITS``).
        """
        if question.kind not in ("mean", "share"):
            raise InvalidArgument("question", "a checked mean or share", question.kind, of="sums")
        self.require_readable()
        shape = _sums.shape_of(question, squares=squares, count=self.count)
        statement = self.statement_of(question, shape, lambda: _sums.aggregate(shape, self._database.dialect))
        (row,) = self._database.ask(statement, _sums.numbers_of(question))
        return _sums.collect(question, shape, row, count=self.count, squares=squares)

    def cells(
        self, question: EngineQuery, steps: Sequence[tuple[int, int, int]], *, count_clipped: bool = False
    ) -> list[tuple[int, ...]]:
        """The rows of a ``question`` by cells. ``steps`` says for each value where steps start, how many bits
        of units a step has, and how many steps there are. With ``count_clipped``, also how many rows of each
        cell have a value outside its bounds."""
        return cells_of(self, question, steps, count_clipped=count_clipped)

    def unit_sums(self, question: EngineQuery) -> list[tuple[int, ...]]:
        """The sums of a ``question`` over each unit, in the form of :meth:`cells`."""
        return unit_sums_of(self, question)

    def in_clusters(self, column: str) -> Rows:
        """The same rows in units: those with one value of ``column`` belong together."""
        return in_clusters(self, column)

    def in_numbered_units(self, numbers: NDArray[np.int64]) -> Rows:
        """The same rows in units, whose ``numbers`` are given row by row; of stored rows only."""
        return in_numbered_units(self, numbers)

    def in_blocks(self, length: int, gap: int) -> Rows:
        """The rows in blocks of ``length``, with ``gap`` rows left out after each; of stored rows only."""
        return in_blocks(self, length, gap)

    @_by_column
    def unit_sizes(self) -> UnitSizes:
        """How many units there are of each size. Reads the column of units, before there is an account."""
        return sizes_of(self)

    def unit_codes(self) -> NDArray[np.int64]:
        """The unit of each row, as a number, in order. Reads every row."""
        return unit_codes(self)

    def statement_of(
        self, question: EngineQuery, shape: Hashable, around: Callable[[], Any], *, with_unit: bool = False
    ) -> Statement:
        """The statement of a ``question``. ``around`` makes the expression around the question's own
        expressions, which have this ``shape``. With ``with_unit`` the statement also reads the unit of each
        row.

        It is compiled once for all questions that differ only in the numbers that columns are compared with:
        compiling takes longer than a small question.
        """
        unit = self.unit if with_unit else None
        columns = tuple(self.schema.columns[name] for name in sorted(question.reads))
        place = (self._name, columns, self._database.dialect, unit, shape)
        statement: Statement | None = question.statements.get(place)
        if statement is None:
            key = (question.pattern, self.read_by(question), unit, shape)
            statement = self.compiled(
                key,
                lambda: self._database.around(self.values_tree(question, unit), shape, around),
            )
            question.statements[place] = statement
        return statement

    def compiled(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result of ``make``, cached by a ``key``."""
        compiled = self._compiled.get(key)
        if compiled is None:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            compiled = self._compiled[key] = make()
        return compiled

    def values_tree(self, question: EngineQuery, unit: str | None = None) -> Any:
        """The own expressions of a ``question`` as a tree of SQL: its value and, if it has a filter, which
        rows pass; with the column ``unit``, if one is named."""

        def make() -> Any:
            table = self._table(question.reads, self.read_by(question), unit)
            return self._database.tree(question.values(table, self.schema, patterned=True, unit=unit))

        return self.compiled((question.pattern, self.read_by(question), unit), make)

    def read_by(self, question: EngineQuery) -> str:
        """The name of the table to read for a ``question``. If only the averaged column can hold NaN, this is
        the table that still contains NaN, because a mean checks for it later."""
        floats = {name for name in question.reads if self.schema.columns[name].storage.startswith("float")}
        return self._with_nan if self._with_nan and floats == {question.column} else self._name

    def order_statistics(
        self, question: EngineQuery, ranks: Callable[[int], Sequence[int]]
    ) -> tuple[int, tuple[float, ...]]:
        """The number of values of a ``question``, and the exact values at some ranks (from 1). ``ranks``
        gives these ranks for that number."""
        if question.kind == "share":
            raise InvalidArgument(
                "question", "a checked quantile or mean", question.kind, of="order_statistics"
            )
        self.require_readable()
        values = self._database.compile(self._ranked(question))
        column, rows = self._database.dialect.quoted("value"), self.count
        if question.counts:
            ((rows,),) = self._database.run(f"SELECT count({column}) FROM ({values}) AS ranked")
        checked_ranks = _sums.check_ranks(ranks(rows), rows)
        if not checked_ranks:
            return rows, ()
        aggregate = self._database.dialect.ranked(column, _sums.fractions_of(checked_ranks, rows))
        ((ranked,),) = self._database.run(f"SELECT {aggregate} FROM ({values}) AS ranked")
        return rows, tuple(ranked)

    def _ranked(self, question: EngineQuery) -> Any:
        return _sums.values_to_rank(question.values(self._table(question.reads), self.schema), question)

    @_by_column
    def nullable_columns(self) -> frozenset[str]:
        """The columns that hold a null or a NaN in some row. Reads every row: for a training part only."""
        self.require_readable()
        counted = ", ".join(f"count({self._database.dialect.quoted(name)})" for name in self.columns)
        (counts,) = self._database.run(f"SELECT {counted} FROM {self._source} AS counted")
        return frozenset(
            name for name, present in zip(self.columns, counts, strict=True) if present < self.count
        )

    @_by_column
    def empty_columns(self, columns: Sequence[str]) -> frozenset[str]:
        """Which of these ``columns`` have no value in any row. Reads every row: for a training part only."""
        self.require_readable()
        counted = ", ".join(f"count({self._database.dialect.quoted(name)})" for name in columns)
        (present,) = self._database.run(f"SELECT {counted} FROM {self._source} AS counted")
        return frozenset(name for name, count in zip(columns, present, strict=True) if not count)

    @_by_column
    def different_rows(self) -> int | None:
        """How many different rows there are, by the columns that questions can use; None for rows that stay
        where they are. Reads every row: for a training part only."""
        self.require_readable()
        asked = [name for name, column in self.schema.items() if column.kind != "other"]
        if self.stays or self.in_database or not asked:
            return None
        listed = ", ".join(map(self._database.dialect.quoted, asked))
        ((different,),) = self._database.run(
            f"SELECT count(DISTINCT hashed) FROM (SELECT hash({listed}) AS hashed FROM {self._source})"
        )
        return int(different)

    @_by_column
    def agreement(self, column: str) -> float:
        """The probability that two rows drawn from these, with replacement, agree in a ``column``. Reads
        every row: for a training part only."""
        self.require_readable()
        name = self._database.dialect.quoted(column)
        ((squares,),) = self._database.run(
            f"SELECT sum(times * times) FROM (SELECT count(*) AS times FROM {self._source} AS counted "
            f"GROUP BY {name}) AS grouped"
        )
        return float(squares) / self.count**2

    @_by_column
    def texts(self, column: str, *, most: int) -> frozenset[str] | None:
        """The different texts of a ``column``; None where there are more than ``most``. Reads every row: for
        a training part only."""
        self.require_readable()
        name = self._database.dialect.quoted(column)
        different = self._database.run(
            f"SELECT DISTINCT {name} FROM {self._source} AS listed WHERE {name} IS NOT NULL LIMIT {most + 1}"
        )
        return None if len(different) > most else frozenset(str(text) for (text,) in different)

    @_by_column
    def content(self) -> bytes:
        """A digest of every value and of the order of the rows, the same in any kind of table. Reads every
        row. Do not show it: trying all values can turn a digest of few rows back into them."""
        self.require_readable()
        return content_of(self)

    def row_digests(self, key: bytes, columns: Sequence[str]) -> NDArray[np.uint64]:
        """A digest for each row of the named ``columns``, the same for equal rows in any kind of table. Reads
        every row. Without the ``key``, the digests do not show the rows."""
        return digests_of(self, key, columns)

    def row_hashes(self, key: bytes, columns: Sequence[str]) -> NDArray[np.uint64]:
        """A hash for each row of the named ``columns`` with a ``key``, many times faster than
        :meth:`row_digests`. Do not show it: it is not a cryptographic digest."""
        return hashes_of(self, key, columns)

    def numbering(self) -> tuple[str, ...]:
        """The columns that may only number the rows. Reads every row."""
        self.require_readable()
        return numbering_of(self)

    def plain(self, columns: Sequence[str]) -> Any:
        """The named ``columns`` as an arrow table. Columns that questions cannot use are text. Reads every
        row."""
        self.require_readable()
        schema = self.schema.only(columns)
        quoted = ", ".join(map(self._database.dialect.quoted, columns)) if self.in_database else None
        listed = quoted or plain_columns(self, columns)
        return self._database.arrow(f"SELECT {listed} FROM {self._source} AS listed", schema)

    def native(self) -> Any:
        """The rows as the kind of table that was opened: pandas, polars, pyarrow, dict of arrays or ibis; a
        file becomes a pandas frame."""
        return self._native.back(self._zoned(self._arrow())) if self._held is None else self._held

    def frame(self, columns: Sequence[str] | None = None) -> Any:
        """All rows as a pandas frame, for functions that run in this process; with ``columns``, of these
        only."""
        return self._zoned(self._arrow(columns)).to_pandas()

    def _zoned(self, table: Any) -> Any:
        """An arrow table of these rows in which times that came with a zone have one: UTC."""
        import pyarrow as pa

        for place, name in enumerate(table.column_names):
            if self.schema[name].zoned:
                column = table.column(name).cast(pa.timestamp(table.schema.field(name).type.unit, tz="UTC"))
                table = table.set_column(place, name, column)
        return table

    def _table(self, columns: Collection[str], name: str | None = None, unit: str | None = None) -> Any:
        """The table with only the needed columns, because ibis takes time for every column."""
        load_sql()
        import ibis

        described = dict(self.schema.to_ibis(columns or self.columns[:1]).items())
        if unit is not None:
            described.setdefault(unit, "string")  # Nothing is computed with it, so any type is right.
        return ibis.table(described, name=name or self._name)

    def _arrow(self, columns: Sequence[str] | None = None, most: int | None = None) -> Any:
        self.require_readable()
        if self._in_memory is not None and columns is None and most is None:
            return self._in_memory
        names = self.columns if columns is None else tuple(columns)
        listed = ", ".join(map(self._database.dialect.quoted, names))
        schema = self.schema.only(names)
        limit = "" if most is None else f" LIMIT {int(most)}"
        return self._database.arrow(f"SELECT {listed} FROM {self._source} AS listed{limit}", schema)

    def keep_in_memory(self) -> Any:
        """All rows as an arrow table, which stays in memory for as long as this object does."""
        self._in_memory = self._arrow()
        return self._in_memory

    @property
    def _source(self) -> str:
        return self._database.source(self._name)

    def block(self, start: int, count: int) -> Rows:
        """The ``count`` rows from place ``start`` on, in the order they came in; of stored rows only."""
        name = f"block {start} {count}"
        self._database.define(
            name,
            f"SELECT * FROM {self._source} WHERE rowid >= {int(start)} AND rowid < {int(start) + int(count)}",
        )
        return self.part(name, self.schema, count)

    def part(self, name: str, schema: Schema, count: int) -> Rows:
        """Some of these rows, ``count`` of them with the columns of ``schema``, which are defined under a
        ``name`` where they are."""
        part = Rows(
            self._database,
            name,
            schema,
            count,
            self._native,
            watch=self._watch,
            where=self.where,
            stays=self.stays,
        )
        part._sealed = self._sealed
        part.unit = self.unit
        return part

    def require_blocks(self) -> None:
        """Refuse rows that were not stored: no block can be taken from them."""
        if self.stays:
            raise QueryRejected(
                f"strategy='split' needs rows in an order of their own, and those in {self.where} stay where "
                "they are; use another strategy."
            )

    def limit(self, seconds: float | None) -> None:
        """Set how many ``seconds`` one question to these rows may take; None for no limit."""
        self._database.limit(seconds)

    @_by_column
    def stored(self) -> Rows:
        """The same rows copied once into the engine's own storage, so that questions are fast."""
        return store(self._arrow(), self.schema, self._native, self._held)

    @property
    def in_database(self) -> bool:
        """Whether the rows are in a database of other people."""
        return not isinstance(self._database, DuckDB)

    @property
    def has_order(self) -> bool:
        """Whether the rows come in the same order every time."""
        return not self.in_database or self._database.dialect.engine == "DuckDB"

    @property
    def is_small(self) -> bool:
        """Whether a copy costs less than it saves: 50 million values, rows times columns."""
        return self.count * len(self.schema) <= _MOST_COPIED

    def settled(self) -> Rows:
        """The rows as questions read them: in their place if they stay there, else stored."""
        return self if self.stays else self.stored()

    @_by_column
    def first(self, count: int) -> Rows:
        """``count`` rows, stored: the first ones, where rows have an order."""
        return store(self._arrow(most=count), self.schema, self._native)

    @_by_column
    def at(self, chosen: ArrayLike) -> Rows:
        """The rows that the mask ``chosen`` marks, stored, in the order they came in; of stored rows only."""
        return rows_at(self, self._mask(chosen, "chosen"))

    @_by_column
    def reordered(self, places: ArrayLike) -> Rows:
        """The rows of these ``places``, stored in this order; of stored rows only."""
        return store(self._arrow().take(places), self.schema, self._native)

    @_by_column
    def some(self, part: float) -> Rows:
        """About this ``part`` of the rows, from 0 to 1, stored. Only for rows that stay where they are. The
        choice does not depend on values. If no such choice is possible, these are the first rows."""
        listed = ", ".join(map(self._database.dialect.quoted, self.columns))
        if self.chosen is not None:
            query = self.chosen(part)
        elif self._placed is not None:
            placed = self._database.source(self._placed)
            query = f"SELECT {listed} FROM {placed} AS whole WHERE {some_by_place(self, self._placed, part)}"
        elif (lot := self._database.dialect.lot) is not None:
            query = f"SELECT {listed} FROM {self._source} AS whole WHERE {lot} < {float(part)!r}"
        else:
            return self.first(round(part * self.count))
        return store(self._database.arrow(query, self.schema), self.schema, self._native)

    def require_unchanged(self) -> None:
        """Refuse to continue if rows that stay in their files or database have changed; see
        ``docs/theory/engines.md`` for the changes that are noticed."""
        change = None if self._watch is None else self._watch.change()
        if change is not None:
            raise QueryRejected(
                f"The data changed after it was opened: {change}. Open it again, with an account of its own."
            )

    @_by_column
    def split_in_place(
        self, share: float, seed: int, key: str | None = None, *, in_units: bool = False
    ) -> tuple[Rows, Rows, str]:
        """Split into a training part of about ``share`` of the rows and the rest, copying neither: by a hash
        of the column ``key``, which then cannot be asked about, or of the place of a row in its file.
        ``seed`` chooses the hash. With ``in_units`` the rows of one key are a unit.

        The third is a fingerprint of the hash: other parts have another.
        """
        if key is not None:
            return *split_by_key(self, key, share, seed, in_units=in_units), "md5"
        if self._placed is None:
            raise QueryRejected(
                f"Rows in {self.where or 'memory'} have no fixed order, so they cannot be split by their "
                "place; give a training part with train=, set none aside with training_share=0, or say "
                "split_by= a column whose values say nothing about the other columns, such as an id."
            )
        return split_by_place(self, self._placed, share, seed)

    @_by_column
    def split(self, train: ArrayLike, protected: ArrayLike | None = None) -> tuple[Rows, Rows]:
        """Split into a training part and a protected part, each in the original order.

        ``train`` marks the rows of the training part, ``protected`` those of the other (by default all the
        rest; rows in neither are dropped). The protected part is stored apart once.
        """
        train = self._mask(train, "train")
        protected = ~train if protected is None else self._mask(protected, "protected")
        if np.any(train & protected):
            raise InvalidArgument(
                "protected", "a mask that shares no row with train", "masks that overlap", of="split"
            )
        for name, mask in (("training", train), ("protected", protected)):
            if not mask.any():
                raise QueryRejected(
                    f"The split leaves no rows in the {name} part; both parts need at least one."
                )
        return split_rows(self, train, protected)

    def _mask(self, mask: Any, argument: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (self.count,):
            raise InvalidArgument(argument, f"a mask of {self.count:,} booleans", array, of="split")
        return array
