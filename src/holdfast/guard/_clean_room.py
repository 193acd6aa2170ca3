"""The clean room: the one place in which code sees protected rows.

Whatever reads protected rows runs inside :func:`read_protected`: a strategy's reading, a model's ``predict``,
a function of the caller's own, a statement to a database. Only a value of a named type leaves, and that type
is what was paid for. An exception of any kind, an exit or an interruption leaves as :class:`Failed`, which
says nothing more and has a price of its own.

Code that is not ours (models, functions) may also print, warn and log, and what it says may depend on the
rows it sees. Inside the room nobody hears it. Out of reach are files, sockets and processes of its own, and
objects that it keeps: ``docs/theory/threats.md`` says what follows from that.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np

from holdfast.engines import unsealed

_Leaves = TypeVar("_Leaves")


@dataclass(frozen=True)
class Failed:
    """The protected rows could not be read. That they could not is all that leaves."""


def read_protected(
    work: Callable[[], _Leaves], leaves: type[_Leaves], *, silent: bool = False
) -> _Leaves | Failed:
    """Run ``work``, which reads protected rows, and let nothing leave but a value of the type ``leaves``.

    ``silent`` is for code that is not ours: what it prints, warns and logs is dropped, in all threads of the
    process while it runs.

    >>> read_protected(lambda: 3, int), read_protected(lambda: 1 // 0, int)
    (3, Failed())
    """
    try:
        with unsealed(), _silence.kept() if silent else ExitStack():
            value = work()
    except BaseException:  # an exit or an interruption would tell as much as an error
        return Failed()
    return value if isinstance(value, leaves) else Failed()


class _Silence:
    """Streams, warnings and logging belong to the whole process: the first reading silences them, and the
    last one to end lets them speak again."""

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
    """Write out what is buffered, so that nothing is written to the wrong side of the door."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(Exception):
            if stream is not None:
                stream.flush()
    with suppress(Exception):
        _c_library().fflush(None)  # what libraries in C have buffered


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
