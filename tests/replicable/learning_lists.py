"""Many pairs of laboratories at once, through the law of their lists."""

from __future__ import annotations

from collections import Counter

import numpy as np

from holdfast.replicable._heavy import _list_design


def law_of(draw, blocks):
    """The kinds of lists among so many draws, each as a tuple of hypotheses, with their frequencies."""
    counts = Counter(tuple(sorted(draw())) for _ in range(blocks))
    return list(counts), np.array(list(counts.values())) / blocks


def pick(shares, cutoffs, orders):
    """For each row: the first hypothesis, in the row's order, whose share reaches the row's cutoff; or −1."""
    ranks = np.where(shares >= cutoffs[:, None], orders, np.inf)
    return np.where(np.isfinite(ranks).any(axis=1), ranks.argmin(axis=1), -1)


def run_pairs(kinds, chances, rng, pairs, *, eta, rho, beta, list_size, private=False):
    """Choices of two laboratories with shared (or private) coins on fresh lists, as indices of hypotheses."""
    plan = _list_design(eta, list_size, rho, beta)
    hypotheses = sorted({h for kind in kinds for h in kind})
    member = np.array([[h in kind for h in hypotheses] for kind in kinds], dtype=float)
    choices = []
    for side in range(2):
        if side == 0 or private:
            cutoffs = plan.low + (plan.high - plan.low) * rng.random(pairs)
            orders = rng.random((pairs, len(hypotheses)))
        shares = rng.multinomial(plan.rows, chances, pairs) @ member / plan.rows
        choices.append(pick(shares, cutoffs, orders))
    return hypotheses, choices
