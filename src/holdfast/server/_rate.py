"""How often a person may ask.

New questions are counted in the account's book: every process counts the same, and so does the next start.
Previews and rejected requests write nothing, so they are counted in memory, by each process for itself. They
charge nothing and tell nothing about the rows: this limit saves time, and no promise rests on it.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.ledger import Balance

RATE = 600
SECONDS = 30.0
_MOST_BUCKETS = 10_000


class TooMany(HoldfastError):
    """More in a minute than is allowed; ``wait`` is in seconds."""

    def __init__(self, rate: int, wait: float, *, what: str = "new questions") -> None:
        self.wait = wait
        super().__init__(f"At most {rate} {what} a minute; try again in {wait:.0f} s.")


class FreeRate:
    """A bucket of tokens for each person: what is free takes some out, and time puts them back.

    Args:
        per_minute: How many come back in a minute, and how many a full bucket has.
    """

    def __init__(self, per_minute: float) -> None:
        self._most = float(per_minute)
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was counted

    def require(self, person: str) -> None:
        """Refuse a person whose bucket is empty."""
        left = self._left(person, time.monotonic())
        if left < 1.0:
            wait = (1.0 - left) * 60.0 / self._most
            raise TooMany(int(self._most), wait, what="previews and rejected requests")

    def take(self, person: str, tokens: float) -> None:
        """Take tokens out; a bucket can owe some."""
        now = time.monotonic()
        self._buckets[person] = self._left(person, now) - tokens, now
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets = {who: bucket for who, bucket in self._buckets.items() if now - bucket[1] < 60.0}

    def _left(self, person: str, now: float) -> float:
        left, counted = self._buckets.get(person, (self._most, now))
        return min(self._most, left + (now - counted) * self._most / 60.0)


def require_rate(rate: int, person: str, balance: Balance) -> None:
    """Refuse a question of someone who reserved as many as ``rate`` in the last minute.

    A time that lies further ahead than a minute was written before the clock went back, and does not count:
    nobody is locked out for longer than two minutes.
    """
    now, times = time.time(), balance.recent.get(person, ())
    lately = [at for at in times if abs(now - at) < balance.window] if len(times) >= rate else []
    if len(lately) >= rate:
        raise TooMany(rate, balance.window - max(0.0, now - min(lately)))
