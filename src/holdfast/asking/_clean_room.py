"""The clean room: the only place where code sees protected rows, and where questions wait for their turn.

Whatever reads protected rows runs inside :func:`read_protected`: a strategy's reading, a model's
``predict``, a caller's own function, a statement to a database. Only a value of a named type leaves, and
that type was paid for. An exception of any kind, an exit or an interruption leaves as :class:`Failed`. It
says nothing more and has a price of its own.

Foreign code (models, functions) may also print, warn and log, and its words may depend on the rows it sees.
The room discards them. Files, sockets and processes that foreign code opens, and objects that it keeps, are
out of reach: ``docs/theory/threats.md`` says what follows from that.

A reservation names its reader. So others can see whether that process still runs, and what may have ended it.

One question of an account is read at a time. Two processes that write to one book need no turn to count
right: the second one reads the new lines and tries again. But a question that is prepared while another one
is read must assume that one's maximum cost. So processes that serve the same books take turns by a lock on a
file. The lock is a courtesy: nobody waits for a process that holds it and makes no progress, because it was
stopped.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import math
import os
import platform
import secrets
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock, RLock
from typing import TypeVar

import numpy as np

from holdfast.engines import unsealed

try:
    import fcntl
except ImportError:  # Only Unix has it; elsewhere a service has one process.
    fcntl = None  # type: ignore[assignment]

_HERE = hashlib.sha256(platform.node().encode()).hexdigest()[:12]
_reading: set[str] = set()

_LOOK_EVERY = 1.0  # seconds
_looked: tuple[float, list[str | int] | None] = (-math.inf, None)
_Leaves = TypeVar("_Leaves")
# How many seconds to wait for another process, and how often to try its lock.
_PATIENCE = 2.0
_PAUSE = 0.001


@contextmanager
def reader() -> Iterator[str]:
    """A name for one reading. The reading counts as alive until the block ends, in whatever way."""
    name = f"{_HERE}:{os.getpid()}:{secrets.token_hex(4)}"
    _reading.add(name)
    try:
        yield name
    finally:
        _reading.discard(name)


def may_be_alive(name: str) -> bool:
    """Whether a reading may still be running. On another machine nobody can see that, so it may."""
    host, process, _ = name.split(":")
    if host != _HERE:
        return True
    if int(process) == os.getpid():
        return name in _reading
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # The process exists; it belongs to another user.
    return True


def memory_kills() -> list[str | int] | None:
    """What :func:`_count_kills` returns, at most a second old. An old count can only make a question count
    as failed sooner."""
    global _looked
    at, kills = _looked
    if time.monotonic() - at >= _LOOK_EVERY:
        kills = _count_kills()
        _looked = time.monotonic(), kills
    return kills


def _count_kills() -> list[str | int] | None:
    """An id of this start of the machine, and how many processes the machine has ended since because memory
    ran out. None if it does not say."""
    started = _started()
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    _, name, rest = counters.partition("\noom_kill ")
    return [started, int(rest.split(maxsplit=1)[0])] if name and started else None


def killed_for_memory(before: list[str | int] | None) -> bool:
    """Whether the machine has ended a process because memory ran out, since :func:`memory_kills` returned
    ``before``. After a restart of the machine nobody can say."""
    now = _count_kills()
    return before is not None and now is not None and before[0] == now[0] and before != now


@cache
def _started() -> str:
    """An id of this start of the machine; empty if there is none."""
    try:
        identifier = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(identifier).hexdigest()[:12]


@dataclass(frozen=True)
class Failed:
    """The protected rows could not be read. Nothing else leaves."""


def read_protected(
    work: Callable[[], _Leaves], leaves: type[_Leaves], *, silent: bool = False
) -> _Leaves | Failed:
    """Run ``work``, which reads protected rows, and let only a value of the type ``leaves`` out.

    ``silent`` is for foreign code: what it prints, warns and logs is dropped, in all threads of the process
    while it runs.

    >>> read_protected(lambda: 3, int), read_protected(lambda: 1 // 0, int)
    (3, Failed())
    """
    try:
        with unsealed(), _silence.kept() if silent else ExitStack():
            value = work()
    except BaseException:  # An exit or an interruption would reveal as much as an error.
        return Failed()
    return value if isinstance(value, leaves) else Failed()


class _Silence:
    """Silences streams, warnings and logging, which belong to the whole process. The first reading silences
    them, and the end of the last one restores them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readings = 0
        self._restore = ExitStack()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Drop warnings, log records, and what goes to standard output and error, from Python or not."""
        with self._lock:
            if self._readings == 0:
                self._begin()
            self._readings += 1
        try:
            with np.errstate(all="ignore"):
                yield
        finally:
            with self._lock:
                self._readings -= 1
                if self._readings == 0:
                    self._restore.close()

    def _begin(self) -> None:
        stack = self._restore
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(sys.maxsize)
        nowhere = Path(os.devnull).open("w", encoding="utf-8", errors="replace")  # noqa: SIM115
        stack.enter_context(nowhere)
        _flush()
        for descriptor in (1, 2):
            _point_elsewhere(descriptor, nowhere.fileno(), stack)
        stack.callback(_flush)
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))


_silence = _Silence()


def _point_elsewhere(descriptor: int, target: int, stack: ExitStack) -> None:
    """Let a file descriptor point to ``target`` until the stack unwinds; one that is closed stays closed."""
    try:
        kept = os.dup(descriptor)
    except OSError:
        return
    stack.callback(os.close, kept)
    os.dup2(target, descriptor)
    stack.callback(os.dup2, kept, descriptor)


def _flush() -> None:
    """Write out buffered text now, so that it is neither dropped nor shown by mistake."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(Exception):
            if stream is not None:
                stream.flush()
    with suppress(Exception):
        _c_library().fflush(None)  # what libraries in C have buffered


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


class Turn:
    """The turns of one account. ``file`` is shared with other processes; None if there are none.

    Guarantee: one thread of this process at a time. Among processes the same, unless one of them held the
    turn for longer than two seconds.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._lock = RLock()
        self._file = file if fcntl is not None else None
        self._descriptor: int | None = None
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the turn and hold it."""
        with self._lock:
            mine = self._depth == 0 and self._taken()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if mine and self._descriptor is not None:
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _taken(self) -> bool:
        if self._file is None:
            return False
        if self._descriptor is None:
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                weakref.finalize(self, os.close, self._descriptor)
            except OSError:  # The count is right without the lock, so a full disk does not stop anybody.
                return False
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic() >= end:
                    return False
            time.sleep(_PAUSE)
