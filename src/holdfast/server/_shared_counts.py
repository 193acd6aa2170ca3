"""What the processes of one service count together, in shared memory and without locks: the connections of
each address, and the free requests of each person.

Names share slots by a keyed digest, so nobody can choose names that fall together. Two that do are counted
together.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from typing import Any

_SLOTS = 8_192


class SharedCounts:
    """One process's view of how many connections each address has in all of them.

    Every process writes to a row of its own and reads the others. The row of a process that died is emptied.

    Args:
        numbers: Whole numbers in shared memory, :meth:`size` of them.
        rows: How many processes there are.
        key: Random bytes, the same in all processes.
    """

    def __init__(self, numbers: Any, rows: int, key: bytes) -> None:
        self._numbers, self._rows, self._key = numbers, rows, key
        self.row = 0

    @staticmethod
    def size(rows: int) -> int:
        """How many numbers so many processes need."""
        return rows * _SLOTS

    def add(self, address: str, change: int) -> None:
        """Count a connection of this process that came or went."""
        self._numbers[self.row * _SLOTS + _slot(address, self._key)] += change

    def total(self, address: str) -> int:
        """How many connections an address has, in all processes."""
        slot = _slot(address, self._key)
        return sum(self._numbers[row * _SLOTS + slot] for row in range(self._rows))

    def clear(self, row: int) -> None:
        """Forget what a process counted that is gone."""
        self._numbers[row * _SLOTS : (row + 1) * _SLOTS] = [0] * _SLOTS


class SharedMoments:
    """A moment for each person, by the clock that all processes of a machine have (``time.monotonic``).

    Two processes that change the same moment at once can lose one of the two changes.

    Args:
        numbers: Floating point numbers in shared memory, :meth:`size` of them (default: memory of this
            process alone).
        key: Random bytes, the same in all processes.
    """

    def __init__(self, numbers: Any = None, key: bytes | None = None) -> None:
        self._numbers = array("d", bytes(8 * self.size())) if numbers is None else numbers
        self._key = secrets.token_bytes(16) if key is None else key

    @staticmethod
    def size() -> int:
        """How many numbers are needed."""
        return _SLOTS

    def get(self, person: str) -> float:
        """The moment of a person; 0 at first."""
        return float(self._numbers[_slot(person, self._key)])

    def set(self, person: str, moment: float) -> None:
        """Change the moment of a person, in all processes."""
        self._numbers[_slot(person, self._key)] = moment


def _slot(name: str, key: bytes) -> int:
    digest = hashlib.blake2s(name.encode(), key=key, digest_size=4).digest()
    return int.from_bytes(digest) % _SLOTS
