"""Everything that can be observed of a session, as one flat dictionary from places to plain values.

``observe(session)`` runs ``session(look)`` in a folder of its own, in a world that stands still: the clock
does not move and the operating system's randomness starts again, so that two runs differ only where their
tables do. ``look(name, call)`` records what a call returns or raises. What leaves on its own is recorded
besides: warnings and the registries in which modules keep them, standard output and error (of Python and of
the process), log records, and every file that was written.

Only one thing is masked: keyed digests of rows in and beside an account book, and the digests and signatures
that are computed from them. Their key is in no export (``docs/theory/epochs.md``).
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
import os
import random
import re
import sqlite3
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from forms import flat

# The terms of a book that stand for protected rows or sealed scores, as JSON or as Python shows them.
_OF_ROWS = re.compile(
    r"""(["'](?:data|labels|earlier|incumbent|scores)\\*["']: ?\\*["']keyed )[0-9a-f]{64}"""
)
# Under such names a gate keeps scores beside its book.
_OF_SCORES = re.compile("(gate keyed )[0-9a-f]{64}")
# A digest, or a signature, which is twice as long.
_DIGITS = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}){1,2}(?![0-9a-f])")
_NOW = 1_750_000_000.0

Observations = dict[str, Any]


class Look:
    """Records what a session sees, by name; ``callers`` are the objects that it brought itself."""

    def __init__(self, folder: str) -> None:
        self.seen: Observations = {}
        self.callers: list[Any] = []
        self._folder = folder
        self._digests: dict[str, str] = {}
        self._times: Counter[str] = Counter()

    def __call__(self, name: str, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        """What a call returns, which is recorded, or None where it raises, and the error is recorded."""
        try:
            value = call(*arguments, **options)
        except BaseException as error:
            self.note(f"{name} raised", error)
            return None
        self.note(name, value)
        return value

    def must(self, name: str, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
        """The same for a call that has to work: a comparison of two failures would show nothing."""
        value = call(*arguments, **options)
        self.note(name, value)
        return value

    def note(self, name: str, value: Any) -> None:
        """Record a value."""
        self._times[name] += 1
        name += "'" * (self._times[name] - 1)
        self.seen |= flat(name, value, tuple(self.callers))

    def book(self, lines: Any) -> None:
        """Record an account book, line by line; its chain is checked before its digests are masked."""
        previous = ""
        for line in lines:
            sequence, kind, subject, request, body, digest = tuple(line)
            # What docs/guides/verify-elsewhere.md says of a digest, written down once more.
            line_text = f"{previous}\n{sequence}\n{kind}\n{subject}\n{request}\n{body}"
            assert digest == hashlib.sha256(line_text.encode()).hexdigest()
            previous = digest
            self._digests[digest] = f"digest of line {sequence}"
            self.note(f"line {sequence}", [kind, subject, request, body])

    def observations(self) -> Observations:
        """All that was seen, masked."""
        return {self._masked(place): self._masked(leaf) for place, leaf in self.seen.items()}

    def _masked(self, leaf: Any) -> Any:
        if isinstance(leaf, (list, tuple)):
            return type(leaf)(self._masked(item) for item in leaf)
        if isinstance(leaf, dict):
            return {key: self._masked(item) for key, item in leaf.items()}
        if isinstance(leaf, bytes):
            return self._masked(leaf.decode("latin-1"))
        if not isinstance(leaf, str):
            return leaf
        leaf = leaf.replace(self._folder, "the folder")
        if len(leaf) < 64:
            return leaf
        return _DIGITS.sub(self._label, _OF_ROWS.sub(r"\1digest", leaf))

    def _label(self, digits: re.Match[str]) -> str:
        return "a signature" if len(digits[0]) == 128 else self._digests.get(digits[0], digits[0])


def observe(session: Callable[[Look], Any]) -> Observations:
    """Run a session and return everything that could be observed of it, also what is said, and which files
    are closed, when its last objects are thrown away."""
    with tempfile.TemporaryDirectory() as folder, _standing_still(), _working_in(Path(folder)):
        look = Look(str(Path(folder).resolve()))
        with _logs() as records, _warnings() as warned, _output() as written:
            gc.freeze()  # What is there already is not looked through again.
            session(look)
            gc.collect()
            gc.unfreeze()
        look.note("warnings", [(w.category.__name__, str(w.message)) for w in warned])
        look.note("warning registries", _registries())
        look.note("logs", records)
        look.note("output", written)
        _note_files(look, Path("."))
    return look.observations()


def differences(first: Observations, second: Observations) -> list[str]:
    """Every place at which two sessions differ, with what stands there."""
    places = [*first, *(place for place in second if place not in first)]
    missing = object()
    return [
        f"{place}: {_short(first.get(place, 'nothing'))} ≠ {_short(second.get(place, 'nothing'))}"
        for place in places
        if first.get(place, missing) != second.get(place, missing)
    ]


def assert_same(first: Observations, second: Observations) -> None:
    """Fail with every place at which two sessions differ."""
    leaks = differences(first, second)
    if leaks:
        raise AssertionError(f"{len(leaks)} differences, each a leak:\n" + "\n".join(leaks[:40]))


def _short(leaf: Any) -> str:
    text = leaf if isinstance(leaf, str) else repr(leaf)
    return text if len(text) <= 300 else f"{text[:300]}…"


@contextlib.contextmanager
def _standing_still() -> Iterator[None]:
    """The clock stands still and the operating system's randomness is the same in every run."""
    generator = random.Random(0)
    before = os.urandom, random._urandom, time.time
    os.urandom = random._urandom = generator.randbytes
    time.time = lambda: _NOW
    try:
        yield
    finally:
        os.urandom, random._urandom, time.time = before


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _warnings() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for registry in _registries_of_modules().values():
            registry.clear()
        yield warned


