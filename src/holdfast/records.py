"""Results are frozen records: readable in a terminal, a table in a notebook, a dictionary for machines."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Self

__all__ = ["Record", "amount", "framed_html", "html_table", "interval_words", "plain", "show"]

_DIGITS = 3  # Digits of a half-width that are shown. Finer digits carry no information.


# No colour of its own: a notebook is light or dark, and what is shown in it follows. Notebooks set cells to
# the right and stripe rows by themselves, which these rules take back.
_NOTEBOOK_STYLE = (
    "<style>"
    ".holdfast { max-width: 60em; }"
    ".holdfast table { border-collapse: collapse; margin: .4em 0; }"
    ".holdfast caption { caption-side: top; text-align: left; font-weight: 600; color: inherit; }"
    ".holdfast th, .holdfast td { text-align: left !important; vertical-align: top; "
    "padding: .25em 1em .25em 0; background: none !important; border: 0; "
    "border-bottom: 1px solid rgba(128, 128, 128, .4); font-variant-numeric: tabular-nums; }"
    ".holdfast tr { background: none !important; }"
    ".holdfast pre { white-space: pre-wrap; }"
    ".holdfast p { margin: .3em 0; }"
    ".holdfast meter { width: 12em; vertical-align: middle; }"
    "</style>"
)


def show(value: object) -> str:
    """A number with as many digits as a reader wants, anything else as its ``repr``.

    Args:
        value: What is shown.
    """
    return format(value, ".6g") if isinstance(value, float) else repr(value)


def amount(number: float, unit: str) -> str:
    """A number of nats, or of answers or anything else that is counted, in words.

    Args:
        number: How many there are.
        unit: What is counted, in the plural.

    >>> amount(0.2877, "nats"), amount(1.0, "answers"), amount(100, "answers")
    ('0.288 nats', '1 answer', '100 answers')
    """
    digits = f"{number:.3g}" if unit == "nats" else f"{number:,.0f}"
    return f"{digits} {unit.removesuffix('s') if digits == '1' else unit}"


def interval_words(value: float, low: float, high: float) -> tuple[str, str]:
    """The value and ``[low, high]``, to three digits of the half-width, the ends rounded outward.

    Args:
        value: The value of an answer; it lies between ``low`` and ``high``.

    >>> interval_words(0.69231, 0.67129, 0.71309)
    ('0.6923', '[0.6712, 0.7131]')
    >>> interval_words(3841.4, 3688.2, 3993.9)
    ('3841', '[3688, 3994]')
    """
    half = (high - low) / 2
    if not 0 < half < math.inf:
        return f"{value:.6g}", f"[{low:.6g}, {high:.6g}]"
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(half)))
    unit = 10.0**decimals
    least, most = math.floor(low * unit) / unit, math.ceil(high * unit) / unit
    return f"{value:.{decimals}f}", f"[{least:.{decimals}f}, {most:.{decimals}f}]"


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """A table as HTML. ``heads`` and ``caption`` are text. The cells of ``rows`` are HTML, so escape what
    comes from data.

    >>> html_table(["a"], [["<b>1</b>"]])
    '<table><tr><th>a</th></tr><tr><td><b>1</b></td></tr></table>'
    """
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{title}<tr>{head}</tr>{body}</table>"


def framed_html(*parts: str) -> str:
    """Pieces of HTML as one output of a notebook, in the style that all results share. It takes the colours
    of the notebook, which also scrolls what is too wide.

    Args:
        parts: The pieces.

    >>> framed_html("<p>Done.</p>").endswith("<p>Done.</p></div>")
    True
    """
    return f"<div class='holdfast'>{_NOTEBOOK_STYLE}{''.join(parts)}</div>"


def plain(value: object) -> Any:
    """Turn records, tuples and mappings into what ``json.dumps`` takes.

    Args:
        value: A record, or a collection of records and plain values.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None  # JSON has neither infinity nor NaN.
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, bool, int, float)):
        return value
    return str(value)


@cache
def _visible_names(kind: Any) -> tuple[str, ...]:
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is a Record and must be a dataclass")
    return tuple(field.name for field in fields(kind) if field.repr)


@cache
def _fields_that_are_tuples(kind: Any) -> dict[str, bool]:
    return {field.name: str(field.type).startswith("tuple") for field in fields(kind) if field.init}


@cache
def _compared_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.compare)


def _same_values(record: Any, other: object) -> Any:
    """Whether two records of one class have the same values. A NaN (a missing guess) equals itself, because
    tuples compare by identity first. In dataclasses of Python 3.13 and later it would not."""
    if type(other) is not type(record):
        return NotImplemented
    kind: Any = type(record)
    names = _compared_names(kind)
    return tuple(getattr(record, name) for name in names) == tuple(getattr(other, name) for name in names)


class Record:
    """Base of every result; subclasses are ``@dataclass(frozen=True, repr=False)``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__eq__" not in vars(cls):  # A dataclass keeps the comparison that its class has.
            cls.__eq__ = _same_values  # type: ignore[method-assign]

    def _visible(self) -> dict[str, Any]:
        kind: Any = type(self)
        return {name: getattr(self, name) for name in _visible_names(kind)}

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={show(value)}" for name, value in self._visible().items())
        return f"{type(self).__name__}({inside})"

    def to_dict(self) -> dict[str, Any]:
        """The record as a dictionary of plain values, ready for JSON."""
        return {name: plain(value) for name, value in self._visible().items()}

    @classmethod
    def _from_plain(cls, values: Mapping[str, Any], **converted: Any) -> Self:
        """The record that :meth:`to_dict` wrote. ``converted`` are the fields that are more than plain
        values. Entries that this version does not know are left out, so that a newer service may say more."""
        kind: Any = cls
        arguments = {
            name: tuple(values[name]) if is_tuple and isinstance(values[name], list) else values[name]
            for name, is_tuple in _fields_that_are_tuples(kind).items()
            if name in values
        }
        return cls(**{**arguments, **converted})

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(show(value))}</td></tr>"
            for name, value in self._visible().items()
        )
        return framed_html(f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>")
