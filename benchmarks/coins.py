"""Fair coins in packed words: sixty-four rows at a time, exactly.

A run of an attack needs the counts of its columns and, for the vote at the end, the rows themselves. A vote
is a sum of columns in every row; columns are added three at a time, word by word, as a circuit adds bits, so
a billion coins are drawn, turned and added in about a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

_WORD = 64
_BLOCK = 1 << 17  # words that are added at once: they stay near the processor
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Coins:
    """Columns of fair coins on ``rows`` rows: one line of words a column; bits beyond the rows are 0."""

    words: Words
    rows: int

    @classmethod
    def toss(cls, columns: int, rows: int, rng: np.random.Generator) -> Coins:
        """Fresh coins."""
        width = -(-rows // _WORD)
        words = rng.bit_generator.random_raw(columns * width).reshape(columns, width)
        return cls(_cut(words, rows), rows)

    @property
    def counts(self) -> Counts:
        """How many rows of each column show 1."""
        return np.bitwise_count(self.words).sum(axis=1, dtype=np.int64)

    def vote(self, weights: Counts, rng: np.random.Generator) -> Coins:
        """One column: the rows in which Σ weight · (±1) is positive; a coin decides where it is 0."""
        total = int(np.abs(weights).sum())
        above, tied = _compared(self._planes(weights), total // 2)
        if total % 2 == 0:
            above |= tied & rng.bit_generator.random_raw(len(tied))
        return Coins(_cut(above[None], self.rows), self.rows)

    def scores(self, weights: Counts) -> Counts:
        """Σ weight · (±1) for every row."""
        total = np.zeros(self.rows, dtype=np.int64)
        for level, line in enumerate(self._planes(weights)):
            bits = np.unpackbits(line.astype("<u8").view(np.uint8), count=self.rows, bitorder="little")
            total += bits.astype(np.int64) << level
        return 2 * total - int(np.abs(weights).sum())

    def _planes(self, weights: Counts) -> list[Words]:
        """Σ |weight| over the columns that a row agrees with, turned where the weight is negative, as binary
        digits of all rows at once: the line of ones, of twos, of fours, …"""
        size, width = np.abs(weights), self.words.shape[1]
        step = max(3, _BLOCK // width)
        levels: list[list[Words]] = [[]]
        for bit in range(int(size.max(initial=0)).bit_length()):
            used = np.flatnonzero(size >> bit & 1)
            for start in range(0, len(used), step):
                part = used[start : start + step]
                lines = self.words[part]
                lines ^= np.where(weights[part] < 0, _ALL, np.uint64(0))[:, None]
                _carry(levels, bit, lines)
        planes = []
        for level, lines in enumerate(levels):  # grows while it is walked through
            while len(lines) > 1:
                first, second = lines.pop(), lines.pop()
                lines.append(first ^ second)
                if level + 1 == len(levels):
                    levels.append([])
                levels[level + 1].append(first & second)
            planes.append(lines[0] if lines else np.zeros(width, dtype=np.uint64))
        return planes


def _cut(words: Words, rows: int) -> Words:
    """Nothing but 0 beyond the rows."""
    if rows % _WORD:
        words[:, -1] &= np.uint64((1 << rows % _WORD) - 1)
    return words


def _compared(planes: list[Words], limit: int) -> tuple[Words, Words]:
    """Where the number in the planes is above a limit, and where it is equal to it."""
    above, equal = np.zeros_like(planes[0]), np.full_like(planes[0], _ALL)
    for level in reversed(range(max(len(planes), limit.bit_length()))):
        line = planes[level] if level < len(planes) else np.zeros_like(above)
        if limit >> level & 1:
            equal &= line
        else:
            above |= equal & line
            equal &= ~line
    return above, equal


def _carry(levels: list[list[Words]], level: int, lines: Words) -> None:
    """Add lines of weight 2^level to what is there: three make one of that weight and one of the next."""
    while len(levels) <= level:
        levels.append([])
    kept = levels[level]
    lines = np.vstack([*[line[None] for line in kept], lines]) if kept else lines
    while len(lines) >= 3:
        third = len(lines) // 3
        a, b, c = lines[:third], lines[third : 2 * third], lines[2 * third : 3 * third]
        either = a ^ b
        carried = (a & b) | (c & either)
        lines = np.vstack([either ^ c, lines[3 * third :]])
        _carry(levels, level + 1, carried)
    levels[level] = list(lines)
