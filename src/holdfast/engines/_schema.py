"""The public facts of a table before a row of it is read: the columns, their kinds, what may be missing, and
why a table cannot be opened.

A refusal names the column and the kind of problem, never a value. The libraries that read tables quote what
they could not read, which may be from a protected row. So their errors are not passed on. Like the types
themselves, it is a public fact that a table can be opened and each column is stored under one type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

from holdfast.checks import choice
from holdfast.engines._dialect import Dialect
from holdfast.errors import HoldfastError, QueryRejected

__all__ = [
    "KINDS",
    "PLAIN",
    "Column",
    "Schema",
    "by_kind_only",
    "first_that_fails",
    "kind_of_storage",
    "reject_columns",
    "unreadable_column",
    "unstorable_column",
]


KINDS = ("number", "boolean", "text", "date", "other")

PLAIN = Dialect()
"""What is meant where nothing is said: DuckDB."""

_WHOLE = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Column:
    """One column: its ``kind``, the ``storage`` type behind it, and what the source says about missing
    values.

    ``nullable`` is True if the type was chosen to hold nulls (pandas ``Int64``). It is False if the type
    cannot hold them (a numpy integer, a ``NOT NULL`` column). It is None if the source does not say (CSV,
    most Parquet files): then the training rows decide. ``nan`` says whether a stored value may be NaN, which
    counts as null. ``order`` lists the categories of a text column with ordered categories, from the least to
    the greatest. It is empty if they are not public, and None for every other column. ``zoned`` says whether
    the source has a time zone with each time: questions see such times in UTC.
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
    """The columns of a table by name, in order; a plain mapping that never changes. ``dialect`` says what
    their database can compute, and ``columns`` is the mapping itself.

    >>> Schema({"age": "number", "sex": "text"})
    Schema(age: number, sex: text)
    """

    def __init__(self, columns: Mapping[str, Column | str], dialect: Dialect | None = None) -> None:
        self.dialect = dialect or PLAIN
        self.columns: Mapping[str, Column] = {
            name: Column(column) if isinstance(column, str) else column for name, column in columns.items()
        }
        # Results of checking questions, by the shape of the question. The check itself fills it.
        self.facts: dict[Any, Any] = {}

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return "Schema(" + ", ".join(f"{name}: {column.kind}" for name, column in self.columns.items()) + ")"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self.columns.items()))

    def only(self, names: Collection[str]) -> Schema:
        """The columns with these ``names``, of the same database."""
        return Schema({name: self.columns[name] for name in names}, self.dialect)

    def to_ibis(self, names: Collection[str] | None = None) -> Any:
        """The same columns (or those of these ``names``) as an ibis schema, for expressions against an
        unbound table."""
        import ibis

        plain = {
            "number": "float64",
            "boolean": "boolean",
            "text": "string",
            "date": "timestamp",
            "other": "binary",
        }
        chosen = self.columns if names is None else {name: self.columns[name] for name in sorted(names)}
        return ibis.schema({name: column.storage or plain[column.kind] for name, column in chosen.items()})


def reject_columns(names: list[Any]) -> None:
    """Refuse names that a question could not tell apart. Every engine compares names as its database does."""
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


def by_kind_only(work: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a function that reads rows before there is an account: what it raises quotes no value.

    Errors that Holdfast raises on purpose pass, without the error they were made from.
    """

    @wraps(work)
    def contained(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        refusal: HoldfastError
        try:
            return work(*args, **kwargs)
        except HoldfastError as error:
            refusal = error
        except Exception:
            refusal = QueryRejected(
                "The table cannot be read. What went wrong is not shown, because it may quote protected "
                "rows. Try to read it with pandas, polars or DuckDB: their errors are for you alone."
            )
        refusal.__context__ = refusal.__cause__ = None
        raise refusal

    return contained


def unreadable_column(name: str, error: type[BaseException]) -> QueryRejected:
    """The refusal of a column that is not of one type, by the kind of error that reading it raised."""
    if issubclass(error, OverflowError):
        problem = "holds a whole number that does not fit 64 bits. Convert the column to floats or to text"
    elif issubclass(error, UnicodeError):
        problem = "holds text that is not valid Unicode. Clean it, or leave the column out"
    else:
        problem = (
            "holds values of several kinds, or of a kind that cannot be read. "
            "Make all its values numbers, all texts, all booleans or all dates"
        )
    return QueryRejected(f"The column {name!r} {problem}.")


def unstorable_column(name: str) -> QueryRejected:
    """The refusal of a column whose type or values do not fit any database type."""
    return QueryRejected(
        f"The column {name!r} cannot be stored: its type is not supported, or one of its values is outside "
        "what the type holds (a text that is not valid Unicode, a time that is too far away). Convert the "
        "column to 64-bit numbers, text, booleans or dates, or leave it out."
    )


def first_that_fails(names: Iterable[str], attempt: Callable[[str], object]) -> str | None:
    """The first column on which ``attempt`` raises; None if it raises on none."""
    for name in names:
        try:
            attempt(name)
        except Exception:
            return name
    return None