def _registries() -> dict[str, Any]:
    """The texts of warnings that modules remember to have shown."""
    texts = {
        name: sorted(repr(key) for key in registry if key != "version")
        for name, registry in _registries_of_modules().items()
    }
    return {name: kept for name, kept in texts.items() if kept}


def _registries_of_modules() -> dict[str, dict[Any, Any]]:
    modules = {name: module for name, module in sys.modules.items() if isinstance(module, ModuleType)}
    return {
        name: vars(module)["__warningregistry__"]
        for name, module in sorted(modules.items())
        if "__warningregistry__" in vars(module)
    }


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.kept: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.kept.append([record.name, record.levelname, record.getMessage(), error])


@contextlib.contextmanager
def _logs() -> Iterator[list[Any]]:
    """Every record of every logger."""
    handler, root = _Records(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.kept
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


@contextlib.contextmanager
def _output() -> Iterator[dict[str, str]]:
    """What is written to descriptors 1 and 2, by Python or past it, errors that nobody catches included."""
    written: dict[str, str] = {}
    streams = sys.stdout, sys.stderr
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        for stream in streams:
            stream.flush()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        try:
            yield written
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = streams
            sys.unraisablehook, threading.excepthook = hooks
            for descriptor, name, file in zip(kept, ("stdout", "stderr"), (out, err), strict=True):
                os.dup2(descriptor, 1 if name == "stdout" else 2)
                os.close(descriptor)
                file.seek(0)
                written[name] = file.read().decode("utf-8", "backslashreplace")


def _note_files(look: Look, folder: Path) -> None:
    """Every file that was written: books line by line, other databases row by row, anything else as it is.
    What the session brought is in the folder ``brought``."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.parts[0] == "brought":
            continue
        with path.open("rb") as file:
            content = file.read()
        look.note(f"file {path}", {"size": len(content)})
        if content.startswith(b"SQLite format 3"):
            _note_database(look, path)
        elif not path.name.endswith(("-wal", "-shm")):
            look.note(f"content of {path}", content.decode("utf-8", "backslashreplace"))


def _note_database(look: Look, path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        look.note(f"tables of {path}", sorted(names))
        for name in sorted(names):
            rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
            if name == "events":
                look.book(rows)
            elif name == "kept":  # Keyed digests, for whoever may read the key in the table beside it.
                kept = sorted([_OF_SCORES.sub(r"\1digest", str(row[0])), len(row[1])] for row in rows)
                look.note(f"{name} of {path}", kept)
            elif name == "contents":  # The same, for whole tables: which are registered already.
                look.note(f"{name} of {path}", sorted([len(row[0]), *row[1:]] for row in rows))
            else:
                look.note(f"{name} of {path}", [list(row) for row in rows])
    finally:
        connection.close()
