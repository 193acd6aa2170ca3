"""Whose turn it is: the questions of one process pass through its account one after the other.

A question that is prepared while another is being read would have to be answered as if that one cost the most
it can; so they wait. Who has the turn sees who waits, and can reserve for the next in its own last
transaction, or answer several together with its own question; those go without a turn then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, get_ident
from typing import Any


@dataclass(eq=False)
class Turn:
    """One place in the queue; ``reserved`` is what whoever was before did for it already, ``answered`` what
    they answered for it."""

    asked: Any = None
    reserved: Any = None
    answered: Any = None
    begun: Event = field(default_factory=Event)
    thread: int = field(default_factory=get_ident)


class Turns:
    """A queue: first come, first served. Who has the turn may take further ones inside it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[Turn] = deque()
        self._holder: int | None = None

    @contextmanager
    def take(self, asked: Any = None) -> Iterator[Turn]:
        """Wait for a turn, and keep it until the block ends however it ends."""
        turn = Turn(asked)
        if self._holder == turn.thread:
            yield turn
            return
        with self._lock:
            self._waiting.append(turn)
            if self._holder is None:
                self._begin_next()
        try:
            turn.begun.wait()
            yield turn
        finally:
            self._end(turn)

    def next(self) -> Turn | None:
        """The one who has waited longest, and goes on waiting."""
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def waiting(self) -> list[Turn]:
        """Everyone who waits, in order."""
        with self._lock:
            return list(self._waiting)

    def answer(self, turn: Turn, answered: Any) -> None:
        """Let someone who waits go with what was answered for them, unless they have left."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                turn.answered = answered
                turn.begun.set()

    def _end(self, turn: Turn) -> None:
        with self._lock:
            if turn.answered is not None:
                return  # It went without a turn.
            if turn.begun.is_set():
                self._begin_next()
            else:
                self._waiting.remove(turn)  # Interrupted before it began.

    def _begin_next(self) -> None:
        turn = self._waiting.popleft() if self._waiting else None
        self._holder = None if turn is None else turn.thread
        if turn is not None:
            turn.begun.set()
