"""Reading files that somebody else wrote: sizes are limited, and no error shows what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, ResultsRejected
from holdfast.results._record import Results

__all__ = ["MOST_BYTES", "as_written_by", "check_size", "parse_json", "read_json", "text_lines", "too_large"]

MOST_BYTES = 2**30


def too_large(what: str, size: int) -> ResultsRejected:
    """The error for a file, or a part of one, that is not read because of its size."""
    return ResultsRejected(f"{what} has {size:,} bytes; at most {MOST_BYTES:,} are read. Split the results.")


def check_size(path: Path) -> None:
    """Refuse a file that is too large to be read."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise too_large(f"The file {path.name}", size)


def parse_json(text: str | bytes, what: str) -> Any:
    """The JSON value of a text. The error says nothing that is in the text, not even where it went wrong:
    that may be at a score."""
    problem = ""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = error.msg.split(":")[0].lower()
    except UnicodeDecodeError:
        problem = "the text is not UTF-8"
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:
        problem = "a number in it is too long"
    # Raised here and not above: the errors of json hold the whole text, scores included.
    raise ResultsRejected(f"{what} is not valid JSON: {problem}. Was the file cut off?")


def as_written_by(tool: str, read: Callable[[], Results]) -> Results:
    """The results that ``read`` returns. A part of the file that is of another type than ``tool`` writes
    gives one sentence: the error of Python could show what is in the file."""
    try:
        return read()
    except HoldfastError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        pass
    raise ResultsRejected(f"The file does not have the form that {tool} writes. Was it edited by hand?")


def read_json(path: Path) -> Any:
    """The JSON value of a file."""
    check_size(path)
    return parse_json(path.read_bytes(), f"The file {path.name}")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, with their numbers."""
    check_size(path)
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = _decoded(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)
            if line is None:
                raise ResultsRejected(f"Line {number:,} of {path.name} is not UTF-8. Save the file as UTF-8.")
            yield number, line


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
