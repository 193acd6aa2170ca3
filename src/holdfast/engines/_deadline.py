"""A limit on how long one statement may run, measured by what the statement could do and not by the clock.

A clock also runs while the process is stopped, while other statements use its cores, and while the machine is
busy with something else. A question that was refused for that would be paid for because of the machine. So
time is counted in short steps, and a step counts for as much of it as the process could really use.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread

__all__ = ["Deadline"]

_AGAIN = 0.05
# A step is this share of the limit, within these limits in seconds.
_SHARE_OF_LIMIT = 0.1
_SHORTEST, _LONGEST = 0.01, 0.25
# A step that took longer than this many steps was a pause of the process: so many are counted and no more.
_MOST_STEPS = 2.0
# A statement that waits for a disk, or for a core, uses little of a step. It still counts for this much, so
# that every statement ends: after four times its limit at most, pauses aside.
_LEAST = 0.25


class Deadline:
    """Calls ``interrupt`` when a statement has used ``seconds``, and again until it ends.

    Time counts from the start of the statement; nobody's wait for it counts. Each short step counts for the
    share of a core that the process could give to each statement that ran, at least a quarter and at most
    all of it. A pause of the whole process (SIGSTOP, a suspended machine) does not count. Where the statement
    runs in another process (``elsewhere``), steps count in full, and only pauses are left out.

    Guarantee: ``interrupt`` is called only while a statement runs that is late, so no other is stopped in its
    place. One thread watches as long as statements come; to start one for each would take longer than a small
    statement.
    """

    def __init__(self, seconds: float, interrupt: Callable[[], None], *, elsewhere: bool = False) -> None:
        self.seconds = seconds
        self._interrupt = interrupt
        self._elsewhere = elsewhere
        self._step = min(max(seconds * _SHARE_OF_LIMIT, _SHORTEST), _LONGEST)
        self._lock = Lock()
        self._runs = False
        self._used = 0.0
        self._looked = (0.0, 0.0)  # the clock and the CPU time at the last look
        self._watched = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run one statement within the limit. Statements must not overlap."""
        with self._lock:
            self._runs, self._used, self._looked = True, 0.0, (time.monotonic(), time.process_time())
            if not self._watched:
                self._watched = True
                Thread(target=_watch, args=[weakref.ref(self)], daemon=True).start()
        _running.add(id(self))
        try:
            yield
        finally:
            _running.discard(id(self))
            with self._lock:
                self._runs = False

    def look(self) -> float | None:
        """Interrupt the statement if it is late; returns when to look again, None if nothing runs."""
        with self._lock:
            if not self._runs:
                self._watched = False
                return None
            self._count()
            left = self.seconds - self._used
            if left > 0:
                return min(left, self._step)
            self._interrupt()
            # A statement that had not quite begun does not notice the first time.
            return _AGAIN

    def _count(self) -> None:
        """Add what the statement has used since the last look."""
        now = time.monotonic(), time.process_time()
        passed, computed = now[0] - self._looked[0], now[1] - self._looked[1]
        self._looked = now
        if passed <= 0:
            return
        share = 1.0 if self._elsewhere else computed / (passed * max(1, len(_running)))
        counted = min(passed, _MOST_STEPS * self._step)
        self._used += counted * min(1.0, max(_LEAST, share))


# The limits whose statements run in this process now.
_running: set[int] = set()


def _watch(deadline: weakref.ref[Deadline]) -> None:
    """Look as long as statements run; asleep, it keeps nothing that could not be closed meanwhile."""
    while (watched := deadline()) is not None:
        wait = watched.look()
        if wait is None:
            return
        del watched
        time.sleep(wait)
