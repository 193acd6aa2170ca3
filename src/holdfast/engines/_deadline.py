"""A limit on how long one statement may run."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread

__all__ = ["Deadline"]

_AGAIN = 0.05


class Deadline:
    """Calls ``interrupt`` when a statement has taken ``seconds``, and again until it ends.

    Guarantee: ``interrupt`` is called only while a statement runs that is late, so no other is stopped in its
    place. One thread watches as long as statements come; to start one for each would take longer than a small
    statement.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], None]) -> None:
        self.seconds = seconds
        self._interrupt = interrupt
        self._lock = Lock()
        self._due: float | None = None
        self._watched = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run one statement within the limit. Statements must not overlap."""
        with self._lock:
            self._due = time.monotonic() + self.seconds
            if not self._watched:
                self._watched = True
                Thread(target=_watch, args=[weakref.ref(self)], daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._due = None

    def look(self) -> float | None:
        """Interrupt the statement if it is late; returns when to look again, None if nothing runs."""
        with self._lock:
            if self._due is None:
                self._watched = False
                return None
            wait = self._due - time.monotonic()
            if wait > 0:
                return wait
            self._interrupt()
            # A statement that had not quite begun does not notice the first time.
            return _AGAIN


def _watch(deadline: weakref.ref[Deadline]) -> None:
    """Look as long as statements run; asleep, it keeps nothing that could not be closed meanwhile."""
    while (found := deadline()) is not None:
        wait = found.look()
        if wait is None:
            return
        del found
        time.sleep(wait)
