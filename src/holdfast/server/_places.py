"""Where things may lie: sources of tables inside one folder, and a book for every account."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.ledger import Book, SigningKey

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_EPOCH = re.compile(r"(.*)@([1-9][0-9]{0,8})", flags=re.S)


class Unknown(HoldfastError):
    """There is no such thing, or it is out of reach for this token. It is not said which."""


def require_name(name: str) -> None:
    """Refuse a name that could not be part of an address and of a file."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "name", "lower-case letters, digits, - and _, at most 63", name, of="a dataset or board"
        )


def named(address: str) -> tuple[str, int | None]:
    """The name of a dataset, and the number of the epoch where one is said.

    >>> named("people@2"), named("people")
    (('people', 2), ('people', None))
    """
    found = _EPOCH.fullmatch(address)
    return (address, None) if found is None else (found[1], int(found[2]))


@dataclass(frozen=True)
class Places:
    """The folder of sources, the books, and the key they are signed with.

    ``books`` is a PostgreSQL URL, or None for files in the service's folder.
    """

    home: Path
    sources: Path
    key: SigningKey
    books: str | None

    def source(self, said: str) -> str:
        """A source as it may be opened: a URL as it is, a file only inside the folder of sources."""
        if "://" in said:
            return said
        folder = self.sources.resolve()
        path = (folder / said).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise InvalidArgument(
                "source", "a file in the folder of sources, or a database URL", said, of="a dataset or board"
            )
        return str(path)

    def book(self, name: str) -> Book:
        """The account book of this name."""
        if self.books is not None:
            joint = "&" if "?" in self.books else "?"
            return Book(f"{self.books}{joint}holdfast_book={quote(name)}", key=self.key)
        folder = self.home / "books"
        folder.mkdir(exist_ok=True)
        return Book(folder / f"{name}.holdfast", key=self.key)
