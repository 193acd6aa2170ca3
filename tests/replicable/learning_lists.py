"""Many pairs of laboratories at once, through the law of their lists."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from holdfast.replicable import Tape, list_heavy_hitter, sample_size


def law_of(draw, blocks):
    """The kinds of lists among so many draws, each as a tuple of hypotheses, with their frequencies."""
    counts = Counter(tuple(sorted(draw())) for _ in range(blocks))
    return list(counts), np.array(list(counts.values())) / blocks


def pick(shares, cutoffs, orders):
    """For each row: the first hypothesis, in the row's order, whose share reaches the row's cutoff; or −1."""
    ranks = np.where(shares >= cutoffs[:, None], orders, np.inf)
    return np.where(np.isfinite(ranks).any(axis=1), ranks.argmin(axis=1), -1)


@cache
def band_of(eta, rho, beta, list_size):
    """How many lists the promise needs, and between which shares the tape draws a cutoff: two results, which
    promise nothing, show where."""
    ask = {"eta": eta, "rho": rho, "beta": beta, "list_size": list_size}
    drawn, cutoffs = [], []
    for tape in (Tape("first"), Tape("second")):
        result = list_heavy_hitter([[0]], **ask, tape=tape, best_effort=True)
        drawn.append(tape.branch("list_heavy_hitter").uniforms(1)[0])
        cutoffs.append(result.details["cutoff"])
    width = (cutoffs[1] - cutoffs[0]) / (drawn[1] - drawn[0])
    return sample_size("list_heavy_hitter", **ask), cutoffs[0] - width * drawn[0], width


def run_pairs(kinds, chances, rng, pairs, *, eta, rho, beta, list_size, private=False):
    """Choices of two laboratories with shared (or private) coins on fresh lists, as indices of hypotheses."""
    rows, low, width = band_of(eta, rho, beta, list_size)
    hypotheses = sorted({h for kind in kinds for h in kind})
    member = np.array([[h in kind for h in hypotheses] for kind in kinds], dtype=float)
    choices = []
    for side in range(2):
        if side == 0 or private:
            cutoffs = low + width * rng.random(pairs)
            orders = rng.random((pairs, len(hypotheses)))
        shares = rng.multinomial(rows, chances, pairs) @ member / rows
        choices.append(pick(shares, cutoffs, orders))
    return hypotheses, choices
