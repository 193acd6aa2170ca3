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
        if rows % _WORD:
            words[:, -1] &= np.uint64((1 << rows % _WORD) - 1)
        return cls(words, rows)

    @property
    def counts(self) -> Counts:
        """How many rows of each column show 1."""
        return np.bitwise_count(self.words).sum(axis=1, dtype=np.int64)

    @classmethod
    def positive(cls, scores: Counts, rng: np.random.Generator) -> Coins:
        """One column: the rows whose score is positive; a coin decides where it is 0."""
        won, tied = scores > 0, np.flatnonzero(scores == 0)
        won[tied] = rng.integers(0, 2, len(tied)).astype(bool)
        return cls(_packed(won), len(won))

    def scores(self, weights: NDArray[np.integer]) -> Counts:
        """Σ weight · (±1) for every row."""
        whole = np.asarray(weights, dtype=np.int64)
        return 2 * self._agreement(whole) - int(np.abs(whole).sum())

    def _agreement(self, weights: Counts) -> Counts:
        """Σ |weight| over the columns that a row agrees with, turned where the weight is negative."""
        total = np.zeros(self.rows, dtype=np.int64)
        size = np.abs(weights)
        for bit in range(int(size.max(initial=0)).bit_length()):
            used = np.flatnonzero(size >> bit & 1)
            total += _added(self.words, used, weights[used] < 0, self.rows) << bit
        return total


def _packed(bits: NDArray[np.bool_]) -> Words:
    width = -(-len(bits) // _WORD)
    padded = np.zeros(width * 8, dtype=np.uint8)
    little = np.packbits(bits, bitorder="little")
    padded[: len(little)] = little
    return padded.view("<u8").astype(np.uint64).reshape(1, width)


def _added(words: Words, used: NDArray[np.intp], turned: NDArray[np.bool_], rows: int) -> Counts:
    """In how many of these columns, turned where ``turned``, each row shows 1."""
    width = words.shape[1]
    step = max(3, _BLOCK // width)
    levels: list[list[Words]] = []  # words of weight 1, 2, 4, …, at most two lines of each
    for start in range(0, len(used), step):
        part = slice(start, start + step)
        lines = words[used[part]]
        lines ^= np.where(turned[part], _ALL, np.uint64(0))[:, None]
        _carry(levels, 0, lines)
    total = np.zeros(rows, dtype=np.int64)
    for level, lines_left in enumerate(levels):
        for line in lines_left:
            bits = np.unpackbits(line.astype("<u8").view(np.uint8), count=rows, bitorder="little")
            total += bits.astype(np.int64) << level
    return total


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
