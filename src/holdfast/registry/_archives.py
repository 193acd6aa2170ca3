"""Signed archives: a whole service in one file (a backup), or one dataset in one file (a bundle).

An archive is a tar file. Its last member states the digest of every other member, and the service signs that
statement with its key. An archive that was cut or changed is not opened.

A backup holds the service's folder: account books, key, tokens, registrations, submissions and tables. It is
taken while the service runs. It holds the private key, so it has mode 600. Keep it as safe as the key.

A bundle holds the registration of a dataset and its account books, and no rows. If a bundle is handed over to
another service, the account ends here and that service continues it. Any other bundle is a copy: it has the
whole history and a closed account, because the original may continue. The books hold the secrets they were
made with, so keep a bundle as safe as the service's folder.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

import holdfast
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.ledger import (
    Book,
    BookHead,
    Checkpoint,
    SigningKey,
    copy_books,
    copy_database,
    load_books,
    open_envelope,
    other_tables,
    read_heads,
    require_whole,
    seal,
)
from holdfast.records import Record
from holdfast.registry._boards import BOARDS_SCHEMA, GATES_SCHEMA
from holdfast.registry._datasets import DATASETS_SCHEMA, Datasets, book_name_of
from holdfast.registry._people import TOKENS_SCHEMA, Person
from holdfast.registry._policy import DELETED, EPOCHS_SCHEMA, STATES_SCHEMA, Arrived, Planned, Policy
from holdfast.registry._storage import (
    CONTENTS_SCHEMA,
    Conflict,
    Places,
    PostgresStore,
    SqliteStore,
    require_name,
    rows_of,
)

if TYPE_CHECKING:  # A service makes its bundles, so it is not imported here.
    from holdfast.registry._service import Administration

MANIFEST = "manifest.dsse.json"
"""The name of the last member."""

_BLOCK = 1 << 20


class ArchiveError(HoldfastError):
    """A file is not an archive of the kind that was expected, or was cut or changed."""


@dataclass(frozen=True)
class Kind:
    """A kind of archive: what it is called in messages, its type in the statement, and its format."""

    name: str
    type: str
    format: int


def new_file(path: Path) -> int:
    """A descriptor of a new file that only its owner can read; a file that exists is not replaced."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ArchiveError(
            f"{path} exists already. A backup or an export replaces nothing: choose another name."
        ) from None


