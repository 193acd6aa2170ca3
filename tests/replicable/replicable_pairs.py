"""What the tests of replicable statistics share: many pairs of samples at once, and exact binomial limits."""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

PAIRS = 10_000


def pairs_of_counts(rng, n, law, pairs=PAIRS):
    """Counts of two independent samples of ``n`` rows over a finite domain, for each of many pairs."""
    law = np.asarray(law, dtype=float)
    law = law / law.sum()
    return rng.multinomial(n, law, size=pairs), rng.multinomial(n, law, size=pairs)


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
