"""Results are frozen records: readable in a terminal, a table in a notebook, a dictionary for machines."""

from __future__ import annotations

import html
import math
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

__all__ = ["Record", "amount", "interval_words", "plain", "show"]

_DIGITS = 3  # of a half-width; what lies below them says nothing


def show(value: object) -> str:
    """A number with as many digits as a reader wants, anything else as its ``repr``."""
    return format(value, ".6g") if isinstance(value, float) else repr(value)


def amount(number: float, unit: str) -> str:
    """A number of nats, or of answers or anything else that is counted, in words.

    >>> amount(0.2877, "nats"), amount(1.0, "answers"), amount(100, "answers")
    ('0.288 nats', '1 answer', '100 answers')
    """
    digits = f"{number:.3g}" if unit == "nats" else f"{number:,.0f}"
    return f"{digits} {unit.removesuffix('s') if digits == '1' else unit}"


def interval_words(value: float, low: float, high: float) -> tuple[str, str]:
    """The value and ``[low, high]``, to three digits of the half-width, the ends rounded outward.

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


def plain(value: object) -> Any:
    """Turn records, tuples and mappings into what ``json.dumps`` takes."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return str(value)


@cache
def _visible_names(kind: Any) -> tuple[str, ...]:
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is a Record and must be a dataclass")
    return tuple(field.name for field in fields(kind) if field.repr)


class Record:
    """Base of every result; subclasses are ``@dataclass(frozen=True, repr=False)``."""

    def _visible(self) -> dict[str, Any]:
        kind: Any = type(self)
        return {name: getattr(self, name) for name in _visible_names(kind)}

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={show(value)}" for name, value in self._visible().items())
        return f"{type(self).__name__}({inside})"

    def to_dict(self) -> dict[str, Any]:
        """The record as a dictionary of plain values, ready for JSON."""
        return {name: plain(value) for name, value in self._visible().items()}

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr><th "
            f"style='text-align:left'>{html.escape(name)}</th><td>{html.escape(show(value))}</td></tr>"
            for name, value in self._visible().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"