def add_file(archive: tarfile.TarFile, name: str, path: Path) -> dict[str, Any]:
    """Put one file into an archive, and return its digest as the statement has it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        hashed = _Hashed(file)
        try:
            archive.addfile(_member_info(name, size), hashed)
        except OSError as error:
            if error.errno is not None:
                raise
            raise ArchiveError(f"{path} changed while it was copied: nothing was saved. Try again.") from None
    return {"name": name, "digest": {"sha256": hashed.hash.hexdigest()}}


def add_statement(
    archive: tarfile.TarFile,
    kind: Kind,
    key: SigningKey,
    files: list[dict[str, Any]],
    predicate: dict[str, Any],
) -> None:
    """Put the signed statement about all files at the end of an archive."""
    text = json.dumps(seal(key, files, kind.type, {"format": kind.format, **predicate})).encode()
    archive.addfile(_member_info(MANIFEST, len(text)), io.BytesIO(text))


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.hash.update(block)
        return block


def _member_info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(time.time())
    return info


@dataclass(frozen=True)
class OpenedArchive:
    """An archive whose files were written to a folder: their digests, and the statement about them."""

    kind: Kind
    digests: dict[str, str]
    manifest: bytes

    def verified_predicate(self, public_key: str) -> dict[str, Any]:
        """What the statement says. It is refused if ``public_key`` did not sign it or a file differs from
        its digest."""
        name = self.kind.name
        try:
            sealed = json.loads(self.manifest)
        except ValueError:
            raise ArchiveError(f"The statement of the {name} was changed. Nothing was restored.") from None
        try:
            statement = open_envelope(sealed, public_key)
        except HoldfastError as error:
            raise ArchiveError(str(error)) from None
        predicate: dict[str, Any] = statement["predicate"]
        if statement["predicateType"] != self.kind.type or predicate["format"] != self.kind.format:
            raise ArchiveError(
                f"This version restores a {name} of format {self.kind.format}. Install the version that made "
                f"it: {predicate.get('version', 'unknown')}."
            )
        expected = {file["name"]: file["digest"]["sha256"] for file in statement["subject"]}
        changed_files = sorted(
            name for name in {*expected, *self.digests} if expected.get(name) != self.digests.get(name)
        )
        if changed_files:
            raise ArchiveError(
                f"The {name} was changed: {changed_files[0]} and {len(changed_files) - 1} other files are "
                "not what was signed. Nothing was restored."
            )
        return predicate


def extract(file: Path | BinaryIO, folder: Path, kind: Kind) -> OpenedArchive:
    """Write every file of an archive to a folder. :meth:`OpenedArchive.verified_predicate` then checks that
    they are what was signed."""
    label = getattr(file, "name", "The file") if not isinstance(file, Path) else str(file)
    damaged = ArchiveError(f"{label} is not a {kind.name} of Holdfast, or it was cut. Nothing was restored.")
    digests: dict[str, str] = {}
    manifest = b""
    try:
        source = file.open("rb") if isinstance(file, Path) else file
        with source, tarfile.open(fileobj=source, mode="r|") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                safe = member.isfile() and not name.is_absolute() and ".." not in name.parts
                if not safe or member.name in digests or manifest:
                    raise ArchiveError(
                        f"{label} is not a {kind.name} of Holdfast: it has a member {member.name!r}."
                    )
                content = archive.extractfile(member)
                assert content is not None
                if member.name == MANIFEST:
                    manifest = content.read()
                else:
                    digests[member.name] = _write(folder / name, content)
    except (tarfile.TarError, EOFError):
        raise damaged from None
    if not manifest:
        raise damaged
    return OpenedArchive(kind, digests, manifest)


def _write(path: Path, content: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256()
    with os.fdopen(new_file(path), "wb") as file:
        while block := content.read(_BLOCK):
            digest.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


BUNDLE = Kind("bundle", "urn:holdfast:dataset:1", 1)
_PUBLIC_KEY = re.compile(r"ed25519:[A-Za-z0-9_=+/-]{20,100}")


@dataclass(frozen=True, repr=False)
class Imported(Record):
    """A dataset that was imported: whether its account continues here, and its lines."""

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
        """A bundle of a dataset, in a temporary file.

        Args:
            person: Who exports it.
            name: The dataset.
            to: The public key of the service that continues the account; None for a copy. With a key, the
                account ends here before the file is written.
        """
        self._datasets.require_registered(name)
        if to is not None and not _PUBLIC_KEY.fullmatch(to):
            raise InvalidArgument("to", "the public key of a service, ed25519:…", to, of="an export")
        self._administration.settle_export(person, name, to)
        with tempfile.TemporaryDirectory(dir=self._places.home, prefix=".export-") as folder:
            staged = Path(folder)
            (staged / "books").mkdir()
            names = self._datasets.book_names(name)
            heads = copy_books(self._places.all_books, staged / "books", names=names)
            registered = staged / "dataset.json"
            registered.write_text(json.dumps(self._datasets.registration(name)), encoding="utf-8")
            file = staged / "bundle.tar"
            with file.open("wb") as target, tarfile.open(fileobj=target, mode="w|") as archive:
                files = [add_file(archive, "dataset.json", registered)]
                for book in sorted((staged / "books").glob("*.holdfast")):
                    files.append(add_file(archive, f"books/{book.name}", book))
                key = self._places.key
                predicate = {
                    "version": holdfast.__version__,
                    "key": key.public,
                    "name": name,
                    "to": to,
                    "books": [head.to_dict() for head in heads],
                }
                add_statement(archive, BUNDLE, key, files, predicate)
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
        if not _PUBLIC_KEY.fullmatch(sender):
            raise InvalidArgument("key", "the public key of a service, ed25519:…", sender, of="an import")
        with tempfile.TemporaryDirectory(dir=self._places.home, prefix=".import-") as folder:
            staged = Path(folder)
            predicate = extract(file, staged, BUNDLE).verified_predicate(sender)
            registered = json.loads((staged / "dataset.json").read_text(encoding="utf-8"))
            former_name, new_name = str(predicate["name"]), name or str(predicate["name"])
            require_name(new_name)
            to = predicate["to"]
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
                    f"The bundle was made by version {predicate.get('version')}, which says more about a "
                    "dataset than this one knows. Install that version. Nothing was changed."
                ) from None
            heads = _checked_bundle_books(staged / "books", predicate["books"])
            newest = book_name_of(new_name, planned[-1].number)
            continues = to is not None
            self._administration.record(person, "import", dataset=new_name, sender=sender, goes_on=continues)

            def place() -> None:
                self._place_books(staged / "books", former_name, new_name, planned)
                self._administration.settle_import(person, newest, sender, continues=continues)

            self._datasets.take_in(new_name, policy, planned, place)
            return Imported(new_name, continues, sender, sum(head.sequence for head in heads))

    def _place_books(self, staged: Path, former_name: str, new_name: str, epochs: list[Planned]) -> None:
        """Put the books where those of this service are, under their names here. Books that an interrupted
        import has placed stay."""
        for epoch in epochs:
            name, former = book_name_of(new_name, epoch.number), book_name_of(former_name, epoch.number)
            path = (staged / f"{former}.holdfast").rename(staged / f"{name}.new")
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
        heads = read_heads(self._places.all_books)
        return next((head.book for head in heads if head.name == name), None)


def _identity(path: Path) -> str:
    book = Book(path)
    try:
        return book.identity
    finally:
        book.close()


def _planned(epoch: dict[str, Any]) -> Planned:
    return Planned(epoch["number"], Arrived(**epoch["arrived"]), "", epoch["since"], is_open=True)


def _checked_bundle_books(folder: Path, stated_heads: list[dict[str, Any]]) -> list[BookHead]:
    """The last line of each book of a bundle. A book whose chain or sums are wrong is refused."""
    heads = [BookHead(**head) for head in stated_heads]
    for head in heads:
        path = folder / f"{head.name}.holdfast"
        if not path.is_file():
            raise ArchiveError(f"The bundle has no book {head.name!r}. Nothing was changed.")
        require_whole(path)
    return heads


BACKUP = Kind("backup", "urn:holdfast:backup:1", 1)
_SQLITE = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal")
_TRIES = 5
# Tables that a service keeps in the database of its books, and the files that they are copied to, without
# sessions. No start could make the digests of the rows of deleted and archived datasets again.
_REGISTRATIONS = {
    "tokens": TOKENS_SCHEMA,
    "datasets": DATASETS_SCHEMA + EPOCHS_SCHEMA + STATES_SCHEMA,
    "boards": BOARDS_SCHEMA,
    "gates": GATES_SCHEMA,
    "contents": CONTENTS_SCHEMA,
}
_COPIED = {f"holdfast_{name}" for text in _REGISTRATIONS.values() for name in re.findall(r"\[(\w+)\]", text)}
_MADE_ANEW = {f"holdfast_{table}" for table in ("sessions", "key", "changes", "adopted")}


@dataclass(frozen=True, repr=False)
class Backup(Record):
    """What a backup holds: its files, how each book ended, and what was left out."""

    file: str
    created: int
    key: str
    files: int
    books: tuple[BookHead, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Behind(Record):
    """A book that had more lines in a witness file than it has in the backup. Close its account."""

    name: str
    restored: int
    seen: int


@dataclass(frozen=True, repr=False)
class Restored(Record):
    """What was restored, and which books have fewer lines than a witness file shows."""

    home: str
    created: int
    key: str
    books: tuple[BookHead, ...]
    behind: tuple[Behind, ...]
    data: bool


def back_up(
    home: Path,
    file: Path,
    *,
    books: str | None = None,
    sources: Path | None = None,
    key: Path | None = None,
    data: bool = True,
) -> Backup:
    """Write a backup of the service in ``home`` to ``file``, which must not exist. The service may run.

    Guarantee: every answer that was given before the call is in the backup. Every file in it has its digest
    in a statement that the service's key signs.

    Args:
        home: the service's folder.
        file: where to.
        books: the PostgreSQL URL of the books, if they are not files in the folder.
        sources: the folder of tables, if it is not ``home/data``.
        key: the file of the signing key, if it is not ``home/key``.
        data: whether the tables themselves are put in.
    """
    key_file = key or home / "key"
    if not key_file.is_file():
        raise HoldfastError(
            f"{key_file.parent} holds no key named {key_file.name}. Name the folder that is given to "
            "`holdfast serve`, and the key (--key) if the service has it elsewhere."
        )
    signing_key = SigningKey.at(key_file)
    tables = sources or home / "data"
    others = sorted(set(other_tables(books)) - _COPIED - _MADE_ANEW) if books else []
    left_out = [f"table {name} of the database" for name in others]
    left_out += [] if data else ["tables of datasets"]
    descriptor = new_file(file)
    try:
        with (
            os.fdopen(descriptor, "wb") as target,
            tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as staged,
            tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            heads = _stage(home, books, Path(staged))
            subjects = [add_file(archive, name, path) for name, path in _members(Path(staged))]
            # After the books, so that every submission and table that they mention is there.
            subjects += _add_plain(archive, home, tables)
            subjects.append(add_file(archive, "key", key_file))
            if data:
                subjects += [add_file(archive, f"data/{name}", path) for name, path in _members(tables)]
                left_out += [f"{name} (not in {tables})" for name in _missing_tables(Path(staged), tables)]
            created = int(time.time())
            predicate = {
                "created": created,
                "version": holdfast.__version__,
                "home": str(home.resolve()),
                "sources": str(tables.resolve()),
                "data": data,
                "books": [head.to_dict() for head in heads],
                "left_out": left_out,
            }
            add_statement(archive, BACKUP, signing_key, subjects, predicate)
            archive.close()
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return Backup(str(file), created, signing_key.public, len(subjects), tuple(heads), tuple(left_out))


def _stage(home: Path, books: str | None, staged: Path) -> list[BookHead]:
    """Copy the books, and then the registrations. A book is made before its registration is written. So if
    no new book appears during both copies, every registration has its book."""
    place = books if books is not None else home / "books"
    for _ in range(_TRIES):
        for leftover in staged.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        (staged / "books").mkdir()
        heads = copy_books(place, staged / "books")
        if books is not None:
            _copy_registrations(books, staged)
        for path in sorted(home.glob("*")):
            if path.is_file() and _is_sqlite(path) and not (staged / path.name).exists():
                copy_database(path, staged / path.name)
        if {head.name for head in read_heads(place)} == {head.name for head in heads}:
            return heads
    raise HoldfastError("Datasets are being registered all the time: nothing was saved. Try again.")


def _copy_registrations(url: str, folder: Path) -> None:
    """Copy tokens, policies and registrations from the database of the books to files, in the form that a
    service with books in files uses. A restored service reads them at its first start."""
    store = PostgresStore(url)
    try:
        for kind, schema in _REGISTRATIONS.items():
            copy = SqliteStore(folder / f"{kind}.sqlite")
            try:
                store.make(schema)
                copy.make(schema)
                for table in re.findall(r"\[(\w+)\]", schema):
                    columns = [
                        name
                        for _, name, type_, _, _, key in copy.execute(f"PRAGMA table_info({table})")
                        if (name, type_, key) != ("number", "INTEGER", 1)  # Numbered by the database itself.
                    ]
                    column_names, placeholders = ", ".join(columns), ", ".join("?" * len(columns))
                    for row in store.execute(f"SELECT {column_names} FROM [{table}] ORDER BY rowid"):
                        copy.execute(f"INSERT INTO [{table}] ({column_names}) VALUES ({placeholders})", row)
            finally:
                copy.close()
    finally:
        store.close()


def _members(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path


def _add_plain(archive: tarfile.TarFile, home: Path, tables: Path) -> list[dict[str, Any]]:
    """Every other file of the service's folder, except books, tables and the key."""
    # A mark shows how far a book has come. It must not be kept with copies of the book.
    inside = (home / "books", home / "data", home / "marks", home / "owner-token", home / "key", tables)
    subjects = []
    for name, path in _members(home):
        beside = name.endswith(_BESIDE) or any(part.startswith(".") for part in Path(name).parts)
        if beside or any(path.is_relative_to(folder) for folder in inside) or _is_sqlite(path):
            continue
        with suppress(FileNotFoundError):  # The file was removed meanwhile.
            subjects.append(add_file(archive, name, path))
    return subjects


