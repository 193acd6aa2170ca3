"""How often a person may ask, counted in the account's book: every process counts the same, and so does the
next start."""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.ledger import Balance

RATE = 600
SECONDS = 30.0


class TooMany(HoldfastError):
    """More new questions in a minute than the policy allows; ``wait`` is in seconds."""

    def __init__(self, rate: int, wait: float) -> None:
        self.wait = wait
        super().__init__(f"At most {rate} new questions a minute; try again in {wait:.0f} s.")


def require_rate(rate: int, person: str, balance: Balance) -> None:
    """Refuse a question of someone who reserved as many as ``rate`` in the last minute.

    A time that lies further ahead than a minute was written before the clock went back, and does not count:
    nobody is locked out for longer than two minutes.
    """
    now, times = time.time(), balance.recent.get(person, ())
    lately = [at for at in times if abs(now - at) < balance.window] if len(times) >= rate else []
    if len(lately) >= rate:
        raise TooMany(rate, balance.window - max(0.0, now - min(lately)))
