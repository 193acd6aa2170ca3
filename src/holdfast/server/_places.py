"""Where things may lie: sources that the operator allows, a book for every account, and the store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from holdfast.engines._files import is_database, shown
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.ledger import Book, SigningKey
from holdfast.ledger._marks import Marks
from holdfast.server._store import PostgresStore, SqliteStore, Store, make_private

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_EPOCH = re.compile(r"(.*)@([1-9][0-9]{0,8})", flags=re.S)
_ALLOWED = "a file in the folder of sources, or a table of a database that --allow-source allows"
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "clickhouse": 8123}


class Unknown(HoldfastError):
    """There is no such thing, or it is out of reach for this token. It is not said which."""


class Broken(HoldfastError):
    """What was registered cannot be opened any more, and why in words that show no place of the server."""


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

    ``books`` is a PostgreSQL URL, or None for files in the service's folder. ``allow`` are the beginnings of
    addresses of databases whose tables may be registered. Where ``shared``, other processes of this machine
    serve the same folder.
    """

    home: Path
    sources: Path
    key: SigningKey
    books: str | None
    allow: tuple[str, ...] = ()
    shared: bool = False

    def allowed(self, source: str) -> str:
        """A source as it is written down: the address of a database that is allowed, or the path of a file
        inside the folder of sources, relative to it. Machines may have that folder in different places."""
        if "://" in source:
            try:
                if is_database(source) and any(_within(source, prefix) for prefix in self.allow):
                    return source
                named_safely = shown(source)
            except ValueError:
                named_safely = "an address that cannot be read"
            raise InvalidArgument("source", _ALLOWED, named_safely, of="a dataset or board")
        place = self._inside(source)
        if place is None:
            raise InvalidArgument("source", _ALLOWED, source, of="a dataset or board")
        return place.relative_to(self.sources.resolve()).as_posix()

    def place(self, source: str) -> str:
        """What is opened for a source that was written down."""
        if "://" in source:
            return source
        place = self._inside(source)
        if place is None:
            raise Broken(
                f"The file {shown(source)!r} is not in the folder of sources any more. Bring it back as it "
                "was."
            )
        return str(place)

    @contextmanager
    def without_paths(self) -> Iterator[None]:
        """Take the server's own paths out of what goes wrong inside."""
        try:
            yield
        except HoldfastError as error:
            folders = {self.sources, self.sources.resolve(), self.home, self.home.resolve(), Path.cwd()}
            text = str(error)
            for folder in sorted((str(one) for one in folders if len(one.parts) > 1), key=len, reverse=True):
                text = text.replace(f"{folder}/", "").replace(folder, "the server's folder")
            if text != str(error):
                error.args = (text,)
            raise

    def _inside(self, source: str) -> Path | None:
        """The file that a source names, if it really lies in the folder: links are followed first."""
        try:
            folder = self.sources.resolve()
            path = (folder / source).resolve()
            return path if path.is_relative_to(folder) and path.is_file() else None
        except (OSError, ValueError):  # A name that is too long, or that no file can have.
            return None

    def book(self, name: str, *, marked: bool = True) -> Book:
        """The account book of this name, held against its mark."""
        marks = Marks(self.home / "marks") if marked else None
        turns = self.home / "turns" / name if self.shared else None
        if self.books is not None:
            joint = "&" if "?" in self.books else "?"
            return Book(
                f"{self.books}{joint}holdfast_book={quote(name)}", key=self.key, marks=marks, turns=turns
            )
        folder = self.home / "books"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{name}.holdfast"
        make_private(path)
        return Book(path, key=self.key, marks=marks, turns=turns)

    def store(self, kind: str) -> Store:
        """Where things of a kind are written down: with the books if those are in a database."""
        return SqliteStore(self.home / f"{kind}.sqlite") if self.books is None else PostgresStore(self.books)


def _within(source: str, prefix: str) -> bool:
    """Whether an address begins with one that is allowed: the same kind of database and, where the prefix
    says them, the same machine, port, person, database and options. An option could name another machine.

    >>> _within("postgres://ann@db.example/town#trips", "postgresql://db.example")
    True
    >>> _within("postgres://db.example@elsewhere/town#trips", "postgresql://db.example")
    False
    """
    asked, given = urlsplit(source), urlsplit(prefix)
    if _scheme(asked) != _scheme(given):
        return False
    if not (given.netloc or given.path or given.query):
        return True
    machine = (asked.hostname or "") == (given.hostname or "") and _port(asked) == _port(given)
    person = given.username in (None, "", asked.username)
    options = parse_qs(given.query, keep_blank_values=True)
    same_options = all(
        options.get(name) == value for name, value in parse_qs(asked.query, keep_blank_values=True).items()
    )
    path, within = unquote(asked.path), given.path.rstrip("/")
    inside = ".." not in path.split("/") and (not within or path == within or path.startswith(f"{within}/"))
    return machine and person and same_options and inside


def _scheme(address: SplitResult) -> str:
    return "postgresql" if address.scheme == "postgres" else address.scheme


def _port(address: SplitResult) -> int | None:
    return address.port or _PORTS.get(_scheme(address))
