"""One question of an account at a time, among the threads of a process and the processes of a machine.

Two processes that write to one book need no turn to count right: whoever comes second reads on and tries
again. But a question that is prepared while another process reads is answered as if that one cost the most it
can. So processes that serve the same books take turns by a lock on a file. The lock is a courtesy: a process
that holds it and does not get on, because it was stopped, is not waited for.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

try:
    import fcntl
except ImportError:  # Only Unix has it; elsewhere a service has one process.
    fcntl = None  # type: ignore[assignment]

# How many seconds another process is waited for, and how often its lock is tried.
_PATIENCE = 2.0
_PAUSE = 0.001


class Turn:
    """The turns of one account. ``file`` is shared with other processes; None where there are none.

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
            except OSError:  # A full disk stops nobody from counting right.
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
