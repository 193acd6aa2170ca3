"""Every error Holdfast raises on purpose: one root, and one type for each thing a caller can do about it. And
the one warning it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from holdfast.records import plain

__all__ = [
    "BudgetSpent",
    "DatabaseAway",
    "DependenceWarning",
    "HoldfastError",
    "InvalidArgument",
    "MissingExtra",
    "NotEnoughRows",
    "QueryRejected",
    "ResultsRejected",
    "ServiceRefused",
]


def _short(value: object) -> str:
    """What was given may be a whole table: a message shows its beginning and its end."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        text = "a number too long to write"
    return text if len(text) <= 200 else f"{text[:140]} … {text[-40:]}"


class HoldfastError(Exception):
    """The root: ``except HoldfastError`` catches everything Holdfast raises on purpose."""

    _carried: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The error as plain values: its class (``error``), its ``message``, and what it carries besides,
        such as ``asked`` and ``left``."""
        carried = {name: plain(getattr(self, name)) for name in self._carried}
        given = {name: value for name, value in carried.items() if value is not None}
        return {"error": type(self).__name__, "message": str(self), **given}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The error of this class that :meth:`to_dict` describes. What ``values`` does not say is None, and
        entries that this version does not know are ignored.

        >>> BudgetSpent.from_dict(BudgetSpent("Nothing is left.", left=0.0).to_dict()).left
        0.0
        """
        error = cls.__new__(cls, str(values["message"]))
        for name in cls._carried:
            setattr(error, name, values.get(name))
        return error


class InvalidArgument(HoldfastError, ValueError):
    """An argument lies outside the domain in which the result holds.

    ``argument`` is its name, ``expected`` the domain in words, ``got`` the value that was given and
    ``reference`` the theorem that sets the domain (empty where it is plain common sense).
    """

    _carried = ("argument", "expected", "got", "reference")

    def __init__(
        self, argument: str, expected: str, got: object, *, of: str = "", reference: str = ""
    ) -> None:
        self.argument = argument
        self.expected = expected
        self.got = got
        self.reference = reference
        owner = f" of {of}" if of else ""
        source = f" ({reference})" if reference else ""
        super().__init__(
            f"The '{argument}' argument{owner} must be {expected}{source}. Got {_short(got)} instead."
        )


class _AccountError(HoldfastError):
    """Carries the state of the account at the moment of refusal, counted in ``unit``: nats or answers."""

    _carried = ("asked", "spent", "left", "unit")

    def __init__(
        self,
        message: str,
        *,
        asked: float | None = None,
        spent: float | None = None,
        left: float | None = None,
        unit: str = "nats",
    ) -> None:
        self.asked = asked
        self.spent = spent
        self.left = left
        self.unit = unit
        super().__init__(message)


class QueryRejected(_AccountError, ValueError):
    """The question cannot be asked as written; the message says what to write instead."""


class BudgetSpent(_AccountError):
    """Answering would break the promise made at the start; ``asked``, ``spent`` and ``left`` are counted in
    ``unit``, which is nats or answers."""


class NotEnoughRows(HoldfastError):
    """The guarantee needs ``needed`` rows and the sample has ``got``; ``unit`` is what a row is called, and
    ``advice`` what can be done with the rows at hand."""

    _carried = ("needed", "got", "what")

    def __init__(
        self, needed: int, got: int, *, what: str = "This guarantee", unit: str = "rows", advice: str = ""
    ) -> None:
        self.needed = needed
        self.got = got
        self.what = what
        message = f"{what} needs at least {needed:,} {unit}; the sample has {got:,}."
        super().__init__(f"{message} {advice}" if advice else message)


class DatabaseAway(HoldfastError):
    """The database that a table is in does not answer. No row was read and nothing was charged: ask again
    later."""


class ResultsRejected(HoldfastError, ValueError):
    """A result file of an evaluation tool cannot be used as it is; the message says what to do about it, and
    shows no score."""


class ServiceRefused(HoldfastError):
    """A service refuses this now, or refuses it for this token; the message says what to do first.
    ``status`` is the HTTP status."""

    _carried = ("status",)

    def __init__(self, message: str, *, status: int) -> None:
        self.status = status
        super().__init__(message)


class MissingExtra(HoldfastError, ImportError):
    """An optional part is not installed; the message names the ``pip install`` that brings it."""

    _carried = ("extra",)

    def __init__(self, extra: str, *, what: str) -> None:
        self.extra = extra
        # Installed as holdfast-guard, since "holdfast" on the public index is another project.
        super().__init__(f"{what} needs an optional part: pip install 'holdfast-guard[{extra}]'.")


class DependenceWarning(UserWarning):
    """The training rows speak against independent rows, which the guard assumes; the message says what to do.
    ``guard.diagnose()`` shows more. Given at most once by a guard."""
