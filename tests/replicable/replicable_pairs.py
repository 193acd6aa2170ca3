"""What the tests of replicable statistics share: many pairs of samples at once, and exact binomial limits."""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from holdfast.replicable import Tape

PAIRS = 10_000


def pairs_of_counts(rng, n, law, pairs=PAIRS):
    """Counts of two independent samples of ``n`` rows over a finite domain, for each of many pairs."""
    law = np.asarray(law, dtype=float)
    law = law / law.sum()
    return rng.multinomial(n, law, size=pairs), rng.multinomial(n, law, size=pairs)


def rigged(uniform):
    """A tape whose uniform numbers are all this one, on every branch: what a tape decides is then known."""

    class Rigged(Tape):
        def uniforms(self, count, *, start=0):
            return np.full(count, uniform)

    return Rigged("rigged")


class CountThreshold:
    """Thresholds among ``low`` … ``high`` for a count of ``trials``, picked by uniform coins, as the lemma of
    docs/theory/replicable-estimation.md has them: ⌊(n+1) sin²θ⌋ − 1 for an even θ."""

    def __init__(self, trials, low, high):
        self.trials, self.low, self.high = trials, low, high
        self.ends = [math.asin(math.sqrt(i / (trials + 1))) for i in (low + 1, high + 2)]

    def __call__(self, coins):
        angle = self.ends[0] + (self.ends[1] - self.ends[0]) * coins
        drawn = np.floor((self.trials + 1) * np.sin(angle) ** 2).astype(int) - 1
        return np.clip(drawn, self.low, self.high)


def divergence(share, truth):
    """kl(share ‖ truth) of two coins, in nats."""
    return float(special.rel_entr(share, truth) + special.rel_entr(1.0 - share, 1.0 - truth))


def share_gap(n, variance):
    """How far the shares of two samples lie apart in expectation, at most: a walk, or the fair coin's."""
    walk = math.sqrt((4.0 * variance + 2.0 / n) / (math.pi * n))
    return min(walk, 1.0 / math.sqrt(math.pi * (n + 0.25)))


def not_above(count, trials, limit):
    """Whether the lower 99.9 % limit of a measured probability is at most ``limit``."""
    return stats.binomtest(int(count), trials, limit, "greater").pvalue >= 0.001


def clearly_below(count, trials, limit):
    """Whether even the upper 99.9 % limit is at most ``limit``."""
    return stats.binomtest(int(count), trials, limit, "less").pvalue <= 0.001


def clearly_above(count, trials, limit):
    """Whether the lower 99.9 % limit is above ``limit``."""
    return not not_above(count, trials, limit)
