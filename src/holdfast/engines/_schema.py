"""What is public about a table before a row of it is read: the columns, their kinds, and what may be
missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast.checks import choice
from holdfast.engines._dialect import Dialect
from holdfast.errors import QueryRejected

__all__ = ["KINDS", "PLAIN", "Column", "Schema", "kind_of_storage", "reject_columns"]

KINDS = ("number", "boolean", "text", "date", "other")

PLAIN = Dialect()
"""What is meant where nothing is said: DuckDB."""

_WHOLE = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Column:
    """One column: its ``kind``, the ``storage`` type behind it, and what the source says about missing
    values.

    ``nullable`` is True where the type was chosen to hold nulls (pandas ``Int64``), False where it cannot
    hold them (a numpy integer, a ``NOT NULL`` column), and None where the source does not say (CSV, most
    Parquet files): then the training rows decide. ``nan`` tells whether a stored value may be NaN, which
    counts as null. ``order`` lists the categories of a text column with ordered categories, from the least to
    the greatest; it is empty where they are not public, and None for every other column. ``zoned`` tells
    whether the source says a time zone with each time: such times are asked about in UTC.
    """

    kind: str
    storage: str = ""
    nullable: bool | None = None
    nan: bool = False
    order: tuple[str, ...] | None = None
    zoned: bool = False

    def __post_init__(self) -> None:
        choice(self.kind, "kind", KINDS, of="Column")

    @property
    def whole(self) -> bool:
        """Whether every value is a whole number that fits 64 bits, by type."""
        return self.storage in _WHOLE

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest number that the storage type can hold, as floats."""
        if not self.whole:
            return float("-inf"), float("inf")
        bits = int(self.storage.rpartition("t")[2])
        if self.storage.startswith("u"):
            return 0.0, float(2**bits - 1)
        return -float(2 ** (bits - 1)), float(2 ** (bits - 1) - 1)


def kind_of_storage(storage: str) -> str:
    """The kind of a column by the type behind it."""
    if storage in _WHOLE or storage.startswith("float"):
        return "number"
    if storage == "date" or storage.startswith("timestamp"):
        return "date"
    return {"boolean": "boolean", "string": "text"}.get(storage, "other")


class Schema(Mapping[str, Column]):
    """The columns of a table by name, in order; a plain mapping that never changes. ``dialect`` says what can
    be asked of them where they live.

    >>> Schema({"age": "number", "sex": "text"})
    Schema(age: number, sex: text)
    """

    def __init__(self, columns: Mapping[str, Column | str], dialect: Dialect | None = None) -> None:
        self.dialect = dialect or PLAIN
        self._columns = {
            name: Column(column) if isinstance(column, str) else column for name, column in columns.items()
        }

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return "Schema(" + ", ".join(f"{name}: {column.kind}" for name, column in self._columns.items()) + ")"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self._columns.items()))

    def only(self, names: Collection[str]) -> Schema:
        """The named columns, which live in the same place."""
        return Schema({name: self._columns[name] for name in names}, self.dialect)

    def to_ibis(self, names: Collection[str] | None = None) -> Any:
        """The same columns (or those named) as an ibis schema, for expressions against an unbound table."""
        import ibis

        plain = {
            "number": "float64",
            "boolean": "boolean",
            "text": "string",
            "date": "timestamp",
            "other": "binary",
        }
        chosen = self._columns if names is None else {name: self._columns[name] for name in sorted(names)}
        return ibis.schema({name: column.storage or plain[column.kind] for name, column in chosen.items()})


def reject_columns(names: list[Any]) -> None:
    """Refuse names that a question could not tell apart; every engine compares names the way its database
    does."""
    if not names:
        raise QueryRejected("The table has no columns; give at least one.")
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not name:
            raise QueryRejected(f"Column names must be text; rename the column {name!r}.")
        if name.lower() in seen:
            raise QueryRejected(
                f"The columns {seen[name.lower()]!r} and {name!r} differ at most in case; rename one of them."
            )
        seen[name.lower()] = name
