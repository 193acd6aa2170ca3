"""Counts that the processes of one service share: how many connections each address has in all of them.

Every process writes to a row of its own and reads the others, so nobody waits for a lock, and the row of a
process that died is simply emptied.
"""

from __future__ import annotations

import hashlib
from typing import Any

_SLOTS = 8_192


class SharedCounts:
    """One process's view of the counts.

    Addresses share a row's slots by a keyed digest, so nobody can choose addresses that fall together. Two
    that do are counted together.

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
        self._numbers[self.row * _SLOTS + self._slot(address)] += change

    def total(self, address: str) -> int:
        """How many connections an address has, in all processes."""
        slot = self._slot(address)
        return sum(self._numbers[row * _SLOTS + slot] for row in range(self._rows))

    def clear(self, row: int) -> None:
        """Forget what a process counted that is gone."""
        self._numbers[row * _SLOTS : (row + 1) * _SLOTS] = [0] * _SLOTS

    def _slot(self, address: str) -> int:
        digest = hashlib.blake2s(address.encode(), key=self._key, digest_size=4).digest()
        return int.from_bytes(digest) % _SLOTS
