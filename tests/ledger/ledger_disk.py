"""A disk that forgets: what was done to files, recorded, and every state that a loss of power may leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

_HERE = Path(__file__).parent
_SECTOR = 512


class Done(NamedTuple):
    """One operation on a file: written, synced, truncated or unlinked."""

    kind: str
    name: str
    offset: int
    content: bytes


def recorded(tmp_path, synchronous, questions):
    """Everything that asking did to the files of a book, in order."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    library, folder, record = tmp_path / "disk.so", tmp_path / "watched", tmp_path / "record"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, _HERE / "ledger_disk.c", "-ldl"], check=True)
    folder.mkdir()
    watched = {"HOLDFAST_WATCHED": str(folder), "HOLDFAST_RECORD": str(record), "LD_PRELOAD": str(library)}
    command = [
        sys.executable,
        _HERE / "ledger_asking.py",
        folder,
        tmp_path / "key",
        synchronous,
        str(questions),
    ]
    subprocess.run(command, check=True, env={**os.environ, **watched})
    return list(_records(record.read_bytes()))


def _records(text):
    place = 0
    while place < len(text):
        end = text.index(b"\n", place)
        kind, name, offset, length = text[place:end].decode().split(" ")
        place = end + 1
        content = text[place : place + int(length)] if kind == "w" else b""
        place += len(content)
        yield Done(kind, name, int(offset), content)


@dataclass
class _File:
    """What is on the platter, and what was done since the last sync that reached it."""

    there: bool = False
    content: bytearray = field(default_factory=bytearray)
    pending: list[Done] = field(default_factory=list)

    def copy(self):
        return _File(self.there, bytearray(self.content))

    def do(self, done):
        self.there = done.kind != "u"
        if done.kind == "u":
            self.content.clear()
        elif done.kind == "t":
            del self.content[done.offset :]
        else:
            self.content.extend(bytes(max(0, done.offset - len(self.content))))
            self.content[done.offset : done.offset + len(done.content)] = done.content

    def sync(self, count):
        """The first so many operations reach the platter."""
        for done in self.pending[:count]:
            self.do(done)
        del self.pending[:count]

    def forget(self):
        """The folder was synced: what was unlinked is gone for good."""
        self.sync(max((i for i, done in enumerate(self.pending, 1) if done.kind == "u"), default=0))


class Disk:
    """Files as they are after some operations; ``said`` is what the process had told the world by then."""

    def __init__(self):
        self.files = {}
        self.said = []

    def do(self, done):
        if done.name == "said":
            self.said.append(done.content.decode().split())
            return
        if done.name == ".":
            for file in self.files.values():
                file.forget()
            return
        file = self.files.setdefault(done.name, _File())
        if done.kind == "s":
            file.sync(len(file.pending))
        else:
            file.pending.append(done)

    def after_a_crash(self, folder, fate):
        """Lay out the files as they may be found: what was synced is there; of what was not, ``fate`` decides
        for every operation how much of it is."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, file in self.files.items():
            found = file.copy()
            for done in file.pending:
                for part in fate(done):
                    found.do(part)
            if found.there and not name.endswith("-shm"):  # The first process makes the shared memory again.
                (folder / name).write_bytes(found.content)


def nothing(done):
    return []


def everything(done):
    return [done]


def by_chance(rng):
    """Each operation is lost, kept, or torn: some of its sectors are there."""

    def fate(done):
        kept = rng.integers(0, 3)
        if kept < 2 or done.kind != "w":
            return [done] if kept else []
        starts = range(0, len(done.content), _SECTOR)
        return [
            done._replace(offset=done.offset + start, content=done.content[start : start + _SECTOR])
            for start in starts
            if rng.integers(0, 2)
        ]

    return fate
