"""Whether a table has rows of another one again: decided from keyed digests of rows, and so that independent
tables are let in whatever their laws are (``docs/theory/epochs.md``, "Are the rows new?")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.uint64]

# Independent tables are taken for copies with at most this probability, in each comparison.
MISTAKEN = 1e-9
# Copies are looked for from so large a share of the smaller table on.
LEAST_SHARE = 0.1
# About so many rows of a table are kept: those with the least digests, which are a random sample of them.
MOST_KEPT = 8_192

_ALL = 2**64 - 1
_UNIQUE = math.exp(-1)  # No row occurs exactly once in an independent table with a greater probability.


@dataclass(frozen=True)
class Sketch:
    """The different rows of a table of ``rows`` rows by their digests, in order, and how often each occurs (3
    for more often); those with digests up to ``below`` only."""

    rows: int
    digests: Digests
    counts: NDArray[np.uint8]
    below: int = _ALL

    @classmethod
    def of(cls, digests: Digests) -> Sketch:
        """All rows of a table."""
        different, counts = np.unique(digests, return_counts=True)
        return cls(len(digests), different, np.minimum(counts, 3).astype(np.uint8))

    def sampled(self, most: int = MOST_KEPT) -> Sketch:
        """About so many rows at most, those with the least digests: tables that share rows keep the same.
        Which digests are kept follows from the number of rows alone."""
        return self if self.rows <= most else self.up_to((_ALL + 1) * most // self.rows - 1)

    def up_to(self, below: int) -> Sketch:
        """The rows with digests up to ``below``."""
        if below >= self.below:
            return self
        kept = int(np.searchsorted(self.digests, np.uint64(below), side="right"))
        return Sketch(self.rows, self.digests[:kept], self.counts[:kept], below)

    def again_in(self, other: Sketch) -> bool:
        """Whether another table has rows of this one again.

        Guarantee: if the rows of both are independent draws, each table from a law of its own, True has
        probability at most 3 · ``MISTAKEN``.
        """
        below = min(self.below, other.below)
        old, new = self.up_to(below), other.up_to(below)
        _, in_old, in_new = np.intersect1d(old.digests, new.digests, assume_unique=True, return_indices=True)
        once_in_old, once_in_new = old.counts[in_old] == 1, new.counts[in_new] == 1
        both = int((once_in_old & once_in_new).sum())
        twice_here = int((old.counts == 2).sum() - (old.counts[in_old] == 2).sum())
        twice_there = int((new.counts == 2).sum() - (new.counts[in_new] == 2).sum())
        if both >= LEAST_SHARE * min(len(old.digests), len(new.digests)) and _too_many(
            both, both + twice_here + twice_there, 0.5, old.rows, new.rows
        ):
            return True
        return _too_many(int(once_in_old.sum()), len(new.digests), _UNIQUE, old.rows) or _too_many(
            int(once_in_new.sum()), len(old.digests), _UNIQUE, new.rows
        )


def numbered_again(old: Sketch, new: Sketch, commonest: tuple[float, float]) -> bool:
    """The same for tables whose rows are numbered, each by itself: two rows with one number are equal where
    the other columns are, which has at most the probability of their commonest value.

    ``commonest`` are the shares that the commonest values have in both tables.
    """
    below = min(old.below, new.below)
    old, new = old.up_to(below), new.up_to(below)
    hits = len(np.intersect1d(old.digests, new.digests, assume_unique=True))
    chances = [
        min(1.0, share + math.sqrt(-math.log(MISTAKEN) / (2 * table.rows)))
        for share, table in zip(commonest, (old, new), strict=True)
    ]
    return _too_many(hits, len(new.digests), chances[0]) or _too_many(hits, len(old.digests), chances[1])


def commonest_share(digests: Digests) -> float:
    """The share of the rows that the commonest row has."""
    return float(np.unique(digests, return_counts=True)[1].max() / len(digests))


def _too_many(hits: int, tries: int, chance: float, *tables: int) -> bool:
    """Whether so many hits have probability at most ``MISTAKEN`` where each try hits with probability at most
    ``chance``, independently if the sizes of the tables were Poisson numbers; that they are fixed makes any
    event likelier by at most e √rows for each table."""
    from scipy import special

    if not hits:
        return False
    fixed_sizes = math.prod(math.e * math.sqrt(rows) for rows in tables)
    return bool(special.betainc(hits, tries - hits + 1, chance) * fixed_sizes <= MISTAKEN)


def telling(digests: Digests) -> bool:
    """Whether rows in this order tell their table from others: an independent table of any law begins with
    the same rows in the same order with probability at most exp(−rows · entropy), by Gibbs' inequality."""
    _, counts = np.unique(digests, return_counts=True)
    nats = float((counts * np.log(len(digests) / counts)).sum())
    return nats >= -math.log(MISTAKEN)
