"""What is said about a table that cannot be opened: the column and the kind of problem, never a value.

The libraries that read tables quote what they could not read, and it may stand in a protected row. So their
errors end here. That a table can be opened, and each column stored under one type, is a public fact like the
types themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from holdfast.errors import HoldfastError, QueryRejected

__all__ = ["by_kind_only", "first_that_fails", "unreadable_column", "unstorable_column"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


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
    """The refusal of a column whose type or values no database type holds."""
    return QueryRejected(
        f"The column {name!r} cannot be stored: its type is not supported, or one of its values is outside "
        "what the type holds (a text that is not valid Unicode, a time that is too far away). Convert the "
        "column to 64-bit numbers, text, booleans or dates, or leave it out."
    )


def first_that_fails(names: Iterable[str], attempt: Callable[[str], object]) -> str | None:
    """The first column on which ``attempt`` raises; None where each works by itself."""
    for name in names:
        try:
            attempt(name)
        except Exception:
            return name
    return None
