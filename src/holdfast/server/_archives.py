"""Signed archives: tar files whose last member states the digest of every other one.

A service signs the statement with its key. An archive that was cut or changed is not opened.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from holdfast.errors import HoldfastError
from holdfast.ledger import SigningKey, open_envelope, seal

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
            archive.addfile(_info(name, size), hashed)
        except OSError as error:
            if error.errno is not None:
                raise
            raise ArchiveError(f"{path} changed while it was copied: nothing was saved. Try again.") from None
    return {"name": name, "digest": {"sha256": hashed.hash.hexdigest()}}


def add_statement(
    archive: tarfile.TarFile, kind: Kind, key: SigningKey, files: list[dict[str, Any]], stated: dict[str, Any]
) -> None:
    """Put the signed statement about all files at the end of an archive."""
    text = json.dumps(seal(key, files, kind.type, {"format": kind.format, **stated})).encode()
    archive.addfile(_info(MANIFEST, len(text)), io.BytesIO(text))


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.hash.update(block)
        return block


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(time.time())
    return info


@dataclass(frozen=True)
class Opened:
    """An archive whose files were written to a folder: their digests, and the statement about them."""

    kind: Kind
    digests: dict[str, str]
    manifest: bytes

    def stated(self, public_key: str) -> dict[str, Any]:
        """What the statement says, if ``public_key`` signed it and every file is the one it speaks of."""
        name = self.kind.name
        try:
            sealed = json.loads(self.manifest)
        except ValueError:
            raise ArchiveError(f"The statement of the {name} was changed. Nothing was restored.") from None
        try:
            statement = open_envelope(sealed, public_key)
        except HoldfastError as error:
            raise ArchiveError(str(error)) from None
        stated: dict[str, Any] = statement["predicate"]
        if statement["predicateType"] != self.kind.type or stated["format"] != self.kind.format:
            raise ArchiveError(
                f"This version restores a {name} of format {self.kind.format}. Install the version that made "
                f"it: {stated.get('version', 'unknown')}."
            )
        expected = {file["name"]: file["digest"]["sha256"] for file in statement["subject"]}
        wrong = sorted(
            name for name in {*expected, *self.digests} if expected.get(name) != self.digests.get(name)
        )
        if wrong:
            raise ArchiveError(
                f"The {name} was changed: {wrong[0]} and {len(wrong) - 1} other files are not what was "
                "signed. Nothing was restored."
            )
        return stated


def extract(file: Path | BinaryIO, folder: Path, kind: Kind) -> Opened:
    """Write every file of an archive to a folder. Whether they are what was signed is for
    :meth:`Opened.stated` to say."""
    called = getattr(file, "name", "The file") if not isinstance(file, Path) else str(file)
    cut = ArchiveError(f"{called} is not a {kind.name} of Holdfast, or it was cut. Nothing was restored.")
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
                        f"{called} is not a {kind.name} of Holdfast: it has a member {member.name!r}."
                    )
                content = archive.extractfile(member)
                assert content is not None
                if member.name == MANIFEST:
                    manifest = content.read()
                else:
                    digests[member.name] = _write(folder / name, content)
    except (tarfile.TarError, EOFError):
        raise cut from None
    if not manifest:
        raise cut
    return Opened(kind, digests, manifest)


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
