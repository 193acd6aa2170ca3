"""A service in one file, taken while it runs, and a service made of such a file again.

A backup is a tar archive of the service's folder: account books, key, tokens, registrations, submissions and
tables. Its last member is a signed statement with the digest of every other. A file that was cut or changed
is not restored. It holds the private key, so it has mode 600 and belongs where the key may be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast
from holdfast.errors import HoldfastError
from holdfast.ledger import (
    BookHead,
    Checkpoint,
    SigningKey,
    copy_books,
    load_books,
    read_heads,
)
from holdfast.ledger._copies import copy_database, other_tables, require_whole
from holdfast.records import Record
from holdfast.server import _boards, _datasets, _epochs, _gates, _states, _tokens
from holdfast.server._archives import Kind, add_file, add_statement, extract, new_file
from holdfast.server._store import PostgresStore, SqliteStore

BACKUP = Kind("backup", "urn:holdfast:backup:1", 1)
_SQLITE = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal")
_TRIES = 5
_BLOCK = 1 << 20
# Tables that a service with books in PostgreSQL keeps in the database, and the files that they are copied to.
# Left out are sessions, and claims of rows, which the first start makes anew.
_REGISTRATIONS = {
    "tokens": _tokens.SCHEMA,
    "datasets": _datasets.SCHEMA + _epochs.SCHEMA + _states.SCHEMA,
    "boards": _boards.SCHEMA,
    "gates": _gates.SCHEMA,
}
_COPIED = {
    f"holdfast_{table}" for schema in _REGISTRATIONS.values() for table in re.findall(r"\[(\w+)\]", schema)
}
_MADE_ANEW = {f"holdfast_{table}" for table in ("sessions", "contents", "contents_secret", "key", "changes")}


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
    """A book that a witness saw with more lines than the backup has: the account must be closed."""

    name: str
    restored: int
    seen: int


@dataclass(frozen=True, repr=False)
class Restored(Record):
    """What was restored, and which books are behind what a witness saw."""

    home: str
    created: int
    key: str
    books: tuple[BookHead, ...]
    behind: tuple[Behind, ...]
    data: bool


def back_up(
    home: Path, file: Path, *, books: str | None = None, sources: Path | None = None, data: bool = True
) -> Backup:
    """Write a backup of the service in ``home`` to ``file``, which must not exist. The service may run.

    Guarantee: every answer that was given before the call is in it; every file in it has its digest in a
    statement that the service's key signs.

    Args:
        home: the service's folder.
        file: where to.
        books: the PostgreSQL URL of the books, if they are not files in the folder.
        sources: the folder of tables, if it is not ``home/data``.
        data: whether the tables themselves are put in.
    """
    if not (home / "key").is_file():
        raise HoldfastError(
            f"{home} is not the folder of a service: it holds no key. Name the folder that is "
            "given to `holdfast serve`."
        )
    key = SigningKey.at(home / "key")
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
            # After the books, so that every submission and table that they speak of is there.
            subjects += _add_plain(archive, home, tables)
            if data:
                subjects += _add_tables(archive, tables)
            created = int(time.time())
            stated = {
                "created": created,
                "version": holdfast.__version__,
                "home": str(home.resolve()),
                "sources": str(tables.resolve()),
                "data": data,
                "books": [head.to_dict() for head in heads],
                "left_out": left_out,
            }
            add_statement(archive, BACKUP, key, subjects, stated)
            archive.close()
            target.flush()
            os.fsync(target.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return Backup(str(file), created, key.public, len(subjects), tuple(heads), tuple(left_out))


def _stage(home: Path, books: str | None, staged: Path) -> list[BookHead]:
    """Copies of the books, and then of the registrations. A book is made before its registration is written:
    if there is no new book after both, no registration is without its book."""
    place = books if books is not None else home / "books"
    for _ in range(_TRIES):
        for old in staged.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
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
    """Copy tokens, policies and what is registered from the database of the books to files, as a service with
    books in files has them. A service that is restored takes them over at its first start."""
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
                    named, places = ", ".join(columns), ", ".join("?" * len(columns))
                    for row in store.execute(f"SELECT {named} FROM [{table}] ORDER BY rowid"):
                        copy.execute(f"INSERT INTO [{table}] ({named}) VALUES ({places})", row)
            finally:
                copy.close()
    finally:
        store.close()


def _members(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path


def _add_plain(archive: tarfile.TarFile, home: Path, tables: Path) -> list[dict[str, Any]]:
    """Every other file of the service's folder, but for books and tables."""
    # A mark says how far a book has come, and is there to be elsewhere than the book's copies.
    inside = (home / "books", home / "data", home / "marks", home / "owner-token", tables)
    subjects = []
    for name, path in _members(home):
        beside = name.endswith(_BESIDE) or any(part.startswith(".") for part in Path(name).parts)
        if beside or any(path.is_relative_to(folder) for folder in inside) or _is_sqlite(path):
            continue
        with suppress(FileNotFoundError):  # It was there for a moment.
            subjects.append(add_file(archive, name, path))
    return subjects