def _missing_tables(staged: Path, tables: Path) -> list[str]:
    """The registered files that are not in the folder of tables. Files of deleted datasets are not needed."""
    datasets, boards = staged / "datasets.sqlite", staged / "boards.sqlite"
    states = rows_of(datasets, "SELECT name, state FROM dataset_states")
    deleted = {name for name, state in states if state == DELETED}
    first_epochs = rows_of(datasets, "SELECT name, source FROM datasets")
    later_epochs = rows_of(datasets, "SELECT dataset, arrived FROM epochs WHERE whole = 1 AND number > 1")
    registered = [source for name, source in first_epochs if name not in deleted]
    registered += [json.loads(arrived)["source"] for name, arrived in later_epochs if name not in deleted]
    registered += [source for (source,) in rows_of(boards, "SELECT source FROM boards")]
    files = {source for source in registered if "://" not in source}
    # Earlier versions registered the whole path of a file.
    present = {file for name, path in _members(tables) for file in (name, str(path.resolve()))}
    return sorted(files - present)


def restore(
    file: Path,
    home: Path,
    *,
    books: str | None = None,
    public_key: str | None = None,
    seen: Iterable[Checkpoint] = (),
) -> Restored:
    """Make the folder of a service from a backup. ``home`` must not exist, or be empty.

    Guarantee: if it returns, everything in the backup was there, unchanged and whole, and ``home`` is
    complete. Otherwise nothing is left behind. With ``public_key``, the holder of that key made the backup.
    Without it, the backup was made by someone with the key that is in it.

    Args:
        file: the backup.
        home: the folder to make.
        books: a PostgreSQL URL that the books are put into, instead of files.
        public_key: "ed25519:…" of the service, as its users have it.
        seen: checkpoints of a witness file, to tell which books are behind.
    """
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise HoldfastError(
            f"{home} is not empty. A restore replaces nothing: name a folder that does not exist, or move "
            "the old one away."
        )
    home.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}.restore-"))
    try:
        opened = extract(file, staged, BACKUP)
        if "key" not in opened.digests:
            raise HoldfastError(f"{file} is not a backup of Holdfast, or it was cut. Nothing was restored.")
        key = SigningKey.at(staged / "key")
        predicate = opened.verified_predicate(public_key or key.public)
        if public_key is not None and key.public != public_key:
            raise HoldfastError("The backup holds another key than the one it is signed with.")
        heads = _checked_backup_books(staged, predicate)
        _move_sources(staged, Path(predicate["sources"]), home.resolve() / "data")
        if books is not None:
            load_books(staged / "books", books)
            shutil.rmtree(staged / "books")
        _sync(staged)
        if home.exists():
            home.rmdir()
        staged.rename(home)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return Restored(
        str(home),
        predicate["created"],
        key.public,
        tuple(heads),
        tuple(_behind(heads, seen)),
        predicate["data"],
    )


