"""What is printed: words that any terminal can write, and data that any program can read."""

from __future__ import annotations

import codecs
import io
import json
import math
import sys
import unicodedata
from typing import Any

import click

_SPELLED = "holdfast-spelled"

# How a character is written where the encoding has none for it: bars stay bars and sentences stay readable.
_ASCII = {
    **{"─": "-", "━": "=", "●": "O", "○": "o", "│": "|", "█": "#", "░": "."},
    **{"…": "...", "·": "-", "–": "-", "—": "-", "−": "-", "“": '"', "”": '"', "‘": "'", "’": "'"},
    **{"→": "->", "⇒": "=>", "≤": "<=", "≥": ">=", "±": "+/-", "×": "x", "√": "sqrt ", "∞": "inf"},
}


def write_on_any_terminal() -> None:
    """Let nothing that is printed end in an encoding error: what was paid for is always shown."""
    codecs.register_error(_SPELLED, _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_SPELLED)


def print_data(document: Any) -> None:
    """Print one JSON document, in ASCII where the output is not UTF-8. JSON has no infinity: it is null."""
    everything = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    click.echo(json.dumps(_finite(document), ensure_ascii=not everything, allow_nan=False, default=str))


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_spelled, error.object[error.start : error.end])), error.end


def _spelled(character: str) -> str:
    if character in _ASCII:
        return _ASCII[character]
    name = unicodedata.name(character, "")
    if name.startswith("GREEK"):
        return name.rpartition(" ")[2].lower()
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
