"""Where the books of one table's epochs are kept, beside one another."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

BOOK = "holdfast_book"
"""The parameter of a PostgreSQL address that names the book."""


def is_postgres(place: str | Path | None) -> bool:
    """Whether a place is the address of a PostgreSQL database."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def name_of(place: str | Path) -> str:
    """What a book is called: its file without the ending, or its name in PostgreSQL.

    >>> name_of("books/people.epoch-2.holdfast"), name_of("postgresql:///town?holdfast_book=people")
    ('people.epoch-2', 'people')
    """
    if is_postgres(place):
        return dict(parse_qsl(urlsplit(str(place)).query)).get(BOOK, "default")
    return Path(place).stem


def place_of_epoch(place: str | Path | None, number: int) -> str | Path | None:
    """``people.csv.holdfast`` becomes ``people.csv.epoch-2.holdfast``; a book in PostgreSQL gets its name so,
    and one in memory stays in memory.

    >>> str(place_of_epoch("people.csv.epoch-2.holdfast", 3))
    'people.csv.epoch-3.holdfast'
    """
    if place is None:
        return None
    if isinstance(place, str) and is_postgres(place):
        parts = urlsplit(place)
        options = dict(parse_qsl(parts.query))
        options[BOOK] = _named(options.get(BOOK, "default"), number)
        return urlunsplit(parts._replace(query=urlencode(options)))
    path = Path(place)
    return path.with_name(_named(path.stem, number) + path.suffix)


def _named(name: str, number: int) -> str:
    return re.sub(r"\.epoch-\d+$", "", name) + f".epoch-{number}"
