"""How often a person may ask.

New questions are counted in the account's book: every process counts the same, and so does the next start.
Previews and rejected requests write nothing, so they are counted in memory, which all workers of a machine
share. They charge nothing and tell nothing about the rows: this limit saves time, and no promise rests on it.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.ledger import Balance
from holdfast.server._shared_counts import SharedMoments

RATE = 600
SECONDS = 30.0
_MINUTE = 60.0
_shared_buckets: SharedMoments | None = None


def share_buckets(buckets: SharedMoments) -> None:
    """Count free requests together with other processes. A worker calls this once, before it serves."""
    global _shared_buckets
    _shared_buckets = buckets


class TooMany(HoldfastError):
    """More in a minute than is allowed; ``wait`` is in seconds."""

    def __init__(self, rate: int, wait: float, *, what: str = "new questions") -> None:
        self.wait = wait
        super().__init__(f"At most {rate} {what} a minute; try again in {wait:.0f} s.")


class FreeRate:
    """A bucket of tokens for each person: what is free takes some out, and time puts them back.

    A bucket is written down as the moment at which it is full again: one number, which processes can share.

    Args:
        per_minute: How many come back in a minute, and how many a full bucket has.
        buckets: Where the buckets are (default: those of :func:`share_buckets`, or else memory of its own).
    """

    def __init__(self, per_minute: float, buckets: SharedMoments | None = None) -> None:
        self._most = float(per_minute)
        self._full_again = buckets or _shared_buckets or SharedMoments()

    def require(self, person: str) -> None:
        """Refuse a person whose bucket is empty."""
        missing = (self._full_again.get(person) - time.monotonic()) * self._most / _MINUTE
        if missing > self._most - 1.0:
            wait = (missing - self._most + 1.0) * _MINUTE / self._most
            raise TooMany(int(self._most), wait, what="previews and rejected requests")

    def take(self, person: str, tokens: float) -> None:
        """Take tokens out; a bucket can owe some."""
        start = max(self._full_again.get(person), time.monotonic())
        self._full_again.set(person, start + tokens * _MINUTE / self._most)


def require_rate(rate: int, person: str, balance: Balance) -> None:
    """Refuse a question of someone who reserved as many as ``rate`` in the last minute.

    A time that lies further ahead than a minute was written before the clock went back, and does not count:
    nobody is locked out for longer than two minutes.
    """
    now, times = time.time(), balance.recent.get(person, ())
    lately = [at for at in times if abs(now - at) < balance.window] if len(times) >= rate else []
    if len(lately) >= rate:
        raise TooMany(rate, balance.window - max(0.0, now - min(lately)))
