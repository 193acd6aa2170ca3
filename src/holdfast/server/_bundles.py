"""A dataset in one file: its registration and its account books, to keep or to move to another service.

A bundle that is handed over to another service ends the account where it was, and that service goes on with
it. Any other bundle is a copy: whoever imports it has the whole history and a closed account, because the
original may go on. A bundle holds no rows. Its books hold the secrets they were made with, so it belongs
where the service's folder may be.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.ledger import Book, BookHead, copy_books, load_books, read_heads
from holdfast.ledger._copies import require_whole
from holdfast.records import Record
from holdfast.server._administration import Administration, Conflict
from holdfast.server._archives import ArchiveError, Kind, add_file, add_statement, extract
from holdfast.server._datasets import Datasets, book_name_of
from holdfast.server._epochs import Arrived, Planned
from holdfast.server._places import Places, require_name
from holdfast.server._policy import Policy
from holdfast.server._tokens import Person

BUNDLE = Kind("bundle", "urn:holdfast:dataset:1", 1)
_KEY = re.compile(r"ed25519:[A-Za-z0-9_=+/-]{20,100}")


@dataclass(frozen=True, repr=False)
class Imported(Record):
    """A dataset that was imported: whether its account goes on here, and its lines."""

    name: str
    open: bool
    key: str
    lines: int


class Bundles:
    """Exports datasets of one service, and imports those of others."""

    def __init__(self, places: Places, datasets: Datasets, administration: Administration) -> None:
        self._places, self._datasets, self._administration = places, datasets, administration

    @contextmanager
    def exported(self, person: Person, name: str, to: str | None) -> Iterator[Path]:
        """A bundle of a dataset, in a file that is gone afterwards.

        Args:
            person: Who exports it.
            name: The dataset.
            to: The public key of the service that goes on with the account; None for a copy. The account
                ends here before the file is written.
        """
        self._datasets.require_registered(name)
        if to is not None and not _KEY.fullmatch(to):
            raise InvalidArgument("to", "the public key of a service, ed25519:…", to, of="an export")
        self._administration.settle_export(person, name, to)
        with tempfile.TemporaryDirectory(dir=self._places.home, prefix=".export-") as folder:
            staged = Path(folder)
            (staged / "books").mkdir()
            names = self._datasets.book_names(name)
            heads = copy_books(self._books(), staged / "books", names=names)
            registered = staged / "dataset.json"
            registered.write_text(json.dumps(self._datasets.registration(name)), encoding="utf-8")
            file = staged / "bundle.tar"
            with file.open("wb") as target, tarfile.open(fileobj=target, mode="w|") as archive:
                files = [add_file(archive, "dataset.json", registered)]
                for book in sorted((staged / "books").glob("*.holdfast")):
                    files.append(add_file(archive, f"books/{book.name}", book))
                key = self._places.key
                stated = {
                    "version": holdfast.__version__,
                    "key": key.public,
                    "name": name,
                    "to": to,
                    "books": [head.to_dict() for head in heads],
                }
                add_statement(archive, BUNDLE, key, files, stated)
            yield file

    def take_in(self, person: Person, file: BinaryIO, *, sender: str, name: str | None = None) -> Imported:
        """Register the dataset of a bundle. Its rows have to be among the sources already.

        Guarantee: the service with the key ``sender`` made the bundle, and nothing in it was changed. Rows
        that are registered here, or were, are refused.

        Args:
            person: Who imports it.
            file: The bundle.
            sender: The public key of the service that exported it, as its owner knows it.
            name: What the dataset is called here (default: as it was).
        """
        if not _KEY.fullmatch(sender):
            raise InvalidArgument("key", "the public key of a service, ed25519:…", sender, of="an import")
        with tempfile.TemporaryDirectory(dir=self._places.home, prefix=".import-") as folder:
            staged = Path(folder)
            stated = extract(file, staged, BUNDLE).stated(sender)
            registered = json.loads((staged / "dataset.json").read_text(encoding="utf-8"))
            before, now = str(stated["name"]), name or str(stated["name"])
            require_name(now)
            to = stated["to"]
            if to is not None and to != self._places.key.public:
                raise Conflict(
                    f"This bundle is for the service with the key {to}, and the key of this one is "
                    f"{self._places.key.public}. Nothing was changed."
                )
            try:
                planned = [_planned(epoch) for epoch in registered["epochs"]]
                policy = Policy(**registered["policy"])
            except (KeyError, TypeError):
                raise ArchiveError(
                    f"The bundle was made by version {stated.get('version')}, which says more about a "
                    "dataset than this one knows. Install that version. Nothing was changed."
                ) from None
            heads = _checked_books(staged / "books", stated["books"])
            newest = book_name_of(now, planned[-1].number)
            self._administration.record(person, "import", dataset=now, sender=sender, goes_on=to is not None)

            def place() -> None:
                self._place_books(staged / "books", before, now, [epoch.number for epoch in planned])
                self._administration.settle_import(person, newest, sender, goes_on=to is not None)

            self._datasets.take_in(now, policy, planned, place)
            return Imported(now, to is not None, sender, sum(head.sequence for head in heads))

    def _books(self) -> str | Path:
        return self._places.home / "books" if self._places.books is None else self._places.books

    def _place_books(self, staged: Path, before: str, now: str, numbers: list[int]) -> None:
        """Put the books where those of this service are, under their names here. What an import that was cut
        short has placed stays."""
        for number in numbers:
            name = book_name_of(now, number)
            path = (staged / f"{book_name_of(before, number)}.holdfast").rename(staged / f"{name}.new")
            placed, arrived = self._identity(name), _identity(path)
            if placed == arrived:
                path.unlink()
            elif placed is not None:
                raise Conflict(
                    f"This service has a book {name!r} of another account, and a book is never replaced. "
                    "Import the dataset under another name. Nothing was changed."
                )
        for path in staged.glob("*.new"):
            path.rename(path.with_suffix(".holdfast"))
        if self._places.books is not None:
            load_books(staged, self._places.books)
            return
        target = self._places.home / "books"
        target.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(staged.glob("*.holdfast")):
            path.chmod(0o600)
            path.rename(target / path.name)

    def _identity(self, name: str) -> str | None:
        """The identity of the book of this name here; None if there is none."""
        heads = read_heads(self._books())
        return next((head.book for head in heads if head.name == name), None)


def _identity(path: Path) -> str:
    book = Book(path)
    try:
        return book.identity
    finally:
        book.close()


def _planned(epoch: dict[str, Any]) -> Planned:
    return Planned(epoch["number"], Arrived(**epoch["arrived"]), "", epoch["since"], whole=True)


def _checked_books(folder: Path, stated: list[dict[str, Any]]) -> list[BookHead]:
    """How the books of a bundle end, once their chains and sums are found right."""
    heads = [BookHead(**head) for head in stated]
    for head in heads:
        path = folder / f"{head.name}.holdfast"
        if not path.is_file():
            raise ArchiveError(f"The bundle has no book {head.name!r}. Nothing was changed.")
        require_whole(path)
    return heads
