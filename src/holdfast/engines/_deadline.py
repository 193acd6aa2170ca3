"""A limit on how long one statement may run."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread

__all__ = ["Deadline"]

_AGAIN = 0.05


class Deadline:
    """While it is entered, ``interrupt`` is called once ``seconds`` have passed, and again until it is left.

    Guarantee: ``interrupt`` is never called after it was left, so no later statement is stopped in place of
    this one.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], None]) -> None:
        self._seconds, self._interrupt = seconds, interrupt
        self._left = Event()
        self._lock = Lock()

    def __enter__(self) -> None:
        Thread(target=self._watch, daemon=True, name="holdfast deadline").start()

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._left.set()

    def _watch(self) -> None:
        wait = self._seconds
        while not self._left.wait(wait):
            with self._lock:
                if not self._left.is_set():
                    self._interrupt()
            # A statement that had not quite begun does not notice the first time.
            wait = _AGAIN