def _add_tables(archive: tarfile.TarFile, tables: Path) -> list[dict[str, Any]]:
    return [add_file(archive, f"data/{name}", path) for name, path in _members(tables)]


def restore(
    file: Path,
    home: Path,
    *,
    books: str | None = None,
    public_key: str | None = None,
    seen: Iterable[Checkpoint] = (),
) -> Restored:
    """Make the folder of a service from a backup. ``home`` must not exist, or be empty.

    Guarantee: either everything in the backup was there, unchanged and whole, and ``home`` is complete; or
    nothing is left behind. With ``public_key`` the holder of that key made the backup; without it, whoever
    made the backup had the key that is in it.

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
        stated = opened.stated(public_key or key.public)
        if public_key is not None and key.public != public_key:
            raise HoldfastError("The backup holds another key than the one it is signed with.")
        heads = _checked_books(staged, stated)
        _move_sources(staged, Path(stated["sources"]), home.resolve() / "data")
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
        str(home), stated["created"], key.public, tuple(heads), tuple(_behind(heads, seen)), stated["data"]
    )


def _checked_books(staged: Path, stated: dict[str, Any]) -> list[BookHead]:
    heads = [BookHead(**head) for head in stated["books"]]
    (staged / "books").mkdir(exist_ok=True, mode=0o700)
    if read_heads(staged / "books") != heads:
        raise HoldfastError("The books of the backup do not end as it says. Nothing was restored.")
    for head in heads:
        require_whole(staged / "books" / f"{head.name}.holdfast")
    return heads


def _move_sources(staged: Path, before: Path, now: Path) -> None:
    """Let registrations name the tables where they are now. Addresses of databases stay as they are."""

    def moved(source: str) -> str:
        path = Path(source)
        inside = "://" not in source and path.is_absolute() and path.is_relative_to(before)
        return str(now / path.relative_to(before)) if inside else source

    for name, table in (("datasets", "datasets"), ("boards", "boards")):
        path = staged / f"{name}.sqlite"
        if not path.exists():
            continue
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for row, source in database.execute(f"SELECT rowid, source FROM {table}").fetchall():
                database.execute(f"UPDATE {table} SET source = ? WHERE rowid = ?", (moved(source), row))
            if name == "datasets":
                for row, text in database.execute("SELECT rowid, arrived FROM epochs").fetchall():
                    arrived = json.loads(text)
                    arrived["source"] = moved(arrived["source"])
                    change = (json.dumps(arrived), row)
                    database.execute("UPDATE epochs SET arrived = ? WHERE rowid = ?", change)


def _behind(heads: list[BookHead], seen: Iterable[Checkpoint]) -> list[Behind]:
    """Books of which a witness saw more lines, and books that are not in the backup at all."""
    restored = {head.book: head for head in heads}
    newest: dict[str, Checkpoint] = {}
    for one in seen:
        if one.book not in newest or one.sequence > newest[one.book].sequence:
            newest[one.book] = one
    return [
        Behind(one.name, restored[book].sequence if book in restored else 0, one.sequence)
        for book, one in sorted(newest.items(), key=lambda item: item[1].name)
        if book not in restored or one.sequence > restored[book].sequence
    ]


def _is_sqlite(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
    return False


def _sync(folder: Path) -> None:
    """Put the names of all files on disk."""
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