def _checked_backup_books(staged: Path, predicate: dict[str, Any]) -> list[BookHead]:
    heads = [BookHead(**head) for head in predicate["books"]]
    (staged / "books").mkdir(exist_ok=True, mode=0o700)
    if read_heads(staged / "books") != heads:
        raise HoldfastError("The books of the backup do not end as it says. Nothing was restored.")
    for head in heads:
        require_whole(staged / "books" / f"{head.name}.holdfast")
    return heads


def _move_sources(staged: Path, former_folder: Path, new_folder: Path) -> None:
    """Update the registrations to the new places of the tables. Addresses of databases stay as they are."""

    def moved(source: str) -> str:
        path = Path(source)
        inside = "://" not in source and path.is_absolute() and path.is_relative_to(former_folder)
        return str(new_folder / path.relative_to(former_folder)) if inside else source

    for name, table in (("datasets", "datasets"), ("boards", "boards")):
        path = staged / f"{name}.sqlite"
        if not path.exists():
            continue
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for row, source in database.execute(f"SELECT rowid, source FROM {table}").fetchall():
                database.execute(f"UPDATE {table} SET source = ? WHERE rowid = ?", (moved(source), row))
            if name == "datasets":
                for row, arrived_text in database.execute("SELECT rowid, arrived FROM epochs").fetchall():
                    arrived = json.loads(arrived_text)
                    arrived["source"] = moved(arrived["source"])
                    change = (json.dumps(arrived), row)
                    database.execute("UPDATE epochs SET arrived = ? WHERE rowid = ?", change)


def _behind(heads: list[BookHead], checkpoints: Iterable[Checkpoint]) -> list[Behind]:
    """Books with more lines in the witness file than here, and books that are not in the backup at all."""
    restored = {head.book: head for head in heads}
    newest: dict[str, Checkpoint] = {}
    for checkpoint in checkpoints:
        if checkpoint.book not in newest or checkpoint.sequence > newest[checkpoint.book].sequence:
            newest[checkpoint.book] = checkpoint
    return [
        Behind(checkpoint.name, restored[book].sequence if book in restored else 0, checkpoint.sequence)
        for book, checkpoint in sorted(newest.items(), key=lambda item: item[1].name)
        if book not in restored or checkpoint.sequence > restored[book].sequence
    ]


def _is_sqlite(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
    return False


def _sync(folder: Path) -> None:
    """Make sure that the names of all files are on disk."""
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        path.chmod(0o700)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
