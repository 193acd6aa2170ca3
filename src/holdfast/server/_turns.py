"""Turns: how many requests run at a time, in all and for each dataset, board and gate."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.errors import HoldfastError
from holdfast.server._limits import Limits


class Busy(HoldfastError):
    """Too many requests run or wait already; ``wait`` says after how many seconds to try again."""

    def __init__(self, message: str, wait: float) -> None:
        self.wait = wait
        super().__init__(message)


class _Place:
    """The requests about one dataset, board or gate."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[tuple[str, asyncio.Future[None]]] = deque()


class Turns:
    """Hands out turns on the event loop, so that no thread waits for one.

    Guarantee: at most ``running_per_place`` requests about one place run at a time, whatever the others do,
    and ``running`` in all. A place with slow requests leaves the turns of all other places alone as long as
    fewer than ``running / running_per_place`` places are slow. One person holds at most half of the places in
    a queue, so that another one can still get in line.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running = 0
        self._places: dict[str, _Place] = {}

    @asynccontextmanager
    async def turn(self, name: str, person: str) -> AsyncIterator[None]:
        """Wait for a turn at a place and hold it. Raises :class:`Busy` where the queue is full."""
        place = self._places.setdefault(name, _Place())
        try:
            await self._begin(place, person)
            try:
                yield
            finally:
                place.running -= 1
                self._running -= 1
                self._wake()
        finally:
            if not place.running and not place.waiting:
                self._places.pop(name, None)

    async def _begin(self, place: _Place, person: str) -> None:
        limits = self._limits
        if place.running < limits.running_per_place and self._running < limits.running and not place.waiting:
            place.running += 1
            self._running += 1
            return
        own = sum(holder == person for holder, _ in place.waiting)
        if len(place.waiting) >= limits.waiting_per_place or own >= max(1, limits.waiting_per_place // 2):
            raise Busy("Too many requests about this wait already. Try again in a moment.", 1.0)
        turn = asyncio.get_running_loop().create_future()
        entry = (person, turn)
        place.waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                place.running -= 1  # The turn came at the same moment; the next one takes it.
                self._running -= 1
                self._wake()
            else:
                place.waiting.remove(entry)
            raise

    def _wake(self) -> None:
        """Give free turns to whoever waits, one to each place in order."""
        limits = self._limits
        for place in list(self._places.values()):
            if self._running >= limits.running:
                return
            while place.waiting and place.running < limits.running_per_place:
                _, turn = place.waiting.popleft()
                if not turn.done():
                    place.running += 1
                    self._running += 1
                    turn.set_result(None)
                    break
